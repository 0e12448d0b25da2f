"""Subjects of the parity score: typical programs as lowered modules, with arguments.

The programs are loops, gradients of loops, networks, quantising programs, recurrences, networks of low precision, and
random programs.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import tenferro as tnf
from lowering import import_stablehlo, lower_to_stablehlo
from tenferro.errors import UnsupportedError
from tenferro.program import GraphProgram
from tenferro.types import flatten
from tools.parity_score.faults import Edit
from tools.parity_score.references import outputs, perturbed, wide_outputs
from xla_peer.fuzz.program import random_case

__all__ = ["Subject", "subjects"]

LOOPS = Path(__file__).parents[2] / "benchmarks" / "loops"
RANDOM_PROGRAMS = 150
PERTURBED = 3
"""Number of runs on perturbed arguments. They show how much rounding may change the outputs of the original module."""
LARGEST = 1 << 16
"""Maximum number of characters of a module. XLA takes more than a second to compile a larger module."""


@dataclass(frozen=True)
class Subject:
    """A module and its arguments.

    Attributes:
        kind: loop, gradient, network, quantising, recurrence, fewer bits or random.
        rewrites: modules with the same meaning that `tools.parity_score.rewrites` cannot derive from the text.
    """

    name: str
    kind: str
    text: str
    leaves: tuple[Any, ...]
    rewrites: tuple[Edit, ...] = ()

    @cached_property
    def program(self) -> GraphProgram:
        """Program that results from importing the module."""
        return import_stablehlo(self.text, trusted=True)

    @cached_property
    def results(self) -> list[Any]:
        """Outputs of the module, computed in its own dtypes."""
        return outputs(self.text, self.leaves)

    @cached_property
    def wide_results(self) -> list[Any]:
        """Outputs of the module, computed in float64."""
        return wide_outputs(self.text, self.leaves)

    @cached_property
    def perturbed_results(self) -> list[list[Any]]:
        """Outputs of the module for each set of perturbed arguments, computed in float64."""
        return [wide_outputs(self.text, perturbed(self.leaves, seed)) for seed in range(PERTURBED)]


def subjects(of: str = "") -> list[Subject]:
    """Return the subjects of the kind `of`, or all subjects; the order is the same in every run."""
    every = {
        "loop gradient": _loops,
        "network gradient": _networks,
        "random": _random,
        "quantising": _quantising,
        "recurrence": _recurrences,
        "fewer bits": _of_fewer_bits,
    }
    chosen = [make for kinds, make in every.items() if of in kinds]
    return [
        subject
        for make in chosen
        for subject in make()
        if len(subject.text) <= LARGEST and of in ("", subject.kind)
    ]


def _subject(
    name: str, kind: str, fn: Callable[..., Any], *arguments: Any, precision: str = "highest"
) -> Iterator[Subject]:
    try:
        program = tnf.compile(fn, *arguments)
        text = lower_to_stablehlo(program, linalg="inline", precision=precision).plain_text
    except UnsupportedError:  # because some linear algebra cannot be written inline
        return
    leaves = tuple([np.asarray(x) for x in flatten(arguments)[0]])
    yield Subject(name, kind, text, leaves)


def _loops() -> Iterator[Subject]:
    sys.path.insert(0, str(LOOPS))
    for kernel in importlib.import_module("kernels").KERNELS:
        function, arrays = kernel.of_arrays(tnf, kernel.arguments(kernel.small))
        yield from _subject(kernel.name, "loop", function, *arrays)
        if kernel.gradient is not None:
            loss, arrays = kernel.loss(tnf, kernel.arguments(kernel.small))
            gradient = tnf.grad(loss, kernel.gradient)
            yield from _subject(f"{kernel.name}, gradient", "gradient", gradient, *arrays)


def _networks() -> Iterator[Subject]:
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float64"):
        normal = lambda *shape, dtype=dtype: rng.standard_normal(shape).astype(dtype)
        networks: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
            "perceptron": (_perceptron, (normal(5, 8), normal(8, 7), normal(7, 3), normal(7))),
            "attention": (_attention, (normal(6, 8), normal(8, 4), normal(8, 4), normal(8, 5))),
            "convolution": (_convolution, (normal(2, 3, 8, 8), normal(4, 3, 3, 3), normal(256, 3))),
            "normalised": (_normalised, (normal(4, 9), normal(9), normal(9))),
            "recurrent": (_recurrent, (normal(5, 4), normal(4, 4), normal(4, 4))),
        }
        for name, (fn, arguments) in networks.items():
            yield from _subject(f"{name} {dtype}", "network", fn, *arguments)
            loss = lambda *xs, fn=fn: tnf.sum(fn(*xs) ** 2)
            every = tuple(range(len(arguments)))
            gradient = tnf.value_and_grad(loss, every)
            yield from _subject(f"{name} {dtype}, gradient", "gradient", gradient, *arguments)


def _perceptron(x: Any, w1: Any, w2: Any, b: Any) -> Any:
    return tnf.softmax(tnf.tanh(x @ w1 + b) @ w2, axis=-1)


def _attention(x: Any, wq: Any, wk: Any, wv: Any) -> Any:
    q, k, v = x @ wq, x @ wk, x @ wv
    return tnf.softmax(q @ k.T / 2.0, axis=-1) @ v


def _convolution(x: Any, w: Any, v: Any) -> Any:
    h = tnf.maximum(tnf.nn.conv(x, w, padding="SAME", data_format="NCHW"), 0)
    return tnf.reshape(h, (2, -1)) @ v


def _normalised(x: Any, g: Any, b: Any) -> Any:
    d = x - tnf.mean(x, axis=1, keepdims=True)
    return d / tnf.sqrt(tnf.mean(d * d, axis=1, keepdims=True) + 1e-5) * g + b


def _recurrent(xs: Any, w: Any, u: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = tnf.tanh(x @ w + h @ u)
        return h, tnf.sum(h)

    return tnf.scan(step, xs[0] * 0, xs)[1]


def _quantising() -> Iterator[Subject]:
    rng = np.random.default_rng(1)
    for dtype in ("float32", "float64"):
        x, w = (rng.standard_normal(shape).astype(dtype) for shape in ((6, 8), (8, 5)))
        # Some elements are one rounding away from a tie between two quantised values. Two correct programs may
        # quantise them differently.
        tied = np.arctanh((np.arange(-24.0, 24) + 0.5 * (np.arange(48) % 7 == 0)) / 40)
        tied = tied.reshape(6, 8).astype(dtype)
        for name, array in (("", x), (", ties", tied)):
            for fn in (_clipped_sum, _scaled, _integer_sum):
                words = fn.__name__.strip("_").replace("_", " ")
                yield from _subject(f"{words} {dtype}{name}", "quantising", fn, array)
            yield from _subject(f"product {dtype}{name}", "quantising", _int8_product, array, w)


def _clipped_sum(x: Any) -> Any:
    return tnf.sum(tnf.minimum(tnf.round(tnf.tanh(x) * 40), 30), axis=1) * 0.025


def _scaled(x: Any) -> Any:
    scale = tnf.max(tnf.abs(tnf.tanh(x))) / 127.3
    return tnf.clip(tnf.round(tnf.tanh(x) / scale), -127, 127) * scale


def _integer_sum(x: Any) -> Any:
    return tnf.sum(tnf.clip(tnf.round(tnf.tanh(x) * 40), -28, 28).astype("int32"), axis=0)


def _int8_product(x: Any, w: Any) -> Any:
    q, v = (tnf.clip(tnf.round(tnf.tanh(y) * 40), -127, 127) for y in (x, w))
    return (q @ v) * 0.000625


def _recurrences() -> Iterator[Subject]:
    rng = np.random.default_rng(2)
    for dtype in ("float32", "float64"):
        for length in (20, 60):
            a = rng.uniform(-1, 1, (length, 3)).astype(dtype)
            b = rng.standard_normal((length, 3)).astype(dtype)
            for name, step, combine in RECURRENCES:
                loop = lambda a, b, step=step: _by_loop(step, a, b)
                tree = lambda a, b, combine=combine: _by_halves(combine, a, b)[1]
                text = lower_to_stablehlo(tnf.compile(tree, a, b)).plain_text
                edit = Edit("associative scan", 0, text)
                for subject in _subject(f"{name} {dtype} {length}", "recurrence", loop, a, b):
                    yield replace(subject, rewrites=(edit,))


def _by_loop(step: Callable[..., Any], a: Any, b: Any) -> Any:
    def body(carry: Any, each: Any) -> Any:
        carry = step(carry, *each)
        return carry, carry

    first = b[0]
    rest = tnf.scan(body, first, (a[1:], b[1:]))[1]
    return tnf.concatenate([first[None], rest])


def _by_halves(combine: Callable[..., Any], a: Any, b: Any) -> tuple[Any, Any]:
    """Compute all prefixes of a recurrence by recursion on the halves of the arrays, like an associative scan."""
    if a.shape[0] == 1:
        return a, b
    half = a.shape[0] // 2
    (a0, b0), (a1, b1) = (
        _by_halves(combine, *part) for part in ((a[:half], b[:half]), (a[half:], b[half:]))
    )
    a1, b1 = combine(a0[-1:], b0[-1:], a1, b1)
    return tnf.concatenate([a0, a1]), tnf.concatenate([b0, b1])


RECURRENCES = (
    ("affine", lambda c, a, b: a * c + b, lambda a0, b0, a1, b1: (a0 * a1, a1 * b0 + b1)),
    ("sums", lambda c, a, b: c + b, lambda a0, b0, a1, b1: (a1, b0 + b1)),
    ("products", lambda c, a, b: c * b, lambda a0, b0, a1, b1: (a1, b0 * b1)),
)
"""Recurrences. Each has a name, a function for one step, and a function that composes two steps."""


def _of_fewer_bits() -> Iterator[Subject]:
    rng = np.random.default_rng(3)
    normal = lambda *shape: rng.standard_normal(shape).astype("float32")
    for precision in ("default", "high"):
        for name, fn, arguments in (
            ("product", lambda x, w: x @ w, (normal(16, 64), normal(64, 8))),
            ("perceptron", _perceptron, (normal(9, 32), normal(32, 17), normal(17, 5), normal(17))),
        ):
            yield from _subject(
                f"{name}, {precision}", "fewer bits", fn, *arguments, precision=precision
            )


def _random() -> Iterator[Subject]:
    for number in range(RANDOM_PROGRAMS):
        case = random_case(2026, number)
        text = lower_to_stablehlo(case.program).plain_text
        yield Subject(f"random {number}", "random", text, case.leaves)
