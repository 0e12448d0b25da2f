"""Python code of gathers, scatters and slices at computed positions, as calls of functions in `functions.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lowering.numpy_source.expression import (
    Code,
    Expression,
    Level,
    Rows,
    call,
    in_parentheses,
    tuple_of,
)
from lowering.numpy_source.structural import adds_axis, spread
from tenferro.ops import indexing as ops
from tenferro.ops.source import Constant
from tenferro.types import DType

if TYPE_CHECKING:
    from lowering.numpy_source.writer import Writer

__all__ = ["ROWS"]


def _tuple(axes: Sequence[int]) -> str | None:
    """Return the Python text of a tuple of axes; None if there are no axes, so that `call` omits the argument."""
    return tuple_of(axes) if axes else None


def take_axis(op: Any, x: Expression, indices: Expression) -> int | None:
    """Return the axis along which `np.take` computes the same as the gather; None if there is no such axis.

    `np.take` copies whole slices, and puts the axes of the indices in place of the indexed axis.
    """
    if len(op.start_index_map) != 1 or op.operand_batching_dims:
        return None
    if op.collapsed_slice_dims != op.start_index_map:
        return None
    (axis,) = op.start_index_map
    rank, vector_axis = indices.spec.rank, op.index_vector_dim
    batch = rank - (vector_axis < rank)
    shape = x.spec.shape
    sizes = op.resolved("slice_sizes", (shape, indices.spec.shape))
    is_whole = [*sizes] == [*shape[:axis], 1, *shape[axis + 1 :]]
    placed = sorted(op.offset_dims) == [*range(axis), *range(axis + batch, len(shape) - 1 + batch)]
    return axis if is_whole and placed else None


def along_axis(op: Any, x: Expression, indices: Expression) -> int | None:
    """Return the axis along which `np.take_along_axis` computes the gather; None if it does not compute this gather.

    Indices and x have the same axes, except that the index vectors are an additional last axis of `indices`.
    """
    rank = x.spec.rank
    if len(op.start_index_map) != 1 or op.offset_dims or not rank:
        return None
    (axis,) = op.start_index_map
    others = tuple(each for each in range(rank) if each != axis)
    is_along = (
        op.collapsed_slice_dims == op.start_index_map
        and op.operand_batching_dims == op.start_indices_batching_dims == others
        and indices.spec.rank == rank + 1
        and op.index_vector_dim == rank
    )
    extent = x.spec.shape[axis]
    return axis if is_along and isinstance(extent, int) and extent else None


def constant_positions(op: Any, x: Expression, indices: Expression) -> list[Any]:
    """Return the positions along each axis of x whose elements the gather reads, if they are constants in bounds.

    The list is empty for other gathers.
    """
    rank = x.spec.rank
    every = tuple(range(rank))
    if not isinstance(indices.op, Constant) or not rank or not x.spec.is_static:
        return []
    if op.collapsed_slice_dims != every or op.start_index_map != every:
        return []
    vectors = np.moveaxis(indices.op.array, op.index_vector_dim, -1).astype(np.int64)
    if indices.spec.rank == op.index_vector_dim or not vectors.size:
        return []
    is_inside = np.all((vectors >= 0) & (vectors < np.array(x.spec.shape)))
    return [vectors[..., axis] for axis in every] if is_inside else []


def _without_vector(op: Any, indices: Expression) -> str:
    """Return the text of indices without the axis of index vectors, whose extent is 1."""
    vector = op.index_vector_dim
    if vector == indices.spec.rank:
        return str(indices)
    if adds_axis(indices, vector):
        return str(indices.operands[0])
    return call("np.squeeze", indices, vector).text


def gather(op: Any, w: Writer, x: Expression, indices: Expression) -> Code:
    """Write a call of `take` for whole slices along an axis, else of `gather`; the generated file includes both."""
    if indices.spec.dtype is not DType.U64:
        axis = take_axis(op, x, indices)
        if axis is not None:
            return call(w.function("take"), x, _without_vector(op, indices), axis=axis or None)
        axis = along_axis(op, x, indices)
        if axis is not None:
            return call(w.function("take_along"), x, _without_vector(op, indices), axis)
    columns = constant_positions(op, x, indices)
    if columns:
        return Code(f"{x.at(Level.ATOM)}[{', '.join(w.array(column).text for column in columns)}]")
    sizes = op.resolved("slice_sizes", (x.spec.shape, indices.spec.shape))
    return call(
        w.function("gather"),
        x,
        indices,
        offset_dims=_tuple(op.offset_dims),
        collapsed=_tuple(op.collapsed_slice_dims),
        batching=_tuple(op.operand_batching_dims),
        index_batching=_tuple(op.start_indices_batching_dims),
        index_map=tuple_of(op.start_index_map),
        vector_axis=op.index_vector_dim,
        sizes=w.shape(sizes, (x, indices)),
    )


def scatter(
    op: ops.Scatter, w: Writer, x: Expression, indices: Expression, updates: Expression
) -> Code:
    """Write a call of the function `scatter`, which the generated file includes."""
    combiner = op.combiner
    if _is_one_slice(op, x, indices, updates):
        return _with_slice(op, w, x, indices, updates)
    if x.spec.dtype.is_bool and combiner in ("add", "multiply", "max", "min"):
        combiner = {"add": "max", "multiply": "min"}.get(combiner, combiner)
    w.dtype(x.spec.dtype)
    return call(
        w.function("scatter"),
        x,
        indices,
        updates,
        f'"{combiner}"',
        window_dims=_tuple(op.update_window_dims),
        inserted=_tuple(op.inserted_window_dims),
        batching=_tuple(op.input_batching_dims),
        index_batching=_tuple(op.scatter_indices_batching_dims),
        index_map=tuple_of(op.scatter_dims_to_operand_dims),
        vector_axis=op.index_vector_dim,
    )


COMBINED = {"set": "{1}", "add": "{0} + {1}", "multiply": "{0} * {1}"}
"""Texts of a combination of an array and updates."""


def _is_one_slice(op: ops.Scatter, x: Expression, indices: Expression, updates: Expression) -> bool:
    """Return whether a scatter combines one whole slice of x along an axis, at one position."""
    if op.inserted_window_dims != op.scatter_dims_to_operand_dims or op.input_batching_dims:
        return False
    if len(op.inserted_window_dims) != 1 or indices.spec.shape not in ((), (1,)):
        return False
    (axis,) = op.inserted_window_dims
    shape = (*x.spec.shape[:axis], *x.spec.shape[axis + 1 :])
    is_whole = updates.spec.shape == shape and x.spec.is_static
    is_plain = indices.spec.dtype is not DType.U64 and not x.spec.dtype.is_bool
    return is_whole and is_plain and op.combiner in COMBINED


def _with_slice(
    op: ops.Scatter, w: Writer, x: Expression, indices: Expression, updates: Expression
) -> Code:
    """Write `np.where(np.arange(n) == i, updates, x)`, which is x if the position is out of bounds."""
    (axis,) = op.inserted_window_dims
    rank = x.spec.rank
    position = indices.code if indices.code.aligned is None else indices.code.aligned
    count = Code(
        f"np.arange({x.spec.shape[axis]}) == {in_parentheses(position, Level.OR)}", Level.COMPARISON
    )
    others = [each for each in range(rank) if each != axis]
    new = spread(Code(updates.at(Level.ATOM)), others, rank)
    base = w.named(x) if op.combiner != "set" else str(x)
    combined = COMBINED[op.combiner].format(base, new.text)
    return call("np.where", spread(count, [axis], rank).text, combined, base)


def dynamic_slice(op: ops.DynamicSlice, w: Writer, x: Expression, *starts: Expression) -> Code:
    """Write a call of the function `dynamic_slice`, which the generated file includes."""
    w.dtype(x.spec.dtype)
    sizes = w.result_shape(op, (x,), "sizes")
    return call(w.function("dynamic_slice"), x, tuple_of(starts), sizes)


def dynamic_update_slice(
    op: ops.DynamicUpdateSlice, w: Writer, x: Expression, update: Expression, *starts: Expression
) -> Code:
    """Write a call of the function `dynamic_update_slice`, which the generated file includes."""
    w.dtype(x.spec.dtype)
    return call(w.function("dynamic_update_slice"), x, update, tuple_of(starts))


ROWS: Rows = {
    ops.Gather: gather,
    ops.GatherDynamicSliceSizes: gather,
    ops.Scatter: scatter,
    ops.DynamicSlice: dynamic_slice,
    ops.DynamicUpdateSlice: dynamic_update_slice,
}
