"""Functions that measure the distance between arrays in units in the last place."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tenferro.types import DType

__all__ = ["are_small_whole", "modulus", "spacing", "ulps_apart"]


def spacing(x: Any) -> np.ndarray[Any, Any]:
    """Compute the distance between adjacent floats at each element, in float64; for complex numbers, at the modulus.

    >>> spacing(np.array([1.0, 3.0])) * 2.0**52
    array([1., 2.])
    """
    real = x.real.dtype if x.dtype.kind == "c" else x.dtype
    info = ml_dtypes.finfo(real)
    size = modulus(x)
    size = np.where(np.isfinite(size), size, 0.0)
    _, exponent = np.frexp(np.maximum(size, float(info.smallest_normal)))
    return np.maximum(np.ldexp(float(info.eps), exponent - 1), float(info.smallest_subnormal))


def modulus(x: Any) -> np.ndarray[Any, Any]:
    """Return |x| in float64; if the modulus of a finite complex number overflows, return the largest float.

    >>> modulus(np.array([3 + 4j, 1.7e308 + 1.7e308j]))
    array([5.00000000e+000, 1.79769313e+308])
    """
    with np.errstate(all="ignore"):
        if x.dtype.kind != "c":
            return np.abs(x.astype(np.float64))
        size = np.abs(x.astype(np.complex128))
        is_finite = np.isfinite(x.real) & np.isfinite(x.imag)
        return np.where(is_finite, np.minimum(size, np.finfo(np.float64).max), size)


def ulps_apart(actual: Any, expected: Any) -> np.ndarray[Any, Any]:
    """Return |actual - expected| divided by the spacing of floats at `expected`, element by element.

    For complex numbers, the spacing is taken at the modulus. The distance is infinite if one value is NaN or
    infinite and the other value differs. The distance of integers and bools is 0 or infinite. The distance of zeros
    with different signs is 0.

    >>> ulps_apart(np.array([1.0]), np.array([1.0 + 2.0**-52]))
    array([1.])
    """
    if DType.of(expected.dtype).kind in "biu":
        return np.where(actual == expected, 0.0, np.inf)
    units = spacing(expected)
    if expected.dtype.kind == "c":
        return np.maximum(
            _real(actual.real, expected.real, units), _real(actual.imag, expected.imag, units)
        )
    return _real(actual, expected, units)


def _real(actual: Any, expected: Any, units: Any) -> np.ndarray[Any, Any]:
    a, e = (np.asarray(x).astype(np.float64) for x in (actual, expected))
    with np.errstate(all="ignore"):
        apart = np.abs(a - e) / units
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    strange = ~np.isfinite(a) | ~np.isfinite(e) | ~np.isfinite(apart)
    return np.where(same, 0.0, np.where(strange, np.inf, apart))


def are_small_whole(x: Any, dtype: Any) -> bool:
    """Return whether all finite elements are whole numbers below the largest integer that the float dtype counts to.

    Sums of such numbers are exact as long as the sums are small, too.

    >>> are_small_whole(np.array([3.0, np.inf]), np.float32), are_small_whole(np.array([0.5]), np.float32)
    (True, False)
    """
    if x.dtype.kind == "c":
        return are_small_whole(x.real, dtype) and are_small_whole(x.imag, dtype)
    if not DType.of(x.dtype).is_inexact:
        return True
    info = ml_dtypes.finfo(np.zeros((), dtype).real.dtype)
    wide = x.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    return bool(((finite == np.rint(finite)) & (np.abs(finite) < 1 / float(info.eps))).all())
