"""ONNX nodes of gathers and scatters: Gather and ScatterND on flattened arrays.

If an extent is symbolic, gathers and scatters of whole slices are GatherND, ScatterND, GatherElements and
ScatterElements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowering.numpy_source import functions
from tenferro.errors import UnsupportedError
from tenferro.ops import indexing as ops
from tenferro.types import DType, TensorSpec
from xla_peer.onnx.decomposition import written
from xla_peer.onnx.emit.elementwise import Rows
from xla_peer.onnx.writer import Value, Writer

__all__ = ["ROWS"]


SYMBOLIC = "to_onnx writes gathers and scatters with symbolic extents only of whole slices or elements along an axis"
"""Message of the error for other gathers and scatters."""


def _order(batch: int, windows: Sequence[int], axes: Sequence[int], rank: int) -> list[int]:
    """Return the axes of a gather's result or of updates, in the order batch axes, window axes."""
    return [axis for axis in range(batch + rank - len(axes)) if axis not in windows] + [*windows]


def _is_of_slices(axes: Sequence[int], inserted: Sequence[int], batching: Sequence[int]) -> bool:
    """Return whether the windows are one element wide along the indexed axes, and whole along all others."""
    return sorted(axes) == sorted(inserted) and not batching


def _is_along(
    op: Any,
    axes: Sequence[int],
    inserted: Sequence[int],
    pairs: Sequence[Sequence[int]],
    x: Value,
    indices: Value,
) -> bool:
    """Return whether indices have the axes of x, and each selects an element along one axis."""
    others = tuple(axis for axis in range(x.rank) if axis not in axes)
    is_last = op.index_vector_dim == x.rank == indices.rank - 1
    return (
        len(axes) == 1
        and tuple(inserted) == tuple(axes)
        and is_last
        and all(tuple(each) == others for each in pairs)
    )


def _vectors(op: Any, w: Writer, indices: Value) -> Value:
    """Return indices as int64, with the axis of index vectors as the last axis."""
    if indices.dtype is DType.U64:
        indices = w.op("Min", indices, w.number(2**63 - 1, DType.U64))
    if op.index_vector_dim == indices.rank:
        return w.reshape(w.cast(indices, DType.I64), (*indices.spec.shape, 1))
    order = [axis for axis in range(indices.rank) if axis != op.index_vector_dim]
    return w.transpose(w.cast(indices, DType.I64), [*order, op.index_vector_dim])


def _extents(w: Writer, x: Value, axes: Sequence[int]) -> Value:
    """Return the extents of axes of x as a vector of int64."""
    parts = [w.extent_of(x, axis) for axis in axes]
    return w.op("Concat", *parts, spec=TensorSpec.of((len(parts),), DType.I64), axis=0)


def _symbolic_gather(op: Any, w: Writer, x: Value, indices: Value) -> Value:
    """Write a gather of whole slices, or of elements along an axis, whose extents may be symbolic."""
    axes, spec = op.start_index_map, w.specs[0]
    pairs = op.operand_batching_dims, op.start_indices_batching_dims
    vectors = _vectors(op, w, indices)
    last = w.op("Sub", _extents(w, x, axes), w.integers(1))
    vectors = w.op("Min", vectors, last, spec=vectors.spec)
    vectors = w.op("Max", vectors, w.integers(0), spec=vectors.spec)
    if _is_along(op, axes, op.collapsed_slice_dims, pairs, x, indices):
        positions = w.reshape(vectors, indices.spec.shape[:-1])
        return w.op("GatherElements", x, positions, spec=spec, axis=axes[0])
    sizes = op.resolved("slice_sizes", (x.spec.shape, indices.spec.shape))
    others = [axis for axis in range(x.rank) if axis not in axes]
    is_whole = [sizes[axis] for axis in others] == [x.spec.shape[axis] for axis in others]
    if not _is_of_slices(axes, op.collapsed_slice_dims, pairs[0]) or not is_whole:
        raise UnsupportedError(SYMBOLIC)
    order = _order(vectors.rank - 1, op.offset_dims, axes, x.rank)
    moved = TensorSpec.of(tuple([spec.shape[axis] for axis in order]), x.dtype)
    y = w.op("GatherND", w.transpose(x, [*axes, *others]), vectors, spec=moved)
    return w.transpose(y, np.argsort(order).tolist())


def _symbolic_scatter(
    op: ops.Scatter, w: Writer, x: Value, indices: Value, updates: Value
) -> Value:
    """Write a scatter of whole slices, or of elements along an axis, whose extents may be symbolic.

    One more slice is appended along the first indexed axis. Updates that are out of bounds are written to this slice,
    which is then removed.
    """
    axes = op.scatter_dims_to_operand_dims
    pairs = op.input_batching_dims, op.scatter_indices_batching_dims
    reduction, through = _reduction(op, x)
    vectors = _vectors(op, w, indices)
    boolean = w.like(vectors, DType.Bool)
    extents = _extents(w, x, axes)
    low = w.op("GreaterOrEqual", vectors, w.integers(0), spec=boolean)
    fits = w.op("And", low, w.op("Less", vectors, extents, spec=boolean), spec=boolean)
    one = TensorSpec.of((*vectors.spec.shape[:-1], 1), DType.I32)
    inside = w.op("ReduceMin", w.cast(fits, DType.I32), w.integers(-1), spec=one)
    beyond = w.op("Mul", extents, w.integers(1, *[0] * (len(axes) - 1)))
    vectors = w.op("Where", w.cast(inside, DType.Bool), vectors, beyond, spec=vectors.spec)
    others = [axis for axis in range(x.rank) if axis not in axes]
    order = [*axes, *others]
    target = w.cast(w.transpose(x, order), through)
    shape = target.spec.shape
    longer = TensorSpec.of((shape[0] + 1, *shape[1:]), through)
    more = w.expand(w.number(0, through), (1, *shape[1:]), (target,))
    wide = w.op("Concat", target, more, spec=longer, axis=0)
    values = w.cast(updates, through)
    if _is_along(op, axes, op.inserted_window_dims, pairs, x, indices):
        positions = w.transpose(w.reshape(vectors, indices.spec.shape[:-1]), order)
        y = w.op(
            "ScatterElements",
            wide,
            positions,
            w.transpose(values, order),
            spec=longer,
            axis=0,
            reduction=reduction,
        )
    else:
        windows = op.update_window_dims
        whole = [updates.spec.shape[axis] for axis in windows] == [*shape[len(axes) :]]
        if not _is_of_slices(axes, op.inserted_window_dims, pairs[0]) or not whole:
            raise UnsupportedError(SYMBOLIC)
        values = w.transpose(values, _order(vectors.rank - 1, windows, axes, x.rank))
        y = w.op("ScatterND", wide, vectors, values, spec=longer, reduction=reduction)
    y = w.op("Slice", y, w.integers(0), w.extent_of(target, 0), w.integers(0), spec=target.spec)
    return w.transpose(w.cast(y, x.dtype), np.argsort(order).tolist())


def _flat(positions: Any, shape: Any) -> Any:
    """Convert indices along each axis to indices into the array flattened in row-major order."""
    flat = 0
    for position, extent in zip(positions, shape, strict=True):
        flat = flat * extent + position
    return flat


def gather(op: Any, w: Writer, x: Value, indices: Value) -> Value:
    """Write a Gather from the flattened operand, at flat indices that are computed from `indices`."""
    spec = w.specs[0]
    if not (x.spec.is_static and indices.spec.is_static):
        return _symbolic_gather(op, w, x, indices)
    if 0 in spec.shape or not x.rank:
        return w.expand(w.number(0, x.dtype) if x.rank else x, spec.shape)
    sizes = op.resolved("slice_sizes", (x.spec.shape, indices.spec.shape))
    shape = x.spec.shape

    def positions(indices: Any) -> Any:
        parts, batch_shape = functions.start_indices(indices, op.index_vector_dim)
        window = [
            a
            for a in range(x.rank)
            if a not in (*op.collapsed_slice_dims, *op.operand_batching_dims)
        ]
        rank = len(batch_shape) + len(window)
        batch_axes = [axis for axis in range(rank) if axis not in op.offset_dims]
        starts = {
            axis: np.clip(start, 0, shape[axis] - sizes[axis])
            for axis, start in zip(op.start_index_map, parts, strict=True)
        }
        places = dict(zip(window, sorted(op.offset_dims), strict=True))
        batch = dict(zip(batch_axes, batch_shape, strict=True))
        numbers = functions.batch_numbers(
            op.operand_batching_dims, op.start_indices_batching_dims, op.index_vector_dim
        )
        return np.broadcast_to(
            _flat(functions.positions(starts, batch, places, sizes, rank, numbers), shape),
            spec.shape,
        )

    (flat,) = written(w, positions, indices)
    line = w.reshape(x, (int(np.prod(shape)),))
    return w.op("Gather", line, flat, spec=spec, axis=0)


def scatter(op: ops.Scatter, w: Writer, x: Value, indices: Value, updates: Value) -> Value:
    """Write a ScatterND into the flattened operand.

    One more element is appended to the flattened operand. Windows that are out of bounds are written to this element,
    which is then removed from the result.
    """
    spec = w.specs[0]
    if not all(each.spec.is_static for each in (x, indices, updates)):
        return _symbolic_scatter(op, w, x, indices, updates)
    shape, size = x.spec.shape, int(np.prod(x.spec.shape))

    def positions(indices: Any) -> Any:
        parts, batch_shape = functions.start_indices(indices, op.index_vector_dim)
        window = [
            a for a in range(x.rank) if a not in (*op.inserted_window_dims, *op.input_batching_dims)
        ]
        rank = updates.rank
        batch_axes = [axis for axis in range(rank) if axis not in op.update_window_dims]
        places = dict(zip(window, sorted(op.update_window_dims), strict=True))
        sizes = [
            updates.spec.shape[places[axis]] if axis in places else 1 for axis in range(x.rank)
        ]
        starts: dict[int, Any] = {}
        fits: Any = np.ones((1,) * rank, bool)
        for axis, start in zip(op.scatter_dims_to_operand_dims, parts, strict=True):
            is_inside = (start >= 0) & (start <= shape[axis] - sizes[axis])
            fits = fits & functions.spread(is_inside, batch_axes, rank)
            starts[axis] = np.where(is_inside, start, 0)
        batch = dict(zip(batch_axes, batch_shape, strict=True))
        numbers = functions.batch_numbers(
            op.input_batching_dims, op.scatter_indices_batching_dims, op.index_vector_dim
        )
        flat = _flat(functions.positions(starts, batch, places, sizes, rank, numbers), shape)
        return np.broadcast_to(np.where(fits, flat, size), updates.spec.shape).reshape(-1, 1)

    (flat,) = written(w, positions, indices)
    reduction, through = _reduction(op, x)
    line = w.cast(w.reshape(x, (size,)), through)
    longer = TensorSpec.of((size + 1,), through)
    target = w.op("Concat", line, w.constant(np.zeros(1, through.dtype)), spec=longer, axis=0)
    values = w.cast(w.reshape(updates, (int(np.prod(updates.spec.shape)),)), through)
    y = w.op("ScatterND", target, flat, values, spec=longer, reduction=reduction)
    inside = w.op("Slice", y, w.integers(0), w.integers(size), spec=line.spec)
    return w.reshape(w.cast(inside, x.dtype), spec.shape)


def _reduction(op: ops.Scatter, x: Value) -> tuple[str, DType]:
    """Return the reduction of a ScatterND, and the type in which it is computed."""
    reduction = {"set": "none", "multiply": "mul"}.get(op.combiner, op.combiner)
    if not x.dtype.is_bool:
        return reduction, x.dtype
    return {"add": "max", "mul": "min"}.get(reduction, reduction), DType.I32


def dynamic_slice(op: ops.DynamicSlice, w: Writer, x: Value, *starts: Value) -> Value:
    """Write a gather along each axis, at the clamped start and the indices that follow it."""
    if not w.specs[0].is_static:
        raise UnsupportedError("to_onnx writes DynamicSlice only with sizes that are numbers")
    sizes = w.specs[0].shape
    (y,) = written(w, lambda x, *starts: functions.dynamic_slice(x, starts, sizes), x, *starts)
    return y


def dynamic_update_slice(op: Any, w: Writer, x: Value, update: Value, *starts: Value) -> Value:
    """Write a gather that moves the update to its position, and a selection between the update and the operand."""
    if not (x.spec.is_static and update.spec.is_static):
        raise UnsupportedError("to_onnx writes DynamicUpdateSlice only of extents that are numbers")
    (y,) = written(
        w,
        lambda x, update, *starts: functions.dynamic_update_slice(x, update, starts),
        x,
        update,
        *starts,
    )
    return y


ROWS: Rows = {
    ops.Gather: gather,
    ops.GatherDynamicSliceSizes: gather,
    ops.Scatter: scatter,
    ops.DynamicSlice: dynamic_slice,
    ops.DynamicUpdateSlice: dynamic_update_slice,
}
