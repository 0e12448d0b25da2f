"""Rows of the structural family: index arithmetic, and copies only where elements meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenferro.exec.llvm.code import Code, Index, literal, llvm_type
from tenferro.exec.llvm.rows import Row, Rows
from tenferro.exec.llvm.tensor import Body, Memory, Tensor
from tenferro.ops import structural as st
from tenferro.types import TensorSpec

__all__ = ["ROWS"]

Indices = tuple[Index, ...]


def moved(
    index_of: Callable[[Code, Any, Indices, TensorSpec, TensorSpec], Indices], **facts: Any
) -> Row:
    """The row of an op that reads its operand at other indices."""

    def write(
        body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
    ) -> Sequence[Tensor]:
        x, y = operands[0], types[0]

        def element(index: Indices) -> Any:
            return body.at(x, index_of(body.code, op, index, x.spec, y))

        return [Tensor(y, element, x.reads, is_cheap=x.is_cheap)]

    return Row(write, moves=True, **facts)


def transpose(code: Code, op: Any, index: Indices, x: TensorSpec, y: TensorSpec) -> Indices:
    """Axes in another order."""
    return tuple([index[op.perm.index(axis)] for axis in range(x.rank)])


def reshape(code: Code, op: Any, index: Indices, x: TensorSpec, y: TensorSpec) -> Indices:
    """The same number, counted along the first axis fastest."""
    long_indices = [i for i, n in zip(index, y.shape, strict=True) if n != 1]
    if [n for n in x.shape if n != 1] == [n for n in y.shape if n != 1]:
        rest = iter(long_indices)
        return tuple([0 if n == 1 else next(rest) for n in x.shape])
    number: Index = 0
    for i, n in zip(reversed(index), reversed(y.shape), strict=True):
        number = code.add(code.scaled(number, n), i)
    indices: list[Index] = []
    for n in x.shape[:-1]:
        number, rest_ = code.divided(number, n)
        indices.append(rest_)
    return (*indices, number) if x.rank else ()


def broadcast(code: Code, op: Any, index: Indices, x: TensorSpec, y: TensorSpec) -> Indices:
    """Repeated along axes that are new, or have one element."""
    return tuple([0 if n == 1 else index[axis] for axis, n in zip(op.dims, x.shape, strict=True)])


def slice_(code: Code, op: Any, index: Indices, x: TensorSpec, y: TensorSpec) -> Indices:
    """From a start, by steps."""
    starts = op.resolved("starts", (x.shape,))
    return tuple([
        code.add(code.scaled(i, step), start)
        for i, start, step in zip(index, starts, op.strides, strict=True)
    ])  # fmt: skip


def reverse(code: Code, op: Any, index: Indices, x: TensorSpec, y: TensorSpec) -> Indices:
    """From the end."""
    return tuple([
        code.add(code.scaled(i, -1), n - 1) if axis in op.axes else i
        for axis, (i, n) in enumerate(zip(index, x.shape, strict=True))
    ])  # fmt: skip


def extract_diag(code: Code, op: Any, index: Indices, x: TensorSpec, y: TensorSpec) -> Indices:
    """The same index on both axes."""
    axis = op.axis_a - (op.axis_b < op.axis_a)
    indices = list(index)
    indices.insert(op.axis_b, index[axis])
    return tuple(indices)


def concatenate(
    body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """Each operand into its part of the result's memory."""
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
    """Elements of x to start + step * index; those of a range of indices along each axis."""
    code, y = body.code, memory.spec
    ranges = extents or [(0, n) for n in x.spec.shape]

    def one(offset: Indices) -> None:
        index = tuple([code.add(i, first) for i, (first, _) in zip(offset, ranges, strict=True)])
        position = [
            code.add(code.scaled(i, 1 if steps is None else steps[axis]), starts[axis])
            for axis, i in enumerate(index)
        ]
        code.store(body.at(x, index), memory.pointer, code.linear(position, y.shape), y.dtype)

    code.loops([last - first for first, last in ranges], one)


def pad(
    body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """The padding value everywhere, then the elements that no negative edge cuts."""
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


def embed_diag(
    body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """Zeros, but on the diagonal."""
    (x,), (y,), code = operands, types, body.code
    memory = body.result(y)
    body.write(body.filled(y, 0), memory)

    def one(index: Indices) -> None:
        position = list(index)
        position.insert(op.axis_b, index[op.input_axis])
        code.store(body.at(x, index), memory.pointer, code.linear(position, y.shape), y.dtype)

    code.loops(x.spec.shape, one)
    return [body.stored(memory)]


def triangle(lower: bool) -> Row:
    """Zeros selected, not multiplied."""

    def write(
        body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
    ) -> Sequence[Tensor]:
        (x,), (y,), code = operands, types, body.code

        def element(index: Indices) -> Any:
            row, column = index[-2:]
            name = "sle" if lower else "sge"
            is_kept = code.value(f"icmp {name} i64 {column}, {code.add(row, op.k)}")
            value, zero = body.at(x, index), literal(0, y.dtype)
            if y.dtype.is_complex:
                kind = llvm_type(y.dtype)
                return tuple([
                    code.value(f"select i1 {is_kept}, {kind} {a}, {kind} {b}")
                    for a, b in zip(value, zero, strict=True)
                ])  # fmt: skip
            kind = llvm_type(y.dtype)
            return code.value(f"select i1 {is_kept}, {kind} {value}, {kind} {zero}")

        return [Tensor(y, element, x.reads)]

    return Row(write)


def barrier(
    body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """The operands."""
    return list(operands)


ROWS: Rows = {
    st.Transpose: moved(transpose),
    st.Reshape: moved(reshape),
    st.BroadcastInDim: moved(broadcast),
    st.Slice: moved(slice_),
    st.Pad: Row(pad),
    st.Concatenate: Row(concatenate),
    st.Reverse: moved(reverse),
    st.ExtractDiag: moved(extract_diag),
    st.EmbedDiag: Row(embed_diag),
    st.Tril: triangle(lower=True),
    st.Triu: triangle(lower=False),
    st.OptimizationBarrier: Row(barrier),
}
