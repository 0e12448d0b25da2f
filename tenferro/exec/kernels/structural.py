"""Kernels of the structural family: views where strides allow, copies where they do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from operator import itemgetter, methodcaller
from typing import Any, TypeAlias

import numpy as np

from tenferro.dims import is_static
from tenferro.exec.kernels.kernel import Array, ByPayload, KernelRows, OfOp, Planned
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

__all__ = ["ROWS", "pad", "slices_of"]

MOST_AXES = 64
"""That NumPy has."""
LARGEST_MASK = 1 << 18
"""Elements of a triangle's mask that is kept for the next run."""


def broadcast_in_dim(op: BroadcastInDim, x: Array) -> Array:
    """Put x's axes in output order, with extents of 1 between, and let NumPy repeat."""
    shape = op.resolved("shape", (x.shape,))
    order = sorted(range(x.ndim), key=op.dims.__getitem__)
    aligned = [1] * len(shape)
    for axis in order:
        aligned[op.dims[axis]] = x.shape[axis]
    return np.broadcast_to(x.transpose(order).reshape(aligned), shape)


class Repeated:
    """The same for operands of known extents: a row-major one, as nearly all are, in a tenth of the time.

    Args:
        x: the operand's type, which is not empty.
    """

    def __init__(self, op: BroadcastInDim, x: TensorSpec) -> None:
        self.op = op
        self.shape, self.dtype = tuple(op.shape), x.dtype.dtype
        strides, step = [0] * len(self.shape), x.dtype.itemsize
        for axis, n in zip(reversed(op.dims), reversed(x.shape), strict=True):
            strides[axis] = step if n > 1 else 0
            step *= n
        self.strides = tuple(strides)

    def __call__(self, x: Array) -> Array:
        """The view."""
        if not x.flags.c_contiguous:
            return broadcast_in_dim(self.op, x)
        y = np.ndarray(self.shape, self.dtype, x, 0, self.strides)
        y.setflags(write=False)
        return y


def broadcast_planned(op: BroadcastInDim, x: TensorSpec) -> Callable[..., Any] | None:
    """The view of an operand of known extents; None for others, and where NumPy gives no buffer."""
    if not (is_known(op.shape) and is_known(x.shape) and x.size):
        return None
    only_adds_axes = prod(op.shape) == x.size and list(op.dims) == sorted(op.dims)
    if only_adds_axes and 0 < len(op.shape) <= MOST_AXES:
        axes = set(op.dims)
        return itemgetter(
            tuple([slice(None) if axis in axes else None for axis in range(len(op.shape))])
        )
    return Repeated(op, x) if x.dtype is not DType.BF16 else None


def reshape(op: Reshape, _: np.dtype[Any]) -> Callable[..., Array]:
    """A view where the strides allow it."""
    if is_known(op.shape):
        return methodcaller("reshape", op.shape, order="F")
    return lambda x: x.reshape(op.resolved("shape", (x.shape,)), order="F")


def slice_(op: Slice, _: np.dtype[Any]) -> Callable[..., Array]:
    """A strided view."""
    if is_known(op.starts) and is_known(op.limits):
        return itemgetter(slices_of(op, ()))
    return lambda x: x[slices_of(op, x.shape)]


def slices_of(op: Slice, shape: Sequence[int]) -> tuple[slice, ...]:
    """The slices of an array of this shape."""
    starts, limits = op.resolved("starts", (shape,)), op.resolved("limits", (shape,))
    return tuple(map(slice, starts, limits, op.strides))


def is_known(extents: tuple[Any, ...]) -> bool:
    """True where no extent waits for the operands."""
    return all(map(is_static, extents))


def pad(
    x: Array, value: Array, low: tuple[int, ...], high: tuple[int, ...], interior: tuple[int, ...]
) -> Array:
    """Crop by the negative edges, then copy the rest into an array filled with the padding value."""
    return padded(*_padding(x.shape, low, high, interior), x, value)


Keys: TypeAlias = tuple[slice, ...]


def padded(shape: tuple[int, ...], target: Keys, source: Keys, x: Array, value: Array) -> Array:
    """An array filled with a value, but where x is copied to."""
    result = np.empty(shape, x.dtype)
    result[...] = value
    result[target] = x[source]
    return result


def _padding(
    extents: Sequence[int], low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> tuple[tuple[int, ...], Keys, Keys]:
    """The shape of a result, the part of it from the operand, and the part of the operand in it."""
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


def pad_planned(op: Pad, x: TensorSpec, value: TensorSpec) -> Callable[..., Any] | None:
    """A padding of which it is decided where operands go; None where extents are not known."""
    if not (is_known(x.shape) and is_known(op.low) and is_known(op.high)):
        return None
    return partial(padded, *_padding(x.shape, op.low, op.high, op.interior))


def extract_diag(op: ExtractDiag, x: Array) -> Array:
    """NumPy puts the diagonal last; it goes back to where axis_a was. A copy, because elements of the view are far apart."""
    diagonal, axis = x.diagonal(0, op.axis_a, op.axis_b), op.axis_a - (op.axis_b < op.axis_a)
    is_last = axis == diagonal.ndim - 1
    return (diagonal if is_last else np.moveaxis(diagonal, -1, axis)).copy()


class EmbedDiagonal:
    """Zeros with the operand along a diagonal."""

    takes_places = True

    def __init__(self, op: EmbedDiag) -> None:
        self.op = op

    def __call__(self, x: Array, into: Sequence[Any] = (None,)) -> Array:
        """Write through a writeable view of the diagonal."""
        op, n = self.op, x.shape[self.op.input_axis]
        shape = list(x.shape)
        shape.insert(op.axis_b, n)
        result = zeros(shape, x.dtype, into[0])
        count = np.arange(n)
        paired = np.moveaxis(result, (op.axis_a, op.axis_b), (0, 1))
        paired[count, count] = np.moveaxis(x, op.input_axis, 0)
        return result


class Triangle:
    """The elements of matrices up to a diagonal, or from it on, and zeros: selected, not multiplied, so that NaN and
    infinity vanish.

    Args:
        k: the number of the diagonal.
        lower: whether it is up to it.
    """

    takes_places = True

    def __init__(self, k: int, lower: bool) -> None:
        self.k, self.lower = k, lower
        self._last: tuple[Any, Array] = (None, np.empty(0, bool))

    def __call__(self, x: Array, into: Sequence[Any] = (None,)) -> Array:
        """The triangles, in the order of x."""
        is_turned = abs(x.strides[-2]) < abs(x.strides[-1])
        if is_turned:
            x = x.swapaxes(-1, -2)
        y = zeros(x.shape, x.dtype, into[0])
        np.copyto(y, x, where=self._mask(x.shape[-2:], is_turned))
        return y.swapaxes(-1, -2) if is_turned else y

    def _mask(self, shape: tuple[int, int], is_turned: bool) -> Array:
        """Where the elements are; the last one is kept if it is small."""
        key, mask = self._last
        if key != (shape, is_turned):
            k, lower = (-self.k, not self.lower) if is_turned else (self.k, self.lower)
            low = np.tri(*shape, k if lower else k - 1, dtype=bool)
            mask = low if lower else ~low
            if mask.size <= LARGEST_MASK:
                self._last = (shape, is_turned), mask
        return mask


def zeros(shape: Sequence[int], dtype: Any, into: Any) -> Array:
    """Zeros in these bytes, or in memory of their own."""
    if into is None:
        return np.zeros(shape, dtype)
    y = np.ndarray(shape, dtype, into)
    y.fill(0)
    return y


ROWS: KernelRows = {
    Transpose: ByPayload(lambda op, _: methodcaller("transpose", op.perm), view=True),
    Reshape: ByPayload(reshape, view=True),
    BroadcastInDim: Planned(broadcast_in_dim, broadcast_planned, view=True),
    Slice: ByPayload(slice_, view=True),
    Pad: Planned(lambda op, x, value: pad(x, value, op.low, op.high, op.interior), pad_planned),
    Concatenate: OfOp(lambda op, *arrays: np.concatenate(arrays, op.axis)),
    Reverse: OfOp(lambda op, x: np.flip(x, op.axes), view=True),
    ExtractDiag: OfOp(extract_diag),
    EmbedDiag: ByPayload(lambda op, _: EmbedDiagonal(op)),
    Tril: ByPayload(lambda op, _: Triangle(op.k, lower=True)),
    Triu: ByPayload(lambda op, _: Triangle(op.k, lower=False)),
    OptimizationBarrier: OfOp(lambda op, *arrays: arrays if op.count > 1 else arrays[0], view=True),
}
