"""Samples of reductions, cumulative ops and sorts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

import numpy as np

from tenferro.ops import reduction as ops
from tenferro.types import DType
from tests.samples.elementwise import ieee_maximum, ieee_minimum
from tests.samples.sample import (
    Array,
    OpSample,
    SampleRows,
    by_index,
    dtypes_of,
    indices,
    ordinary_values,
    python_number,
    special_values,
    wrap,
)

Fold = Callable[[list[Any]], Any]


def lines(
    x: Array, axes: Sequence[int]
) -> tuple[list[int], Callable[[tuple[int, ...]], list[Any]]]:
    """Return the shape of a reduction's result, and a function.

    For an index of the result, the function lists the elements that are reduced to this index. They are in row-major
    order along `axes`.
    """
    kept = [n for axis, n in enumerate(x.shape) if axis not in axes]

    def at(index: tuple[int, ...]) -> list[Any]:
        found = []
        for inner in indices([x.shape[axis] for axis in axes]):
            full = list(index)
            for axis, i in zip(axes, inner, strict=True):
                full.insert(axis, i)
            found.append(python_number(x[tuple(full)]))
        return found

    return kept, at


def total(dtype: DType) -> Fold:
    if dtype.is_integer:
        return lambda values: wrap(sum(values), dtype)
    if dtype.is_complex:
        return lambda values: complex(
            math.fsum(v.real for v in values), math.fsum(v.imag for v in values)
        )
    return math.fsum


def product(dtype: DType) -> Fold:
    def fold(values: list[Any]) -> Any:
        if dtype.is_integer:
            return wrap(math.prod(values), dtype)
        if dtype.is_complex:
            return math.prod(values, start=1 + 0j)
        return float(math.prod(map(Fraction, values)))

    return fold


def extremum(dtype: DType, largest: bool) -> Fold:
    choose = ieee_maximum if largest else ieee_minimum

    def fold(values: list[Any]) -> Any:
        if dtype.is_bool:
            return any(values) if largest else all(values)
        if dtype.is_integer:
            info = np.iinfo(dtype.dtype)
            start = int(info.min if largest else info.max)
            return max([start, *values]) if largest else min([start, *values])
        result = -math.inf if largest else math.inf
        for value in values:
            result = choose(result, value)
        return result

    return fold


def bitwise(dtype: DType, conjunction: bool) -> Fold:
    def fold(values: list[Any]) -> Any:
        if dtype.is_bool:
            return all(values) if conjunction else any(values)
        result = -1 if conjunction else 0
        for value in values:
            result = result & value if conjunction else result | value
        return wrap(result, dtype)

    return fold


def reductions(card: Any, fold: Callable[[DType], Fold], rounds: bool = False) -> list[OpSample]:
    samples: list[OpSample] = []
    for dtype in dtypes_of(card):
        for shape, axes in (
            ((2, 3, 4), (1,)),
            ((2, 3, 4), (0, 2)),
            ((3,), (0,)),
            ((2, 0), (1,)),
            ((), ()),
            ((0, 2), (1,)),
        ):
            x = ordinary_values(shape, dtype, 1)
            kept, at = lines(x, axes)
            y = by_index(kept, dtype, lambda i, at=at, dtype=dtype: fold(dtype)(at(i)))
            scale = None
            if rounds and dtype.is_inexact:
                real = dtype.real
                weigh: Callable[..., float] = (
                    (lambda v: math.fsum(map(abs, v)))
                    if card is ops.ReduceSum
                    else (lambda v: math.prod(map(abs, v)))
                )
                scale = (by_index(kept, real, lambda i, at=at, weigh=weigh: weigh(at(i))),)
            samples.append(
                OpSample(
                    card(axes),
                    (x,),
                    (y,),
                    ulps=4 if scale else 0,
                    xla_ulps=8 if scale else 0,
                    scale=scale,
                    because="sums and products round in another order" if scale else "",
                    label=f"{dtype.short}-{shape}-{axes}",
                )
            )
    return samples


def with_specials(card: Any, fold: Callable[[DType], Fold]) -> list[OpSample]:
    """Return samples of a reduction, and one more sample with all pairs of special values.

    The special values are NaN, infinities and both zeros.
    """
    samples = reductions(card, fold)
    for dtype in dtypes_of(card):
        values = special_values(dtype)
        x = np.stack([np.repeat(values, len(values)), np.tile(values, len(values))])
        kept, at = lines(x, (0,))
        y = by_index(kept, dtype, lambda i, at=at, dtype=dtype: fold(dtype)(at(i)))
        # If zeros of both signs occur, XLA may return either zero. The argument `scale` makes the comparison ignore
        # the sign of zero.
        scale = (np.abs(y),) if dtype.is_float else None
        samples.append(
            OpSample(card((0,)), (x,), (y,), scale=scale, label=f"special-{dtype.short}")
        )
    return samples


def arg_reductions(card: Any, largest: bool) -> list[OpSample]:
    def first(values: list[Any]) -> int:
        for i, value in enumerate(values):
            if value != value:
                return i
        return values.index(max(values) if largest else min(values))

    samples: list[OpSample] = []
    for dtype in dtypes_of(card):
        arrays = [(ordinary_values((3, 4), dtype, 1), 0), (ordinary_values((3, 4), dtype, 2), 1)]
        if dtype.is_float:
            tricky = [
                [1, np.nan, 3, np.nan],
                [-0.0, 0.0, -1, 0.0],
                [np.inf, 1, np.inf, -np.inf],
                [2, 2, 1, 1],
            ]
            arrays.append((np.array(tricky).astype(dtype.dtype), 1))
            arrays.append((np.full((2, 3), -np.inf).astype(dtype.dtype), 1))
        for number, (x, axis) in enumerate(arrays):
            kept, at = lines(x, (axis,))
            y = by_index(kept, DType.I64, lambda i, at=at: first(at(i)))
            samples.append(OpSample(card(axis), (x,), (y,), label=f"{dtype.short}-{number}"))
    return samples


def scans(card: Any, fold: Callable[[DType], Fold], rounds: bool) -> list[OpSample]:
    samples: list[OpSample] = []
    for dtype in dtypes_of(card):
        for shape, axis, reverse in (
            ((3, 4), 1, False),
            ((3, 4), 0, True),
            ((5,), 0, False),
            ((0, 2), 0, False),
            *([((7, 2), 0, False), ((7, 2), 0, True)] if dtype.is_float and not rounds else []),
        ):
            x = ordinary_values(shape, dtype, 1)
            if not rounds and dtype.is_float and shape == (5,):
                x = np.array([1.0, -2.0, 3.0, np.nan, 5.0]).astype(dtype.dtype)
            if shape == (7, 2):  # this sample has zeros of both signs, and -inf
                zeros = [-0.0, 0.0, -0.0, -np.inf, 0.0, 0.0, -0.0]
                x = np.array([zeros, zeros[::-1]]).T.astype(dtype.dtype)
                x = np.abs(x, where=np.isinf(x), out=x) if card is ops.CumMin else x

            def upto(
                i: tuple[int, ...], x: Array = x, axis: int = axis, reverse: bool = reverse
            ) -> list[Any]:
                span = range(i[axis], x.shape[axis]) if reverse else range(i[axis] + 1)
                return [python_number(x[(*i[:axis], j, *i[axis + 1 :])]) for j in span]

            y = by_index(shape, dtype, lambda i, upto=upto, dtype=dtype: fold(dtype)(upto(i)))
            scale = None
            if rounds and dtype.is_inexact:
                weigh: Callable[..., float] = (
                    (lambda v: math.fsum(map(abs, v)))
                    if card is ops.CumSum
                    else (lambda v: math.prod(map(abs, v)))
                )
                scale = (
                    by_index(shape, dtype.real, lambda i, upto=upto, weigh=weigh: weigh(upto(i))),
                )
            because = "running sums and products round in another order" if scale else ""
            if shape == (7, 2):
                because = "XLA folds constants with either zero where both signs meet"
            samples.append(
                OpSample(
                    card(axis, reverse),
                    (x,),
                    (y,),
                    ulps=4 if scale else 0,
                    xla_ulps=8 if scale else 0,
                    scale=scale,
                    because=because,
                    xla=shape != (7, 2),
                    label=f"{dtype.short}-{shape}-{axis}-{reverse}",
                )
            )
    return samples


def before(a: Any, b: Any) -> int:
    """Compare two numbers for an ascending sort; return -1, 0 or 1.

    NaN is last, and complex numbers are compared by their parts.
    """
    if isinstance(a, complex):
        ranks = [(x.imag != x.imag) + 2 * (x.real != x.real) for x in (a, b)]
        if ranks[0] != ranks[1]:
            return -1 if ranks[0] < ranks[1] else 1
        return before(a.real, b.real) or before(a.imag, b.imag)
    if a != a or b != b:
        return (a != a) - (b != b)
    return (a > b) - (a < b)


def sorts() -> list[OpSample]:
    samples: list[OpSample] = []
    for dtype in dtypes_of(ops.Sort):
        x = ordinary_values((3, 5), dtype, 1)
        special = special_values(dtype).reshape(1, -1)
        for label, key, axis in (("rows", x, 1), ("columns", x, 0), ("special", special, 1)):
            place = by_index(key.shape, DType.I64, lambda i, axis=axis: i[axis])
            order: dict[tuple[int, ...], list[int]] = {}
            kept, at = lines(key, (axis,))
            for index in indices(kept):
                values = at(index)
                order[index] = sorted(
                    range(len(values)), key=cmp_to_key(lambda a, b, v=values: before(v[a], v[b]))
                )
            places = by_index(
                key.shape,
                DType.I64,
                lambda i, axis=axis, order=order: order[(*i[:axis], *i[axis + 1 :])][i[axis]],
            )
            result = np.zeros_like(key)
            for i in indices(key.shape):
                result[i] = key[(*i[:axis], places[i], *i[axis + 1 :])]
            samples.append(
                OpSample(
                    ops.Sort(axis, True, 2),
                    (key, place),
                    (result, places),
                    label=f"two-{label}-{dtype.short}",
                )
            )
            samples.append(
                OpSample(ops.Sort(axis), (key,), (result,), label=f"{label}-{dtype.short}")
            )
    return samples


def top_ks() -> list[OpSample]:
    samples: list[OpSample] = []
    for dtype in dtypes_of(ops.TopK):
        for x in (ordinary_values((3, 6), dtype, 1), special_values(dtype)):
            k = min(3, x.shape[-1])
            values = np.zeros((*x.shape[:-1], k), dtype.dtype)
            places = np.zeros(values.shape, np.int64)
            for lead in indices(x.shape[:-1]):
                line = [python_number(v) for v in x[lead]]
                order = sorted(
                    range(len(line)),
                    key=cmp_to_key(lambda a, b, v=line: -before(v[a], v[b]) or a - b),
                )
                for j in range(k):
                    values[(*lead, j)], places[(*lead, j)] = x[(*lead, order[j])], order[j]
            samples.append(
                OpSample(ops.TopK(k), (x,), (values, places), label=f"{dtype.short}-{x.shape}")
            )
    return samples


ROWS: SampleRows = {
    ops.ReduceSum: reductions(ops.ReduceSum, total, rounds=True),
    ops.ReduceProd: reductions(ops.ReduceProd, product, rounds=True),
    ops.ReduceMax: with_specials(ops.ReduceMax, lambda d: extremum(d, largest=True)),
    ops.ReduceMin: with_specials(ops.ReduceMin, lambda d: extremum(d, largest=False)),
    ops.ReduceAnd: reductions(ops.ReduceAnd, lambda d: bitwise(d, conjunction=True)),
    ops.ReduceOr: reductions(ops.ReduceOr, lambda d: bitwise(d, conjunction=False)),
    ops.ArgMax: arg_reductions(ops.ArgMax, largest=True),
    ops.ArgMin: arg_reductions(ops.ArgMin, largest=False),
    ops.CumSum: scans(ops.CumSum, total, rounds=True),
    ops.CumProd: scans(ops.CumProd, product, rounds=True),
    ops.CumMax: scans(ops.CumMax, lambda d: extremum(d, largest=True), rounds=False),
    ops.CumMin: scans(ops.CumMin, lambda d: extremum(d, largest=False), rounds=False),
    ops.Sort: sorts(),
    ops.TopK: top_ks(),
}
