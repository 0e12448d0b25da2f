"""Functions of float32, of the same number as a float64, which whoever calls them rounds once.

A float64 has 29 bits more than are kept. So no number here has a second part, polynomials have a few terms, nothing over-
or underflows on the way, and no argument but 0 is smaller than a normal number. The arrangements are those of the functions
of float64 beside this module, where that is all that is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tenferro.exec.llvm import coefficients
from tenferro.exec.llvm.exponential import (
    ONE,
    SQRT_HALF,
    exponent_and_significand,
    where_defined,
)
from tenferro.exec.llvm.formula import ROUNDER, Formula
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

LARGEST = 104.0
"""e^x of a float32 above it is infinite, and below its negative it is 0; so is its half."""
SATURATED = 22.0
"""The hyperbolic tangent of what is above it is 1."""
LN2 = math.log(2.0)
PI, PI_LOW = 2.0 * HALF_PI[0], 2.0 * math.fsum(HALF_PI[1:])
"""In 33 bits, whose products with 19 bits are exact, and the rest."""
STEEP = math.sqrt(2.0) - 1.0
"""The tangent of an eighth of pi."""
LARGEST_ERF, MIDDLE_ERF = 3.925, 7.7
"""From where on the error function is 1, and what is taken from the square; `tools/polynomials.py` has the same."""
MIDDLE_W, MIDDLE_ROOT = 2.5, 3.125
"""What the inverse takes from w, and from its root where w is above 5; `tools/polynomials.py` has the same."""
LARGEST_ERFC = 10.5
"""The complement of what is above it is 0."""
CENTRE = 3.0
"""k of the quotient (x - k) / (x + k) of `ERFC_SINGLE`; `tools/polynomials.py` has the same."""


def _reduced(f: Formula, x: str) -> tuple[str, str]:
    """x = n ln(2) + r: r, and a number with n in its last bits."""
    shifted = f.multiply_add(x, f.number(1.0 / LN2), f.number(ROUNDER))
    n = f.subtract(shifted, f.number(ROUNDER))
    return f.multiply_add(n, f.number(-LN2), x), shifted


def _times_power(f: Formula, y: str, shifted: str) -> str:
    """2^n y of a positive number, of which neither is subnormal: n is added to the exponent."""
    return f.of_bits(f.integer("add", f.bits(y), f.integer("shl", f.bits(shifted), 52)))


def _exp(f: Formula, x: str) -> str:
    """2^n e^r of a number between -700 and 700, and of NaN."""
    r, shifted = _reduced(f, x)
    return _times_power(f, f.polynomial(r, (1.0, 1.0, *coefficients.EXP_SINGLE)), shifted)


def _expm1(f: Formula, x: str) -> str:
    """2^n (e^r - 1) + (2^n - 1) of a number between -700 and 700, and of NaN; where n is 0 that is e^r - 1."""
    r, shifted = _reduced(f, x)
    y = f.multiply(r, f.polynomial(r, (1.0, *coefficients.EXP_SINGLE)))
    scale = _times_power(f, f.number(1.0), shifted)
    return f.multiply_add(scale, y, f.subtract(scale, f.number(1.0)))


def _between(f: Formula, x: str) -> str:
    """The argument within the range of exponentials; NaN stays."""
    low, high = f.number(-LARGEST), f.number(LARGEST)
    return f.select("olt", x, low, low, f.select("ogt", x, high, high, x))


def _at_most(f: Formula, a: str, largest: float) -> str:
    bound = f.number(largest)
    return f.select("ogt", a, bound, bound, a)


def exp(f: Formula, x: str) -> str:
    """e^x."""
    return _exp(f, _between(f, x))


def expm1(f: Formula, x: str) -> str:
    """e^x - 1."""
    return f.with_sign(_expm1(f, _between(f, x)), x)


def tanh(f: Formula, x: str) -> str:
    """t / (t + 2), with t = e^(2|x|) - 1."""
    a = _at_most(f, f.magnitude(x), SATURATED)
    t = _expm1(f, f.add(a, a))
    return f.with_sign(f.divide(t, f.add(t, f.number(2.0))), x)


def logistic(f: Formula, x: str) -> str:
    """1 / (1 + e^-x)."""
    one = f.number(1.0)
    return f.divide(one, f.add(one, exp(f, f.negate(x))))


def sinh(f: Formula, x: str) -> str:
    """(t + t / (t + 1)) / 2, with t = e^|x| - 1."""
    t = _expm1(f, _at_most(f, f.magnitude(x), LARGEST))
    y = f.add(t, f.divide(t, f.add(t, f.number(1.0))))
    return f.with_sign(f.multiply(f.number(0.5), y), x)


def cosh(f: Formula, x: str) -> str:
    """(t + 1 / t) / 2, with t = e^|x|."""
    half, t = f.number(0.5), _exp(f, _at_most(f, f.magnitude(x), LARGEST))
    return f.multiply_add(half, t, f.divide(half, t))


def _logarithm(f: Formula, u: str, terms: Sequence[float], near_one: str | None = None) -> str:
    """Ln(u) = e ln(2) + ln(1 + g) of a positive number.

    Args:
        near_one: what u is more than 1, if that is known better than u is.
    """
    e, m = exponent_and_significand(f, u, ONE - SQRT_HALF)
    g = f.subtract(m, f.number(1.0))
    if near_one is not None:
        g = f.select("oeq", e, f.number(0.0), near_one, g)
    return f.multiply_add(e, f.number(LN2), f.multiply(g, f.polynomial(g, terms)))


def log(f: Formula, x: str) -> str:
    """Ln(x)."""
    return where_defined(f, x, _logarithm(f, x, coefficients.LOG_SINGLE), 0.0)


def _log1p(f: Formula, x: str) -> str:
    """Ln(1 + x), but of no zero, of which the sign is lost."""
    u = f.add(f.number(1.0), x)
    return where_defined(f, x, _logarithm(f, u, coefficients.LOG_SINGLE, x), -1.0)


def log1p(f: Formula, x: str) -> str:
    """Ln(1 + x)."""
    return f.select("oeq", x, f.number(0.0), x, _log1p(f, x))


def asinh(f: Formula, x: str) -> str:
    """Ln(1 + t), with t = |x| + x^2 / (1 + sqrt(1 + x^2))."""
    a, one, infinity = f.magnitude(x), f.number(1.0), f.number(math.inf)
    square = f.multiply(a, a)
    root = f.intrinsic("sqrt", f.add(square, one))
    y = _log1p(f, f.add(a, f.divide(square, f.add(one, root))))
    return f.with_sign(f.select("oeq", a, infinity, infinity, y), x)


def acosh(f: Formula, x: str) -> str:
    """Ln(1 + t), with t = d + sqrt(d^2 + 2 d) and d = x - 1."""
    d = f.subtract(x, f.number(1.0))
    root = f.intrinsic("sqrt", f.multiply_add(d, d, f.add(d, d)))
    y = log1p(f, f.add(d, root))
    return f.select("olt", x, f.number(1.0), f.number(math.nan), y)


def atanh(f: Formula, x: str) -> str:
    """Ln(1 + t) / 2, with t = 2 |x| / (1 - |x|)."""
    a = f.magnitude(x)
    t = f.divide(f.add(a, a), f.subtract(f.number(1.0), a))
    return f.with_sign(f.multiply(f.number(0.5), _log1p(f, t)), x)


def power(f: Formula, a: str, y: str) -> str:
    """a^y = e^(y ln(a)) of a number that is not negative; the logarithm has a dozen bits more than others."""
    logarithm = where_defined(f, a, _logarithm(f, a, coefficients.LOG_POWER), 0.0)
    return exp(f, f.multiply(y, logarithm))


def _less_multiple_of_pi(f: Formula, x: str, n: str) -> str:
    return f.multiply_add(n, f.number(-PI_LOW), f.multiply_add(n, f.number(-PI), x))


def _sine(f: Formula, r: str) -> str:
    """sin(r) of a number between -pi / 2 and pi / 2."""
    return f.multiply(r, f.polynomial(f.multiply(r, r), (1.0, *coefficients.SIN_SINGLE)))


def _negated_if_odd(f: Formula, y: str, n: str) -> str:
    """y or -y, by the last bit of an integer."""
    sign = f.integer("shl", n, 63)
    return f.of_bits(f.code.value(f"xor {f.integers} {f.bits(y)}, {sign}"))


def sin(f: Formula, x: str) -> str:
    """The sine of r, negated for an odd n, with x = n pi + r."""
    shifted = f.multiply_add(x, f.number(1.0 / math.pi), f.number(ROUNDER))
    r = _less_multiple_of_pi(f, x, f.subtract(shifted, f.number(ROUNDER)))
    return _negated_if_odd(f, _sine(f, r), f.bits(shifted))


def cos(f: Formula, x: str) -> str:
    """The sine of r, negated for an even n, with x = (n + 1/2) pi + r."""
    half = f.number(0.5)
    below = f.multiply_add(x, f.number(1.0 / math.pi), f.number(-0.5))
    shifted = f.add(below, f.number(ROUNDER))
    n = f.subtract(shifted, f.number(ROUNDER))
    r = _less_multiple_of_pi(f, x, f.add(n, half))
    return _negated_if_odd(f, _sine(f, r), f.integer("add", f.bits(shifted), 1))


def tan(f: Formula, x: str) -> str:
    """sin(r) / cos(r) of an even n, -cos(r) / sin(r) of an odd one, with x = n pi / 2 + r."""
    shifted = f.multiply_add(x, f.number(2.0 / math.pi), f.number(ROUNDER))
    n = f.subtract(shifted, f.number(ROUNDER))
    r = _less_multiple_of_pi(f, x, f.multiply(n, f.number(0.5)))
    sine = _sine(f, r)
    cosine = f.polynomial(f.multiply(r, r), (1.0, -0.5, *coefficients.COS_SINGLE))
    is_odd = f.has_bit(f.bits(shifted), 0)
    above = f.either(is_odd, f.negate(cosine), sine)
    return f.divide(above, f.either(is_odd, sine, cosine))


def _slope(f: Formula, above: str, below: str) -> str:
    """The inverse tangent of a quotient between 0 and 1."""
    is_steep = f.compare("ogt", above, f.multiply(below, f.number(STEEP)))
    top = f.either(is_steep, f.subtract(above, below), above)
    bottom = f.either(is_steep, f.add(below, above), below)
    t = f.divide(top, bottom)
    angle = f.multiply(t, f.polynomial(f.multiply(t, t), (1.0, *coefficients.ATAN_SINGLE)))
    return f.add(f.either(is_steep, f.number(math.pi / 4), f.number(0.0)), angle)


def _taken_away(f: Formula, chosen: str, whole: float, angle: str) -> str:
    """The angle taken away from another, where a truth says so."""
    return f.either(chosen, f.subtract(f.number(whole), angle), angle)


def atan(f: Formula, x: str) -> str:
    """Of |x|, or a half of pi less that of 1 / |x|."""
    a, one = f.magnitude(x), f.number(1.0)
    is_beyond = f.compare("ogt", a, one)
    angle = _slope(f, f.either(is_beyond, one, a), f.either(is_beyond, a, one))
    return f.with_sign(_taken_away(f, is_beyond, math.pi / 2, angle), x)


def atan2(f: Formula, y: str, x: str) -> str:
    """The angle of a point with the first axis."""
    a, b = f.magnitude(y), f.magnitude(x)
    is_beyond = f.compare("ogt", a, b)
    above, below = f.either(is_beyond, b, a), f.either(is_beyond, a, b)
    zero, one, infinity = f.number(0.0), f.number(1.0), f.number(math.inf)
    is_infinite = f.compare("oeq", below, infinity)
    both = f.select("oeq", above, infinity, one, zero)
    above, below = f.either(is_infinite, both, above), f.either(is_infinite, one, below)
    below = f.select("oeq", below, zero, one, below)
    angle = _taken_away(f, is_beyond, math.pi / 2, _slope(f, above, below))
    is_left = f.compare("olt", f.with_sign(one, x), zero)
    angle = f.with_sign(_taken_away(f, is_left, math.pi, angle), y)
    return f.select("uno", x, y, f.add(x, y), angle)


def _chord(f: Formula, x: str) -> tuple[str, str]:
    """Whether |x| is at most a half, and asin(|x|), else asin(sqrt((1 - |x|) / 2))."""
    a, half = f.magnitude(x), f.number(0.5)
    is_small = f.compare("ole", a, half)
    z = f.multiply(half, f.subtract(f.number(1.0), a))
    s = f.either(is_small, a, f.intrinsic("sqrt", z))
    z = f.either(is_small, f.multiply(a, a), z)
    return is_small, f.multiply(s, f.polynomial(z, (1.0, *coefficients.ASIN_SINGLE)))


def asin(f: Formula, x: str) -> str:
    """Of |x|, or a half of pi less twice that of sqrt((1 - |x|) / 2)."""
    is_small, angle = _chord(f, x)
    large = f.multiply_add(f.number(-2.0), angle, f.number(math.pi / 2))
    return f.with_sign(f.either(is_small, angle, large), x)


def acos(f: Formula, x: str) -> str:
    """A half of pi less asin(x), or twice asin(sqrt((1 - |x|) / 2)), or pi less that."""
    is_small, angle = _chord(f, x)
    side = f.select("olt", x, f.number(0.0), f.number(math.pi), f.number(0.0))
    start = f.either(is_small, f.number(math.pi / 2), side)
    near, far = f.with_sign(f.number(1.0), f.negate(x)), f.with_sign(f.number(2.0), x)
    return f.multiply_add(f.either(is_small, near, far), angle, start)


def erf(f: Formula, x: str) -> str:
    """x P(x^2), which is 1 from where on it is rounded to that."""
    a = _at_most(f, f.magnitude(x), LARGEST_ERF)
    middle = f.subtract(f.multiply(a, a), f.number(MIDDLE_ERF))
    return f.with_sign(f.multiply(a, f.polynomial(middle, coefficients.ERF_SINGLE)), x)


def _complement(f: Formula, a: str) -> str:
    """erfc(a) = e^(-a^2) Q(q) / (1 + 2 a), with q = (a - k) / (a + k), of a number between 0 and `LARGEST_ERFC`.

    Both quotients are products with one over both of what they are divided by.
    """
    k = f.number(CENTRE)
    first, second = f.add(a, k), f.multiply_add(f.number(2.0), a, f.number(1.0))
    inverse = f.divide(f.number(1.0), f.multiply(first, second))
    q = f.multiply(f.multiply(f.subtract(a, k), second), inverse)
    y = f.multiply(f.polynomial(q, coefficients.ERFC_SINGLE), f.multiply(first, inverse))
    return f.multiply(_exp(f, f.negate(f.multiply(a, a))), y)


def erfc(f: Formula, x: str) -> str:
    """The complement of |x|; of negative numbers two less it."""
    y = _complement(f, _at_most(f, f.magnitude(x), LARGEST_ERFC))
    return f.select("olt", x, f.number(0.0), f.subtract(f.number(2.0), y), y)


def erfinv(f: Formula, x: str) -> str:
    """x P(w) with w = -ln(1 - x^2), or x Q(sqrt(w)) where that is large."""
    a, one = f.magnitude(x), f.number(1.0)
    product = f.multiply(f.subtract(one, a), f.add(one, a))
    w = f.negate(_logarithm(f, product, coefficients.LOG_SINGLE))
    near = f.polynomial(f.subtract(w, f.number(MIDDLE_W)), coefficients.ERFINV_SINGLE)
    root = f.subtract(f.intrinsic("sqrt", w), f.number(MIDDLE_ROOT))
    far = f.polynomial(root, coefficients.ERFINV_FAR_SINGLE)
    y = f.multiply(x, f.select("olt", w, f.number(2.0 * MIDDLE_W), near, far))
    infinity = f.with_sign(f.number(math.inf), x)
    y = f.select("oeq", a, one, infinity, y)
    return f.select("ogt", a, one, f.number(math.nan), y)


def hypot(f: Formula, x: str, y: str) -> str:
    """The root of x^2 + y^2; infinite where one of them is."""
    root = f.intrinsic("sqrt", f.multiply_add(x, x, f.multiply(y, y)))
    infinity = f.number(math.inf)
    for a in (f.magnitude(x), f.magnitude(y)):
        root = f.select("oeq", a, infinity, infinity, root)
    return root
