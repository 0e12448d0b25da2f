"""Kernels of the structural family, which return views if strides allow it, else copies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter, methodcaller
from typing import Any, TypeAlias

import numpy as np

from tenferro.dims import is_static
from tenferro.exec.kernels.kernel import Array, Function, KernelRows, OpKernel, SpecializedKernel
from tenferro.exec.layout import Layout, dense, strided
from tenferro.ops import structural as ops
from tenferro.types import DType, TensorSpec

__all__ = ["ROWS", "pad", "padding_slices", "slices_for", "write_padded"]


def broadcast_in_dim(op: ops.BroadcastInDim, x: Array) -> Array:
    """Broadcast x: transpose it to the order of the result's axes, insert axes of extent 1, and broadcast these."""
    shape = op.resolved("shape", (x.shape,))
    order = sorted(range(x.ndim), key=op.dims.__getitem__)
    aligned = [1] * len(shape)
    for axis in order:
        aligned[op.dims[axis]] = x.shape[axis]
    return np.broadcast_to(x.transpose(order).reshape(aligned), shape)


class BroadcastView:
    """Function that broadcasts an operand of static shape.

    For a row-major operand it is ten times as fast as `broadcast_in_dim`.

    Args:
        x: the operand's type, with at least one element.
    """

    def __init__(self, op: ops.BroadcastInDim, x: TensorSpec) -> None:
        self.op = op
        self.shape, self.dtype = tuple(op.shape), x.dtype.dtype
        strides, step = [0] * len(self.shape), x.dtype.itemsize
        for axis, n in zip(reversed(op.dims), reversed(x.shape), strict=True):
            strides[axis] = step if n > 1 else 0
            step *= n
        self.strides = tuple(strides)

    def __call__(self, x: Array) -> Array:
        if not x.flags.c_contiguous:
            return broadcast_in_dim(self.op, x)
        y = np.ndarray(self.shape, self.dtype, x, 0, self.strides)
        y.setflags(write=False)
        return y


def plan_broadcast(op: ops.BroadcastInDim, x: TensorSpec) -> Function | None:
    """Return a `BroadcastView` for an operand of this type.

    Return None for symbolic or data-dependent shapes, and for dtypes that do not support Python's buffer protocol.
    """
    if not (are_static(op.shape) and are_static(x.shape) and x.size):
        return None
    has_buffer = x.dtype is not DType.BF16 and not x.dtype.is_narrow
    return BroadcastView(op, x) if has_buffer else None


def reshape(op: ops.Reshape, _: np.dtype[Any]) -> Function:
    """Return a function that reshapes an array in column-major order; its result is a view if strides allow it."""
    if are_static(op.shape):
        return methodcaller("reshape", op.shape, order="F")
    return lambda x: x.reshape(op.resolved("shape", (x.shape,)), order="F")


def slice_(op: ops.Slice, _: np.dtype[Any]) -> Function:
    """Return a function that slices an array; its result is a view."""
    if are_static(op.starts) and are_static(op.limits):
        return itemgetter(slices_for(op, ()))
    return lambda x: x[slices_for(op, x.shape)]


def slices_for(op: ops.Slice, shape: Sequence[int]) -> tuple[slice, ...]:
    """Return the op as Python's slices, for an array of this shape."""
    starts, limits = op.resolved("starts", (shape,)), op.resolved("limits", (shape,))
    return tuple(map(slice, starts, limits, op.strides))


def are_static(extents: tuple[Any, ...]) -> bool:
    """Return whether all extents are numbers."""
    return all(map(is_static, extents))


def pad(
    x: Array, value: Array, low: tuple[int, ...], high: tuple[int, ...], interior: tuple[int, ...]
) -> Array:
    """Pad x with `value`: `interior` elements between neighbours, `low` before and `high` after, per axis.

    Negative `low` or `high` remove elements.
    """
    return write_padded(*padding_slices(x.shape, low, high, interior), x, value)


Slices: TypeAlias = tuple[slice, ...]


def write_padded(
    shape: tuple[int, ...], target: Slices, source: Slices, x: Array, value: Array, into: Any = None
) -> Array:
    """Return an array of this shape filled with `value`, after copying x[source] to its slices `target`.

    Args:
        into: the buffer for the result; None for new memory.
    """
    result = np.ndarray(shape, x.dtype, into)
    result[...] = value
    result[target] = x[source]
    return result


def padding_slices(
    extents: Sequence[int], low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> tuple[tuple[int, ...], Slices, Slices]:
    """Return the shape of a padded array, the slices of the result to which elements are copied, and their source.

    Args:
        extents: the shape of the operand.
        low, high, interior: see `pad`.
    """
    shape: list[int] = []
    source: list[slice] = []
    target: list[slice] = []
    for n, start, end, gap in zip(extents, low, high, interior, strict=True):
        extent, step = start + n + max(n - 1, 0) * gap + end, gap + 1
        first = max(0, -(start // step)) if start < 0 else 0
        last = min(n, max(0, (extent - 1 - start) // step + 1))
        last = max(first, last)
        begin = start + first * step
        stop = begin + (last - first - 1) * step + 1 if last > first else begin
        shape.append(extent)
        source.append(slice(first, last))
        target.append(slice(begin, stop, step))
    return tuple(shape), tuple(target), tuple(source)


def plan_pad(op: ops.Pad, x: TensorSpec, value: TensorSpec) -> Function | None:
    """Return a function that pads operands of this type; None if a shape or an amount of padding is not static."""
    if not (are_static(x.shape) and are_static(op.low) and are_static(op.high)):
        return None
    return partial(write_padded, *padding_slices(x.shape, op.low, op.high, op.interior))


def extract_diag(op: ops.ExtractDiag, x: Array) -> Array:
    """Return a copy of the diagonal, at the axis `axis_a`.

    NumPy appends the diagonal as the last axis. It is copied, because elements of NumPy's view are far apart in memory.
    """
    diagonal, axis = x.diagonal(0, op.axis_a, op.axis_b), op.axis_a - (op.axis_b < op.axis_a)
    is_last = axis == diagonal.ndim - 1
    return (diagonal if is_last else np.moveaxis(diagonal, -1, axis)).copy()


def embed_diag(op: ops.EmbedDiag, x: Array) -> Array:
    """Return an array that is x on the diagonal of two axes, and zero elsewhere."""
    n = x.shape[op.input_axis]
    shape = list(x.shape)
    shape.insert(op.axis_b, n)
    result = np.zeros(shape, x.dtype)
    count = np.arange(n)
    paired = np.moveaxis(result, (op.axis_a, op.axis_b), (0, 1))
    paired[count, count] = np.moveaxis(x, op.input_axis, 0)
    return result


class Triangle:
    """Function that copies one triangle of each matrix, and sets all other elements to zero, even if they are NaN.

    Args:
        k: the number of the diagonal that bounds the triangle; the diagonal itself is copied, too.
        lower: whether the triangle is below the diagonal.
    """

    accepts_buffers = True

    def __init__(self, k: int, lower: bool) -> None:
        self.k, self.lower = k, lower

    def __call__(self, x: Array, into: Sequence[Any] = (None,)) -> Array:
        """Return the triangles of x, as row-major or column-major matrices like those of x."""
        is_column_major = abs(x.strides[-2]) < abs(x.strides[-1])
        if is_column_major:
            x = x.swapaxes(-1, -2)
        y = np.ndarray(x.shape, x.dtype, into[0])
        y.fill(0)
        k, lower = (-self.k, not self.lower) if is_column_major else (self.k, self.lower)
        rows, columns = x.shape[-2:]
        low = np.tri(rows, columns, k if lower else k - 1, dtype=bool)
        np.copyto(y, x, where=low if lower else ~low)
        return y.swapaxes(-1, -2) if is_column_major else y


def sliced(op: ops.Slice, x: Layout) -> Layout:
    """Return the layout of a slice of an array with the layout x, which is a view."""
    shape = tuple([
        len(range(*each)) for each in zip(op.starts, op.limits, op.strides, strict=True)
    ])  # fmt: skip
    return strided(shape, [a * b for a, b in zip(x.strides, op.strides, strict=True)])


def triangular(op: ops.Tril | ops.Triu, x: Layout) -> Layout:
    """Return the layout of a triangle's result: dense row-major or column-major matrices, like those of the operand."""
    *batch, row, column = range(len(x.shape))
    is_column_major = abs(x.strides[row]) < abs(x.strides[column])
    return dense(x.shape, (*batch, column, row) if is_column_major else (*batch, row, column))


ROWS: KernelRows = {
    ops.Transpose: SpecializedKernel(
        lambda op, _: methodcaller("transpose", op.perm),
        view=True,
        layout=lambda op, x: x.transposed(op.perm),
    ),
    ops.Reshape: SpecializedKernel(reshape, view=True, layout=lambda op, x: x.reshaped(op.shape)),
    ops.BroadcastInDim: OpKernel(
        broadcast_in_dim,
        plan_broadcast,
        view=True,
        layout=lambda op, x: x.broadcast(op.shape, op.dims),
    ),
    ops.Slice: SpecializedKernel(slice_, view=True, layout=sliced),
    ops.Pad: OpKernel(lambda op, x, value: pad(x, value, op.low, op.high, op.interior), plan_pad),
    ops.Concatenate: OpKernel(lambda op, *arrays: np.concatenate(arrays, op.axis)),
    ops.Reverse: OpKernel(
        lambda op, x: np.flip(x, op.axes),
        view=True,
        layout=lambda op, x: strided(
            x.shape, [-s if axis in op.axes else s for axis, s in enumerate(x.strides)]
        ),
    ),
    ops.ExtractDiag: OpKernel(extract_diag),
    ops.EmbedDiag: OpKernel(embed_diag),
    ops.Tril: SpecializedKernel(lambda op, _: Triangle(op.k, lower=True), layout=triangular),
    ops.Triu: SpecializedKernel(lambda op, _: Triangle(op.k, lower=False), layout=triangular),
    ops.OptimizationBarrier: OpKernel(
        lambda op, *arrays: arrays if op.count > 1 else arrays[0], view=True
    ),
}
