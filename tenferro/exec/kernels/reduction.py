"""Kernels of the reduction family. float16 and bfloat16 accumulate in float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np

from tenferro.exec.kernels.buffered import has_zeros, winning_zeros
from tenferro.exec.kernels.kernel import Array, ByPayload, Kernel, KernelRows, OfOp, in_float32
from tenferro.exec.kernels.row_sums import Sums
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

SMALLEST_LAYER = 128
"""Elements that are accumulated by one call."""
SMALLEST_TO_TRY = 1 << 12
"""Elements of a key whose fast sort is worth trying first."""


def extreme(dtype: np.dtype[Any], largest: bool) -> Any:
    """The largest or least value of a dtype, infinities included."""
    if dtype.kind == "b":
        return np.bool_(largest)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return dtype.type(info.max if largest else info.min)
    return dtype.type(np.inf if largest else -np.inf)


def folded(ufunc: np.ufunc) -> Kernel:
    """A reduction by a ufunc that has an identity in NumPy, in the dtype of x."""

    def over(op: Any, dtype: np.dtype[Any]) -> Callable[..., Any]:
        if not op.axes:
            return lambda x: x
        wide = DType.of(dtype).accumulator.dtype
        function = partial(ufunc.reduce, axis=op.axes, dtype=wide)
        return function if wide is dtype else in_float32(function)

    return ByPayload(over, view=has_no_axes)


def selected(ufunc: np.ufunc, largest: bool) -> Kernel:
    """Maximum or minimum, starting from the value that never wins.

    Zeros of both signs are told apart by a second look, only where the result is a zero.
    """

    def over(op: Any, dtype: np.dtype[Any]) -> Callable[..., Any]:
        if not op.axes:
            return lambda x: x
        start, zero = extreme(dtype, not largest), np.zeros((), dtype)
        reduced = partial(ufunc.reduce, axis=op.axes, initial=start)
        if dtype.kind in "biu":
            return reduced

        def function(x: Array) -> Any:
            result = reduced(x)
            if not has_zeros(result):
                return result
            positive = winning_zeros(x, largest).any(axis=op.axes) == largest
            return np.where(result == 0, np.where(positive, zero, -zero), result)

        return function

    return ByPayload(over, view=has_no_axes)


def has_no_axes(op: Any) -> bool:
    """Whether a reduction gives its operand."""
    return not op.axes


def scan(ufunc: np.ufunc) -> Kernel:
    """Accumulate along the axis, backwards by way of a reversed view."""

    def kernel(op: Any, x: Array) -> Array:
        return in_float32(partial(_running, ufunc, op))(x)

    return OfOp(kernel)


def _running(ufunc: np.ufunc, op: Any, x: Array) -> Array:
    """What the ufunc makes of all elements up to each, or from each on."""
    if op.reverse:
        return np.flip(accumulated(ufunc, np.flip(x, op.axis), op.axis), op.axis)
    return accumulated(ufunc, x, op.axis)


def running_extreme(ufunc: np.ufunc, largest: bool) -> Kernel:
    """Maximum or minimum up to each element, with 0.0 above -0.0.

    Zeros of both signs are told apart by a second look, only where there are both.
    """

    def kernel(op: Any, x: Array) -> Array:
        result = _running(ufunc, op, x)
        if x.dtype.kind in "biu" or not has_zeros(result):
            return result
        winners = winning_zeros(x, largest)
        if not winners.any() or not winning_zeros(x, not largest).any():
            return result
        zero = np.zeros((), x.dtype)
        winner, other = (zero, -zero) if largest else (-zero, zero)
        signed = np.where(_running(np.logical_or, op, winners), winner, other)
        return np.where(result == 0, signed, result)

    return OfOp(kernel)


def accumulated(ufunc: np.ufunc, x: Array, axis: int) -> Array:
    """The running result; layer by layer where the axis is not the one along which neighbours are near.

    NumPy walks along the axis first, and fetches a line of the cache for each element of each line.
    """
    layer = x.size // max(x.shape[axis], 1)
    nearest = min(abs(step) for step in x.strides)
    if layer < SMALLEST_LAYER or abs(x.strides[axis]) == nearest:
        return ufunc.accumulate(x, axis, dtype=x.dtype)
    result = np.empty_like(x)
    source, target = np.moveaxis(x, axis, 0), np.moveaxis(result, axis, 0)
    target[:1] = source[:1]
    for i in range(1, len(source)):
        ufunc(target[i - 1], source[i], out=target[i])
    return result


def arg_reduction(function: Callable[..., Any]) -> Kernel:
    """NumPy's rule is ours: the first winner, and NaN wins."""

    def over(op: Any, dtype: np.dtype[Any]) -> Callable[..., Any]:
        if DType.of(dtype) is DType.BF16:
            return lambda x: function(_comparable(x), axis=op.axis)
        return methodcaller(function.__name__, axis=op.axis)

    return ByPayload(over)


def sort(op: Sort, *operands: Array) -> Any:
    """A stable argsort of the key, and every operand taken along it."""
    key = _comparable(operands[0])
    if op.count == 1 and key is operands[0]:
        return np.sort(key, axis=op.axis, kind=None if _has_no_twins(key) else "stable")
    order = stable_order(key, op.axis)
    results = tuple(np.take_along_axis(x, order, axis=op.axis) for x in operands)
    return results if op.count > 1 else results[0]


def _has_no_twins(key: Array) -> bool:
    """Whether equal elements have equal bits, so that nobody can tell how they were ordered."""
    if key.dtype.kind in "biu":
        return True
    if key.dtype.kind != "f":
        return False
    zeros = np.signbit(key[key == 0])
    return not zeros.size or bool(zeros.all()) or not zeros.any()


def stable_order(key: Array, axis: int) -> Array:
    """A stable argsort. NumPy's fastest is not, which shows only where neighbours are equal once sorted."""
    if key.dtype.kind == "f" and key.size >= SMALLEST_TO_TRY:
        ordered = np.moveaxis(np.sort(key, axis=axis), axis, -1)
        before, after = ordered[..., :-1], ordered[..., 1:]
        if not ((before == after) | (before != before)).any():
            return np.argsort(key, axis=axis)
    return np.argsort(key, axis=axis, kind="stable")


def _comparable(x: Array) -> Array:
    """bfloat16 as float32, because NumPy has no sort for it."""
    return x.astype(np.float32) if DType.of(x.dtype) is DType.BF16 else x


def top_k(op: TopK, x: Array) -> Any:
    """Sort the reversed axis ascending and read it backwards: ties then come by lower index."""
    key = np.flip(_comparable(x), -1)
    order = np.flip(stable_order(key, -1), -1)[..., : op.k]
    places = x.shape[-1] - 1 - order
    return np.take_along_axis(x, places, axis=-1), places.astype(np.int64, copy=False)


ROWS: KernelRows = {
    ReduceSum: Sums(),
    ReduceProd: folded(np.multiply),
    ReduceMax: selected(np.maximum, largest=True),
    ReduceMin: selected(np.minimum, largest=False),
    ReduceAnd: folded(np.bitwise_and),
    ReduceOr: folded(np.bitwise_or),
    ArgMax: arg_reduction(np.argmax),
    ArgMin: arg_reduction(np.argmin),
    CumSum: scan(np.add),
    CumProd: scan(np.multiply),
    CumMax: running_extreme(np.maximum, largest=True),
    CumMin: running_extreme(np.minimum, largest=False),
    Sort: OfOp(sort),
    TopK: OfOp(top_k),
}
