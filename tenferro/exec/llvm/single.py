"""LLVM code of functions of float32, which are evaluated in float64; the caller rounds the result.

The formulas are simpler than for float64, because a float64 has 29 more bits than the result. Rounding errors need no
correction, polynomials have few terms, nothing overflows or underflows, and no argument is subnormal in float64.
"""

from __future__ import annotations

import math
from functools import partial

from tenferro.exec.llvm import coefficients
from tenferro.exec.llvm import exponential as ex
from tenferro.exec.llvm.formula import ROUNDER, Formula
from tenferro.exec.llvm.ir import Value

__all__ = ["exp", "expm1", "log", "log1p", "logistic", "tanh"]

EXP_OVERFLOW = 104.0
"""Argument x above which e^x is infinite and e^-x is 0 in float32."""
LN2 = math.log(2.0)


def _reduced(f: Formula, x: Value) -> tuple[Value, Value]:
    """Write r with x = n ln(2) + r for an integer n, and a number whose last bits are n."""
    shifted = f.multiply_add(x, f.number(1.0 / LN2), f.number(ROUNDER))
    n = f.subtract(shifted, f.number(ROUNDER))
    return f.multiply_add(n, f.number(-LN2), x), shifted


def _times_power(f: Formula, y: Value, shifted: Value) -> Value:
    """Write 2^n y by adding n to the exponent bits; y must be positive, and y and the result must be normal.

    The last bits of `shifted` are n.
    """
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
    """Write x clamped to -`EXP_OVERFLOW` .. `EXP_OVERFLOW`, or NaN if x is NaN."""
    low = f.number(-EXP_OVERFLOW)
    return f.select("olt", x, low, low, ex.minimum(f, x, EXP_OVERFLOW))


def exp(f: Formula, x: Value) -> Value:
    """Write e^x."""
    return _exp(f, _clamped(f, x))


def expm1(f: Formula, x: Value) -> Value:
    """Write e^x - 1."""
    return f.with_sign(_expm1(f, _clamped(f, x)), x)


tanh = partial(ex.tanh, expm1=_expm1)


def logistic(f: Formula, x: Value) -> Value:
    """Write 1 / (1 + e^-x)."""
    one = f.number(1.0)
    return f.divide(one, f.add(one, exp(f, f.negate(x))))


def _logarithm(f: Formula, u: Value, near_one: Value | None = None) -> Value:
    """Write ln(u) = e ln(2) + ln(1 + g) for positive u.

    Args:
        near_one: u - 1 without the rounding error of u; None if it is not known.
    """
    e, m = ex.exponent_and_significand(f, u, ex.ONE - ex.SQRT_HALF)
    g = f.subtract(m, f.number(1.0))
    if near_one is not None:
        g = f.select("oeq", e, f.number(0.0), near_one, g)
    return f.multiply_add(e, f.number(LN2), f.multiply(g, f.polynomial(g, coefficients.LOG_SINGLE)))


def log(f: Formula, x: Value) -> Value:
    """Write ln(x)."""
    return ex.where_defined(f, x, _logarithm(f, x), 0.0)


def _log1p(f: Formula, x: Value) -> Value:
    """Write ln(1 + x), which has the wrong sign for x = -0."""
    u = f.add(f.number(1.0), x)
    return ex.where_defined(f, x, _logarithm(f, u, x), -1.0)


def log1p(f: Formula, x: Value) -> Value:
    """Write ln(1 + x)."""
    return f.select("oeq", x, f.number(0.0), x, _log1p(f, x))
