"""Errors in units in the last place: estimated by another library, judged by mpmath."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import mpmath
import numpy as np

from tools.accuracy.functions import Function

__all__ = ["DIGITS", "error_of", "estimates", "unit"]

DIGITS = 60
"""Of the definition, beyond what large and small arguments take."""


def unit(exact: float, dtype: Any) -> float:
    """The distance of neighbouring numbers of a dtype where a value lies."""
    limits = ml_dtypes.finfo(dtype)
    size = min(abs(exact), float(limits.max))
    exponent = max(math.frexp(size)[1] - 1 if size else limits.minexp, limits.minexp)
    return math.ldexp(1.0, exponent - limits.nmant) if exponent - limits.nmant > -1075 else 5e-324


def estimates(function: Function, xs: Sequence[np.ndarray], y: np.ndarray) -> np.ndarray:
    """The errors by the reference, in units of y's dtype; infinite where one of both is no number.

    In float64 it may be no better than what is measured, and share its code: then it tells little.
    """
    limits = ml_dtypes.finfo(y.dtype)
    kind = _wide(function)
    with np.errstate(all="ignore"):
        exact = function.reference(*[x.astype(kind) for x in xs])
        size = np.clip(np.abs(exact), float(limits.tiny), float(limits.max))
        units = np.ldexp(kind(1.0), np.frexp(size)[1] - 1 - limits.nmant)
        wide = y.astype(kind)
        error = np.abs(wide - exact) / units
        # What is larger than the largest number by less than half a unit rounds to it, by more to infinity.
        over = np.abs(exact) >= float(limits.max)
        error = np.where(over & np.isinf(wide) & (np.sign(wide) == np.sign(exact)), 0.0, error)
        error = np.where(wide == exact, 0.0, error)
        neither = ~np.isfinite(exact) & ~np.isfinite(wide)
        return np.where(neither, 0.0, np.where(np.isnan(error), np.inf, error))


def _wide(function: Function) -> Any:
    """The type in which the reference computes: of more than 64 bits where NumPy and the processor have it."""
    has_more = isinstance(function.reference, np.ufunc) and "g" in "".join(function.reference.types)
    return np.longdouble if has_more else np.float64


def error_of(function: Function, xs: Sequence[float], y: float, dtype: Any) -> float:
    """The error of one value in many digits; infinite where one of both is no number.

    Where terms cancel it is relative to their size, if that is larger.
    """
    limits = ml_dtypes.finfo(dtype)
    digits = DIGITS + sum([abs(math.frexp(x)[1]) // 3 for x in xs if x and math.isfinite(x)])
    with mpmath.workdps(min(digits, 800)):
        try:
            exact = function.definition(*map(mpmath.mpf, xs))
        except (ArithmeticError, ValueError, mpmath.libmp.NoConvergence):
            # At poles, and where the value has no digit that a float holds: zero or an infinity.
            reference = float(function.reference(*map(np.float64, xs)))
            exact = mpmath.mpf(0) if reference == 0 else mpmath.nan
        if isinstance(exact, mpmath.mpc):
            exact = exact.real if not exact.imag else mpmath.nan
        if mpmath.isnan(exact) or mpmath.isinf(exact):
            return math.inf if math.isfinite(y) else 0.0  # what a pole gives is a convention
        if abs(exact) > float(limits.max) and math.isinf(y) and (y > 0) == (exact > 0):
            return 0.0
        if not math.isfinite(y):
            return math.inf
        terms = 0.0 if function.terms is None else function.terms(*xs)
        size = min(max(abs(exact), mpmath.mpf(terms)), mpmath.mpf(float(limits.max)))
        return float(abs(mpmath.mpf(y) - exact) / mpmath.mpf(unit(float(size), dtype)))
