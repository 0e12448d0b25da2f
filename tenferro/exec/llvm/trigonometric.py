"""LLVM code of sine, cosine and tangent: a reduction of the argument by multiples of pi / 2, and two polynomials.

The reduction is Cody and Waite's: pi / 2 is split into parts of 33 bits, whose products with integers of up to 20 bits
are exact. For larger arguments, the C library is called.

Sources: Cody and Waite, Software Manual for the Elementary Functions, 1980; K. C. Ng's sine and cosine in fdlibm.
"""

from __future__ import annotations

import math

from tenferro.exec.llvm import coefficients
from tenferro.exec.llvm.formula import (
    ROUNDER,
    Number,
    has_bit,
    multiply_add,
    polynomial,
    two_difference,
    where,
)

__all__ = ["MAX_ARGUMENT", "cos", "sin", "tan"]

MAX_ARGUMENT = 2.0**19
"""Magnitude below which arguments are reduced by this module."""
HALF_PI = [
    float.fromhex(part)
    for part in ("0x1.921fb544p+0", "0x1.0b4611a6p-34", "0x1.3198a2ep-69", "0x1.b839a252049c1p-104")
]
"""Parts of 33 bits of pi / 2, and the rest."""


def _reduced(x: Number) -> tuple[Number, Number, Number]:
    """Write n, r and low with x = n pi / 2 + r + low and |r| <= pi / 4; n is in the last bits of an i64."""
    shifted = multiply_add(x, 2 / math.pi, ROUNDER)
    n = shifted - ROUNDER
    first, second, third, fourth = [n * part for part in HALF_PI]
    near, low = two_difference(x - first, second)
    near, lost = two_difference(near, third)
    low = (low + lost) - fourth
    r = near + low
    return shifted.bits(), r, low - (r - near)


def _sine(r: Number, r_low: Number) -> Number:
    """Write sin(r + r_low) as r + r^3 p(r^2) + r_low cos(r), with a polynomial p."""
    terms, z = coefficients.SIN, r * r
    cube = z * r
    tail = polynomial(z, terms[1:])
    low = 0.5 * r_low - cube * tail
    low = z * low - r_low
    return r - (low - cube * terms[0])


def _cosine(r: Number, r_low: Number) -> Number:
    """Write cos(r + r_low) as 1 - r^2 / 2 + r^4 q(r^2) - r r_low, with a polynomial q.

    The rounding error of 1 - r^2 / 2 is corrected.
    """
    z = r * r
    half = 0.5 * z
    tail = (z * z) * polynomial(z, coefficients.COS)
    high = 1.0 - half
    lost = (1.0 - high) - half
    return high + (lost + (tail - r * r_low))


def _pair(x: Number) -> tuple[Number, Number, Number]:
    """Write the number n of `_reduced`, and the sine and the cosine of the reduced argument."""
    n, r, low = _reduced(x)
    return n, _sine(r, low), _cosine(r, low)


def _by_quadrant(n: Number, even: Number, odd: Number) -> Number:
    """Write `odd` if bit 0 of n is 1, else `even`; negate the number if bit 1 of n is 1."""
    y = where(has_bit(n, 0), odd, even)
    return where(has_bit(n, 1), -y, y)


def sin(x: Number) -> Number:
    """Write sin x."""
    n, sine, cosine = _pair(x)
    y = _by_quadrant(n, sine, cosine)
    return where(x.equals(0.0), x, y)


def cos(x: Number) -> Number:
    """Write cos x = sin(x + pi / 2)."""
    n, sine, cosine = _pair(x)
    return _by_quadrant(n + 1, sine, cosine)


def tan(x: Number) -> Number:
    """Write tan x = sin(x) / cos(x)."""
    n, sine, cosine = _pair(x)
    is_odd = has_bit(n, 0)
    above = where(is_odd, -cosine, sine)
    y = above / where(is_odd, sine, cosine)
    return where(x.equals(0.0), x, y)
