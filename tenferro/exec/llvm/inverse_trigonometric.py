"""LLVM code of the inverse sine, cosine and tangent.

A multiple of pi / 4 is added to a polynomial in the reduced argument.

Sources: Abramowitz and Stegun, sections 4.4.32 to 4.4.34; Knuth's and Dekker's error-free sums and products.
"""

from __future__ import annotations

import math
import sys

from tenferro.exec.llvm import coefficients
from tenferro.exec.llvm.formula import (
    Number,
    copysign,
    fast_two_sum,
    is_unordered,
    polynomial,
    quotient,
    sqrt,
    two_difference,
    two_product,
    where,
)

__all__ = ["acos", "asin", "atan", "atan2"]

PI_4_HIGH = float.fromhex("0x1.921fb54442dp-1")
"""Leading bits of pi / 4, so few that small multiples are exact; `PI_4_LOW` is the rest."""
PI_4_LOW = float.fromhex("0x1.8469898cc5170p-49")
TAN_PI_8 = math.sqrt(2.0) - 1.0
"""Tangent of pi / 8."""
SCALE_UP, SCALE_DOWN = float.fromhex("0x1p+300"), float.fromhex("0x1p-200")
"""Factors that scale the arguments of atan2: the first if both magnitudes are less than it, else the second."""


def _sum(quarters: Number, angle: Number, low: Number) -> Number:
    """Write quarters pi / 4 + angle + low, in which the first term must be 0 or the largest."""
    y, lost = fast_two_sum(quarters * PI_4_HIGH, angle)
    low = quarters * PI_4_LOW + low
    return y + (lost + low)


def _atan_of_quotient(above: Number, below: Number) -> tuple[Number, Number, Number]:
    """Write atan(above / below), which is in [0, pi / 4].

    Returns:
        An integer n and the numbers angle and low; the result is n pi / 4 + angle + low.
    """
    is_steep = above > below * TAN_PI_8
    difference, lost = two_difference(above, below)
    total, total_lost = fast_two_sum(below, above)
    top, bottom = where(is_steep, difference, above), where(is_steep, total, below)
    lows = where(is_steep, lost, 0.0), where(is_steep, total_lost, 0.0)
    angle, low = quotient(top, bottom, *lows)
    z = angle * angle
    cube = angle * z * polynomial(z, coefficients.ATAN)
    return where(is_steep, 1.0, 0.0), angle, low + cube


def _reflected(
    condition: Number, multiple: float, parts: tuple[Number, Number, Number]
) -> tuple[Number, Number, Number]:
    """Write the parts of multiple pi / 4 - a, for an angle a in parts, if a condition is true; else those of a."""
    quarters, angle, low = parts
    return (
        where(condition, multiple - quarters, quarters),
        where(condition, -angle, angle),
        where(condition, -low, low),
    )


def atan(x: Number) -> Number:
    """Write the inverse tangent of x."""
    return atan2(x, x.constant(1.0))


def atan2(y: Number, x: Number) -> Number:
    """Write the angle between the point (x, y) and the first axis."""
    a, b = abs(y), abs(x)
    is_inverted = a > b
    above, below = where(is_inverted, b, a), where(is_inverted, a, b)
    # The arguments are scaled so that the rounding errors of products do not underflow.
    is_small = below < SCALE_UP
    scale = where(is_small, SCALE_UP, SCALE_DOWN)
    above, below = above * scale, below * scale
    is_infinite = below.equals(math.inf)
    limit = where(above.equals(math.inf), 1.0, 0.0)
    above, below = where(is_infinite, limit, above), where(is_infinite, 1.0, below)
    below = where(below.equals(0.0), 1.0, below)
    parts = _reflected(is_inverted, 2.0, _atan_of_quotient(above, below))
    is_negative = copysign(1.0, x) < 0.0
    angle = copysign(_sum(*_reflected(is_negative, 4.0, parts)), y)
    return where(is_unordered(x, y), x + y, angle)


def _asin_of_reduced(x: Number) -> tuple[Number, Number, Number]:
    """Write asin(|x|) if |x| <= 1/2, else asin(sqrt((1 - |x|) / 2)).

    Returns:
        Whether |x| <= 1/2, and two numbers whose sum is the result.
    """
    a = abs(x)
    is_small = a <= 0.5
    reduced = 0.5 * (1.0 - a)
    root = sqrt(reduced)
    square, lost = two_product(root, root)
    remainder = (reduced - square) - lost
    low = remainder / ((root + root) + sys.float_info.min)
    s = where(is_small, a, root)
    z = where(is_small, a * a, reduced)
    cube = s * z * polynomial(z, coefficients.ASIN)
    return is_small, s, where(is_small, 0.0, low) + cube


def asin(x: Number) -> Number:
    """Write the inverse sine of x.

    For |x| > 1/2, asin(|x|) is pi / 2 - 2 asin(sqrt((1 - |x|) / 2)).
    """
    is_small, s, low = _asin_of_reduced(x)
    quarters = where(is_small, 0.0, 2.0)
    factor = where(is_small, 1.0, -2.0)
    angle = _sum(quarters, factor * s, factor * low)
    return copysign(angle, x)


def acos(x: Number) -> Number:
    """Write the inverse cosine of x.

    For |x| <= 1/2 it is pi / 2 - asin(x). Otherwise, with t = 2 asin(sqrt((1 - |x|) / 2)), it is t, or pi - t if x < 0.
    """
    is_small, s, low = _asin_of_reduced(x)
    is_negative = x < 0.0
    quarters = where(is_small, 2.0, where(is_negative, 4.0, 0.0))
    near, far = copysign(1.0, -x), copysign(2.0, x)
    factor = where(is_small, near, far)
    return _sum(quarters, factor * s, factor * low)
