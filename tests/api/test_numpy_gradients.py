"""Gradients of NumPy's functions must equal central differences of NumPy, and known values at special points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf

R = np.random.default_rng(3)
V, W = R.normal(size=6), R.normal(size=6)
M, N = R.normal(size=(3, 4)), R.normal(size=(3, 4))
T = R.normal(size=(2, 3, 4))
SORTED = np.sort(R.normal(size=6))
MASK = N > 0

CASES: dict[str, tuple[Callable[[Any, Any], Any], np.ndarray]] = {
    "append": (lambda n, x: n.append(x, x[:2] ** 2), V),
    "array_split": (lambda n, x: n.array_split(x, 4)[1], V),
    "atleast_3d": (lambda n, x: n.atleast_3d(x), M),
    "average": (lambda n, x: n.average(M, 1, weights=x**2), N),
    "average of weights": (lambda n, x: n.average(x, 0, weights=V[:3] ** 2), M),
    "bincount": (lambda n, x: n.bincount(np.array([0, 2, 2, 1, 0, 5]), x), V),
    "clip": (lambda n, x: n.clip(x, -0.5, a_max=0.5), V),
    "column_stack": (lambda n, x: n.column_stack((x, x**2)), V),
    "convolve": (lambda n, x: n.convolve(x, x[:3] * W[:3], "same"), V),
    "correlate": (lambda n, x: n.correlate(x[:3], x, "full"), V),
    "corrcoef": (lambda n, x: n.corrcoef(x), M),
    "cov": (lambda n, x: n.cov(x, aweights=V[:4] ** 2), M),
    "cumprod": (lambda n, x: n.cumprod(x), M),
    "cumsum": (lambda n, x: n.cumsum(x, 0), M),
    "diag": (lambda n, x: n.diag(x, -1) + n.diag(n.diag(x, 1)), V[:3][:, None] + W[:3]),
    "diagflat": (lambda n, x: n.diagflat(x, 1), M),
    "divmod": (lambda n, x: n.divmod(x, 0.7)[1], V),
    "dot": (lambda n, x: n.dot(x, n.dot(x.T, x)), M),
    "dstack": (lambda n, x: n.dstack((x, 2 * x)), M),
    "eigvalsh of one triangle": (lambda n, x: n.linalg.eigvalsh(x, "U"), R.normal(size=(3, 3))),
    "fabs": (lambda n, x: n.fabs(x), V),
    "flips": (lambda n, x: n.fliplr(n.flipud(x)), M),
    "float_power": (lambda n, x: n.float_power(x**2, 1.5), V),
    "fmax": (lambda n, x: n.fmax(x, W) * n.fmin(x, 0.1), V),
    "geomspace": (lambda n, x: n.geomspace(x[0] ** 2, x[1] ** 2, 5), V),
    "gradient": (lambda n, x: n.gradient(x, SORTED, edge_order=2), V),
    "gradient by coordinates": (lambda n, x: n.gradient(V, n.cumsum(x**2)), W),
    "heaviside": (lambda n, x: n.heaviside(np.array([-1.0, 0.0, 1.0, 0.0, 2.0, 0.0]), x), V),
    "hsplit": (lambda n, x: n.hsplit(x, [1, 3])[1], M),
    "hstack": (lambda n, x: n.hstack((x, x[:, :1])), M),
    "inner": (lambda n, x: n.inner(x, N), M),
    "interp in x": (lambda n, x: n.interp(x, SORTED, W), V),
    "interp in fp": (lambda n, x: n.interp(V, SORTED, x), W),
    "interp in xp": (lambda n, x: n.interp(V, n.cumsum(x**2), W), V + 2.0),
    "interp round": (lambda n, x: n.interp(x, SORTED, W, period=1.7), V),
    "kron": (lambda n, x: n.kron(x, N[:2]), M),
    "ldexp": (lambda n, x: n.ldexp(x, np.array([1, -2, 3, 0, 5, -7])), V),
    "linspace": (lambda n, x: n.linspace(x[0], x[1:3], 4, False, axis=1), V),
    "logaddexp2": (lambda n, x: n.logaddexp2(x, W), V),
    "logspace": (lambda n, x: n.logspace(x[0], x[1], 4, base=2.0), V),
    "max with initial": (lambda n, x: n.max(x, 1, initial=0.3, where=MASK), M),
    "mean of some": (lambda n, x: n.mean(x, 1, where=MASK), M),
    "median": (lambda n, x: n.median(x, (0, 2)), T),
    "median of many": (lambda n, x: n.median(x), V[:5]),
    "modf": (lambda n, x: n.modf(x * 3)[0], V),
    "nanmax": (lambda n, x: n.nanmax(np.where(MASK, x, np.nan), 0) if n is np else n.nanmax(n.where(MASK, x, np.nan), 0), M),
    "percentile": (lambda n, x: n.percentile(x, [10, 50, 90], 1), M),
    "polyval": (lambda n, x: n.polyval(x[:3], x), V),
    "prod of some": (lambda n, x: n.prod(x, 0, where=MASK, initial=2.0), M),
    "ptp": (lambda n, x: n.ptp(x, 1), M),
    "quantile": (lambda n, x: n.quantile(M, x**2 / 9, axis=1, method="hazen"), V),
    "rot90": (lambda n, x: n.rot90(x, 3), M),
    "select": (lambda n, x: n.select([V > 0.5, V > 0], [x, x**2], 3.0), W),
    "sinc": (lambda n, x: n.sinc(x), V),
    "take": (lambda n, x: n.take(x, np.array([1, 1, 9, -3]), 1, mode="wrap"), M),
    "trapezoid": (lambda n, x: n.trapezoid(x, SORTED), V),
    "trapezoid in x": (lambda n, x: n.trapezoid(V, x), W),
    "var of some": (lambda n, x: n.var(x, 1, ddof=1, where=[True, False, True, True]), M),
    "vdot": (lambda n, x: n.vdot(x, x[::-1] * W), V),
    "vsplit": (lambda n, x: n.vsplit(x, 3)[1], M),
    "vstack": (lambda n, x: n.vstack((x, x**2)), V),
    **{
        f"pad {mode}": (lambda n, x, mode=mode: n.pad(x, ((1, 2), (0, 3)), mode), M)
        for mode in (
            "constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum", "mean", "median", "minimum",
        )
    },
}  # fmt: skip


def differences(function: Callable[[np.ndarray], float], x: np.ndarray) -> np.ndarray:
    """Return the gradient of `function` at x by central differences, whose error is about 1e-9."""
    step, gradient = 1e-5, np.zeros_like(x)
    for i in np.ndindex(x.shape):
        change = np.zeros_like(x)
        change[i] = step
        gradient[i] = (function(x + change) - function(x - change)) / (2 * step)
    return gradient


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_numpys_functions(name: str) -> None:
    function, x = CASES[name]
    weights = R.normal(size=np.shape(function(np, x)))
    wanted = differences(lambda x: float(np.sum(weights * function(np, x))), x)
    result = tnf.grad(lambda x: tnf.sum(weights * function(tnf, x)))(x)
    np.testing.assert_allclose(result, wanted, rtol=2e-7, atol=2e-7)
    variable = tnf.EagerRuntime().variable(x)
    tnf.sum(function(tnf, variable) * weights).backward()
    np.testing.assert_allclose(variable.grad, result, rtol=1e-12, atol=1e-12)


# ---- special points -------------------------------------------------------------------------------


def test_sinc_is_smooth_at_zero() -> None:
    """sinc must have the derivatives of its series, the sum of (-1)^k (pi x)^(2k) / (2k + 1)!"""
    derivative: Any = tnf.sinc
    wanted = [1.0, 0.0, -(math.pi**2) / 3, 0.0, math.pi**4 / 5]
    for order, right in enumerate(wanted):
        np.testing.assert_allclose(derivative(0.0), right, rtol=1e-14, err_msg=str(order))
        derivative = tnf.grad(derivative)
    for x in (0.02, 0.15, 0.16, 0.5):  # on both sides of 1 / (2 pi), up to which the series is used
        y = math.pi * x
        curvature = ((2 - y * y) * math.sin(y) - 2 * y * math.cos(y)) / y**3 * math.pi**2
        np.testing.assert_allclose(tnf.grad(tnf.grad(tnf.sinc))(x), curvature, rtol=1e-9)


GAPS = np.array([1.0, np.nan, 4.0, -2.0, np.nan])
NUMBERS = ~np.isnan(GAPS)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (tnf.nansum, [1, 0, 1, 1, 0]),
        (tnf.nanprod, [-8, 0, -2, 4, 0]),
        (tnf.nanmean, [1 / 3, 0, 1 / 3, 1 / 3, 0]),
        (tnf.nanmax, [0, 0, 1, 0, 0]),
        (tnf.nanmin, [0, 0, 0, 1, 0]),
        (tnf.nanvar, [0, 0, 2, -2, 0]),
        (tnf.nanstd, [0, 0, 2 / (2 * math.sqrt(6)), -2 / (2 * math.sqrt(6)), 0]),
        (lambda x: tnf.sum(tnf.nan_to_num(x)), [1, 0, 1, 1, 0]),
        (lambda x: tnf.sum(tnf.fmax(x, 0.0)), [1, 0, 1, 0, 0]),
    ],
)
def test_nan_has_no_part_in_gradients(function: Any, wanted: list[float]) -> None:
    np.testing.assert_allclose(tnf.grad(function)(GAPS), wanted, rtol=1e-14, atol=1e-14)


def test_equal_elements_share_the_gradient_of_order_statistics() -> None:
    """The gradients of elements that are equal to the result may be shared in any proportion, but must add up to 1.

    The gradients of all other elements must be 0.
    """
    x = np.array([2.0, 1.0, 2.0, 5.0, 2.0])
    for function in (tnf.median, lambda x: tnf.percentile(x, 50), lambda x: tnf.quantile(x, 0.6)):
        gradient = tnf.grad(function)(x)
        assert gradient[1] == gradient[3] == 0
        assert gradient.sum() == pytest.approx(1.0)
    even = tnf.grad(tnf.median)(np.array([3.0, 1.0, 2.0, 2.0]))
    np.testing.assert_allclose(even, [0.0, 0.0, 0.5, 0.5])
    third = tnf.grad(lambda x: tnf.quantile(x, 0.5 / 3 + 1 / 3))(np.array([3.0, 1.0, 2.0, 2.5]))
    np.testing.assert_allclose(third, [0.0, 0.0, 0.5, 0.5])


def test_parts_of_numbers_at_zeros_and_infinities() -> None:
    x = np.array([-1.0, -0.0, 0.0, 2.5, -2.5, np.inf])
    np.testing.assert_array_equal(tnf.grad(lambda x: tnf.sum(tnf.modf(x)[0]))(x), [1, 1, 1, 1, 1, 0])  # fmt: skip
    np.testing.assert_array_equal(np.signbit(tnf.modf(x)[0]), np.signbit(np.modf(x)[0]))
    np.testing.assert_array_equal(tnf.modf(x), np.modf(x))
    np.testing.assert_array_equal(tnf.grad(lambda x: tnf.sum(tnf.nan_to_num(x)))(x), [1, 1, 1, 1, 1, 0])  # fmt: skip


def test_numbers_whose_powers_of_two_overflow() -> None:
    x, power = np.array([5e-324, 1.5e-300, 3.0]), np.array([1074, 1100, -1074])
    np.testing.assert_array_equal(tnf.ldexp(x, power), np.ldexp(x, power))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_powers_of_two_of_every_size(dtype: str) -> None:
    """The product must be rounded only once, even if it is subnormal, and its derivative must not be NaN."""
    kind = np.finfo(dtype)
    bits = (
        np.random.default_rng(0).integers(0, 256, 200 * np.dtype(dtype).itemsize, "u1").view(dtype)
    )
    ends = [
        0.0,
        1.0,
        kind.max,
        kind.tiny,
        kind.smallest_subnormal,
        3 * kind.smallest_subnormal,
        np.inf,
        np.nan,
    ]
    x = np.concatenate([bits, np.array(ends, dtype), -np.array(ends, dtype)])[:, None]
    reach = 2 * (kind.maxexp - kind.minexp)
    power = np.concatenate(
        [np.arange(-reach, reach, max(reach // 200, 1)), [2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]]
    )
    with np.errstate(all="ignore"):
        for exponent in (power, power[:-2].astype("i4"), np.arange(-128, 128).astype("i1")):
            wanted = np.ldexp(x, exponent)
            for result in (tnf.ldexp(x, exponent), tnf.jit(tnf.ldexp)(x, exponent)):
                np.testing.assert_array_equal(result, wanted, strict=True)
                signs = np.signbit(wanted) & ~np.isnan(wanted)
                np.testing.assert_array_equal(np.signbit(result) & ~np.isnan(result), signs)
        slope = tnf.grad(lambda x: tnf.sum(tnf.ldexp(x, power)))(np.zeros(power.shape, dtype))
        np.testing.assert_array_equal(slope, np.ldexp(np.ones((), dtype), power))
    assert tnf.ldexp(1.0, np.array(2**64 - 1, "u8")) == np.inf


def test_counts_in_a_trace_have_a_length() -> None:
    x = np.array([0, 2, 2, 7])
    counts = tnf.jit(lambda x: tnf.bincount(x, length=4))(x)
    np.testing.assert_array_equal(counts, [1, 0, 2, 0])
    with pytest.raises(tnf.errors.DataDependentShapeError, match="length="):
        tnf.compile(lambda x: tnf.bincount(x), x)


def test_interpolation_at_steps_and_beside_infinities() -> None:
    """At a sample point, the interpolant must equal the sample, even next to an infinite sample.

    Gradients must be finite.
    """
    inf = np.inf
    points: list[tuple[list[float], list[float]]] = [
        ([0, 0, 1, 1], [1, 2, 3, 4]), ([0, 1, 2], [1, 2, inf]), ([0, 1, 2], [inf, 2, 1]), ([0, 1, 2], [1, inf, inf]),
        ([0, 1, 1, 1, 2], [0, 1, 2, 3, 4]), ([1, 1], [3, 4]), ([0, 1], [-inf, inf]), ([-inf, 0, inf], [1, 2, 3]),
        ([0, 5e-324, 1], [0, 1, 2]), ([0, 1, 2], [1, np.nan, 3]),
    ]  # fmt: skip
    x = np.array([-1.0, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, np.nan])
    for xp, fp in points:
        with np.errstate(all="ignore"):
            wanted = np.interp(x, xp, fp)
            np.testing.assert_array_equal(tnf.interp(x, xp, fp), wanted)
            np.testing.assert_array_equal(
                tnf.jit(tnf.interp)(x, np.array(xp), np.array(fp)), wanted
            )
    gradient = tnf.grad(lambda *args: tnf.sum(tnf.interp(*args)), argnums=(0, 1, 2))
    steps = gradient(
        np.array([-1.0, 0.0, 0.5, 1.0, 2.0]), np.array([0.0, 0, 1, 1]), np.array([1.0, 2, 3, 4])
    )
    np.testing.assert_array_equal(steps[0], [0, 1, 1, 0, 0])
    np.testing.assert_array_equal(steps[1], [0, -1.5, -0.5, 0])
    np.testing.assert_array_equal(steps[2], [1, 1.5, 0.5, 2])
    slopes = gradient(np.array([0.5, 1.0]), np.arange(3.0), np.array([1.0, 2, inf]))
    np.testing.assert_array_equal(slopes[0], [1, 0])
    np.testing.assert_array_equal(slopes[2], [0.5, 1.5, 0])
