"""Ranges of integers against all values one by one."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from tenferro.exec.plan.ranges import Range, fits, range_of, within
from tenferro.ops import elementwise as el
from tenferro.ops.structural import Reshape, Reverse
from tenferro.types import DType

INTERVALS = [*combinations_with_replacement(range(-2, 4), 2)]
TRUTHS = [(0, 0), (0, 1), (1, 1)]
INTEGERS: dict[Any, Callable[..., int]] = {
    el.Add(): operator.add,
    el.Subtract(): operator.sub,
    el.Multiply(): operator.mul,
    el.Maximum(): max,
    el.Minimum(): min,
}
ORDERS: dict[str, Callable[[int, int], bool]] = {
    name: getattr(operator, name.lower()) for name in ("LT", "LE", "GT", "GE", "EQ", "NE")
}


def hull(fn: Callable[..., Any], *ranges: Range) -> Range:
    """The least and the largest of all results."""
    found = [int(fn(*each)) for each in product(*[range(low, high + 1) for low, high in ranges])]
    return min(found), max(found)


@pytest.mark.parametrize("op", INTEGERS, ids=lambda op: op.name)
def test_two_integers(op: Any) -> None:
    i8 = DType.I8
    for x, y in product(INTERVALS, INTERVALS):
        assert range_of(op, [(i8, x), (i8, y)], i8) == hull(INTEGERS[op], x, y)


@pytest.mark.parametrize("direction", ORDERS)
def test_comparisons(direction: str) -> None:
    i8, op = DType.I8, el.Compare(direction)  # type: ignore[arg-type]
    for x, y in product(INTERVALS, INTERVALS):
        found = range_of(op, [(i8, x), (i8, y)], DType.Bool)
        assert found == hull(ORDERS[direction], x, y), (x, y)
    f64 = DType.F64
    assert range_of(op, [(f64, (0, 0)), (f64, (0, 0))], DType.Bool) is None
    assert range_of(op, [(i8, (0, 0)), (i8, None)], DType.Bool) is None


def test_what_is_left_over() -> None:
    """Nothing else can be, and the ends can, where one number divides."""
    i8 = DType.I8
    for x, y in product(INTERVALS, INTERVALS):
        found = range_of(el.Remainder(), [(i8, x), (i8, y)], i8)
        assert found is not None
        low, high = hull(lambda a, b: int(np.fmod(a, b)) if b else a, x, y)
        assert found[0] <= low
        assert high <= found[1]
    for n in (1, 3):
        assert range_of(el.Remainder(), [(i8, (-9, 9)), (i8, (n, n))], i8) == (1 - n, n - 1)
        assert range_of(el.Remainder(), [(i8, (0, 9)), (i8, (n, n))], i8) == (0, n - 1)


def test_clamped_values() -> None:
    """Also of an operand of which nothing is known."""
    i8 = DType.I8
    for x, low, high in product(INTERVALS, INTERVALS, INTERVALS):
        found = range_of(el.Clamp(), [(i8, x), (i8, low), (i8, high)], i8)
        assert found == hull(lambda a, b, c: min(max(a, b), c), x, low, high)
    assert range_of(el.Clamp(), [(i8, None), (i8, (0, 0)), (i8, (7, 7))], i8) == (0, 7)
    assert range_of(el.Clamp(), [(i8, (0, 1)), (i8, None), (i8, (7, 7))], i8) is None
    f64 = DType.F64
    assert range_of(el.Clamp(), [(f64, None), (f64, None), (f64, None)], f64) is None


@pytest.mark.parametrize("direction", ORDERS)
@pytest.mark.parametrize("holds", [True, False])
def test_where_a_comparison_holds(direction: str, holds: bool) -> None:
    """Every number for which it is so is there, and at both ends are some, but for what is unlike a single one."""
    for x, y in product(INTERVALS, INTERVALS):
        found = within(x, direction, y, holds)
        there = [
            a for a in range(x[0], x[1] + 1)
            if any(ORDERS[direction](a, b) == holds for b in range(y[0], y[1] + 1))
        ]  # fmt: skip
        if found is None:
            assert not there
        else:
            assert all(found[0] <= a <= found[1] for a in there)
            if (y[0] == y[1] and (direction == "NE") != holds) or direction in (
                "LT",
                "LE",
                "GT",
                "GE",
            ):
                assert not there or found == (min(there), max(there))


def test_elements_that_move() -> None:
    i8 = DType.I8
    for op in (Reshape((2, 3)), Reverse((0,))):
        assert range_of(op, [(i8, (1, 4))], i8) == (1, 4)
        assert range_of(op, [(i8, None)], i8) is None


def test_one_integer() -> None:
    i8, i64 = DType.I8, DType.I64
    for x in INTERVALS:
        assert range_of(el.Negate(), [(i8, x)], i8) == (-x[1], -x[0])
        assert range_of(el.Convert(i64), [(i8, x)], i64) == x
    for x in TRUTHS:
        assert range_of(el.Convert(i8), [(DType.Bool, x)], i8) == x
    assert range_of(el.Abs(), [(i8, (1, 2))], i8) is None
    assert range_of(el.Convert(i8), [(DType.F64, (1, 2))], i8) is None


def test_truth_values() -> None:
    """Of an unknown one both are possible."""
    kind = DType.Bool
    for x, y in product([*TRUTHS, None], repeat=2):
        a, b = x or (0, 1), y or (0, 1)
        assert range_of(el.And(), [(kind, x), (kind, y)], kind) == hull(operator.and_, a, b)
        assert range_of(el.Or(), [(kind, x), (kind, y)], kind) == hull(operator.or_, a, b)
        assert range_of(el.Not(), [(kind, x)], kind) == hull(operator.not_, a)
    assert range_of(el.Xor(), [(kind, (0, 0)), (kind, (0, 0))], kind) is None


def test_selected_values() -> None:
    i8, kind = DType.I8, DType.Bool
    for pred, x, y in product([*TRUTHS, None], INTERVALS, INTERVALS):
        found = range_of(el.Select(), [(kind, pred), (i8, x), (i8, y)], i8)
        assert found == hull(lambda p, a, b: a if p else b, pred or (0, 1), x, y)
    one = (i8, (3, 4))
    assert range_of(el.Select(), [(kind, (1, 1)), one, (i8, None)], i8) == (3, 4)
    assert range_of(el.Select(), [(kind, (0, 0)), (i8, None), one], i8) == (3, 4)
    assert range_of(el.Select(), [(kind, (0, 1)), one, (i8, None)], i8) is None
    assert range_of(el.Select(), [(kind, None), (i8, None), one], i8) is None


@pytest.mark.parametrize("dtype", [DType.I8, DType.U8, DType.I32, DType.U64, DType.I64])
def test_what_may_wrap_has_no_range(dtype: DType) -> None:
    info = np.iinfo(dtype.dtype)
    low, high = int(info.min), int(info.max)
    assert fits((low, high), dtype)
    assert not fits((low - 1, high), dtype)
    assert not fits((low, high + 1), dtype)
    one, zero = (dtype, (1, 1)), (dtype, (0, 1))
    assert range_of(el.Add(), [(dtype, (0, high - 1)), one], dtype) == (1, high)
    assert range_of(el.Add(), [(dtype, (0, high)), zero], dtype) is None
    assert range_of(el.Subtract(), [(dtype, (low + 1, 5)), one], dtype) == (low, 4)
    assert range_of(el.Subtract(), [(dtype, (low, 5)), zero], dtype) is None
    assert not fits((0, 0), DType.F64)
