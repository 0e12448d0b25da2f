"""Derivative rules of the analytic ops, such as exp and tanh. The derivative, or slope, is a formula in x and y = f(x).

Among equivalent formulas, a rule uses a formula that neither overflows nor cancels, and whose own derivatives do not
overflow or cancel. For example, 1 - tanh(x)^2 loses every digit at x = 20, and 1 / sqrt(1 + x^2) is zero from
x = 1e154 on. The formula e^(-x^2) is 0 at infinity, but its derivative there would be 0 times infinity.

Source: Abramowitz and Stegun, chapters 4 and 6 and section 7.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

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

__all__ = ["ROWS", "SLOPES"]


Slope = Callable[[Value, Value], Value]
SlopeTangent = Callable[[Value, Value], Value]


def over(denominator: str) -> AdRule:
    """Return the rule y_dot = x_dot / x, or x_dot / (1 + x).

    It divides x_dot directly, because the reciprocal could overflow.
    """

    def jvp(op: StdTensorOp, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
        (x,), (x_dot,) = inputs, tangents
        assert x_dot is not None
        return (x_dot / (x if denominator == "x" else x + 1),)

    return jvp_only(jvp)


def finite(x: Value) -> Value:
    """Replace infinities by the largest finite number, so that a derivative is 0 at infinity, not NaN."""
    largest = float(ml_dtypes.finfo(x.dtype.dtype).max)
    return clamp(x, -largest, largest)


def scaled(y: Value, x: Value) -> tuple[Value, Value, Value]:
    """Compute y r, x r and r for r = 1 / max(|y|, |x|), clamped to normal numbers; r is 0 if x or y is infinite.

    The slopes of atan2 multiply by r. The derivative of the quotient y / m, with m = max(|y|, |x|), would be 0 times
    infinity for y = 0 and small m.
    """
    info = ml_dtypes.finfo(x.dtype.dtype)
    is_infinite = compare(maximum(abs_(y), abs_(x)), "EQ", math.inf)
    y, x = finite(y), finite(x)
    r = 1 / clamp(maximum(abs_(y), abs_(x)), 4 * float(info.tiny), float(info.max) / 4)
    return y * r, x * r, select(is_infinite, 0, r)


def atan2_by_y(y: Value, x: Value, angle: Value) -> Value:
    """x / (x^2 + y^2), without overflow; 0 at the origin."""
    v, u, r = scaled(y, x)
    return quotient_or_zero(u, u * u + v * v) * r


def atan2_by_x(y: Value, x: Value, angle: Value) -> Value:
    """-y / (x^2 + y^2), without overflow; 0 at the origin."""
    v, u, r = scaled(y, x)
    return -quotient_or_zero(v, u * u + v * v) * r


def quotient_or_zero(x: Value, y: Value) -> Value:
    """x / y. The value and its derivatives are 0 where y is 0."""
    return select(is_zero(y), 0, x / select(is_zero(y), 1, y))


def below_one(x: Value) -> Value:
    """1 - x^2 for real x, computed as (1 - x) (1 + x) where 1/2 < |x| < 1.

    The product (1 - x) (1 + x) is used only there, because near zero its derivative cancels. At |x| = 1, reverse mode
    would multiply infinity by zero.
    """
    is_as_written = compare(abs_(abs_(x) - 0.75), "GE", 0.25)
    return select(is_as_written, 1 - x * x, (1 - x) * (1 + x))


def times_i(x: Value) -> Value:
    """Return i x from the real and imaginary parts of x, so that an infinite part does not make the other part NaN."""
    return complex_(-imag(x), real(x))


def near_and_far(x: Value) -> tuple[Value, Value, Value]:
    """Return whether |x| < 1/2, and two copies of x: one is 0 where |x| >= 1/2, the other is 0 where |x| < 1/2.

    Callers use 1 - x^2 near zero, where the derivatives of 1 - x and 1 + x cancel. Far from zero they use 1 - x and
    1 + x. There x^2 could overflow, and loses the sign of the imaginary part, which distinguishes the two sides of a
    branch cut.
    """
    is_near = compare(abs_(x), "LT", 0.5)
    return is_near, select(is_near, x, 0), select(is_near, 0, x)


def one_minus_and_plus(x: Value) -> tuple[Value, Value]:
    """Return 1 - x and 1 + x for complex x, computed such that the sign of an imaginary zero is preserved."""
    return -(x - 1), x - (-1)


def reciprocal_root(x: Value) -> Value:
    """1 / sqrt(1 - x^2), on the principal sheet for complex x."""
    if not x.dtype.is_complex:
        return rsqrt(below_one(x))
    is_near, near, far = near_and_far(x)
    below, above = one_minus_and_plus(far)
    return select(is_near, rsqrt(1 - near * near), rsqrt(below) * rsqrt(above))


def atanh_slope(x: Value) -> Value:
    """1 / (1 - x^2), the derivative of atanh."""
    if not x.dtype.is_complex:
        return 1 / below_one(x)
    is_near, near, far = near_and_far(x)
    below, above = one_minus_and_plus(far)
    return select(is_near, 1 / (1 - near * near), (1 / below) * (1 / above))


def acosh_slope(x: Value) -> Value:
    """1 / (sqrt(x - 1) sqrt(x + 1)), on the principal sheet for complex x.

    Near zero the real axis is a branch cut: the slope is -i / sqrt(1 - x^2) above it, and i / sqrt(1 - x^2) below it.
    """
    if not x.dtype.is_complex:
        return rsqrt(x - 1) * rsqrt(x + 1)
    is_near, near, far = near_and_far(x)
    turned = times_i(rsqrt(1 - near * near))
    is_above = compare(apply_one(ops.Atan2(), imag(x), full(imag(x), -1)), "GT", 0)
    return select(is_near, select(is_above, -turned, turned), rsqrt(far - 1) * rsqrt(far - (-1)))


def cbrt_slope(x: Value, y: Value) -> Value:
    """1 / (3 y^2) for y = cbrt(x), computed as (1/y) (1/y) / 3, because y^2 and its derivative are zero at zero."""
    r = 1 / y
    return r * r / 3


def sech_squared(x: Value, tanh: Value) -> Value:
    """1 / cosh(x)^2, computed as 1 - tanh(x)^2 near zero, and as (2 e)^2 / (1 + e^2)^2 with e = e^-|x| elsewhere.

    Neither the value nor its derivative cancels. Intermediate values are at most two, so a cotangent underflows only if
    the result does. If 1 / cosh(x)^2 were computed as written, a cotangent would be as small as the third power of the
    result, and would underflow.
    """
    is_near = compare(abs_(x), "LT", 0.5)
    e = decay(select(is_near, 1, x))
    double, denominator = e + e, 1 + e * e
    return select(is_near, 1 - tanh * tanh, double * double / (denominator * denominator))


def logistic_slope(x: Value) -> Value:
    """1 / (4 cosh(x / 2)^2), the derivative of the logistic function, by the two formulas of `sech_squared`."""
    is_near = compare(abs_(x), "LT", 1)
    tanh = apply_one(ops.Tanh(), 0.5 * select(is_near, x, 0))
    e = decay(select(is_near, 1, x))
    return select(is_near, 0.25 * (1 - tanh * tanh), e / ((1 + e) * (1 + e)))


def decay(x: Value) -> Value:
    """e^-|x|; for complex x, e^x if the real part is negative, else e^-x."""
    return exp(select(compare(real(x), "LT", 0), x, -x))


def sec_squared(x: Value, y: Value) -> Value:
    """1 / cos(x)^2 = 1 + y^2, where y = tan(x).

    For complex x far from the real axis, y is near i or -i, and 1 + y^2 would cancel. Complex x use `sech_squared`
    instead.
    """
    return sech_squared(times_i(x), times_i(y)) if x.dtype.is_complex else 1 + y * y


def bell(x: Value) -> Value:
    """e^(-x^2), with x clamped to |x| <= 28, where the result is 0 in every dtype."""
    x = clamp(x, -28, 28)
    return exp(-x * x)


def divided_by_magnitude(x: Value) -> tuple[Value, Value]:
    """Return v = x / m and u = 1 / m for m = max(|x|, 1); neither overflows, and u is 0 for infinite x."""
    m = maximum(abs_(x), full(x, 1))
    return finite(x) / finite(m), 1 / m


def atan_slope(x: Value, y: Value) -> Value:
    """1 / (1 + x^2) = u^2 / (u^2 + v^2) for v = x / m, u = 1 / m and m = max(|x|, 1)."""
    if x.dtype.is_complex:
        return atanh_slope(times_i(x))
    v, u = divided_by_magnitude(x)
    return u * u / (u * u + v * v)


def asinh_slope(x: Value, y: Value) -> Value:
    """1 / sqrt(1 + x^2) = u / sqrt(u^2 + v^2) for v = x / m, u = 1 / m and m = max(|x|, 1)."""
    if x.dtype.is_complex:
        return reciprocal_root(times_i(x))
    v, u = divided_by_magnitude(x)
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
        ops.Tan: partials(sec_squared),
        ops.Tanh: partials(sech_squared),
        ops.Logistic: partials(lambda x, y: logistic_slope(x)),
        ops.Atan2: partials(atan2_by_y, atan2_by_x),
        ops.Asin: partials(lambda x, y: reciprocal_root(x)),
        ops.Acos: partials(lambda x, y: -reciprocal_root(x)),
        ops.Atan: partials(atan_slope),
        ops.Sinh: partials(lambda x, y: cosh(x)),
        ops.Cosh: partials(lambda x, y: sinh(x)),
        ops.Asinh: partials(asinh_slope),
        ops.Acosh: partials(lambda x, y: acosh_slope(x)),
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

SLOPES: dict[type[StdTensorOp], tuple[Slope, SlopeTangent]] = {
    ops.Tanh: (sech_squared, lambda y, y_dot: -2 * (y * y_dot)),
    ops.Logistic: (lambda x, y: logistic_slope(x), lambda y, y_dot: (1 - 2 * y) * y_dot),
}
"""Ops y = f(x) that satisfy a differential equation y' = s(y).

Each entry has two functions: the slope s as a function of x and y, and the tangent of s(y) as a function of y and
y_dot.

Derivative rules use the slope. Taylor mode uses the tangent, because the formula of the slope has two branches.
"""
