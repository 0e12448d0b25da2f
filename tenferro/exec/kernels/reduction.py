"""Kernels of the reduction family; sums and products of float16 and bfloat16 are accumulated in float32."""

from __future__ import annotations

from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np

from tenferro.exec.kernels.composed import extreme_zeros, has_zeros
from tenferro.exec.kernels.kernel import (
    Array,
    Function,
    Kernel,
    KernelRows,
    in_float32,
    specialized,
)
from tenferro.ops import reduction as ops
from tenferro.types import DType

__all__ = ["ROWS", "extreme"]

MIN_LAYER_ELEMENTS = 128
"""Minimum number of elements of a slice for which a cumulative op is computed slice by slice."""
MIN_UNSTABLE_SORT_ELEMENTS = 1 << 12
"""Minimum number of elements of a sort key that is first sorted by an unstable sort; see `stable_order`."""


def extreme(dtype: np.dtype[Any], largest: bool) -> Any:
    """Return the largest value of a dtype if `largest`, else the smallest; for floats an infinity."""
    if dtype.kind == "b":
        return np.bool_(largest)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return dtype.type(info.max if largest else info.min)
    return dtype.type(np.inf if largest else -np.inf)


def reduction(ufunc: np.ufunc) -> Kernel:
    """Return the kernel of a reduction by a ufunc that has an identity; the result has the dtype of x."""

    def specialize(op: Any, dtype: np.dtype[Any]) -> Function:
        if not op.axes:
            return lambda x: x
        accumulator = DType.of(dtype).accumulator.dtype
        function = partial(ufunc.reduce, axis=op.axes, dtype=accumulator)
        return function if accumulator is dtype else in_float32(function)

    return specialized(specialize, view=has_no_axes)


def extreme_reduction(ufunc: np.ufunc, largest: bool) -> Kernel:
    """Return the kernel of a maximum if `largest`, else of a minimum; 0.0 is greater than -0.0.

    The maximum of no elements is the least value of the dtype, and the minimum the greatest.
    """

    def specialize(op: Any, dtype: np.dtype[Any]) -> Function:
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
            positive = extreme_zeros(x, largest).any(axis=op.axes) == largest
            return np.where(result == 0, np.where(positive, zero, -zero), result)

        return function

    return specialized(specialize, view=has_no_axes)


def has_no_axes(op: Any) -> bool:
    """Return whether a reduction has no axes, so that its result is its operand."""
    return not op.axes


def cumulative(ufunc: np.ufunc) -> Kernel:
    """Return the kernel of a cumulative op."""

    def kernel(op: Any, x: Array) -> Array:
        return in_float32(partial(_scan, ufunc, op))(x)

    return Kernel(kernel)


def _scan(ufunc: np.ufunc, op: Any, x: Array) -> Array:
    """Accumulate x by a ufunc along the axis of the op, from the end if `op.reverse`."""
    if op.reverse:
        return np.flip(accumulate(ufunc, np.flip(x, op.axis), op.axis), op.axis)
    return accumulate(ufunc, x, op.axis)


def cumulative_extreme(ufunc: np.ufunc, largest: bool) -> Kernel:
    """Return the kernel of a cumulative maximum if `largest`, else minimum; 0.0 is greater than -0.0."""

    def kernel(op: Any, x: Array) -> Array:
        result = _scan(ufunc, op, x)
        if x.dtype.kind in "biu" or not has_zeros(result):
            return result
        winners = extreme_zeros(x, largest)
        if not winners.any() or not extreme_zeros(x, not largest).any():
            return result
        zero = np.zeros((), x.dtype)
        winner, loser = (zero, -zero) if largest else (-zero, zero)
        signed = np.where(_scan(np.logical_or, op, winners), winner, loser)
        return np.where(result == 0, signed, result)

    return Kernel(kernel)


def accumulate(ufunc: np.ufunc, x: Array, axis: int) -> Array:
    """Accumulate x by a ufunc along an axis.

    Unless the axis has the smallest stride, whole slices are accumulated. NumPy would accumulate along the axis first,
    and load a cache line for each element.
    """
    layer = x.size // max(x.shape[axis], 1)
    nearest = min(abs(step) for step in x.strides)
    if layer < MIN_LAYER_ELEMENTS or abs(x.strides[axis]) == nearest:
        return ufunc.accumulate(x, axis, dtype=x.dtype)
    result = np.empty_like(x)
    source, target = np.moveaxis(x, axis, 0), np.moveaxis(result, axis, 0)
    target[:1] = source[:1]
    for i in range(1, len(source)):
        ufunc(target[i - 1], source[i], out=target[i])
    return result


def arg_reduction(function: Function) -> Kernel:
    """Return the kernel of `np.argmax` or `np.argmin`: the index of the first NaN, or else of the first extremum."""

    def specialize(op: Any, dtype: np.dtype[Any]) -> Function:
        if DType.of(dtype) is DType.BF16:
            return lambda x: function(_comparable(x), axis=op.axis)
        return methodcaller(function.__name__, axis=op.axis)

    return specialized(specialize)


def sort(op: ops.Sort, *operands: Array) -> Any:
    """Sort all operands stably by the elements of the first operand."""
    key = _comparable(operands[0])
    if op.count == 1 and key is operands[0]:
        return np.sort(
            key, axis=op.axis, kind=None if _equal_elements_are_identical(key) else "stable"
        )
    order = stable_order(key, op.axis)
    results = tuple(np.take_along_axis(x, order, axis=op.axis) for x in operands)
    return results if op.count > 1 else results[0]


def _equal_elements_are_identical(key: Array) -> bool:
    """Return whether equal elements have equal bits, so that unstable and stable sorts have the same result."""
    if key.dtype.kind in "biu":
        return True
    if key.dtype.kind != "f":
        return False
    zeros = np.signbit(key[key == 0])
    return not zeros.size or bool(zeros.all()) or not zeros.any()


def stable_order(key: Array, axis: int) -> Array:
    """Return a stable argsort of the key, by NumPy's faster unstable sort if no elements are equal."""
    if key.dtype.kind == "f" and key.size >= MIN_UNSTABLE_SORT_ELEMENTS:
        ordered = np.moveaxis(np.sort(key, axis=axis), axis, -1)
        before, after = ordered[..., :-1], ordered[..., 1:]
        if not ((before == after) | (before != before)).any():
            return np.argsort(key, axis=axis)
    return np.argsort(key, axis=axis, kind="stable")


def _comparable(x: Array) -> Array:
    """Convert bfloat16, which NumPy cannot sort, to float32; return any other array unchanged."""
    return x.astype(np.float32) if DType.of(x.dtype) is DType.BF16 else x


def top_k(op: ops.TopK, x: Array) -> Any:
    """Return the k largest elements along the last axis in descending order, equal elements by index, and the indices.

    The elements are reversed, sorted stably in ascending order, and reversed again.
    """
    key = np.flip(_comparable(x), -1)
    order = np.flip(stable_order(key, -1), -1)[..., : op.k]
    indices = x.shape[-1] - 1 - order
    return np.take_along_axis(x, indices, axis=-1), indices.astype(np.int64, copy=False)


ROWS: KernelRows = {
    ops.ReduceSum: reduction(np.add),
    ops.ReduceProd: reduction(np.multiply),
    ops.ReduceMax: extreme_reduction(np.maximum, largest=True),
    ops.ReduceMin: extreme_reduction(np.minimum, largest=False),
    ops.ReduceAnd: reduction(np.bitwise_and),
    ops.ReduceOr: reduction(np.bitwise_or),
    ops.ArgMax: arg_reduction(np.argmax),
    ops.ArgMin: arg_reduction(np.argmin),
    ops.CumSum: cumulative(np.add),
    ops.CumProd: cumulative(np.multiply),
    ops.CumMax: cumulative_extreme(np.maximum, largest=True),
    ops.CumMin: cumulative_extreme(np.minimum, largest=False),
    ops.Sort: Kernel(sort),
    ops.TopK: Kernel(top_k),
}
