"""LLVM code of functions of float32, which are evaluated in float64; the caller rounds the result.

Because a float64 has 29 more bits than the result, rounding errors need no correction, and polynomials have few terms.
Nothing overflows or underflows, and no argument is subnormal in float64.
"""

from __future__ import annotations

import math
from functools import partial

from tenferro.exec.llvm import coefficients
from tenferro.exec.llvm import exponential as ex
from tenferro.exec.llvm.formula import (
    ROUNDER,
    Number,
    copysign,
    from_bits,
    multiply_add,
    polynomial,
    where,
)

__all__ = ["exp", "expm1", "log", "log1p", "logistic", "tanh"]

EXP_OVERFLOW = 104.0
"""Argument x above which e^x is infinite and e^-x is 0 in float32."""
LN2 = math.log(2.0)


def _reduced(x: Number) -> tuple[Number, Number]:
    """Write r with x = n ln(2) + r for an integer n, and a number whose last bits contain n."""
    shifted = multiply_add(x, 1.0 / LN2, ROUNDER)
    n = shifted - ROUNDER
    return multiply_add(n, -LN2, x), shifted


def _times_power(y: Number, shifted: Number) -> Number:
    """Write 2^n y by adding n, the last bits of `shifted`, to the exponent bits.

    y must be positive, and y and the result must be normal.
    """
    return from_bits(y.bits() + (shifted.bits() << 52))


def _exp(x: Number) -> Number:
    """Write e^x = 2^n e^r for -700 <= x <= 700, or NaN."""
    r, shifted = _reduced(x)
    return _times_power(polynomial(r, (1.0, 1.0, *coefficients.EXP_SINGLE)), shifted)


def _expm1(x: Number) -> Number:
    """Write e^x - 1 = 2^n (e^r - 1) + (2^n - 1) for -700 <= x <= 700, or NaN."""
    r, shifted = _reduced(x)
    y = r * polynomial(r, (1.0, *coefficients.EXP_SINGLE))
    scale = _times_power(r.constant(1.0), shifted)
    return multiply_add(scale, y, scale - 1.0)


def _clamped(x: Number) -> Number:
    """Write x clamped to -`EXP_OVERFLOW` .. `EXP_OVERFLOW`, or NaN if x is NaN."""
    return where(x < -EXP_OVERFLOW, -EXP_OVERFLOW, ex.minimum(x, EXP_OVERFLOW))


def exp(x: Number) -> Number:
    """Write e^x."""
    return _exp(_clamped(x))


def expm1(x: Number) -> Number:
    """Write e^x - 1."""
    return copysign(_expm1(_clamped(x)), x)


tanh = partial(ex.tanh, expm1=_expm1)


def logistic(x: Number) -> Number:
    """Write 1 / (1 + e^-x)."""
    return 1.0 / (1.0 + exp(-x))


def _logarithm(u: Number, near_one: Number | None = None) -> Number:
    """Write ln(u) = e ln(2) + ln(1 + g) for positive u.

    Args:
        near_one: u - 1 without the rounding error of u, or None.
    """
    e, m = ex.exponent_and_significand(u, ex.ONE - ex.SQRT_HALF)
    g = m - 1.0
    if near_one is not None:
        g = where(e.equals(0.0), near_one, g)
    return multiply_add(e, LN2, g * polynomial(g, coefficients.LOG_SINGLE))


def log(x: Number) -> Number:
    """Write ln(x)."""
    return ex.where_defined(x, _logarithm(x), 0.0)


def _log1p(x: Number) -> Number:
    """Write ln(1 + x), which has the wrong sign for x = -0."""
    u = 1.0 + x
    return ex.where_defined(x, _logarithm(u, x), -1.0)


def log1p(x: Number) -> Number:
    """Write ln(1 + x)."""
    return where(x.equals(0.0), x, _log1p(x))
