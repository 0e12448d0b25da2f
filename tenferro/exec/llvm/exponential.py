"""LLVM code of exponentials, logarithms and hyperbolic functions.

The argument is reduced to an interval around 0, in which a polynomial approximates the function.

Sources: Muller et al., Handbook of Floating-Point Arithmetic, 2nd ed., chapter 10; the logarithm follows Ng's in fdlibm;
two-sum is Knuth's.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass

from tenferro.exec.llvm import coefficients
from tenferro.exec.llvm.formula import BIAS, Formula
from tenferro.exec.llvm.ir import Value

LOG2_E = 1.0 / math.log(2.0)
LN2_HIGH = float.fromhex("0x1.62e42feep-1")
"""The first bits of ln(2), so few that products with exponents are exact; `LN2_LOW` is the rest."""
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

    n: Value
    r: Value
    rest: Value


def minimum(f: Formula, x: Value, upper: float) -> Value:
    """Write min(x, upper), which is NaN if x is NaN."""
    bound = f.number(upper)
    return f.select("ogt", x, bound, bound, x)


def reduce_argument(
    f: Formula, x: Value, low: float, high: float, x_low: Value | None = None
) -> ReducedExp:
    """Write the `ReducedExp` of e^(x + x_low), with x clamped to the bounds; it contains NaN if x is NaN."""
    x = minimum(f, x, high)
    x = f.select("olt", x, f.number(low), f.number(low), x)
    n = f.nearest(x, LOG2_E)
    minus_n = f.negate(n)
    near = f.multiply_add(minus_n, f.number(LN2_HIGH), x)
    if x_low is None:
        r = f.multiply_add(minus_n, f.number(LN2_LOW), near)
        lost = f.multiply_add(minus_n, f.number(LN2_LOW), f.subtract(near, r))
    else:
        low_part = f.multiply_add(minus_n, f.number(LN2_LOW), x_low)
        r = f.add(near, low_part)
        lost = f.add(f.subtract(near, r), low_part)
    return ReducedExp(
        n, r, f.multiply_add(f.multiply(r, r), f.polynomial(r, coefficients.EXP), lost)
    )


def one_plus(f: Formula, part: ReducedExp) -> Value:
    """Write 1 + r + rest, and correct the rounding error of 1 + r."""
    one = f.number(1.0)
    y = f.add(one, part.r)
    lost = f.add(f.subtract(one, y), part.r)
    return f.add(y, f.add(lost, part.rest))


def ldexp(f: Formula, y: Value, n: Value) -> Value:
    """Write 2^n y as a product with two powers of two, because 2^n may overflow or underflow."""
    half = f.nearest(n, 0.5)
    y = f.multiply(y, f.power_of_two(half))
    return f.multiply(y, f.power_of_two(f.subtract(n, half)))


def exp(f: Formula, x: Value) -> Value:
    """Write e^x = 2^n e^r."""
    part = reduce_argument(f, x, -746.0, 710.0)
    return ldexp(f, one_plus(f, part), part.n)


def expm1(f: Formula, x: Value) -> Value:
    """Write e^x - 1 = 2 (2^(n-1) (e^r - 1) + (2^(n-1) - 1/2)), which is e^r - 1 if n is 0."""
    part = reduce_argument(f, x, -EXPM1_SATURATION, 710.0)
    scale = f.power_of_two(f.subtract(part.n, f.number(1.0)))
    half = f.number(0.5)
    base, step = f.subtract(scale, half), f.multiply(scale, part.r)
    y = f.add(base, step)
    lost = f.add(f.subtract(base, y), step)
    lost = f.add(lost, f.subtract(f.subtract(scale, base), half))
    y = f.multiply(f.number(2.0), f.add(y, f.multiply_add(scale, part.rest, lost)))
    y = f.select("oeq", part.n, f.number(0.0), f.add(part.r, part.rest), y)
    return f.with_sign(y, x)


def exponent_and_significand(f: Formula, a: Value, offset: int) -> tuple[Value, Value]:
    """Write e and m with a = 2^e m, for a positive normal a.

    The bits of the smallest m, as an integer, are the bits of 1 minus `offset`.
    """
    biased = f.integer("add", f.bits(a), offset)
    exponent = f.from_bits(f.integer("or", f.integer("lshr", biased, 52), 0x433 << 52))
    e = f.subtract(exponent, f.number(2.0**52 + BIAS))
    return e, f.from_bits(f.integer("add", f.integer("and", biased, SIGNIFICAND), ONE - offset))


def split_positive(f: Formula, a: Value, offset: int) -> tuple[Value, Value]:
    """Write the same as `exponent_and_significand`, for a positive number that may be subnormal."""
    is_small = f.compare("olt", a, f.number(sys.float_info.min))
    a = f.either(is_small, f.multiply(a, f.number(2.0**54)), a)
    e, m = exponent_and_significand(f, a, offset)
    return f.either(is_small, f.subtract(e, f.number(54.0)), e), m


def _logarithm(
    f: Formula, u: Value, near: tuple[Value, ...] = (), halvings: Value | None = None
) -> Value:
    """Write ln(u) = e ln(2) + ln(1 + g) for a positive u, or ln(u + lost) for a normal u if `near` is given.

    Args:
        near: numbers x, low and lost with 1 + x + low = u + lost.
        halvings: the number of times that the caller has halved the argument to get u.
    """
    split = exponent_and_significand if near else split_positive
    e, m = split(f, u, ONE - SQRT_HALF)
    if halvings is not None:
        e = f.add(e, halvings)
    g = f.subtract(m, f.number(1.0))
    low = f.multiply(e, f.number(LN2_LOW))
    if near:
        x, x_low, lost = near
        is_near = f.compare("oeq", e, f.number(0.0))
        g = f.either(is_near, x, g)
        low = f.add(low, f.divide(f.either(is_near, x_low, lost), u))
    s = f.divide(g, f.add(f.number(2.0), g))
    z = f.multiply(s, s)
    half_square = f.multiply(f.multiply(f.number(0.5), g), g)
    tail = f.multiply(z, f.polynomial(z, coefficients.LOG))
    inner = f.multiply_add(s, f.add(half_square, tail), low)
    below = f.subtract(f.subtract(half_square, inner), g)
    return f.subtract(f.multiply(e, f.number(LN2_HIGH)), below)


def where_defined(f: Formula, x: Value, y: Value, pole: float) -> Value:
    """Write y, but -infinity if x is the pole, NaN if x is below the pole, and x if it is infinity or NaN."""
    y = f.select("olt", x, f.number(math.inf), y, x)
    y = f.select("oeq", x, f.number(pole), f.number(-math.inf), y)
    return f.select("olt", x, f.number(pole), f.number(math.nan), y)


def log(f: Formula, x: Value) -> Value:
    """Write ln(x)."""
    return where_defined(f, x, _logarithm(f, x), 0.0)


def _log1p(f: Formula, x: Value, low: Value | None = None, halvings: Value | None = None) -> Value:
    """Write ln(1 + x + low) + halvings ln(2).

    If x has been halved, it is so large that 1 is negligible.
    """
    one = f.number(1.0)
    u = f.add(one, x)
    # The difference is exact, except for x > 2^53, for which its error is negligible.
    lost = f.subtract(x, f.subtract(u, one))
    if low is not None:
        lost = f.add(lost, low)
    y = _logarithm(f, u, (x, f.number(0.0) if low is None else low, lost), halvings)
    return f.select("oeq", x, f.number(0.0), x, where_defined(f, x, y, -1.0))


def log1p(f: Formula, x: Value) -> Value:
    """Write ln(1 + x) = ln(u) + d / u, where u is 1 + x rounded, and d is the rounding error."""
    return _log1p(f, x)


def tanh(f: Formula, x: Value, expm1: Callable[[Formula, Value], Value] = expm1) -> Value:
    """Write tanh x = t / (t + 2), with t = e^(2|x|) - 1 and the sign of x."""
    a = minimum(f, f.magnitude(x), TANH_SATURATION)
    t = expm1(f, f.add(a, a))
    return f.with_sign(f.divide(t, f.add(t, f.number(2.0))), x)


def logistic(f: Formula, x: Value) -> Value:
    """Write 1 / (1 + e^-x) as 1 / (1 + t), or as t / (1 + t) for negative x, with t = e^-|x|."""
    e = exp(f, f.negate(f.magnitude(x)))
    above = f.select("olt", x, f.number(0.0), e, f.number(1.0))
    return f.divide(above, f.add(f.number(1.0), e))


def sinh(f: Formula, x: Value) -> Value:
    """Write sinh x = (t + t / (1 + t)) / 2, with t = e^|x| - 1 and the sign of x; for large |x| it is e^|x| / 2."""
    a, half = f.magnitude(x), f.number(0.5)
    t = expm1(f, minimum(f, a, SINH_EXP))
    near = f.multiply(half, f.add(t, f.divide(t, f.add(t, f.number(1.0)))))
    near = f.select("olt", a, f.number(SINH_LINEAR), a, near)
    return f.with_sign(f.select("ogt", a, f.number(SINH_EXP), _half_exp(f, a), near), x)


def _half_exp(f: Formula, x: Value) -> Value:
    """Write e^x / 2 for positive x."""
    part = reduce_argument(f, x, 0.0, HALF_EXP_OVERFLOW)
    return ldexp(f, one_plus(f, part), f.subtract(part.n, f.number(1.0)))


def cosh(f: Formula, x: Value) -> Value:
    """Write cosh x = t + 1 / (4 t), with t = e^|x| / 2."""
    t = _half_exp(f, f.magnitude(x))
    return f.add(t, f.divide(f.number(0.25), t))


def asinh(f: Formula, x: Value) -> Value:
    """Write asinh x = ln(1 + t), with t = |x| + x^2 / (1 + sqrt(1 + x^2)) and the sign of x."""
    a, one = f.magnitude(x), f.number(1.0)
    is_large = f.compare("ogt", a, f.number(SQUARE_DOMINATES))
    near = f.either(is_large, one, a)
    square = f.multiply(near, near)
    root = f.intrinsic("sqrt", f.add(square, one))
    t, low = f.fast_two_sum(near, f.divide(square, f.add(one, root)))
    t = f.either(is_large, a, t)
    y = _log1p(f, t, low, f.either(is_large, one, f.number(0.0)))
    return f.with_sign(y, x)


def acosh(f: Formula, x: Value) -> Value:
    """Write acosh x = ln(1 + t), with t = d + sqrt(d^2 + 2 d) and d = x - 1."""
    one = f.number(1.0)
    is_large = f.compare("ogt", x, f.number(SQUARE_DOMINATES))
    d = f.subtract(f.either(is_large, one, x), one)
    root = f.intrinsic("sqrt", f.multiply_add(d, d, f.add(d, d)))
    t, low = f.fast_two_sum(root, d)
    t = f.either(is_large, x, t)
    y = _log1p(f, t, low, f.either(is_large, one, f.number(0.0)))
    return f.select("olt", x, one, f.number(math.nan), y)


def atanh(f: Formula, x: Value) -> Value:
    """Write atanh x = ln(1 + t) / 2, with t = 2 |x| / (1 - |x|) and the sign of x."""
    a, one = f.magnitude(x), f.number(1.0)
    below, lost = f.fast_two_sum(one, f.negate(a))
    t, low = f.quotient(f.add(a, a), below, None, lost)
    return f.with_sign(f.multiply(f.number(0.5), _log1p(f, t, low)), x)
