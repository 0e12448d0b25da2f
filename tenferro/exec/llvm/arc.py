"""Inverse sine, cosine and tangent: an argument of at most a half, a polynomial, and multiples of a quarter of pi.

Sources: Abramowitz and Stegun, sections 4.4.32 to 4.4.34; the sums and products with their rounding errors are Knuth's
and Dekker's.
"""

from __future__ import annotations

import math
import sys

from tenferro.exec.llvm import coefficients
from tenferro.exec.llvm.formula import Formula

__all__ = ["acos", "asin", "atan", "atan2"]

QUARTER_HIGH = float.fromhex("0x1.921fb54442dp-1")
"""A quarter of pi in so few bits that its small multiples are exact, and the rest."""
QUARTER_LOW = float.fromhex("0x1.8469898cc5170p-49")
STEEP = math.sqrt(2.0) - 1.0
"""The tangent of an eighth of pi."""
LARGEST = 1e18
"""The angle of what is above it is a half of pi."""
UP, DOWN = float.fromhex("0x1p+300"), float.fromhex("0x1p-200")
"""Powers of two that numbers below the first, and others, are multiplied by."""


def _turned(f: Formula, quarters: str, angle: str, rest: str) -> str:
    """quarters pi / 4 + angle + rest, where the first is the largest, or 0."""
    y, lost = f.short_sum(f.multiply(quarters, f.number(QUARTER_HIGH)), angle)
    low = f.add(f.multiply(quarters, f.number(QUARTER_LOW)), rest)
    return f.add(y, f.add(lost, low))


def _slope(f: Formula, above: str, below: str) -> tuple[str, str, str]:
    """The inverse tangent of a quotient between 0 and 1: quarters of pi, and an angle in two numbers."""
    is_steep = f.compare("ogt", above, f.multiply(below, f.number(STEEP)))
    difference, lost = f.difference(above, below)
    total, total_lost = f.short_sum(below, above)
    top, bottom = f.either(is_steep, difference, above), f.either(is_steep, total, below)
    zero = f.number(0.0)
    lows = f.either(is_steep, lost, zero), f.either(is_steep, total_lost, zero)
    angle, low = f.quotient(top, bottom, *lows)
    z = f.multiply(angle, angle)
    cube = f.multiply(f.multiply(angle, z), f.polynomial(z, coefficients.ATAN))
    return f.either(is_steep, f.number(1.0), zero), angle, f.add(low, cube)


def _beyond(
    f: Formula, chosen: str, whole: float, parts: tuple[str, str, str]
) -> tuple[str, str, str]:
    """The angle taken away from quarters of pi, where a truth says so."""
    quarters, angle, rest = parts
    return (
        f.either(chosen, f.subtract(f.number(whole), quarters), quarters),
        f.either(chosen, f.negate(angle), angle),
        f.either(chosen, f.negate(rest), rest),
    )


def atan(f: Formula, x: str) -> str:
    """Of |x|, or a half of pi less that of 1 / |x|."""
    largest, one = f.number(LARGEST), f.number(1.0)
    a = f.magnitude(x)
    a = f.select("ogt", a, largest, largest, a)
    is_beyond = f.compare("ogt", a, one)
    above, below = f.either(is_beyond, one, a), f.either(is_beyond, a, one)
    parts = _slope(f, above, below)
    return f.with_sign(_turned(f, *_beyond(f, is_beyond, 2.0, parts)), x)


def atan2(f: Formula, y: str, x: str) -> str:
    """The angle of a point with the first axis."""
    a, b = f.magnitude(y), f.magnitude(x)
    is_beyond = f.compare("ogt", a, b)
    above, below = f.either(is_beyond, b, a), f.either(is_beyond, a, b)
    zero, one, infinity = f.number(0.0), f.number(1.0), f.number(math.inf)
    # So that no error of a product is less than the least number.
    is_small = f.compare("olt", below, f.number(UP))
    scale = f.either(is_small, f.number(UP), f.number(DOWN))
    above, below = f.multiply(above, scale), f.multiply(below, scale)
    is_infinite = f.compare("oeq", below, infinity)
    both = f.select("oeq", above, infinity, one, zero)
    above, below = f.either(is_infinite, both, above), f.either(is_infinite, one, below)
    below = f.select("oeq", below, zero, one, below)
    parts = _beyond(f, is_beyond, 2.0, _slope(f, above, below))
    is_left = f.compare("olt", f.with_sign(one, x), zero)
    angle = f.with_sign(_turned(f, *_beyond(f, is_left, 4.0, parts)), y)
    return f.select("uno", x, y, f.add(x, y), angle)


def _chord(f: Formula, x: str) -> tuple[str, str, str]:
    """Whether |x| is at most a half, and asin(|x|), else asin(sqrt((1 - |x|) / 2)), in two numbers."""
    a, half = f.magnitude(x), f.number(0.5)
    is_small = f.compare("ole", a, half)
    rest_of_one = f.multiply(half, f.subtract(f.number(1.0), a))
    root = f.intrinsic("sqrt", rest_of_one)
    square, lost = f.product(root, root)
    left = f.subtract(f.subtract(rest_of_one, square), lost)
    low = f.divide(left, f.add(f.add(root, root), f.number(sys.float_info.min)))
    s = f.either(is_small, a, root)
    z = f.either(is_small, f.multiply(a, a), rest_of_one)
    cube = f.multiply(f.multiply(s, z), f.polynomial(z, coefficients.ASIN))
    return is_small, s, f.add(f.either(is_small, f.number(0.0), low), cube)


def asin(f: Formula, x: str) -> str:
    """Of |x|, or a half of pi less twice that of sqrt((1 - |x|) / 2)."""
    is_small, s, rest = _chord(f, x)
    quarters = f.either(is_small, f.number(0.0), f.number(2.0))
    factor = f.either(is_small, f.number(1.0), f.number(-2.0))
    angle = _turned(f, quarters, f.multiply(factor, s), f.multiply(factor, rest))
    return f.with_sign(angle, x)


def acos(f: Formula, x: str) -> str:
    """A half of pi less asin(x), or twice asin(sqrt((1 - |x|) / 2)), or pi less that."""
    is_small, s, rest = _chord(f, x)
    is_left = f.compare("olt", x, f.number(0.0))
    two = f.number(2.0)
    quarters = f.either(is_small, two, f.either(is_left, f.number(4.0), f.number(0.0)))
    near, far = f.with_sign(f.number(1.0), f.negate(x)), f.with_sign(two, x)
    factor = f.either(is_small, near, far)
    return _turned(f, quarters, f.multiply(factor, s), f.multiply(factor, rest))
