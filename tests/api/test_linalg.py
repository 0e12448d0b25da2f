"""Linear algebra of empty matrices, of batches, and of matrices without full rank, and errors for unsupported norms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import tenferro as tnf
import xla_peer
from tenferro import errors
from tests.api.test_numpy_functions import agree

R = np.random.default_rng(0)
RT = tnf.EagerRuntime()
EMPTY = [
    (0, 0), (0, 3), (3, 0), (2, 0, 0), (0, 3, 3), (0, 0, 0), (2, 0, 3), (2, 3, 0), (0, 2, 3), (0, 3, 2),
]  # fmt: skip
OF_MATRIX: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "expm": (tnf.linalg.expm, scipy.linalg.expm),
    **{
        name: (getattr(tnf.linalg, name), getattr(np.linalg, name))
        for name in (
            "det", "slogdet", "inv", "pinv", "matrix_rank", "svd", "svdvals", "qr", "eigh", "eigvalsh",
            "cholesky", "norm", "trace", "diagonal",
        )
    },
    "svd thin": (lambda x: tnf.linalg.svd(x, full_matrices=False), lambda x: np.linalg.svd(x, False)),
    "qr complete": (lambda x: tnf.linalg.qr(x, mode="complete"), lambda x: np.linalg.qr(x, "complete")),
    "qr r": (lambda x: tnf.linalg.qr(x, mode="r"), lambda x: np.linalg.qr(x, "r")),
    "solve": (lambda x: tnf.linalg.solve(x, x), lambda x: np.linalg.solve(x, x)),
    "power": (lambda x: tnf.linalg.matrix_power(x, -2), lambda x: np.linalg.matrix_power(x, -2)),
    **{
        f"cond {p}": (lambda x, p=p: tnf.linalg.cond(x, p), lambda x, p=p: np.linalg.cond(x, p))
        for p in (None, 1, -1, 2, -2, math.inf, -math.inf, "fro", "nuc")
    },
    **{
        f"norm {p}": (
            lambda x, p=p: tnf.linalg.matrix_norm(x, ord=p),
            lambda x, p=p: np.linalg.matrix_norm(x, ord=p),
        )
        for p in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", OF_MATRIX)
def test_matrices_without_elements_are_numpys(name: str) -> None:
    function, reference = OF_MATRIX[name]
    for shape in EMPTY:
        x = np.zeros(shape)
        runs = (function, tnf.jit(function), lambda x: function(RT.constant(x)))
        try:
            with np.errstate(all="ignore"):
                wanted = reference(x)
        except (ValueError, np.linalg.LinAlgError):
            for run in runs:
                with pytest.raises(errors.TenferroError):
                    run(x)
            continue
        for run in runs:
            result = run(x)
            # NumPy returns a Python-like scalar for a rank, and tenferro an array without axes.
            agree(result, np.asarray(wanted) if np.isscalar(wanted) else wanted)


def test_the_condition_of_singular_matrices_is_infinite() -> None:
    x = np.stack([np.zeros((2, 2)), np.ones((2, 2)), np.diag([2.0, 1.0])])
    unknown = np.array([[1.0, np.nan], [0.0, 1.0]])
    for p in (None, 1, 2, math.inf, "fro"):
        with np.errstate(all="ignore"):
            wanted = np.linalg.cond(x, p)
        for result in (tnf.linalg.cond(x, p), tnf.jit(lambda x, p=p: tnf.linalg.cond(x, p))(x)):
            # Rounding may make the condition number of a singular matrix large but finite, for NumPy and for
            # tenferro.
            np.testing.assert_array_equal(result > 1e15, wanted > 1e15)
            np.testing.assert_allclose(result[2], wanted[2])
        assert np.isnan(tnf.linalg.cond(unknown, p))
    np.testing.assert_allclose(tnf.linalg.cond(x[2], p="nuc"), np.linalg.cond(x[2], "nuc"))
    with pytest.raises(errors.ShapeError, match="cond"):
        tnf.linalg.cond(np.ones((2, 3)), 1)


@pytest.mark.parametrize("order", ["nuc", "fro", "two", None, 1j, [2], True, "traced"])
def test_norms_that_do_not_exist_are_named(order: Any) -> None:
    x, m = np.ones(3), np.ones((2, 3))
    calls = [lambda o: tnf.linalg.vector_norm(x, ord=o)]
    if order is not None:
        calls.append(lambda o: tnf.linalg.norm(x, o))
        calls.append(lambda o: tnf.linalg.norm(m, o, axis=0))
    if order not in ("fro", "nuc", None, True):
        calls.append(lambda o: tnf.linalg.matrix_norm(m, ord=o))
    for call in calls:
        run = call if order != "traced" else lambda _, c=call: tnf.compile(c, np.array(2.0))
        with pytest.raises(errors.InvalidConfigError, match="ord must be"):
            run(order)


SOLVED = [
    ((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3,)), ((2, 3, 3), (3, 4)), ((3, 3), (2, 3, 4)),
    ((2, 1, 3, 3), (5, 3, 1)), ((2, 3, 3), (2, 3, 4)), ((0, 3, 3), (3, 2)), ((2, 0, 0), (0, 2)), ((3, 3), (3, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("a_shape", "b_shape"), SOLVED)
def test_lu_solve_broadcasts_as_solve_does(
    a_shape: tuple[int, ...], b_shape: tuple[int, ...]
) -> None:
    a, b = R.normal(size=a_shape), R.normal(size=b_shape)
    wanted = np.linalg.solve(a, b)

    def solved(a: Any, b: Any) -> Any:
        return tnf.linalg.lu_solve(tnf.linalg.lu_factor(a), b)

    runs = [solved(a, b), tnf.jit(solved)(a, b), solved(RT.constant(a), b).numpy()]
    if a_shape == (2, 3, 3) and b_shape in ((3,), (3, 4)):
        runs.append(xla_peer.XlaExecutor().run(tnf.compile(solved, a, b), a, b))
        tnf.check_grads(solved, (a, b), order=1)
    for x in runs:
        assert x.shape == wanted.shape
        np.testing.assert_allclose(x, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_factors_and_pivots_are_scipys(dtype: str) -> None:
    a, b = R.normal(size=(2, 4, 4)).astype(dtype), R.normal(size=(4, 3))
    a = a + 1j * R.normal(size=a.shape) if dtype == "complex128" else a
    packed, pivots = scipy.linalg.lu_factor(a)
    packed_and_pivots = tnf.linalg.lu_factor(a)
    np.testing.assert_allclose(packed_and_pivots[0], packed, rtol=1e-10)
    np.testing.assert_array_equal(packed_and_pivots[1], pivots)
    assert packed_and_pivots[1].dtype == pivots.dtype
    for trans, op_of_a in ((0, a), (1, a.mT), (2, a.mT.conj())):
        wanted = np.linalg.solve(op_of_a, b)
        for factors in (packed_and_pivots, (packed, pivots)):
            x = tnf.linalg.lu_solve(factors, b, trans=trans)
            np.testing.assert_allclose(x, wanted, rtol=1e-9, atol=1e-12)
    for shape in ((4, 2), (2, 4), (0, 0)):
        rectangle = R.normal(size=shape)
        pivots = scipy.linalg.lu_factor(rectangle)[1]
        np.testing.assert_array_equal(tnf.linalg.lu_factor(rectangle)[1], pivots)


@pytest.mark.parametrize("function", [tnf.linalg.eigh, tnf.linalg.eigvalsh])
def test_a_second_matrix_of_an_eigenvalue_problem_is_refused(function: Any) -> None:
    with pytest.raises(errors.InvalidConfigError, match=r"name b="):
        function(np.eye(2), np.eye(2))


def test_lu_solve_names_what_does_not_fit() -> None:
    with pytest.raises(errors.InvalidConfigError, match="trans must be 0, 1 or 2"):
        tnf.linalg.lu_solve(tnf.linalg.lu_factor(np.eye(3)), np.ones(3), 5)
    factors = tnf.linalg.lu_factor(np.eye(3))
    with pytest.raises(errors.ShapeError, match=r"lu_solve.*4 rows"):
        tnf.linalg.lu_solve(factors, np.ones((4, 2)))
    with pytest.raises(errors.ShapeError, match=r"lu_solve.*square"):
        tnf.linalg.lu_solve(tnf.linalg.lu_factor(np.ones((3, 2))), np.ones(3))


FITTED = {
    "tall": R.normal(size=(5, 3)), "square": R.normal(size=(3, 3)), "wide": R.normal(size=(2, 3)),
    "tall of rank 1": np.ones((5, 3)), "no rows": np.zeros((0, 3)), "no columns": np.zeros((3, 0)),
    "nothing": np.zeros((0, 0)),
}  # fmt: skip


@pytest.mark.parametrize("columns", [None, 2])
@pytest.mark.parametrize("name", FITTED)
def test_residuals_are_numpys(name: str, columns: int | None) -> None:
    a = FITTED[name]
    b = R.normal(size=(len(a),) if columns is None else (len(a), columns))
    wanted = np.linalg.lstsq(a, b)
    for result in (tnf.linalg.lstsq(a, b), tnf.linalg.lstsq(RT.constant(a), b)):
        for y, z in zip(result, wanted, strict=True):
            assert np.shape(y) == np.shape(z)
            np.testing.assert_allclose(np.asarray(y), z, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", FITTED)
def test_residuals_of_a_trace_depend_on_shapes_alone(name: str) -> None:
    a = FITTED[name]
    b = R.normal(size=(len(a), 2))
    program = tnf.compile(tnf.linalg.lstsq, a, b)
    result = program.run(a, b)
    tall = a.shape[0] > a.shape[1]
    assert result.residuals.shape == ((2,) if tall else (0,))
    if tall:
        wanted = np.sum((a @ result.x - b) ** 2, axis=0)
        np.testing.assert_allclose(result.residuals, wanted, rtol=1e-10, atol=1e-12)
    if a.size:
        peer = xla_peer.XlaExecutor().run(program, a, b)
        assert peer.residuals.shape == result.residuals.shape
        np.testing.assert_allclose(peer.residuals, result.residuals, rtol=1e-8, atol=1e-12)


def test_residuals_of_several_matrices_are_given_for_every_rank() -> None:
    a, b = np.stack([FITTED["tall"], FITTED["tall of rank 1"]]), R.normal(size=(2, 5, 2))
    assert tnf.linalg.lstsq(a, b).residuals.shape == (2, 2)
    assert tnf.linalg.lstsq(a[:, :2], b[:, :2]).residuals.shape == (2, 0)
