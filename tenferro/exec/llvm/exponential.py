"""LLVM code of exponentials, logarithms and hyperbolic functions.

The argument is reduced to an interval around 0, in which a polynomial approximates the function.

Sources: Muller et al., Handbook of Floating-Point Arithmetic, 2nd ed., chapter 10; K. C. Ng's logarithm in fdlibm.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass

from tenferro.exec.llvm import coefficients
from tenferro.exec.llvm.formula import (
    BIAS,
    Number,
    Operand,
    copysign,
    fast_two_sum,
    from_bits,
    multiply_add,
    nearest,
    polynomial,
    power_of_two,
    quotient,
    sqrt,
    where,
)

LOG2_E = 1.0 / math.log(2.0)
LN2_HIGH = float.fromhex("0x1.62e42feep-1")
"""Leading bits of ln(2), so few that products with exponents are exact; `LN2_LOW` is the rest."""
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
SQRT_HALF = struct.unpack("<q", struct.pack("<d", math.sqrt(0.5)))[0]
ONE = struct.unpack("<q", struct.pack("<d", 1.0))[0]
SIGNIFICAND = (1 << 52) - 1
EXPM1_SATURATION = 60.0
"""Number s such that e^x - 1 is rounded to -1 for x < -s."""
HALF_EXP_OVERFLOW = 711.0
"""Argument above which e^x / 2 is infinite."""
TANH_SATURATION = 22.0
"""Argument above which tanh is 1."""
SINH_EXP = 40.0
"""Argument above which sinh is e^x / 2."""
SINH_LINEAR = 4e-9
"""Argument below which sinh is x."""
SQUARE_DOMINATES = 1e18
"""Argument above which x^2 + 1 is rounded to x^2."""


@dataclass
class ReducedExp:
    """Integer n and numbers r and rest with e^x = 2^n (1 + r + rest) and |r| <= ln(2) / 2."""

    n: Number
    r: Number
    rest: Number


def minimum(x: Number, upper: float) -> Number:
    """Write min(x, upper), which is NaN if x is NaN."""
    return where(x > upper, upper, x)


def reduce_argument(x: Number, low: float, high: float, x_low: Number | None = None) -> ReducedExp:
    """Write the `ReducedExp` of e^(x + x_low), with x clamped to the bounds; its parts are NaN if x is NaN."""
    x = minimum(x, high)
    x = where(x < low, low, x)
    n = nearest(x, LOG2_E)
    minus_n = -n
    near = multiply_add(minus_n, LN2_HIGH, x)
    if x_low is None:
        r = multiply_add(minus_n, LN2_LOW, near)
        lost = multiply_add(minus_n, LN2_LOW, near - r)
    else:
        low_part = multiply_add(minus_n, LN2_LOW, x_low)
        r = near + low_part
        lost = (near - r) + low_part
    return ReducedExp(n, r, multiply_add(r * r, polynomial(r, coefficients.EXP), lost))


def one_plus(part: ReducedExp) -> Number:
    """Write 1 + r + rest, and correct the rounding error of 1 + r."""
    y = 1.0 + part.r
    lost = (1.0 - y) + part.r
    return y + (lost + part.rest)


def ldexp(y: Number, n: Number) -> Number:
    """Write 2^n y as a product with two powers of two, because 2^n may overflow or underflow."""
    half = nearest(n, 0.5)
    y = y * power_of_two(half)
    return y * power_of_two(n - half)


def exp(x: Number) -> Number:
    """Write e^x = 2^n e^r."""
    part = reduce_argument(x, -746.0, 710.0)
    return ldexp(one_plus(part), part.n)


def expm1(x: Number) -> Number:
    """Write e^x - 1 = 2 (2^(n-1) (e^r - 1) + (2^(n-1) - 1/2)), which is e^r - 1 if n is 0."""
    part = reduce_argument(x, -EXPM1_SATURATION, 710.0)
    scale = power_of_two(part.n - 1.0)
    base, step = scale - 0.5, scale * part.r
    y = base + step
    lost = ((base - y) + step) + ((scale - base) - 0.5)
    y = 2.0 * (y + multiply_add(scale, part.rest, lost))
    y = where(part.n.equals(0.0), part.r + part.rest, y)
    return copysign(y, x)


def exponent_and_significand(a: Number, offset: int) -> tuple[Number, Number]:
    """Write e and m with a = 2^e m, for a positive normal a.

    The smallest m has, as an integer, the bits of 1 minus `offset`.
    """
    biased = a.bits() + offset
    exponent = from_bits((biased >> 52) | (0x433 << 52))
    e = exponent - (2.0**52 + BIAS)
    return e, from_bits((biased & SIGNIFICAND) + (ONE - offset))


def split_positive(a: Number, offset: int) -> tuple[Number, Number]:
    """Write `exponent_and_significand` for a positive number that may be subnormal."""
    is_small = a < sys.float_info.min
    a = where(is_small, 2.0**54 * a, a)
    e, m = exponent_and_significand(a, offset)
    return where(is_small, e - 54.0, e), m


def _logarithm(
    u: Number, near: tuple[Number, Operand, Number] | None = None, halvings: Number | None = None
) -> Number:
    """Write ln(u) = e ln(2) + ln(1 + g) for a positive u, or ln(u + lost) for a normal u if `near` is given.

    Args:
        near: numbers x, low and lost with 1 + x + low = u + lost.
        halvings: the number k such that the result is ln(2^k u).
    """
    split = split_positive if near is None else exponent_and_significand
    e, m = split(u, ONE - SQRT_HALF)
    if halvings is not None:
        e = e + halvings
    g = m - 1.0
    low = e * LN2_LOW
    if near is not None:
        x, x_low, lost = near
        is_near = e.equals(0.0)
        g = where(is_near, x, g)
        low = low + where(is_near, x_low, lost) / u
    s = g / (2.0 + g)
    z = s * s
    half_square = 0.5 * g * g
    tail = z * polynomial(z, coefficients.LOG)
    inner = multiply_add(s, half_square + tail, low)
    return e * LN2_HIGH - ((half_square - inner) - g)


def where_defined(x: Number, y: Number, pole: float) -> Number:
    """Write y, but -infinity if x is the pole, NaN if x is below the pole, and x if it is infinity or NaN."""
    y = where(x < math.inf, y, x)
    y = where(x.equals(pole), -math.inf, y)
    return where(x < pole, math.nan, y)


def log(x: Number) -> Number:
    """Write ln(x)."""
    return where_defined(x, _logarithm(x), 0.0)


def _log1p(x: Number, low: Number | None = None, halvings: Number | None = None) -> Number:
    """Write ln(1 + x + low) + halvings ln(2)."""
    u = 1.0 + x
    # The difference is exact, except for x > 2^53, for which its error is negligible.
    lost = x - (u - 1.0)
    if low is not None:
        lost = lost + low
    y = _logarithm(u, (x, 0.0 if low is None else low, lost), halvings)
    return where(x.equals(0.0), x, where_defined(x, y, -1.0))


def log1p(x: Number) -> Number:
    """Write ln(1 + x) = ln(u) + d / u, where u is 1 + x rounded, and d is the rounding error."""
    return _log1p(x)


def tanh(x: Number, expm1: Callable[[Number], Number] = expm1) -> Number:
    """Write tanh x = t / (t + 2), with t = e^(2|x|) - 1 and the sign of x."""
    a = minimum(abs(x), TANH_SATURATION)
    t = expm1(a + a)
    return copysign(t / (t + 2.0), x)


def logistic(x: Number) -> Number:
    """Write 1 / (1 + e^-x) as 1 / (1 + t), or as t / (1 + t) for negative x, with t = e^-|x|."""
    e = exp(-abs(x))
    above = where(x < 0.0, e, 1.0)
    return above / (1.0 + e)


def sinh(x: Number) -> Number:
    """Write sinh x = (t + t / (1 + t)) / 2 with t = e^|x| - 1 and the sign of x, or e^|x| / 2 for large |x|."""
    a = abs(x)
    t = expm1(minimum(a, SINH_EXP))
    near = 0.5 * (t + t / (t + 1.0))
    near = where(a < SINH_LINEAR, a, near)
    return copysign(where(a > SINH_EXP, _half_exp(a), near), x)


def _half_exp(x: Number) -> Number:
    """Write e^x / 2 for positive x."""
    part = reduce_argument(x, 0.0, HALF_EXP_OVERFLOW)
    return ldexp(one_plus(part), part.n - 1.0)


def cosh(x: Number) -> Number:
    """Write cosh x = t + 1 / (4 t), with t = e^|x| / 2."""
    t = _half_exp(abs(x))
    return t + 0.25 / t


def asinh(x: Number) -> Number:
    """Write asinh x = ln(1 + t), with t = |x| + x^2 / (1 + sqrt(1 + x^2)) and the sign of x."""
    a = abs(x)
    is_large = a > SQUARE_DOMINATES
    near = where(is_large, 1.0, a)
    square = near * near
    root = sqrt(square + 1.0)
    t, low = fast_two_sum(near, square / (1.0 + root))
    t = where(is_large, a, t)
    y = _log1p(t, low, where(is_large, 1.0, 0.0))
    return copysign(y, x)


def acosh(x: Number) -> Number:
    """Write acosh x = ln(1 + t), with t = d + sqrt(d^2 + 2 d) and d = x - 1."""
    is_large = x > SQUARE_DOMINATES
    d = where(is_large, 1.0, x) - 1.0
    root = sqrt(multiply_add(d, d, d + d))
    t, low = fast_two_sum(root, d)
    t = where(is_large, x, t)
    y = _log1p(t, low, where(is_large, 1.0, 0.0))
    return where(x < 1.0, math.nan, y)


def atanh(x: Number) -> Number:
    """Write atanh x = ln(1 + t) / 2, with t = 2 |x| / (1 - |x|) and the sign of x."""
    a = abs(x)
    below, lost = fast_two_sum(1.0, -a)
    t, low = quotient(a + a, below, None, lost)
    return copysign(0.5 * _log1p(t, low), x)
