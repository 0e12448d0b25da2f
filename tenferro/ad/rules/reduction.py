"""Derivatives of the reductions, cumulative ops and sorts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tenferro.ad.algebra import (
    Value,
    apply,
    apply_one,
    broadcast,
    ceil_log2,
    compare,
    convert,
    full,
    iota,
    iota_along,
    lead_all,
    logical_and,
    reduce_sum,
    reshape,
    reverse,
    scalar,
    select,
    slice_along,
    transpose,
)
from tenferro.ad.rule import AdRows, Tangents, Values, batched_by, inactive, jvp_only, linear
from tenferro.ad.rules.structural import shifted
from tenferro.ops import reduction as ops
from tenferro.ops.indexing import Gather
from tenferro.ops.structural import BroadcastInDim, Concatenate, Pad

__all__ = ["ROWS", "take_along"]


def others(rank: int, axes: Sequence[int]) -> tuple[int, ...]:
    """Return the axes of a tensor of rank `rank` that are not in `axes`."""
    return tuple(axis for axis in range(rank) if axis not in axes)


# ---- sums ----------------------------------------------------------------------------------------


def reduce_batch(op: Any, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Apply the op along the same axes. The leading axis increases the number of each axis by one."""
    return apply(replace(op, axes=shifted(op.axes)), *inputs)


def scan_batch(op: Any, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Apply the op along the same axis, after the leading axis was added to operands without it."""
    return apply(replace(op, axis=op.axis + 1), *lead_all(inputs, batched))


def last_axis_batch(op: Any, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Apply the op unchanged, because it acts on the last axis."""
    return apply(op, *inputs)


# ---- extrema: the mean over all winners -------------------------------------------------------------


def reduce_extremum_jvp(op: Any, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """Return the mean tangent of the elements that equal the extremum."""
    (x,), (y,), (x_dot,) = inputs, outputs, tangents
    assert x_dot is not None
    wins = compare(x, "EQ", broadcast(y, x, others(x.rank, op.axes)))
    count = reduce_sum(convert(wins, x.dtype), op.axes)
    return (reduce_sum(select(wins, x_dot, 0), op.axes) / count,)


# ---- products ----------------------------------------------------------------------------------------


def reduce_prod_jvp(
    op: ops.ReduceProd, inputs: Values, outputs: Values, tangents: Tangents
) -> Tangents:
    """Return the sum over i of x_dot[i] times the product of all elements but x[i], without dividing by x[i].

    For a static extent, elements are multiplied pairwise in a tree, and the product rule is applied to each pair.
    Derivatives of every order are then right where elements are zero. For a symbolic extent, the elements before i and
    the elements after i are multiplied separately.
    """
    (x,), (x_dot,) = inputs, tangents
    assert x_dot is not None
    if not op.axes:
        return (x_dot,)
    x, x_dot = in_front(x, op.axes), in_front(x_dot, op.axes)
    count = x.shape[0]
    if not isinstance(count, int):
        before = shift(apply_one(ops.CumProd(0, False), x), 0, 1, 1)
        after = reverse(shift(reverse(apply_one(ops.CumProd(0, True), x), (0,)), 0, 1, 1), (0,))
        return (reduce_sum(before * after * x_dot, (0,)),)
    if count == 0:
        return (None,)
    while count > 1:
        half = count // 2
        a, b = slice_along(x, 0, 0, half), slice_along(x, 0, half, 2 * half)
        a_dot, b_dot = slice_along(x_dot, 0, 0, half), slice_along(x_dot, 0, half, 2 * half)
        product, product_dot = a * b, a_dot * b + a * b_dot
        if count % 2:
            product = _appended(product, slice_along(x, 0, count - 1, count))
            product_dot = _appended(product_dot, slice_along(x_dot, 0, count - 1, count))
        x, x_dot, count = product, product_dot, half + count % 2
    return (reshape(x_dot, outputs[0].shape),)


def _appended(x: Value, last: Value) -> Value:
    return apply_one(Concatenate(0, 2), x, last)


def in_front(x: Value, axes: Sequence[int]) -> Value:
    """Move `axes` to the front and merge them into one leading axis."""
    rest = others(x.rank, axes)
    size: Any = 1
    for axis in axes:
        size = size * x.shape[axis]
    return reshape(transpose(x, (*axes, *rest)), (size, *(x.shape[axis] for axis in rest)))


# ---- running products and extrema --------------------------------------------------------------------


def shift(x: Value, axis: int, distance: int, fill: Any) -> Value:
    """Shift the elements by `distance` towards the end of `axis`, and insert `fill` at the front."""
    low = [0] * x.rank
    high = [0] * x.rank
    low[axis], high[axis] = distance, -distance
    value = scalar(x, fill)
    return apply_one(Pad(tuple(low), tuple(high), (0,) * x.rank), x, value)


def scanned(jvp: Callable[[Value, int, Value], Value]) -> Any:
    """Return the rule of a cumulative op in either direction.

    `jvp(x, axis, x_dot)` is the rule for the forward direction. If the op has `reverse`, the rule is applied to the
    reversed operand, and its result is reversed.
    """

    def rule(op: Any, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
        (x,), (x_dot,) = inputs, tangents
        assert x_dot is not None
        turned = (op.axis,) if op.reverse else ()
        return (reverse(jvp(reverse(x, turned), op.axis, reverse(x_dot, turned)), turned),)

    return jvp_only(rule)


def cumprod_jvp(x: Value, axis: int, x_dot: Value) -> Value:
    """Return the tangent of the cumulative product, without divisions, so that it is right where elements are zero.

    The prefix products are computed by doubling, with the product rule. For a symbolic extent, the derivative of result
    k with respect to x[i] is a cumulative product in which 1 replaces x[i].
    """
    count = x.shape[axis]
    if not isinstance(count, int):
        i, k, spread, spread_dot = squared(x, axis, x_dot)
        factors = select(compare(i, "EQ", k), 1, spread)
        left_out = apply_one(ops.CumProd(axis + 1, False), factors)
        return reduce_sum(select(compare(i, "LE", k), left_out * spread_dot, 0), (0,))
    for step in range(ceil_log2(count)):
        before, before_dot = shift(x, axis, 1 << step, 1), shift(x_dot, axis, 1 << step, 0)
        x, x_dot = before * x, before_dot * x + before * x_dot
    return x_dot


def squared(x: Value, axis: int, x_dot: Value) -> tuple[Value, Value, Value, Value]:
    """Return i, k, x[k] and x_dot[i] for all pairs (i, k): i along a new leading axis, k along the original axis."""
    shape = (x.shape[axis], *x.shape)
    in_place = tuple(range(1, x.rank + 1))
    moved = tuple(0 if a == axis else a + 1 for a in range(x.rank))
    return (
        iota_along(x, shape, 0),
        iota_along(x, shape, axis + 1),
        apply_one(BroadcastInDim(shape, in_place), x),
        _placed(x_dot, shape, moved),
    )


def _placed(x: Value, shape: Sequence[Any], dims: Sequence[int]) -> Value:
    return apply_one(BroadcastInDim(tuple(shape), tuple(dims)), x)


def cumulative_extremum_jvp(wins: str, card: Any, least: float) -> Any:
    """Return the rule of a cumulative extremum.

    The tangent of element k is the mean of the tangents of those elements up to k that equal it.
    """

    def jvp(x: Value, axis: int, x_dot: Value) -> Value:
        count = x.shape[axis]
        if not isinstance(count, int):
            i, k, _, spread_dot = squared(x, axis, x_dot)
            moved = tuple(0 if a == axis else a + 1 for a in range(x.rank))
            shape = (count, *x.shape)
            reached = _placed(apply_one(card(axis, False), x), shape, tuple(range(1, x.rank + 1)))
            ties = compare(_placed(x, shape, moved), "EQ", reached)
            winners = logical_and(ties, compare(i, "LE", k))
            number = reduce_sum(convert(winners, x.dtype), (0,))
            return reduce_sum(select(winners, spread_dot, 0), (0,)) / number
        number = full(x, 1)
        for step in range(ceil_log2(count)):
            distance = 1 << step
            before = shift(x, axis, distance, least)
            ahead, tied = compare(before, wins, x), compare(before, "EQ", x)

            def chosen(
                now: Value, ahead: Value = ahead, tied: Value = tied, d: int = distance
            ) -> Value:
                earlier = shift(now, axis, d, 0)
                return select(ahead, earlier, select(tied, earlier + now, now))

            x, x_dot, number = select(ahead, before, x), chosen(x_dot), chosen(number)
        return x_dot / number

    return scanned(jvp)


# ---- sorting: the tangents move along -----------------------------------------------------------------


def take_along(x: Value, indices: Value, axis: int) -> Value:
    """y[.., i, ..] = x[.., indices[.., i, ..], ..]; x and `indices` have the same shape except along `axis`.

    If the axis has no elements, `indices` must be empty too.
    """
    rest = others(x.rank, (axis,))
    sizes = [1] * x.rank
    sizes[axis] = 0 if x.shape[axis] == 0 else 1
    op = Gather(
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        operand_batching_dims=rest,
        start_indices_batching_dims=rest,
        start_index_map=(axis,),
        index_vector_dim=x.rank,
        slice_sizes=tuple(sizes),
    )
    return apply_one(op, x, indices)


def sort_jvp(op: ops.Sort, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """Reorder each tangent like its operand. The sort is made stable, so that all backends choose the same order."""
    with_places = replace(op, count=op.count + 1, stable=True)
    order = apply(with_places, *inputs, iota(inputs[0], op.axis))[-1]
    return tuple(None if x_dot is None else take_along(x_dot, order, op.axis) for x_dot in tangents)


def top_k_jvp(op: ops.TopK, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """Return the tangents of the selected elements."""
    (x_dot,) = tangents
    assert x_dot is not None
    return (take_along(x_dot, outputs[1], x_dot.rank - 1), None)


INDEX = inactive("an index does not vary continuously")
BITS = inactive("integer and bool tensors do not vary continuously")
EXTREMUM = jvp_only(reduce_extremum_jvp)


def over_axes(rows: AdRows) -> AdRows:
    """Return `rows` with the batch rule of ops whose payload has an attribute `axes`."""
    return batched_by(reduce_batch, rows)


def along_axis(rows: AdRows) -> AdRows:
    """Return `rows` with the batch rule of ops whose payload has an attribute `axis`."""
    return batched_by(scan_batch, rows)


ROWS: AdRows = {
    **over_axes(
        {
            ops.ReduceSum: linear(
                lambda op, x, y_bar: broadcast(y_bar, x, others(x.rank, op.axes)), reduce_batch
            ),
            ops.ReduceProd: jvp_only(reduce_prod_jvp),
            ops.ReduceMax: EXTREMUM,
            ops.ReduceMin: EXTREMUM,
            ops.ReduceAnd: BITS,
            ops.ReduceOr: BITS,
        }
    ),
    **along_axis(
        {
            ops.ArgMax: INDEX,
            ops.ArgMin: INDEX,
            ops.CumSum: linear(
                lambda op, x, y_bar: apply_one(replace(op, reverse=not op.reverse), y_bar),
                scan_batch,
            ),
            ops.CumProd: scanned(cumprod_jvp),
            ops.CumMax: cumulative_extremum_jvp("GT", ops.CumMax, float("-inf")),
            ops.CumMin: cumulative_extremum_jvp("LT", ops.CumMin, float("inf")),
            ops.Sort: jvp_only(sort_jvp),
        }
    ),
    ops.TopK: replace(jvp_only(top_k_jvp), batch=last_axis_batch),
}
