"""Exponentials and logarithms: a reduced argument, a polynomial, and powers of two.

Sources: Muller et al., Handbook of Floating-Point Arithmetic, 2nd ed., chapter 10; the arrangement of the logarithm
is that of Ng's in fdlibm; two-sum is Knuth's.
"""

from __future__ import annotations

import math
import struct
import sys
from dataclasses import dataclass

from tenferro.exec.llvm import coefficients
from tenferro.exec.llvm.formula import BIAS, Formula

LOG2_E = 1.0 / math.log(2.0)
LN2_HIGH = float.fromhex("0x1.62e42feep-1")
"""The logarithm of 2 in so few bits that its products with exponents are exact, and the rest."""
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
SQRT_HALF = struct.unpack("<q", struct.pack("<d", math.sqrt(0.5)))[0]
ONE = struct.unpack("<q", struct.pack("<d", 1.0))[0]
SIGNIFICAND = (1 << 52) - 1
VANISHED = 60.0
"""e^x of what is below its negative adds nothing to 1."""
OVERFLOWN = 711.0
"""Half of e^x is infinite from here on."""
SATURATED = 22.0
"""The hyperbolic tangent of what is above it is 1."""
ONE_SIDED = 40.0
"""From where on e^-x adds nothing to e^x."""
TINY = 4e-9
"""Up to where the hyperbolic sine is the number itself, subnormal ones too, of which halves have fewer bits."""
LARGE = 1e18
"""A number whose square has no room for one more."""


@dataclass
class ReducedExp:
    """The parts of exp and expm1: e^x = 2^n (1 + r + rest), with |r| <= ln(2) / 2."""

    n: str
    r: str
    rest: str


def reduced(
    f: Formula,
    x: str,
    low: float,
    high: float,
    x_low: str | None = None,
) -> ReducedExp:
    """The parts of e^(x + x_low) for x between two bounds; NaN stays."""
    x = f.select("ogt", x, f.number(high), f.number(high), x)
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


def one_and(f: Formula, part: ReducedExp) -> str:
    """1 + r + rest; the error of the first sum is added with the rest."""
    one = f.number(1.0)
    y = f.add(one, part.r)
    lost = f.add(f.subtract(one, y), part.r)
    return f.add(y, f.add(lost, part.rest))


def scaled(f: Formula, y: str, n: str) -> str:
    """2^n y, in two steps, because 2^n may be too large or too small."""
    half = f.nearest(n, 0.5)
    y = f.multiply(y, f.power_of_two(half))
    return f.multiply(y, f.power_of_two(f.subtract(n, half)))


def exp(f: Formula, x: str) -> str:
    """2^n e^r."""
    part = reduced(f, x, -746.0, 710.0)
    return scaled(f, one_and(f, part), part.n)


def _halved_expm1(f: Formula, x: str, high: float) -> tuple[ReducedExp, str]:
    """The parts, and (e^x - 1) / 2, of which digits are lost where n is 0."""
    part = reduced(f, x, -VANISHED, high)
    scale = f.power_of_two(f.subtract(part.n, f.number(1.0)))
    half = f.number(0.5)
    base, step = f.subtract(scale, half), f.multiply(scale, part.r)
    y = f.add(base, step)
    lost = f.add(f.subtract(base, y), step)
    lost = f.add(lost, f.subtract(f.subtract(scale, base), half))
    return part, f.add(y, f.multiply_add(scale, part.rest, lost))


def expm1(f: Formula, x: str) -> str:
    """2 (2^(n-1) (e^r - 1) + (2^(n-1) - 1/2)), of which nothing is lost where n is 0."""
    part, half = _halved_expm1(f, x, 710.0)
    y = f.multiply(f.number(2.0), half)
    y = f.select("oeq", part.n, f.number(0.0), f.add(part.r, part.rest), y)
    return f.with_sign(y, x)


@dataclass
class NearOne:
    """1 + x + low = u + lost, with u rounded.

    Attributes:
        low: a small part of x, if it has one.
    """

    x: str
    low: str | None
    lost: str


def exponent_and_significand(f: Formula, a: str, offset: int) -> tuple[str, str]:
    """a = 2^e m of a positive normal number, m from the number with the bits of 1 less an offset on."""
    biased = f.integer("add", f.bits(a), offset)
    exponent = f.of_bits(f.integer("or", f.integer("lshr", biased, 52), 0x433 << 52))
    e = f.subtract(exponent, f.number(2.0**52 + BIAS))
    return e, f.of_bits(f.integer("add", f.integer("and", biased, SIGNIFICAND), ONE - offset))


def _logarithm(f: Formula, u: str, near: NearOne | None, halvings: str | None = None) -> str:
    """Ln(u) = e ln(2) + ln(1 + g) of a positive number; subnormal ones may come where none is near one.

    Args:
        near: what u is rounded from.
        halvings: how often u has been halved before.
    """
    if near is None:
        halvings = f.number(0.0)
        is_small = f.compare("olt", u, f.number(sys.float_info.min))
        halvings = f.either(is_small, f.number(-54.0), halvings)
        u = f.either(is_small, f.multiply(u, f.number(2.0**54)), u)
    e, m = exponent_and_significand(f, u, ONE - SQRT_HALF)
    if halvings is not None:
        e = f.add(e, halvings)
    g = f.subtract(m, f.number(1.0))
    low = f.multiply(e, f.number(LN2_LOW))
    if near is not None:
        is_near = f.compare("oeq", e, f.number(0.0))
        g = f.either(is_near, near.x, g)
        near_low = f.number(0.0) if near.low is None else near.low
        low = f.add(low, f.divide(f.either(is_near, near_low, near.lost), u))
    s = f.divide(g, f.add(f.number(2.0), g))
    z = f.multiply(s, s)
    half_square = f.multiply(f.multiply(f.number(0.5), g), g)
    tail = f.multiply(z, f.polynomial(z, coefficients.LOG))
    inner = f.multiply_add(s, f.add(half_square, tail), low)
    below = f.subtract(f.subtract(half_square, inner), g)
    return f.subtract(f.multiply(e, f.number(LN2_HIGH)), below)


def where_defined(f: Formula, x: str, y: str, pole: float) -> str:
    """Y; at the pole -infinity, below it NaN; infinity and NaN stay."""
    y = f.select("olt", x, f.number(math.inf), y, x)
    y = f.select("oeq", x, f.number(pole), f.number(-math.inf), y)
    return f.select("olt", x, f.number(pole), f.number(math.nan), y)


def log(f: Formula, x: str) -> str:
    """The logarithm."""
    return where_defined(f, x, _logarithm(f, x, None), 0.0)


def _log1p(
    f: Formula,
    x: str,
    low: str | None = None,
    halvings: str | None = None,
) -> str:
    """Ln(1 + x + low) - halvings ln(1/2); that is without the 1 where something has been halved."""
    one = f.number(1.0)
    u = f.add(one, x)
    # Exact but of x beyond 2^53, of whose logarithm the lost part is no digit.
    lost = f.subtract(x, f.subtract(u, one))
    if low is not None:
        lost = f.add(lost, low)
    y = _logarithm(f, u, NearOne(x, low, lost), halvings)
    return f.select("oeq", x, f.number(0.0), x, where_defined(f, x, y, -1.0))


def log1p(f: Formula, x: str) -> str:
    """Ln(u) + d / u, with u + d = 1 + x exactly."""
    return _log1p(f, x)


def tanh(f: Formula, x: str) -> str:
    """t / (t + 2), with t = e^(2|x|) - 1."""
    a, high = f.magnitude(x), f.number(SATURATED)
    a = f.select("ogt", a, high, high, a)
    t = expm1(f, f.add(a, a))
    return f.with_sign(f.divide(t, f.add(t, f.number(2.0))), x)


def logistic(f: Formula, x: str) -> str:
    """1 / (1 + e), or e / (1 + e) of a negative number, with e = e^-|x|."""
    e = exp(f, f.negate(f.magnitude(x)))
    above = f.select("olt", x, f.number(0.0), e, f.number(1.0))
    return f.divide(above, f.add(f.number(1.0), e))


def sinh(f: Formula, x: str) -> str:
    """t + t / (1 + 2 t), with t = (e^|x| - 1) / 2; of large numbers e^|x| / 2."""
    a = f.magnitude(x)
    part, half = _halved_expm1(f, a, OVERFLOWN)
    near = f.multiply(f.number(0.5), f.add(part.r, part.rest))
    half = f.select("oeq", part.n, f.number(0.0), near, half)
    above = f.multiply_add(f.number(2.0), half, f.number(1.0))
    y = f.add(half, f.divide(half, above))
    only_larger = scaled(f, one_and(f, part), f.subtract(part.n, f.number(1.0)))
    y = f.select("ogt", a, f.number(ONE_SIDED), only_larger, y)
    return f.with_sign(f.select("olt", a, f.number(TINY), a, y), x)


def cosh(f: Formula, x: str) -> str:
    """t + 1 / (4 t), with t = e^|x| / 2."""
    part = reduced(f, f.magnitude(x), 0.0, OVERFLOWN)
    t = scaled(f, one_and(f, part), f.subtract(part.n, f.number(1.0)))
    return f.add(t, f.divide(f.number(0.25), t))


def asinh(f: Formula, x: str) -> str:
    """Ln(1 + t), with t = |x| + x^2 / (1 + sqrt(1 + x^2))."""
    a, one = f.magnitude(x), f.number(1.0)
    is_large = f.compare("ogt", a, f.number(LARGE))
    near = f.either(is_large, one, a)
    square = f.multiply(near, near)
    root = f.intrinsic("sqrt", f.add(square, one))
    t, low = f.short_sum(near, f.divide(square, f.add(one, root)))
    t = f.either(is_large, a, t)
    y = _log1p(f, t, low, f.either(is_large, one, f.number(0.0)))
    return f.with_sign(y, x)


def acosh(f: Formula, x: str) -> str:
    """Ln(1 + t), with t = d + sqrt(d^2 + 2 d) and d = x - 1."""
    one = f.number(1.0)
    is_large = f.compare("ogt", x, f.number(LARGE))
    above = f.subtract(f.either(is_large, one, x), one)
    root = f.intrinsic("sqrt", f.multiply_add(above, above, f.add(above, above)))
    t, low = f.short_sum(root, above)
    t = f.either(is_large, x, t)
    y = _log1p(f, t, low, f.either(is_large, one, f.number(0.0)))
    return f.select("olt", x, one, f.number(math.nan), y)


def atanh(f: Formula, x: str) -> str:
    """Ln(1 + t) / 2, with t = 2 |x| / (1 - |x|)."""
    a, one = f.magnitude(x), f.number(1.0)
    below, lost = f.short_sum(one, f.negate(a))
    t, low = f.quotient(f.add(a, a), below, None, lost)
    return f.with_sign(f.multiply(f.number(0.5), _log1p(f, t, low)), x)
