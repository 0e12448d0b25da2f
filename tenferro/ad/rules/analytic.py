"""Derivatives of the analytic family: one line each, in x and in y = f(x).

Of equal formulas the one is taken that neither overflows nor cancels, and whose own derivatives do not
either: 1 - tanh(x)^2 loses every digit at x = 20, 1 / sqrt(1 + x^2) is zero from x = 1e154 on, and
e^(-x^2) is 0 at infinity while its derivative there would be 0 times infinity.

Source: Abramowitz and Stegun, chapters 4 and 6 and section 7.1.
"""

from __future__ import annotations

import math

import ml_dtypes

from tenferro.ad.algebra import (
    Value,
    abs_,
    apply_one,
    clamp,
    compare,
    complex_,
    cos,
    cosh,
    exp,
    full,
    imag,
    is_zero,
    maximum,
    real,
    rsqrt,
    select,
    sin,
    sinh,
)
from tenferro.ad.rule import (
    AdRows,
    AdRule,
    Tangents,
    Values,
    batched_by,
    elementwise_batch,
    jvp_only,
    partials,
)
from tenferro.ops import StdTensorOp
from tenferro.ops import analytic as ops

__all__ = ["ROWS"]


def over(denominator: str) -> AdRule:
    """y_dot = x_dot / x, which keeps a small x's full precision."""

    def jvp(op: StdTensorOp, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
        (x,), (x_dot,) = inputs, tangents
        assert x_dot is not None
        return (x_dot / (x if denominator == "x" else x + 1),)

    return jvp_only(jvp)


def finite(x: Value) -> Value:
    """x, an infinity as the largest number: derivatives vanish there."""
    largest = float(ml_dtypes.finfo(x.dtype.dtype).max)
    return clamp(x, -largest, largest)


def scaled(y: Value, x: Value) -> tuple[Value, Value, Value]:
    """Y / m, x / m and m = max(|y|, |x|), or 1 at the origin, where the derivative is taken as 0."""
    y, x = finite(y), finite(x)
    m = maximum(abs_(y), abs_(x))
    m = select(is_zero(m), 1, m)
    return y / m, x / m, m


def atan2_by_y(y: Value, x: Value, angle: Value) -> Value:
    """X / (x^2 + y^2), without overflow; 0 at the origin."""
    v, u, m = scaled(y, x)
    return nonzero_quotient(u, u * u + v * v) / m


def atan2_by_x(y: Value, x: Value, angle: Value) -> Value:
    """-y / (x^2 + y^2), without overflow; 0 at the origin."""
    v, u, m = scaled(y, x)
    return -nonzero_quotient(v, u * u + v * v) / m


def nonzero_quotient(x: Value, y: Value) -> Value:
    """X / y, and x where y is 0."""
    return x / select(is_zero(y), 1, y)


def below_one(x: Value) -> Value:
    """1 - x^2 for real x, as (1 - x) (1 + x) where 1/2 < |x| < 1.

    The slope of that product cancels near zero, and at one is an infinity times zero in reverse.
    """
    is_as_written = compare(abs_(abs_(x) - 0.75), "GE", 0.25)
    return select(is_as_written, 1 - x * x, (1 - x) * (1 + x))


def reciprocal_root(x: Value) -> Value:
    """1 / sqrt(1 - x^2), on the principal sheet for complex x."""
    if x.dtype.is_complex:
        return rsqrt(1 - x) * rsqrt(1 + x)
    return rsqrt(below_one(x))


def atanh_slope(x: Value) -> Value:
    """1 / (1 - x^2)."""
    return 1 / ((1 - x) * (1 + x) if x.dtype.is_complex else below_one(x))


def cbrt_slope(x: Value, y: Value) -> Value:
    """1 / (3 y^2), by reciprocals: a product of zeros has no slope to divide by."""
    r = 1 / y
    return r * r / 3


def sech_squared(x: Value) -> Value:
    """1 / cosh(x)^2, with a relative error of 3 ulps natively and of 26 by XLA's cosh.

    Its slope is -2 sinh / cosh^3, which is right near zero too: that of 4 / (e^x + e^-x)^2 cancels there.
    Where it underflows x is held fixed, so that cosh stays finite. The real part decides, for complex x.
    """
    smallest = float(ml_dtypes.finfo(x.dtype.real.dtype).smallest_subnormal)
    farthest = 0.5 * (math.log(8) - math.log(smallest))
    if x.dtype.is_complex:
        x = complex_(clamp(real(x), -farthest, farthest), imag(x))
    else:
        x = clamp(x, -farthest, farthest)
    sech = 1 / cosh(x)
    return sech * sech


def bell(x: Value) -> Value:
    """e^(-x^2), which is 0 from |x| = 28 on in every dtype: there x is held fixed."""
    x = clamp(x, -28, 28)
    return exp(-x * x)


def beside_one(x: Value) -> tuple[Value, Value]:
    """V = x / m and u = 1 / m for m = max(|x|, 1): neither overflows, also for infinite x."""
    x = finite(x)
    m = maximum(abs_(x), full(x, 1))
    return x / m, 1 / m


def atan_slope(x: Value, y: Value) -> Value:
    """1 / (1 + x^2) = u^2 / (u^2 + v^2)."""
    if x.dtype.is_complex:
        return 1 / (1 + x * x)
    v, u = beside_one(x)
    return u * u / (u * u + v * v)


def asinh_slope(x: Value, y: Value) -> Value:
    """1 / sqrt(1 + x^2) = u / sqrt(u^2 + v^2)."""
    if x.dtype.is_complex:
        return 1 / cosh(y)
    v, u = beside_one(x)
    return u * rsqrt(u * u + v * v)


ROWS: AdRows = batched_by(
    elementwise_batch,
    {
        ops.Exp: partials(lambda x, y: y),
        ops.Expm1: partials(lambda x, y: exp(x)),
        ops.Log: over("x"),
        ops.Log1p: over("1 + x"),
        ops.Sqrt: partials(lambda x, y: 0.5 / y),
        ops.Rsqrt: partials(lambda x, y: -0.5 * y / x),
        ops.Cbrt: partials(cbrt_slope),
        ops.Sin: partials(lambda x, y: cos(x)),
        ops.Cos: partials(lambda x, y: -sin(x)),
        ops.Tan: partials(lambda x, y: 1 + y * y),
        ops.Tanh: partials(lambda x, y: sech_squared(x)),
        ops.Logistic: partials(lambda x, y: y * apply_one(ops.Logistic(), -x)),
        ops.Atan2: partials(atan2_by_y, atan2_by_x),
        ops.Asin: partials(lambda x, y: reciprocal_root(x)),
        ops.Acos: partials(lambda x, y: -reciprocal_root(x)),
        ops.Atan: partials(atan_slope),
        ops.Sinh: partials(lambda x, y: cosh(x)),
        ops.Cosh: partials(lambda x, y: sinh(x)),
        ops.Asinh: partials(asinh_slope),
        ops.Acosh: partials(lambda x, y: rsqrt(x - 1) * rsqrt(x + 1)),
        ops.Atanh: partials(lambda x, y: atanh_slope(x)),
        ops.Erf: partials(lambda x, y: 2 / math.sqrt(math.pi) * bell(x)),
        ops.Erfc: partials(lambda x, y: -2 / math.sqrt(math.pi) * bell(x)),
        ops.ErfInv: partials(lambda x, y: math.sqrt(math.pi) / 2 * exp(y * y)),
        ops.Lgamma: partials(lambda x, y: apply_one(ops.Digamma(), x)),
        ops.Digamma: partials(lambda x, y: apply_one(ops.Polygamma(1), x)),
        ops.Polygamma: jvp_only(
            lambda op, xs, ys, dots: (apply_one(ops.Polygamma(op.order + 1), *xs) * dots[0],)
        ),
    },
)
