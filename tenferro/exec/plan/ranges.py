"""Ranges: the least and the largest element of integers and truth values, by interval arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from tenferro.ops.elementwise import (
    Add,
    And,
    Clamp,
    Compare,
    Convert,
    Maximum,
    Minimum,
    Multiply,
    Negate,
    Not,
    Or,
    Remainder,
    Select,
    Subtract,
)
from tenferro.ops.indexing import DynamicSlice, Gather
from tenferro.ops.structural import BroadcastInDim, Reshape, Reverse, Slice, Transpose
from tenferro.types import DType

__all__ = ["Range", "fits", "range_of", "range_of_constant", "within"]

Range = tuple[int, int]
"""The least and the largest value."""

UNKNOWN: Range = (0, 1)
"""Of a truth value that nothing is known of."""


def fits(values: Range, dtype: DType) -> bool:
    """Whether a dtype holds the values.

    >>> fits((0, 200), DType.I8), fits((0, 200), DType.U8), fits((0, 1), DType.Bool)
    (False, True, True)
    """
    if dtype.is_bool:
        return True
    all_values = widest(dtype)
    return all_values is not None and all_values[0] <= values[0] and values[1] <= all_values[1]


def widest(dtype: DType) -> Range | None:
    """All values of an integer.

    >>> widest(DType.I8), widest(DType.F32)
    ((-128, 127), None)
    """
    if not dtype.is_integer:
        return None
    info = np.iinfo(dtype.dtype)
    return int(info.min), int(info.max)


def _compared(op: Compare, x: Range, y: Range) -> Range:
    ends = [ORDER[op.direction](a, b) for a, b in ((x[0], y[1]), (x[1], y[0]))]
    if op.direction in ("EQ", "NE"):
        apart = x[1] < y[0] or y[1] < x[0]
        same = x == y and x[0] == x[1]
        if not (apart or same):
            return UNKNOWN
        return (int(same), int(same)) if op.direction == "EQ" else (int(apart), int(apart))
    return (min(ends), max(ends))


ORDER: Mapping[str, Callable[[int, int], int]] = {
    "LT": lambda x, y: int(x < y),
    "LE": lambda x, y: int(x <= y),
    "GT": lambda x, y: int(x > y),
    "GE": lambda x, y: int(x >= y),
    "EQ": lambda x, y: int(x == y),
    "NE": lambda x, y: int(x != y),
}


OPPOSITE = {"LT": "GE", "GE": "LT", "LE": "GT", "GT": "LE", "EQ": "NE", "NE": "EQ"}


def _left_over(x: Range, y: Range) -> Range:
    """Of C's remainder: with the sign of x, nearer to zero than x and than y; x itself by zero."""
    low, high = min(x[0], 0), max(x[1], 0)
    most = max(abs(y[0]), abs(y[1])) - 1
    return (low, high) if y[0] <= 0 <= y[1] else (max(low, -most), min(high, most))


def _clamped(x: Range, low: Range, high: Range) -> Range:
    return min(max(x[0], low[0]), high[0]), min(max(x[1], low[1]), high[1])


def _multiplied(x: Range, y: Range) -> Range:
    corners = [a * b for a, b in product(x, y)]
    return min(corners), max(corners)


RULES: Mapping[type, Callable[..., Range]] = {
    Add: lambda op, x, y: (x[0] + y[0], x[1] + y[1]),
    Subtract: lambda op, x, y: (x[0] - y[1], x[1] - y[0]),
    Multiply: lambda op, x, y: _multiplied(x, y),
    Negate: lambda op, x: (-x[1], -x[0]),
    Maximum: lambda op, x, y: (max(x[0], y[0]), max(x[1], y[1])),
    Minimum: lambda op, x, y: (min(x[0], y[0]), min(x[1], y[1])),
    Compare: _compared,
    Remainder: lambda op, x, y: _left_over(x, y),
    Clamp: lambda op, x, low, high: _clamped(x, low, high),
    Convert: lambda op, x: x,
}
MOVES = (BroadcastInDim, DynamicSlice, Gather, Reshape, Reverse, Slice, Transpose)
"""Ops whose elements are those of the first operand."""
TRUTHS: Mapping[type, Callable[..., Range]] = {
    And: lambda op, x, y: (x[0] & y[0], x[1] & y[1]),
    Or: lambda op, x, y: (x[0] | y[0], x[1] | y[1]),
    Not: lambda op, x: (1 - x[1], 1 - x[0]),
}


def range_of_constant(value: Any) -> Range | None:
    """Of integers or truth values that are known.

    >>> range_of_constant(np.array([3, -1])), range_of_constant(np.array([True])), range_of_constant(np.ones(2))
    ((-1, 3), (1, 1), None)
    """
    if value.dtype.kind not in "iub" or not value.size:
        return None
    return int(value.min()), int(value.max())


def within(x: Range, direction: str, y: Range, holds: bool) -> Range | None:
    """The range of x where a comparison with y holds, or does not; None if it is so nowhere.

    >>> within((-5, 5), "LT", (0, 0), True), within((-5, 5), "LT", (0, 0), False)
    ((-5, -1), (0, 5))
    """
    direction = direction if holds else OPPOSITE[direction]
    low, high = {
        "LT": (x[0], min(x[1], y[1] - 1)),
        "LE": (x[0], min(x[1], y[1])),
        "GT": (max(x[0], y[0] + 1), x[1]),
        "GE": (max(x[0], y[0]), x[1]),
        "EQ": (max(x[0], y[0]), min(x[1], y[1])),
        "NE": x,
    }[direction]
    return (low, high) if low <= high else None


def range_of(op: Any, operands: Sequence[tuple[DType, Range | None]], dtype: DType) -> Range | None:
    """The range of a result, of the dtypes and ranges of the operands; None if it is not known.

    A result that wraps has none.

    >>> i64 = DType.I64
    >>> range_of(Subtract(), [(i64, (9, 9)), (i64, (0, 9))], i64)
    (0, 9)
    >>> range_of(Compare("LT"), [(i64, (0, 9)), (i64, (0, 0))], DType.Bool)
    (0, 0)
    """
    kinds = [kind for kind, _ in operands]
    ranges = [interval for _, interval in operands]
    if isinstance(op, MOVES):
        return ranges[0]
    if isinstance(op, Clamp) and ranges[0] is None:
        ranges[0] = widest(dtype)
    if isinstance(op, Select):
        pred, *values = ranges
        chosen = values if pred is None or pred[0] != pred[1] else [values[1 - pred[0]]]
        intervals = [each for each in chosen if each is not None]
        if len(intervals) < len(chosen):
            return None
        return min([low for low, _ in intervals]), max([high for _, high in intervals])
    if dtype.is_bool and not isinstance(op, Compare):
        rule = TRUTHS.get(type(op))
        ranges = [UNKNOWN if each is None else each for each in ranges]
        return None if rule is None else rule(op, *ranges)
    rule = RULES.get(type(op))
    if rule is None or None in ranges or not all([k.is_integer or k.is_bool for k in kinds]):
        return None
    result = rule(op, *ranges)
    return result if fits(result, dtype) else None
