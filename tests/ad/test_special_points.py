"""Derivatives up to third order must be right at points where the formula of a rule would overflow, cancel or divide
by zero.

mpmath computes the expected values from the definition of the function, with 450 digits.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

import tenferro as tnf
from xla_peer import XlaExecutor

Function = Callable[[Any], Any]

SATURATED = (0.0, 1e-8, 0.5, 5.0, 20.0, 90.0, 360.0, 372.0, 720.0, 1e10, 1e200, np.inf)

CASES: dict[str, tuple[Function, Function, tuple[float, ...]]] = {
    "tanh": (tnf.tanh, mpmath.tanh, SATURATED),
    "logistic": (tnf.logistic, lambda x: 1 / (1 + mpmath.exp(-x)), SATURATED),
    "softplus": (
        lambda x: tnf.logaddexp(x, 0.0),
        lambda x: mpmath.log1p(mpmath.exp(x)) if x < 900 else x,
        SATURATED,
    ),
    "atan": (tnf.atan, mpmath.atan, (0.0, 0.5, 1.0, 2.0, 1e10, 1e160, 1.7e308, np.inf)),
    "asinh": (tnf.asinh, mpmath.asinh, (0.0, 0.5, 1.0, 2.0, 1e10, 1e160, 1.7e308, np.inf)),
    "erf": (tnf.erf, mpmath.erf, (0.0, 0.5, 5.0, 27.0, 28.0, 1e10, 1.7e308, np.inf)),
    "erfc": (
        tnf.erfc,
        lambda x: 1 - mpmath.erf(x),
        (0.0, 0.5, 5.0, 27.0, 28.0, 1e10, 1.7e308, np.inf),
    ),
    "log1p": (tnf.log1p, mpmath.log1p, (0.0, 1e-8, 1e10, 1e160, np.inf)),
    "expm1": (tnf.expm1, mpmath.expm1, (0.0, 1e-8, 20.0, 90.0)),
    "cbrt": (tnf.cbrt, lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), (1e-30, 1.0, 1e200, np.inf)),
    "hypot": (
        lambda x: tnf.hypot(x, 2.0),
        lambda x: mpmath.sqrt(x * x + 4),
        (0.0, 1e-8, 1.0, 2.0, 3.0, 1e10),
    ),
    "hypot of equals": (
        lambda x: tnf.hypot(x, 2.0 * x - 2.0),
        lambda x: mpmath.sqrt(x * x + (2 * x - 2) ** 2),
        (0.0, 1.0, 2.0),
    ),
    "atan2 by y": (
        lambda x: tnf.atan2(x, 2.0),
        lambda x: mpmath.atan2(x, 2),
        (0.0, 2.0, 1e200, np.inf),
    ),
    "atan2 by x": (
        lambda x: tnf.atan2(2.0, x),
        lambda x: mpmath.atan2(2, x),
        (0.0, 2.0, 1e200, np.inf),
    ),
}


SLOPES: dict[str, Function] = {
    "erf": lambda x: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x),
    "erfc": lambda x: -2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x),
}
"""First derivatives of functions that mpmath computes slowly with 450 digits."""


def expected(definition: Function, x: float, order: int) -> float:
    """Return the derivative of order `order` by a finite difference with 450 digits.

    At infinity, return the limit of the derivative. It is rounded to an integer, because these functions have the
    limits 0 or 1.
    """
    with mpmath.workdps(450):
        if np.isinf(x):
            point = mpmath.mpf(10) ** 30 * (1 if x > 0 else -1)
            return float(
                mpmath.nint(mpmath.diff(definition, point, order, h=mpmath.mpf(1) / 10**9))
            )
        point = mpmath.mpf(x)
        step = min(mpmath.mpf(1), abs(point) or mpmath.mpf(1)) / mpmath.mpf(10) ** 20
        return float(mpmath.diff(definition, point, order, h=step))


def forward(fn: Function, order: int) -> Function:
    for _ in range(order):
        fn = (lambda inner: lambda x: tnf.jvp(inner, (x,), (tnf.ones_like(x),))[1])(fn)
    return fn


def reverse(fn: Function, order: int) -> Function:
    for _ in range(order):
        fn = (lambda inner: tnf.grad(lambda x: tnf.sum(inner(x))))(fn)
    return fn


@pytest.mark.parametrize("name", CASES)
def test_derivatives_to_third_order(name: str) -> None:
    fn, definition, points = CASES[name]
    x = np.array([sign * point for point in points for sign in (1, -1)])
    x = x[x >= 0] if name == "log1p" else x
    for order in (1, 2, 3):
        slope, rest = (SLOPES[name], order - 1) if name in SLOPES else (definition, order)
        right = [expected(slope, point, rest) for point in x]
        for transform in (forward, reverse):
            got = transform(fn, order)(x)
            assert got == pytest.approx(np.array(right), rel=1e-11, abs=5e-15), (order, transform)


ODD: dict[str, tuple[Function, Callable[[float], float]]] = {
    "tanh": (tnf.tanh, lambda x: -2 * np.tanh(x) / np.cosh(x) ** 2),
    "atan": (tnf.atan, lambda x: -2 * x / (1 + x * x) ** 2),
    "asin": (tnf.asin, lambda x: x / (1 - x * x) ** 1.5),
    "acos": (tnf.acos, lambda x: -x / (1 - x * x) ** 1.5),
    "atanh": (tnf.atanh, lambda x: 2 * x / (1 - x * x) ** 2),
    "asinh": (tnf.asinh, lambda x: -x / (1 + x * x) ** 1.5),
    "erf": (tnf.erf, lambda x: -4 * x / np.sqrt(np.pi) * np.exp(-x * x)),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_second_derivatives_that_are_odd_keep_their_digits_near_zero(name: str, dtype: str) -> None:
    fn, definition = ODD[name]
    eps = float(tnf.finfo(dtype).eps)
    for exponent in (-12, -9, -7, -4, -2):
        x = np.asarray(-(1.25 * 2.0**exponent), tnf.DType.of(dtype).dtype)
        for slope in (forward(fn, 2), reverse(fn, 2), forward(reverse(fn, 1), 1)):
            assert float(slope(x)) == pytest.approx(definition(float(x)), rel=8 * eps, abs=0), (
                exponent
            )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_slopes_that_are_infinite_at_one_have_infinite_slopes(dtype: str) -> None:
    for fn, sign in ((tnf.asin, 1), (tnf.acos, -1), (tnf.atanh, 1)):
        for x in (1, -1):
            for second in (forward(fn, 2), reverse(fn, 2), forward(reverse(fn, 1), 1)):
                assert second(np.asarray(x, dtype)) == sign * x * np.inf


@pytest.mark.parametrize("x", [np.inf, -np.inf])
def test_every_derivative_of_hypot_is_finite_at_infinity(x: float) -> None:
    for fn in (lambda x: tnf.hypot(x, 2.0), lambda x: tnf.hypot(2.0, x)):
        for transform in (forward, reverse):
            slopes = [float(transform(fn, order)(np.float64(x))) for order in (1, 2, 3)]
            assert slopes == [np.sign(x), 0, 0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_first_derivative_of_tanh_is_right_to_a_few_ulps(dtype: str) -> None:
    x = np.linspace(-40, 40, 2001).astype(dtype)
    right = np.array([float(mpmath.sech(float(v)) ** 2) for v in x])
    got = tnf.grad(lambda x: tnf.sum(tnf.tanh(x)))(x).astype(float)
    info = np.finfo(dtype)
    assert np.all(
        np.abs(got - right) <= 5 * float(info.eps) * right + float(info.smallest_subnormal)
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("peer", ["native", "pjrt"])
def test_saturated_networks_have_a_hessian(dtype: str, peer: str) -> None:
    w, v = np.full((3, 3), 300, dtype), np.ones(3, dtype)
    executor = None if peer == "native" else XlaExecutor()

    def product(v: Any) -> Any:
        return tnf.hvp(lambda x: tnf.sum(tnf.real(tnf.tanh(w @ x))), (v,), (v,))

    (y,) = np.atleast_2d(tnf.jit(product, executor=executor)(v))
    assert y.tolist() == [0, 0, 0]


def test_cbrt_has_infinite_slopes_at_zero_and_none_at_infinity() -> None:
    for x, slopes in (
        (0.0, [np.inf, -np.inf, np.inf]),
        (-0.0, [np.inf, np.inf, np.inf]),
        (np.inf, [0, 0, 0]),
        (-np.inf, [0, 0, 0]),
    ):
        for order, slope in enumerate(slopes, 1):
            assert forward(tnf.cbrt, order)(np.float64(x)) == slope
            assert reverse(tnf.cbrt, order)(np.float64(x)) == slope


REMAINDERS = np.array([0.0, -0.0, 2.0, -2.0, 4.0, 0.5, -0.5, 6.0])


@pytest.mark.parametrize("divisor", [2.0, -2.0, 1.0, np.inf, -np.inf])
def test_a_remainder_has_slope_one_everywhere(divisor: float) -> None:
    xla = XlaExecutor()
    y = tnf.remainder(REMAINDERS, divisor)
    right = np.mod(REMAINDERS, divisor)
    for got in (y, tnf.jit(lambda x: x % divisor, executor=xla)(REMAINDERS)):
        assert np.array_equal(got, right)
        assert np.array_equal(np.signbit(got), np.signbit(right))
    slope = tnf.grad(lambda x: tnf.sum(x % divisor))(REMAINDERS)
    assert slope.tolist() == [1] * len(REMAINDERS)
    by_divisor = tnf.grad(lambda m: tnf.sum(REMAINDERS % m))(divisor)
    if np.isfinite(divisor):
        assert by_divisor == -np.sum(np.floor(REMAINDERS / divisor))


def test_the_hessian_of_hypot() -> None:
    def hessian(a: float, b: float) -> Any:
        return tnf.hessian(lambda x: tnf.hypot(x[0], x[1]))(np.array([a, b]))

    for a, b in ((2.0, 2.0), (2.0, -2.0), (-3.0, 3.0), (0.0, 2.0), (2.0, 0.0), (3.0, -4.0)):
        r = np.hypot(a, b)
        right = np.array([[b * b, -a * b], [-a * b, a * a]]) / r**3
        np.testing.assert_allclose(hessian(a, b), right, atol=1e-15)
    slopes = tnf.grad(lambda x: tnf.hypot(x[0], x[1]))
    assert slopes(np.array([np.inf, 1.0])).tolist() == [1, 0]
    assert slopes(np.array([-1.0, -np.inf])).tolist() == [0, -1]
    assert slopes(np.zeros(2)).tolist() == [0, 0]


def test_residuals_that_vanish_have_a_hessian() -> None:
    a = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    hessian = tnf.hessian(lambda b: tnf.sum(tnf.linalg.lstsq(a, b).residuals))
    np.testing.assert_allclose(hessian(np.array([1.0, 2.0, 0.0])), np.diag([0, 0, 2]), atol=1e-12)


def test_hypot_is_ieee() -> None:
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -3.0, 1e300, 5e-324]
    a, b = (grid.ravel() for grid in np.meshgrid(special, special))
    np.testing.assert_allclose(tnf.hypot(a, b), np.hypot(a, b), rtol=4e-16)


def test_a_power_depends_on_an_exponent_that_is_zero() -> None:
    mixed = tnf.jacfwd(tnf.grad(tnf.pow, argnums=0), argnums=1)
    for x in (2.0, 1.0, 0.3):
        assert mixed(x, 0.0) == pytest.approx(1 / x)
    assert tnf.grad(tnf.pow)(0.0, 0.0) == 0
    assert tnf.grad(tnf.pow)(np.nan, 0.0) == 0


def test_the_slope_of_a_remainder_in_its_divisor_is_the_exact_quotient() -> None:
    for x, m in ((0.9, 0.1), (0.3, 0.1), (-0.9, 0.1), (0.7, 0.1), (6.0, 3.0), (1e17, 3.0)):
        quotient = Fraction(x) / Fraction(m)
        assert tnf.grad(tnf.fmod, argnums=1)(x, m) == -float(int(quotient))
        assert tnf.grad(tnf.remainder, argnums=1)(x, m) == -float(quotient // 1)


@pytest.mark.parametrize("transform", [forward, reverse])
def test_a_clamp_is_constant_at_its_bounds_and_beyond(transform: Any) -> None:
    x = np.array([-2.0, -1.0, -0.5, 0.0, 1.0, 2.0])
    slope = [0, 0, 1, 1, 0, 0]
    assert [transform(lambda x: tnf.lax.clamp(-1.0, x, 1.0), 1)(v) for v in x] == slope
    by_lower = [transform(lambda lower, v=v: tnf.lax.clamp(lower, v, 1.0), 1)(-1.0) for v in x]
    assert by_lower == [1, 0, 0, 0, 0, 0]
    by_upper = [transform(lambda upper, v=v: tnf.lax.clamp(-1.0, v, upper), 1)(1.0) for v in x]
    assert by_upper == [0, 0, 0, 0, 0, 1]
    # If the lower bound exceeds the upper bound, the result of clamp is the upper bound, and its derivative with
    # respect to the upper bound is 1.
    for lower, upper in ((1.0, 1.0), (2.0, 1.0)):
        tangents = [
            transform(lambda b, v=v: tnf.lax.clamp(lower, v, b), 1)(upper) for v in (0.5, 3.0)
        ]
        assert tangents == ([0, 1] if lower == upper else [1, 1])


@pytest.mark.parametrize("x", [-np.inf, np.inf, complex(-np.inf, 0.0)])
def test_a_power_at_infinity_does_not_change_with_a_negative_exponent(x: Any) -> None:
    """If x is infinite and y is negative, x^y is zero for all exponents near y.

    Its derivative with respect to y must therefore be zero, not NaN.
    """
    x = np.asarray(x)
    y = np.full((), -1.5, x.dtype)
    _, y_dot = tnf.jvp(lambda y: tnf.pow(x, y), (y,), (np.ones_like(y),))
    assert y_dot == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("y", "x"), [(1.0, np.inf), (np.inf, 1.0), (np.inf, np.inf), (2.0, -np.inf)]
)
def test_the_slopes_of_an_angle_at_infinity_are_zero(y: float, x: float, dtype: str) -> None:
    """The derivative must be exactly zero, not a subnormal number such as the reciprocal of the largest float."""
    y, x = np.asarray(y, dtype), np.asarray(x, dtype)
    for transform in (forward, reverse):
        assert transform(lambda y: tnf.atan2(y, x), 1)(y) == 0
        assert transform(lambda x: tnf.atan2(y, x), 1)(x) == 0
