"""Derivatives of the indexing ops.

Ops treat windows that are out of bounds in two ways: gather moves them inside, and scatter drops them. If extents are
numbers, the transposes do the same. With symbolic extents, derivatives are right only if all indices are in bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tenferro.ad.algebra import (
    Value,
    apply,
    apply_one,
    broadcast,
    compare,
    constant_like,
    convert,
    full,
    iota_along,
    is_zero,
    lead,
    lead_all,
    logical_and,
    reshape,
    scalar,
    select,
    size_along,
    zeros,
)
from tenferro.ad.rule import AdRows, AdRule, Tangents, Values, jointly_linear, linear
from tenferro.ad.rules.structural import shifted
from tenferro.ops import indexing as ops
from tenferro.ops.elementwise import Clamp, Minimum
from tenferro.ops.reduction import ReduceAnd
from tenferro.ops.source import ShapeOf
from tenferro.ops.structural import Concatenate
from tenferro.types import DType

__all__ = ["ROWS"]

# ---- Gather ----------------------------------------------------------------------------------------


def last_starts(indices: Value, vector_axis: int, limits: list[Any]) -> Value | None:
    """Return `limits`, the largest valid starts, in the shape of `indices`; None if a limit is symbolic."""
    if not all(isinstance(limit, int) for limit in limits):
        return None
    largest = indices.dtype.extremes[1]
    last = np.array([min(limit, largest) for limit in limits], indices.dtype.dtype)
    if vector_axis == indices.rank:
        return full(indices, int(last[0]))
    return broadcast(constant_like(indices, last), indices, (vector_axis,))


def gather_transpose(op: Any, x: Value, indices: Value, y_bar: Value) -> Value:
    """Return x_bar: add the window of `y_bar` for each index at the position from which gather read that window."""
    scatter = ops.Scatter(
        update_window_dims=op.offset_dims,
        inserted_window_dims=op.collapsed_slice_dims,
        input_batching_dims=op.operand_batching_dims,
        scatter_indices_batching_dims=op.start_indices_batching_dims,
        scatter_dims_to_operand_dims=op.start_index_map,
        index_vector_dim=op.index_vector_dim,
        combiner="add",
        indices_are_sorted=op.indices_are_sorted,
    )
    sizes = op.resolved("slice_sizes", (x.shape, indices.shape))
    limits = [x.shape[axis] - sizes[axis] for axis in op.start_index_map]
    bounds = last_starts(indices, op.index_vector_dim, limits)
    if bounds is None:
        indices = small_starts(indices)
        bounds = measured_last_starts(op, x, indices, y_bar)
    indices = apply_one(Clamp(), indices, zeros(indices), bounds)
    return apply_one(scatter, zeros(x), indices, y_bar)


def measured_last_starts(op: Any, x: Value, indices: Value, y_bar: Value) -> Value:
    """Return the largest valid starts in the shape of `indices`, measured when the program runs."""
    dropped = (*op.collapsed_slice_dims, *op.operand_batching_dims)
    window = [axis for axis in range(x.rank) if axis not in dropped]
    lasts: list[Value] = []
    for axis in op.start_index_map:
        is_one = axis in dropped
        size = 1 if is_one else size_along(y_bar, op.offset_dims[window.index(axis)])
        lasts.append(size_along(x, axis) - size)
    if op.index_vector_dim == indices.rank:
        return broadcast(lasts[0], indices, ())
    vector = apply_one(Concatenate(0, len(lasts)), *[reshape(last, (1,)) for last in lasts])
    return broadcast(vector, indices, (op.index_vector_dim,))


def small_starts(starts: Value) -> Value:
    """Convert starts to int64, where starts above its range become its largest number."""
    if starts.dtype is DType.U64:
        starts = apply_one(Minimum(), starts, full(starts, np.iinfo(np.int64).max))
    return convert(starts, DType.I64)


def gather_batch(op: Any, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Batch a gather.

    If only x has the leading axis, each window covers that axis. If only the indices have it, it is an additional axis
    of the indices. If both have it, it is a batching axis.
    """
    x, indices = inputs
    if batched == (True, False):
        sizes = op.resolved("slice_sizes", (x.shape[1:], indices.shape))
        moved = replace(
            op,
            offset_dims=(0, *shifted(op.offset_dims)),
            collapsed_slice_dims=shifted(op.collapsed_slice_dims),
            operand_batching_dims=shifted(op.operand_batching_dims),
            start_index_map=shifted(op.start_index_map),
            slice_sizes=(x.shape[0], *sizes),
        )
        return apply(moved, x, indices)
    moved = replace(
        op,
        offset_dims=shifted(op.offset_dims),
        start_indices_batching_dims=shifted(op.start_indices_batching_dims),
        index_vector_dim=op.index_vector_dim + 1,
    )
    if not batched[0]:
        sizes = op.resolved("slice_sizes", (x.shape, indices.shape[1:]))
        # The indices of each slice may be sorted, but the indices of all slices together are not.
        moved = replace(moved, slice_sizes=sizes, indices_are_sorted=False)
        return apply(moved, x, indices)
    sizes = op.resolved("slice_sizes", (x.shape[1:], indices.shape[1:]))
    moved = replace(
        moved,
        collapsed_slice_dims=shifted(op.collapsed_slice_dims),
        operand_batching_dims=(0, *shifted(op.operand_batching_dims)),
        start_indices_batching_dims=(0, *moved.start_indices_batching_dims),
        start_index_map=shifted(op.start_index_map),
        slice_sizes=(1, *sizes),
        indices_are_sorted=False,
    )
    return apply(moved, x, indices)


# ---- Scatter ---------------------------------------------------------------------------------------


def window_sizes(op: ops.Scatter, x: Value, updates: Value) -> tuple[Any, ...]:
    """Return the extents of a window of the scatter along the axes of x: 0 along an axis without elements."""
    dropped = {*op.inserted_window_dims, *op.input_batching_dims}
    places = iter(sorted(op.update_window_dims))
    return tuple(
        (0 if x.shape[axis] == 0 else 1) if axis in dropped else updates.shape[next(places)]
        for axis in range(x.rank)
    )


def read_back(op: ops.Scatter, x: Value, indices: Value, updates: Value) -> Value:
    """Gather the windows of x to which the scatter `op` writes `updates`."""
    return apply_one(gather_of(op, x, updates), x, indices)


def gather_of(op: ops.Scatter, x: Value, updates: Value) -> ops.Gather:
    """Return the op that gathers the windows of x to which the scatter `op` writes `updates`."""
    return ops.Gather(
        offset_dims=op.update_window_dims,
        collapsed_slice_dims=op.inserted_window_dims,
        operand_batching_dims=op.input_batching_dims,
        start_indices_batching_dims=op.scatter_indices_batching_dims,
        start_index_map=op.scatter_dims_to_operand_dims,
        index_vector_dim=op.index_vector_dim,
        slice_sizes=window_sizes(op, x, updates),
        indices_are_sorted=op.indices_are_sorted,
    )


def scattered(op: ops.Scatter, combiner: str, x: Value, indices: Value, updates: Value) -> Value:
    """Emit the scatter `op` with another combiner, `combiner`."""
    return apply_one(replace(op, combiner=combiner), x, indices, updates)


def scatter_jvp(op: ops.Scatter, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """Return the tangent of a scatter.

    If the combiner is "set" and each element is written at most once, the op itself computes the tangent. Otherwise the
    rule of the combiner returns two linear functions, one of x_dot and one of the tangent of the updates.
    """
    x, indices, updates = inputs
    x_dot, _, updates_dot = tangents
    if op.combiner == "set" and are_disjoint(op, indices):
        base = zeros(x) if x_dot is None else x_dot
        window = zeros(updates) if updates_dot is None else updates_dot
        return (apply_one(op, base, indices, window),)
    of_x, moved = COMBINER_RULES[op.combiner](op, inputs, outputs[0])
    total = None if x_dot is None else of_x(x_dot)
    if updates_dot is not None:
        base = zeros(x) if total is None else total
        total = scattered(op, "add", base, indices, moved(updates_dot))
    return (total,)


def are_disjoint(op: ops.Scatter, indices: Value) -> bool:
    """Return whether no element is written twice.

    This is true if there is only one window, or if `unique_indices` declares that the windows do not overlap.
    """
    axes = {a for a in range(indices.rank) if a != op.index_vector_dim}
    axes.difference_update(op.scatter_indices_batching_dims)
    return op.unique_indices or all([indices.shape[axis] == 1 for axis in axes])


def add_parts(op: ops.Scatter, inputs: Values, y: Value) -> Any:
    """Linearize y = x + updates."""
    return (lambda x_dot: x_dot), (lambda updates_dot: updates_dot)


def set_parts(op: ops.Scatter, inputs: Values, y: Value) -> Any:
    """Linearize "set": y is x where nothing was written, and the last update elsewhere.

    To find the last update of each element, the same scatter writes the position of each update instead of its
    elements. An update is the last one if gather then returns its own position.
    """
    x, indices, updates = inputs
    numbers = iota_along(updates, (updates.type.size,), 0)
    numbers = reshape(numbers, updates.shape)
    owner = scattered(op, "set", full(x, -1, DType.I64), indices, numbers)
    untouched = compare(owner, "LT", 0)
    stayed = compare(read_back(op, owner, indices, updates), "EQ", numbers)
    return (
        lambda x_dot: select(untouched, x_dot, 0),
        lambda updates_dot: select(stayed, updates_dot, 0),
    )


def multiply_parts(op: ops.Scatter, inputs: Values, y: Value) -> Any:
    """Linearize "multiply": the derivative with respect to an update is the product of x and the other updates.

    This product is that of all nonzero updates, divided by the update if it is nonzero. A count of the zeros tells
    whether another update is zero; then the derivative is 0.
    """
    x, indices, updates = inputs
    product = scattered(op, "multiply", full(x, 1), indices, updates)
    zero = is_zero(updates)
    nonzero = select(zero, 1, updates)
    ones = scattered(op, "multiply", full(x, 1), indices, nonzero)
    zeros_there = scattered(op, "add", zeros(x, DType.I64), indices, convert(zero, DType.I64))
    without = read_back(op, ones, indices, updates) / nonzero
    others = read_back(op, zeros_there, indices, updates) - convert(zero, DType.I64)
    factor = select(is_zero(others), without, 0) * read_back(op, x, indices, updates)
    return (lambda x_dot: x_dot * product), (lambda updates_dot: updates_dot * factor)


def extremum_parts(op: ops.Scatter, inputs: Values, y: Value) -> Any:
    """Linearize "max" or "min".

    The tangent is the mean of several tangents: those of x and of the updates that equal the extremum.
    """
    x, indices, updates = inputs
    x_wins = compare(x, "EQ", y)
    update_wins = compare(updates, "EQ", read_back(op, y, indices, updates))
    number = convert(x_wins, x.dtype)
    number = scattered(op, "add", number, indices, convert(update_wins, x.dtype))
    share = read_back(op, number, indices, updates)
    return (
        lambda x_dot: select(x_wins, x_dot / number, 0),
        lambda updates_dot: select(update_wins, updates_dot / share, 0),
    )


COMBINER_RULES = {
    "add": add_parts,
    "set": set_parts,
    "multiply": multiply_parts,
    "min": extremum_parts,
    "max": extremum_parts,
}


def scatter_transpose(
    op: ops.Scatter, inputs: Values, linear: tuple[bool, ...], y_bars: Tangents
) -> Tangents:
    """Return the cotangents of x and of the updates.

    The cotangent of x is `y_bar`, but for "set" it is zero in the windows that were written. The cotangent of the
    updates consists of the windows of `y_bar` at the indices.

    Tangents are computed only by "add", and by "set" with disjoint windows, so no other combiner is transposed.
    """
    (_, indices, updates), (y_bar,) = inputs, y_bars
    assert y_bar is not None
    x_bar = None
    if linear[0]:
        is_set = op.combiner == "set"
        x_bar = apply_one(op, y_bar, indices, zeros(updates)) if is_set else y_bar
    return (x_bar, None, of_windows_that_fit(op, y_bar, indices, updates) if linear[2] else None)


def of_windows_that_fit(op: ops.Scatter, y_bar: Value, indices: Value, updates: Value) -> Value:
    """Return the windows of `y_bar` that belong to the updates; zeros for updates that were out of bounds."""
    windows = read_back(op, y_bar, indices, updates)
    sizes = window_sizes(op, y_bar, updates)
    limits = [y_bar.shape[axis] - sizes[axis] for axis in op.scatter_dims_to_operand_dims]
    bounds = last_starts(indices, op.index_vector_dim, limits)
    if bounds is None:
        indices = small_starts(indices)
        bounds = measured_last_starts(gather_of(op, y_bar, updates), y_bar, indices, updates)
    fits = logical_and(compare(indices, "GE", 0), compare(indices, "LE", bounds))
    if op.index_vector_dim < indices.rank:
        fits = apply_one(ReduceAnd((op.index_vector_dim,)), fits)
    scattered_axes = [a for a in range(updates.rank) if a not in set(op.update_window_dims)]
    return select(broadcast(fits, updates, scattered_axes), windows, 0)


def scatter_batch(op: ops.Scatter, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Batch a scatter. If the indices have the leading axis, it is a batching axis; else each window covers it."""
    x, updates = lead_all(inputs[::2], batched[::2]) if any(batched[::2]) else inputs[::2]
    moved = replace(
        op,
        inserted_window_dims=shifted(op.inserted_window_dims),
        input_batching_dims=shifted(op.input_batching_dims),
        scatter_dims_to_operand_dims=shifted(op.scatter_dims_to_operand_dims),
    )
    if not batched[1]:
        moved = replace(moved, update_window_dims=(0, *shifted(op.update_window_dims)))
        return apply(moved, x, inputs[1], updates)
    x, indices, updates = lead_all(inputs, batched)
    moved = replace(
        moved,
        update_window_dims=shifted(op.update_window_dims),
        input_batching_dims=(0, *moved.input_batching_dims),
        scatter_indices_batching_dims=(0, *shifted(op.scatter_indices_batching_dims)),
        index_vector_dim=op.index_vector_dim + 1,
        indices_are_sorted=False,
    )
    return apply(moved, x, indices, updates)


# ---- DynamicSlice, DynamicUpdateSlice ----------------------------------------------------------------


def origin(start: Value | None, like: Value) -> Value:
    """Return 0 as the start along the leading axis. The dtype is that of `start`, or int64 if `start` is None."""
    dtype = DType.I64 if start is None else start.dtype
    return scalar(like, 0, dtype)


def free_axes(extents: Sequence[Any], sizes: Sequence[Any]) -> tuple[int, ...]:
    """Return the axes along which a window of extents `sizes` has more than one valid position."""
    return tuple([
        axis for axis, (extent, size) in enumerate(zip(extents, sizes, strict=True))
        if extent - size != 0
    ])  # fmt: skip


def start_vectors(starts: Sequence[Value], batched: Sequence[bool], count: Any) -> Value:
    """Return a matrix whose row i contains the starts for slice i, one column per axis."""
    columns = [
        reshape(start if has else lead(start, count), (count, 1))
        for start, has in zip(starts, batched, strict=True)
    ]
    return columns[0] if len(columns) == 1 else apply_one(Concatenate(1, len(columns)), *columns)


def starts_that_fit(starts: Value, x: Value, update: Value, axes: Sequence[int]) -> Value:
    """Clamp `starts` as the op does, so that the update fits into x. Column j contains the starts along `axes[j]`."""
    bounds = last_starts(starts, 1, [x.shape[axis] - update.shape[axis] for axis in axes])
    if bounds is None:
        starts = small_starts(starts)
        lasts = [apply_one(ShapeOf(a), x) - apply_one(ShapeOf(a), update) for a in axes]
        count = starts.shape[0]
        bounds = start_vectors(lasts, [False] * len(lasts), count)
    return apply_one(Clamp(), starts, zeros(starts), bounds)


def dynamic_slice_transpose(op: ops.DynamicSlice, x: Value, *rest: Value) -> Value:
    """Write the cotangent into zeros, at the position of the slice."""
    *starts, y_bar = rest
    return apply_one(ops.DynamicUpdateSlice(x.rank), zeros(x), y_bar, *starts)


def dynamic_slice_batch(op: ops.DynamicSlice, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Batch a dynamic slice: the slice contains the whole leading axis.

    If the starts differ between slices of the batch, a gather reads one window for each slice.
    """
    x, *starts = inputs
    extents = x.shape[1:] if batched[0] else x.shape
    sizes = op.resolved("sizes", (extents,))
    if not any(batched[1:]):
        first = origin(starts[0] if starts else None, x)
        return apply(ops.DynamicSlice((x.shape[0], *sizes)), x, first, *starts)
    count = inputs[batched.index(True)].shape[0]
    axes = free_axes(extents, sizes)
    if not axes:
        return (x if batched[0] else lead(x, count),)
    # Axes along which the window has extent 1 are collapsed, because gather kernels copy whole rows faster than
    # windows.
    rows = tuple([axis for axis in axes if sizes[axis] == 1])
    batch_axis = (0,) if batched[0] else ()
    gather = ops.Gather(
        offset_dims=tuple(range(1, 1 + len(sizes) - len(rows))),
        collapsed_slice_dims=shifted(rows) if batched[0] else rows,
        operand_batching_dims=batch_axis,
        start_indices_batching_dims=batch_axis,
        start_index_map=shifted(axes) if batched[0] else axes,
        index_vector_dim=1,
        slice_sizes=(1, *sizes) if batched[0] else sizes,
    )
    vectors = start_vectors(
        [starts[axis] for axis in axes], [batched[1 + axis] for axis in axes], count
    )
    return (reshape(apply_one(gather, x, vectors), (count, *sizes)),)


def update_slice_transpose(
    op: ops.DynamicUpdateSlice, inputs: Values, linear: tuple[bool, ...], y_bars: Tangents
) -> Tangents:
    """Return the cotangents: for x, `y_bar` with zeros in the window; for the update, the window of `y_bar`."""
    (_, update, *starts), (y_bar,) = inputs, y_bars
    assert y_bar is not None
    x_bar = apply_one(op, y_bar, zeros(update), *starts) if linear[0] else None
    update_bar = apply_one(ops.DynamicSlice(update.shape), y_bar, *starts) if linear[1] else None
    return (x_bar, update_bar, *([None] * len(starts)))


def update_slice_batch(
    op: ops.DynamicUpdateSlice, inputs: Values, batched: tuple[bool, ...]
) -> Values:
    """Batch a dynamic update: the window contains the whole leading axis.

    If the starts differ between slices of the batch, a scatter writes one window for each slice.
    """
    starts = inputs[2:]
    if not any(batched[2:]):
        x, update = lead_all(inputs[:2], batched[:2])
        first = origin(starts[0] if starts else None, x)
        return apply(ops.DynamicUpdateSlice(op.rank + 1), x, update, first, *starts)
    count = inputs[batched.index(True)].shape[0]
    x, update = [
        value if has else lead(value, count)
        for value, has in zip(inputs[:2], batched, strict=False)
    ]
    axes = free_axes(x.shape[1:], update.shape[1:])
    if not axes:
        return (update,)
    vectors = start_vectors(
        [starts[axis] for axis in axes], [batched[2 + axis] for axis in axes], count
    )
    scatter = ops.Scatter(
        update_window_dims=tuple(range(1, 1 + op.rank)),
        inserted_window_dims=(),
        input_batching_dims=(0,),
        scatter_indices_batching_dims=(0,),
        scatter_dims_to_operand_dims=shifted(axes),
        index_vector_dim=1,
        combiner="set",
        unique_indices=True,
    )
    return apply(scatter, x, starts_that_fit(vectors, x, update, shifted(axes)), update)


ROWS: AdRows = {
    ops.Gather: linear(gather_transpose, gather_batch),
    ops.GatherDynamicSliceSizes: linear(gather_transpose, gather_batch),
    ops.Scatter: AdRule(
        scatter_jvp, scatter_transpose, scatter_batch, is_linear=lambda mask: not mask[1]
    ),
    ops.DynamicSlice: linear(dynamic_slice_transpose, dynamic_slice_batch),
    ops.DynamicUpdateSlice: jointly_linear(update_slice_transpose, update_slice_batch, 2),
}
