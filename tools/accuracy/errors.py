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
"""Decimal digits with which mpmath evaluates a definition; large and small arguments get more."""
EXPONENT = np.uint64(0x7FF << 52)
"""Exponent bits of float64."""


def unit(exact: Any, dtype: Any) -> float:
    """Return the spacing of the dtype's floats at `exact`, a float or an mpmath number."""
    limits = ml_dtypes.finfo(dtype)
    size = min(abs(exact), float(limits.max))
    power = mpmath.frexp(size)[1] if isinstance(size, mpmath.mpf) else math.frexp(size)[1]
    exponent = max(power - 1 if size else limits.minexp, limits.minexp)
    return math.ldexp(1.0, exponent - limits.nmant) if exponent - limits.nmant > -1075 else 5e-324


def exact_values(reference: Callable[..., Any], xs: Sequence[np.ndarray]) -> np.ndarray:
    """Evaluate the reference in a wider dtype than the arguments: in float64, or in long doubles for float64.

    If the reference has no long doubles, float64 is compared with float64. The estimated errors then mean little: the
    reference may be no better than the measured function, or share its code.
    """
    types = "".join(getattr(reference, "types", "d"))
    kind = np.longdouble if xs[0].dtype == np.float64 and "g" in types else np.float64
    with np.errstate(all="ignore"):
        return np.asarray(reference(*[x.astype(kind) for x in xs]))


def estimates(exact: np.ndarray, y: np.ndarray, is_strict: bool = False) -> np.ndarray:
    """Return the estimated error of each element of `y`, in units in the last place (ulps) of its dtype.

    The error is infinite where exactly one of the two values is not finite, and zero where neither is finite. If
    `is_strict`, two values that are not finite must both be NaN or the same infinity.

    There are 10^8 values, so the function makes few passes over the arrays. The ulp is that of the smaller value: the
    ulp of the larger one doubles where the exact value is rounded up to a power of two.
    """
    limits = ml_dtypes.finfo(y.dtype)
    with np.errstate(all="ignore"):
        wide = y.astype(np.float64)
        near = exact.astype(np.float64)
        # For float64, subtract in the reference's precision: rounding the reference to float64 first would lose the
        # error.
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
    """Write into `error` the errors of elements of which a value is infinite or NaN."""
    wide = y.astype(exact.dtype)
    largest = float(ml_dtypes.finfo(y.dtype).max)
    # A value that exceeds the largest float by less than half a unit rounds to this float, any larger value to
    # infinity. Both results are accepted.
    is_over = (np.abs(exact) >= largest) & (np.sign(wide) == np.sign(exact))
    is_finite = np.isfinite(wide)
    neither = np.isnan(exact) & np.isnan(wide) if is_strict else ~(np.isfinite(exact) | is_finite)
    error[(is_over & ~is_finite) | (wide == exact) | neither] = 0.0
    error[np.isnan(error)] = np.inf


def error_of(function: Function, xs: Sequence[float], y: float, dtype: Any) -> float:
    """Return the error of the result `y`, in ulps, against the definition evaluated with many digits.

    The error is infinite where exactly one of the two values is not finite. If terms cancel, the unit is that of their
    size.
    """
    limits = ml_dtypes.finfo(dtype)
    digits = DIGITS + sum([abs(math.frexp(x)[1]) // 3 for x in xs if x and math.isfinite(x)])
    with mpmath.workdps(min(digits, 800)):
        try:
            exact = function.definition(*map(mpmath.mpf, xs))
        except (ArithmeticError, ValueError, mpmath.libmp.NoConvergence):
            # The definition fails at poles and beyond the range of floats. There only the reference tells whether the
            # value is zero; otherwise the result must not be finite.
            reference = float(function.reference(*map(np.float64, xs)))
            exact = mpmath.mpf(0) if reference == 0 else mpmath.nan
        if isinstance(exact, mpmath.mpc):
            exact = exact.real if not exact.imag else mpmath.nan
        if mpmath.isnan(exact) or mpmath.isinf(exact):
            # Any infinity or NaN may stand for a pole.
            return math.inf if math.isfinite(y) else 0.0
        if abs(exact) > float(limits.max) and math.isinf(y) and (y > 0) == (exact > 0):
            return 0.0
        if not math.isfinite(y):
            return math.inf
        terms = 0.0 if function.terms is None else function.terms(*xs)
        size = max(abs(exact), mpmath.mpf(terms))
        return float(abs(mpmath.mpf(y) - exact) / mpmath.mpf(unit(size, dtype)))
