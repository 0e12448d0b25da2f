"""Functions of `tenferro.linalg` that NumPy lacks must have SciPy's results and satisfy their defining equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import tenferro as tnf
import xla_peer
from tenferro import errors

R = np.random.default_rng(8)
A = R.normal(size=(4, 4))
S = A @ A.T + np.eye(4)
C = A + 1j * R.normal(size=(4, 4))
V, W = R.normal(size=4), R.normal(size=3)
BANDS = R.normal(size=(4, 5)) + np.array([[0], [0], [6], [0]])

CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("block_diag", (A, V, 3.0, np.zeros((0, 2))), {}), ("block_diag", (), {}), ("block_diag", (C[:1], A[:, :2]), {}),
    ("toeplitz", (V,), {}), ("toeplitz", (V, W), {}), ("toeplitz", (C[0],), {}), ("hankel", (V,), {}), ("hankel", (V, W), {}), ("circulant", (V,), {}),
    ("companion", (V,), {}), ("hilbert", (4,), {}), ("pascal", (5,), {}), ("pascal", (4,), {"kind": "upper"}), ("hadamard", (8,), {}), ("helmert", (4,), {}), ("helmert", (3, True), {}),
    ("dft", (5,), {}), ("dft", (4, "sqrtn"), {}), ("dft", (4,), {"scale": "n"}),
    ("solve_banded", ((1, 1), BANDS[1:], R.normal(size=5)), {}), ("solve_banded", ((1, 2), BANDS, R.normal(size=(5, 2))), {}), ("solve_banded", ((2, 1), BANDS * (1 + 1j), R.normal(size=5)), {}),
    ("cho_solve", ((scipy.linalg.cholesky(S, lower=True), True), V), {}), ("cho_solve", ((scipy.linalg.cholesky(S), False), A), {}),
    ("eigh_tridiagonal", (V, W, True), {}), ("eigh_tridiagonal", (V, W, True), {"select": "i", "select_range": (1, 2)}),
    ("polar", (A,), {}), ("polar", (A[:, :2],), {}), ("polar", (C[:2], "left"), {}),
    ("solve_sylvester", (A, S[:3, :3], R.normal(size=(4, 3))), {}), ("solve_sylvester", (C, A + 0j, C), {}), ("sqrtm", (S.astype("c16"),), {}), ("sqrtm", (C,), {}),
    ("hessenberg", (A,), {}), ("hessenberg", (C,), {"calc_q": True}), ("fiedler", (V,), {}), ("leslie", (V, W), {}), ("convolution_matrix", (V, 3, "same"), {}),
    ("convolution_matrix", (W, 5, "valid"), {}), ("convolution_matrix", (C[0], 2), {}), ("diagsvd", (W, 4, 3), {}), ("invhilbert", (5,), {}), ("invhilbert", (4, True), {}),
    ("invpascal", (5,), {}), ("invpascal", (4, "upper"), {"exact": False}), ("qr_multiply", (A[:, :3], A, "right"), {}), ("qr_multiply", (C[:, :2], C[:2, :3], "left"), {"conjugate": True}),
    ("solve_continuous_lyapunov", (C, S), {}), ("solve_discrete_lyapunov", (A / 4, S), {}), ("solve_discrete_lyapunov", (C / 4, S), {"method": "bilinear"}),
    ("solve_toeplitz", ((V + np.array([9, 0, 0, 0]), C[0]), V), {}), ("matmul_toeplitz", ((V, W), W), {}), ("solve_circulant", (V, W[[0, 1, 2, 0]]), {}),
    ("cholesky_banded", (np.array([[0, 1.0, 2], [5, 6, 7]]),), {}), ("cholesky_banded", (np.array([[5, 6, 7], [1.0, 2, 0]]),), {"lower": True}),
    ("solveh_banded", (np.array([[0, 1j, 2], [5, 6, 7]]), W), {}), ("cho_solve_banded", ((np.array([[5, 6, 7], [1.0, 2, 0]]), True), W), {}),
    ("eigvals_banded", (np.array([[5, 6, 7], [1j, 2, 0]]), True), {"select": "i", "select_range": (1, 2)}), ("eigvalsh_tridiagonal", (V, W), {}),
    ("logm", (C,), {}), ("signm", (A,), {}), ("cosm", (A,), {}), ("sinm", (C,), {}), ("tanm", (A,), {}), ("coshm", (A,), {}), ("sinhm", (C,), {}), ("tanhm", (A,), {}),
    ("fractional_matrix_power", (C, 0.3), {}), ("fractional_matrix_power", (A, -2), {}), ("orthogonal_procrustes", (A, C), {}), ("pinvh", (S - 20 * C @ C.conj().T,), {"lower": False}),
    ("subspace_angles", (A[:, :2], A[:, 1:] + 1e-6), {}), ("issymmetric", (S + np.triu(A) * 1e-9,), {"atol": 1e-6}), ("ishermitian", (C,), {}),
    ("expm_frechet", (A, C.real), {}), ("expm_frechet", (C, A * (1 + 0j)), {"compute_expm": False}),
    *[("solve", (x, V), {"assume_a": name, "lower": lower, "check_finite": False}) for x in (S, S + 0.1j * (A - A.T)) for lower in (False, True)
      for name in ("gen", "her", "pos", "hermitian", "positive definite")],
    *[("solve", (A + 5 * np.eye(4), A), {"assume_a": name}) for name in ("diagonal", "upper triangular", "lower triangular", "sym", None)], ("solve", (C, V), {"assume_a": "sym", "lower": True}),
    ("solve", (np.triu(np.tril(A, 1), -1), V), {"assume_a": "tridiagonal"}), ("solve", (A, V), {"transposed": True}), ("solve", (A, V), {"assume_a": "upper triangular", "transposed": True}),
    ("eigh", (C,), {"lower": False, "eigvals_only": True}), ("eigh", (C,), {"lower": True, "eigvals_only": True, "subset_by_index": (1, 2)}), ("eigvalsh", (C,), {"lower": False, "subset_by_index": (0, 1)}),
    *[("lu", (x,), {"permute_l": permute, "p_indices": indices}) for x in (A, A[:2], C[:, :2]) for permute, indices in ((True, False), (False, True), (False, False))],
    ("inv", (S,), {"assume_a": "pos", "lower": True}), ("inv", (A,), {"check_finite": False}), ("det", (C,), {"overwrite_a": False}), ("svdvals", (A,), {"check_finite": False}),
    ("svd", (A,), {"compute_uv": False, "lapack_driver": "gesvd"}), ("solve_triangular", (A, V), {"lower": True, "check_finite": False}),
    ("pinv", (S,), {"atol": 2.0}), ("pinv", (A,), {"rtol": 0.1, "atol": 0.3, "return_rank": True}), ("cholesky", (C @ C.conj().T + np.triu(A, 1),), {"lower": True}), ("cholesky", (S + np.tril(A, -1),), {"lower": False}),
    *[("eigh", (S, ), {"b": x, "type": kind, "eigvals_only": True, **more}) for x in (A @ A.T + 3 * np.eye(4), C @ C.conj().T + np.eye(4)) for kind in (1, 2, 3)
      for more in ({}, {"lower": False, "subset_by_index": [1, 2]})],
    ("eigvalsh", (C,), {"lower": True, "subset_by_value": (-1.0, 2.0), "driver": "evr"}), ("eigvalsh", (np.zeros((0, 0)),), {"subset_by_index": (0, 0)}),
    ("eigvals_banded", (np.array([[5, 6, 7], [1j, 2, 0]]), True), {"select": "v", "select_range": (4.5, 6.5)}), ("eigvalsh_tridiagonal", (V, W), {"select": "v", "select_range": (-np.inf, 0.0), "tol": 1e-9}),
    ("cholesky_banded", (np.array([[4.0]]),), {}), ("pascal", (4,), {"exact": False}), ("norm", (A, 1), {"check_finite": False}), ("qr", (np.zeros((0, 3)),), {"mode": "r", "pivoting": True}),
    ("lstsq", (A[:, :2], A), {"cond": 1e-3, "lapack_driver": "gelss"}), ("solve_circulant", (A, C.T), {"caxis": 0, "baxis": 1, "outaxis": 1}), ("solve_circulant", (np.zeros(0), np.zeros((0, 2))), {}),
    ("solve_circulant", (np.array([1.0, -1, 1, -1]), A), {"singular": "lstsq"}), ("solve_circulant", (V, V), {"singular": "lstsq", "tol": 1.0}),
]  # fmt: skip


def parts(result: Any) -> list[Any]:
    """Return the arrays of a result, which is either one array or a tuple of arrays."""
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("number", range(len(CALLS)), ids=[f"{c[0]}-{i}" for i, c in enumerate(CALLS)])  # fmt: skip
def test_values_are_scipys(number: int) -> None:
    name, args, kwargs = CALLS[number]
    wanted = parts(getattr(scipy.linalg, name)(*args, **kwargs))
    found = parts(getattr(tnf.linalg, name)(*args, **kwargs))
    assert len(found) == len(wanted)
    for y, z in zip(found, wanted, strict=True):
        assert (y.shape, y.dtype) == (np.shape(z), np.asarray(z).dtype)
        np.testing.assert_allclose(y, z, rtol=1e-9, atol=1e-11)


STACK = R.normal(size=(2, 1, 4, 4))
SPD = STACK @ STACK.mT + np.eye(4)
COMPLEX = STACK + 1j * R.normal(size=(3, 4, 4))
TWO, TALL = R.normal(size=(3, 3, 3)) + 4 * np.eye(3), R.normal(size=(3, 4, 2))
ROWS, SHORT = R.normal(size=(3, 4)) + 6 * np.eye(4)[0], R.normal(size=(2, 1, 3))
DIAGONALS = R.normal(size=(3, 4, 5)) + np.array([[0], [0], [6], [0]])
POSITIVE = abs(R.normal(size=(3, 2, 5))) + np.array([[0], [5]])

STACKS: list[tuple[Any, tuple[tuple[np.ndarray, int], ...]]] = [
    (lambda m, x, y: m.block_diag(x, y), ((STACK, 2), (TWO, 2))), (lambda m, x, y: m.block_diag(x, y, 2.0), ((ROWS[0], 1), (TWO, 2))),
    (lambda m, c: m.toeplitz(c), ((COMPLEX[0], 1),)), (lambda m, c, r: m.toeplitz(c, r), ((ROWS, 1), (SHORT, 1))), (lambda m, c: m.circulant(c), ((ROWS, 1),)),
    (lambda m, c: m.companion(c), ((ROWS, 1),)), (lambda m, c: m.fiedler(c), ((ROWS, 1),)), (lambda m, f, s: m.leslie(f, s), ((ROWS, 1), (SHORT, 1))),
    *[(lambda m, c, mode=mode: m.convolution_matrix(c, 3, mode), ((ROWS, 1),)) for mode in ("full", "same", "valid")],
    (lambda m, s: m.diagsvd(s, 4, 6), ((ROWS, 1),)), (lambda m, s: m.diagsvd(s, 5, 4), ((ROWS, 1),)), (lambda m, x, y: m.khatri_rao(x, y), ((STACK, 2), (TALL @ TALL.mT, 2))),
    (lambda m, ab, b: m.solve_banded((1, 1), ab[1:] if ab.ndim == 2 else ab[:, 1:], b), ((DIAGONALS, 2), (DIAGONALS[0, 0], 1))),
    (lambda m, ab, b: m.solve_banded((1, 2), ab, b), ((DIAGONALS, 2), (TWO[:, :1].repeat(5, 1), 2))),
    (lambda m, d, e: m.eigh_tridiagonal(d, e, True), ((ROWS, 1), (SHORT, 1))),
    (lambda m, a, b, q: m.solve_sylvester(a, b, q), ((SPD, 2), (TWO, 2), (TALL[0] @ TWO[0, :2], 2))), (lambda m, a: m.sqrtm(a), ((COMPLEX, 2),)),
    (lambda m, a: m.logm(a), ((COMPLEX * np.array([1, 1e-3, 1e3])[:, None, None], 2),)), (lambda m, a: m.signm(a), ((STACK, 2),)),
    (lambda m, a: m.fractional_matrix_power(a, 0.3), ((COMPLEX, 2),)), (lambda m, a: m.funm(a, np.exp), ((COMPLEX, 2),)),
    (lambda m, a, e: m.expm_frechet(a, e, compute_expm=False), ((STACK, 2), (STACK[:, 0], 2))), (lambda m, a, q: m.solve_continuous_lyapunov(a, q), ((STACK, 2), (SPD[0], 2))),
    *[(lambda m, a, q, method=method: m.solve_discrete_lyapunov(a / 5, q, method), ((COMPLEX, 2), (SPD, 2))) for method in ("direct", "bilinear")],
    (lambda m, c, r, b: m.solve_toeplitz((c, r), b), ((ROWS, 1), (ROWS + 1, 1), (ROWS[0], 1))), (lambda m, c, x: m.matmul_toeplitz(c, x), ((ROWS, 1), (TALL[0], 2))),
    (lambda m, ab, b: m.solveh_banded(ab, b), ((POSITIVE, 2), (POSITIVE[0, 0], 1))), (lambda m, cb, b: m.cho_solve_banded((cb, False), b), ((POSITIVE, 2), (POSITIVE[0].T, 2))),
    (lambda m, ab: m.cholesky_banded(ab[..., ::-1, :], lower=True)[..., 0, :], ((POSITIVE, 2),)), (lambda m, ab: m.eigvals_banded(ab), ((POSITIVE, 2),)),
    (lambda m, a: m.pinvh(a), ((SPD - 2 * np.eye(4), 2),)), (lambda m, x, y: m.subspace_angles(x, y), ((STACK[..., :1], 2), (TALL, 2))),
    (lambda m, x, y: m.orthogonal_procrustes(x, y)[0], ((STACK, 2), (COMPLEX, 2))),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(STACKS)))
def test_stacks_have_the_results_of_their_slices(number: int) -> None:
    f, operands = STACKS[number]
    arrays = [x for x, _ in operands]
    shape = np.broadcast_shapes(*[x.shape[: x.ndim - rank] for x, rank in operands])
    whole = [np.broadcast_to(x, (*shape, *x.shape[x.ndim - rank :])) for x, rank in operands]
    slices = [np.asarray(f(scipy.linalg, *[x[i] for x in whole])) for i in np.ndindex(*shape)]
    wanted = np.reshape(slices, (*shape, *slices[0].shape))
    for result in (f(tnf.linalg, *arrays), tnf.jit(lambda *xs: f(tnf.linalg, *xs))(*arrays)):
        np.testing.assert_allclose(result, wanted, rtol=1e-8, atol=1e-9)


def test_unused_elements_of_diagonals_are_not_read() -> None:
    bands = DIAGONALS[0].copy()
    wanted = scipy.linalg.solve_banded((1, 2), bands, bands[2])
    bands[0, :2] = bands[1, 0] = bands[3, -1] = np.nan
    np.testing.assert_allclose(tnf.linalg.solve_banded((1, 2), bands, DIAGONALS[0, 2]), wanted)


def test_raw_factors_are_numpys() -> None:
    for x in (STACK[..., :3], COMPLEX[..., :2, :]):
        for y, z in zip(tnf.linalg.qr(x, "raw"), np.linalg.qr(x, "raw"), strict=True):
            np.testing.assert_allclose(y, z, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("b", [None, S[None]])
def test_homogeneous_eigenvalues(b: np.ndarray | None) -> None:
    (numerators, denominators), vectors = tnf.linalg.eig(A, None if b is None else b[0], homogeneous_eigvals=True)  # fmt: skip
    right = vectors if b is None else b[0] @ vectors
    np.testing.assert_allclose(denominators * (A @ vectors), numerators * right, atol=1e-10)
    assert tnf.linalg.eigvals(STACK, b, homogeneous_eigvals=True).shape == (2, 1, 2, 4)


@pytest.mark.parametrize("mode", ["full", "economic"])
@pytest.mark.parametrize("x", [A[:2], A[:, :2], C], ids=["wide", "tall", "complex"])
def test_rq_is_triangular_times_unitary(x: np.ndarray, mode: str) -> None:
    r, q = tnf.linalg.rq(x, mode=mode)
    assert (r.shape, q.shape) == tuple(y.shape for y in scipy.linalg.rq(x, mode=mode))
    np.testing.assert_allclose(r @ q, x, atol=1e-12)
    np.testing.assert_allclose(q @ q.conj().T, np.eye(len(q)), atol=1e-12)
    assert not np.tril(r, r.shape[1] - r.shape[0] - 1).any()


@pytest.mark.parametrize("mode", ["full", "economic"])
@pytest.mark.parametrize("x", [A[:2], A[:, :2], C], ids=["wide", "tall", "complex"])
def test_qr_with_pivots(x: np.ndarray, mode: str) -> None:
    factors = tnf.linalg.qr(x, mode=mode, pivoting=True)
    q, r, p = factors
    for y, z in zip(factors, scipy.linalg.qr(x, mode=mode, pivoting=True), strict=True):
        assert (y.shape, y.dtype) == (z.shape, z.dtype)
        np.testing.assert_allclose(abs(y), abs(z), atol=1e-12)
    np.testing.assert_allclose(q @ r, x[:, p], atol=1e-12)
    np.testing.assert_allclose(
        tnf.linalg.qr(x, "r", pivoting=True)[0], r[: min(x.shape)], atol=1e-12
    )
    report = tnf.check_grads(
        lambda x: tnf.abs(tnf.linalg.qr(x, "r", pivoting=True)[0]), (x[:, :2],)
    )
    assert report.ok, report


def test_qr_with_pivots_multiplies() -> None:
    x = A[:, :3]
    product, r, p = tnf.linalg.qr_multiply(x, A, pivoting=True)
    q, *others = scipy.linalg.qr(x, mode="economic", pivoting=True)
    np.testing.assert_allclose(abs(product), abs(A @ q), atol=1e-12)
    np.testing.assert_array_equal(p, others[1])
    np.testing.assert_allclose(abs(r), abs(others[0]), atol=1e-12)


@pytest.mark.parametrize("b", [None, S], ids=["one", "pair"])
def test_left_and_right_eigenvectors(b: np.ndarray | None) -> None:
    values, left, right = tnf.linalg.eig(C, b, left=True)
    other = np.eye(4) if b is None else b
    np.testing.assert_allclose(C @ right, other @ right * values, atol=1e-12)
    np.testing.assert_allclose(left.conj().T @ C, values[:, None] * (left.conj().T @ other), atol=1e-12)  # fmt: skip
    np.testing.assert_allclose(np.linalg.norm(left, axis=0), 1.0)
    np.testing.assert_array_equal(tnf.linalg.eig(C, b, left=True, right=False)[1], left)
    np.testing.assert_array_equal(tnf.linalg.eig(C, b, right=False), tnf.linalg.eigvals(C, b))


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_vectors_of_pairs_of_matrices(kind: int) -> None:
    b = C @ C.conj().T + np.eye(4)
    values, vectors = tnf.linalg.eigh(S, b=b, type=kind)
    lhs, rhs = {1: (S, b), 2: (S @ b, np.eye(4)), 3: (b @ S, np.eye(4))}[kind]
    np.testing.assert_allclose(lhs @ vectors, rhs @ vectors * values, atol=1e-9)
    metric = np.linalg.inv(b) if kind == 3 else b
    np.testing.assert_allclose(vectors.conj().T @ metric @ vectors, np.eye(4), atol=1e-11)
    # If only some eigenvalues are selected, their eigenvectors must have the same bits.
    some = tnf.linalg.eigh(S, b=b, type=kind, subset_by_value=(values[0], values[2]))
    np.testing.assert_array_equal(some.eigenvectors, vectors[:, 1:3])


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 3)])
def test_factors_of_empty_matrices_agree_on_the_peer(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    for f in (tnf.linalg.svd, lambda x: tnf.linalg.qr(x, pivoting=True)):
        program = tnf.compile(f, x)
        for y, z in zip(program.run(x), xla_peer.XlaExecutor().run(program, x), strict=True):
            np.testing.assert_array_equal(y, z)


def test_singular_vectors_of_hermitian_matrices() -> None:
    x = C + C.conj().T
    u, s, vh = tnf.linalg.svd(np.tril(x), hermitian=True)
    np.testing.assert_allclose(s, np.linalg.svd(x, compute_uv=False), rtol=1e-12)
    np.testing.assert_allclose(u * s @ vh, x, atol=1e-12)
    np.testing.assert_allclose(vh @ vh.conj().T, np.eye(4), atol=1e-12)


def test_options_of_factorisations_have_derivatives() -> None:
    for function, x in (
        (lambda a: tnf.linalg.solve(a, V, assume_a="pos"), S),
        (lambda a: tnf.linalg.solve(a, V, assume_a="sym", transposed=True), A),
        (lambda a: tnf.linalg.eigh(a, lower=False, subset_by_index=(1, 2)).eigenvalues, S),
        (lambda a: tnf.linalg.svd(a, hermitian=True).S, A + A.T),
        (lambda a: tnf.linalg.lu(a, permute_l=True), A),
        (lambda a: tnf.linalg.pinv(a, atol=0.1), A[:, :2]),
        (lambda a: tnf.linalg.eigvalsh(S, b=a, type=2), S),
        (lambda a: tnf.linalg.eigvals(A, a), S),
        (lambda a: tnf.abs(tnf.linalg.eig(a, left=True)[1]), C),
        (lambda c: tnf.linalg.solve_circulant(c, V), V),
    ):
        report = tnf.check_grads(function, (x,))
        assert report.ok, report


def test_rsf2csf_keeps_the_matrix() -> None:
    t, z = tnf.linalg.rsf2csf(*scipy.linalg.schur(A))
    np.testing.assert_allclose(z @ t @ z.conj().T, A, atol=1e-12)
    assert not np.tril(t, -1).any()


@pytest.mark.parametrize("seed", range(4))
def test_logarithms_of_real_matrices_take_the_upper_side_of_the_cut(seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(4, 4))
    values, vectors = np.linalg.eig(x)
    wanted = vectors @ np.diag(np.log(values + 0j)) @ np.linalg.inv(vectors)
    np.testing.assert_allclose(tnf.linalg.logm(x), wanted, atol=1e-11)


def test_factors_solve() -> None:
    factor = tnf.linalg.cho_factor(S)
    np.testing.assert_allclose(tnf.linalg.cho_solve(factor, V), np.linalg.solve(S, V))
    values, vectors = tnf.linalg.eigh_tridiagonal(V, W)
    full = np.diag(V) + np.diag(W, 1) + np.diag(W, -1)
    np.testing.assert_allclose(full @ vectors, vectors * values, atol=1e-12)


@pytest.mark.parametrize("output", ["real", "complex"])
@pytest.mark.parametrize("x", [A, C, S.astype("f4")], ids=["real", "complex", "float32"])
def test_schur_forms(x: np.ndarray, output: str) -> None:
    t, z = tnf.linalg.schur(x, output)
    tolerance = 1e-4 if x.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(z @ t @ z.conj().T, x, atol=tolerance * 10)
    np.testing.assert_allclose(z @ z.conj().T, np.eye(4), atol=tolerance)
    assert not np.tril(t, -2).any()
    if output == "complex":
        assert t.dtype.kind == "c"
        assert not np.tril(t, -1).any()


SELECTED: dict[Any, Any] = {
    "lhp": lambda w: w.real < 0, "rhp": lambda w: w.real >= 0,
    "iuc": lambda w: abs(w) <= 1, "ouc": lambda w: abs(w) > 1,
    "function": lambda w: w.imag != 0 and w.real > -0.5,
}  # fmt: skip


@pytest.mark.parametrize("through", [lambda f: f, tnf.jit, tnf.vmap])
@pytest.mark.parametrize("output", ["real", "complex"])
@pytest.mark.parametrize("name", SELECTED)
def test_sorted_schur_forms(name: str, output: str, through: Any) -> None:
    stack = np.stack([A, np.roll(A, 1, 0) - A.T, A @ S])
    is_selected = SELECTED[name]
    by_parts = lambda re, im: is_selected(complex(re, im))
    function = by_parts if output == "real" else is_selected
    sort = function if name == "function" else name
    t, z, counts = through(lambda x: tnf.linalg.schur(x, output, sort=sort))(stack)
    np.testing.assert_allclose(z @ t @ z.conj().swapaxes(-2, -1), stack, atol=1e-11)
    np.testing.assert_allclose(z @ z.conj().swapaxes(-2, -1), [np.eye(4)] * 3, atol=1e-12)
    for x, form, count in zip(stack, t, counts, strict=True):
        assert not np.tril(form, -2 if output == "real" else -1).any()
        assert count == sum(bool(is_selected(w)) for w in np.linalg.eigvals(x))
        # The first diagonal block has the selected eigenvalues.
        assert all(is_selected(w) for w in np.linalg.eigvals(form[:count, :count]))


def test_a_sorted_schur_form_of_nan() -> None:
    t, z, count = tnf.linalg.schur(np.full((2, 2), np.nan), sort="lhp")
    assert (np.isnan(t).all(), np.isnan(z).all(), count) == (True, True, 0)
    assert [x.shape for x in tnf.linalg.schur(np.zeros((0, 0)), sort="lhp")] == [(0, 0), (0, 0), ()]


def test_functions_of_matrices() -> None:
    np.testing.assert_allclose(tnf.linalg.funm(A, lambda x: x * x * x), A @ A @ A, atol=1e-10)
    np.testing.assert_allclose(tnf.linalg.funm(S, tnf.exp), scipy.linalg.expm(S), rtol=1e-8)
    root = tnf.linalg.sqrtm(A)
    np.testing.assert_allclose(root @ root, A, atol=1e-10)
    assert (np.linalg.eigvals(root).real >= 0).all()


def test_derivatives_of_functions_of_matrices() -> None:
    a = np.array([[1.0, 2.0], [0.5, 3.0]])

    def total(c: Any) -> Any:
        return tnf.sum(tnf.linalg.funm(a, lambda x: tnf.exp(c * x)))

    exact = np.sum(a @ scipy.linalg.expm(0.7 * a))
    np.testing.assert_allclose(tnf.grad(total)(0.7), exact, rtol=1e-10)
    # Both the matrix and the captured tensor have a derivative: f(a) = expm(c a).
    both = tnf.grad(lambda a, c: tnf.sum(tnf.linalg.funm(a, lambda x: tnf.exp(c * x))), argnums=(0, 1))  # fmt: skip
    by_matrix, by_number = both(a, 0.7)
    np.testing.assert_allclose(by_number, exact, rtol=1e-10)
    slope = scipy.linalg.expm_frechet(0.7 * a.T, 0.7 * np.ones((2, 2)), compute_expm=False)
    np.testing.assert_allclose(by_matrix, slope, rtol=1e-10)
    # For equal eigenvalues the value is NaN, and so is the derivative.
    gradient = tnf.grad(lambda x: tnf.sum(tnf.linalg.funm(x, tnf.exp)))(np.eye(2))
    assert np.isnan(gradient).all()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tnf.real(tnf.linalg.sqrtm(x @ x.T + np.eye(4))),
        lambda x: tnf.linalg.solve_sylvester(x, S, x),
        lambda x: tnf.linalg.expm_frechet(x, x)[1],
        lambda x: tnf.linalg.polar(x)[0],
        lambda x: tnf.real(tnf.linalg.logm(x @ x.T + np.eye(4))),
        lambda x: tnf.linalg.signm(x),
        lambda x: tnf.linalg.solve_discrete_lyapunov(x / 4, S),
        lambda x: tnf.linalg.solve_continuous_lyapunov(x + 5 * np.eye(4), S),
        lambda x: tnf.linalg.solve_sylvester(x, S, S) + tnf.linalg.solve_sylvester(x, S, A),
        lambda x: tnf.linalg.cholesky_banded(x[:2] + np.array([[0.0], [9.0]])),
        lambda x: tnf.linalg.tanm(x / 2),
        lambda x: tnf.linalg.cho_solve(tnf.linalg.cho_factor(x @ x.T + np.eye(4)), x),
        lambda x: tnf.linalg.solve_banded((1, 1), x[:3] + 4 * np.eye(3, 4, 1)[[1, 0, 2]], V),
        lambda x: tnf.linalg.toeplitz(x[0], x[1]) @ tnf.linalg.circulant(x[2]),
        lambda x: tnf.linalg.funm(x, tnf.sin),
        lambda x: tnf.linalg.funm(tnf.stack([x @ x.T, x.T @ x + S]), tnf.sqrt),
    ],
    ids=["sqrtm", "solve_sylvester", "expm_frechet", "polar", "logm", "signm", "discrete", "lyapunov", "two systems", "banded", "tanm", "cho_solve", "solve_banded", "toeplitz", "funm", "stacked funm"],
)  # fmt: skip
def test_derivatives(f: Any) -> None:
    direction = R.normal(size=(4, 4))
    _, slope = tnf.jvp(f, (A,), (direction,))
    step = 1e-6
    wanted = (f(A + step * direction) - f(A - step * direction)) / (2 * step)
    np.testing.assert_allclose(slope, wanted, rtol=2e-5, atol=2e-6)
    y_bar = R.normal(size=slope.shape)
    pulled = tnf.grad(lambda x: tnf.sum(f(x) * y_bar))(A)
    np.testing.assert_allclose(np.sum(pulled * direction), np.sum(slope * y_bar), rtol=1e-8)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tnf.linalg.logm(x),
        lambda x: tnf.linalg.funm(x, tnf.exp),
        lambda x: tnf.cond(x[0, 0] > 0, tnf.linalg.sqrtm, lambda x: x + 0j, x),
        lambda x: tnf.fori_loop(0, 2, lambda _, x: tnf.linalg.solve_sylvester(x, S, x), x),
    ],
    ids=["logm", "funm", "in a branch", "in a loop"],
)
def test_second_derivatives(f: Any) -> None:
    weights = R.normal(size=(4, 4))
    tnf.check_grads(lambda x: tnf.sum(tnf.real(f(x)) * weights), (S / 4,), order=2)


def test_roots() -> None:
    for p in (np.array([1.0, -6.0, 11.0, -6.0]), np.array([0.0, 2.0, 0.0, 8.0, 0.0]), V):
        found, wanted = np.sort_complex(tnf.roots(p)), np.sort_complex(np.roots(p))
        np.testing.assert_allclose(found, wanted, atol=1e-10)
    program = tnf.compile(lambda p: tnf.roots(p, strip_zeros=False), V)
    np.testing.assert_allclose(
        np.sort_complex(program.run(V)), np.sort_complex(np.roots(V)), atol=1e-10
    )
    with pytest.raises(errors.DataDependentShapeError, match="strip_zeros"):
        tnf.compile(tnf.roots, V)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tnf.linalg.toeplitz(3.0), errors.ShapeError),
        (lambda: tnf.linalg.hankel(A), errors.ShapeError),
        (lambda: tnf.linalg.leslie(V, V), errors.ShapeError),
        (lambda: tnf.linalg.invhilbert(15, exact=True), errors.InvalidConfigError),
        (lambda: tnf.linalg.rq(A, mode="half"), errors.InvalidConfigError),
        (lambda: tnf.linalg.solve(A, V, assume_a="other"), errors.InvalidConfigError),
        (lambda: tnf.linalg.eigh(A, "L", lower=True), errors.InvalidConfigError),
        (lambda: tnf.linalg.eigh(A, subset_by_index=(1, 4)), errors.InvalidConfigError),
        (lambda: tnf.linalg.cholesky(S, upper=True, lower=True), errors.InvalidConfigError),
        (lambda: tnf.linalg.qr(A, "raw", pivoting=True), errors.InvalidConfigError),
        *[(lambda f=f: f(A, disp=False), errors.UnsupportedError) for f in (tnf.linalg.sqrtm, tnf.linalg.logm, tnf.linalg.signm)],
        (lambda: tnf.linalg.funm(A, np.exp, disp=False), errors.UnsupportedError),
        (lambda: tnf.linalg.schur(A, sort="left"), errors.InvalidConfigError),
        (lambda: tnf.linalg.eigh(A, b=S, type=4), errors.InvalidConfigError),
        (lambda: tnf.linalg.eigh(A, subset_by_value=(2, 1)), errors.InvalidConfigError),
        (lambda: tnf.linalg.eigh(np.stack([S, S]), subset_by_value=(0, 1)), errors.ShapeError),
        (lambda: tnf.compile(lambda a: tnf.linalg.eigvalsh(a, subset_by_value=(0, 1)), A), errors.DataDependentShapeError),
        (lambda: tnf.linalg.eigh_tridiagonal(V, W, select="v"), errors.InvalidConfigError),
        (lambda: tnf.linalg.lstsq(A, V, 0.1, cond=0.1), errors.InvalidConfigError),
        (lambda: tnf.linalg.solve_circulant(V, W), errors.ShapeError),
        (lambda: tnf.linalg.solve_circulant(V, V, "shortest"), errors.InvalidConfigError),
        (lambda: tnf.linalg.orthogonal_procrustes(A, V), errors.ShapeError),
        (lambda: tnf.linalg.companion([1.0]), errors.ShapeError),
        (lambda: tnf.linalg.hadamard(6), errors.InvalidConfigError),
        (lambda: tnf.linalg.dft(3, "half"), errors.InvalidConfigError),
        (lambda: tnf.linalg.solve_banded((1, 1), BANDS, V), errors.ShapeError),
        (lambda: tnf.linalg.solve_sylvester(A, S, V), errors.ShapeError),
        (lambda: tnf.linalg.eigh_tridiagonal(V, V), errors.ShapeError),
        (lambda: tnf.linalg.polar(A, "up"), errors.InvalidConfigError),
        (lambda: tnf.linalg.schur(A, "quaternion"), errors.InvalidConfigError),
        (lambda: tnf.linalg.sqrtm(A[:2]), errors.ShapeError),
        (lambda: tnf.linalg.expm_frechet(A, A[:2, :2]), errors.ShapeError),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (1, 1)])
def test_the_hessenberg_form_of_matrices_without_a_subdiagonal(shape: tuple[int, ...]) -> None:
    a = np.ones(shape)
    np.testing.assert_array_equal(tnf.linalg.hessenberg(a), a)
    form, q = tnf.linalg.hessenberg(a, calc_q=True)
    assert form.shape == q.shape == shape


@pytest.mark.parametrize("lower", [False, True])
def test_factors_of_several_matrices_solve_for_one_vector(lower: bool) -> None:
    root = np.random.default_rng(2).normal(size=(2, 3, 3))
    a, b = root @ root.mT + np.eye(3), np.arange(3.0)
    x = tnf.linalg.cho_solve(tnf.linalg.cho_factor(a, lower=lower), b)
    np.testing.assert_allclose(x, [np.linalg.solve(matrix, b) for matrix in a], rtol=1e-12)
