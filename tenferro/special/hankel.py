"""The Bessel functions J, Y and I of real order in standard ops.

With u = v - floor(v), Hankel's function is computed as

    H_u(x) = 2 / (pi i) e^(-i pi u / 2) e^(i x)  int e^(-x sinh s tanh s) cosh(u t) dt/ds ds,   t = s + i gd(s),   s > 0

by the trapezoidal rule, along the path of steepest descent; gd is Gudermann's function. Upward recurrence in the order
computes Y, and J for x > v. For small arguments the power series are used. Between, J and I follow from the Wronskians
and from the continued fraction of f_(v+1) / f_v, whose terms all have one sign. For large arguments I is computed by
the asymptotic series. The first two derivatives in the order are the derivatives of these formulas.

Source: NIST's DLMF, 10.9.10 for the integral, 10.5.2 and 10.28.2 for the Wronskians, 10.10.1 and 10.33.1 for the
continued fractions, 10.2.2 and 10.25.2 for the power series, 10.40.1 for the asymptotic series.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tenferro.api.autodiff import jvp
from tenferro.api.control import while_loop
from tenferro.api.creation import ones_like, zeros_like
from tenferro.api.elementwise import (
    abs,
    add,
    asinh,
    atan,
    cos,
    cosh,
    divide,
    equal,
    exp,
    floor,
    greater,
    greater_equal,
    isnan,
    less,
    less_equal,
    lgamma,
    log,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    multiply,
    negative,
    not_equal,
    pow,
    remainder,
    round,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    where,
)
from tenferro.api.incomplete_gamma import gamma_density
from tenferro.api.quadrature import along_nodes
from tenferro.api.reductions import max as max_over
from tenferro.api.reductions import sum as sum_over
from tenferro.dispatch import spec_of, stop_gradient
from tenferro.special.functions import partial_of, written
from tenferro.special.macdonald import TINY, kv_of_tiny, kve
from tenferro.types import Tensor

__all__ = ["by_order", "iv", "ive", "jv", "yv"]

LARGEST_ORDER = 2.0e4
"""Maximum order. It bounds the number of recurrence steps, and functions of larger orders are NaN."""
STEPS = np.linspace(0.0, 1.0, 161)
DECAY = 42.0
"""The integral is truncated where the factor e^(-x sinh s tanh s) falls to e^-DECAY."""
SERIES_TERMS = 56.0
FRACTION_STEPS = 30.0
ASYMPTOTIC_TERMS = 39.0
ASYMPTOTIC_FROM = 60.0


def _integral(u: Tensor, x: Tensor) -> tuple[Any, Any]:
    """Return J_u(x) and Y_u(x) for 0 <= u < 2 and x >= TINY."""
    dtype = spec_of(x).dtype.dtype
    end = zeros_like(x)
    for _ in range(4):
        # At the end of the path, x sinh(s) tanh(s) equals DECAY, so sinh(s)^2 is `level` times cosh(s).
        level = divide(add(multiply(2.0, end), DECAY), x)
        cosine = multiply(0.5, add(level, sqrt(add(square(level), 4.0))))
        end = asinh(sqrt(multiply(level, cosine)))
    (scale,), (order, at) = along_nodes(stop_gradient(end)), along_nodes(u, x)
    s = multiply(scale, STEPS.astype(dtype))
    weights = (np.where(STEPS == 0, 0.5, 1.0) * STEPS[1]).astype(dtype)
    fall = multiply(
        multiply(scale, weights), exp(negative(multiply(at, multiply(sinh(s), tanh(s)))))
    )
    angle = atan(sinh(s))
    growth = exp(multiply(order, s))
    rising, falling = multiply(0.5, growth), divide(0.5, growth)
    first = multiply(order, subtract(angle, math.pi / 2))
    last = multiply(order, add(angle, math.pi / 2))
    re = add(multiply(rising, cos(first)), multiply(falling, cos(last)))
    im = subtract(multiply(rising, sin(first)), multiply(falling, sin(last)))
    slope = divide(1.0, cosh(s))
    real = sum_over(multiply(fall, subtract(re, multiply(slope, im))), axis=-1)
    imaginary = sum_over(multiply(fall, add(im, multiply(slope, re))), axis=-1)
    sine, cosine = sin(x), cos(x)
    j = multiply(2 / math.pi, add(multiply(sine, real), multiply(cosine, imaginary)))
    y = multiply(2 / math.pi, subtract(multiply(sine, imaginary), multiply(cosine, real)))
    return j, y


def _repeated(
    step: Callable[[Any, tuple[Any, ...]], Any], count: Any, state: tuple[Any, ...]
) -> Any:
    """Apply state = step(k, state) for k = 1, 2, .., `count`, and return the last state."""
    one = np.asarray(1, spec_of(state[0]).dtype.dtype)
    return while_loop(
        lambda carry: less_equal(carry[0], count),
        lambda carry: (add(carry[0], one), *step(carry[0], carry[1:])),
        (one, *state),
    )[1:]


def _raised(pair: tuple[Any, Any], u: Tensor, steps: Tensor, x: Tensor) -> Any:
    """Return f of orders u + steps and u + steps + 1, by the recurrence f_(v+1) = 2 v / x f_v - f_(v-1)."""

    def step(k: Any, state: tuple[Any, ...]) -> Any:
        low, high = state
        is_active = less_equal(k, steps)
        above = subtract(multiply(divide(multiply(2.0, add(u, k)), x), high), low)
        return where(is_active, high, low), where(is_active, above, high)

    return _repeated(step, max_over(steps, initial=0.0), pair)


def _ratio(v: Tensor, x: Tensor, sign: float) -> Any:
    """Return f_(v+1) / f_v by a continued fraction, from its last term. f is J if `sign` is -1, and I if it is 1."""
    spread = sqrt(multiply(36.0, x)) if sign > 0 else multiply(8.0, pow(maximum(x, 1.0), 1 / 3))
    count = stop_gradient(floor(max_over(add(FRACTION_STEPS, spread), initial=0.0)))

    def step(k: Any, state: tuple[Any, ...]) -> Any:
        term = divide(multiply(2.0, add(v, subtract(add(count, 1.0), k))), x)
        return (divide(1.0, add(term, multiply(sign, state[0]))),)

    return _repeated(step, count, (zeros_like(x),))[0]


def _series(v: Tensor, x: Tensor, sign: float) -> Any:
    """Return J_v(x) or e^-x I_v(x) by the power series, for 0 < x^2 <= 64 (v + 4)."""
    quarter = multiply(0.25 * sign, square(x))
    half = multiply(0.5, x)

    def step(k: Any, state: tuple[Any, ...]) -> Any:
        index = subtract(SERIES_TERMS + 1.0, k)
        return (add(1.0, multiply(divide(quarter, multiply(index, add(v, index))), state[0])),)

    # (x / 2)^v / Gamma(v + 1) is the density of a gamma distribution times e^(x / 2).
    scale = multiply(gamma_density(add(v, 1.0), half), exp(half if sign < 0 else negative(half)))
    return multiply(scale, _repeated(step, SERIES_TERMS, (ones_like(x),))[0])


def _asymptotic(v: Tensor, x: Tensor) -> Any:
    """Return e^-x I_v(x) for x >= 60 and v^2 <= 4 x."""

    def step(k: Any, state: tuple[Any, ...]) -> Any:
        total, term = state
        odd = square(subtract(k, 0.5))
        term = multiply(term, divide(subtract(odd, square(v)), multiply(multiply(2.0, k), x)))
        return add(total, term), term

    total, _ = _repeated(step, ASYMPTOTIC_TERMS, (ones_like(x), ones_like(x)))
    return divide(total, sqrt(multiply(2 * math.pi, x)))


def _sin_and_cos_pi(v: Tensor) -> tuple[Any, Any]:
    """Return sin(pi v) and cos(pi v), which are exactly 0 at their zeros."""
    whole = round(v)
    one = np.asarray(1, spec_of(v).dtype.dtype)
    flip = where(equal(remainder(whole, 2.0), 0.0), one, -one)
    rest = subtract(v, whole)
    cosine = cos(multiply(math.pi, rest))
    # At half-integers the rounding error of the cosine is subtracted, not replaced by 0: its derivative there is not 0.
    cosine = subtract(cosine, where(equal(abs(rest), 0.5), stop_gradient(cosine), 0.0))
    return multiply(flip, sin(multiply(math.pi, rest))), multiply(flip, cosine)


def _product(sine: Tensor, y: Tensor) -> Any:
    """Return sine y, which is 0 if the sine is 0, even for infinite y."""
    is_out = logical_and(equal(sine, 0.0), equal(abs(y), math.inf))
    return where(is_out, 0.0, multiply(sine, where(is_out, 1.0, y)))


def _first_and_second(v: Tensor, x: Tensor) -> tuple[Any, Any]:
    """Return J_v(x) and Y_v(x), for v >= 0 and x > 0."""
    is_tiny = less(x, TINY)
    inner = where(is_tiny, 1.0, x)
    steps = stop_gradient(floor(v))
    u = subtract(v, steps)
    (j, y), (j_next, y_next) = _integral(u, inner), _integral(add(u, 1.0), inner)
    is_series = less_equal(square(x), multiply(8.0, add(v, 1.0)))
    is_far = greater(x, v)
    j, _ = _raised((j, j_next), u, where(is_far, steps, 0.0), inner)
    y, y_next = _raised((y, y_next), u, where(is_tiny, 0.0, steps), inner)
    is_between = logical_not(logical_or(is_series, is_far))
    at, order = where(is_between, x, 1.0), where(is_between, v, 1.0)
    base = subtract(
        multiply(_ratio(order, at, -1.0), where(is_between, y, 1.0)), where(is_between, y_next, 3.0)
    )
    between = divide(2 / math.pi, multiply(at, base))
    between = where(isnan(between), 0.0, between)
    near = _series(where(is_series, v, 1.0), where(is_series, x, 1.0), -1.0)
    j = where(is_series, near, where(is_far, j, between))
    bent = where(is_tiny, x, TINY)
    rest = less(v, 0.95)
    below = where(rest, v, 0.5)
    other = multiply(
        tan(multiply(math.pi / 2, below)),
        exp(subtract(multiply(below, log(multiply(0.5, bent))), lgamma(add(below, 1.0)))),
    )
    tiny = subtract(multiply(-2 / math.pi, kv_of_tiny(v, bent)), where(rest, other, 0.0))
    y = where(is_tiny, tiny, where(isnan(y), -math.inf, y))
    return j, y


def _inside(v: Tensor, x: Tensor) -> tuple[Any, Any, Any]:
    """Return whether the algorithms apply to v and x; also |v| and |x|, or harmless numbers where they do not."""
    size = abs(x)
    is_inside = logical_and(
        less(abs(v), LARGEST_ORDER), logical_and(greater(size, 0.0), less(size, math.inf))
    )
    # The derivative of |v| in v is 1 at v = 0.
    order = where(less(v, 0.0), negative(v), v)
    return is_inside, where(is_inside, order, 0.5), where(is_inside, size, 1.0)


def _with_ends(values: Any, is_inside: Any, v: Tensor, x: Tensor, at_infinity: float) -> Any:
    """Extend J or I from |x| to all x: to 0, infinity and negative x. Functions of whole order are real for x < 0."""
    one, none = np.asarray([1, math.nan], spec_of(x).dtype.dtype)
    is_whole = equal(v, round(v))
    # The sign of the infinity at x = 0 is the sign of Gamma(v + 1).
    pole = where(equal(remainder(floor(v), 2.0), 0.0), -math.inf, math.inf * one)
    at_zero = where(logical_or(greater(v, 0.0), is_whole), 0.0, pole)
    at_zero = where(equal(v, 0.0), 1.0, at_zero)
    ends = where(equal(x, 0.0), at_zero, where(equal(abs(x), math.inf), at_infinity, none))
    values = where(is_inside, values, where(less(abs(v), LARGEST_ORDER), ends, math.nan))
    is_odd = not_equal(remainder(v, 2.0), 0.0)
    sides = where(logical_and(less(x, 0.0), is_odd), -one, one)
    return where(logical_or(is_whole, greater_equal(x, 0.0)), multiply(sides, values), math.nan)


def jv(v: Tensor, x: Tensor) -> Any:
    """Return J_v(x) for any real v; NaN where it is not real."""
    is_inside, order, at = _inside(v, x)
    j, y = _first_and_second(order, at)
    sine, cosine = _sin_and_cos_pi(order)
    reflected = subtract(multiply(cosine, j), _product(sine, y))
    return _with_ends(where(less(v, 0.0), reflected, j), is_inside, v, x, 0.0)


def yv(v: Tensor, x: Tensor) -> Any:
    """Return Y_v(x); NaN for x < 0."""
    is_inside, order, at = _inside(v, x)
    j, y = _first_and_second(order, at)
    sine, cosine = _sin_and_cos_pi(order)
    reflected = add(multiply(sine, j), _product(cosine, y))
    values = where(less(v, 0.0), reflected, y)
    one, none = np.asarray([1, math.nan], spec_of(x).dtype.dtype)
    side = where(less(v, 0.0), _sin_and_cos_pi(v)[1], one)
    pole = where(equal(side, 0.0), 0.0, where(less(side, 0.0), math.inf * one, -math.inf))
    ends = where(equal(x, 0.0), pole, where(equal(x, math.inf), 0.0, none))
    values = where(is_inside, values, where(less(abs(v), LARGEST_ORDER), ends, math.nan))
    return where(less(x, 0.0), math.nan, values)


def ive(v: Tensor, x: Tensor) -> Any:
    """Return e^-|x| I_v(x) for any real v; NaN where it is not real."""
    return _scaled(v, x, at_infinity=0.0)


def iv(v: Tensor, x: Tensor) -> Any:
    """Return I_v(x) for any real v; NaN where it is not real."""
    return _scaled(v, x, at_infinity=math.inf)


def _scaled(v: Tensor, x: Tensor, at_infinity: float) -> Any:
    """Return e^-|x| I_v(x) if `at_infinity` is 0, and I_v(x) if it is infinite; it is the limit for large |x|."""
    is_inside, order, at = _inside(v, x)
    is_series = less_equal(square(at), multiply(64.0, add(order, 4.0)))
    is_far = logical_and(
        greater_equal(at, ASYMPTOTIC_FROM), less_equal(square(order), multiply(4.0, at))
    )
    is_between = logical_not(logical_or(is_series, is_far))
    near = _series(where(is_series, order, 1.0), where(is_series, at, 1.0), 1.0)
    far = _asymptotic(where(is_far, order, 0.0), where(is_far, at, ASYMPTOTIC_FROM))
    middle, inner = where(is_between, order, 1.0), where(is_between, at, 1.0)
    base = add(
        kve(add(middle, 1.0), inner), multiply(_ratio(middle, inner, 1.0), kve(middle, inner))
    )
    values = where(is_series, near, where(is_far, far, divide(1.0, multiply(inner, base))))
    sine, _ = _sin_and_cos_pi(order)
    other = multiply(2 / math.pi, multiply(exp(multiply(-2.0, at)), kve(order, at)))
    values = where(less(v, 0.0), add(values, _product(sine, other)), values)
    if at_infinity:
        half = exp(multiply(0.5, at))
        values = multiply(multiply(values, half), half)
    return _with_ends(values, is_inside, v, x, at_infinity)


def by_order(value: Callable[[Tensor, Tensor], Any], at_zero: float, at_infinity: float) -> Any:
    """Return the expansion of the n-th derivative in v of `jv`, `yv`, `iv` or `ive`; NaN unless n is 1 or 2.

    Args:
        value: one of these functions.
        at_zero: the limit for x to 0 if v > 0, and NaN if there is no limit.
        at_infinity: the limit for large x.
    """
    slope = partial_of(value, 0)

    def derivative(n: Tensor, v: Tensor, x: Tensor) -> Any:
        first, second = jvp(lambda order: slope(order, x), (v,), (ones_like(v),))
        is_first, is_second = equal(n, 1.0), equal(n, 2.0)
        result = where(is_first, first, where(is_second, second, math.nan))
        # (x / 2)^v has the derivatives log(x / 2) and log(x / 2)^2 at v = 0.
        pole = where(is_first, at_zero - math.inf, math.inf + at_zero)
        zero = where(greater(v, 0.0), at_zero, where(equal(v, 0.0), pole, math.nan))
        result = where(equal(x, 0.0), zero, where(equal(x, math.inf), at_infinity, result))
        is_real = logical_and(greater_equal(x, 0.0), less(abs(v), LARGEST_ORDER))
        return where(logical_and(is_real, logical_or(is_first, is_second)), result, math.nan)

    return partial(written, derivative)
