"""LLVM lowerings of the indexing ops; scatters and updates write in place at the last use of their operand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm.code import Code, Index
from tenferro.exec.llvm.rows import Row, Rows, not_compiled
from tenferro.exec.llvm.tensor import Body, Specs, Tensor, Tensors, inverse_permute
from tenferro.ops import indexing as ix
from tenferro.types import DType, TensorSpec

__all__ = ["ROWS"]

Indices = tuple[Index, ...]
MIN_FUSED_WINDOW = 16
"""Minimum number of elements of a scatter's window for which the updates are not first written to memory."""
COMBINERS = {"add": el.add, "multiply": el.multiply, "min": el.minimum, "max": el.maximum}


def _index_value(code: Code, value: Any, dtype: DType) -> str:
    """Write the conversion of an index to i64; larger unsigned values become the maximum of i64."""
    if dtype is DType.U64:
        return code.intrinsic("umin", value, (1 << 63) - 1)
    if dtype.itemsize == 8:
        return value
    name = "sext" if dtype.dtype.kind == "i" else "zext"
    return code.cast(name, value, "i64")


def _clamped(code: Code, value: str, upper: int) -> str:
    return code.intrinsic("smin", code.intrinsic("smax", value, 0), max(upper, 0))


def _component(body: Body, indices: Tensor, vector_axis: int, batch: Indices, number: int) -> str:
    """Write one component of the index vector at a batch index, as i64."""
    position = list(batch)
    if vector_axis < indices.spec.rank:
        position.insert(vector_axis, number)
    return _index_value(body.code, body.at(indices, tuple(position)), indices.spec.dtype)


def gather(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
    """Write a gather; start indices are clamped so that each window is within the operand."""
    (x, indices), (y,), code = operands, types, body.code
    sizes = op.resolved("slice_sizes", (x.spec.shape, indices.spec.shape))
    dropped = {*op.collapsed_slice_dims, *op.operand_batching_dims}
    window = [axis for axis in range(x.spec.rank) if axis not in dropped]
    offsets = sorted(op.offset_dims)
    batch_axes = [axis for axis in range(y.rank) if axis not in offsets]

    def element(index: Indices) -> Any:
        batch = tuple([index[axis] for axis in batch_axes])
        position: list[Index] = [0] * x.spec.rank
        for number, axis in enumerate(op.start_index_map):
            position[axis] = code.once(
                ("start", indices.number, batch, number, axis),
                lambda number=number, axis=axis: _clamped(
                    code,
                    _component(body, indices, op.index_vector_dim, batch, number),
                    x.spec.shape[axis] - sizes[axis],
                ),
            )
        for axis, batch_axis in zip(
            op.operand_batching_dims, op.start_indices_batching_dims, strict=True
        ):
            position[axis] = batch[batch_axis - (batch_axis > op.index_vector_dim)]
        for axis, offset in zip(window, offsets, strict=True):
            position[axis] = code.add(position[axis], index[offset])
        return body.at(x, tuple(position))

    return [Tensor(y, element, x.reads | indices.reads)]


def scatter(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
    """Write a scatter, in row-major order of the updates; windows that are not within x are skipped."""
    (x, indices, updates), (y,), code = operands, types, body.code
    if y.dtype.is_complex and op.combiner not in ("set", "add", "multiply"):
        raise NotCompiledError(f"Scatter: {op.combiner} of {y.dtype.value} is not compiled")
    memory = body.reuse_or_copy(x)
    window_axes = sorted(op.update_window_dims)
    batch_axes = [axis for axis in range(updates.spec.rank) if axis not in window_axes]
    dropped = {*op.inserted_window_dims, *op.input_batching_dims}
    window = dict(
        zip([axis for axis in range(y.rank) if axis not in dropped], window_axes, strict=True)
    )
    sizes = {axis: updates.spec.shape[position] for axis, position in window.items()}
    if prod(sizes.values()) < MIN_FUSED_WINDOW and not updates.is_cheap:
        updates = body.materialised(updates)  # because loops over few elements are not vectorised

    def at_window(batch: Indices, write: Callable[[Sequence[Index]], None]) -> None:
        """Call `write` with the start of a window; the code that it writes runs if the window is within x."""
        starts: list[Index] = [0] * y.rank
        fits = None
        for number, axis in enumerate(op.scatter_dims_to_operand_dims):
            start = _component(body, indices, op.index_vector_dim, batch, number)
            upper = y.shape[axis] - sizes.get(axis, 1)
            # Starts are compared as unsigned integers, so a negative start is too large.
            inside = code.icmp("ule", start, upper) if upper >= 0 else "false"
            fits = inside if fits is None else code.value("and", fits, inside)
            starts[axis] = start
        for axis, batch_axis in zip(
            op.input_batching_dims, op.scatter_indices_batching_dims, strict=True
        ):
            starts[axis] = batch[batch_axis - (batch_axis > op.index_vector_dim)]

        if fits is None:
            write(starts)
        else:
            code.branch(fits, lambda: write(starts), lambda: None)

    def combine(starts: Sequence[Index], index: Indices) -> None:
        """Write the combination of one element of the updates with an element of the operand."""
        position = [
            code.add(starts[axis], index[window[axis]]) if axis in window else starts[axis]
            for axis in range(y.rank)
        ]
        value = body.at(updates, index)
        offset = code.ravel_index(position, y.shape)
        if op.combiner != "set":
            old = code.load(memory.pointer, offset, y.dtype)
            value = COMBINERS[op.combiner](code, op, y.dtype, [old, value])
        code.store(value, memory.pointer, offset, y.dtype)

    def window_body(batch: Indices) -> None:
        def write(starts: Sequence[Index]) -> None:
            def element(offset: Indices) -> None:
                combine(starts, inverse_permute((*batch_axes, *window_axes), (*batch, *offset)))

            code.loops([updates.spec.shape[axis] for axis in window_axes], element)

        at_window(batch, write)

    def update_body(index: Indices) -> None:
        batch = tuple([index[axis] for axis in batch_axes])
        at_window(batch, lambda starts: combine(starts, index))

    if [*batch_axes, *window_axes] == [*range(updates.spec.rank)]:
        code.loops([updates.spec.shape[axis] for axis in batch_axes], window_body)
    else:  # in the order of the updates, because windows may overlap
        code.loops(updates.spec.shape, update_body)
    return [body.stored(memory)]


def dynamic_slice(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
    """Write a slice of x; its start is clamped so that the slice is within x."""
    (x, *starts), (y,), code = operands, types, body.code
    firsts = _clamped_starts(body, x.spec, y.shape, starts)

    def element(index: Indices) -> Any:
        return body.at(
            x, tuple([code.add(i, first) for i, first in zip(index, firsts, strict=True)])
        )

    return [Tensor(y, element, x.reads, is_cheap=x.is_cheap)]


def dynamic_update_slice(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
    """Write an update of a slice of x; its start is clamped so that the slice is within x."""
    (x, update, *starts), (y,), code = operands, types, body.code
    firsts = _clamped_starts(body, y, update.spec.shape, starts)
    memory = body.reuse_or_copy(x)

    def element(index: Indices) -> None:
        position = [code.add(i, first) for i, first in zip(index, firsts, strict=True)]
        code.store(
            body.at(update, index), memory.pointer, code.ravel_index(position, y.shape), y.dtype
        )

    code.loops(update.spec.shape, element)
    return [body.stored(memory)]


def _clamped_starts(
    body: Body, x: TensorSpec, sizes: Sequence[int], starts: Sequence[Tensor]
) -> list[str]:
    return [
        _clamped(
            body.code, _index_value(body.code, body.at(start), start.spec.dtype), extent - size
        )
        for start, extent, size in zip(starts, x.shape, sizes, strict=True)
    ]


ROWS: Rows = {
    ix.Gather: Row(gather, moves=True, materialises=True),
    ix.GatherDynamicSliceSizes: not_compiled("sizes that the data decide are not compiled"),
    ix.Scatter: Row(scatter, moves=True, materialises=(1,)),
    ix.DynamicSlice: Row(dynamic_slice, moves=True),
    ix.DynamicUpdateSlice: Row(dynamic_update_slice, moves=True),
}
