"""Modified Bessel functions of the first kind of orders 0 and 1.

For |x| <= 8 the functions are computed by their power series, whose terms have one sign. For larger |x|,
sqrt|x| e^-|x| I(|x|) is computed by a Chebyshev series in 16 / |x| - 1. Its coefficients were computed with 40 digits.

Source: NIST's DLMF, section 10.25, for the power series.
"""

from __future__ import annotations

import math
from typing import Any

from tenferro.api.elementwise import (
    abs,
    divide,
    exp,
    greater,
    multiply,
    negative,
    sign,
    sqrt,
    square,
    subtract,
    where,
)
from tenferro.api.polynomials import chebyshev, largest, polynomial
from tenferro.special.operands import in_reals
from tenferro.types import ArrayLike, Tensor

__all__ = ["i0", "i0e", "i1", "i1e"]

SERIES = tuple(
    tuple(1 / (math.factorial(k) * math.factorial(k + order)) for k in range(23, -1, -1))
    for order in (0, 1)
)
"""Coefficients of (2 / x)^order I(x) in powers of x^2 / 4, highest power first, for order 0 and order 1."""

FAR = (
    (
        0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
        2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
        1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
        7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14,
        -9.554846698828307e-15, 3.811680669352621e-15, 1.7725601330565245e-15, -3.425485619677142e-16,
        -2.827623980516646e-16, 3.461222867695658e-17, 4.465621420302078e-17, -4.8305044859640105e-18,
        -7.233180488043844e-18,
    ),
    (
        0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
        -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,
        -1.8974958123505413e-11, 3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
        -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14, 4.2724400167119517e-14,
        1.0420276984128802e-14, -3.814403072437007e-15, -1.8803547755107805e-15, 3.30820231092085e-16,
        2.9626289976460157e-16, -3.209525921991637e-17, -4.6503053684947827e-17, 4.414348323093937e-18,
        7.517296311011398e-18,
    ),
)  # fmt: skip
"""Chebyshev coefficients of sqrt(x) e^-x I(x) in 16 / x - 1, lowest degree first, for order 0 and order 1."""


def i0(x: ArrayLike) -> Any:
    """Compute the modified Bessel function I_0, within 8 ulps.

    Raises:
        DTypeError: x is complex.

    >>> i0([0.0, 1.0])
    array([1.        , 1.26606588])
    """
    return in_reals("i0", lambda x: _bessel(0, x), x)


def i0e(x: ArrayLike) -> Any:
    """e^-|x| I_0(x), within 8 ulps; its derivative at 0 is 0, the mean of the one-sided derivatives.

    Raises:
        DTypeError: x is complex.

    >>> i0e([0.0, 1000.0])
    array([1.        , 0.01261724])
    """
    return in_reals("i0e", lambda x: _scaled_bessel(0, x), x)


def i1(x: ArrayLike) -> Any:
    """Compute the modified Bessel function I_1, within 8 ulps.

    Raises:
        DTypeError: x is complex.

    >>> i1([0.0, 1.0])
    array([0.        , 0.5651591])
    """
    return in_reals("i1", lambda x: _bessel(1, x), x)


def i1e(x: ArrayLike) -> Any:
    """e^-|x| I_1(x), within 8 ulps.

    Raises:
        DTypeError: x is complex.

    >>> i1e([0.0, 1000.0])
    array([0.        , 0.01261093])
    """
    return in_reals("i1e", lambda x: _scaled_bessel(1, x), x)


def _near(order: int, x: Tensor) -> Any:
    """Compute the Bessel function I of order `order` for |x| <= 8."""
    half = multiply(x, 0.5)
    series = polynomial(square(half), SERIES[order])
    return multiply(half, series) if order else series


def _far(order: int, x: Tensor) -> Any:
    """Compute e^-x I(x) for the Bessel function I of order `order`, for x >= 8."""
    return divide(chebyshev(subtract(divide(16.0, x), 1.0), FAR[order]), sqrt(x))


def _scaled_bessel(order: int, x: Tensor) -> Any:
    is_far = greater(abs(x), 8.0)
    near, far = where(is_far, 0.0, x), where(is_far, x, 8.0)
    beyond = _far(order, abs(far))
    beyond = multiply(sign(far), beyond) if order else beyond
    return where(is_far, beyond, multiply(exp(negative(abs(near))), _near(order, near)))


def _bessel(order: int, x: Tensor) -> Any:
    magnitude = abs(x)
    is_far = greater(magnitude, 8.0)
    overflows = greater(magnitude, 750.0 if largest(x) > 1e300 else 95.0)
    far = where(overflows, 8.0, where(is_far, magnitude, 8.0))
    # Multiply by e^(x / 2) twice, because e^x overflows for smaller x than the Bessel function.
    half = exp(multiply(far, 0.5))
    beyond = multiply(half, multiply(half, _far(order, far)))
    beyond = where(overflows, exp(where(overflows, magnitude, 0.0)), beyond)
    beyond = multiply(sign(x), beyond) if order else beyond
    return where(is_far, beyond, _near(order, where(is_far, 0.0, x)))
