"""LLVM lowerings of the structural ops, mostly as index arithmetic without a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenferro.exec.llvm.code import Code, Index, literal
from tenferro.exec.llvm.elementwise import select
from tenferro.exec.llvm.rows import Row, Rows
from tenferro.exec.llvm.tensor import Body, Memory, Specs, Tensor, Tensors
from tenferro.ops import structural as st
from tenferro.types import TensorSpec

__all__ = ["ROWS"]

Indices = tuple[Index, ...]


def reindexed(index_of: Callable[[Code, Any, Indices, TensorSpec, TensorSpec], Indices]) -> Row:
    """Return the lowering of an op that moves elements; `index_of` maps a result's index to the operand's."""

    def write(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
        x, y = operands[0], types[0]

        def element(index: Indices) -> Any:
            return body.at(x, index_of(body.code, op, index, x.spec, y))

        return [Tensor(y, element, x.reads, is_cheap=x.is_cheap)]

    return Row(write, moves=True)


def transpose(code: Code, op: Any, index: Indices, x: TensorSpec, y: TensorSpec) -> Indices:
    """Return the index of the operand of a Transpose, for an index of the result."""
    return tuple([index[op.perm.index(axis)] for axis in range(x.rank)])


def reshape(code: Code, op: Any, index: Indices, x: TensorSpec, y: TensorSpec) -> Indices:
    """Return the index of the operand of a Reshape with the column-major linear index of `index`."""
    nontrivial = [i for i, n in zip(index, y.shape, strict=True) if n != 1]
    if [n for n in x.shape if n != 1] == [n for n in y.shape if n != 1]:
        remaining = iter(nontrivial)
        return tuple([0 if n == 1 else next(remaining) for n in x.shape])
    number: Index = 0
    for i, n in zip(reversed(index), reversed(y.shape), strict=True):
        number = code.add(code.scaled(number, n), i)
    indices: list[Index] = []
    for n in x.shape[:-1]:
        number, remainder = code.divmod(number, n)
        indices.append(remainder)
    return (*indices, number) if x.rank else ()


def broadcast(code: Code, op: Any, index: Indices, x: TensorSpec, y: TensorSpec) -> Indices:
    """Return the index of the operand of a BroadcastInDim, for an index of the result."""
    return tuple([0 if n == 1 else index[axis] for axis, n in zip(op.dims, x.shape, strict=True)])


def slice_(code: Code, op: Any, index: Indices, x: TensorSpec, y: TensorSpec) -> Indices:
    """Return the index of the operand of a Slice, for an index of the result."""
    starts = op.resolved("starts", (x.shape,))
    return tuple([
        code.add(code.scaled(i, step), start)
        for i, start, step in zip(index, starts, op.strides, strict=True)
    ])  # fmt: skip


def reverse(code: Code, op: Any, index: Indices, x: TensorSpec, y: TensorSpec) -> Indices:
    """Return the index of the operand of a Reverse, for an index of the result."""
    return tuple([
        code.add(code.scaled(i, -1), n - 1) if axis in op.axes else i
        for axis, (i, n) in enumerate(zip(index, x.shape, strict=True))
    ])  # fmt: skip


def extract_diag(code: Code, op: Any, index: Indices, x: TensorSpec, y: TensorSpec) -> Indices:
    """Return the index of the operand of an ExtractDiag, for an index of the result."""
    axis = op.axis_a - (op.axis_b < op.axis_a)
    indices = list(index)
    indices.insert(op.axis_b, index[axis])
    return tuple(indices)


def concatenate(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
    """Write copies of the operands to slices of the result."""
    (y,) = types
    memory, start = body.result(y), 0
    for x in operands:
        _copy_into(body, x, memory, [start if axis == op.axis else 0 for axis in range(y.rank)])
        start += x.spec.shape[op.axis]
    return [body.stored(memory)]


def _copy_into(
    body: Body,
    x: Tensor,
    memory: Memory,
    starts: Sequence[int],
    steps: Sequence[int] | None = None,
    extents: Sequence[tuple[int, int]] | None = None,
) -> None:
    """Write a copy of x in which index i becomes start + step i along each axis of the memory.

    Args:
        extents: the range of copied indices of x along each axis; None for all.
    """
    code, y = body.code, memory.spec
    ranges = extents or [(0, n) for n in x.spec.shape]

    def element(offset: Indices) -> None:
        index = tuple([code.add(i, first) for i, (first, _) in zip(offset, ranges, strict=True)])
        position = [
            code.add(code.scaled(i, 1 if steps is None else steps[axis]), starts[axis])
            for axis, i in enumerate(index)
        ]
        code.store(body.at(x, index), memory.pointer, code.ravel_index(position, y.shape), y.dtype)

    code.loops([last - first for first, last in ranges], element)


def pad(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
    """Write a Pad: fill the result with the padding value, then copy the operand."""
    (x, value), (y,) = operands, types
    memory = body.result(y)
    body.write(body.number(y, body.at(value)), memory)
    ranges: list[tuple[int, int]] = []
    for n, low, gap, extent in zip(x.spec.shape, op.low, op.interior, y.shape, strict=True):
        step = gap + 1
        first = max(0, -(low // step)) if low < 0 else 0
        last = min(n, max(0, (extent - 1 - low) // step + 1))
        ranges.append((first, max(first, last)))
    _copy_into(body, x, memory, op.low, [gap + 1 for gap in op.interior], ranges)
    return [body.stored(memory)]


def embed_diag(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
    """Write an EmbedDiag: fill the result with zeros, then copy the operand to the diagonal."""
    (x,), (y,), code = operands, types, body.code
    memory = body.result(y)
    body.write(body.filled(y, 0), memory)

    def element(index: Indices) -> None:
        position = list(index)
        position.insert(op.axis_b, index[op.input_axis])
        code.store(body.at(x, index), memory.pointer, code.ravel_index(position, y.shape), y.dtype)

    code.loops(x.spec.shape, element)
    return [body.stored(memory)]


def triangle(lower: bool) -> Row:
    """Return the lowering of Tril if `lower`, else of Triu; elements outside the triangle are zero."""

    def write(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
        (x,), (y,), code = operands, types, body.code

        def element(index: Indices) -> Any:
            row, column = index[-2:]
            name = "sle" if lower else "sge"
            is_inside = code.icmp(name, column, code.add(row, op.k))
            value, zero = body.at(x, index), literal(0, y.dtype)
            return select(code, y.dtype, is_inside, value, zero)

        return [Tensor(y, element, x.reads)]

    return Row(write)


ROWS: Rows = {
    st.Transpose: reindexed(transpose),
    st.Reshape: reindexed(reshape),
    st.BroadcastInDim: reindexed(broadcast),
    st.Slice: reindexed(slice_),
    st.Pad: Row(pad),
    st.Concatenate: Row(concatenate),
    st.Reverse: reindexed(reverse),
    st.ExtractDiag: reindexed(extract_diag),
    st.EmbedDiag: Row(embed_diag),
    st.Tril: triangle(lower=True),
    st.Triu: triangle(lower=False),
    st.OptimizationBarrier: Row(lambda body, op, operands, types: list(operands)),
}
