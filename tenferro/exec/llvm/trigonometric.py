"""LLVM code of sine, cosine and tangent: a reduction of the argument by multiples of pi / 2, and two polynomials.

The reduction is Cody and Waite's. pi / 2 is split into parts of 33 bits, so that products with integers of up to 20
bits are exact. For larger arguments, the C library is called.

Sources: both polynomials are evaluated as Ng's in fdlibm; Cody and Waite, Software Manual for the Elementary Functions,
1980; two-sum is Knuth's.
"""

from __future__ import annotations

import math

from tenferro.exec.llvm import coefficients
from tenferro.exec.llvm.formula import ROUNDER, Formula
from tenferro.exec.llvm.ir import Value

__all__ = ["MAX_ARGUMENT", "cos", "sin", "tan"]

MAX_ARGUMENT = 2.0**19
"""Magnitude below which arguments are reduced by this module."""
HALF_PI = [
    float.fromhex(part)
    for part in ("0x1.921fb544p+0", "0x1.0b4611a6p-34", "0x1.3198a2ep-69", "0x1.b839a252049c1p-104")
]
"""Parts of 33 bits of pi / 2, and the rest."""


def _reduced(f: Formula, x: Value) -> tuple[Value, Value, Value]:
    """Write n, r and low with x = n pi / 2 + r + low and |r| <= pi / 4; n is the last bits of an i64."""
    shifted = f.multiply_add(x, f.number(2 / math.pi), f.number(ROUNDER))
    n = f.subtract(shifted, f.number(ROUNDER))
    first, second, third, fourth = [f.multiply(n, f.number(part)) for part in HALF_PI]
    near, low = f.two_difference(f.subtract(x, first), second)
    near, lost = f.two_difference(near, third)
    low = f.subtract(f.add(low, lost), fourth)
    r = f.add(near, low)
    return f.bits(shifted), r, f.subtract(low, f.subtract(r, near))


def _sine(f: Formula, r: Value, r_low: Value) -> Value:
    """Write sin(r + r_low) as r + r^3 p(r^2) + r_low cos(r), with a polynomial p."""
    terms, z = coefficients.SIN, f.multiply(r, r)
    cube = f.multiply(z, r)
    tail = f.polynomial(z, terms[1:])
    low = f.subtract(f.multiply(f.number(0.5), r_low), f.multiply(cube, tail))
    low = f.subtract(f.multiply(z, low), r_low)
    return f.subtract(r, f.subtract(low, f.multiply(cube, f.number(terms[0]))))


def _cosine(f: Formula, r: Value, r_low: Value) -> Value:
    """Write cos(r + r_low) as 1 - r^2 / 2 + r^4 q(r^2) - r r_low, with a polynomial q.

    The rounding error of 1 - r^2 / 2 is corrected.
    """
    z = f.multiply(r, r)
    half, one = f.multiply(f.number(0.5), z), f.number(1.0)
    tail = f.multiply(f.multiply(z, z), f.polynomial(z, coefficients.COS))
    high = f.subtract(one, half)
    lost = f.subtract(f.subtract(one, high), half)
    return f.add(high, f.add(lost, f.subtract(tail, f.multiply(r, r_low))))


def _pair(f: Formula, x: Value) -> tuple[Value, Value, Value]:
    """Write the number n of `_reduced`, and the sine and the cosine of the reduced argument."""
    n, r, low = _reduced(f, x)
    return n, _sine(f, r, low), _cosine(f, r, low)


def _by_quadrant(f: Formula, n: Value, even: Value, odd: Value) -> Value:
    """Write `odd` if bit 0 of n is 1, else `even`; it is negated if bit 1 of n is 1."""
    y = f.either(f.has_bit(n, 0), odd, even)
    return f.either(f.has_bit(n, 1), f.negate(y), y)


def sin(f: Formula, x: Value) -> Value:
    """Write sin x."""
    n, sine, cosine = _pair(f, x)
    y = _by_quadrant(f, n, sine, cosine)
    return f.select("oeq", x, f.number(0.0), x, y)


def cos(f: Formula, x: Value) -> Value:
    """Write cos x = sin(x + pi / 2)."""
    n, sine, cosine = _pair(f, x)
    return _by_quadrant(f, f.integer("add", n, 1), sine, cosine)


def tan(f: Formula, x: Value) -> Value:
    """Write tan x = sin(x) / cos(x)."""
    n, sine, cosine = _pair(f, x)
    is_odd = f.has_bit(n, 0)
    above = f.either(is_odd, f.negate(cosine), sine)
    y = f.divide(above, f.either(is_odd, sine, cosine))
    return f.select("oeq", x, f.number(0.0), x, y)
