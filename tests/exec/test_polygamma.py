"""Native polygamma functions must equal values that are computed with 60 digits."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import tenferro as tnf


def exact(order: int, x: Any) -> Any:
    with mpmath.workdps(60):
        return np.array([float(mpmath.psi(order, mpmath.mpf(float(v)))) for v in x])


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5, 12])
def test_every_interval(order: int) -> None:
    x = np.array([-19.97, -8.75, -8.5, -3.4, -2.5, -1.1, -0.5, -0.03, 0.03, 0.25, 1.6, 45.9])
    # Powers up to order + 1 multiply rounding errors, so the tolerance grows with the order.
    rtol = (6 + 2 * order) * float(np.finfo(float).eps)
    np.testing.assert_allclose(tnf.polygamma(order, x), exact(order, x), rtol=rtol)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_far_below_zero(order: int) -> None:
    """Far below zero, the reflection formula must be used: a sum over all poles would have 2^50 terms."""
    x = np.array([-(2.0**50) - 0.5, -(2.0**50) - 0.25])
    near_zero = exact(order, np.array([-0.5, -0.25])) - (-1) ** order * exact(order, [1.5, 1.25])
    wanted = near_zero + (-1) ** order * exact(order, -x)
    found = tnf.polygamma(order, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-14)
    floats = tnf.polygamma(order, np.float32([-(2.0**22) - 0.5, -1e30]))
    pole = np.inf if order % 2 else np.nan
    np.testing.assert_allclose(floats, np.float32([wanted[0], pole]), rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 35, 170, 180])
def test_poles_and_ends(order: int) -> None:
    pole, sign = (np.inf, 1) if order % 2 else (np.nan, -1)
    x = np.array([0, -0.0, -1, -7, -1e16, -np.inf, np.nan])
    np.testing.assert_array_equal(tnf.polygamma(order, x), [pole] * 6 + [np.nan])
    if order < 170:
        assert tnf.polygamma(order, np.inf) == 0
        assert np.signbit(tnf.polygamma(order, np.inf)) == (sign < 0)


def test_orders_end() -> None:
    """Orders above 1000 must be errors, because a loaded file may contain any order, and need much time."""
    with pytest.raises(
        tnf.errors.InvalidConfigError, match="order must be at most 1000, got 1000000000"
    ):
        tnf.polygamma(10**9, np.ones(2))
