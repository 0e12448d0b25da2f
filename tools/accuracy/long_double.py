"""Error functions in long doubles, as Taylor series with coefficients from mpmath.

They are written here because SciPy has them in float64 only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import mpmath
import numpy as np
import scipy.special as sp

__all__ = ["erf", "erfc", "erfinv", "long_double"]

LARGEST = 28
"""Largest argument for which erfc is tabulated; for larger arguments erfc underflows in float64."""
STEPS = 32
"""Number of Taylor series of erfc per unit interval. Each is used up to half the distance to its neighbours."""
TERMS = 20
NEAR_TERMS = 26
"""Number of terms of the series around 0, which is used for arguments below 1/2."""


def long_double(value: Any) -> np.longdouble:
    """Round an mpmath number to a long double."""
    fraction, exponent = mpmath.frexp(value)
    high = float(fraction)
    low = float(fraction - high)
    return np.ldexp(np.longdouble(high) + np.longdouble(low), exponent)


@cache
def _near() -> list[np.longdouble]:
    """Return the coefficients of the power series of erf(x) / x in powers of x^2."""
    with mpmath.workdps(40):
        factor = 2 / mpmath.sqrt(mpmath.pi)
        return [
            long_double(factor * (-1) ** n / (mpmath.factorial(n) * (2 * n + 1)))
            for n in range(NEAR_TERMS)
        ]


@cache
def _table() -> np.ndarray:
    """Return the Taylor coefficients of erfc around each point k / `STEPS`: a row for each power, a column for each k.

    With d(x) = -2 / sqrt(pi) e^(-x^2), the first derivative of erfc, the derivative of order n + 1 is (-1)^n H_n(x)
    d(x). H_n are the Hermite polynomials.
    """
    rows = np.zeros((TERMS, LARGEST * STEPS + 1), np.longdouble)
    with mpmath.workdps(60):
        for k in range(rows.shape[1]):
            c = mpmath.mpf(k) / STEPS
            density = -2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-c * c)
            rows[0, k] = long_double(mpmath.erfc(c))
            before, hermite = mpmath.mpf(0), mpmath.mpf(1)
            for n in range(1, TERMS):
                term = density * (-1) ** (n - 1) * hermite / mpmath.factorial(n)
                rows[n, k] = long_double(term)
                before, hermite = hermite, 2 * c * hermite - 2 * (n - 1) * before
    return rows


def _polynomial(x: np.ndarray, terms: Sequence[Any]) -> np.ndarray:
    y = np.full(x.shape, terms[-1])
    for term in terms[-2::-1]:
        y *= x
        y += term
    return y


def _complement(a: np.ndarray) -> np.ndarray:
    """Compute erfc of nonnegative numbers, from the Taylor series around the nearest tabulated point."""
    a = np.minimum(a, np.longdouble(LARGEST))
    k = np.rint(a * STEPS).astype(np.int64)
    distance = a - k.astype(np.longdouble) / STEPS
    table = _table()
    y = table[-1][k]
    for row in table[-2::-1]:
        y *= distance
        y += row[k]
    return y


def _near_zero(x: np.ndarray) -> np.ndarray:
    x = np.clip(x, -0.5, 0.5)
    return x * _polynomial(x * x, _near())


def erf(x: np.ndarray) -> np.ndarray:
    """Compute erf(x) in long doubles."""
    x = np.asarray(x, np.longdouble)
    a = np.abs(x)
    y = np.where(a < 0.5, _near_zero(x), np.copysign(1 - _complement(np.nan_to_num(a)), x))
    return np.where(np.isnan(x), x, y)


def erfc(x: np.ndarray) -> np.ndarray:
    """Compute erfc(x) in long doubles."""
    x = np.asarray(x, np.longdouble)
    far = _complement(np.nan_to_num(np.abs(x)))
    y = np.where(x < 0, 2 - far, far)
    y = np.where(np.abs(x) < 0.5, 1 - _near_zero(x), y)
    return np.where(np.isnan(x), x, y)


def erfinv(x: np.ndarray) -> np.ndarray:
    """Compute erfinv(x) by SciPy, and improve it by one Newton step in long doubles.

    For results of at least 1/2, the step solves erfc(y) = 1 - |x|, which does not cancel near |x| = 1.
    """
    x = np.asarray(x, np.longdouble)
    a = np.abs(x)
    y = sp.erfinv(a.astype(np.float64)).astype(np.longdouble)
    usual = np.where(np.isfinite(y), y, 0)
    rest = np.where(usual < 0.5, _near_zero(usual) - a, (1 - a) - _complement(usual))
    slope = np.longdouble(2) / np.sqrt(long_double(mpmath.pi)) * np.exp(-usual * usual)
    return np.copysign(np.where(np.isfinite(y), usual - rest / slope, y), x)


for function in (erf, erfc, erfinv):
    function.types = ("g->g",)  # type: ignore[attr-defined]
