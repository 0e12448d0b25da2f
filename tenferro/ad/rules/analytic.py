"""Derivatives of the analytic family: one line each, in x and in y = f(x).

Of equal formulas the one is taken that neither overflows nor cancels: 1 - tanh(x)^2 loses every digit
at x = 20, and 1 / sqrt(1 + x^2) is zero from x = 1e154 on.

Source: Abramowitz and Stegun, chapters 4 and 6 and section 7.1.
"""

from __future__ import annotations

import math

from tenferro.ad.algebra import (
    Value,
    abs_,
    cos,
    cosh,
    emit,
    exp,
    is_zero,
    maximum,
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


def scaled(y: Value, x: Value) -> tuple[Value, Value, Value]:
    """Y / m, x / m and m = max(|y|, |x|), or 1 at the origin, where the derivative is taken as 0."""
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


def reciprocal_root(x: Value) -> Value:
    """1 / sqrt(1 - x^2), on the principal sheet for complex x."""
    return rsqrt(1 - x) * rsqrt(1 + x)


ROWS: AdRows = batched_by(
    elementwise_batch,
    {
        ops.Exp: partials(lambda x, y: y),
        ops.Expm1: partials(lambda x, y: exp(x)),
        ops.Log: over("x"),
        ops.Log1p: over("1 + x"),
        ops.Sqrt: partials(lambda x, y: 0.5 / y),
        ops.Rsqrt: partials(lambda x, y: -0.5 * y / x),
        ops.Cbrt: partials(lambda x, y: 1 / (3 * y * y)),
        ops.Sin: partials(lambda x, y: cos(x)),
        ops.Cos: partials(lambda x, y: -sin(x)),
        ops.Tan: partials(lambda x, y: 1 + y * y),
        ops.Tanh: partials(lambda x, y: (1 / cosh(x)) * (1 / cosh(x))),
        ops.Logistic: partials(lambda x, y: y * emit(ops.Logistic(), -x)),
        ops.Atan2: partials(atan2_by_y, atan2_by_x),
        ops.Asin: partials(lambda x, y: reciprocal_root(x)),
        ops.Acos: partials(lambda x, y: -reciprocal_root(x)),
        ops.Atan: partials(lambda x, y: 1 / (1 + x * x)),
        ops.Sinh: partials(lambda x, y: cosh(x)),
        ops.Cosh: partials(lambda x, y: sinh(x)),
        ops.Asinh: partials(lambda x, y: 1 / cosh(y)),
        ops.Acosh: partials(lambda x, y: rsqrt(x - 1) * rsqrt(x + 1)),
        ops.Atanh: partials(lambda x, y: 1 / ((1 - x) * (1 + x))),
        ops.Erf: partials(lambda x, y: 2 / math.sqrt(math.pi) * exp(-x * x)),
        ops.Erfc: partials(lambda x, y: -2 / math.sqrt(math.pi) * exp(-x * x)),
        ops.ErfInv: partials(lambda x, y: math.sqrt(math.pi) / 2 * exp(y * y)),
        ops.Lgamma: partials(lambda x, y: emit(ops.Digamma(), x)),
        ops.Digamma: partials(lambda x, y: emit(ops.Polygamma(1), x)),
        ops.Polygamma: jvp_only(
            lambda op, xs, ys, dots: (emit(ops.Polygamma(op.order + 1), *xs) * dots[0],)
        ),
    },
)
