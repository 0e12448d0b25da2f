"""The normal distribution function of a tensor. It is computed from the hazard, the density divided by the tail.

The usual formula erfc(-x / sqrt(2)) / 2 has a relative error of about x^2 eps, because x / sqrt(2) is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tenferro.api.custom import custom_jvp
from tenferro.api.elementwise import (
    add,
    divide,
    exp,
    greater,
    less_equal,
    multiply,
    negative,
    round,
    square,
    subtract,
    where,
)
from tenferro.api.polynomials import largest, polynomial
from tenferro.types import Tensor

__all__ = ["ROOT_TWO_PI", "density", "hazard", "ndtr", "side_and_size", "tail", "times_ndtr"]

ROOT_TWO_PI = math.sqrt(2 * math.pi)

CENTRE = 5.0
FAR = 1e8
HAZARD = (
    -1.6993343505753576e-10, -5.346254644065357e-11, 1.8820132111142907e-09, 9.114407916256175e-10,
    -1.2478678915496976e-08, -8.310392051428054e-09, 7.282440142363134e-08, 5.3645931348208856e-08,
    -4.439211184496898e-07, -2.294138059018154e-07, 2.9599771654561176e-06, -3.940955208972257e-07,
    -2.0394619418253267e-05, 2.777757457934812e-05, 0.00011446715670558231, -0.00045988050434671713,
    0.00016296486801379887, 0.0038526404159239126, -0.017390456213026814, 0.046434515152479004,
    -0.09075764606052368, 0.13685699049105074, -0.1568078845459251, 0.11787913352659142,
)  # fmt: skip
"""Coefficients of a polynomial in q that approximates (r - 1) / (1 - q^2), highest power first.

Here h is the hazard, r = (x + h(0)) / h(x), and q = (x - k) / (x + k) with k = 5, the constant `CENTRE`. The polynomial
interpolates the function at the zeros of a Chebyshev polynomial, computed in 50 digits. Its value and slope are
accurate to a quarter of a unit in the last place of float64. Because of the factor 1 - q^2, r is exactly 1 for x = 0
and for infinite x.
"""
HAZARD_SINGLE = (
    -1.3510830439484527e-05, 2.5678364071934435e-05, 0.0001073720172089178, -0.0004572430910518854,
    0.00016649577329608118, 0.003851213093229638, -0.0173912662542174, 0.04643485653090109,
    -0.09075757734128871, 0.13685696095572714, -0.15680788549844937, 0.11787913393753723,
)  # fmt: skip
"""Coefficients for float32, accurate to a tenth of a unit in the last place."""


@custom_jvp
def ndtr(x: Tensor) -> Any:
    """Compute the distribution function of the normal distribution of mean 0 and variance 1."""
    is_below, size = side_and_size(x)
    beyond = tail(size)
    return where(is_below, beyond, subtract(1.0, beyond))


@ndtr.defjvp
def _ndtr_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return ndtr(x) and its tangent: x_dot times the normal density."""
    (x,), (x_dot,) = primals, tangents
    return ndtr(x), multiply(x_dot, density(side_and_size(x)[1]))


def side_and_size(x: Tensor) -> tuple[Any, Any]:
    """Return whether x <= 0, and |x|, whose derivative at 0 is -1."""
    is_below = less_equal(x, 0.0)
    return is_below, where(is_below, negative(x), x)


def density(x: Tensor) -> Any:
    """Compute the normal density of x >= 0; for x >= 40 it rounds to 0 in every dtype."""
    least, power = _density_factors(x)
    return multiply(least, power)


def _density_factors(x: Tensor) -> tuple[Any, Any]:
    """Return two factors of the normal density of x >= 0. Numbers above 40 are replaced by 40.

    x is the sum of a short number, whose square is exact, and a rest. The second factor is the exponential for the
    exact square. The first factor, between 0.3 and 0.4, accounts for the rest and the constant. If x were not split,
    the exponential would multiply the relative error of x^2 / 2 by x^2 / 2.
    """
    x = where(greater(x, 40.0), 40.0, x)
    short = multiply(round(multiply(x, 128.0)), 1 / 128)
    rest = subtract(x, short)
    least = exp(negative(multiply(rest, add(short, multiply(0.5, rest)))))
    return multiply(1 / ROOT_TWO_PI, least), exp(multiply(-0.5, square(short)))


def _ratio_to_hazard(x: Tensor) -> tuple[Any, Any]:
    """Return a numerator x + h(0) and a denominator whose quotient is the hazard h(x), for x >= 0.

    Numbers x above `FAR` are replaced by 1.
    """
    x = where(greater(x, FAR), 1.0, x)
    inverse = divide(1.0, add(x, CENTRE))
    q = multiply(subtract(x, CENTRE), inverse)
    factor = multiply(multiply(4 * CENTRE, multiply(x, inverse)), inverse)  # 1 - q^2
    terms = HAZARD if largest(x) > 1e300 else HAZARD_SINGLE
    ratio = add(1.0, multiply(factor, polynomial(q, terms)))
    return add(x, 2 / ROOT_TWO_PI), ratio


def hazard(x: Tensor) -> Any:
    """Return the hazard of the normal distribution for x >= 0: its density divided by its integral beyond x."""
    above, ratio = _ratio_to_hazard(x)
    return where(greater(x, FAR), x, divide(above, ratio))


def tail(x: Tensor) -> Any:
    """Return the integral of the normal density from x to infinity, for x >= 0."""
    above, ratio = _ratio_to_hazard(x)
    return divide(multiply(density(x), ratio), above)


@custom_jvp
def times_ndtr(x: Tensor) -> Any:
    """x ndtr(x) for -40 <= x <= 40, with full precision even where ndtr(x) is subnormal."""
    is_below, size = side_and_size(x)
    above, ratio = _ratio_to_hazard(size)
    least, power = _density_factors(size)
    factor = divide(multiply(least, ratio), above)
    below = negative(multiply(multiply(size, factor), power))
    return where(is_below, below, multiply(size, subtract(1.0, multiply(factor, power))))


@times_ndtr.defjvp
def _times_ndtr_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return times_ndtr(x) and its tangent. The derivative is ndtr(x) plus x times the density."""
    (x,), (x_dot,) = primals, tangents
    least, power = _density_factors(side_and_size(x)[1])
    slope = add(ndtr(x), multiply(multiply(x, least), power))
    return times_ndtr(x), multiply(x_dot, slope)
