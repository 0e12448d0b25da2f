"""Bessel functions of real order, with derivatives of every order in both arguments.

    K_v(x) = int exp(-x cosh t) cosh(v t) dt    over t > 0 (DLMF 10.32.9)

The derivatives in the order are another function of the table, with the operands n, the number of derivatives,
v and x. Derivatives in x are differences of functions of neighbouring orders (DLMF 10.6.1, 10.29.1).
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
    logical_or,
    multiply,
    negative,
    pow,
    remainder,
    rsqrt,
    sign,
    sinh,
    square,
    subtract,
    where,
)
from tenferro.api.manipulation import stack
from tenferro.api.pointwise import sinc
from tenferro.api.polynomials import polynomial
from tenferro.api.quadrature import along_nodes
from tenferro.api.reductions import sum as sum_over
from tenferro.door import spec_of, stop_gradient
from tenferro.special import kernels, orders
from tenferro.special.functions import TABLE, Row, function, partial_of, value_of, written
from tenferro.special.operands import as_order
from tenferro.types import ArrayLike, Tensor

__all__ = [
    "bessel_jn", "iv", "ive", "j0", "j1", "jv", "k0", "k0e", "k1", "k1e", "kv", "kve", "y0", "y1", "yv",
]  # fmt: skip


def _neighbours(name: str, below: float, above: float) -> Any:
    """Return the derivative in x of a function of .., v, x: (below f_(v-1) + above f_(v+1)) / 2."""

    def slope(y: Any, *operands: Any) -> Any:
        return _steps(name, below, above, operands)[0]

    return slope


def _steps(name: str, below: float, above: float, operands: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return (below f_(v-1) + above f_(v+1)) / 2, and whether one of the two functions is infinite.

    Where f of the larger |order| is infinite, the other term is 0 and is computed at x = 1. The derivatives of both are
    infinite there, and that of the larger order dominates.
    """
    *counts, v, x = operands
    pair = [add(v, -1.0), add(v, 1.0)]
    lower_is_infinite, upper_is_infinite = (
        equal(abs(stop_gradient(value_of(name, *counts, order, x))), math.inf) for order in pair
    )
    left_out = (
        logical_and(upper_is_infinite, greater(v, 0.0)),
        logical_and(lower_is_infinite, less(v, 0.0)),
    )
    lower, upper = (
        where(is_out, 0.0, value_of(name, *counts, order, where(is_out, 1.0, x)))
        for is_out, order in zip(left_out, pair, strict=True)
    )
    total = add(multiply(below / 2, lower), multiply(above / 2, upper))
    return total, logical_or(lower_is_infinite, upper_is_infinite)


def _scaled(name: str, sign_of_scale: float) -> Any:
    """Return the derivative in x of a function that is multiplied by an exponential."""

    def slope(y: Any, *operands: Any) -> Any:
        steps, is_infinite = _steps(name, sign_of_scale, sign_of_scale, operands)
        *rest, x = operands
        own = value_of(name, *rest, where(is_infinite, 1.0, x))
        own = multiply(sign(x), own) if sign_of_scale > 0 else negative(own)
        return subtract(steps, where(is_infinite, 0.0, own))

    return slope


def _by_order(name: str, letter: str, scale: float, slope: Any, expansion: Any = None) -> Any:
    """Define the derivatives of a function in v, and return a formula of the first one."""
    label = f"{name}_by_order"
    partials = (None, lambda y, n, v, x: value_of(label, add(n, 1.0), v, x), slope(label))
    row = Row(label, ("n", "v", "x"), orders.kernel_of(letter, scale), partials, expansion)
    function(row, f"Return the n-th derivative of `{name}` in v, for whole n.")
    return lambda y, v, x: value_of(label, add(zeros_like(v), 1.0), v, x)


STEPS = np.linspace(0.0, 1.0, 128)


TINY = 1e-10
"""Bound of the arguments of which the square is negligible, and of the tabulated quadrature."""
ZETAS = (
    0.017543859649122806, 0.01818181818181818, 0.01886792452830189, 0.019607843137254912, 0.02040816326530616,
    0.021276595744681003, 0.022222222222222855, 0.023255813953491015, 0.024390243902450117, 0.025641025641072283,
    0.027027027027223673, 0.02857142857226011, 0.030303030306558044, 0.03225806453115042, 0.034482758684919304,
    0.037037037312989324, 0.04000000119214014, 0.04347826605304026, 0.047619070330142226, 0.05263167937961666,
    0.058823978658684585, 0.06666870588242046, 0.0769325164113522, 0.09095401714582904, 0.11133426586956469,
    0.1440498967688461, 0.20738555102867398, 0.40068563438653143, 0.5772156649015329,
)  # fmt: skip
"""Euler's constant and zeta(2 k + 1) / (2 k + 1), of the powers of v^2, highest first (DLMF 5.7.3)."""
SINH_SERIES = tuple(1.0 / math.factorial(2 * k + 1) for k in range(9, -1, -1))


def _kv_tiny(v: Tensor, x: Tensor) -> Any:
    """Compute K_v(x) of tiny x, half of Gamma(v) (2/x)^v + Gamma(-v) (x/2)^v (DLMF 10.27.4 and 10.25.2).

    For small v it is sqrt(pi v / sin(pi v)) sinh(v m) / v, with m = log(2/x) - (log Gamma(1-v) - log Gamma(1+v)) / (2v).
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


def _kve(v: Tensor, x: Tensor) -> Any:
    """e^x K_v(x) for x > 0."""
    return _quadrature(zeros_like(v), v, x, (_kv_tiny,))


def _kve_by_order(n: Tensor, v: Tensor, x: Tensor) -> Any:
    slope = partial_of(_kv_tiny, 0)
    slopes = [partial(written, formula) for formula in (slope, partial_of(slope, 0))]
    return _quadrature(n, v, x, (_kv_tiny, *slopes))


def _quadrature(n: Tensor, v: Tensor, x: Tensor, formulas: tuple[Callable[..., Any], ...]) -> Any:
    """Return the n-th derivative of e^x K_v(x) in v for x > 0, by the trapezoidal rule.

    The sum ends where the integrand is negligible. For tiny x, where the integrand is flat, K_v is the sum of the first
    terms of two series.

    Args:
        formulas: K_v of tiny x and its first derivatives in v; derivatives of higher order are NaN.
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


def _kv(v: Tensor, x: Tensor) -> Any:
    return multiply(exp(negative(x)), _kve(v, x))


def _kv_by_order(n: Tensor, v: Tensor, x: Tensor) -> Any:
    return multiply(exp(negative(x)), _kve_by_order(n, v, x))


def _row(name: str, kernel: Any, slope: Any, letter: str, scale: float, *expansions: Any) -> Row:
    """Create the row of a function of v and x, with its expansion and the expansion of its derivatives in v."""
    by_order = _by_order(name, letter, scale, slope, *expansions[1:])
    return Row(name, ("v", "x"), kernel, (by_order, slope(name)), *expansions[:1])


jv = function(
    _row("jv", kernels.jv, partial(_neighbours, below=1.0, above=-1.0), "J", 0.0),
    """The Bessel function of the first kind J_v(x); NaN for x < 0 unless v is whole.

    It has derivatives in v and x. Natively it is within 64 ulps of the larger of 1 and the value for |x|, |v| < 50, and its
    first derivative in v too.
    It has no expansion for other peers.

    >>> jv(0.5, [0.0, 1.0])
    array([0.        , 0.67139671])

    Source: NIST's DLMF, section 10.2; scipy.special.jv.
    """,
)
yv = function(
    _row("yv", kernels.yv, partial(_neighbours, below=1.0, above=-1.0), "Y", 0.0),
    """The Bessel function of the second kind Y_v(x); NaN for x < 0.

    It has derivatives in v and x. Natively it is within 256 ulps of the larger of 1 and the value for |x|, |v| < 50, and its
    first derivative in v too.
    It has no expansion for other peers.

    >>> yv(0.5, 1.0)
    array(-0.43109887)

    Source: NIST's DLMF, section 10.2; scipy.special.yv.
    """,
)
iv = function(
    _row("iv", kernels.iv, partial(_neighbours, below=1.0, above=1.0), "I", 0.0),
    """The modified Bessel function of the first kind I_v(x); NaN for x < 0 unless v is whole.

    It has derivatives in v and x. Natively it is within 256 ulps for |v| < 50, and its first derivative in v too. It has no expansion for other peers.

    >>> iv(0.5, [0.0, 1.0])
    array([0.        , 0.93767489])

    Source: NIST's DLMF, section 10.25; scipy.special.iv.
    """,
)
ive = function(
    _row("ive", kernels.ive, partial(_scaled, sign_of_scale=1.0), "I", -1.0),
    """e^-|x| I_v(x), which does not overflow; see `iv`.

    >>> ive(0.5, [1.0, 1000.0])
    array([0.34495131, 0.01261566])

    Source: scipy.special.ive.
    """,
)
kv = function(
    _row(
        "kv", kernels.kv, partial(_neighbours, below=-1.0, above=-1.0), "K", 0.0, _kv, _kv_by_order
    ),
    """The modified Bessel function of the second kind K_v(x); NaN for x < 0.

    It has derivatives in v and x. Natively it is within 32 ulps for |v| < 50. On other
    peers third derivatives in v are NaN for x < 1e-10.

    >>> kv(0.5, [1.0, 2.0])
    array([0.4610685 , 0.11993777])

    Source: NIST's DLMF, section 10.25; scipy.special.kv.
    """,
)
kve = function(
    _row("kve", kernels.kve, partial(_scaled, sign_of_scale=-1.0), "K", 1.0, _kve, _kve_by_order),
    """e^x K_v(x), which does not underflow; see `kv`.

    >>> kve(0.5, [1.0, 1000.0])
    array([1.25331414, 0.03963327])

    Source: scipy.special.kve.
    """,
)


def _of_order(name: str, of: str, order: float, shown: str) -> Any:
    """Create a function of fixed order, for which SciPy has a separate function."""
    general = TABLE[of]
    slope, expansion = general.partials[1], general.expansion

    def at_order(x: Any) -> Any:
        return add(zeros_like(x), order)

    def by_x(y: Any, x: Any) -> Any:
        return slope(y, at_order(x), x)  # pyright: ignore[reportCallIssue, reportOptionalCall]  # because it is a formula

    def expanded(x: Any) -> Any:
        return expansion(at_order(x), x)  # pyright: ignore[reportOptionalCall]  # because it is used where there is one

    row = Row(
        name,
        ("x",),
        kernels.of_order(general.kernel, order, name),
        (by_x,),
        None if expansion is None else expanded,
    )
    text = f"""{shown}(x): `{of}` of order {order:g}, within 64 ulps natively of the larger of 1 and the value.

    Source: scipy.special.{name}.
    """
    return function(row, text)


j0 = _of_order("j0", "jv", 0.0, "The Bessel function J_0")
j1 = _of_order("j1", "jv", 1.0, "The Bessel function J_1")
y0 = _of_order("y0", "yv", 0.0, "The Bessel function Y_0")
y1 = _of_order("y1", "yv", 1.0, "The Bessel function Y_1")
k0 = _of_order("k0", "kv", 0.0, "The modified Bessel function K_0")
k1 = _of_order("k1", "kv", 1.0, "The modified Bessel function K_1")
k0e = _of_order("k0e", "kve", 0.0, "The scaled Bessel function e^x K_0")
k1e = _of_order("k1e", "kve", 1.0, "The scaled Bessel function e^x K_1")


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Any:
    """Compute the Bessel functions J_0(z), .. J_v(z), stacked along a new first axis.

    Args:
        v: the largest order, a Python int.
        n_iter: has no effect. In JAX it is the order at which the recurrence starts.

    Raises:
        InvalidConfigError: v is not an int of at least 0.
        DTypeError: complex z.

    >>> bessel_jn(1.0, v=1)
    array([0.76519769, 0.44005059])

    Source: jax.scipy.special.bessel_jn.
    """
    count = as_order("bessel_jn", "v", v, 0) + 1
    return stack([jv(float(order), z) for order in range(count)])
