"""Functions that are no ufuncs, beside those that write the same results into a buffer.

These write before they have read all of their operands, so that the buffer is none of those.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.exec.kernels.kernel import Array

__all__ = [
    "cast_into",
    "clamp",
    "clamp_into",
    "float_power",
    "float_power_into",
    "has_zeros",
    "logistic",
    "logistic_into",
    "maximum",
    "maximum_into",
    "minimum",
    "minimum_into",
    "rsqrt",
    "rsqrt_into",
    "select_into",
    "winning_zeros",
]

OVERFLOWS = {"f": np.array(-87.0, "f"), "d": np.array(-708.0)}
"""By the code of a dtype, a number below which e^-x may be infinite: at -88.7 and -709.8."""
ONES = {"f": np.array(1.0, "f"), "d": np.array(1.0)}
"""The number, for dtypes of which NumPy need not convert it each time."""
FEW = 1 << 11
"""Elements that are counted sooner than a reduction begins."""
SEVERAL = 1 << 9
"""The same, sooner than a reduction of integers ends."""
INTEGERS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
"""By the bytes of an element."""
LEAST = {itemsize: np.iinfo(kind).min for itemsize, kind in INTEGERS.items()}
"""Of those; the bits of -0.0."""


def float_power(x: Array, y: Array) -> Array:
    """NumPy's power, but |x|^y at zeros and -inf where y is 1/2.

    There NumPy takes the square root if one exponent is for many elements, which is -0.0 and NaN.
    """
    result = np.power(x, y)
    root = root_of_zeros_and_infinities(x, y)
    return result if root is None else np.where(root, np.abs(x), result)


def root_of_zeros_and_infinities(x: Array, y: Array) -> Array | None:
    """Where one exponent for many elements is 1/2, and x is a zero or -inf; None if there is none."""
    if y.size > 1 and 0 not in y.strides:
        return None
    each = y[tuple([slice(0, 1) if step == 0 else slice(None) for step in y.strides])]
    half = each == 0.5
    return half & ((x == 0) | (x == -np.inf)) if half.any() else None


def maximum(x: Array, y: Array) -> Array:
    """NumPy's maximum, with 0.0 above -0.0: the sum of two zeros is 0.0 unless both are -0.0."""
    result = np.maximum(x, y)
    if result.dtype.kind in "biu" or not has_negative_zeros(result):
        return result
    result = np.asarray(result)
    _set_where_equal(np.bitwise_and, x, y, result)
    return result


def minimum(x: Array, y: Array) -> Array:
    """NumPy's minimum, with -0.0 below 0.0."""
    result = np.minimum(x, y)
    if result.dtype.kind in "biu" or not has_zeros(result):
        return result
    if has_negative_zeros(x) or has_negative_zeros(y):
        result = np.asarray(result)
        _set_where_equal(np.bitwise_or, x, y, result)
    return result


def has_zeros(x: Any) -> bool:
    """Whether an element is zero; of few elements a count is known before a reduction begins.

    >>> has_zeros(np.ones(3)), has_zeros(np.array([1.0, -0.0])), has_zeros(np.float64(0))
    (False, True, True)
    """
    return bool(np.count_nonzero(x) < x.size if x.size <= FEW else np.equal(x, 0).any())


def has_negative_zeros(x: Any) -> bool:
    """Whether an element of real floats is -0.0; along a broadcast axis one element is read."""
    if x.size <= SEVERAL and not has_zeros(x):
        return False
    if 0 in x.strides:
        x = x[tuple([slice(None, 1) if step == 0 else slice(None) for step in x.strides])]
    bits = x.view(INTEGERS[x.itemsize])
    return bool(np.minimum.reduce(bits, axis=None) == LEAST[x.itemsize])


def winning_zeros(x: Array, largest: bool) -> Array:
    """Where an element is the zero that wins as the largest, which is 0.0, or as the least, -0.0."""
    return (x == 0) & (np.signbit(x) != largest)


def _set_where_equal(combine: Any, x: Any, y: Any, out: Any) -> None:
    """Combine the bits of floats that are equal, which are others in zeros alone, where no element is guessed for."""
    kind = INTEGERS[out.itemsize]
    bits, mask = out.view(kind), np.negative(np.equal(x, y).view(np.int8))
    change = combine(x.view(kind), y.view(kind))
    change ^= bits
    change &= mask
    bits ^= change


def clamp(x: Array, lower: Array, upper: Array) -> Array:
    """Maximum, then minimum."""
    return minimum(maximum(x, lower), upper)


def rsqrt(x: Array) -> Array:
    """One over the square root; 0 for a complex number with an infinite part."""
    y = 1 / np.sqrt(x)
    return np.where(np.isinf(x), 0, y) if x.dtype.kind == "c" else y


def logistic(x: Array) -> Array:
    """1 / (1 + e^-x), and e^x where e^-x is infinite and the quotient 0."""
    one = ONES.get(x.dtype.char, 1)
    y = np.divide(one, np.add(one, np.exp(np.negative(x))))
    is_far = _overflows(x)
    return y if is_far is None else np.where(is_far, np.exp(x), y)


def _overflows(x: Any) -> Any:
    """Where e^-x may be infinite, for real x; None if nowhere."""
    bound = OVERFLOWS.get(x.dtype.char)
    if bound is None:
        return None
    if x.size <= FEW:
        is_far = np.less(x, bound)
        return is_far if np.count_nonzero(is_far) else None
    return None if np.fmin.reduce(x, axis=None, initial=0) >= bound else np.less(x, bound)


def select_into(pred: Any, on_true: Any, on_false: Any, out: Any) -> Any:
    """np.where, by bits: on_false ^ ((on_true ^ on_false) & mask), which no element has to be guessed for.

    Where one of the two is zero, the bits of the other are kept or not.
    """
    kind = INTEGERS.get(out.itemsize)
    if kind is None:
        np.copyto(out, on_false)
        np.copyto(out, on_true, where=pred)
        return out
    bits = out.view(kind)
    if _is_zero(on_true, kind):
        np.copyto(bits, pred)
        np.subtract(bits, 1, out=bits)
        np.bitwise_and(on_false.view(kind), bits, out=bits)
    elif _is_zero(on_false, kind):
        np.copyto(bits, pred)
        np.negative(bits, out=bits)
        np.bitwise_and(on_true.view(kind), bits, out=bits)
    else:
        false_bits = on_false.view(kind)
        np.bitwise_xor(on_true.view(kind), false_bits, out=bits)
        # A mask of bytes, because new memory as large as a tile costs page faults each time.
        np.bitwise_and(bits, np.negative(pred.view(np.int8)), out=bits)
        np.bitwise_xor(bits, false_bits, out=bits)
    return out


def cast_into(x: Any, out: Any) -> Any:
    """NumPy's own cast."""
    np.copyto(out, x, casting="unsafe")
    return out


def _is_zero(x: Any, kind: Any) -> bool:
    """Whether it is one number, of no bits."""
    return isinstance(x, np.generic) and not x.view(kind)


def rsqrt_into(x: Any, out: Any) -> Any:
    """One over the square root; 0 for a complex number with an infinite part."""
    np.sqrt(x, out=out)
    np.divide(1, out, out=out)
    if x.dtype.kind == "c":
        np.copyto(out, 0, where=np.isinf(x))
    return out


def logistic_into(x: Any, out: Any) -> Any:
    """1 / (1 + e^-x), and e^x where e^-x is infinite."""
    np.negative(x, out=out)
    np.exp(out, out=out)
    np.add(1, out, out=out)
    np.divide(1, out, out=out)
    is_far = _overflows(x)
    return out if is_far is None else np.exp(x, out=out, where=is_far)


def maximum_into(x: Any, y: Any, out: Any) -> Any:
    """0.0 above -0.0."""
    np.maximum(x, y, out=out)
    number = _number(x, y)
    if number is not None and number == 0 and not np.signbit(number):
        np.add(out, number, out=out)
    elif _may_be_zero(out.dtype, number) and has_negative_zeros(out):
        _set_where_equal(np.bitwise_and, x, y, out)
    return out


def minimum_into(x: Any, y: Any, out: Any) -> Any:
    """-0.0 below 0.0."""
    np.minimum(x, y, out=out)
    if not (_may_be_zero(out.dtype, _number(x, y)) and has_zeros(out)):
        return out
    if has_negative_zeros(x) or has_negative_zeros(y):
        _set_where_equal(np.bitwise_or, x, y, out)
    return out


def clamp_into(x: Any, lower: Any, upper: Any, out: Any) -> Any:
    """Maximum, then minimum, with their zeros."""
    np.minimum(maximum_into(x, lower, out), upper, out=out)
    if _may_be_zero(out.dtype, _number(upper, upper)) and has_zeros(out):
        np.copyto(out, clamp(x, lower, upper))
    return out


def float_power_into(x: Any, y: Any, out: Any) -> Any:
    """|x|^y at zeros and -inf where y is 1/2."""
    np.power(x, y, out=out)
    root = root_of_zeros_and_infinities(x, y)
    if root is not None:
        np.copyto(out, np.abs(x), where=root)
    return out


def _number(x: Any, y: Any) -> Any:
    """The operand that is one number, if either is."""
    return x if isinstance(x, np.generic) else y if isinstance(y, np.generic) else None


def _may_be_zero(dtype: Any, number: Any) -> bool:
    """Whether zeros of both signs may have met: never in integers, nor against any other number."""
    return dtype.kind not in "biu" and (number is None or bool(number == 0))
