"""Emitters of the structural family."""

from __future__ import annotations

from lowering.emit.emitter import EmitterRows
from lowering.emit.indexing import gathered
from lowering.inference import result_type
from lowering.writer import Value, Writer
from tenferro.dims import is_static
from tenferro.ops.indexing import Gather
from tenferro.ops.structural import (
    BroadcastInDim,
    Concatenate,
    EmbedDiag,
    ExtractDiag,
    OptimizationBarrier,
    Pad,
    Reshape,
    Reverse,
    Slice,
    Transpose,
    Tril,
    Triu,
)
from tenferro.types import DType, TensorSpec

__all__ = ["ROWS", "emit_pad"]


def reshape(op: Reshape, w: Writer, x: Value) -> Value:
    """Emit a column-major reshape: reverse the axes, reshape in row-major order, and reverse the axes again.

    If the reshape only adds or removes axes of extent 1, row-major and column-major order agree. Then one row-major
    reshape is emitted.
    """
    shape = result_type(op, x).shape
    if [n for n in x.shape if n != 1] == [n for n in shape if n != 1]:
        return w.reshape(x, shape)
    reversed_x = w.transpose(x, range(x.rank)[::-1])
    reversed_y = w.reshape(reversed_x, shape[::-1])
    return w.transpose(reversed_y, range(reversed_y.rank)[::-1])


def slice_(op: Slice, w: Writer, x: Value) -> Value:
    """Emit `stablehlo.slice %x [start:limit:stride, ..]`; an axis that is not sliced may have a symbolic extent."""
    starts, limits = op.resolved("starts", (x.shape,)), op.resolved("limits", (x.shape,))
    return w.slice(x, starts, limits, op.strides, result_type(op, x))


def emit_pad(
    w: Writer,
    x: Value,
    value: Value,
    result: TensorSpec,
    low: tuple[int, ...],
    high: tuple[int, ...],
    interior: tuple[int, ...],
) -> Value:
    """Emit `stablehlo.pad`, or `stablehlo.dynamic_pad` if an amount is symbolic."""
    if not all(map(is_static, (*low, *high))):
        amounts = [w.shape(low), w.shape(high), w.shape(interior)]
        return w.op("dynamic_pad", x, value, *amounts, result=result)
    return w.op("pad", x, value, result=result, low=low, high=high, interior=interior)


def pad(op: Pad, w: Writer, x: Value, value: Value) -> Value:
    """Emit `stablehlo.pad`."""
    low, high = op.resolved("low", (x.shape,)), op.resolved("high", (x.shape,))
    return emit_pad(w, x, value, result_type(op, x, value), low, high, op.interior)


def reverse(op: Reverse, w: Writer, x: Value) -> Value:
    """Emit `stablehlo.reverse`; return x unchanged if there are no axes to reverse."""
    if not op.axes:
        return x
    return w.op("reverse", x, result=x.spec, dims=op.axes)


def concatenate(op: Concatenate, w: Writer, *operands: Value) -> Value:
    """Emit `stablehlo.concatenate`; its attribute `dim` is the op's axis."""
    return w.op("concatenate", *operands, result=result_type(op, *operands), dim=op.axis)


def extract_diag(op: ExtractDiag, w: Writer, x: Value) -> Value:
    """Emit a `stablehlo.gather` of the elements (i, i) of two axes.

    A gather copies all bits of each element, such as the sign of a zero, and other compilers can differentiate it.
    """
    axes = tuple(sorted((op.axis_a, op.axis_b)))
    batch_axis = op.axis_a - (op.axis_b < op.axis_a)
    result = result_type(op, x)
    shape = result.shape
    numbers = Gather(
        offset_dims=tuple([axis for axis in range(len(shape)) if axis != batch_axis]),
        collapsed_slice_dims=axes,
        operand_batching_dims=(),
        start_indices_batching_dims=(),
        start_index_map=axes,
        index_vector_dim=1,
        slice_sizes=tuple([1 if axis in axes else n for axis, n in enumerate(x.shape)]),
        indices_are_sorted=True,
    )
    return gathered(numbers, w, x, w.iota((shape[batch_axis], 2), 0), result)


def embed_diag(op: EmbedDiag, w: Writer, x: Value) -> Value:
    """Emit x on the diagonal of two axes: broadcast x along the new axis, and select zeros off the diagonal."""
    result = result_type(op, x)
    shape = result.shape
    mask = diagonal_mask(w, shape, op.axis_a, op.axis_b)
    dims = [axis for axis in range(len(shape)) if axis != op.axis_b]
    return w.select(mask, w.broadcast(x, shape, dims), w.full(0, result))


def diagonal_mask(w: Writer, shape: tuple[int, ...], axis_a: int, axis_b: int) -> Value:
    """Emit a mask that is true where the indices along the two axes are equal."""
    return w.compare("EQ", w.iota(shape, axis_a), w.iota(shape, axis_b))


def triangle(w: Writer, x: Value, k: int, lower: bool) -> Value:
    """Emit a copy of x with zeros above the k-th diagonal of each matrix if `lower`, else with zeros below it."""
    rows = w.op("add", w.iota(x.shape, x.rank - 2), w.full(k, TensorSpec.of(x.shape, DType.I64)))
    mask = w.compare("LE" if lower else "GE", w.iota(x.shape, x.rank - 1), rows)
    return w.select(mask, x, w.full(0, x.spec))


ROWS: EmitterRows = {
    Transpose: lambda op, w, x: w.transpose(x, op.perm),
    Reshape: reshape,
    BroadcastInDim: lambda op, w, x: w.broadcast(x, result_type(op, x).shape, op.dims),
    Slice: slice_,
    Pad: pad,
    Concatenate: concatenate,
    Reverse: reverse,
    ExtractDiag: extract_diag,
    EmbedDiag: embed_diag,
    Tril: lambda op, w, x: triangle(w, x, op.k, lower=True),
    Triu: lambda op, w, x: triangle(w, x, op.k, lower=False),
    OptimizationBarrier: lambda op, w, *operands: w.barrier(*operands),
}
