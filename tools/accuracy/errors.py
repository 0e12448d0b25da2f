"""Errors in units in the last place: estimated in higher precision, and judged by mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import mpmath
import numpy as np

from tools.accuracy.function import Function

__all__ = ["DIGITS", "error_of", "estimates", "exact_values", "unit"]

DIGITS = 60
"""Decimal digits for the definition; large and small arguments get more."""
EXPONENT = np.uint64(0x7FF << 52)
"""Exponent bits of float64."""


def unit(exact: Any, dtype: Any) -> float:
    """Return the spacing of a dtype at a value, a float or an mpmath number."""
    limits = ml_dtypes.finfo(dtype)
    size = min(abs(exact), float(limits.max))
    power = mpmath.frexp(size)[1] if isinstance(size, mpmath.mpf) else math.frexp(size)[1]
    exponent = max(power - 1 if size else limits.minexp, limits.minexp)
    return math.ldexp(1.0, exponent - limits.nmant) if exponent - limits.nmant > -1075 else 5e-324


def exact_values(reference: Callable[..., Any], xs: Sequence[np.ndarray]) -> np.ndarray:
    """Return the values of a reference, in float64 for narrower floats, and in long doubles for float64, if possible.

    Without long doubles, the errors are not meaningful, because the reference may be no better than the measured
    function, or share its code.
    """
    types = "".join(getattr(reference, "types", "d"))
    kind = np.longdouble if xs[0].dtype == np.float64 and "g" in types else np.float64
    with np.errstate(all="ignore"):
        return np.asarray(reference(*[x.astype(kind) for x in xs]))


def estimates(exact: np.ndarray, y: np.ndarray, is_strict: bool = False) -> np.ndarray:
    """Return the errors in ulps of y's dtype. The error is infinite where exactly one value is not finite, and zero where
    neither is finite; if `strict`, only where both are NaN or the same infinity.

    The code makes few passes, because there are 10^8 values. The ulp is that of the smaller value, so that it is not
    too large where the exact value is rounded up to a power of two.
    """
    limits = ml_dtypes.finfo(y.dtype)
    with np.errstate(all="ignore"):
        wide = y.astype(np.float64)
        near = exact.astype(np.float64)
        # For float64 the difference is computed in the reference's precision, which is higher.
        error = wide - near if exact is near else (y.astype(exact.dtype) - exact).astype(np.float64)
        np.abs(error, out=error)
        size = np.minimum(np.abs(wide), np.abs(near, out=near), out=near)
        np.maximum(size, float(limits.tiny), out=size)
        bits = size.view(np.uint64)
        bits &= EXPONENT
        error /= size
        error *= 2.0**limits.nmant
        if not math.isfinite(error.max()):
            _judge_infinities(error, exact, y, is_strict)
    return error


def _judge_infinities(error: np.ndarray, exact: np.ndarray, y: np.ndarray, is_strict: bool) -> None:
    """Return the errors where a value is infinite or NaN."""
    wide = y.astype(exact.dtype)
    largest = float(ml_dtypes.finfo(y.dtype).max)
    # A value above the largest number by less than half a unit rounds to it, by more to infinity.
    is_over = (np.abs(exact) >= largest) & (np.sign(wide) == np.sign(exact))
    is_finite = np.isfinite(wide)
    neither = np.isnan(exact) & np.isnan(wide) if is_strict else ~(np.isfinite(exact) | is_finite)
    error[(is_over & ~is_finite) | (wide == exact) | neither] = 0.0
    error[np.isnan(error)] = np.inf


def error_of(function: Function, xs: Sequence[float], y: float, dtype: Any) -> float:
    """Return the error of one value with many digits; infinite where exactly one value is not finite.

    If terms cancel, the error is relative to their size.
    """
    limits = ml_dtypes.finfo(dtype)
    digits = DIGITS + sum([abs(math.frexp(x)[1]) // 3 for x in xs if x and math.isfinite(x)])
    with mpmath.workdps(min(digits, 800)):
        try:
            exact = function.definition(*map(mpmath.mpf, xs))
        except (ArithmeticError, ValueError, mpmath.libmp.NoConvergence):
            # At poles, and for values beyond the range of floats, the error is zero or infinity.
            reference = float(function.reference(*map(np.float64, xs)))
            exact = mpmath.mpf(0) if reference == 0 else mpmath.nan
        if isinstance(exact, mpmath.mpc):
            exact = exact.real if not exact.imag else mpmath.nan
        if mpmath.isnan(exact) or mpmath.isinf(exact):
            return math.inf if math.isfinite(y) else 0.0  # the value at a pole is a convention
        if abs(exact) > float(limits.max) and math.isinf(y) and (y > 0) == (exact > 0):
            return 0.0
        if not math.isfinite(y):
            return math.inf
        terms = 0.0 if function.terms is None else function.terms(*xs)
        size = max(abs(exact), mpmath.mpf(terms))
        return float(abs(mpmath.mpf(y) - exact) / mpmath.mpf(unit(size, dtype)))
