"""The incomplete gamma functions in standard ops, with derivatives with respect to both arguments.

P is the lower and Q = 1 - P the upper regularised function. Depending on a and x, either P or Q is computed as a
prefactor times an integral of a positive function over w from 0 to infinity. The other is 1 minus the result:

    P(a, x) = x^a e^-x / Gamma(a + 1)  int e^-w e^(x (1 - e^(-w/a))) dw      for x < max(a, 1)
    Q(a, x) = x^(a-1) e^-x / Gamma(a)  int e^-w (1 + w/x)^(a-1) dw           otherwise

Source: NIST's DLMF, sections 5.11, 8.2 and 8.6, whose integrals over t are transformed by t = x e^(-w/a) or t = x + w.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tenferro.api.creation import ones_like, zeros_like
from tenferro.api.elementwise import (
    abs,
    add,
    divide,
    equal,
    exp,
    expm1,
    greater,
    greater_equal,
    less,
    less_equal,
    lgamma,
    log,
    log1p,
    logical_and,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    pow,
    sqrt,
    subtract,
    where,
)
from tenferro.api.polynomials import polynomial
from tenferro.api.quadrature import integral
from tenferro.dispatch import spec_of
from tenferro.types import Tensor

__all__ = [
    "BINET",
    "DIRECT",
    "HALF_LOG_TWO_PI",
    "defined",
    "falling_rate",
    "gamma_density",
    "gamma_power",
    "incomplete_gamma",
    "log_ratio",
    "stirling_rest",
    "undefined",
]

BINET = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
"""Coefficients, highest power first, of x (log Gamma(x) - leading terms) in powers of 1 / x^2 (DLMF 5.11.1)."""

DIRECT = 1e-15
"""Largest |x| for which densities are computed as a constant times a power of x. For such x, e^-x rounds to 1."""

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def stirling_rest(a: Tensor) -> Any:
    """Compute the difference of log Gamma(a) and (a - 1/2) log(a) - a + log(2 pi) / 2, for a > 0."""
    is_large = greater(a, 10.0)
    large, small = where(is_large, a, 10.0), where(is_large, 10.0, a)
    inverse = divide(1.0, large)
    series = multiply(inverse, polynomial(multiply(inverse, inverse), BINET))
    leading = add(subtract(multiply(subtract(small, 0.5), log(small)), small), HALF_LOG_TWO_PI)
    return where(is_large, series, subtract(lgamma(small), leading))


def log_ratio(x: Tensor, centre: Tensor) -> Any:
    """log(x / centre), which is also accurate where x is close to `centre`."""
    is_far = less(x, multiply(centre, 0.5))
    far, base = where(is_far, x, 1.0), where(is_far, centre, 1.0)
    relative = divide(subtract(where(is_far, centre, x), centre), centre)
    return where(is_far, log(divide(far, base)), log1p(relative))


def gamma_power(a: Tensor, x: Tensor) -> Any:
    """x^a e^-x / Gamma(a), for positive a and x."""
    rest = subtract(multiply(0.5, subtract(log(a), 2 * HALF_LOG_TWO_PI)), stirling_rest(a))
    return exp(add(subtract(multiply(a, log_ratio(x, a)), subtract(x, a)), rest))


def falling_rate(falling: Any, bending: Any) -> Any:
    """Estimate the rate at which an integrand decays with w. The quadrature scales its step by the rate.

    Args:
        falling, bending: the first and the second derivative of the integrand's logarithm at w = 0, multiplied by -1.
    """
    return add(maximum(falling, 0.0), sqrt(maximum(minimum(bending, 1.0), 1e-8)))


def _gamma_tail(a: Tensor, x: Tensor) -> tuple[Any, Any]:
    """Return the mask x < max(a, 1) for positive a and x, and P(a, x) where it is true, Q(a, x) where it is false.

    For a < 1 the integrand of P(a, x) has a step near w = a, so P(a, x) is computed as
    x^a e^-x / Gamma(a + 1) + P(a + 1, x).
    """
    is_low = less(x, maximum(a, 1.0))
    is_small = logical_and(is_low, less(a, 1.0))
    p = where(is_low, where(is_small, add(a, 1.0), a), 1.0)
    q = where(is_low, 1.0, a)
    low, high = where(is_low, x, 0.5), where(is_low, 2.0, x)
    falling = where(
        is_low, subtract(1.0, divide(low, p)), divide(subtract(add(high, 1.0), q), high)
    )
    excess = divide(divide(maximum(subtract(q, 1.0), 0.0), high), high)
    rate = falling_rate(falling, where(is_low, divide(low, multiply(p, p)), excess))

    def integrand(w: Any, side: Any, p: Any, q: Any, low: Any, high: Any) -> Any:
        below = multiply(low, negative(expm1(negative(divide(w, p)))))
        above = multiply(subtract(q, 1.0), log1p(divide(w, high)))
        return exp(subtract(where(less(side, 0.0), below, above), w))

    side = where(is_low, negative(ones_like(x)), ones_like(x))
    total = integral(integrand, rate, side, p, q, low, high)
    total = where(is_small, add(1.0, multiply(divide(low, p), total)), total)
    return is_low, divide(multiply(gamma_power(a, x), total), where(is_low, a, high))


def incomplete_gamma(a: Tensor, x: Tensor, is_upper: bool) -> Any:
    """Return Q(a, x) if `is_upper`, otherwise P(a, x).

    Where a or x is zero or infinite the result is the limit; outside the domain it is NaN.
    """
    is_inside = logical_and(greater(a, 0.0), logical_and(greater(x, 0.0), less(x, math.inf)))
    is_inside = logical_and(is_inside, less(a, math.inf))
    is_low, tail = _gamma_tail(where(is_inside, a, 1.0), where(is_inside, x, 0.5))
    inside = (
        where(is_low, subtract(1.0, tail), tail)
        if is_upper
        else where(is_low, tail, subtract(1.0, tail))
    )
    at_zero, at_infinity = [add(zeros_like(x), y) for y in ((1.0, 0.0) if is_upper else (0.0, 1.0))]
    is_zero = logical_and(equal(x, 0.0), greater(a, 0.0))
    is_infinite = logical_and(
        greater_equal(x, math.inf), logical_and(greater_equal(a, 0.0), less(a, math.inf))
    )
    is_infinite = logical_or(is_infinite, logical_and(equal(a, 0.0), greater(x, 0.0)))
    is_zero = logical_or(
        is_zero,
        logical_and(logical_and(greater_equal(x, 0.0), less(x, math.inf)), equal(a, math.inf)),
    )
    nowhere = undefined(logical_or(is_inside, logical_or(is_zero, is_infinite)), a, x)
    ends = where(is_zero, at_zero, where(is_infinite, at_infinity, nowhere))
    return where(is_inside, inside, ends)


def undefined(is_valid: Any, *operands: Tensor) -> Any:
    """Return NaN where `is_valid` is false. There, derivatives of every order in `operands` are also NaN."""
    total: Any = 0.0
    for x in operands:
        total = add(total, where(is_valid, 0.0, x))
    return defined(exp(total), is_valid)


def gamma_density(a: Tensor, x: Tensor) -> Any:
    """x^(a-1) e^-x / Gamma(a), with limits at x = 0 and infinity; NaN for negative x and for a <= 0."""
    # Near 0 the density is computed as a power of x, which has the derivatives of the limit. x^a would underflow.
    is_small, is_end = less_equal(abs(x), DIRECT), equal(x, math.inf)
    inside = where(logical_or(is_small, is_end), 1.0, x)
    shape = where(is_small, a, 1.0)
    small = where(is_small, x, 1.0)
    power = pow(small, subtract(shape, 1.0))
    near = multiply(power, exp(negative(add(lgamma(shape), small))))
    between = divide(gamma_power(a, inside), inside)
    values = where(is_small, near, where(is_end, 0.0, between))
    return defined(values, logical_and(greater_equal(x, 0.0), greater(a, 0.0)))


def defined(values: Any, is_inside: Any) -> Any:
    """Return `values` where `is_inside` is true, and NaN elsewhere.

    The values are multiplied by NaN so that derivatives are also NaN. Derivatives of a `where` would be zero.
    """
    one = np.asarray(1, spec_of(values).dtype.dtype)
    return multiply(values, where(is_inside, one, math.nan))
