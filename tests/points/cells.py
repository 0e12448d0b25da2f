"""Measurement of the table of exceptional points.

Each cell is one derivative at one point, in one dtype, on one peer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tenferro as tnf
from tests.points.binary import BINARY, PARTIALS
from tests.points.excused import EXCUSED
from tests.points.expected import EITHER_SIGN, Entry, binary_points
from tests.points.measure import (
    KINDS,
    PARTIAL_CELLS,
    four_derivatives,
    is_right,
    partial_derivatives,
)
from tests.points.unary import COMPLEX_POINTS, UNARY, points

__all__ = ["CASES", "EXPECTED", "FILE", "Cell", "cells", "excuse", "is_as_expected"]

FILE = Path(__file__).parent / "expected.json"
EXPECTED: dict[str, dict[str, Entry]] = json.loads(FILE.read_text()) if FILE.exists() else {}
Compute = Callable[[str, str, tuple[Any, ...]], Any]

CASES: tuple[tuple[str, str], ...] = (
    *[
        (name, dtype)
        for name, record in UNARY.items()
        for dtype in ("float32", "float64", *["complex128"] * record.is_complex)
    ],
    *[(name, dtype) for name in BINARY for dtype in ("float32", "float64")],
)
"""All pairs of a function and a dtype that are in the table."""


@dataclass(frozen=True)
class Cell:
    """One derivative of one function at one point. `got` is the computed value."""

    function: str
    dtype: str
    point: str
    kind: str
    which: str
    got: Any
    index: int

    @property
    def entry(self) -> Entry:
        return EXPECTED[self.function][self.point]


def derivatives(name: str) -> Callable[..., tuple[Any, ...]]:
    """Return a function that computes all derivatives of the function called `name`."""
    if name in UNARY:
        return four_derivatives(UNARY[name].function)
    return partial_derivatives(BINARY[name].function)


def arguments(name: str, dtype: str) -> tuple[list[str], tuple[Any, ...]]:
    """Return the points at which a function is tested in a dtype.

    They are the names of the points, and the arrays of arguments.
    """
    if name in BINARY:
        pairs = binary_points(BINARY[name])
        columns = tuple(np.array(column, dtype) for column in zip(*pairs, strict=True))
        return [repr(pair) for pair in pairs], columns
    if dtype == "complex128":
        return [repr(z) for z in COMPLEX_POINTS], (np.array(COMPLEX_POINTS),)
    names = points(UNARY[name], dtype)
    return names, (np.array([float(x) for x in names], dtype),)


def cells(name: str, dtype: str, executor: Any = None) -> Iterator[Cell]:
    """Yield all cells of a function in a dtype. One run of one program computes them."""
    names, args = arguments(name, dtype)
    results = tnf.jit(derivatives(name), executor=executor)(*args)
    rows = PARTIAL_CELLS if name in BINARY else tuple(zip(KINDS, (0, 0, 1, 1), strict=True))
    labels = PARTIALS if name in BINARY else ("f'", "f''")
    for (kind, index), row in zip(rows, results, strict=True):
        # For a holomorphic function, the gradient is the conjugate of the derivative. It is conjugated before the
        # comparison.
        plain = np.conj(row) if dtype == "complex128" and kind != "JVP" else row
        for point, got in zip(names, plain, strict=True):
            yield Cell(name, dtype, point, kind, labels[index], got, index)


def is_as_expected(cell: Cell, peer: str) -> bool:
    """Return whether a cell has the expected value.

    PJRT may flush a subnormal argument to a zero of either sign, so the values at both zeros are accepted then.
    """
    candidates = [cell.entry]
    if peer == "PJRT" and cell.function in UNARY and is_subnormal(cell):
        zeros = ("0.0", "-0.0") if cell.dtype != "complex128" else ("0j", "-0j")
        candidates += [
            EXPECTED[cell.function][zero] for zero in zeros if zero in EXPECTED[cell.function]
        ]
    return any(is_entry(cell, entry, peer) for entry in candidates)


def is_subnormal(cell: Cell) -> bool:
    size = abs(complex(cell.point))
    return 0 < size < float(np.finfo(cell.dtype).tiny)


def is_entry(cell: Cell, entry: Entry, peer: str) -> bool:
    value, slack = entry[2 * cell.index : 2 * cell.index + 2]
    if entry[-1] == EITHER_SIGN:
        return bool(abs(cell.got) == np.inf)
    return is_right(cell.got, value, slack, peer)


def excuse(cell: Cell, peer: str) -> str:
    """Return the reason why a cell may have another value than the expected one; "" if it may not."""
    reasons = [e.reason for e in EXCUSED if e.covers(cell.function, peer, cell.dtype, cell.point)]
    return reasons[0] if reasons else ""
