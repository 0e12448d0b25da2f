"""Minimisers that run inside a program.

They must find known minima and SciPy's fits, and their derivatives must equal differences of SciPy's results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize as scipy_optimize

import tenferro as tnf
from tenferro.api.optimize import lbfgs, levenberg_marquardt
from tenferro.errors import ArityError, DTypeError, InvalidConfigError, ShapeError
from xla_peer import XlaExecutor

T = np.linspace(0, 3, 8)
DATA = 2.5 * np.exp(-0.8 * T) + 0.4 + 0.05 * np.cos(7 * T)


def rosenbrock(x: Any) -> Any:
    return tnf.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def curve(p: Any, data: Any, t: Any = T) -> Any:
    return p["a"] * tnf.exp(-p["rate"] * t) + p["c"] - data


GUESS = {"a": 1.0, "rate": 0.3, "c": 0.0}


def scipy_fit(data: Any) -> Any:
    return scipy_optimize.least_squares(
        lambda x: x[0] * np.exp(-x[1] * T) + x[2] - data,
        [1, 0.3, 0],
        lambda x: np.stack(
            [np.exp(-x[1] * T), -x[0] * T * np.exp(-x[1] * T), np.ones(len(T))], axis=1
        ),
        method="lm",
        ftol=1e-15,
        xtol=1e-15,
        gtol=1e-15,
    ).x


def test_rosenbrock_in_ten_dimensions() -> None:
    start = np.tile([-1.2, 1.0], 5)
    theirs = scipy_optimize.minimize(
        scipy_optimize.rosen, start, jac=scipy_optimize.rosen_der, method="L-BFGS-B", tol=1e-10
    )
    for executor in (None, XlaExecutor()):
        ours = tnf.jit(lambda x: lbfgs(rosenbrock, x), executor=executor)(start)
        np.testing.assert_allclose(ours.x, theirs.x, atol=1e-5)
        np.testing.assert_allclose(ours.x, np.ones(10), atol=1e-7)
        assert ours.success
        assert ours.status == 0
        assert ours.nit < 1.5 * theirs.nit
        assert abs(np.asarray(ours.jac)).max() < 2e-8


def test_a_large_quadratic_and_its_derivative() -> None:
    """The minimum of the quadratic function x A x / 2 - b x is x = A^-1 b.

    Here it has 100 unknowns, and the condition number of A is 1e3.
    """
    q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(100, 100)))
    matrix = (q * np.geomspace(1, 1e3, 100)) @ q.T
    b = np.arange(100.0)

    def solution(b: Any) -> Any:
        return lbfgs(lambda x: 0.5 * x @ matrix @ x - b @ x, np.zeros(100), gtol=1e-9).x

    np.testing.assert_allclose(solution(b), np.linalg.solve(matrix, b), rtol=1e-6, atol=1e-8)
    slope = tnf.grad(lambda b: solution(b)[3])(b)
    np.testing.assert_allclose(slope, np.linalg.inv(matrix)[3], atol=1e-11)


def test_a_curve_fit_and_its_derivatives() -> None:
    def fitted(data: Any) -> Any:
        return levenberg_marquardt(curve, GUESS, args=(data,))

    expected = scipy_fit(DATA)
    differences = []
    for unit in 1e-3 * np.eye(len(T)):
        differences.append((scipy_fit(DATA + unit) - scipy_fit(DATA - unit)) / 2e-3)
    for executor in (None, XlaExecutor()):
        result, slopes = tnf.jit(
            lambda data: (fitted(data), tnf.jacrev(lambda data: fitted(data).x)(data)),
            executor=executor,
        )(DATA)
        np.testing.assert_allclose([result.x[n] for n in GUESS], expected, rtol=1e-7)
        np.testing.assert_allclose(result.fun, curve(result.x, DATA), atol=1e-12)
        assert result.success
        assert result.nit < 30
        np.testing.assert_allclose(
            [slopes[n] for n in GUESS], np.transpose(differences), rtol=1e-5, atol=2e-6
        )


def test_both_in_batches_and_float32() -> None:
    """Both minimisers must find the root of x^2 = c, for a batch of c in float32.

    `levenberg_marquardt` solves a least-squares problem, and `lbfgs` minimises (x^2 - c)^2.
    """
    c = np.array([4, 9], np.float32)
    for method in (
        lambda c: levenberg_marquardt(lambda x: x * x - c, np.float32(1)).x,
        lambda c: lbfgs(lambda x: (x * x - c) ** 2, np.float32(1)).x,
    ):
        roots = tnf.vmap(method)(c)
        assert roots.dtype == np.float32
        np.testing.assert_allclose(roots, [2, 3], rtol=1e-5)
        slope = tnf.vmap(tnf.grad(method))(c)
        np.testing.assert_allclose(slope, [1 / 4, 1 / 6], rtol=1e-4)


def test_complex_parameters() -> None:
    target = np.array([1 + 2j, -3j])

    def distance(z: Any) -> Any:
        d = z - target
        return tnf.sum(tnf.real(d * tnf.conj(d)))

    result = lbfgs(distance, np.zeros(2, complex))
    np.testing.assert_allclose(result.x, target, atol=1e-7)


def test_no_minimum_has_a_status_and_no_derivative() -> None:
    few = lbfgs(rosenbrock, np.array([-1.2, 1.0]), maxiter=3)
    assert (int(few.status), int(few.nit), bool(few.success)) == (1, 3, False)
    # The function decreases up to x = 1e5, and is NaN beyond. The minimiser finds no further step there, and must
    # return status 2.
    none = lbfgs(lambda x: tnf.where(x < 1e5, -x, tnf.nan), 1.0)
    assert (int(none.status), bool(none.success)) == (2, False)
    assert np.isfinite(none.x)
    slope = tnf.grad(lambda a: lbfgs(lambda x: tnf.exp(a * x), 0.0, maxiter=2).x)(1.0)
    assert np.isnan(slope)
    cut = levenberg_marquardt(curve, GUESS, args=(DATA,), maxiter=2)
    assert (int(cut.status), bool(cut.success)) == (0, False)
    slope = tnf.grad(lambda d: levenberg_marquardt(curve, GUESS, args=(d,), maxiter=2).x["a"])(DATA)
    assert np.isnan(slope).all()


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (DTypeError, "x0 is i64", lambda: lbfgs(lambda x: x, 1)),
        (ArityError, "no elements", lambda: levenberg_marquardt(lambda x: x, ())),
        (ShapeError, "real scalar", lambda: lbfgs(lambda x: x, np.ones(2))),
        (DTypeError, "must be real", lambda: levenberg_marquardt(lambda x: 1j * x, 1.0)),
        (InvalidConfigError, "gtol", lambda: lbfgs(lambda x: x, 1.0, gtol=-1.0)),
        (InvalidConfigError, "maxiter", lambda: lbfgs(lambda x: x, 1.0, maxiter=0)),
    ],
)
def test_refusals(error: type[Exception], match: str, call: Any) -> None:
    with pytest.raises(error, match=match):
        call()
