"""Functions of two numbers, with their first and second partial derivatives and their exceptional points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import mpmath

import tenferro as tnf
from tenferro.definitions import definition_of
from tenferro.ops import analytic as an
from tenferro.ops import elementwise as el
from tests.points.records import INF, Binary
from tests.points.special import SPECIAL_PAIRS
from tests.points.unary import sech_squared

__all__ = ["BINARY", "PARTIALS", "Binary"]

PARTIALS = ("f_x", "f_y", "f_xx", "f_xy", "f_yy")


GENERIC = ((0.5, 0.25), (-2.0, 3.0), (20.0, -0.5))
TIES = ((1.0, 1.0), (0.0, 0.0), (-2.0, -2.0), (INF, INF), (-INF, -INF))
HUGE = 2.0**100
TINY = 2.0**-100


def constant(*values: float) -> Callable[[Any, Any], tuple[Any, ...]]:
    return lambda x, y: tuple(map(mpmath.mpf, values))


def extremum(sign: int) -> Callable[[Any, Any], tuple[Any, ...]]:
    """Return a function for the partial derivatives of a maximum (`sign` 1) or minimum (`sign` -1).

    The derivative is 1 for the selected argument, and 1/2 for both arguments at a tie.
    """

    def partials(x: Any, y: Any) -> tuple[Any, ...]:
        share = 0.5 if x == y else float(sign * x > sign * y)
        return share, 1 - share, 0, 0, 0

    return partials


def power(x: Any, y: Any) -> tuple[Any, ...]:
    z, log = x**y, mpmath.log(x) if x > 0 else mpmath.nan
    return (
        y * x ** (y - 1),
        z * log,
        y * (y - 1) * x ** (y - 2),
        x ** (y - 1) * (1 + y * log),
        z * log**2,
    )


def angle(y: Any, x: Any) -> tuple[Any, ...]:
    r = x * x + y * y
    return x / r, -y / r, -2 * x * y / r**2, (y * y - x * x) / r**2, 2 * x * y / r**2


def length(x: Any, y: Any) -> tuple[Any, ...]:
    r = mpmath.sqrt(x * x + y * y)
    return x / r, y / r, y * y / r**3, -x * y / r**3, x * x / r**3


def shares(x: Any, y: Any) -> tuple[Any, ...]:
    share, bend = 1 / (1 + mpmath.exp(y - x)), sech_squared((x - y) / 2) / 4
    return share, 1 / (1 + mpmath.exp(x - y)), bend, -bend, bend


def remainder(rounded: Callable[[Any], Any]) -> Callable[[Any, Any], tuple[Any, ...]]:
    """Return a function for the partial derivatives of x - y q.

    Here q is constant, even where the remainder is zero.
    """
    return lambda x, y: (1, -rounded(x / y), 0, 0, 0)


def truncated(x: Any) -> Any:
    return mpmath.floor(x) if x > 0 else mpmath.ceil(x)


def clipped(x: Any, bound: Any) -> tuple[Any, ...]:
    """Return the partial derivatives of max(x, bound). Both are zero where x equals the bound."""
    return float(x > bound), float(x < bound), 0, 0, 0


WHOLE = ((6.0, 3.0), (-6.0, 3.0), (0.0, 2.0), (-0.0, 2.0), (7.5, -2.5), (0.75, 0.25), (7.0, 3.0))
BY_HALVES = ((0.5, 0.5, 0.0, 0.0, 0.0), "half at ties")
NAN = math.nan

BINARY: Mapping[str, Binary] = {
    "add": Binary(
        tnf.add,
        lambda x, y: x + y,
        constant(1, 1, 0, 0, 0),
        (*GENERIC, *TIES, (INF, -INF), (NAN, 1.0)),
        jax="numpy.add",
        torch="add",
    ),
    "subtract": Binary(
        tnf.subtract,
        lambda x, y: x - y,
        constant(1, -1, 0, 0, 0),
        (*GENERIC, *TIES, (INF, -INF), (NAN, 1.0)),
        jax="numpy.subtract",
        torch="sub",
    ),
    "multiply": Binary(
        tnf.multiply,
        lambda x, y: x * y,
        lambda x, y: (y, x, 0, 1, 0),
        (*GENERIC, *TIES, (0.0, INF), (INF, -INF), (HUGE, HUGE)),
        jax="numpy.multiply",
        torch="mul",
    ),
    "divide": Binary(
        tnf.divide,
        lambda x, y: x / y,
        lambda x, y: (1 / y, -x / y**2, 0, -1 / y**2, 2 * x / y**3),
        (*GENERIC, (1.0, 1.0), (0.0, 2.0), (HUGE, HUGE), (1.0, HUGE), (0.0, HUGE), (TINY, 2.0**60)),
        conventions={(1.0, INF): ((0.0, 0.0, 0.0, 0.0, 0.0), "limit")},
        jax="numpy.divide",
        torch="div",
    ),
    "maximum": Binary(
        tnf.maximum,
        max,
        extremum(1),
        (*GENERIC, *TIES, (0.0, -0.0), (INF, 1.0), (-INF, 1.0)),
        jax="numpy.maximum",
        torch="maximum",
    ),
    "minimum": Binary(
        tnf.minimum,
        min,
        extremum(-1),
        (*GENERIC, *TIES, (0.0, -0.0), (INF, 1.0), (-INF, 1.0)),
        jax="numpy.minimum",
        torch="minimum",
    ),
    "pow": Binary(
        tnf.pow,
        definition_of(el.Power()),
        power,
        (*GENERIC[:1], (1.0, 0.0), (2.0, 0.0), (2.0, 1.0), (2.0, 2.0), (0.5, 90.0), (1.0, 720.0)),
        conventions={
            (0.0, 0.0): ((0.0, 0.0, 0.0, 0.0, 0.0), "zero at 0^0"),
            (0.0, 1.0): ((1.0, 0.0, 0.0, -INF, 0.0), "zero in the exponent at 0"),
            (0.0, 2.0): ((0.0, 0.0, 2.0, 0.0, 0.0), "limit"),
            (0.0, 3.0): ((0.0, 0.0, 0.0, 0.0, 0.0), "limit"),
            (-2.0, 2.0): ((-4.0, NAN, 2.0, NAN, NAN), "no derivative by the exponent"),
            (-2.0, 3.0): ((12.0, NAN, -12.0, NAN, NAN), "no derivative by the exponent"),
            (0.0, 0.5): ((INF, 0.0, -INF, -INF, 0.0), "zero in the exponent at 0"),
            (INF, 2.0): ((INF, INF, 2.0, INF, INF), "limit"),
            (INF, -1.0): ((0.0, 0.0, 0.0, 0.0, 0.0), "limit"),
        },
        jax="numpy.power",
        torch="pow",
    ),
    "atan2": Binary(
        tnf.atan2,
        definition_of(an.Atan2()),
        angle,
        (
            *GENERIC,
            *((1.0, 1.0), (0.0, 2.0), (0.0, -2.0), (2.0, 0.0), (-2.0, -0.0), (HUGE, HUGE)),
            *((HUGE, 1.0), (1.0, HUGE), (2.0**-50, 2.0**-50), (2.0**-50, 0.0), (0.0, 2.0**-50)),
        ),
        conventions={
            **dict.fromkeys([(0.0, 0.0)], ((0.0,) * 5, "zero at the origin")),
            **dict.fromkeys(((INF, 1.0), (1.0, INF), (1.0, -INF)), ((0.0,) * 5, "limit")),
        },
        jax="numpy.arctan2",
        torch="atan2",
    ),
    "hypot": Binary(
        tnf.hypot,
        mpmath.hypot,
        length,
        (
            *GENERIC,
            *((1.0, 1.0), (0.0, 2.0), (2.0, 0.0), (-2.0, -0.0), (HUGE, HUGE), (HUGE, 1.0)),
            *((1.0, HUGE), (2.0**-50, 2.0**-50), (2.0**-50, 0.0), (3.0, -4.0)),
        ),
        conventions={
            (INF, 1.0): ((1.0, 0.0, 0.0, 0.0, 0.0), "limit"),
            (1.0, -INF): ((0.0, -1.0, 0.0, 0.0, 0.0), "limit"),
        },
        jax="numpy.hypot",
        torch="hypot",
    ),
    "logaddexp": Binary(
        tnf.logaddexp,
        lambda x, y: mpmath.log(mpmath.exp(x) + mpmath.exp(y)),
        shares,
        (
            *GENERIC,
            *((0.0, 0.0), (1.0, 1.0), (20.0, 0.0), (40.0, 0.0), (0.0, 90.0), (720.0, 0.0)),
            *((0.0, 2.0**-12), (HUGE, HUGE), (HUGE, 1.0), (-HUGE, -HUGE), (720.0, 719.0)),
        ),
        conventions={
            (INF, INF): BY_HALVES,
            (-INF, -INF): BY_HALVES,
            (INF, -INF): ((1.0, 0.0, 0.0, 0.0, 0.0), "limit"),
            (INF, 1.0): ((1.0, 0.0, 0.0, 0.0, 0.0), "limit"),
            (1.0, -INF): ((1.0, 0.0, 0.0, 0.0, 0.0), "limit"),
        },
        jax="numpy.logaddexp",
        torch="logaddexp",
    ),
    "remainder": Binary(
        tnf.remainder,
        lambda x, y: x - y * mpmath.floor(x / y),
        remainder(mpmath.floor),
        (*WHOLE, (-7.0, 3.0), (7.0, -3.0), (2.0**40, 3.0)),
        jax="numpy.remainder",
        torch="remainder",
    ),
    "fmod": Binary(
        tnf.fmod,
        lambda x, y: x - y * truncated(x / y),
        remainder(truncated),
        (*WHOLE, (-7.0, 3.0), (7.0, -3.0), (2.0**40, 3.0)),
        jax="numpy.fmod",
        torch="fmod",
    ),
    "floor_divide": Binary(
        tnf.floor_divide,
        lambda x, y: mpmath.floor(x / y),
        constant(0, 0, 0, 0, 0),
        (*WHOLE, (-7.0, 3.0), (7.0, -3.0)),
        jax="numpy.floor_divide",
        torch="floor_divide",
    ),
    "copysign": Binary(
        tnf.copysign,
        lambda x, y: abs(x) * mpmath.sign(y),
        lambda x, y: (mpmath.sign(x) * mpmath.sign(y), 0, 0, 0, 0),
        (*GENERIC, (INF, -1.0), (-INF, -1.0), (HUGE, 2.0)),
        conventions={
            (0.0, 1.0): ((0.0,) * 5, "zero at the kink"),
            (1.0, 0.0): ((1.0, 0.0, 0.0, 0.0, 0.0), "the sign of zero"),
        },
        jax="numpy.copysign",
        torch="copysign",
    ),
    "clip(x, min=y)": Binary(
        lambda x, y: tnf.clip(x, y),
        max,
        clipped,
        (*GENERIC, (INF, 1.0), (-INF, 1.0), (0.0, -INF)),
        conventions={(1.0, 1.0): ((0.0,) * 5, "zero at the bound")},
    ),
    "where(x > y, x, y)": Binary(
        lambda x, y: tnf.where(tnf.greater(x, y), x, y),
        max,
        lambda x, y: (float(x > y), float(x <= y), 0, 0, 0),
        (*GENERIC, (1.0, 1.0), (INF, 1.0), (1.0, INF)),
    ),
    **SPECIAL_PAIRS,
}
