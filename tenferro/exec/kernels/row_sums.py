"""Sums along contiguous axes, by BLAS's dot product with ones: faster than NumPy's own, as
accurate, and of two factors without their products.

A row's sum depends on that row alone: its blocks are summed one by one, each with as many running sums as the
machine's vectors hold, then the sums of the blocks likewise. So roundings of equal numbers, which all go one
way, add up over a few additions and not over the row; NumPy sums as many in pairs for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from tenferro.exec.kernels.kernel import Array, Kernel, in_float32
from tenferro.exec.runtime.resources import CALLER, Resources
from tenferro.types import DType, TensorSpec

__all__ = ["Sums", "has_row_sums", "is_of_ones", "sum_of_products"]

BLOCK = 128
"""Elements that are summed by one call, as in NumPy's sums: with 1,024, sums of equal numbers were 2 to 7 times
less accurate than NumPy's, depending on how many numbers the machine's vectors hold.
"""
ONES = {dtype: np.ones(BLOCK, dtype) for dtype in (np.dtype(np.float32), np.dtype(np.float64))}


def has_row_sums(dtype: DType) -> bool:
    """Whether sums of this dtype are made here.

    Complex numbers are not: BLAS multiplies their parts by the ones' imaginary zeros, which an infinity makes
    NaN.
    """
    return dtype.dtype in ONES


class Sums(Kernel):
    """The kernel of sums. float16 and bfloat16 are summed in float32; over no axes it is x itself."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(view=lambda op: not op.axes)

    def __call__(self, op: Any, *arrays: Array) -> Any:
        (x,) = arrays
        return _summed(op.axes, x.ndim, DType.of(x.dtype))(x)

    def bind(
        self,
        op: Any,
        inputs: tuple[TensorSpec, ...],
        resources: Resources = CALLER,
    ) -> Callable[..., Any]:
        """The function for inputs of these types."""
        (x,) = inputs
        function = _summed(op.axes, x.rank, x.dtype)
        if not is_of_ones(x, op.axes):
            return function
        index = tuple([0 if axis in op.axes else slice(None) for axis in range(x.rank)])
        zero = np.zeros((), x.dtype.dtype)
        # Tiles have other extents than their types say.
        return lambda x: np.add(x[index], zero) if is_of_ones(x, op.axes) else function(x)


def is_of_ones(x: TensorSpec | Array, axes: tuple[int, ...]) -> bool:
    """Whether each sum is one of one element, which is itself but for -0.0."""
    return bool(axes) and all([x.shape[axis] == 1 for axis in axes])


def _summed(axes: tuple[int, ...], rank: int, dtype: DType) -> Callable[[Array], Any]:
    if not axes:
        return lambda x: x
    wide = dtype.accumulator
    plain = partial(np.add.reduce, axis=axes, dtype=wide.dtype)
    if not has_row_sums(wide):
        return plain
    count = len(axes)
    is_last, is_first = _are_last(axes, rank), {*axes} == {*range(count)}

    def of_row(x: Array) -> Any:
        # Of one element, `dot` would be a product, which keeps the sign of a zero where sums lose it.
        if 1 < x.size <= BLOCK and x.strides[0] == x.itemsize:
            return x.dot(ONES[x.dtype][: x.size])
        return function(x)

    def function(x: Array) -> Any:
        if is_last and (rows := _rows(x, count)) is not None:
            return _sums(rows)
        if is_first and (rows := _rows(x.T, count)) is not None:
            return _sums(rows).T
        return plain(x)

    if wide is not dtype:
        return in_float32(function)
    return of_row if rank == 1 else function


def sum_of_products(
    axes: tuple[int, ...], rank: int, dtype: DType
) -> Callable[[Array, Array, Array], Any]:
    """A function that gives the sums of lhs * rhs.

    It takes memory for the products too, for where they are needed after all.
    """
    count, is_last = len(axes), _are_last(axes, rank)
    summed = _summed(axes, rank, dtype)

    def function(lhs: Array, rhs: Array, products: Array) -> Any:
        if is_last and lhs.shape == rhs.shape:
            x, y = _rows(lhs, count), _rows(rhs, count)
            if x is not None and y is not None:
                return _dots(x, y)
        return summed(np.multiply(lhs, rhs, out=products))

    return function


def _are_last(axes: tuple[int, ...], rank: int) -> bool:
    return {*axes} == {*range(rank - len(axes), rank)}


def _rows(x: Array, count: int) -> Array | None:
    """x with its last `count` axes as one; None where they are not contiguous."""
    if count == 1 and x.strides[-1] == x.itemsize:
        return x
    if x.flags.c_contiguous:
        return x.reshape((*x.shape[:-count], prod(x.shape[-count:])))
    return None


def _sums(x: Array) -> Any:
    """The sums of x over the last axis; of long rows of float64 by NumPy, which is as fast there."""
    if x.dtype == np.float64 and x.shape[-1] > BLOCK:
        return np.add.reduce(x, axis=-1)
    return _dots(x)


def _dots(x: Array, y: Array | None = None) -> Any:
    """The sums of x, or of x * y, over the last axis."""
    length = x.shape[-1]
    if length <= BLOCK:
        return np.vecdot(x, ONES[x.dtype][:length] if y is None else y)
    whole = length - length % BLOCK
    sums = _dots(_dots(_blocks(x, whole), None if y is None else _blocks(y, whole)))
    if whole < length:
        sums += _dots(x[..., whole:], None if y is None else y[..., whole:])
    return sums


def _blocks(x: Array, whole: int) -> Array:
    return x[..., :whole].reshape((*x.shape[:-1], whole // BLOCK, BLOCK))
