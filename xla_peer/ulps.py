"""Distance between arrays in units in the last place."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["ulps_apart"]


def ulps_apart(actual: Any, expected: Any) -> np.ndarray[Any, Any]:
    """|actual - expected| over the spacing of floats at `expected`, element by element.

    Complex numbers are measured against the spacing at the modulus. Infinite where one of the two is
    NaN or infinite and the other is not the same; integers and bools are 0 apart or infinitely far.
    Zeros of both signs are 0 apart.

    >>> ulps_apart(np.array([1.0]), np.array([1.0 + 2.0**-52]))
    array([1.])
    """
    if expected.dtype.kind in "biu":
        return np.where(actual == expected, 0.0, np.inf)
    if expected.dtype.kind == "c":
        size = np.abs(expected)
        return np.maximum(
            _real(actual.real, expected.real, size), _real(actual.imag, expected.imag, size)
        )
    return _real(actual, expected, np.abs(expected))


def _real(actual: Any, expected: Any, size: Any) -> np.ndarray[Any, Any]:
    info = ml_dtypes.finfo(expected.dtype)
    a, e, size = (np.asarray(x).astype(np.float64) for x in (actual, expected, size))
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.maximum(size, float(info.smallest_normal))))
        spacing = np.maximum(np.exp2(exponent) * float(info.eps), float(info.smallest_subnormal))
        apart = np.abs(a - e) / spacing
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    strange = ~np.isfinite(a) | ~np.isfinite(e) | ~np.isfinite(apart)
    return np.where(same, 0.0, np.where(strange, np.inf, apart))
