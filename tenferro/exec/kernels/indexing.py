"""Kernels of the indexing family: StableHLO's dimension numbers turned into NumPy's fancy indexing.

Gather and scatter build one integer array per operand axis, all broadcast together over the result's
(or the updates') index space; nothing loops over more than the rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tenferro.exec.kernels.buffered import maximum, minimum, winning_zeros
from tenferro.exec.kernels.kernel import Array, KernelRows, OfOp, Planned
from tenferro.ops.indexing import (
    DynamicSlice,
    DynamicUpdateSlice,
    Gather,
    GatherDynamicSliceSizes,
    Scatter,
)
from tenferro.types import DType, TensorSpec

__all__ = ["ROWS", "SMALLEST_SUMS"]

SMALLEST_SUMS = 1 << 12
"""Elements of updates that are worth a product with a sparse matrix."""
SUMMED = "fdFD"
"""Dtypes that such products have."""


def gather(op: Gather, x: Array, indices: Array) -> Array:
    """Clamp the starts so that windows fit, then read all windows at once."""
    sizes = op.resolved("slice_sizes", (x.shape, indices.shape))
    starts, batch = _starts(indices, op.index_vector_dim)
    axis = _plain_rows(op, x.shape, sizes, len(batch))
    if axis is not None:
        return np.take(x, starts[0], axis=axis, mode="clip")
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
    positions: list[Array] = []
    for axis in range(x.ndim):
        position = np.zeros((1,) * rank, np.int64)
        if axis in op.start_index_map:
            start = starts[op.start_index_map.index(axis)]
            start = np.clip(start, 0, x.shape[axis] - sizes[axis])
            position = position + _spread(start, batch_axes, rank)
        if axis in op.operand_batching_dims:
            number = op.start_indices_batching_dims[op.operand_batching_dims.index(axis)]
            position = position + _count(
                batch, number - (number > op.index_vector_dim), batch_axes, rank
            )
        if axis in window_axes:
            line = np.arange(sizes[axis]).reshape(-1, *(1,) * (rank - 1 - window_axes[axis]))
            position = position + line
        positions.append(position)
    if not positions:
        return np.broadcast_to(x, shape)
    return np.broadcast_to(x[tuple(positions)], shape)


def _plain_rows(op: Any, shape: Sequence[int], sizes: Sequence[int], batch: int) -> int | None:
    """The axis taken from, when the gather is NumPy's `take`: whole rows, batch axes in its place."""
    if (
        len(op.start_index_map) != 1
        or op.operand_batching_dims
        or op.collapsed_slice_dims != op.start_index_map
    ):
        return None
    (axis,) = op.start_index_map
    is_whole = [*sizes] == [*shape[:axis], 1, *shape[axis + 1 :]]
    is_in_place = sorted(op.offset_dims) == [
        *range(axis),
        *range(axis + batch, len(shape) - 1 + batch),
    ]
    return axis if is_whole and is_in_place else None


def rows_taken(
    op: Gather, x: TensorSpec, indices: TensorSpec
) -> Callable[[Array, Array], Array] | None:
    """Return a gather of whole rows as NumPy's `take`, or None for other gathers."""
    if not (x.is_static and indices.is_static) or indices.dtype is DType.U64:
        return None
    vector_axis, rank = op.index_vector_dim, indices.rank
    sizes = op.resolved("slice_sizes", (x.shape, indices.shape))
    axis = _plain_rows(op, x.shape, sizes, rank - (vector_axis < rank))
    if axis is None:
        return None
    if vector_axis == rank:
        return lambda x, indices: x.take(indices, axis, None, "clip")
    key = (*[slice(None)] * vector_axis, 0)
    return lambda x, indices: x.take(indices[key], axis, None, "clip")


def _signed(indices: Array) -> Array:
    """Indices as int64; an unsigned one beyond int64 is beyond every extent."""
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(np.iinfo(np.int64).max))
    return indices.astype(np.int64, copy=False)


def _starts(indices: Array, vector_axis: int) -> tuple[Array, tuple[int, ...]]:
    """One array of starts per index component, over the batch shape."""
    indices = _signed(indices)
    if vector_axis == indices.ndim:
        return indices[None], indices.shape
    starts = np.moveaxis(indices, vector_axis, 0)
    return starts, starts.shape[1:]


def _spread(values: Array, axes: Sequence[int], rank: int) -> Array:
    """An array over the batch shape, laid along those axes of a space of `rank` axes."""
    shape = [1] * rank
    for axis, extent in zip(axes, values.shape, strict=True):
        shape[axis] = extent
    return values.reshape(shape)


def _count(batch: Sequence[int], number: int, axes: Sequence[int], rank: int) -> Array:
    """0, 1, .. along the batch axis number `place`."""
    shape = [1] * rank
    shape[axes[number]] = batch[number]
    return np.arange(batch[number]).reshape(shape)


COMBINE: Mapping[str, np.ufunc] = {
    "add": np.add,
    "multiply": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def scatter(op: Scatter, x: Array, indices: Array, updates: Array) -> Array:
    """Drop the windows that do not fit, then combine all others in row-major order of the updates."""
    starts, batch = _starts(indices, op.index_vector_dim)
    if op.combiner == "add" and updates.size >= SMALLEST_SUMS and x.dtype.char in SUMMED:
        axis = _scattered_axis(op, x, updates)
        if axis is not None:
            return _summed(x, starts[0], updates, axis, len(batch))
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
    positions: list[Array] = []
    for axis in range(x.ndim):
        size = updates.shape[window_axes[axis]] if axis in window_axes else 1
        position = np.zeros((1,) * rank, np.int64)
        if axis in op.scatter_dims_to_operand_dims:
            start = starts[op.scatter_dims_to_operand_dims.index(axis)]
            inside = (start >= 0) & (start <= x.shape[axis] - size)
            fits = fits & _spread(inside, batch_axes, rank)
            position = position + _spread(np.where(inside, start, 0), batch_axes, rank)
        if axis in op.input_batching_dims:
            number = op.scatter_indices_batching_dims[op.input_batching_dims.index(axis)]
            position = position + _count(
                batch, number - (number > op.index_vector_dim), batch_axes, rank
            )
        if axis in window_axes:
            shape = [1] * rank
            shape[window_axes[axis]] = size
            position = position + np.arange(size).reshape(shape)
        positions.append(position)
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


def _scattered_axis(op: Scatter, x: Array, updates: Array) -> int | None:
    """The axis added to, when each update is a whole layer of x across it, batch axes in its place."""
    if (
        len(op.scatter_dims_to_operand_dims) != 1
        or op.input_batching_dims
        or op.inserted_window_dims != op.scatter_dims_to_operand_dims
    ):
        return None
    (axis,) = op.inserted_window_dims
    window = sorted(op.update_window_dims)
    rest = [n for i, n in enumerate(x.shape) if i != axis]
    batch = updates.ndim - len(window)
    placed = window == [*range(axis), *range(axis + batch, updates.ndim)]
    return axis if placed and rest == [updates.shape[i] for i in window] else None


def _summed(x: Array, starts: Array, updates: Array, axis: int, batch: int) -> Array:
    """x plus the sums of the layers that go to each place.

    Where two go to one place, by a product with a matrix of zeros and ones: it has one 1 per update, so the
    product adds the updates one after the other.
    """
    n = x.shape[axis]
    places = starts.ravel()
    layers = np.moveaxis(updates.reshape(*x.shape[:axis], -1, *x.shape[axis + 1 :]), axis, 0)
    inside = (places >= 0) & (places < n)
    if not inside.all():
        places, layers = places[inside], layers[inside]
    if not places.size:
        return np.array(x)
    if x.ndim == 1 and x.dtype == np.float64:
        return x + _with_negative_zeros(np.bincount(places, layers, n), places)
    if np.bincount(places).max() == 1:
        result = np.array(x)
        np.moveaxis(result, axis, 0)[places] += layers
        return result
    from scipy import sparse  # because importing scipy takes long

    matrix = sparse.csc_array(
        (np.ones(len(places), x.dtype), places, np.arange(len(places) + 1)), (n, len(places))
    )
    rest = layers.shape[1:]
    sums = (matrix @ layers.reshape(len(places), -1)).reshape(n, *rest)
    return x + np.moveaxis(_with_negative_zeros(sums, places), 0, axis)


def _with_negative_zeros(sums: Array, places: Array) -> Array:
    """The sums, which are written to, with -0.0 at all other places: added, it leaves zeros of both signs as they are."""
    is_other = np.ones(len(sums), bool)
    is_other[places] = False
    if is_other.any():
        sums[is_other] = -sums.dtype.type(0)
    return sums


def _combine(combiner: str, target: Array, flat: Array, values: Array) -> None:
    """Write into `target`, which is ours."""
    if combiner == "set":
        target[flat] = values
    elif combiner in ("add", "multiply"):
        COMBINE[combiner].at(target, flat, values)
    else:
        # NumPy's own order of zeros is left to the kernel of Maximum and Minimum.
        is_largest = combiner == "max"
        choose = maximum if is_largest else minimum
        elements = target[flat]
        if len(np.unique(flat)) == len(flat):
            target[flat] = choose(elements, values)
            return
        COMBINE[combiner].at(target, flat, values)
        if target.dtype.kind not in "biu":
            zero = np.array(0.0 if is_largest else -0.0, target.dtype)
            for each in (elements, values):
                places = flat[winning_zeros(each, is_largest)]
                target[places[target[places] == 0]] = zero


def _clamped(
    starts: Sequence[Array], extents: Sequence[int], sizes: Sequence[int]
) -> tuple[slice, ...]:
    """The window as slices, moved to where it fits."""
    firsts = [
        min(max(int(start), 0), extent - size)
        for start, extent, size in zip(starts, extents, sizes, strict=True)
    ]
    return tuple(slice(first, first + size) for first, size in zip(firsts, sizes, strict=True))


def dynamic_slice(op: DynamicSlice, x: Array, *starts: Array) -> Array:
    """A view of the window."""
    return x[_clamped(starts, x.shape, op.resolved("sizes", (x.shape,)))]


def dynamic_update_slice(op: DynamicUpdateSlice, x: Array, update: Array, *starts: Array) -> Array:
    """A copy of x with the window overwritten."""
    result = x.copy(order="K")
    result[_clamped(starts, x.shape, update.shape)] = update
    return result


ROWS: KernelRows = {
    Gather: Planned(gather, rows_taken, view=True),
    GatherDynamicSliceSizes: OfOp(gather, view=True),
    Scatter: OfOp(scatter),
    DynamicSlice: OfOp(dynamic_slice, view=True),
    DynamicUpdateSlice: OfOp(dynamic_update_slice),
}
