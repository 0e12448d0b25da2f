"""Functions of float32, evaluated in float64; the caller rounds the result once.

A float64 has 29 more bits than the result. Therefore no intermediate value is an unevaluated sum, polynomials have few
terms, nothing overflows or underflows, and no argument except 0 is subnormal. Otherwise the formulas are the same
as for float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tenferro.exec.llvm import coefficients
from tenferro.exec.llvm.exponential import (
    ONE,
    SQRT_HALF,
    TANH_SATURATION,
    exponent_and_significand,
    minimum,
    where_defined,
)
from tenferro.exec.llvm.formula import ROUNDER, Formula
from tenferro.exec.llvm.inverse_trigonometric import TAN_PI_8
from tenferro.exec.llvm.ir import Value
from tenferro.exec.llvm.trigonometric import HALF_PI

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "expm1",
    "hypot",
    "log",
    "log1p",
    "logistic",
    "power",
    "sin",
    "sinh",
    "tan",
    "tanh",
]

EXP_OVERFLOW = 104.0
"""Argument above which e^x / 2 is infinite in float32; e^-x is 0 there."""
LN2 = math.log(2.0)
PI, PI_LOW = 2.0 * HALF_PI[0], 2.0 * math.fsum(HALF_PI[1:])
"""pi in 33 bits, whose products with 19 bits are exact, and the remainder."""
ERF_SATURATION, ERF_CENTRE = 3.925, 7.7
"""Argument above which erf is 1, and the centre of x^2 in `ERF_SINGLE`, as in `tools/polynomials.py`."""
W_CENTRE, SQRT_W_CENTRE = 2.5, 3.125
"""Centres of w and of sqrt(w) in the polynomials of erfinv, as in `tools/polynomials.py`."""
ERFC_UNDERFLOW = 10.5
"""Argument above which erfc is 0."""
ERFC_CENTRE = 3.0
"""Constant k of the quotient (x - k) / (x + k) in `ERFC_SINGLE`, as in `tools/polynomials.py`."""


def _reduced(f: Formula, x: Value) -> tuple[Value, Value]:
    """Write r with x = n ln(2) + r, and a number whose last bits are n."""
    shifted = f.multiply_add(x, f.number(1.0 / LN2), f.number(ROUNDER))
    n = f.subtract(shifted, f.number(ROUNDER))
    return f.multiply_add(n, f.number(-LN2), x), shifted


def _times_power(f: Formula, y: Value, shifted: Value) -> Value:
    """Write 2^n y for positive y by an addition to the exponent; y and the result are normal."""
    return f.from_bits(f.integer("add", f.bits(y), f.integer("shl", f.bits(shifted), 52)))


def _exp(f: Formula, x: Value) -> Value:
    """Write e^x = 2^n e^r for -700 <= x <= 700, or NaN."""
    r, shifted = _reduced(f, x)
    return _times_power(f, f.polynomial(r, (1.0, 1.0, *coefficients.EXP_SINGLE)), shifted)


def _expm1(f: Formula, x: Value) -> Value:
    """Write e^x - 1 = 2^n (e^r - 1) + (2^n - 1) for -700 <= x <= 700, or NaN."""
    r, shifted = _reduced(f, x)
    y = f.multiply(r, f.polynomial(r, (1.0, *coefficients.EXP_SINGLE)))
    scale = _times_power(f, f.number(1.0), shifted)
    return f.multiply_add(scale, y, f.subtract(scale, f.number(1.0)))


def _clamped(f: Formula, x: Value) -> Value:
    """Clamp the argument of an exponential; NaN propagates."""
    low = f.number(-EXP_OVERFLOW)
    return f.select("olt", x, low, low, minimum(f, x, EXP_OVERFLOW))


def exp(f: Formula, x: Value) -> Value:
    """Write e^x."""
    return _exp(f, _clamped(f, x))


def expm1(f: Formula, x: Value) -> Value:
    """Write e^x - 1."""
    return f.with_sign(_expm1(f, _clamped(f, x)), x)


def tanh(f: Formula, x: Value) -> Value:
    """Write tanh x = t / (t + 2), with t = e^(2|x|) - 1 and the sign of x."""
    a = minimum(f, f.magnitude(x), TANH_SATURATION)
    t = _expm1(f, f.add(a, a))
    return f.with_sign(f.divide(t, f.add(t, f.number(2.0))), x)


def logistic(f: Formula, x: Value) -> Value:
    """Write 1 / (1 + e^-x)."""
    one = f.number(1.0)
    return f.divide(one, f.add(one, exp(f, f.negate(x))))


def sinh(f: Formula, x: Value) -> Value:
    """Write sinh x = (t + t / (t + 1)) / 2, with t = e^|x| - 1 and the sign of x."""
    t = _expm1(f, minimum(f, f.magnitude(x), EXP_OVERFLOW))
    y = f.add(t, f.divide(t, f.add(t, f.number(1.0))))
    return f.with_sign(f.multiply(f.number(0.5), y), x)


def cosh(f: Formula, x: Value) -> Value:
    """Write cosh x = (t + 1 / t) / 2, with t = e^|x|."""
    half, t = f.number(0.5), _exp(f, minimum(f, f.magnitude(x), EXP_OVERFLOW))
    return f.multiply_add(half, t, f.divide(half, t))


def _logarithm(
    f: Formula, u: Value, terms: Sequence[float], near_one: Value | None = None
) -> Value:
    """Write ln(u) = e ln(2) + ln(1 + g) for positive u.

    Args:
        near_one: u - 1 without the rounding error of u, if it is available.
    """
    e, m = exponent_and_significand(f, u, ONE - SQRT_HALF)
    g = f.subtract(m, f.number(1.0))
    if near_one is not None:
        g = f.select("oeq", e, f.number(0.0), near_one, g)
    return f.multiply_add(e, f.number(LN2), f.multiply(g, f.polynomial(g, terms)))


def log(f: Formula, x: Value) -> Value:
    """Write ln(x)."""
    return where_defined(f, x, _logarithm(f, x, coefficients.LOG_SINGLE), 0.0)


def _log1p(f: Formula, x: Value) -> Value:
    """Write ln(1 + x); the sign of zero is lost."""
    u = f.add(f.number(1.0), x)
    return where_defined(f, x, _logarithm(f, u, coefficients.LOG_SINGLE, x), -1.0)


def log1p(f: Formula, x: Value) -> Value:
    """Write ln(1 + x)."""
    return f.select("oeq", x, f.number(0.0), x, _log1p(f, x))


def asinh(f: Formula, x: Value) -> Value:
    """Write asinh x = ln(1 + t), with t = |x| + x^2 / (1 + sqrt(1 + x^2)) and the sign of x."""
    a, one, infinity = f.magnitude(x), f.number(1.0), f.number(math.inf)
    square = f.multiply(a, a)
    root = f.intrinsic("sqrt", f.add(square, one))
    y = _log1p(f, f.add(a, f.divide(square, f.add(one, root))))
    return f.with_sign(f.select("oeq", a, infinity, infinity, y), x)


def acosh(f: Formula, x: Value) -> Value:
    """Write acosh x = ln(1 + t), with t = d + sqrt(d^2 + 2 d) and d = x - 1."""
    d = f.subtract(x, f.number(1.0))
    root = f.intrinsic("sqrt", f.multiply_add(d, d, f.add(d, d)))
    y = log1p(f, f.add(d, root))
    return f.select("olt", x, f.number(1.0), f.number(math.nan), y)


def atanh(f: Formula, x: Value) -> Value:
    """Write atanh x = ln(1 + t) / 2, with t = 2 |x| / (1 - |x|) and the sign of x."""
    a = f.magnitude(x)
    t = f.divide(f.add(a, a), f.subtract(f.number(1.0), a))
    return f.with_sign(f.multiply(f.number(0.5), _log1p(f, t)), x)


def power(f: Formula, a: Value, y: Value) -> Value:
    """Write a^y = e^(y ln(a)) for a >= 0, with about 12 more bits in the logarithm."""
    logarithm = where_defined(f, a, _logarithm(f, a, coefficients.LOG_POWER), 0.0)
    return exp(f, f.multiply(y, logarithm))


def _minus_multiple_of_pi(f: Formula, x: Value, n: Value) -> Value:
    """Write x - n pi."""
    return f.multiply_add(n, f.number(-PI_LOW), f.multiply_add(n, f.number(-PI), x))


def _sine(f: Formula, r: Value) -> Value:
    """Write sin(r) for |r| <= pi / 2."""
    return f.multiply(r, f.polynomial(f.multiply(r, r), (1.0, *coefficients.SIN_SINGLE)))


def _negated_if_odd(f: Formula, y: Value, n: Value) -> Value:
    """Write y, or -y if the integer n is odd."""
    sign = f.integer("shl", n, 63)
    return f.from_bits(f.code.value("xor", f.bits(y), sign))


def sin(f: Formula, x: Value) -> Value:
    """Write sin x = sin r, negated for odd n, with x = n pi + r."""
    shifted = f.multiply_add(x, f.number(1.0 / math.pi), f.number(ROUNDER))
    r = _minus_multiple_of_pi(f, x, f.subtract(shifted, f.number(ROUNDER)))
    return _negated_if_odd(f, _sine(f, r), f.bits(shifted))


def cos(f: Formula, x: Value) -> Value:
    """Write cos x = sin(r), negated for even n, with x = (n + 1/2) pi + r."""
    half = f.number(0.5)
    below = f.multiply_add(x, f.number(1.0 / math.pi), f.number(-0.5))
    shifted = f.add(below, f.number(ROUNDER))
    n = f.subtract(shifted, f.number(ROUNDER))
    r = _minus_multiple_of_pi(f, x, f.add(n, half))
    return _negated_if_odd(f, _sine(f, r), f.integer("add", f.bits(shifted), 1))


def tan(f: Formula, x: Value) -> Value:
    """Write tan x = sin(r) / cos(r) for even n, -cos(r) / sin(r) for odd n, with x = n pi / 2 + r."""
    shifted = f.multiply_add(x, f.number(2.0 / math.pi), f.number(ROUNDER))
    n = f.subtract(shifted, f.number(ROUNDER))
    r = _minus_multiple_of_pi(f, x, f.multiply(n, f.number(0.5)))
    sine = _sine(f, r)
    cosine = f.polynomial(f.multiply(r, r), (1.0, -0.5, *coefficients.COS_SINGLE))
    is_odd = f.has_bit(f.bits(shifted), 0)
    above = f.either(is_odd, f.negate(cosine), sine)
    return f.divide(above, f.either(is_odd, sine, cosine))


def _atan_of_quotient(f: Formula, above: Value, below: Value) -> Value:
    """Write atan(above / below) in [0, pi / 4]."""
    is_steep = f.compare("ogt", above, f.multiply(below, f.number(TAN_PI_8)))
    top = f.either(is_steep, f.subtract(above, below), above)
    bottom = f.either(is_steep, f.add(below, above), below)
    t = f.divide(top, bottom)
    angle = f.multiply(t, f.polynomial(f.multiply(t, t), (1.0, *coefficients.ATAN_SINGLE)))
    return f.add(f.either(is_steep, f.number(math.pi / 4), f.number(0.0)), angle)


def _reflected(f: Formula, condition: Value, total: float, angle: Value) -> Value:
    """Write total - angle where the condition holds, else the angle."""
    return f.either(condition, f.subtract(f.number(total), angle), angle)


def atan(f: Formula, x: Value) -> Value:
    """Write the inverse tangent of |x|, or pi / 2 minus that of 1 / |x|, with the sign of x."""
    a, one = f.magnitude(x), f.number(1.0)
    is_inverted = f.compare("ogt", a, one)
    angle = _atan_of_quotient(f, f.either(is_inverted, one, a), f.either(is_inverted, a, one))
    return f.with_sign(_reflected(f, is_inverted, math.pi / 2, angle), x)


def atan2(f: Formula, y: Value, x: Value) -> Value:
    """Write the angle between the point (x, y) and the first axis."""
    a, b = f.magnitude(y), f.magnitude(x)
    is_inverted = f.compare("ogt", a, b)
    above, below = f.either(is_inverted, b, a), f.either(is_inverted, a, b)
    zero, one, infinity = f.number(0.0), f.number(1.0), f.number(math.inf)
    is_infinite = f.compare("oeq", below, infinity)
    limit = f.select("oeq", above, infinity, one, zero)
    above, below = f.either(is_infinite, limit, above), f.either(is_infinite, one, below)
    below = f.select("oeq", below, zero, one, below)
    angle = _reflected(f, is_inverted, math.pi / 2, _atan_of_quotient(f, above, below))
    is_negative = f.compare("olt", f.with_sign(one, x), zero)
    angle = f.with_sign(_reflected(f, is_negative, math.pi, angle), y)
    return f.select("uno", x, y, f.add(x, y), angle)


def _asin_of_reduced(f: Formula, x: Value) -> tuple[Value, Value]:
    """Write whether |x| <= 1/2, and asin(|x|), else asin(sqrt((1 - |x|) / 2))."""
    a, half = f.magnitude(x), f.number(0.5)
    is_small = f.compare("ole", a, half)
    z = f.multiply(half, f.subtract(f.number(1.0), a))
    s = f.either(is_small, a, f.intrinsic("sqrt", z))
    z = f.either(is_small, f.multiply(a, a), z)
    return is_small, f.multiply(s, f.polynomial(z, (1.0, *coefficients.ASIN_SINGLE)))


def asin(f: Formula, x: Value) -> Value:
    """Write the inverse sine of |x|, or pi / 2 minus twice that of sqrt((1 - |x|) / 2), with the sign of x."""
    is_small, angle = _asin_of_reduced(f, x)
    large = f.multiply_add(f.number(-2.0), angle, f.number(math.pi / 2))
    return f.with_sign(f.either(is_small, angle, large), x)


def acos(f: Formula, x: Value) -> Value:
    """Write pi / 2 - asin(x), or 2 asin(sqrt((1 - |x|) / 2)), or pi minus the latter."""
    is_small, angle = _asin_of_reduced(f, x)
    offset = f.select("olt", x, f.number(0.0), f.number(math.pi), f.number(0.0))
    start = f.either(is_small, f.number(math.pi / 2), offset)
    near, far = f.with_sign(f.number(1.0), f.negate(x)), f.with_sign(f.number(2.0), x)
    return f.multiply_add(f.either(is_small, near, far), angle, start)


def erf(f: Formula, x: Value) -> Value:
    """Write erf x = x P(x^2), saturated at 1."""
    a = minimum(f, f.magnitude(x), ERF_SATURATION)
    centred = f.subtract(f.multiply(a, a), f.number(ERF_CENTRE))
    return f.with_sign(f.multiply(a, f.polynomial(centred, coefficients.ERF_SINGLE)), x)


def _complement(f: Formula, a: Value) -> Value:
    """Write erfc(a) = e^(-a^2) Q(q) / (1 + 2 a), with q = (a - k) / (a + k), for 0 <= a <= `ERFC_UNDERFLOW`.

    Both quotients use the reciprocal of the product of their divisors.
    """
    k = f.number(ERFC_CENTRE)
    first, second = f.add(a, k), f.multiply_add(f.number(2.0), a, f.number(1.0))
    inverse = f.divide(f.number(1.0), f.multiply(first, second))
    q = f.multiply(f.multiply(f.subtract(a, k), second), inverse)
    y = f.multiply(f.polynomial(q, coefficients.ERFC_SINGLE), f.multiply(first, inverse))
    return f.multiply(_exp(f, f.negate(f.multiply(a, a))), y)


def erfc(f: Formula, x: Value) -> Value:
    """Write erfc x; 2 minus that of |x| for negative x."""
    y = _complement(f, minimum(f, f.magnitude(x), ERFC_UNDERFLOW))
    return f.select("olt", x, f.number(0.0), f.subtract(f.number(2.0), y), y)


def erfinv(f: Formula, x: Value) -> Value:
    """Write erfinv x = x P(w), with w = -ln(1 - x^2), or x Q(sqrt(w)) for large w."""
    a, one = f.magnitude(x), f.number(1.0)
    product = f.multiply(f.subtract(one, a), f.add(one, a))
    w = f.negate(_logarithm(f, product, coefficients.LOG_SINGLE))
    near = f.polynomial(f.subtract(w, f.number(W_CENTRE)), coefficients.ERFINV_SINGLE)
    root = f.subtract(f.intrinsic("sqrt", w), f.number(SQRT_W_CENTRE))
    far = f.polynomial(root, coefficients.ERFINV_FAR_SINGLE)
    y = f.multiply(x, f.select("olt", w, f.number(2.0 * W_CENTRE), near, far))
    infinity = f.with_sign(f.number(math.inf), x)
    y = f.select("oeq", a, one, infinity, y)
    return f.select("ogt", a, one, f.number(math.nan), y)


def hypot(f: Formula, x: Value, y: Value) -> Value:
    """Write sqrt(x^2 + y^2); infinite if x or y is."""
    root = f.intrinsic("sqrt", f.multiply_add(x, x, f.multiply(y, y)))
    infinity = f.number(math.inf)
    for a in (f.magnitude(x), f.magnitude(y)):
        root = f.select("oeq", a, infinity, infinity, root)
    return root
