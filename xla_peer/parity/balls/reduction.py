"""Error bounds (radii) of reductions, cumulative ops, indices of extrema, and sorts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tenferro.exec.kernels import KERNELS
from tenferro.ops import StdTensorOp
from tenferro.ops import reduction as re
from xla_peer.parity.balls.measured import error_of_terms
from xla_peer.parity.balls.operands import (
    Operands,
    Rule,
    are_integers,
    integer_limit,
    outward,
    overflow,
    rounded,
    tiny,
)
from xla_peer.parity.pending import unit
from xla_peer.parity.ulps import modulus

__all__ = ["ROWS", "integer_sum_radius", "sum_error"]


def sum_error(
    operands: Operands, op: StdTensorOp, terms: Any, size: Any, spread: Any, products: bool = False
) -> Any:
    """Bound the sum of the rounding errors of two implementations of a sum, with any order of the terms.

    In general each error is at most gamma_n times the sum of the absolute terms, where gamma_n = n u / (1 - n u) for
    n roundings with the unit roundoff u. For real numbers, the bound is smaller. The error of the native sum is
    computed. The partial sums of another implementation are no larger than the sum of the positive terms, or of the
    negative terms: (sum |x| + |sum x|) / 2.

    Args:
        op: the op in float64.
        terms: the number of terms of each element of the result, as an array, or as one number for all.
        size: the sum of the absolute terms.
        spread: the change of the exact result within the balls.
        products: whether each term is a product, which is rounded, too.

    Source: N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 3.1 and 4.2.
    """
    (result,), dtype = operands.results, operands.dtype
    work = dtype.accumulator
    magnitude = outward(size + spread, 64.0 + np.max(terms, initial=0))
    sums = np.maximum(terms - 1.0, 0.0)
    roundings = sums + products
    if dtype.is_complex and products:
        roundings = 3.0 * (roundings + 2.0)  # four real products and two sums a term
    chain = roundings * unit(work)
    share = np.where(chain < 0.5, chain / np.where(chain < 0.5, 1.0 - chain, 1.0), np.inf)
    if operands.are_exact and _sums_of_whole_numbers(operands, magnitude):
        return np.zeros(result.shape)
    each = share * magnitude
    if work is not dtype:
        error = 2.0 * each + 2.0 * unit(dtype) * (modulus(result) + spread)
    elif dtype.is_complex:
        error = 2.0 * each
    else:
        partial = (magnitude + modulus(result) + spread) / 2.0
        other = unit(work) * (sums * (partial + 2.0 * each) + products * magnitude)
        native = error_of_terms(operands, op, float(np.max(terms, initial=0)))
        error = np.fmin(each, outward(other, 16.0)) + np.fmin(each, native)
    error = np.where(magnitude > 0, error + 2.0 * terms * tiny(work), error)
    return np.where(magnitude >= overflow(work), np.inf, error)


def _sums_of_whole_numbers(operands: Operands, magnitude: Any) -> bool:
    """Return whether all terms are whole numbers so small that no sum of them is rounded, in any order."""
    dtype = operands.dtype
    if not are_integers(*[x for x in operands.values if x.dtype.kind not in "biu"]):
        return False
    largest = float(np.max(magnitude, initial=0.0))
    return largest < min(integer_limit(dtype.accumulator), integer_limit(dtype)) / 2


def integer_sum_radius(operands: Operands, spread: Any) -> Any:
    """Compute the radius of a sum of integers, which is not rounded but may wrap around."""
    (result,) = operands.results
    centre = result.astype(np.float64)
    info = np.iinfo(result.dtype)
    fits = (centre - spread >= info.min) & (centre + spread <= min(float(info.max), 2.0**53))
    return np.where(spread == 0, 0.0, np.where(fits, np.floor(outward(spread, 64)), np.inf))


def _sum(operands: Operands) -> Sequence[Any]:
    (x,), (radius,), (result,) = operands.values, operands.radii, operands.results
    spread = outward(operands.run(operands.op, radius), 8.0 + x.size)
    if not operands.dtype.is_inexact:
        return (integer_sum_radius(operands, spread),)
    size = operands.run(operands.op, np.where(np.isfinite(modulus(x)), modulus(x), 0.0))
    error = sum_error(operands, operands.op, _count(operands, x), size, spread)
    return (rounded(operands, result, spread, error, elementwise=False),)


def _count(operands: Operands, x: Any) -> Any:
    """Return the number of terms of each element of the result."""
    if isinstance(operands.op, re.Scan):
        return operands.run(re.CumSum(operands.op.axis, operands.op.reverse), np.ones(x.shape))
    return float(math.prod([x.shape[axis] for axis in operands.op.axes]))


def _product(operands: Operands) -> Sequence[Any]:
    """Bound a product of factors x with radii r.

    The exact product changes by at most prod |x| * (prod (1 + r / |x|) - 1), and each factor adds a rounding.
    """
    (x,), (radius,), (result,) = operands.values, operands.radii, operands.results
    if not operands.dtype.is_inexact:
        return (np.full(result.shape, 0.0 if operands.are_exact else np.inf),)
    op, size = operands.op, modulus(x)
    count, work = _count(operands, x), operands.dtype.accumulator
    summed = _as_sum(op)
    with_zero = operands.run(summed, np.where(size == 0, 1.0, 0.0)) > 0
    growth = operands.run(summed, np.log1p(radius / np.where(size == 0, 1.0, size)))
    most = operands.run(op, size + radius)
    spread = np.where(with_zero, most, operands.run(op, size) * np.expm1(outward(growth, 64)))
    spread = np.where(operands.run(summed, radius) == 0, 0.0, outward(spread, 64.0 + x.size))
    rounds = (np.maximum(count - 1.0, 0.0)) * (4.0 if operands.dtype.is_complex else 1.0)
    error = 2.0 * np.expm1(rounds * unit(work)) * (modulus(result) + spread)
    if work is not operands.dtype:
        error = error + 2.0 * unit(operands.dtype) * (modulus(result) + spread)
    if (
        are_integers(x)
        and operands.are_exact
        and float(np.max(most, initial=0.0)) <= integer_limit(work)
    ):
        error = error * 0.0
    # In some order of the factors, an intermediate product may overflow or underflow. Then there is no bound.
    high = operands.run(op, np.maximum(size + radius, 1.0))
    low = operands.run(op, np.where(size == 0, 1.0, np.minimum(np.abs(size - radius), 1.0)))
    is_safe = (high < overflow(work)) & ((low > 2.0 * tiny(work)) | (count <= 2))
    error = np.where(is_safe | (count <= 1), error, np.inf)
    error = np.where(
        (most == 0) & (operands.run(summed, radius) == 0) & (high < overflow(work)), 0.0, error
    )
    error = error + np.where((result == 0) & ~with_zero, 2.0 * tiny(work), 0.0)
    return (rounded(operands, result, spread, error, elementwise=False),)


def _as_sum(op: Any) -> StdTensorOp:
    return re.CumSum(op.axis, op.reverse) if isinstance(op, re.Scan) else re.ReduceSum(op.axes)


# ---- extrema -------------------------------------------------------------------------------------


def _largest(operands: Operands) -> Sequence[Any]:
    """Bound a maximum by the largest radius among the elements that may be the maximum."""
    return (_extremum(operands, operands.values[0].astype(np.float64)),)


def _smallest(operands: Operands) -> Sequence[Any]:
    return (_extremum(operands, -operands.values[0].astype(np.float64)),)


def _extremum(operands: Operands, x: Any) -> Any:
    (radius,), axes = operands.radii, operands.op.axes
    may_be = _candidates(x, radius, axes)
    chosen = np.max(np.where(may_be, radius, 0.0), axis=axes, initial=0.0)
    # A NaN with radius 0 is the maximum in every implementation.
    is_nan = (np.isnan(x) & (radius == 0)).any(axis=axes)
    return np.where(is_nan, 0.0, chosen)


def _candidates(x: Any, radius: Any, axes: tuple[int, ...]) -> Any:
    """Return the mask of the elements of x that may be the largest along `axes` within their radii."""
    sizes = tuple([x.shape[axis] for axis in axes])
    if not math.prod(sizes):
        return np.ones(x.shape, bool)
    low = np.max(np.where(np.isinf(radius), -np.inf, x - outward(radius)), axis=axes, keepdims=True)
    return (x + outward(radius) >= low) | np.isnan(x) | np.isnan(low) | np.isinf(radius)


def _running(operands: Operands) -> Sequence[Any]:
    """Bound a cumulative maximum or minimum by the cumulative maximum of the radii."""
    op = operands.op
    return (operands.run(re.CumMax(op.axis, op.reverse), operands.radii[0]),)


def _logic(operands: Operands) -> Sequence[Any]:
    """Bound a reduction by `and` or `or`: of bools as a minimum or maximum, of integers only if they have no radius."""
    x = operands.values[0].astype(np.float64)
    if operands.dtype.is_bool:
        return (_extremum(operands, -x if isinstance(operands.op, re.ReduceAnd) else x),)
    moved = (operands.radii[0] > 0).any(axis=operands.op.axes)
    return (np.where(moved, np.inf, 0.0),)


# ---- indices and orders --------------------------------------------------------------------------


def _index(operands: Operands) -> Sequence[Any]:
    """Bound the index of a maximum or minimum by its distance from the farthest element that may be the extremum."""
    (x,), (radius,), (result,) = operands.values, operands.radii, operands.results
    axis, sign = operands.op.axis, -1.0 if isinstance(operands.op, re.ArgMin) else 1.0
    keys = sign * x.astype(np.float64)
    may_be = _candidates(keys, radius, (axis,))
    places = np.arange(x.shape[axis]).reshape([-1 if n == axis else 1 for n in range(x.ndim)])
    away = np.abs(places - np.expand_dims(result, axis))
    reach = np.max(np.where(may_be, away, 0), axis=axis, initial=0).astype(np.float64)
    open_ = np.max(np.where(may_be, radius, 0.0), axis=axis, initial=0.0) > 0
    return (np.where(open_, reach, 0.0),)


def _sorted(operands: Operands) -> Sequence[Any]:
    """Bound the results of a sort.

    If the balls do not decide the position of a key, its radius is the largest radius of all keys. Elements of other
    operands at such a position may be any element along the axis.
    """
    op, axis = operands.op, operands.op.axis
    if operands.are_exact and (op.stable or op.count == 1):
        return [np.zeros(result.shape) for result in operands.results]
    double = replace(op, count=2 * op.count)
    carried = KERNELS[re.Sort](double, *operands.values, *operands.radii)
    radii = [np.asarray(radius) for radius in carried[op.count :]]
    keys = operands.results[0]
    if keys.dtype.kind == "c":
        decided = np.zeros(keys.shape, bool)
    else:
        decided = _in_place(keys.astype(np.float64), radii[0], axis)
    return [
        np.where(decided, radius, _any_of(result, radius, axis))
        if number or result.dtype.kind == "c"
        else np.where(decided, radius, np.max(radius, axis=axis, keepdims=True, initial=0.0))
        for number, (result, radius) in enumerate(zip(operands.results, radii, strict=True))
    ]


def _in_place(keys: Any, radius: Any, axis: int) -> Any:
    """Return a mask of the sorted keys whose balls are disjoint from the balls of all other keys.

    The positions of these keys are the same in every implementation.
    """
    keys, radius = np.moveaxis(keys, axis, -1), np.moveaxis(radius, axis, -1)
    if not keys.shape[-1] or (np.isnan(keys) & (radius > 0)).any():
        return np.moveaxis(np.zeros(keys.shape, bool), -1, axis)
    keys = np.where(np.isnan(keys), np.inf, keys)
    high = np.maximum.accumulate(keys + outward(radius), axis=-1)
    low = np.flip(np.minimum.accumulate(np.flip(keys - outward(radius), -1), axis=-1), -1)
    apart = high[..., :-1] < low[..., 1:]
    edge = np.ones((*keys.shape[:-1], 1), bool)
    alone = np.concatenate([edge, apart], -1) & np.concatenate([apart, edge], -1)
    return np.moveaxis(alone, -1, axis)


def _any_of(x: Any, radius: Any, axis: int) -> Any:
    """Return, for each element of x, its largest distance to any point in the balls of the elements along the axis."""
    if x.dtype.kind == "c":
        size = np.max(modulus(x) + radius, axis=axis, keepdims=True, initial=0.0)
        return outward(size + modulus(x))
    x = x.astype(np.float64)
    highest = np.max(x + radius, axis=axis, keepdims=True, initial=-np.inf)
    lowest = np.min(x - radius, axis=axis, keepdims=True, initial=np.inf)
    reach = outward(np.maximum(highest - x, x - lowest))
    return np.where(np.isfinite(reach), reach, np.inf)


def _top(operands: Operands) -> Sequence[Any]:
    (x,), (radius,) = operands.values, operands.radii
    values, indices = operands.results
    if operands.are_exact:
        return [np.zeros(values.shape), np.zeros(indices.shape)]
    most = np.max(radius, axis=-1, keepdims=True, initial=0.0)
    keys = -x.astype(np.float64)
    order = np.argsort(keys, axis=-1, kind="stable")
    ordered, of_ordered = (np.take_along_axis(a, order, -1) for a in (keys, radius))
    count = values.shape[-1]
    decided = _in_place(ordered, of_ordered, x.ndim - 1)[..., :count]
    if np.isnan(keys).any():
        decided = np.zeros(values.shape, bool)
    own = np.take_along_axis(radius, indices, -1) if count else np.zeros(values.shape)
    exact = most == 0
    extent = float(x.shape[-1])
    return [
        np.where(decided | exact, own, np.broadcast_to(most, values.shape)),
        np.where(decided | exact, 0.0, extent),
    ]


ROWS: Mapping[type[StdTensorOp], Rule] = {
    re.ReduceSum: _sum,
    re.ReduceProd: _product,
    re.ReduceMax: _largest,
    re.ReduceMin: _smallest,
    re.ReduceAnd: _logic,
    re.ReduceOr: _logic,
    re.ArgMax: _index,
    re.ArgMin: _index,
    re.CumSum: _sum,
    re.CumProd: _product,
    re.CumMax: _running,
    re.CumMin: _running,
    re.Sort: _sorted,
    re.TopK: _top,
}
