"""Test cases that `tenferro watch` runs: modules with arguments and right results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tenferro as tnf
from lowering import import_stablehlo, lower_to_stablehlo
from tenferro.program import GraphProgram
from tenferro.types import flatten, unflatten
from xla_peer.hall import REPORTS, Report
from xla_peer.parity.iterations import native_outputs

__all__ = ["Case", "hall_cases", "module_case", "ordinary_cases"]

RTOL = 1e-6
"""Maximum relative difference from the right values of a public report that rounding explains."""


@dataclass(frozen=True)
class Case:
    """Test case for compilers: a module, its arguments and its right results.

    Attributes:
        name: name of the case, unique in a table.
        words: a description of the fault or the computation.
        program: the module as a program.
        text: the StableHLO text that compilers receive.
        arrays: the arguments of `main`.
        expected: the right results, computed from the definitions of the operations; None if the results must equal
            the native results bit by bit.
        link: the address of the public report; empty for an ordinary program.
        compiler: the compiler that the public report is about; empty for an ordinary program.
        is_rounding: whether a correct implementation might give the reported result too, by rounding differently.
    """

    name: str
    words: str
    program: GraphProgram = field(repr=False)
    text: str = field(repr=False)
    arrays: tuple[Any, ...] = field(repr=False)
    expected: tuple[Any, ...] | None = field(repr=False)
    link: str = ""
    compiler: str = ""
    is_rounding: bool = False

    @property
    def program_arguments(self) -> tuple[Any, ...]:
        """The arguments in the trees of the program's function."""
        return tuple(unflatten(self.program.in_tree, list(self.arrays)))

    def is_right(self, outputs: Sequence[Any]) -> bool:
        """Return whether results are close to `expected` or, if that is None, equal the native results bit by bit."""
        if self.expected is None:
            native = native_outputs(self.program, self.arrays)
            return all(
                y.dtype == z.dtype and y.shape == z.shape and y.tobytes() == z.tobytes()
                for y, z in zip(outputs, native, strict=True)
            )
        return len(outputs) == len(self.expected) and all(map(is_close, outputs, self.expected))


def is_close(y: Any, expected: Any) -> bool:
    """Return whether `y` has the dtype and the shape of `expected`, and equals it up to rounding."""
    y = np.asarray(y)
    if y.dtype != expected.dtype or y.shape != expected.shape:
        return False
    if y.dtype.kind in "biu":
        return bool(np.array_equal(y, expected))
    if y.dtype.kind not in "fc":
        y, expected = y.astype(np.float64), expected.astype(np.float64)
    return bool(np.allclose(y, expected, rtol=RTOL, atol=0, equal_nan=True))


def hall_cases(words: Sequence[str] = ()) -> list[Case]:
    """Return a test case for each public report in `xla_peer.hall`.

    With `words`, only cases whose name contains one of the words are returned.
    """
    cases: list[Case] = []
    names: dict[str, int] = {}
    for report in REPORTS:
        names[report.name] = names.get(report.name, 0) + 1
        number = names[report.name]
        name = report.name if number == 1 else f"{report.name} ({number})"
        if _has_word(name, words):
            cases.append(_case_of_report(report, name))
    return cases


def _has_word(name: str, words: Sequence[str]) -> bool:
    return not words or any([word in name for word in words])


def _case_of_report(report: Report, name: str) -> Case:
    expected, _ = flatten(report.expected)
    if isinstance(report.function, str):
        program, text = import_stablehlo(report.function), report.function
    else:
        program = tnf.compile(report.function, *report.arrays)
        text = lower_to_stablehlo(program).plain_text
    return Case(
        name,
        report.words,
        program,
        text,
        tuple(report.arrays),
        tuple(map(np.asarray, expected)),
        report.url,
        report.compiler,
        report.rounding,
    )


def module_case(path: Path, arrays: Sequence[Any]) -> Case:
    """Return a test case that consists of a StableHLO file and its arguments.

    Results that equal the native results bit by bit are right.
    """
    program = import_stablehlo(path)
    origin = program.origin
    assert origin is not None  # because the program was imported
    leaves = program.check_leaves(list(arrays))
    return Case(path.name, "", program, origin.plain_text, tuple(leaves), None)


def ordinary_cases(words: Sequence[str] = ()) -> list[Case]:
    """Return test cases of ordinary programs, for which no fault of a compiler is known.

    With `words`, only cases whose name contains one of the words are returned. Results are right if they equal the
    native results bit by bit.
    """
    cases: list[Case] = []
    for number, (name, (function, *shapes)) in enumerate(ORDINARY.items()):
        if not _has_word(name, words):
            continue
        random = np.random.default_rng(number)
        arrays = tuple([random.normal(size=shape).astype(np.float32) for shape in shapes])
        program = tnf.compile(function, *arrays)
        text = lower_to_stablehlo(program).plain_text
        cases.append(Case(name, "ordinary program", program, text, arrays, None))
    return cases


def _softmax(x: Any) -> Any:
    e = tnf.exp(x - tnf.max(x, axis=1, keepdims=True))
    return e / tnf.sum(e, axis=1, keepdims=True)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return _softmax(tnf.matmul(q, tnf.transpose(k)) / 4.0) @ v


def _normalised(x: Any) -> Any:
    centred = x - tnf.mean(x, axis=1, keepdims=True)
    return centred / tnf.sqrt(tnf.mean(centred * centred, axis=1, keepdims=True) + 1e-5)


def _recurrence(w: Any, x: Any) -> Any:
    return tnf.lax.scan(lambda h, row: (tnf.tanh(w @ h + row),) * 2, 0 * x[0], x)[1]


def _loss(w: Any, x: Any) -> Any:
    return tnf.sum(_normalised(tnf.tanh(x @ w)) ** 3)


def _blurred(x: Any) -> Any:
    rows = (x[:-2] + 2 * x[1:-1] + x[2:]) / 4
    return (rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:]) / 4


def _ranked(x: Any) -> Any:
    order = tnf.argsort(x, axis=0)
    return tnf.take_along_axis(x, order, axis=0), order


ORDINARY: dict[str, tuple[Any, ...]] = {
    "softmax": (_softmax, (5, 17)),
    "attention": (_attention, (9, 16), (9, 16), (9, 16)),
    "layer normalisation": (_normalised, (6, 33)),
    "recurrence": (_recurrence, (8, 8), (12, 8)),
    "gradient of a layer": (tnf.grad(_loss), (7, 5), (11, 7)),
    "blur": (_blurred, (19, 23)),
    "cumulative sum": (lambda x: tnf.cumsum(x, axis=1), (3, 65)),
    "sort and gather": (_ranked, (31, 3)),
}
"""Ordinary programs by name: a function, followed by the shapes of its arguments."""
