"""Derivatives of the ops that move data. All are linear, and a transpose moves the cotangents back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenferro.ad.algebra import (
    Value,
    add,
    apply,
    apply_one,
    broadcast,
    full,
    is_zero,
    lead,
    lead_all,
    reduce_sum,
    reshape,
    reverse,
    scalar,
    select,
    size_along,
    slice_along,
    transpose,
    truncated,
    zeros,
)
from tenferro.ad.rule import AdRows, AdRule, Tangents, Values, jointly_linear, linear
from tenferro.dims import DimExpr, is_exact, is_static
from tenferro.errors import ADRuleUnsupportedError
from tenferro.ops import StdTensorOp
from tenferro.ops import structural as ops
from tenferro.ops.dynamic import DynamicTruncate, PadToMatch
from tenferro.types import DType

__all__ = ["ROWS", "shifted"]


def shifted(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers that the axes have after a leading axis was added: each is larger by one."""
    return tuple(axis + 1 for axis in axes)


def inverse(perm: tuple[int, ...]) -> tuple[int, ...]:
    """Return the inverse of a permutation."""
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


# ---- axes and shapes -----------------------------------------------------------------------------


def transpose_batch(op: ops.Transpose, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Permute the axes after the leading axis, which stays first."""
    return apply(ops.Transpose((0, *shifted(op.perm))), *inputs)


def reshape_batch(op: ops.Reshape, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Add the leading axis to the target shape.

    It varies fastest in operand and result, because the order is column-major.
    """
    (x,) = inputs
    shape = op.resolved("shape", (x.shape[1:],))
    return (apply_one(ops.Reshape((x.shape[0], *shape)), x),)


def broadcast_transpose(op: ops.BroadcastInDim, x: Value, y_bar: Value) -> Value:
    """Sum the cotangent over new axes, and over axes that had extent 1 in x."""
    shape = y_bar.shape
    stretched = [
        axis
        for axis, dim in enumerate(op.dims)
        if x.shape[axis] != shape[dim] and _is_one(op, x, axis, shape[dim])
    ]
    unstretched = [dim for axis, dim in enumerate(op.dims) if axis not in stretched]
    x_bar = reduce_sum(y_bar, [axis for axis in range(len(shape)) if axis not in unstretched])
    x_bar = transpose(x_bar, [sorted(unstretched).index(dim) for dim in unstretched])
    if not stretched:
        return x_bar
    if all(map(is_exact, x.shape)):
        return reshape(x_bar, x.shape)
    # A reshape would need data-dependent extents in its target shape. A broadcast can copy these extents from x_bar.
    own = [axis for axis in range(x.rank) if axis not in stretched]
    extents = [
        1 if axis in stretched else DimExpr.input_axis(0, own.index(axis)) for axis in range(x.rank)
    ]
    return apply_one(ops.BroadcastInDim(tuple(extents), tuple(own)), x_bar)


def _is_one(op: ops.BroadcastInDim, x: Value, axis: int, extent: Any) -> bool:
    if x.shape[axis] == 1:
        return True
    if is_static(x.shape[axis]) and is_static(extent):
        return False
    raise ADRuleUnsupportedError(
        f"BroadcastInDim: transpose: axis {axis} of {x.type} is either 1 or {extent}, which is "
        "known only at run time; give both one symbol, or write 1"
    )


def broadcast_batch(op: ops.BroadcastInDim, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Broadcast along the axes after the leading axis; an extent that depends on data is one of x."""
    (x,) = inputs
    shape = [
        n if is_exact(n) else DimExpr.input_axis(0, op.dims.index(axis) + 1)
        for axis, n in enumerate(op.resolved("shape", (x.shape[1:],)))
    ]
    return (apply_one(ops.BroadcastInDim((x.shape[0], *shape), (0, *shifted(op.dims))), x),)


# ---- cutting and joining -------------------------------------------------------------------------


def slice_transpose(op: ops.Slice, x: Value, y_bar: Value) -> Value:
    """Write the cotangent to the positions of the slice, with zeros elsewhere."""
    starts = op.resolved("starts", (x.shape,))
    high: list[Any] = []
    for start, stride, extent, count in zip(starts, op.strides, x.shape, y_bar.shape, strict=True):
        if count == 0:
            high.append(extent - start)
        else:
            high.append(extent - start - (count - 1) * stride - 1)
    interior = tuple(stride - 1 for stride in op.strides)
    return apply_one(ops.Pad(starts, tuple(high), interior), y_bar, scalar(y_bar, 0))


def slice_batch(op: ops.Slice, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Slice along the axes after the leading axis."""
    (x,) = inputs
    starts = op.resolved("starts", (x.shape[1:],))
    limits = op.resolved("limits", (x.shape[1:],))
    return (apply_one(ops.Slice((0, *starts), (x.shape[0], *limits), (1, *op.strides)), x),)


def pad_jvp(op: ops.Pad, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """Return x_dot at the elements of x, and the padding value's tangent elsewhere."""
    (x, _), (x_dot, fill_dot) = inputs, tangents
    total = None if x_dot is None else apply_one(op, x_dot, scalar(x_dot, 0))
    if fill_dot is not None:
        inside = apply_one(op, full(x, 1), scalar(x, 0))
        total = add(total, select(is_zero(inside), broadcast(fill_dot, outputs[0], ()), 0))
    return (total,)


def pad_transpose(op: ops.Pad, x: Value, fill: Value, y_bar: Value) -> Value:
    """Return x_bar: remove the padding at the edges, then between elements. Cotangents of cropped elements are zero."""
    low, high = tuple(-n for n in op.low), tuple(-n for n in op.high)
    x_bar = apply_one(ops.Pad(low, high, (0,) * len(low)), y_bar, scalar(y_bar, 0))
    strides = tuple(n + 1 for n in op.interior)
    if all(stride == 1 for stride in strides):
        return x_bar
    return apply_one(ops.Slice((0,) * len(low), x_bar.shape, strides), x_bar)


def pad_batch(op: ops.Pad, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Pad along the axes after the leading axis. If the padding value differs between slices, insert it by a select."""
    moved = ops.Pad((0, *op.low), (0, *op.high), (0, *op.interior))
    x, value = inputs
    if not batched[1]:
        return apply(moved, x, value)
    x = x if batched[0] else lead(x, value.shape[0])
    y = apply_one(moved, x, scalar(x, 0))
    inside = apply_one(moved, full(x, True, DType.Bool), scalar(x, False, DType.Bool))
    return (select(inside, y, broadcast(value, y, (0,))),)


def concatenate_transpose(
    op: ops.Concatenate, inputs: Values, linear: tuple[bool, ...], y_bars: Tangents
) -> Tangents:
    """Return, for each operand, the slice of `y_bar` at the position of the operand."""
    (y_bar,) = y_bars
    assert y_bar is not None
    if not all(map(is_exact, y_bar.shape)):
        return _parts(y_bar, op.axis, inputs, linear)
    start: Any = 0
    parts: list[Value | None] = []
    for x, is_linear in zip(inputs, linear, strict=True):
        limit = start + x.shape[op.axis]
        parts.append(slice_along(y_bar, op.axis, start, limit) if is_linear else None)
        start = limit
    return tuple(parts)


def _parts(y_bar: Value, axis: int, inputs: Values, linear: tuple[bool, ...]) -> Tangents:
    """Cut `y_bar` along an axis into parts of the sizes of `inputs`, which are measured when the program runs."""
    size = scalar(y_bar, 0, DType.I64)
    backward = reverse(y_bar, (axis,))
    parts: list[Value | None] = []
    for x, is_linear in zip(reversed(inputs), reversed(linear), strict=True):
        size = size + size_along(x, axis)
        suffix = reverse(apply_one(DynamicTruncate(axis), backward, size), (axis,))
        part = apply_one(PadToMatch(axis), truncated(suffix, axis, x, axis), zeros(x))
        parts.append(part if is_linear else None)
    return tuple(reversed(parts))


def concatenate_batch(op: ops.Concatenate, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Concatenate along the same axis, after the leading axis was added to operands without it."""
    return apply(replace(op, axis=op.axis + 1), *lead_all(inputs, batched))


def reverse_batch(op: ops.Reverse, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Reverse along the axes after the leading axis."""
    return apply(ops.Reverse(shifted(op.axes)), *inputs)


# ---- diagonals -------------------------------------------------------------------------------------


def diagonal_batch(op: Any, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Apply the op to the same pair of axes. The leading axis increases the number of each axis by one."""
    return apply(replace(op, axis_a=op.axis_a + 1, axis_b=op.axis_b + 1), *inputs)


def same(op: StdTensorOp, x: Value, y_bar: Value) -> Value:
    """Apply the op to `y_bar`, because the op is its own transpose."""
    return apply_one(op, y_bar)


def barrier_jvp(op: Any, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """Return the tangents unchanged. A barrier acts only on the values."""
    return tuple(tangents)


ROWS: AdRows = {
    ops.Transpose: linear(lambda op, x, y_bar: transpose(y_bar, inverse(op.perm)), transpose_batch),
    ops.Reshape: linear(lambda op, x, y_bar: reshape(y_bar, x.shape), reshape_batch),
    ops.BroadcastInDim: linear(broadcast_transpose, broadcast_batch),
    ops.Slice: linear(slice_transpose, slice_batch),
    ops.Pad: AdRule(
        pad_jvp, lambda op, xs, linear, y_bars: (pad_transpose(op, *xs, *y_bars), None), pad_batch
    ),
    ops.Concatenate: jointly_linear(concatenate_transpose, concatenate_batch),
    ops.Reverse: linear(lambda op, x, y_bar: reverse(y_bar, op.axes), reverse_batch),
    ops.ExtractDiag: linear(
        lambda op, x, y_bar: apply_one(ops.EmbedDiag(op.axis_a, op.axis_b), y_bar), diagonal_batch
    ),
    ops.EmbedDiag: linear(
        lambda op, x, y_bar: apply_one(ops.ExtractDiag(op.axis_a, op.axis_b), y_bar), diagonal_batch
    ),
    ops.Tril: linear(same),
    ops.Triu: linear(same),
    ops.OptimizationBarrier: AdRule(
        barrier_jvp, reason="tangents pass beside it, so that it is in no linear region"
    ),
}
