"""Integrals of the error function and of trigonometric functions; the dilogarithm, Owen's T and Lambert's W."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tenferro.api.elementwise import (
    abs,
    add,
    divide,
    equal,
    erf,
    exp,
    greater,
    less,
    logical_and,
    logical_or,
    multiply,
    negative,
    sign,
    square,
    subtract,
    where,
)
from tenferro.api.pointwise import sinc
from tenferro.api.polynomials import largest, polynomial
from tenferro.api.quadrature import integral
from tenferro.special import kernels
from tenferro.special.functions import EXPANDED, Row, function, value_of
from tenferro.special.operands import in_reals
from tenferro.types import ArrayLike, Tensor

__all__ = ["dawsn", "erfcx", "erfi", "fresnel", "lambertw", "owens_t", "sici", "spence"]

ROOT = 2 / math.sqrt(math.pi)


def _erfcx(x: Tensor) -> Any:
    """Compute erfcx(x): for x >= 0, the integral of 2 / sqrt(pi) exp(-s^2 - 2 x s) over s > 0.

    For x < 0 it is 2 e^(x^2) - erfcx(-x).
    """
    is_below = less(x, 0.0)
    size = where(is_below, negative(x), x)

    def integrand(s: Any, x: Any) -> Any:
        return exp(negative(multiply(s, add(s, multiply(2.0, x)))))

    # For larger |x| the first term of the asymptotic series is used (DLMF 7.12.1).
    is_far = greater(size, 1e9)
    inner = where(is_far, 1.0, size)
    above = multiply(ROOT, integral(integrand, add(1.0, multiply(2.0, inner)), inner))
    above = where(is_far, divide(ROOT / 2, where(is_far, size, 1.0)), above)
    growing = multiply(2.0, exp(square(where(is_below, size, 0.0))))
    return where(is_below, subtract(growing, above), above)


def _dawsn_slope(y: Any, x: Any) -> Any:
    """Return the derivative 1 - 2 x y.

    For large |x| this would cancel, so an asymptotic series is used (DLMF 7.12.1).
    """
    is_far = greater(abs(x), DAWSN_FAR)
    inverse = divide(1.0, where(is_far, x, DAWSN_FAR))
    half = multiply(0.5, square(inverse))
    series: Any = half
    for k in range(DAWSN_TERMS, 1, -1):
        series = multiply(half, add(1.0, multiply(2.0 * k - 1, series)))
    series = negative(series)
    near = multiply(where(is_far, 0.0, x), where(is_far, 0.0, y))
    return where(is_far, series, subtract(1.0, multiply(2.0, near)))


DAWSN_FAR, DAWSN_TERMS = 6.5, 38


erfcx = function(
    Row("erfcx", ("x",), "erfcx", (EXPANDED,), _erfcx),
    """The scaled complementary error function e^(x^2) erfc(x), which does not underflow for large x.

    The native error is at most 16 ulps.

    >>> erfcx([0.0, 1000.0])
    array([1.00000000e+00, 5.64189301e-04])

    Source: scipy.special.erfcx; NIST's DLMF, 7.7.2, for the expansion.
    """,
)
erfi = function(
    Row("erfi", ("x",), kernels.erfi, (lambda y, x: multiply(ROOT, exp(square(x))),)),
    """The imaginary error function -i erf(i x), 2 / sqrt(pi) times the integral of e^(t^2) from 0 to x.

    The native error is at most 16 ulps. The function runs natively only: it has no expansion into standard ops for
    XLA.

    >>> erfi([0.0, 1.0])
    array([0.        , 1.65042576])

    Source: scipy.special.erfi.
    """,
)
dawsn = function(
    Row("dawsn", ("x",), kernels.dawsn, (_dawsn_slope,)),
    """Dawson's integral e^(-x^2) times the integral of e^(t^2) from 0 to x.

    The native error is at most 16 ulps. The error of the derivative 1 - 2 x y is at most 16 ulps of 1 for |x| < 6.5,
    and 16 ulps of the derivative for larger |x|. The function runs natively only: it has no expansion into standard ops
    for XLA.

    >>> dawsn([0.0, 1.0])
    array([0.        , 0.53807951])

    Source: scipy.special.dawsn.
    """,
)


def _part(name: str, position: int, derivative: Callable[..., Any]) -> Callable[..., Any]:
    """Add a function to the table that returns one of the two results of the SciPy function `name`.

    Return the function.
    """

    def kernel(special: Any) -> Callable[..., Any]:
        return lambda x: getattr(special, name)(x)[position]

    label = f"{name}_{'sc'[position]}"
    return function(Row(label, ("x",), kernel, (derivative,)), f"Return a part of `{name}`.")


def _sine_over(x: Any) -> Any:
    """sin(x) / x. The result is 0 at infinity."""
    is_end = equal(abs(x), math.inf)
    return where(is_end, 0.0, sinc(multiply(where(is_end, 0.0, x), 1 / math.pi)))


function(
    Row(
        "cosine_over",
        ("x",),
        kernels.cosine_over,
        (lambda y, x: negative(add(_sine_over(x), divide(y, x))),),
    ),
    "Return cos(x) / x, the derivative of a part of `sici`.",
)
function(
    Row(
        "sine_of_half_square",
        ("x",),
        kernels.of_half_square(np.sin),
        (lambda y, x: multiply(x, multiply(math.pi, value_of("cosine_of_half_square", x))),),
    ),
    "Return sin(pi x^2 / 2), the derivative of a part of `fresnel`.",
)
function(
    Row(
        "cosine_of_half_square",
        ("x",),
        kernels.of_half_square(np.cos),
        (lambda y, x: multiply(x, multiply(-math.pi, value_of("sine_of_half_square", x))),),
    ),
    "Return cos(pi x^2 / 2), the derivative of a part of `fresnel`.",
)
_part("sici", 0, lambda y, x: _sine_over(x))
_part("sici", 1, lambda y, x: value_of("cosine_over", x))
_part("fresnel", 0, lambda y, x: value_of("sine_of_half_square", x))
_part("fresnel", 1, lambda y, x: value_of("cosine_of_half_square", x))


def _both(name: str, x: ArrayLike) -> tuple[Any, Any]:
    first, second = (
        in_reals(name, lambda x, label=label: value_of(label, x), x)
        for label in (f"{name}_s", f"{name}_c")
    )
    return first, second


def sici(x: ArrayLike) -> tuple[Any, Any]:
    """Compute Si(x), the integral of sin(t) / t from 0 to x, and Ci(x), the integral of cos(t) / t from
    infinity to x.

    The error of native execution is at most 64 ulps of the larger of 1 and the result. Other peers do not support it.

    Raises:
        DTypeError: x is complex.

    >>> sici(1.0)
    (array(0.94608307), array(0.33740392))

    Source: NIST's DLMF, section 6.2; scipy.special.sici.
    """
    return _both("sici", x)


def fresnel(x: ArrayLike) -> tuple[Any, Any]:
    """Return Fresnel's S(x) and C(x), the integrals of sin(pi t^2 / 2) and cos(pi t^2 / 2) from 0 to x.

    The error of native execution is at most 64 ulps of the larger of 1 and the result. Other peers do not support it.

    Raises:
        DTypeError: x is complex.

    >>> fresnel(1.0)
    (array(0.43825915), array(0.7798934))

    Source: NIST's DLMF, section 7.2; scipy.special.fresnel.
    """
    return _both("fresnel", x)


def _log_over_slope(y: Any, x: Any) -> Any:
    """Return the derivative (1 / x + y) / (1 - x) of the function y = log(x) / (1 - x).

    At x = 0 the derivative is infinite. Near x = 1 it is computed by a power series.
    """
    is_near, is_zero = less(abs(subtract(x, 1.0)), 0.05), equal(x, 0.0)
    near = where(is_near, subtract(x, 1.0), 0.0)
    far = where(logical_or(is_near, is_zero), 2.0, x)
    rest = divide(add(divide(1.0, far), value_of("log_over", far)), subtract(1.0, far))
    return where(is_zero, math.inf, where(is_near, polynomial(near, LOGARITHM_SLOPES), rest))


LOGARITHM_SLOPES = tuple((-1.0) ** k * (k + 1) / (k + 2) for k in range(12, -1, -1))
"""Coefficients of the derivative of -log(1 + u) / u in powers of u, highest power first."""

function(
    Row("log_over", ("x",), kernels.log_over, (_log_over_slope,)),
    "Return log(x) / (1 - x), the derivative of `spence`.",
)
spence = function(
    Row("spence", ("x",), kernels.spence, (lambda y, x: value_of("log_over", x),)),
    """Spence's function, the dilogarithm of 1 - x: the integral of log(t) / (1 - t) from 1 to x, for x >= 0.

    The native error is at most 16 ulps of the larger of 1 and the value. The function runs natively only: it has no
    expansion into standard ops for XLA.

    >>> spence([0.0, 1.0])
    array([1.64493407, 0.        ])

    Source: scipy.special.spence.
    """,
)


OWENS_END = 40.0
"""Bound of |h| and |a h| beyond which the normal density is 0 in floating point."""


def _owens_exponents(h: Any, a: Any) -> tuple[Any, Any]:
    """Return h and a h, with zero derivatives where the normal density is 0. If a is infinite, a h is 0 at h = 0."""
    bound = 1e300 if largest(a) > 1e300 else 1e38
    width = where(greater(abs(a), bound), multiply(bound, sign(a)), a)
    width = where(logical_and(equal(h, 0.0), equal(abs(a), math.inf)), 0.0, width)
    return (
        _saturated(h),
        _saturated(multiply(width, where(greater(abs(h), bound), multiply(bound, sign(h)), h))),
    )


def _saturated(x: Any) -> Any:
    return where(greater(abs(x), OWENS_END), multiply(OWENS_END, sign(x)), x)


def _owens_by_h(y: Any, h: Any, a: Any) -> Any:
    height, product = _owens_exponents(h, a)
    density = exp(multiply(-0.5, square(height)))
    return multiply(
        -0.5 / math.sqrt(2 * math.pi), multiply(density, erf(multiply(product, math.sqrt(0.5))))
    )


def _owens_by_a(y: Any, h: Any, a: Any) -> Any:
    height, product = _owens_exponents(h, a)
    is_large = greater(abs(a), 1.0)
    inverse = square(divide(1.0, where(is_large, a, 1.0)))
    large = divide(inverse, add(1.0, inverse))
    small = divide(1.0, add(1.0, square(where(is_large, 0.0, a))))
    density = exp(multiply(-0.5, add(square(height), square(product))))
    return multiply(multiply(density, 0.5 / math.pi), where(is_large, large, small))


owens_t = function(
    Row("owens_t", ("h", "a"), kernels.owens_t, (_owens_by_h, _owens_by_a)),
    """Owen's T(h, a), the integral of exp(-h^2 (1 + t^2) / 2) / (2 pi (1 + t^2)) from 0 to a.

    Derivatives in h and a are supported. The native error is at most 64 ulps. The function runs natively only: it has
    no expansion into standard ops for XLA.

    >>> owens_t([0.0, 1.0], 1.0)
    array([0.125     , 0.06674188])

    Source: scipy.special.owens_t.
    """,
)


def _lambert_kernel(special: Any) -> Callable[..., Any]:
    def kernel(x: Any) -> Any:
        w = special.lambertw(x)
        return np.where(x == np.inf, x, np.where(w.imag == 0, w.real, np.nan))

    return kernel


def _lambert_slope(y: Any, x: Any) -> Any:
    """Return the derivative e^-y / (1 + y).

    For x > 1 it is y / (x (1 + y)), because e^-y would have an error of y ulps.
    """
    is_large = greater(x, 1.0)
    near = where(is_large, 0.0, y)
    inverse = divide(1.0, where(is_large, y, 1.0))
    far = divide(divide(1.0, add(1.0, inverse)), where(is_large, x, 1.0))
    return where(is_large, far, divide(exp(negative(near)), add(1.0, near)))


lambertw = function(
    Row("lambertw", ("x",), _lambert_kernel, (_lambert_slope,)),
    """The principal branch of Lambert's W, the w >= -1 with w e^w = x, for x >= -1/e; NaN for smaller x.

    The native error is at most 16 ulps, except where W is close to -1. The function runs natively only: it has no
    expansion into standard ops for XLA.

    >>> lambertw([0.0, 2.718281828459045])
    array([0., 1.])

    Source: NIST's DLMF, section 4.13; scipy.special.lambertw.
    """,
)
