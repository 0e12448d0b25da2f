"""Kernels of the indexing family, which translate StableHLO's dimension numbers to NumPy's advanced indexing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tenferro.exec.kernels.composed import extreme_zeros
from tenferro.exec.kernels.kernel import Array, Function, Kernel, KernelRows, Specs
from tenferro.exec.layout import strided
from tenferro.ops import indexing as ops
from tenferro.types import DType

__all__ = ["ROWS"]

MIN_SPARSE_ELEMENTS = 1 << 12
"""Minimum number of elements of updates that a scatter adds by a product with a sparse matrix."""
SPARSE_DTYPES = "fdFD"
"""NumPy's character codes of the dtypes that products with sparse matrices support."""


def gather(op: ops.Gather, x: Array, indices: Array) -> Array:
    """Return the windows of x with these start indices, which are clipped so that the windows are in bounds."""
    sizes = op.resolved("slice_sizes", (x.shape, indices.shape))
    starts, batch = _start_indices(indices, op.index_vector_dim)
    dropped = {*op.collapsed_slice_dims, *op.operand_batching_dims}
    window = [axis for axis in range(x.ndim) if axis not in dropped]
    rank = len(batch) + len(window)
    batch_axes = [axis for axis in range(rank) if axis not in set(op.offset_dims)]
    window_axes = dict(zip(window, sorted(op.offset_dims), strict=True))
    shape = [0] * rank
    for axis, extent in zip(batch_axes, batch, strict=True):
        shape[axis] = extent
    for axis in window:
        shape[window_axes[axis]] = sizes[axis]
    if 0 in shape:
        return np.empty(shape, x.dtype)
    firsts = {
        axis: np.clip(start, 0, x.shape[axis] - sizes[axis])
        for axis, start in zip(op.start_index_map, starts, strict=True)
    }
    numbers = _batch_numbers(
        op.operand_batching_dims, op.start_indices_batching_dims, op.index_vector_dim
    )
    extents = {axis: sizes[axis] for axis in window}
    positions = _positions(x.ndim, batch, batch_axes, firsts, numbers, window_axes, extents)
    if not positions:
        return np.broadcast_to(x, shape)
    return np.broadcast_to(x[tuple(positions)], shape)


def _take_axis(op: Any, shape: Sequence[int], sizes: Sequence[int], batch: int) -> int | None:
    """Return the axis along which `np.take` computes the gather; None if `np.take` cannot compute it.

    `np.take` copies whole slices, and the batch axes replace the indexed axis.

    Args:
        shape, sizes: the extents of the operand and of the windows.
        batch: the number of batch axes.
    """
    if op.operand_batching_dims or op.collapsed_slice_dims != op.start_index_map:
        return None
    axis = _replaced_axis(op.start_index_map, op.offset_dims, len(shape), batch)
    is_whole = axis is not None and [*sizes] == [*shape[:axis], 1, *shape[axis + 1 :]]
    return axis if is_whole else None


def _replaced_axis(
    indexed: Sequence[int], window: Sequence[int], rank: int, batch: int
) -> int | None:
    """Return the indexed axis of an operand if there is only one, and if the batch axes replace it; else None.

    Args:
        indexed: the indexed axes of the operand.
        window: the window axes of the result of a gather or of the updates of a scatter.
        rank: the rank of the operand.
        batch: the number of batch axes.
    """
    if len(indexed) != 1:
        return None
    (axis,) = indexed
    in_place = [*range(axis), *range(axis + batch, rank - 1 + batch)]
    return axis if sorted(window) == in_place else None


def plan_take(op: ops.Gather, inputs: Specs, _: object) -> Function | None:
    """Return a gather of whole slices as NumPy's `take`, or None for other gathers."""
    x, indices = inputs
    if not (x.is_static and indices.is_static) or indices.dtype is DType.U64:
        return None
    vector_axis, rank = op.index_vector_dim, indices.rank
    sizes = op.resolved("slice_sizes", (x.shape, indices.shape))
    axis = _take_axis(op, x.shape, sizes, rank - (vector_axis < rank))
    if axis is None:
        return None
    if vector_axis == rank:
        return lambda x, indices: x.take(indices, axis, None, "clip")
    key = (*[slice(None)] * vector_axis, 0)
    return lambda x, indices: x.take(indices[key], axis, None, "clip")


def _as_int64(indices: Array) -> Array:
    """Convert indices to int64; larger uint64 indices become the maximum of int64, which is also out of bounds."""
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(np.iinfo(np.int64).max))
    return indices.astype(np.int64, copy=False)


def _start_indices(indices: Array, vector_axis: int) -> tuple[Array, tuple[int, ...]]:
    """Split `indices` along `vector_axis`; return an array of start indices per component, and the batch shape."""
    indices = _as_int64(indices)
    if vector_axis == indices.ndim:
        return indices[None], indices.shape
    starts = np.moveaxis(indices, vector_axis, 0)
    return starts, starts.shape[1:]


def _spread(values: Array, axes: Sequence[int], rank: int) -> Array:
    """Reshape an array to a higher rank: its axes become `axes`, and all other axes have extent 1."""
    shape = [1] * rank
    for axis, extent in zip(axes, values.shape, strict=True):
        shape[axis] = extent
    return values.reshape(shape)


def _batch_numbers(
    operand_axes: Sequence[int], index_axes: Sequence[int], index_vector_dim: int
) -> dict[int, int]:
    """Return, for each batching axis of the operand, the position of the matching axis in the batch shape."""
    return {
        axis: number - (number > index_vector_dim)
        for axis, number in zip(operand_axes, index_axes, strict=True)
    }


def _positions(
    operand_rank: int,
    batch: Sequence[int],
    batch_axes: Sequence[int],
    firsts: Mapping[int, Array],
    numbers: Mapping[int, int],
    window_axes: Mapping[int, int],
    sizes: Mapping[int, int],
) -> list[Array]:
    """Return, for each axis of the operand, an array with the indices of the selected elements along this axis.

    The arrays broadcast to the index space: the shape of a gather's result or of a scatter's updates.

    Args:
        batch, batch_axes: the extents of the batch axes, and their numbers in the index space.
        firsts: the start indices, by axis of the operand.
        numbers: the position in `batch` of the matching axis, by batching axis of the operand.
        window_axes: the axis of the index space, by window axis of the operand.
        sizes: the extent of the windows, by axis of the operand.
    """
    rank = len(batch_axes) + len(window_axes)
    positions: list[Array] = []
    for axis in range(operand_rank):
        position = np.zeros((1,) * rank, np.int64)
        if axis in firsts:
            position = position + _spread(firsts[axis], batch_axes, rank)
        if axis in numbers:
            number = numbers[axis]
            position = position + _spread(np.arange(batch[number]), [batch_axes[number]], rank)
        if axis in window_axes:
            position = position + _spread(np.arange(sizes[axis]), [window_axes[axis]], rank)
        positions.append(position)
    return positions


COMBINERS = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


def scatter(op: ops.Scatter, x: Array, indices: Array, updates: Array) -> Array:
    """Combine updates with windows of x, in row-major order of the updates; windows out of bounds are skipped."""
    starts, batch = _start_indices(indices, op.index_vector_dim)
    is_large = updates.size >= MIN_SPARSE_ELEMENTS
    if op.combiner == "add" and is_large and x.dtype.char in SPARSE_DTYPES:
        axis = _scatter_add_axis(op, x, updates)
        if axis is not None:
            return _scatter_add(x, starts[0], updates, axis)
    rank = updates.ndim
    update_window = sorted(op.update_window_dims)
    batch_axes = [axis for axis in range(rank) if axis not in update_window]
    dropped = {*op.inserted_window_dims, *op.input_batching_dims}
    window = [axis for axis in range(x.ndim) if axis not in dropped]
    window_axes = dict(zip(window, update_window, strict=True))
    result = np.array(x)
    if not updates.size:
        return result
    fits = np.ones((1,) * rank, bool)
    sizes = {axis: updates.shape[n] for axis, n in window_axes.items()}
    firsts: dict[int, Array] = {}
    for axis, start in zip(op.scatter_dims_to_operand_dims, starts, strict=True):
        inside = (start >= 0) & (start <= x.shape[axis] - sizes.get(axis, 1))
        fits = fits & _spread(inside, batch_axes, rank)
        firsts[axis] = np.where(inside, start, 0)
    numbers = _batch_numbers(
        op.input_batching_dims, op.scatter_indices_batching_dims, op.index_vector_dim
    )
    positions = _positions(x.ndim, batch, batch_axes, firsts, numbers, window_axes, sizes)
    in_bounds = np.broadcast_to(fits, updates.shape)
    if not in_bounds.any():
        return result
    values = updates[in_bounds]
    flat = np.zeros(values.shape, np.int64)
    for position, extent in zip(positions, x.shape, strict=True):
        flat = flat * extent + np.broadcast_to(position, updates.shape)[in_bounds]
    target = result.ravel()
    _combine(op.combiner, target, flat, values)
    return target.reshape(x.shape)


def _scatter_add_axis(op: ops.Scatter, x: Array, updates: Array) -> int | None:
    """Return the indexed axis if each update is a whole slice of x along one axis; None for any other scatter."""
    indexed, window = op.inserted_window_dims, sorted(op.update_window_dims)
    if op.input_batching_dims or indexed != op.scatter_dims_to_operand_dims:
        return None
    axis = _replaced_axis(indexed, window, x.ndim, updates.ndim - len(window))
    rest = [n for i, n in enumerate(x.shape) if i != axis]
    return axis if rest == [updates.shape[i] for i in window] else None


def _scatter_add(x: Array, starts: Array, updates: Array, axis: int) -> Array:
    """Add each slice of `updates` to the slice of x at its index along an axis.

    Updates with the same index are first summed, by a product with a sparse matrix. The matrix has a single 1 in each
    column, so updates are added in order.
    """
    n = x.shape[axis]
    positions = starts.ravel()
    layers = np.moveaxis(updates.reshape(*x.shape[:axis], -1, *x.shape[axis + 1 :]), axis, 0)
    inside = (positions >= 0) & (positions < n)
    if not inside.all():
        positions, layers = positions[inside], layers[inside]
    if not positions.size:
        return np.array(x)
    if x.ndim == 1 and x.dtype == np.float64:
        return x + _with_negative_zeros(np.bincount(positions, layers, n), positions)
    if np.bincount(positions).max() == 1:
        result = np.array(x)
        np.moveaxis(result, axis, 0)[positions] += layers
        return result
    from scipy import sparse  # because importing scipy takes long

    count = len(positions)
    ones = np.ones(count, x.dtype)
    matrix = sparse.csc_array((ones, positions, np.arange(count + 1)), (n, count))
    sums = (matrix @ layers.reshape(count, -1)).reshape(n, *layers.shape[1:])
    return x + np.moveaxis(_with_negative_zeros(sums, positions), 0, axis)


def _with_negative_zeros(sums: Array, positions: Array) -> Array:
    """Set the sums at positions without updates to -0.0, in place, because adding -0.0 preserves the sign of zeros."""
    is_untouched = np.ones(len(sums), bool)
    is_untouched[positions] = False
    if is_untouched.any():
        sums[is_untouched] = -sums.dtype.type(0)
    return sums


def _combine(combiner: str, target: Array, flat: Array, values: Array) -> None:
    """Combine values with the elements of `target` at the indices `flat`, in place."""
    if combiner == "set":
        target[flat] = values
    elif combiner in ("add", "multiply"):
        COMBINERS[combiner].at(target, flat, values)
    else:
        # np.maximum and np.minimum ignore the signs of zeros, but for the combiners 0.0 is greater than -0.0.
        is_largest = combiner == "max"
        elements = target[flat]
        COMBINERS[combiner].at(target, flat, values)
        if target.dtype.kind not in "biu":
            zero = np.array(0.0 if is_largest else -0.0, target.dtype)
            for operand in (elements, values):
                positions = flat[extreme_zeros(operand, is_largest)]
                target[positions[target[positions] == 0]] = zero


def _clamped_window(
    starts: Sequence[Array], extents: Sequence[int], sizes: Sequence[int]
) -> tuple[slice, ...]:
    """Return the slices of a window with these start indices, which are clipped so that the window is in bounds."""
    firsts = [
        min(max(int(start), 0), extent - size)
        for start, extent, size in zip(starts, extents, sizes, strict=True)
    ]
    return tuple(slice(first, first + size) for first, size in zip(firsts, sizes, strict=True))


def dynamic_slice(op: ops.DynamicSlice, x: Array, *starts: Array) -> Array:
    """Return a view of the window of x at these start indices."""
    return x[_clamped_window(starts, x.shape, op.resolved("sizes", (x.shape,)))]


def dynamic_update_slice(
    op: ops.DynamicUpdateSlice, x: Array, update: Array, *starts: Array
) -> Array:
    """Return a copy of x in which `update` replaces the window at these start indices."""
    result = x.copy(order="K")
    result[_clamped_window(starts, x.shape, update.shape)] = update
    return result


ROWS: KernelRows = {
    ops.Gather: Kernel(gather, plan_take, view=True),
    ops.GatherDynamicSliceSizes: Kernel(gather, view=True),
    ops.Scatter: Kernel(scatter),
    ops.DynamicSlice: Kernel(
        dynamic_slice, view=True, layout=lambda op, x, *_: strided(op.sizes, x.strides)
    ),
    ops.DynamicUpdateSlice: Kernel(dynamic_update_slice),
}
