"""Polygamma functions through PJRT must equal values with 40 digits, for negative and positive arguments."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro.ops.analytic import derivative_of_cotangent

XLA = xla_peer.XlaExecutor()
STARTS = np.array([*range(-20, 4), 8, 20, 45, 59], float)
X = (STARTS[:, None] + [0.03, 0.25, 0.6, 0.9]).reshape(-1)


def exact(order: int, x: Any, digits: int = 40) -> Any:
    with mpmath.workdps(digits):
        return np.array([float(mpmath.psi(order, mpmath.mpf(float(v)))) for v in x])


def on_xla(fn: Any, x: Any) -> Any:
    return tnf.jit(fn, executor=XLA)(x)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5, 12])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_interval(order: int, dtype: str) -> None:
    x = X.astype(dtype)
    found = on_xla(lambda x: tnf.polygamma(order, x), x)
    assert found.dtype == x.dtype
    # Powers up to order + 1 multiply rounding errors, so the tolerance grows with the order.
    rtol = (6 + 2 * order) * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(found, exact(order, x), rtol=rtol)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_dtypes_are_rounded_once(dtype: str) -> None:
    x = np.array([-8.875, -3.25, 0.5, 20.0]).astype(tnf.DType.of(dtype).dtype)
    found = on_xla(lambda x: tnf.polygamma(1, x), x).astype(float)
    wanted = exact(1, x).astype(x.dtype).astype(float)
    np.testing.assert_array_equal(found, wanted)


def test_even_orders_at_half_integers() -> None:
    """At half-integers, the function cot in the reflection formula must be exactly zero, although pi / 2 is rounded."""
    x = np.array([-0.5, -7.5, -19.5])
    for order in (2, 4, 6):
        found = on_xla(lambda x, n=order: tnf.polygamma(n, x), x)
        np.testing.assert_allclose(found, exact(order, x, 60), rtol=4e-15)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 27, 35, 36])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_poles_ends_and_orders_whose_factorials_overflow(order: int, dtype: str) -> None:
    x = np.array([0, -0.0, -1, -7, -1e16, -np.inf, np.inf, np.nan, 1e-30, -1e-30, 1e30, -2.5])
    x = x.astype(dtype)
    pole = np.inf if order % 2 else np.nan
    sign = 1 if order % 2 else -1
    with np.errstate(over="ignore"):
        near = exact(order, x[8:]).astype(dtype)
    wanted = np.array([pole] * 6 + [sign * 0.0, np.nan, *near], dtype)
    found = on_xla(lambda x: tnf.polygamma(order, x), x)
    np.testing.assert_allclose(found, wanted, rtol=100 * float(np.finfo(dtype).eps))
    np.testing.assert_array_equal(np.signbit(found[6]), sign < 0)


def test_derivatives_of_digamma_and_lgamma() -> None:
    x = np.array([-8.9, -7.6, -5.3, 0.4])
    slope = on_xla(tnf.grad(lambda x: tnf.sum(tnf.digamma(x))), x)
    np.testing.assert_allclose(slope, exact(1, x), rtol=2e-15)
    second = on_xla(tnf.grad(lambda x: tnf.sum(tnf.grad(lambda y: tnf.sum(tnf.lgamma(y)))(x))), x)
    np.testing.assert_allclose(second, exact(1, x), rtol=2e-15)


def test_symbolic_extents() -> None:
    program = tnf.compile(lambda x: tnf.polygamma(3, x), tnf.TensorSpec(("n",), "float64"))
    found = xla_peer.export(program).run(X)
    np.testing.assert_allclose(found, exact(3, X), rtol=3e-15)


def test_polynomials_of_the_cotangent() -> None:
    """The n-th derivative of cot is a polynomial in cot.

    Its values must equal finite differences with 50 digits.
    """
    with mpmath.workdps(50):
        for order in (1, 2, 3, 7):
            x = mpmath.mpf("0.3")
            coefficients = derivative_of_cotangent(order)
            value = sum(c * mpmath.cot(x) ** j for j, c in enumerate(coefficients))
            assert mpmath.almosteq(value, mpmath.diff(mpmath.cot, x, order), 1e-20)
