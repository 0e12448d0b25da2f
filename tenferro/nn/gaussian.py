"""The Gaussian error linear unit: x times the probability that a standard normal number is below x.

Far below zero, both forms of the function are x e^u for a large negative u. A relative error of u is then multiplied by
|u| in the result. Therefore u is split into an exact part and a small remainder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tenferro.api.custom import custom_jvp
from tenferro.api.elementwise import (
    add,
    divide,
    exp,
    greater_equal,
    less,
    less_equal,
    logical_or,
    multiply,
    negative,
    round,
    square,
    subtract,
    where,
)
from tenferro.api.normal_integral import times_ndtr
from tenferro.api.polynomials import largest
from tenferro.api.promotion import convert, inexact_dtype
from tenferro.dispatch import as_operand, spec_of
from tenferro.types import ArrayLike, DType, Tensor

__all__ = ["gelu"]

LINEAR = 2 * math.sqrt(2 / math.pi)
CUBIC = 0.044715 * LINEAR
LINEAR_LOW, CUBIC_LOW = -9.96930880911092e-17, -6.175149918155315e-19
"""Rounding errors of `LINEAR` and `CUBIC`: the exact constants are LINEAR + LINEAR_LOW and CUBIC + CUBIC_LOW."""


def gelu(x: ArrayLike, approximate: bool = True) -> Any:
    """Multiply x by the probability that a standard normal number is below x, within 16 ulps.

    float16 and bfloat16 are computed in float32 and rounded once.

    Args:
        approximate: whether to compute the probability as (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 instead of by
            the error function.

    >>> gelu(1.0), gelu(1.0, approximate=False)
    (array(0.84119199), array(0.84134475))
    """
    x = as_operand(x)
    dtype = inexact_dtype(spec_of(x).dtype)
    x = convert(x, DType.F32 if dtype.itemsize == 2 else dtype)
    if approximate:
        y = _between(x, _times_power, 12.0 if largest(x) < 1e300 else 23.0)
    else:
        y = _between(x, times_ndtr, 40.0)
    return convert(y, dtype)


def _between(x: Tensor, function: Callable[[Any], Any], bound: float) -> Any:
    """Return function(x), which rounds to 0 for x <= -bound and to x for x >= bound, without evaluating it there."""
    is_closed, is_open = less_equal(x, -bound), greater_equal(x, bound)
    y = function(where(logical_or(is_closed, is_open), 0.0, x))
    return where(is_closed, 0.0, where(is_open, x, y))


def _nearest(x: Any, digits: int) -> Any:
    """Round x to the nearest multiple of 2^-digits; the derivative is 0."""
    return multiply(round(multiply(x, 2.0**digits)), 2.0**-digits)


def _rounded(x: float, digits: int) -> float:
    return math.floor(x * 2.0**digits + 0.5) * 2.0**-digits


@custom_jvp
def _times_power(x: Tensor) -> Any:
    """x / (1 + e^-u) for u = x (a + b x^2), with a = `LINEAR` and b = `CUBIC`."""
    is_below, _, root, rest = _power(x)
    inverse = divide(1.0, add(1.0, multiply(multiply(root, rest), root)))
    y = multiply(x, inverse)
    return where(is_below, multiply(multiply(multiply(y, rest), root), root), y)


@_times_power.defjvp
def _times_power_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return the function and its tangent: x_dot times g + x g (1 - g) u', where g = 1 / (1 + e^-u) is the gate.

    For negative x, the factor e^-|u| is multiplied last, because it may underflow.
    """
    (x,), (x_dot,) = primals, tangents
    is_below, size, root, rest = _power(x)
    power = multiply(multiply(root, rest), root)
    inverse = divide(1.0, add(1.0, power))
    slope = multiply(size, add(LINEAR, multiply(3 * CUBIC, square(size))))
    above = add(inverse, multiply(multiply(slope, power), square(inverse)))
    below = multiply(multiply(rest, inverse), subtract(1.0, multiply(slope, inverse)))
    below = multiply(multiply(below, root), root)
    return _times_power(x), multiply(x_dot, where(is_below, below, above))


def _power(x: Tensor) -> tuple[Any, Any, Any, Any]:
    """Return whether x < 0, |x|, and two numbers `root` and `rest` with root^2 rest = e^-|u|, for u = x (a + b x^2).

    |x| = s + r and a + b x^2 = w + d are split such that s and w have few digits, so that the product s w is exact. The
    constant b is also split, which makes d small and accurate: s^2 times the first part of b is exact, and so is its
    difference from w.
    """
    step, part, digits = (6, 7, 9) if largest(x) < 1e300 else (10, 24, 9)
    is_below = less(x, 0.0)
    size = where(is_below, negative(x), x)
    short = _nearest(size, step)
    left = subtract(size, short)
    cubic, linear = _rounded(CUBIC, part), _rounded(LINEAR, 2 * step + part)
    squares = square(short)
    others = multiply(left, add(size, short))
    factor = _nearest(add(LINEAR, multiply(CUBIC, squares)), digits)
    small = add(
        add(subtract(multiply(cubic, squares), factor), linear),
        add(
            add(multiply(CUBIC - cubic + CUBIC_LOW, squares), LINEAR - linear + LINEAR_LOW),
            multiply(CUBIC, others),
        ),
    )
    rest = exp(negative(add(multiply(left, factor), multiply(size, small))))
    return is_below, size, exp(multiply(multiply(-0.5, short), factor)), rest
