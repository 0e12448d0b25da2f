"""Minimisers with SciPy's interface must accept any tree of parameters.

They must reach known minima with one compiled program.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize as scipy_optimize

import tenferro as tnf
from tenferro.api import optimize
from tenferro.errors import ArityError, DTypeError, InvalidConfigError, ShapeError
from xla_peer import XlaExecutor

A = np.array([[3.0, 1.0], [1.0, 2.0]])
TARGET = {"v": np.array([1.0, -2.0]), "s": np.array(0.5)}


def bowl(p: Any) -> Any:
    d = p["v"] - TARGET["v"]
    return d @ (A @ d) + (p["s"] - TARGET["s"]) ** 2 + 4.0


START = {"v": np.array([5.0, 5.0]), "s": np.array(-1.0)}


@pytest.mark.parametrize("method", [None, *optimize.METHODS])
def test_every_method_finds_the_minimum(method: Any) -> None:
    result = optimize.minimize(bowl, START, method=method, tol=1e-6)
    assert result.success
    assert list(result.x) == list(START)
    np.testing.assert_allclose(result.x["v"], TARGET["v"], atol=2e-3)
    np.testing.assert_allclose(result.x["s"], TARGET["s"], atol=2e-3)
    assert abs(result.fun - 4.0) < 1e-4


def test_the_function_is_traced_once() -> None:
    calls = []

    def fun(p: Any) -> Any:
        calls.append(p)
        return bowl(p)

    result = optimize.minimize(fun, START, method="BFGS")
    assert result.nfev > 3
    assert len(calls) == 1


def test_gradients_are_not_differences() -> None:
    flat = scipy_optimize.minimize(
        lambda x: bowl({"v": x[:2], "s": x[2]}), [5.0, 5.0, -1.0], method="BFGS", tol=1e-9
    )
    result = optimize.minimize(bowl, START, method="BFGS", tol=1e-9)
    assert result.nfev < flat.nfev / 2
    np.testing.assert_allclose(result.x["v"], TARGET["v"], rtol=1e-9)


def test_arguments_are_passed_on() -> None:
    for method in ("L-BFGS-B", "trust-ncg", "trust-exact", "Powell"):
        result = optimize.minimize(
            lambda x, data, shift: tnf.sum((x - data["y"] - shift) ** 2),
            np.zeros(2),
            args=({"y": np.array([1.0, 2.0])}, 3.0),
            method=method,
        )
        np.testing.assert_allclose(result.x, [4.0, 5.0], atol=1e-4)


def test_bounds_are_trees() -> None:
    bounds = ({"v": np.array([-5.0, 0.0]), "s": None}, {"v": 0.5, "s": None})
    result = optimize.minimize(bowl, START, bounds=bounds)
    flat = scipy_optimize.minimize(
        lambda x: bowl({"v": x[1:], "s": x[0]}),
        [-1.0, 0.5, 5.0],
        bounds=[(None, None), (-5, 0.5), (0, 0.5)],
    )
    np.testing.assert_allclose(result.x["v"], flat.x[1:], atol=1e-5)
    assert result.x["v"][1] == 0
    everywhere = optimize.minimize(bowl, START, bounds=(0.0, None))
    assert everywhere.x["v"][1] == 0


def test_dtypes_come_back() -> None:
    seen = []

    def fun(p: Any) -> Any:
        seen.extend([p[0].dtype, p[1].dtype])
        return tnf.sum((p[0] - 1) ** 2) + tnf.sum((p[1] + 2) ** 2)

    result = optimize.minimize(fun, (np.zeros(2, np.float32), np.zeros(3)))
    assert seen == [tnf.float32, tnf.float64]
    assert [x.dtype for x in result.x] == [np.float32, np.float64]
    np.testing.assert_allclose(result.x[0], 1, atol=1e-4)
    np.testing.assert_allclose(result.x[1], -2, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_complex_parameters_are_pairs_of_reals(dtype: Any) -> None:
    target = np.array([[1 + 2j, -3j]])
    result = optimize.minimize(
        lambda p: tnf.sum(tnf.abs(p["z"] - target) ** 2) + (p["r"] - 1) ** 2,
        {"z": np.zeros((1, 2), dtype), "r": 0.0},
    )
    assert result.x["z"].dtype == dtype
    np.testing.assert_allclose(result.x["z"], target, atol=1e-4)
    assert result.jac.shape == (5,)


def test_callbacks_see_trees() -> None:
    seen: list[Any] = []
    optimize.minimize(bowl, START, callback=lambda p: seen.append(bowl(p)))
    assert len(seen) > 2
    assert seen[-1] < seen[0]

    def stop(intermediate_result: Any) -> None:
        assert intermediate_result.x["v"].shape == (2,)
        raise StopIteration

    result = optimize.minimize(bowl, START, callback=stop)
    assert result.nit == 1


def test_by_pjrt() -> None:
    result = optimize.minimize(bowl, START, method="Newton-CG", executor=XlaExecutor())
    np.testing.assert_allclose(result.x["v"], TARGET["v"], atol=1e-4)


def decay(p: Any, t: Any, y: Any) -> Any:
    return {"signal": p["a"] * tnf.exp(-t / p["tau"]) - y, "prior": 0.0 * p["a"]}


def test_least_squares() -> None:
    t = np.linspace(0, 5, 30)
    y = 2.0 * np.exp(-t / 1.5)
    start = {"a": 1.0, "tau": 1.0}
    fit = optimize.least_squares(decay, start, args=(t, y), xtol=1e-12)
    np.testing.assert_allclose([fit.x["a"], fit.x["tau"]], [2.0, 1.5], rtol=1e-6)
    assert fit.jac.shape == (31, 2)
    theirs = scipy_optimize.least_squares(
        lambda p: p[0] * np.exp(-t / p[1]) - y, [1.0, 1.0], x_scale="jac", loss="soft_l1"
    )
    ours = optimize.least_squares(decay, start, args=(t, y), x_scale="jac", loss="soft_l1")
    np.testing.assert_allclose([ours.x["a"], ours.x["tau"]], theirs.x, rtol=1e-5)


def test_least_squares_with_few_residuals_and_bounds() -> None:
    fit = optimize.least_squares(lambda x: x[:1] - 3.0, np.zeros(3), bounds=(None, 2.0))
    assert 1.9 < fit.x[0] <= 2.0
    assert fit.jac.shape == (1, 3)


def test_residuals_of_complex_parameters() -> None:
    def fun(z: Any) -> Any:
        residual = z * z - (3 + 4j)
        return tnf.real(residual), tnf.imag(residual)

    fit = optimize.least_squares(fun, np.array(1 + 0j))
    np.testing.assert_allclose(fit.x, 2 + 1j, rtol=1e-6)
    with pytest.raises(DTypeError, match="real"):
        optimize.least_squares(lambda z: z * z, np.array(1 + 0j))


@pytest.mark.parametrize(
    ("kind", "words", "call"),
    [
        (DTypeError, r"x0\['n'\] is i64", lambda: optimize.minimize(bowl, {"n": 1, "x": 1.0})),
        (ArityError, "no parameters", lambda: optimize.minimize(bowl, {})),
        (InvalidConfigError, "method", lambda: optimize.minimize(bowl, START, method="SGD")),
        (ShapeError, "upper", lambda: optimize.minimize(bowl, START, bounds=(0, np.ones(3)))),
        (
            ArityError,
            r"lower is a dict with the keys 'w', and x0",
            lambda: optimize.minimize(bowl, START, bounds=({"w": 0}, None)),
        ),
        (InvalidConfigError, "two trees", lambda: optimize.minimize(bowl, START, bounds=[0])),
        (
            InvalidConfigError,
            "complex",
            lambda: optimize.minimize(lambda z: tnf.abs(z), 1j, bounds=(0, 1)),
        ),
        (ShapeError, "scalar", lambda: optimize.minimize(lambda x: x, np.ones(2))),
        (InvalidConfigError, "jac", lambda: optimize.least_squares(bowl, START, jac="3-point")),
    ],
)
def test_what_has_no_minimum_is_refused(kind: Any, words: str, call: Any) -> None:
    with pytest.raises(kind, match=words):
        call()
