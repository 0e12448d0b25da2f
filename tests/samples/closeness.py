"""Distance between arrays, in units in the last place (ulps)."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]


def ulps_apart(actual: Array, expected: Array, scale: Array | None = None) -> Array:
    """Return |actual - expected| divided by the spacing of floats at `scale`, by default at `expected`.

    The distance is infinite if exactly one of the elements is NaN or infinite, or if both are zeros of different
    signs. Complex numbers are compared relative to the modulus. The distance of integers or bools is 0 if they are
    equal, else infinite.
    """
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    assert actual.dtype == expected.dtype, (actual.dtype, expected.dtype)
    if actual.dtype.kind in "biu":
        return np.where(actual == expected, 0.0, np.inf)
    if actual.dtype.kind == "c":
        size = np.abs(expected) if scale is None else scale
        with np.errstate(all="ignore"):
            size = np.where(np.isfinite(size), size, 0).astype(actual.real.dtype)
        return np.maximum(
            ulps_apart(actual.real, expected.real, size),
            ulps_apart(actual.imag, expected.imag, size),
        )
    info = ml_dtypes.finfo(actual.dtype)
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    size = np.maximum(np.abs(e), 0 if scale is None else np.abs(scale.astype(np.float64)))
    with np.errstate(all="ignore"):
        spacing = np.maximum(
            2.0 ** np.floor(np.log2(np.maximum(size, float(info.smallest_normal))))
            * float(info.eps),
            float(info.smallest_subnormal),
        )
        apart = np.abs(a - e) / spacing
        same = (a == e) | (np.isnan(a) & np.isnan(e))
        strange = ~np.isfinite(a) | ~np.isfinite(e)
        if scale is None:
            strange |= (a == 0) & (e == 0) & (np.signbit(a) != np.signbit(e))
            same &= (np.signbit(a) == np.signbit(e)) | np.isnan(e)
    return np.where(same, 0.0, np.where(strange, np.inf, apart))


def assert_close(actual: Any, expected: Array, ulps: float, scale: Array | None = None) -> None:
    """Fail unless all elements are within `ulps` of the expected ones.

    The message names the element with the largest error.
    """
    actual = np.asarray(actual)
    apart = ulps_apart(actual, expected, scale)
    if apart.size and np.max(apart) > ulps:
        worst = np.unravel_index(np.argmax(apart), apart.shape)
        raise AssertionError(
            f"{apart[worst]:.3g} ulps apart at {tuple(map(int, worst))}, {ulps} allowed: "
            f"got {actual[worst]!r}, expected {expected[worst]!r}"
        )
