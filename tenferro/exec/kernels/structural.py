"""Kernels of the structural family, which return views if strides allow it, else copies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter, methodcaller
from typing import Any, TypeAlias

import numpy as np

from tenferro.dims import is_static
from tenferro.exec.kernels.kernel import Array, Function, Kernel, KernelRows, Specs, specialized
from tenferro.exec.layout import Layout, dense, row_major, strided
from tenferro.ops import structural as ops
from tenferro.types import DType

__all__ = ["ROWS", "pad", "padding_slices", "slices_for", "write_padded"]


def broadcast_in_dim(op: ops.BroadcastInDim, x: Array) -> Array:
    """Broadcast x: transpose it to the order of the result's axes, and insert axes of extent 1."""
    shape = op.resolved("shape", (x.shape,))
    order = sorted(range(x.ndim), key=op.dims.__getitem__)
    aligned = [1] * len(shape)
    for axis in order:
        aligned[op.dims[axis]] = x.shape[axis]
    return np.broadcast_to(x.transpose(order).reshape(aligned), shape)


def plan_broadcast(op: ops.BroadcastInDim, inputs: Specs, _: object) -> Function | None:
    """Return a function that broadcasts a row-major operand ten times as fast as `broadcast_in_dim`.

    Return None for data-dependent shapes and for dtypes without a buffer protocol.
    """
    (spec,) = inputs
    if not (are_static(op.shape) and are_static(spec.shape) and spec.size):
        return None
    if spec.dtype is DType.BF16 or spec.dtype.is_narrow:
        return None
    shape, dtype, strides = tuple(op.shape), spec.dtype.dtype, [0] * len(op.shape)
    for axis, step in zip(op.dims, row_major(spec.shape).strides, strict=True):
        strides[axis] = step * spec.dtype.itemsize

    def broadcast(x: Array) -> Array:
        if not x.flags.c_contiguous:
            return broadcast_in_dim(op, x)
        y = np.ndarray(shape, dtype, x, 0, strides)
        y.setflags(write=False)
        return y

    return broadcast


def reshape(op: ops.Reshape, _: np.dtype[Any]) -> Function:
    """Return a function that reshapes an array in column-major order."""
    if are_static(op.shape):
        return methodcaller("reshape", op.shape, order="F")
    return lambda x: x.reshape(op.resolved("shape", (x.shape,)), order="F")


def slice_(op: ops.Slice, _: np.dtype[Any]) -> Function:
    if are_static(op.starts) and are_static(op.limits):
        return itemgetter(slices_for(op, ()))
    return lambda x: x[slices_for(op, x.shape)]


def slices_for(op: ops.Slice, shape: Sequence[int]) -> tuple[slice, ...]:
    """Return Python's slices for an array of this shape."""
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
    """Return y with y[target] = x[source], and `value` elsewhere, in the buffer `into` if it is not None."""
    result = np.ndarray(shape, x.dtype, into)
    result[...] = value
    result[target] = x[source]
    return result


def padding_slices(
    extents: Sequence[int], low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> tuple[tuple[int, ...], Slices, Slices]:
    """Return the arguments `shape`, `target` and `source` of `write_padded` for an operand with these extents."""
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


def plan_pad(op: ops.Pad, inputs: Specs, _: object) -> Function | None:
    """Return a function that pads an operand; None for data-dependent shapes."""
    x, _ = inputs
    if not (are_static(x.shape) and are_static(op.low) and are_static(op.high)):
        return None
    return partial(write_padded, *padding_slices(x.shape, op.low, op.high, op.interior))


def extract_diag(op: ops.ExtractDiag, x: Array) -> Array:
    """Return a copy of the diagonal as the axis `axis_a`; elements of NumPy's view would be far apart in memory."""
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
        k: the number of the diagonal that bounds the triangle, and belongs to it.
        lower: whether the triangle is below the diagonal.
    """

    accepts_buffers = True

    def __init__(self, k: int, lower: bool) -> None:
        self.k, self.lower = k, lower

    def __call__(self, x: Array, into: Sequence[Any] = (None,)) -> Array:
        """Return the triangles of x; the matrices are row-major or column-major, as in x."""
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
    """Return the layout of a slice of an array with the layout x."""
    shape = tuple([
        len(range(*each)) for each in zip(op.starts, op.limits, op.strides, strict=True)
    ])  # fmt: skip
    return strided(shape, [a * b for a, b in zip(x.strides, op.strides, strict=True)])


def triangular(op: ops.Tril | ops.Triu, x: Layout) -> Layout:
    """Return the layout of the result of `Triangle`."""
    *batch, row, column = range(len(x.shape))
    is_column_major = abs(x.strides[row]) < abs(x.strides[column])
    return dense(x.shape, (*batch, column, row) if is_column_major else (*batch, row, column))


ROWS: KernelRows = {
    ops.Transpose: specialized(
        lambda op, _: methodcaller("transpose", op.perm),
        view=True,
        layout=lambda op, x: x.transposed(op.perm),
    ),
    ops.Reshape: specialized(reshape, view=True, layout=lambda op, x: x.reshaped(op.shape)),
    ops.BroadcastInDim: Kernel(
        broadcast_in_dim,
        plan_broadcast,
        view=True,
        layout=lambda op, x: x.broadcast(op.shape, op.dims),
    ),
    ops.Slice: specialized(slice_, view=True, layout=sliced),
    ops.Pad: Kernel(lambda op, x, value: pad(x, value, op.low, op.high, op.interior), plan_pad),
    ops.Concatenate: Kernel(lambda op, *arrays: np.concatenate(arrays, op.axis)),
    ops.Reverse: Kernel(
        lambda op, x: np.flip(x, op.axes),
        view=True,
        layout=lambda op, x: strided(
            x.shape, [-s if axis in op.axes else s for axis, s in enumerate(x.strides)]
        ),
    ),
    ops.ExtractDiag: Kernel(extract_diag),
    ops.EmbedDiag: Kernel(embed_diag),
    ops.Tril: specialized(lambda op, _: Triangle(op.k, lower=True), layout=triangular),
    ops.Triu: specialized(lambda op, _: Triangle(op.k, lower=False), layout=triangular),
    ops.OptimizationBarrier: Kernel(
        lambda op, *arrays: arrays if op.count > 1 else arrays[0], view=True
    ),
}
