"""The modified Bessel function K of real order in standard ops, by quadrature.

K_v(x) = int exp(-x cosh t) cosh(v t) dt    over t > 0 (DLMF 10.32.9)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tenferro.api.creation import zeros_like
from tenferro.api.elementwise import (
    abs,
    acosh,
    add,
    divide,
    equal,
    exp,
    greater,
    greater_equal,
    less,
    lgamma,
    log,
    logical_and,
    multiply,
    negative,
    pow,
    remainder,
    rsqrt,
    sinh,
    square,
    subtract,
    where,
)
from tenferro.api.pointwise import sinc
from tenferro.api.polynomials import polynomial
from tenferro.api.quadrature import along_nodes
from tenferro.api.reductions import sum as sum_over
from tenferro.dispatch import spec_of, stop_gradient
from tenferro.special.functions import partial_of, written
from tenferro.types import Tensor

__all__ = ["TINY", "kv", "kv_by_order", "kv_of_tiny", "kve", "kve_by_order"]

STEPS = np.linspace(0.0, 1.0, 128)


TINY = 1e-10
"""Bound on x: below it x^2 is negligible, and from it on the quadrature with tabulated nodes is used."""
ZETAS = (
    0.017543859649122806, 0.01818181818181818, 0.01886792452830189, 0.019607843137254912, 0.02040816326530616,
    0.021276595744681003, 0.022222222222222855, 0.023255813953491015, 0.024390243902450117, 0.025641025641072283,
    0.027027027027223673, 0.02857142857226011, 0.030303030306558044, 0.03225806453115042, 0.034482758684919304,
    0.037037037312989324, 0.04000000119214014, 0.04347826605304026, 0.047619070330142226, 0.05263167937961666,
    0.058823978658684585, 0.06666870588242046, 0.0769325164113522, 0.09095401714582904, 0.11133426586956469,
    0.1440498967688461, 0.20738555102867398, 0.40068563438653143, 0.5772156649015329,
)  # fmt: skip
"""Coefficients of powers of v^2, highest first: zeta(2 k + 1) / (2 k + 1), and Euler's constant (DLMF 5.7.3)."""
SINH_SERIES = tuple(1.0 / math.factorial(2 * k + 1) for k in range(9, -1, -1))


def kv_of_tiny(v: Tensor, x: Tensor) -> Any:
    """Compute K_v(x) for tiny x as half of Gamma(v) (2/x)^v + Gamma(-v) (x/2)^v (DLMF 10.27.4 and 10.25.2).

    For small v this is sqrt(pi v / sin(pi v)) sinh(v m) / v, with
    m = log(2/x) - (log Gamma(1-v) - log Gamma(1+v)) / (2v).
    """
    height = subtract(math.log(2.0), log(x))
    order = abs(v)
    is_small = less(order, 0.5)
    small, large = where(is_small, v, 0.25), where(is_small, 0.75, order)
    squared = square(small)
    rise = subtract(height, polynomial(squared, ZETAS))
    angle = multiply(small, rise)
    is_flat = less(abs(angle), 0.5)
    flat, steep = where(is_flat, angle, 0.0), where(is_flat, 1.0, angle)
    growth = where(
        is_flat,
        multiply(rise, polynomial(square(flat), SINH_SERIES)),
        divide(sinh(steep), where(is_flat, 1.0, small)),
    )
    near = multiply(rsqrt(sinc(small)), growth)
    has_rest = less(large, 0.95)
    inner = where(has_rest, large, 0.75)
    rest = subtract(lgamma(subtract(1.0, inner)), lgamma(add(1.0, inner)))
    rest = exp(subtract(rest, multiply(2.0, multiply(inner, height))))
    far = multiply(pow(divide(2.0, x), large), exp(lgamma(large)))
    far = multiply(multiply(0.5, far), subtract(1.0, where(has_rest, rest, 0.0)))
    return where(is_small, near, far)


def kve(v: Tensor, x: Tensor) -> Any:
    """Compute e^x K_v(x) for x > 0."""
    return _quadrature(zeros_like(v), v, x, (kv_of_tiny,))


def kve_by_order(n: Tensor, v: Tensor, x: Tensor) -> Any:
    """Return the n-th derivative of e^x K_v(x) in v; NaN for x < TINY and n > 2."""
    slope = partial_of(kv_of_tiny, 0)
    slopes = [partial(written, formula) for formula in (slope, partial_of(slope, 0))]
    return _quadrature(n, v, x, (kv_of_tiny, *slopes))


def _quadrature(n: Tensor, v: Tensor, x: Tensor, formulas: tuple[Callable[..., Any], ...]) -> Any:
    """Return the n-th derivative of e^x K_v(x) in v for x > 0, by the trapezoidal rule.

    The sum ends where the integrand is negligible. For tiny x the integrand is flat, so `formulas` are used instead.

    Args:
        n: the number of derivatives, a tensor.
        formulas: functions that compute K_v of tiny x, and its derivatives in v of order 1, 2, .. Derivatives of higher
      order are NaN for tiny x.
    """
    is_tiny = logical_and(greater(x, 0.0), less(x, TINY))
    near, bent = where(is_tiny, v, 0.5), where(is_tiny, x, TINY)
    tiny: Any = math.nan
    for count, formula in enumerate(formulas):
        tiny = where(equal(n, float(count)), formula(near, bent), tiny)
    tiny = multiply(tiny, exp(bent))
    is_inside = logical_and(greater_equal(x, TINY), less(x, math.inf))
    order, inner = stop_gradient(abs(v)), where(is_inside, x, 1.0)
    end = acosh(add(1.0, divide(45.0, inner)))
    for _ in range(3):
        end = acosh(add(1.0, divide(add(45.0, multiply(order, end)), inner)))
    dtype = spec_of(x).dtype.dtype
    weights = np.where(STEPS == 0, 0.5, 1.0) * STEPS[1]
    (scale,), (count, order_at, x_at) = along_nodes(stop_gradient(end)), along_nodes(n, v, inner)
    t = multiply(scale, STEPS.astype(dtype))
    half = sinh(multiply(0.5, t))
    fall = multiply(-2.0, multiply(x_at, square(half)))
    power = multiply(order_at, t)
    one = np.asarray(1, dtype)
    flip = where(equal(remainder(count, 2.0), 0.0), one, -one)
    values = add(exp(add(fall, power)), multiply(flip, exp(subtract(fall, power))))
    values = multiply(multiply(0.5, values), pow(t, count))
    inside = sum_over(multiply(multiply(scale, weights.astype(dtype)), values), axis=-1)
    ends = where(less(x, 0.0), math.nan, divide(1.0, x))
    ends = where(logical_and(greater(n, 0.0), equal(x, 0.0)), math.nan, ends)
    return where(is_tiny, tiny, where(is_inside, inside, ends))


def kv(v: Tensor, x: Tensor) -> Any:
    """Return K_v(x) for x > 0."""
    return multiply(exp(negative(x)), kve(v, x))


def kv_by_order(n: Tensor, v: Tensor, x: Tensor) -> Any:
    """Return the n-th derivative of K_v(x) in v; NaN for x < TINY and n > 2."""
    return multiply(exp(negative(x)), kve_by_order(n, v, x))
