"""Derivatives of the contraction ops. These ops are bilinear; the transpose for either operand is again a contraction.

Source for convolution: Dumoulin and Visin, "A guide to convolution arithmetic", 2016. The feature group count and the
batch group count are exchanged as in the transposes of JAX's `conv_general_dilated`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenferro.ad.algebra import Value, apply_one, conj, convert, reshape, reverse, transpose
from tenferro.ad.rule import AdRows, Values, bilinear
from tenferro.ad.rules.structural import inverse, shifted
from tenferro.errors import UnsupportedError
from tenferro.ops import contraction as ops

__all__ = ["ROWS"]

# ---- DotGeneral ------------------------------------------------------------------------------------


def dot_lhs_transpose(op: ops.DotGeneral, lhs: Value, rhs: Value, y_bar: Value) -> Value:
    """Return lhs_bar: contract `y_bar` with conj(rhs) over the free axes of rhs.

    Permute the result to the axes of lhs.
    """
    batch = len(op.lhs_batch)
    free = op.lhs_free(lhs.rank)
    of_rhs = tuple(range(batch + len(free), y_bar.rank))
    product = apply_one(
        replace(
            op,
            lhs_contracting=of_rhs,
            rhs_contracting=op.rhs_free(rhs.rank),
            lhs_batch=tuple(range(batch)),
            rhs_batch=op.rhs_batch,
        ),
        y_bar,
        convert(conj(rhs), y_bar.dtype),
    )
    partner = dict(zip(op.rhs_contracting, op.lhs_contracting, strict=True))
    order = (*op.lhs_batch, *free, *(partner[axis] for axis in sorted(op.rhs_contracting)))
    return convert(transpose(product, inverse(order)), lhs.dtype)


def dot_rhs_transpose(op: ops.DotGeneral, lhs: Value, rhs: Value, y_bar: Value) -> Value:
    """Return rhs_bar: contract `y_bar` with conj(lhs) over the free axes of lhs.

    Permute the result to the axes of rhs.
    """
    batch = len(op.lhs_batch)
    free = op.rhs_free(rhs.rank)
    of_lhs = tuple(range(batch, y_bar.rank - len(free)))
    product = apply_one(
        replace(
            op,
            lhs_contracting=op.lhs_free(lhs.rank),
            rhs_contracting=of_lhs,
            lhs_batch=op.lhs_batch,
            rhs_batch=tuple(range(batch)),
        ),
        convert(conj(lhs), y_bar.dtype),
        y_bar,
    )
    partner = dict(zip(op.lhs_contracting, op.rhs_contracting, strict=True))
    order = (*op.rhs_batch, *(partner[axis] for axis in sorted(op.lhs_contracting)), *free)
    return convert(transpose(product, inverse(order)), rhs.dtype)


def dot_batch(op: ops.DotGeneral, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Batch a product. The leading axis becomes a free axis if one operand has it, and a batch axis if both have it."""
    lhs_batch, rhs_batch = op.lhs_batch, op.rhs_batch
    lhs_contracting, rhs_contracting = op.lhs_contracting, op.rhs_contracting
    if batched[0]:
        lhs_batch, lhs_contracting = shifted(lhs_batch), shifted(lhs_contracting)
    if batched[1]:
        rhs_batch, rhs_contracting = shifted(rhs_batch), shifted(rhs_contracting)
    if all(batched):
        lhs_batch, rhs_batch = (0, *lhs_batch), (0, *rhs_batch)
    moved = replace(
        op,
        lhs_batch=lhs_batch,
        rhs_batch=rhs_batch,
        lhs_contracting=lhs_contracting,
        rhs_contracting=rhs_contracting,
    )
    y = apply_one(moved, *inputs)
    if all(batched):
        return (y,)
    free_axis = (
        len(lhs_batch) if batched[0] else len(lhs_batch) + len(moved.lhs_free(inputs[0].rank))
    )
    return (transpose(y, (free_axis, *(axis for axis in range(y.rank) if axis != free_axis))),)


# ---- Convolution -----------------------------------------------------------------------------------


def dilated(extent: Any, dilation: int) -> Any:
    """Return the extent of an axis after dilation, which inserts `dilation` - 1 zeros between neighbouring elements."""
    return 0 if extent == 0 else (extent - 1) * dilation + 1


def split_groups(x: Value, axis: int, count: int) -> Value:
    """Split `axis` into two axes, (rest, groups). In column-major order the second axis varies slowest."""
    shape = x.shape
    return reshape(x, (*shape[:axis], shape[axis] // count, count, *shape[axis + 1 :]))


def move_groups(x: Value, source: int, target: int, count: int) -> Value:
    """Split the groups off axis `source`, and merge them into axis `target`, along which they vary slowest."""
    if count == 1:
        return x
    y = split_groups(x, source, count)
    groups = source + 1
    rest = [axis for axis in range(y.rank) if axis != groups]
    position = rest.index(target if target < groups else target + 1) + 1
    perm = (*rest[:position], groups, *rest[position:])
    y = transpose(y, perm)
    shape = y.shape
    return reshape(y, (*shape[: position - 1], shape[position - 1] * count, *shape[position + 1 :]))


def unreversed(op: ops.Convolution, kernel: Value) -> Value:
    """Reverse the kernel along the axes with window reversal.

    With the result, the convolution needs no window reversal.
    """
    turned = [a for a, flag in zip(op.kernel_spatial, op.window_reversal, strict=True) if flag]
    return reverse(kernel, turned)


def convolution_lhs_transpose(op: ops.Convolution, x: Value, kernel: Value, y_bar: Value) -> Value:
    """Return lhs_bar: convolve `y_bar` with the reversed kernel, with strides and dilation exchanged."""
    spatial = len(op.window_strides)
    groups = max(op.feature_group_count, op.batch_group_count)
    weights = conj(unreversed(op, kernel))
    weights = move_groups(weights, op.kernel_output_feature, op.kernel_input_feature, groups)
    padding: list[tuple[Any, Any]] = []
    for i in range(spatial):
        before = dilated(kernel.shape[op.kernel_spatial[i]], op.rhs_dilation[i]) - 1
        before = before - op.padding[i][0]
        total = dilated(x.shape[op.input_spatial[i]], op.lhs_dilation[i])
        total = total + dilated(kernel.shape[op.kernel_spatial[i]], op.rhs_dilation[i]) - 1
        total = total - dilated(y_bar.shape[op.output_spatial[i]], op.window_strides[i])
        padding.append((before, total - before))
    x_bar = apply_one(
        replace(
            op,
            window_strides=op.lhs_dilation,
            padding=tuple(padding),
            lhs_dilation=op.window_strides,
            window_reversal=(False,) * spatial,
            input_batch=op.output_batch,
            input_feature=op.output_feature,
            input_spatial=op.output_spatial,
            kernel_input_feature=op.kernel_output_feature,
            kernel_output_feature=op.kernel_input_feature,
            output_batch=op.input_batch,
            output_feature=op.input_feature,
            output_spatial=op.input_spatial,
            feature_group_count=groups,
            batch_group_count=1,
        ),
        y_bar,
        reverse(weights, op.kernel_spatial),
    )
    return move_groups(x_bar, op.input_feature, op.input_batch, op.batch_group_count)


def convolution_rhs_transpose(op: ops.Convolution, x: Value, kernel: Value, y_bar: Value) -> Value:
    """Return rhs_bar: correlate the input with `y_bar`, with batch and feature axes exchanged."""
    spatial = len(op.window_strides)
    padding: list[tuple[Any, Any]] = []
    for i in range(spatial):
        low = op.padding[i][0]
        total = dilated(y_bar.shape[op.output_spatial[i]], op.window_strides[i])
        total = total + dilated(kernel.shape[op.kernel_spatial[i]], op.rhs_dilation[i])
        total = total - dilated(x.shape[op.input_spatial[i]], op.lhs_dilation[i]) - 1
        padding.append((low, total - low))
    kernel_bar = apply_one(
        replace(
            op,
            window_strides=op.rhs_dilation,
            padding=tuple(padding),
            rhs_dilation=op.window_strides,
            window_reversal=(False,) * spatial,
            input_batch=op.input_feature,
            input_feature=op.input_batch,
            kernel_input_feature=op.output_batch,
            kernel_output_feature=op.output_feature,
            kernel_spatial=op.output_spatial,
            output_batch=op.kernel_input_feature,
            output_feature=op.kernel_output_feature,
            output_spatial=op.kernel_spatial,
            feature_group_count=op.batch_group_count,
            batch_group_count=op.feature_group_count,
        ),
        conj(x),
        y_bar,
    )
    return unreversed(op, kernel_bar)


def convolution_batch(op: ops.Convolution, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Batch a convolution: merge the leading axis into an axis that the convolution has.

    This is the batch axis of x, or the axis of the kernel's output features. If both operands have the leading axis, it
    is merged into their groups.
    """
    x, kernel = inputs
    if all(batched):
        return (_convolution_each(op, x, kernel),)
    if batched[0]:
        size, rest = x.shape[0], x.shape[1 + op.input_batch] // op.batch_group_count
        merged = _merge_leading(x, op.input_batch, op.batch_group_count)
        y = apply_one(op, merged, kernel)
        return (_split_leading(y, op.output_batch, size, rest, 1),)
    groups = max(op.feature_group_count, op.batch_group_count)
    size, rest = kernel.shape[0], kernel.shape[1 + op.kernel_output_feature] // groups
    merged = _merge_leading(kernel, op.kernel_output_feature, groups)
    y = apply_one(op, x, merged)
    return (_split_leading(y, op.output_feature, size, rest, groups),)


def _convolution_each(op: ops.Convolution, x: Value, kernel: Value) -> Value:
    """Merge the leading axis into the groups of x and of the kernel; it varies slowest."""
    size = x.shape[0]
    if not isinstance(size, int):
        raise UnsupportedError(
            f"{op.name}: a batch of {size} kernels needs as many groups, and their number must not be symbolic"
        )
    split_batch = op.batch_group_count > 1
    groups = "batch_group_count" if split_batch else "feature_group_count"
    outputs = kernel.shape[1 + op.kernel_output_feature]
    x = _merge_leading(x, op.input_batch if split_batch else op.input_feature, 1)
    kernel = _merge_leading(kernel, op.kernel_output_feature, 1)
    y = apply_one(replace(op, **{groups: getattr(op, groups) * size}), x, kernel)
    return _split_leading(y, op.output_feature, size, outputs, 1)


def _merge_leading(x: Value, axis: int, groups: int) -> Value:
    """Merge the leading axis into `axis`, inside each of its `groups` groups.

    `axis` is numbered without the leading axis.
    """
    rest = list(range(1, x.rank))
    x = transpose(x, (*rest[: axis + 1], 0, *rest[axis + 1 :]))  # .., axis, N, ..
    shape = x.shape
    if groups > 1:
        parts = (shape[axis] // groups, groups)
        x = reshape(x, (*shape[:axis], *parts, *shape[axis + 1 :]))  # .., rest, groups, N, ..
        order = list(range(x.rank))
        order[axis + 1], order[axis + 2] = order[axis + 2], order[axis + 1]
        x = transpose(x, order)
    return reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def _split_leading(y: Value, axis: int, size: Any, rest: Any, groups: int) -> Value:
    """Undo `_merge_leading`: split the batch axis off `axis`, and move it to the front."""
    shape = y.shape
    y = reshape(y, (*shape[:axis], rest, size, groups, *shape[axis + 1 :]))
    y = transpose(y, (axis + 1, *(a for a in range(y.rank) if a != axis + 1)))
    return reshape(y, (size, *shape[:axis], rest * groups, *shape[axis + 1 :]))


ROWS: AdRows = {
    ops.DotGeneral: bilinear(dot_lhs_transpose, dot_rhs_transpose, dot_batch),
    ops.Convolution: bilinear(
        convolution_lhs_transpose, convolution_rhs_transpose, convolution_batch
    ),
}
