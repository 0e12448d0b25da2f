"""The normal distribution function and its inverse, and the error functions under SciPy's names.

Source: Cephes, ndtri.c, for the rational functions of the inverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tenferro.api import elementwise
from tenferro.api import normal_integral as integral
from tenferro.api.custom import custom_jvp
from tenferro.api.elementwise import (
    add,
    divide,
    equal,
    exp,
    greater,
    greater_equal,
    less,
    log,
    log1p,
    logical_and,
    multiply,
    negative,
    sqrt,
    square,
    subtract,
    where,
)
from tenferro.api.normal_integral import ROOT_TWO_PI
from tenferro.api.polynomials import polynomial
from tenferro.api.promotion import convert, result_type
from tenferro.dispatch import as_operand
from tenferro.special import complex_error
from tenferro.special.operands import in_reals
from tenferro.types import ArrayLike, Tensor

__all__ = ["erf", "erfc", "erfcinv", "erfinv", "log_ndtr", "ndtr", "ndtri"]

MIDDLE = (
    (
        -5.99633501014107895267e1, 9.80010754185999661536e1, -5.66762857469070293439e1, 1.39312609387279679503e1,
        -1.23916583867381258016e0,
    ),
    (
        1.0, 1.95448858338141759834e0, 4.67627912898881538453e0, 8.63602421390890590575e1, -2.25462687854119370527e2,
        2.00260212380060660359e2, -8.20372256168333339912e1, 1.59056225126211695515e1, -1.18331621121330003142e0,
    ),
)  # fmt: skip
TAIL = (
    (
        4.05544892305962419923e0, 3.15251094599893866154e1, 5.71628192246421288162e1, 4.40805073893200834700e1,
        1.46849561928858024014e1, 2.18663306850790267539e0, -1.40256079171354495875e-1, -3.50424626827848203418e-2,
        -8.57456785154685413611e-4,
    ),
    (
        1.0, 1.57799883256466749731e1, 4.53907635128879210584e1, 4.13172038254672030440e1, 1.50425385692907503408e1,
        2.50464946208309415979e0, -1.42182922854787788574e-1, -3.80806407691578277194e-2, -9.33259480895457427372e-4,
    ),
)  # fmt: skip
FAR_TAIL = (
    (
        3.23774891776946035970e0, 6.91522889068984211695e0, 3.93881025292474443415e0, 1.33303460815807542389e0,
        2.01485389549179081538e-1, 1.23716634817820021358e-2, 3.01581553508235416007e-4, 2.65806974686737550832e-6,
        6.23974539184983293730e-9,
    ),
    (
        1.0, 6.02427039364742014255e0, 3.67983563856160859403e0, 1.37702099489081330271e0, 2.16236993594496635890e-1,
        1.34204006088543189037e-2, 3.28014464682127739104e-4, 2.89247864745380683936e-6, 6.79019408009981274425e-9,
    ),
)  # fmt: skip
"""Coefficients of the numerators and denominators of Cephes' rational functions, highest power first."""


def erf(x: ArrayLike) -> Any:
    """Compute the error function; for real x it equals `tnf.erf`.

    For complex x the error is at most 16 + |x|^2 ulps of |erf(x)| + |e^(-x^2)|.

    >>> erf(0.5), erf(0.5j)
    (array(0.52049988), array(0.+0.61495209j))
    """
    return _in_reals_or_complex("erf", elementwise.erf, complex_error.erf, x)


def erfc(x: ArrayLike) -> Any:
    """1 - erf(x), accurate for large x; for real x it equals `tnf.erfc`.

    For complex x the error is at most 16 + |x|^2 ulps of |erfc(x)|; if the real part of x is negative, ulps of
    |erfc(x)| + 2.

    >>> erfc(0.5), erfc(3 + 4j)
    (array(0.47950012), array(121.1869914+27.75033729j))
    """
    return _in_reals_or_complex("erfc", elementwise.erfc, complex_error.erfc, x)


def _in_reals_or_complex(
    name: str, of_reals: Callable[..., Any], of_complex: Callable[..., Any], x: ArrayLike
) -> Any:
    dtype = result_type(x)
    if dtype.is_complex:
        return of_complex(convert(as_operand(x), dtype))
    return in_reals(name, of_reals, x)


def erfinv(x: ArrayLike) -> Any:
    """Compute the inverse of `erf`, like `tnf.erfinv`.

    Raises:
        DTypeError: x is complex.

    >>> erfinv(0.5)
    array(0.47693628)
    """
    return in_reals("erfinv", elementwise.erfinv, x)


def erfcinv(x: ArrayLike) -> Any:
    """Compute the inverse of `erfc`, within 16 ulps; inf at 0, -inf at 2, and NaN outside [0, 2].

    Raises:
        DTypeError: x is complex.

    >>> erfcinv([0.0, 0.5, 1e-300])
    array([        inf,  0.47693628, 26.20946996])
    """
    return in_reals("erfcinv", _erfcinv, x)


def _erfcinv(x: Tensor) -> Any:
    return subtract(0.0, multiply(_ndtri(multiply(x, 0.5)), math.sqrt(0.5)))


def ndtr(x: ArrayLike) -> Any:
    """Compute the normal distribution function: the integral of the normal density up to x, within 8 ulps.

    Raises:
        DTypeError: x is complex.

    >>> ndtr([-1.0, 0.0])
    array([0.15865525, 0.5       ])
    """
    return in_reals("ndtr", integral.ndtr, x)


def log_ndtr(x: ArrayLike) -> Any:
    """Compute the logarithm of ndtr(x), also where `ndtr` underflows or is close to 1, within 8 ulps.

    Raises:
        DTypeError: x is complex.

    >>> log_ndtr([-100.0, 0.0, 100.0])
    array([-5.00552421e+03, -6.93147181e-01, -0.00000000e+00])
    """
    return in_reals("log_ndtr", _log_ndtr, x)


@custom_jvp
def _log_ndtr(x: Tensor) -> Any:
    is_below, size = integral.side_and_size(x)
    tail = integral.tail(size)
    logarithm = log(
        where(is_below, multiply(ROOT_TWO_PI, integral.hazard(size)), subtract(1.0, tail))
    )
    below = negative(add(multiply(0.5, square(size)), logarithm))
    # Where tail > 0.25, log is used instead of log1p, because XLA's log1p loses digits near -0.41.
    above = where(greater(tail, 0.25), logarithm, log1p(negative(tail)))
    return where(is_below, below, above)


@_log_ndtr.defjvp
def _log_ndtr_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return log_ndtr(x) and its tangent. The derivative is the normal density divided by ndtr(x)."""
    (x,), (x_dot,) = primals, tangents
    is_below, size = integral.side_and_size(x)
    above = divide(integral.density(size), subtract(1.0, integral.tail(size)))
    return _log_ndtr(x), multiply(x_dot, where(is_below, integral.hazard(size), above))


def ndtri(p: ArrayLike) -> Any:
    """Compute the inverse of `ndtr`, within 16 ulps; -inf at 0, inf at 1, and NaN outside [0, 1].

    Raises:
        DTypeError: p is complex.

    >>> ndtri([0.0, 0.5, 0.975])
    array([      -inf, 0.        , 1.95996398])
    """
    return in_reals("ndtri", _ndtri, p)


@custom_jvp
def _ndtri(p: Tensor) -> Any:
    edge = math.exp(-2.0)
    is_upper = greater(p, 0.5)
    tail = where(is_upper, subtract(1.0, p), p)
    is_middle = greater(tail, edge)
    centred = where(is_middle, subtract(p, 0.5), 0.0)
    middle = _ratio(MIDDLE, square(centred))
    middle = multiply(
        ROOT_TWO_PI, add(centred, multiply(centred, multiply(square(centred), middle)))
    )
    is_inside = logical_and(logical_and(greater(p, 0.0), less(p, 1.0)), equal(is_middle, False))
    radius = sqrt(multiply(-2.0, log(where(is_inside, tail, edge))))
    inverse = divide(1.0, radius)
    is_far = greater_equal(radius, 8.0)
    ratio = where(is_far, _ratio(FAR_TAIL, inverse), _ratio(TAIL, inverse))
    outer = subtract(subtract(radius, divide(log(radius), radius)), multiply(inverse, ratio))
    outer = where(is_upper, outer, negative(outer))
    outer = where(is_inside, outer, math.nan)
    outer = where(equal(p, 0.0), -math.inf, where(equal(p, 1.0), math.inf, outer))
    return where(is_middle, middle, outer)


def _ratio(coefficients: tuple[Sequence[float], Sequence[float]], x: Tensor) -> Any:
    return divide(polynomial(x, coefficients[0]), polynomial(x, coefficients[1]))


@_ndtri.defjvp
def _ndtri_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return ndtri(p) and its tangent. The derivative is the reciprocal of the normal density at the result."""
    (p,), (p_dot,) = primals, tangents
    y = _ndtri(p)
    return y, multiply(p_dot, multiply(ROOT_TWO_PI, exp(multiply(0.5, square(y)))))
