"""Emitters of the indexing family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lowering.emit.emitter import EmitterRows
from lowering.inference import result_type
from lowering.operations import Block, Integers, Struct
from lowering.writer import Value, Writer
from tenferro.dims import is_static
from tenferro.ops.indexing import (
    DynamicSlice,
    DynamicUpdateSlice,
    Gather,
    GatherDynamicSliceSizes,
    Scatter,
)
from tenferro.types import DType, TensorSpec

__all__ = ["ROWS", "dynamic_slice_at", "dynamic_update_at", "gathered"]


def gather(op: Gather, w: Writer, x: Value, indices: Value) -> Value:
    """Emit `stablehlo.gather`."""
    return gathered(op, w, x, indices, result_type(op, x, indices))


def gathered(
    op: Gather | GatherDynamicSliceSizes, w: Writer, x: Value, indices: Value, result: TensorSpec
) -> Value:
    """Emit `stablehlo.gather` with the type `result`, or `stablehlo.dynamic_gather` if a slice size is symbolic.

    Along an axis of extent 0, the slice size is set to 0, because StableHLO rejects slices larger than the operand.
    """
    sizes = tuple([
        0 if extent == 0 else size
        for size, extent in zip(
            op.resolved("slice_sizes", (x.shape, indices.shape)), x.shape, strict=True
        )
    ])  # fmt: skip
    numbers = _numbers(
        op.index_vector_dim,
        offset_dims=op.offset_dims,
        collapsed_slice_dims=op.collapsed_slice_dims,
        operand_batching_dims=op.operand_batching_dims,
        start_indices_batching_dims=op.start_indices_batching_dims,
        start_index_map=op.start_index_map,
    )
    attributes = {
        "dimension_numbers": Struct("gather", numbers),
        "indices_are_sorted": op.indices_are_sorted,
    }
    if not all(map(is_static, sizes)):
        return w.op("dynamic_gather", x, indices, w.shape(sizes), result=result, **attributes)
    return w.op("gather", x, indices, result=result, **attributes, slice_sizes=Integers(sizes))


def _numbers(index_vector_dim: int, **lists: Sequence[int]) -> dict[str, Any]:
    """Return the dimension numbers of a gather or scatter by name; empty lists are omitted."""
    given = {name: values for name, values in lists.items() if values}
    return {**given, "index_vector_dim": index_vector_dim}


def scatter(op: Scatter, w: Writer, x: Value, indices: Value, updates: Value) -> Value:
    """Emit `stablehlo.scatter`, whose region combines an element with an update.

    XLA cannot compile a scatter whose index vectors are empty. In that case, x gets a leading axis of extent 1, and
    every index is the position 0 on this axis.
    """
    if not op.scatter_dims_to_operand_dims:
        shape = x.shape
        x = w.reshape(x, (1, *shape))
        vector = [1 if a == op.index_vector_dim else e for a, e in enumerate(indices.shape)]
        indices = w.full(0, TensorSpec.of(tuple(vector), indices.dtype))
        return w.reshape(_scatter(_with_leading_axis(op), w, x, indices, updates), shape)
    return _scatter(op, w, x, indices, updates)


def _with_leading_axis(op: Scatter) -> Scatter:
    return replace(
        op,
        inserted_window_dims=(0, *[axis + 1 for axis in op.inserted_window_dims]),
        input_batching_dims=tuple([axis + 1 for axis in op.input_batching_dims]),
        scatter_dims_to_operand_dims=(0,),
    )


def _scatter(op: Scatter, w: Writer, x: Value, indices: Value, updates: Value) -> Value:
    numbers = _numbers(
        op.index_vector_dim,
        update_window_dims=op.update_window_dims,
        inserted_window_dims=op.inserted_window_dims,
        input_batching_dims=op.input_batching_dims,
        scatter_indices_batching_dims=op.scatter_indices_batching_dims,
        scatter_dims_to_operand_dims=op.scatter_dims_to_operand_dims,
    )
    attributes = {
        "indices_are_sorted": op.indices_are_sorted,
        "scatter_dimension_numbers": Struct("scatter", numbers),
        "unique_indices": op.unique_indices,
    }
    combiner = _combiner(op.combiner, w, x.dtype)
    operands = (x, indices, updates)
    return w.operation("stablehlo.scatter", operands, (x.spec,), attributes, [combiner])[0]


def _combiner(name: str, w: Writer, dtype: DType) -> Block:
    if name == "set":
        scalar = TensorSpec.of((), dtype)
        return w.region({"a": scalar, "b": scalar}, lambda inner, a, b: b)
    numeric = {"add": "add", "multiply": "multiply", "min": "minimum", "max": "maximum"}
    logical = {"add": "or", "multiply": "and", "min": "and", "max": "or"}
    return w.combiner((logical if dtype.is_bool else numeric)[name], dtype)


def dynamic_slice(op: DynamicSlice, w: Writer, x: Value, *starts: Value) -> Value:
    """Emit `stablehlo.dynamic_slice`; return x unchanged if it has rank 0."""
    if not starts:
        return x
    result = result_type(op, x, *starts)
    return w.op("dynamic_slice", x, *starts, result=result, sizes=result.shape)


def dynamic_update_slice(
    op: DynamicUpdateSlice, w: Writer, x: Value, update: Value, *starts: Value
) -> Value:
    """Emit `stablehlo.dynamic_update_slice`; return the update if x has rank 0."""
    return _updated(w, x, update, starts) if starts else update


def _updated(w: Writer, x: Value, update: Value, starts: Sequence[Value]) -> Value:
    return w.op("dynamic_update_slice", x, update, *starts, result=x.spec)


def dynamic_slice_at(w: Writer, x: Value, index: Value) -> Value:
    """Emit the slice x[index] along the leading axis, at an index that is computed at run time."""
    rest = x.shape[1:]
    result = TensorSpec.of(rest, x.dtype)
    if all(map(is_static, rest)):
        zero = w.scalar(0, index.dtype)
        sizes = (1, *rest)
        cut = TensorSpec.of(sizes, x.dtype)
        starts = (index, *[zero] * len(rest))
        return w.reshape(w.op("dynamic_slice", x, *starts, result=cut, sizes=sizes), rest)
    numbers = _numbers(
        0, offset_dims=range(len(rest)), collapsed_slice_dims=(0,), start_index_map=(0,)
    )
    return w.op(
        "dynamic_gather",
        x,
        w.reshape(index, (1,)),
        w.shape((1, *rest)),
        result=result,
        dimension_numbers=Struct("gather", numbers),
        indices_are_sorted=True,
    )


def dynamic_update_at(w: Writer, x: Value, update: Value, index: Value) -> Value:
    """Emit a copy of x in which the slice x[index] along the leading axis is `update`."""
    zero = w.scalar(0, index.dtype)
    row = w.reshape(update, (1, *update.shape))
    return _updated(w, x, row, (index, *[zero] * update.rank))


ROWS: EmitterRows = {
    Gather: gather,
    GatherDynamicSliceSizes: gather,
    Scatter: scatter,
    DynamicSlice: dynamic_slice,
    DynamicUpdateSlice: dynamic_update_slice,
}
