"""Kernels of the reduction family. float16 and bfloat16 accumulate in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tenferro.exec.kernels.kernel import Array, Kernel, KernelRows, in_float32
from tenferro.ops.reduction import (
    ArgMax,
    ArgMin,
    CumMax,
    CumMin,
    CumProd,
    CumSum,
    ReduceAnd,
    ReduceMax,
    ReduceMin,
    ReduceOr,
    ReduceProd,
    ReduceSum,
    Sort,
    TopK,
)
from tenferro.types import DType

__all__ = ["ROWS", "extreme"]


def extreme(dtype: np.dtype[Any], largest: bool) -> Any:
    """The largest or least value of a dtype, infinities included."""
    if dtype.kind == "b":
        return np.bool_(largest)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return dtype.type(info.max if largest else info.min)
    return dtype.type(np.inf if largest else -np.inf)


def folded(ufunc: np.ufunc) -> Kernel:
    """A reduction by a ufunc whose identity NumPy knows, in the dtype of x."""

    def kernel(op: Any, x: Array) -> Array:
        def function(y: Array) -> Array:
            return ufunc.reduce(y, axis=op.axes, dtype=y.dtype)

        return in_float32(function)(x) if op.axes else x

    return kernel


def selected(ufunc: np.ufunc, largest: bool) -> Kernel:
    """Maximum or minimum, starting from the value that never wins.

    Zeros of both signs are told apart by a second look, only where the result is a zero.
    """

    def kernel(op: Any, x: Array) -> Array:
        if not op.axes:
            return x
        start = extreme(x.dtype, not largest)
        result = np.asarray(ufunc.reduce(x, axis=op.axes, initial=start))
        if x.dtype.kind in "biu" or not (result == 0).any():
            return result
        winning_sign = (x == 0) & (np.signbit(x) != largest)
        positive = winning_sign.any(axis=op.axes) == largest
        zero = np.zeros((), x.dtype)
        return np.where(result == 0, np.where(positive, zero, -zero), result)

    return kernel


def scan(ufunc: np.ufunc) -> Kernel:
    """Accumulate along the axis, backwards by way of a reversed view."""

    def kernel(op: Any, x: Array) -> Array:
        def function(y: Array) -> Array:
            if op.reverse:
                return np.flip(
                    ufunc.accumulate(np.flip(y, op.axis), op.axis, dtype=y.dtype), op.axis
                )
            return ufunc.accumulate(y, op.axis, dtype=y.dtype)

        return in_float32(function)(x)

    return kernel


def arg_reduction(function: Callable[..., Any]) -> Kernel:
    """NumPy's rule is ours: the first winner, and NaN wins."""
    return lambda op, x: np.asarray(function(_comparable(x), axis=op.axis), np.int64)


def sort(op: Sort, *operands: Array) -> Any:
    """A stable argsort of the key, and every operand taken along it."""
    key = _comparable(operands[0])
    if op.count == 1 and key is operands[0]:
        return np.sort(key, axis=op.axis, kind="stable")
    order = np.argsort(key, axis=op.axis, kind="stable")
    taken = tuple(np.take_along_axis(x, order, axis=op.axis) for x in operands)
    return taken if op.count > 1 else taken[0]


def _comparable(x: Array) -> Array:
    """bfloat16 as float32, because NumPy has no sort for it."""
    return x.astype(np.float32) if DType.of(x.dtype) is DType.BF16 else x


def top_k(op: TopK, x: Array) -> Any:
    """Sort the reversed axis ascending and read it backwards: ties then come by lower index."""
    key = np.flip(_comparable(x), -1)
    order = np.flip(np.argsort(key, axis=-1, kind="stable"), -1)[..., : op.k]
    places = x.shape[-1] - 1 - order
    return np.take_along_axis(x, places, axis=-1), places.astype(np.int64, copy=False)


ROWS: KernelRows = {
    ReduceSum: folded(np.add),
    ReduceProd: folded(np.multiply),
    ReduceMax: selected(np.maximum, largest=True),
    ReduceMin: selected(np.minimum, largest=False),
    ReduceAnd: folded(np.bitwise_and),
    ReduceOr: folded(np.bitwise_or),
    ArgMax: arg_reduction(np.argmax),
    ArgMin: arg_reduction(np.argmin),
    CumSum: scan(np.add),
    CumProd: scan(np.multiply),
    CumMax: scan(np.maximum),
    CumMin: scan(np.minimum),
    Sort: sort,
    TopK: top_k,
}
