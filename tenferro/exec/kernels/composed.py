"""Elementwise functions that NumPy lacks or computes differently."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.exec.kernels.kernel import Array

__all__ = [
    "clamp",
    "extreme_zeros",
    "float_power",
    "has_zeros",
    "logistic",
    "maximum",
    "minimum",
    "rsqrt",
]

EXP_OVERFLOW_BOUNDS = {"f": np.array(-87.0, "f"), "d": np.array(-708.0)}
"""Bounds on x, by dtype code, above which e^-x does not overflow; e^-x overflows below -88.7 and -709.8."""
MAX_PRECHECKED_ELEMENTS = 1 << 9
"""Maximum number of elements for which a search for -0.0 is faster if zeros of both signs are counted first."""
INTEGER_DTYPES = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
"""Signed integer dtypes, by itemsize."""
NEGATIVE_ZERO_BITS = {itemsize: np.iinfo(kind).min for itemsize, kind in INTEGER_DTYPES.items()}
"""Bits of -0.0 as a signed integer, by itemsize: the least integer of the dtype."""


def float_power(x: Array, y: Array) -> Array:
    """Return NumPy's power, but |x|^y if y is 1/2 and x is a zero or -inf.

    For a broadcast exponent of 1/2 NumPy computes the square root, which is -0.0 for x = -0.0 and NaN for x = -inf.
    """
    result = np.power(x, y)
    root = half_power_exceptions(x, y)
    return result if root is None else np.where(root, np.abs(x), result)


def half_power_exceptions(x: Array, y: Array) -> Array | None:
    """Return a mask of the elements at which x is a zero or -inf and y is 1/2; None if there can be none.

    If y is not broadcast, NumPy computes powers, not square roots, and the result is None.
    """
    if y.size > 1 and 0 not in y.strides:
        return None
    exponents = y[tuple([slice(0, 1) if step == 0 else slice(None) for step in y.strides])]
    half = exponents == 0.5
    return half & ((x == 0) | (x == -np.inf)) if half.any() else None


def maximum(x: Array, y: Array) -> Array:
    """Return NumPy's maximum, but treat 0.0 as greater than -0.0.

    A result of -0.0 is replaced by the bitwise and of both operands, which is 0.0 unless both are -0.0.
    """
    result = np.maximum(x, y)
    if result.dtype.kind in "biu" or not has_negative_zeros(result):
        return result
    result = np.asarray(result)
    _set_where_equal(np.bitwise_and, x, y, result)
    return result


def minimum(x: Array, y: Array) -> Array:
    """Return NumPy's minimum, but treat -0.0 as less than 0.0."""
    result = np.minimum(x, y)
    if result.dtype.kind in "biu" or not has_zeros(result):
        return result
    if has_negative_zeros(x) or has_negative_zeros(y):
        result = np.asarray(result)
        _set_where_equal(np.bitwise_or, x, y, result)
    return result


def has_zeros(x: Any) -> bool:
    """Return whether any element is zero.

    >>> has_zeros(np.ones(3)), has_zeros(np.array([1.0, -0.0])), has_zeros(np.float64(0))
    (False, True, True)
    """
    return bool(np.count_nonzero(x) < x.size)


def has_negative_zeros(x: Any) -> bool:
    """Return whether any element of x, which has a real float dtype, is -0.0."""
    if x.size <= MAX_PRECHECKED_ELEMENTS and not has_zeros(x):
        return False
    if 0 in x.strides:
        x = x[tuple([slice(None, 1) if step == 0 else slice(None) for step in x.strides])]
    bits = x.view(INTEGER_DTYPES[x.itemsize])
    return bool(np.minimum.reduce(bits, axis=None) == NEGATIVE_ZERO_BITS[x.itemsize])


def extreme_zeros(x: Array, largest: bool) -> Array:
    """Return a mask of the elements that are 0.0 if `largest`, else of the elements that are -0.0."""
    return (x == 0) & (np.signbit(x) != largest)


def _set_where_equal(combine: Any, x: Any, y: Any, out: Any) -> None:
    """Set `out` to the combined bits of x and y where x equals y.

    Only the signs of zeros can change, because equal floats have equal bits unless they are zeros.
    """
    kind = INTEGER_DTYPES[out.itemsize]
    bits, mask = out.view(kind), np.negative(np.equal(x, y).view(np.int8))
    flips = combine(x.view(kind), y.view(kind))
    flips ^= bits
    flips &= mask
    bits ^= flips


def clamp(x: Array, lower: Array, upper: Array) -> Array:
    """Limit x to the range from `lower` to `upper`, by a maximum and then a minimum."""
    return minimum(maximum(x, lower), upper)


def rsqrt(x: Array) -> Array:
    """Return 1 / sqrt(x); 0 for a complex number with an infinite part."""
    y = 1 / np.sqrt(x)
    return np.where(np.isinf(x), 0, y) if x.dtype.kind == "c" else y


def logistic(x: Array) -> Array:
    """Return 1 / (1 + e^-x), but e^x if e^-x may overflow."""
    y = 1 / (1 + np.exp(-x))
    overflows = _overflows(x)
    return y if overflows is None else np.where(overflows, np.exp(x), y)


def _overflows(x: Any) -> Any:
    """Return a mask of the elements of real x for which e^-x may overflow; None if there are none."""
    bound = EXP_OVERFLOW_BOUNDS.get(x.dtype.char)
    if bound is None:
        return None
    overflows = np.less(x, bound)
    return overflows if np.count_nonzero(overflows) else None
