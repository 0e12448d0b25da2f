"""Linear algebra with symbolic or bounded extents must equal that with static extents.

Guards must check that matrices are square.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.errors import GuardError
from tenferro.types import TensorSpec

la = tnf.linalg
Function = Callable[[Any], Any]

RECTANGULAR: dict[str, tuple[Function, Function]] = {
    "svd": (lambda a: la.svd(a, full_matrices=False)[0] ** 2, lambda a: np.linalg.svd(a, full_matrices=False)[0] ** 2),
    "full svd": (lambda a: la.svd(a)[0] ** 2, lambda a: np.linalg.svd(a)[0] ** 2),
    "svdvals": (la.svdvals, lambda a: np.linalg.svd(a, compute_uv=False)),
    "qr": (lambda a: la.qr(a)[1] ** 2, lambda a: np.linalg.qr(a)[1] ** 2),
    "full qr": (lambda a: la.qr(a, "complete")[1] ** 2, lambda a: np.linalg.qr(a, "complete")[1] ** 2),
    "lu": (lambda a: la.matmul(la.lu(a)[0], la.matmul(la.lu(a)[1], la.lu(a)[2])), lambda a: a),
    "pinv": (la.pinv, np.linalg.pinv),
    "lstsq": (lambda a: la.lstsq(a, a * a)[0], lambda a: np.linalg.lstsq(a, a * a)[0]),
    "cond": (la.cond, np.linalg.cond),
    "2-norm": (lambda a: la.norm(a, 2), lambda a: np.linalg.norm(a, 2)),
    "-2-norm": (lambda a: la.norm(a, -2), lambda a: np.linalg.norm(a, -2)),
    "nuclear norm": (lambda a: la.norm(a, "nuc"), lambda a: np.linalg.norm(a, "nuc")),
    "trace": (la.trace, np.trace),
    "offset trace": (lambda a: la.trace(a, offset=1), lambda a: np.trace(a, 1)),
    "matrix_rank": (la.matrix_rank, np.linalg.matrix_rank),
}  # fmt: skip

SQUARE: dict[str, tuple[Function, Function]] = {
    "cholesky": (la.cholesky, np.linalg.cholesky),
    "eigh": (lambda a: la.eigh(a)[0], np.linalg.eigvalsh),
    "eig": (lambda a: tnf.real(la.eig(a)[0] ** 2).sum(), lambda a: np.real(np.linalg.eigvals(a) ** 2).sum()),
    "inv": (la.inv, np.linalg.inv),
    "det": (la.det, np.linalg.det),
    "slogdet": (lambda a: la.slogdet(a)[1], lambda a: np.linalg.slogdet(a)[1]),
    "solve": (lambda a: la.solve(a, a * a), lambda a: np.linalg.solve(a, a * a)),
}  # fmt: skip


def matrix(m: int, n: int) -> Any:
    return np.random.default_rng(m * 10 + n).standard_normal((m, n))


def positive(n: int) -> Any:
    a = matrix(n, n)
    return a @ a.T + np.eye(n)


def loss(fn: Function) -> Function:
    def weighted(a: Any) -> Any:
        y = tnf.ravel(fn(a))
        return tnf.sum(y * tnf.cos(tnf.cumulative_sum(tnf.ones_like(y))))

    return weighted


def gradients(fn: Function, spec: TensorSpec, *arrays: Any) -> None:
    """Require that gradients with symbolic extents equal those with static extents.

    Other tests compare the latter with differences.
    """
    symbolic = tnf.compile(tnf.grad(loss(fn)), spec)
    for a in arrays:
        static = tnf.grad(loss(fn))(a)
        np.testing.assert_allclose(symbolic.run(a), static, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", RECTANGULAR)
def test_rectangles(name: str) -> None:
    fn, reference = RECTANGULAR[name]
    program = tnf.compile(fn, TensorSpec(("n", "m"), "float64"))
    for a in (matrix(4, 3), matrix(3, 4), matrix(3, 3)):
        np.testing.assert_allclose(program.run(a), reference(a), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in RECTANGULAR if name != "matrix_rank"])
def test_gradients_on_rectangles(name: str) -> None:
    spec = TensorSpec(("n", "m"), "float64")
    gradients(RECTANGULAR[name][0], spec, matrix(4, 3), matrix(3, 4), matrix(3, 3))


@pytest.mark.parametrize("name", SQUARE)
def test_squares_write_their_guard(name: str) -> None:
    fn, reference = SQUARE[name]
    program = tnf.compile(fn, TensorSpec(("n", "m"), "float64"))
    np.testing.assert_allclose(program.run(positive(3)), reference(positive(3)), rtol=1e-10)
    with pytest.raises(GuardError, match=r"got [23] and [23]"):
        program.run(matrix(2, 3))


@pytest.mark.parametrize("name", SQUARE)
def test_gradients_on_squares(name: str) -> None:
    gradients(SQUARE[name][0], TensorSpec(("n", "m"), "float64"), positive(3))


def kept(a: Any) -> tuple[Any, Any]:
    """Return the left singular vectors and the singular values that remain after truncation."""
    u, s, *_ = la.truncated_svd(a, max_rank=3, rtol=0.1)
    return u, s


def of_rank_two(m: int, n: int) -> Any:
    u, _, vh = np.linalg.svd(matrix(m, n), full_matrices=False)
    return (u * np.array([2.0, 1.0, 0.01])) @ vh


def test_truncated_factors_are_scaled() -> None:
    program = tnf.compile(lambda a: tnf.multiply(*kept(a)), TensorSpec((4, 3), "float64"))
    u, s, _ = np.linalg.svd(of_rank_two(4, 3), full_matrices=False)
    np.testing.assert_allclose(np.abs(program.run(of_rank_two(4, 3))), np.abs(u * s)[:, :2])


def test_truncated_factors_are_factorised() -> None:
    def values(a: Any) -> Any:
        u, s = kept(a)
        return la.svd(u * s, full_matrices=False)

    u, s, vh = tnf.compile(values, TensorSpec((4, 3), "float64")).run(of_rank_two(4, 3))
    assert (u.shape, vh.shape) == ((4, 2), (2, 2))
    np.testing.assert_allclose(s, [2.0, 1.0])


def test_gradients_of_scaled_truncated_factors() -> None:
    def norm(a: Any) -> Any:
        return tnf.sum(tnf.multiply(*kept(a)) ** 2)

    u, s, vh = np.linalg.svd(of_rank_two(4, 3), full_matrices=False)
    expected = (u[:, :2] * (2 * s[:2])) @ vh[:2]
    np.testing.assert_allclose(tnf.grad(norm)(of_rank_two(4, 3)), expected, atol=1e-12)


CHAINS: dict[str, Any] = {
    "singular values": lambda u, s, vh: tnf.sum(la.svdvals(u * s) ** 3),
    "singular vectors": lambda u, s, vh: tnf.sum(
        tnf.sin(by_parts(*la.svd(u * s, full_matrices=False)))
    ),
    "truncated again": lambda u, s, vh: tnf.sum(
        la.truncated_svd(s[:, None] * vh, max_rank=2, rtol=0.1).S ** 3
    ),
    "qr": lambda u, s, vh: sum(tnf.sum(tnf.abs(x) ** 3) for x in la.qr(u * s)),
    "eigenvalues": lambda u, s, vh: tnf.sum(la.eigvalsh(gram(s, vh)) ** 3),
    "eigenvectors": lambda u, s, vh: tnf.sum(la.eigh(gram(s, vh))[1] ** 4),
    "cholesky": lambda u, s, vh: tnf.sum(la.cholesky(gram(s, vh)) ** 3),
    "maximum": lambda u, s, vh: tnf.max(s) + tnf.min(s),
    "nuclear norm": lambda u, s, vh: la.norm(u * s, "nuc"),
}


def by_parts(u: Any, s: Any, vh: Any) -> Any:
    return (u * tnf.exp(s)) @ vh


def gram(s: Any, vh: Any) -> Any:
    """Return the Gram matrix of the rows of diag(s) V^H. Its eigenvalues are s^2."""
    rows = s[:, None] * vh
    return rows @ rows.T


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("shape", [(4, 3), (3, 4)], ids=str)
def test_gradients_of_functions_of_truncated_factors(name: str, shape: tuple[int, int]) -> None:
    """Gradients through truncated factors must equal finite differences.

    They must also equal gradients through factors that are cut to rank 2 by slicing.
    """
    function, a = CHAINS[name], of_rank_two(*shape)

    def by_data(a: Any) -> Any:
        return function(*la.truncated_svd(a, max_rank=3, rtol=0.1)[:3])

    def by_hand(a: Any) -> Any:
        u, s, vh = la.svd(a, full_matrices=False)
        return function(u[:, :2], s[:2], vh[:2])

    tnf.check_grads(by_data, (a,), order=1)
    expected = tnf.value_and_grad(by_hand)(a)
    for x, y in zip(tnf.value_and_grad(by_data)(a), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)
