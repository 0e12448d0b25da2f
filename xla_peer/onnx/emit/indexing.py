"""ONNX nodes of gathers and scatters: Gather and ScatterND on flattened arrays."""

from __future__ import annotations

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


def _static(*values: Value) -> None:
    if not all(value.spec.is_static for value in values):
        raise UnsupportedError("to_onnx writes gathers and scatters of extents that are numbers")


def _flat(positions: Any, shape: Any) -> Any:
    """Convert indices along each axis to indices into the array flattened in row-major order."""
    flat = 0
    for position, extent in zip(positions, shape, strict=True):
        flat = flat * extent + position
    return flat


def gather(op: Any, w: Writer, x: Value, indices: Value) -> Value:
    """Write a Gather from the flattened operand, at flat indices that are computed from `indices`."""
    spec = w.specs[0]
    _static(x, indices)
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
    _static(x, indices, updates)
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
    reduction = {"set": "none", "multiply": "mul"}.get(op.combiner, op.combiner)
    through = x.dtype
    if x.dtype.is_bool:
        through = DType.I32
        reduction = {"add": "max", "mul": "min"}.get(reduction, reduction)
    line = w.cast(w.reshape(x, (size,)), through)
    longer = TensorSpec.of((size + 1,), through)
    target = w.op("Concat", line, w.constant(np.zeros(1, through.dtype)), spec=longer, axis=0)
    values = w.cast(w.reshape(updates, (int(np.prod(updates.spec.shape)),)), through)
    y = w.op("ScatterND", target, flat, values, spec=longer, reduction=reduction)
    inside = w.op("Slice", y, w.integers(0), w.integers(size), spec=line.spec)
    return w.reshape(w.cast(inside, x.dtype), spec.shape)


def dynamic_slice(op: ops.DynamicSlice, w: Writer, x: Value, *starts: Value) -> Value:
    """Write a gather along each axis, at the clamped start and the indices that follow it."""
    _static(x)
    sizes = w.specs[0].shape
    (y,) = written(w, lambda x, *starts: functions.dynamic_slice(x, starts, sizes), x, *starts)
    return y


def dynamic_update_slice(op: Any, w: Writer, x: Value, update: Value, *starts: Value) -> Value:
    """Write a gather that moves the update to its position, and a selection between the update and the operand."""
    _static(x, update)
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
