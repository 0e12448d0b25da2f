"""Kernels of gathers, scatters and dynamic slices, by one index tensor per axis; the index tensors are broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tenferro.ops.indexing import (
    DynamicSlice,
    DynamicUpdateSlice,
    Gather,
    GatherDynamicSliceSizes,
    Scatter,
)

__all__ = ["ROWS"]

Tensor = torch.Tensor


def gather(op: Any, x: Tensor, indices: Tensor) -> Tensor:
    """Read all windows by one indexing operation, after clamping their starts so that each window is inside x."""
    sizes = op.resolved("slice_sizes", (x.shape, indices.shape))
    starts, batch = index_vectors(indices, op.index_vector_dim)
    dropped = {*op.collapsed_slice_dims, *op.operand_batching_dims}
    window = [axis for axis in range(x.ndim) if axis not in dropped]
    rank = len(batch) + len(window)
    batch_axes = [axis for axis in range(rank) if axis not in op.offset_dims]
    window_axes = dict(zip(window, sorted(op.offset_dims), strict=True))
    shape = [0] * rank
    for axis, extent in zip(batch_axes, batch, strict=True):
        shape[axis] = extent
    for axis in window:
        shape[window_axes[axis]] = sizes[axis]
    if 0 in shape:
        return torch.empty(shape, dtype=x.dtype)
    positions: list[Tensor] = []
    for axis in range(x.ndim):
        position = torch.zeros((1,) * rank, dtype=torch.int64)
        if axis in op.start_index_map:
            start = starts[op.start_index_map.index(axis)]
            start = torch.clamp(start, 0, x.shape[axis] - sizes[axis])
            position = position + along(start, batch_axes, rank)
        if axis in op.operand_batching_dims:
            place = op.start_indices_batching_dims[op.operand_batching_dims.index(axis)]
            batch_axis = batch_axes[place - (place > op.index_vector_dim)]
            position = position + along(torch.arange(shape[batch_axis]), [batch_axis], rank)
        if axis in window_axes:
            position = position + along(torch.arange(sizes[axis]), [window_axes[axis]], rank)
        positions.append(position)
    return (x[tuple(positions)] if positions else x).expand(shape)


def index_vectors(indices: Tensor, vector_axis: int) -> tuple[Tensor, tuple[int, ...]]:
    """Split index vectors into one tensor of starts per component; return these tensors and the shape of the batch."""
    indices = indices.to(torch.int64)
    starts = indices[None] if vector_axis == indices.ndim else indices.movedim(vector_axis, 0)
    return starts, tuple(starts.shape[1:])


def along(values: Tensor, axes: Sequence[int], rank: int) -> Tensor:
    """Reshape `values` to `rank` axes: the given axes have its extents, all other axes have extent 1."""
    shape = [1] * rank
    for axis, extent in zip(axes, values.shape, strict=True):
        shape[axis] = extent
    return values.reshape(shape)


def scatter(op: Scatter, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Combine all windows that are inside x with the updates, in row-major order, and skip the other windows."""
    starts, _ = index_vectors(indices, op.index_vector_dim)
    rank = updates.ndim
    update_window = sorted(op.update_window_dims)
    batch_axes = [axis for axis in range(rank) if axis not in update_window]
    dropped = {*op.inserted_window_dims, *op.input_batching_dims}
    window = [axis for axis in range(x.ndim) if axis not in dropped]
    window_axes = dict(zip(window, update_window, strict=True))
    if not updates.numel():
        return x
    fits = torch.ones((1,) * rank, dtype=torch.bool)
    flat = torch.zeros((1,) * rank, dtype=torch.int64)
    for axis in range(x.ndim):
        size = updates.shape[window_axes[axis]] if axis in window_axes else 1
        position = torch.zeros((1,) * rank, dtype=torch.int64)
        if axis in op.scatter_dims_to_operand_dims:
            start = starts[op.scatter_dims_to_operand_dims.index(axis)]
            inside = (start >= 0) & (start <= x.shape[axis] - size)
            fits = fits & along(inside, batch_axes, rank)
            position = position + along(start, batch_axes, rank)
        if axis in op.input_batching_dims:
            place = op.scatter_indices_batching_dims[op.input_batching_dims.index(axis)]
            batch_axis = batch_axes[place - (place > op.index_vector_dim)]
            position = position + along(torch.arange(updates.shape[batch_axis]), [batch_axis], rank)
        if axis in window_axes:
            position = position + along(torch.arange(size), [window_axes[axis]], rank)
        flat = flat * x.shape[axis] + position
    kept = fits.expand(updates.shape)
    target = x.clone(memory_format=torch.contiguous_format).reshape(-1)
    return combined(op.combiner, target, flat.expand(updates.shape)[kept], updates[kept]).reshape(
        x.shape
    )


REDUCTIONS = {"multiply": "prod", "min": "amin", "max": "amax"}


def combined(combiner: str, target: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """Return `target` with `values` combined into it at `places`; values at equal places are combined one by one."""
    if target.dtype is torch.bool:
        number = {"add": "max", "multiply": "min"}.get(combiner, combiner)
        numbers = target.to(torch.uint8), places, values.to(torch.uint8)
        return combined(number, *numbers).to(torch.bool)
    if combiner == "add":
        return target.index_add(0, places, values)
    if combiner == "set":
        count = torch.arange(len(places))
        last = torch.full(target.shape, -1).scatter_reduce(0, places, count, "amax")
        stays = last[places] == count
        return target.index_put((places[stays],), values[stays])
    return target.scatter_reduce(0, places, values, REDUCTIONS[combiner])


def window_at(
    starts: Sequence[Tensor], extents: Sequence[int], sizes: Sequence[int]
) -> tuple[slice, ...]:
    """Return slices that select a window; the starts are clamped so that the window is inside the tensor."""
    firsts = [
        min(max(int(start), 0), extent - size)
        for start, extent, size in zip(starts, extents, sizes, strict=True)
    ]
    return tuple([slice(first, first + n) for first, n in zip(firsts, sizes, strict=True)])


def dynamic_slice(op: DynamicSlice, x: Tensor, *starts: Tensor) -> Tensor:
    """Return a view of the window of x at `starts`."""
    return x[window_at(starts, x.shape, op.resolved("sizes", (x.shape,)))]


def dynamic_update_slice(
    op: DynamicUpdateSlice, x: Tensor, update: Tensor, *starts: Tensor
) -> Tensor:
    """Return a copy of x in which `update` replaces the window at `starts`."""
    updated = x.clone(memory_format=torch.contiguous_format)
    updated[window_at(starts, x.shape, update.shape)] = update
    return updated


ROWS = {
    Gather: gather,
    GatherDynamicSliceSizes: gather,
    Scatter: scatter,
    DynamicSlice: dynamic_slice,
    DynamicUpdateSlice: dynamic_update_slice,
}
