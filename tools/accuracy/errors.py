"""Errors in units in the last place (ulps): estimated in higher precision, then computed exactly by mpmath."""

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
"""Decimal digits with which mpmath evaluates a definition. Arguments of large or small magnitude get more digits."""
EXPONENT = np.uint64(0x7FF << 52)
"""Mask of the exponent bits of a float64."""


def unit(exact: Any, dtype: Any) -> float:
    """Return the spacing of the dtype's floats at `exact`, a float or an mpmath number."""
    limits = ml_dtypes.finfo(dtype)
    size = min(abs(exact), float(limits.max))
    power = mpmath.frexp(size)[1] if isinstance(size, mpmath.mpf) else math.frexp(size)[1]
    exponent = max(power - 1 if size else limits.minexp, limits.minexp)
    return math.ldexp(1.0, exponent - limits.nmant) if exponent - limits.nmant > -1075 else 5e-324


def exact_values(reference: Callable[..., Any], xs: Sequence[np.ndarray]) -> np.ndarray:
    """Evaluate the reference in a wider dtype than the arguments: in float64, or in long doubles for float64 arguments.

    If the reference has no version for long doubles, float64 arguments are evaluated in float64. The estimated errors
    then mean little: the reference may be no more accurate than the measured function, or share its code.
    """
    types = "".join(getattr(reference, "types", "d"))
    kind = np.longdouble if xs[0].dtype == np.float64 and "g" in types else np.float64
    with np.errstate(all="ignore"):
        return np.asarray(reference(*[x.astype(kind) for x in xs]))


def estimates(exact: np.ndarray, y: np.ndarray, is_strict: bool = False) -> np.ndarray:
    """Return the estimated error of each element of `y`, in units in the last place (ulps) of its dtype.

    The error is infinite where exactly one of the two values is finite, and zero where neither value is finite. If
    `is_strict`, the error is zero there only if both values are NaN, or both the same infinity.

    `y` may have 10^8 elements, so the function reads the arrays few times. The ulp is that of the value of smaller
    magnitude. The larger value may have been rounded up to a power of two, where the ulp doubles.
    """
    limits = ml_dtypes.finfo(y.dtype)
    with np.errstate(all="ignore"):
        wide = y.astype(np.float64)
        near = exact.astype(np.float64)
        # For float64, subtract in the reference's wider precision: rounding the reference to float64 would discard
        # the error that is to be measured.
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
    """Write into `error` the errors of the elements whose exact or computed value is infinite or NaN."""
    wide = y.astype(exact.dtype)
    largest = float(ml_dtypes.finfo(y.dtype).max)
    # An exact value that exceeds the largest float by less than half an ulp rounds to the largest float. A larger
    # value rounds to infinity. Both results are accepted in both cases.
    is_over = (np.abs(exact) >= largest) & (np.sign(wide) == np.sign(exact))
    is_finite = np.isfinite(wide)
    neither = np.isnan(exact) & np.isnan(wide) if is_strict else ~(np.isfinite(exact) | is_finite)
    error[(is_over & ~is_finite) | (wide == exact) | neither] = 0.0
    error[np.isnan(error)] = np.inf


def error_of(function: Function, xs: Sequence[float], y: float, dtype: Any) -> float:
    """Return the error of the result `y`, in ulps, against the definition evaluated with many digits.

    The error is infinite where exactly one of the two values is not finite. If the definition adds terms that cancel,
    the ulp is that of the largest term.
    """
    limits = ml_dtypes.finfo(dtype)
    digits = DIGITS + sum([abs(math.frexp(x)[1]) // 3 for x in xs if x and math.isfinite(x)])
    with mpmath.workdps(min(digits, 800)):
        try:
            exact = function.definition(*map(mpmath.mpf, xs))
        except (ArithmeticError, ValueError, mpmath.libmp.NoConvergence):
            # mpmath cannot evaluate the definition at poles or beyond the range of floats. If the reference is zero
            # there, the exact value is zero. Otherwise the result must not be finite.
            reference = float(function.reference(*map(np.float64, xs)))
            exact = mpmath.mpf(0) if reference == 0 else mpmath.nan
        if isinstance(exact, mpmath.mpc):
            exact = exact.real if not exact.imag else mpmath.nan
        if mpmath.isnan(exact) or mpmath.isinf(exact):
            # At a pole, infinities of both signs and NaN are accepted.
            return math.inf if math.isfinite(y) else 0.0
        if abs(exact) > float(limits.max) and math.isinf(y) and (y > 0) == (exact > 0):
            return 0.0
        if not math.isfinite(y):
            return math.inf
        terms = 0.0 if function.terms is None else function.terms(*xs)
        size = max(abs(exact), mpmath.mpf(terms))
        return float(abs(mpmath.mpf(y) - exact) / mpmath.mpf(unit(size, dtype)))
