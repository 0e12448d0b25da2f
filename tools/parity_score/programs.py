"""Lowered modules of programs that people write, with arguments: loops, their gradients, networks, and random ones."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tenferro as tnf
from lowering import lower_to_stablehlo
from tenferro.errors import UnsupportedError
from tenferro.types import flatten
from xla_peer.fuzz.program import random_case

__all__ = ["Subject", "subjects"]

LOOPS = Path(__file__).parents[2] / "benchmarks" / "loops"
RANDOM_PROGRAMS = 150
LARGEST = 1 << 16
"""Characters of a module: larger ones take more than a second to compile."""


@dataclass(frozen=True)
class Subject:
    """A module and its arguments.

    Attributes:
        kind: loop, gradient, network or random.
    """

    name: str
    kind: str
    text: str
    leaves: tuple[Any, ...]


def subjects() -> list[Subject]:
    """Return the subjects, in the same order in every run."""
    return [
        subject for subject in (*_loops(), *_networks(), *_random()) if len(subject.text) <= LARGEST
    ]


def _subject(name: str, kind: str, fn: Callable[..., Any], *arguments: Any) -> Iterator[Subject]:
    try:
        text = lower_to_stablehlo(tnf.compile(fn, *arguments), linalg="inline").plain_text
    except UnsupportedError:  # because not all linear algebra is written out
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


def _random() -> Iterator[Subject]:
    for number in range(RANDOM_PROGRAMS):
        case = random_case(2026, number)
        text = lower_to_stablehlo(case.program).plain_text
        yield Subject(f"random {number}", "random", text, case.leaves)
