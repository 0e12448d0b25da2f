"""LLVM code of the inverse sine, cosine and tangent.

The argument is reduced, a polynomial approximates the function of the reduced argument, and a multiple of pi / 4 is
added.

Sources: Abramowitz and Stegun, sections 4.4.32 to 4.4.34; Knuth's and Dekker's error-free sums and products.
"""

from __future__ import annotations

import math
import sys

from tenferro.exec.llvm import coefficients
from tenferro.exec.llvm.formula import Formula
from tenferro.exec.llvm.ir import Value

__all__ = ["acos", "asin", "atan", "atan2"]

PI_4_HIGH = float.fromhex("0x1.921fb54442dp-1")
"""The first bits of pi / 4, so few that small multiples are exact; `PI_4_LOW` is the rest."""
PI_4_LOW = float.fromhex("0x1.8469898cc5170p-49")
TAN_PI_8 = math.sqrt(2.0) - 1.0
"""Tangent of pi / 8."""
SCALE_UP, SCALE_DOWN = float.fromhex("0x1p+300"), float.fromhex("0x1p-200")
"""Factors that scale the arguments of atan2: the first if both arguments are less than it, else the second."""


def _sum(f: Formula, quarters: Value, angle: Value, low: Value) -> Value:
    """Write quarters pi / 4 + angle + low; the first term must be 0 or the largest."""
    y, lost = f.fast_two_sum(f.multiply(quarters, f.number(PI_4_HIGH)), angle)
    low = f.add(f.multiply(quarters, f.number(PI_4_LOW)), low)
    return f.add(y, f.add(lost, low))


def _atan_of_quotient(f: Formula, above: Value, below: Value) -> tuple[Value, Value, Value]:
    """Write atan(above / below), which is in [0, pi / 4].

    Returns:
        An integer n and the numbers angle and low; the result is n pi / 4 + angle + low.
    """
    is_steep = f.compare("ogt", above, f.multiply(below, f.number(TAN_PI_8)))
    difference, lost = f.two_difference(above, below)
    total, total_lost = f.fast_two_sum(below, above)
    top, bottom = f.either(is_steep, difference, above), f.either(is_steep, total, below)
    zero = f.number(0.0)
    lows = f.either(is_steep, lost, zero), f.either(is_steep, total_lost, zero)
    angle, low = f.quotient(top, bottom, *lows)
    z = f.multiply(angle, angle)
    cube = f.multiply(f.multiply(angle, z), f.polynomial(z, coefficients.ATAN))
    return f.either(is_steep, f.number(1.0), zero), angle, f.add(low, cube)


def _reflected(
    f: Formula, condition: Value, multiple: float, parts: tuple[Value, Value, Value]
) -> tuple[Value, Value, Value]:
    """Write the parts of the angle multiple pi / 4 - a if a condition is true, else of a, from the parts of a."""
    quarters, angle, low = parts
    return (
        f.either(condition, f.subtract(f.number(multiple), quarters), quarters),
        f.either(condition, f.negate(angle), angle),
        f.either(condition, f.negate(low), low),
    )


def atan(f: Formula, x: Value) -> Value:
    """Write the inverse tangent, the angle of the point (1, x)."""
    return atan2(f, x, f.number(1.0))


def atan2(f: Formula, y: Value, x: Value) -> Value:
    """Write the angle between the point (x, y) and the first axis."""
    a, b = f.magnitude(y), f.magnitude(x)
    is_inverted = f.compare("ogt", a, b)
    above, below = f.either(is_inverted, b, a), f.either(is_inverted, a, b)
    zero, one, infinity = f.number(0.0), f.number(1.0), f.number(math.inf)
    # The arguments are scaled so that the rounding errors of products do not underflow.
    is_small = f.compare("olt", below, f.number(SCALE_UP))
    scale = f.either(is_small, f.number(SCALE_UP), f.number(SCALE_DOWN))
    above, below = f.multiply(above, scale), f.multiply(below, scale)
    is_infinite = f.compare("oeq", below, infinity)
    limit = f.select("oeq", above, infinity, one, zero)
    above, below = f.either(is_infinite, limit, above), f.either(is_infinite, one, below)
    below = f.select("oeq", below, zero, one, below)
    parts = _reflected(f, is_inverted, 2.0, _atan_of_quotient(f, above, below))
    is_negative = f.compare("olt", f.with_sign(one, x), zero)
    angle = f.with_sign(_sum(f, *_reflected(f, is_negative, 4.0, parts)), y)
    return f.select("uno", x, y, f.add(x, y), angle)


def _asin_of_reduced(f: Formula, x: Value) -> tuple[Value, Value, Value]:
    """Write asin(|x|) if |x| <= 1/2, else asin(sqrt((1 - |x|) / 2)).

    Returns:
        Whether |x| <= 1/2, and two numbers whose sum is the result.
    """
    a, half = f.magnitude(x), f.number(0.5)
    is_small = f.compare("ole", a, half)
    reduced = f.multiply(half, f.subtract(f.number(1.0), a))
    root = f.intrinsic("sqrt", reduced)
    square, lost = f.two_product(root, root)
    remainder = f.subtract(f.subtract(reduced, square), lost)
    low = f.divide(remainder, f.add(f.add(root, root), f.number(sys.float_info.min)))
    s = f.either(is_small, a, root)
    z = f.either(is_small, f.multiply(a, a), reduced)
    cube = f.multiply(f.multiply(s, z), f.polynomial(z, coefficients.ASIN))
    return is_small, s, f.add(f.either(is_small, f.number(0.0), low), cube)


def asin(f: Formula, x: Value) -> Value:
    """Write the inverse sine of x.

    For |x| > 1/2, asin(|x|) is pi / 2 - 2 asin(sqrt((1 - |x|) / 2)).
    """
    is_small, s, low = _asin_of_reduced(f, x)
    quarters = f.either(is_small, f.number(0.0), f.number(2.0))
    factor = f.either(is_small, f.number(1.0), f.number(-2.0))
    angle = _sum(f, quarters, f.multiply(factor, s), f.multiply(factor, low))
    return f.with_sign(angle, x)


def acos(f: Formula, x: Value) -> Value:
    """Write the inverse cosine of x.

    For |x| <= 1/2 it is pi / 2 - asin(x). Otherwise it is t = 2 asin(sqrt((1 - |x|) / 2)), or pi - t if x < 0.
    """
    is_small, s, low = _asin_of_reduced(f, x)
    is_negative = f.compare("olt", x, f.number(0.0))
    two = f.number(2.0)
    quarters = f.either(is_small, two, f.either(is_negative, f.number(4.0), f.number(0.0)))
    near, far = f.with_sign(f.number(1.0), f.negate(x)), f.with_sign(two, x)
    factor = f.either(is_small, near, far)
    return _sum(f, quarters, f.multiply(factor, s), f.multiply(factor, low))
