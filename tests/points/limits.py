"""Derivatives at exceptional points, computed as limits of their exact formulas with 500 digits.

If a formula has no value at a point, values near the point are used. An end of the domain is approached from inside,
and a signed zero from the side of its sign. Any other point is approached from both sides. The limit is NaN if the
two sides differ, or if the values oscillate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import mpmath

__all__ = ["DIGITS", "as_float", "complex_limit", "limit", "slack"]

DIGITS = 500
DISTANCES = tuple(mpmath.mpf(10) ** -k for k in (400, 402, 405, 407, 410))
NONE = (ZeroDivisionError, ValueError, OverflowError)

Formula = Callable[..., Any]


def as_float(x: Any) -> float:
    """Return the nearest float64. It is infinite if |x| is larger than the largest float."""
    if mpmath.isnan(x):
        return math.nan
    try:
        return float(x)
    except OverflowError:
        return math.copysign(math.inf, x)


def limit(formula: Formula, x: float, domain: tuple[float, float]) -> Any:
    """Return the limit of a real formula at x. The point x may be an infinity or NaN."""
    with mpmath.workdps(DIGITS):
        if math.isnan(x):
            return of_nan(formula)
        if math.isinf(x):
            return of_sequence([formula(math.copysign(1, x) / h) for h in DISTANCES])
        try:
            value = mpmath.mpf(formula(mpmath.mpf(x)))
        except NONE:
            value = mpmath.nan
        if mpmath.isfinite(value):
            return value
        within = [side for side in (1, -1) if domain[0] < x + 1e-9 * side < domain[1]]
        if x == 0 and len(within) == 2:
            within = [math.copysign(1, x)]
        limits = [of_sequence([formula(x + side * h) for h in DISTANCES]) for side in within]
        return limits[0] if all(y == limits[0] for y in limits) else mpmath.nan


def of_nan(formula: Formula) -> Any:
    """Return the value of a formula at NaN.

    If the formula is constant, this is its value, else NaN.
    """
    values = {formula(mpmath.mpf(x) / 8) for x in (-3, 3, 5)}
    return values.pop() if len(values) == 1 else mpmath.nan


def of_sequence(values: Sequence[Any]) -> Any:
    """Return the limit of a sequence of values, which may be a number, zero, an infinity, or NaN."""
    before, last = values[-2:]
    if abs(last - before) <= abs(last) * mpmath.mpf(10) ** -30:
        return mpmath.mpf(last)
    sizes = [abs(value) for value in values]
    if sizes == sorted(sizes, reverse=True) and sizes[-1] <= 0.002 * sizes[0]:
        return mpmath.mpf(0)
    if sizes == sorted(sizes) and sizes[-1] > 2 and len({mpmath.sign(v) for v in values[-3:]}) == 1:
        return mpmath.sign(last) * mpmath.inf
    return mpmath.nan


def complex_limit(formula: Formula, z: complex) -> Any:
    """Return the limit of a complex formula at z.

    The signs of zeros in z select the sides from which z is approached. An infinite limit is returned as inf + 0i.
    """
    with mpmath.workdps(DIGITS):
        if math.isnan(z.real):
            return mpmath.mpc(of_nan(formula))
        values = [mpmath.mpc(formula(as_constant_of(z, h))) for h in DISTANCES]
        if of_sequence([abs(v) for v in values]) == 0:
            return mpmath.mpc(0)
        parts = [of_sequence([part(v) for v in values]) for part in (mpmath.re, mpmath.im)]
        if any(mpmath.isinf(part) for part in parts):
            return mpmath.mpc(mpmath.inf, 0)
        return mpmath.mpc(*parts)


def as_constant_of(z: complex, h: Any) -> Any:
    """Return a point near z.

    A zero is moved by h in the direction of its sign, and an infinity is replaced by 1/h.
    """
    return mpmath.mpc(*[aside(part, h) for part in (z.real, z.imag)])


def aside(part: float, h: Any) -> Any:
    if math.isinf(part):
        return math.copysign(1, part) / h
    return mpmath.mpf(part) + (math.copysign(1, part) * h if part == 0 else 0)


def slack(formula: Formula, x: Any) -> float:
    """Return |x f'(x)|, the change of f divided by the relative change of x that causes it."""
    if not mpmath.isfinite(x) or x == 0:
        return 0.0
    with mpmath.workdps(DIGITS):
        h = mpmath.mpf(10) ** -40
        try:
            change = abs(formula(x * (1 + h)) - formula(x * (1 - h))) / (2 * h)
        except NONE:
            return 0.0
        return float(f"{as_float(change):.3g}")
