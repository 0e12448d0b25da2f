"""Linear algebra must satisfy its definitions, have right derivatives to second order, and run through PJRT."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.linalg

import tenferro as tnf
from tenferro import errors
from tenferro.api.linalg import matrices as surface
from tenferro.ext.linalg import families
from tenferro.extension import Dense, Extension
from tests.levels import LEVELS, peer_of
from tests.pairs import in_turn
from xla_peer import XlaExecutor

la = tnf.linalg
Fn = Callable[..., Any]


def random(*shape: int, dtype: Any = "f8", seed: int = 0) -> Any:
    generator = np.random.default_rng([seed, *shape])
    x = generator.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * generator.normal(size=shape)
    return x.astype(dtype)


def adjoint(x: Any) -> Any:
    return tnf.conj(tnf.matrix_transpose(x))


def positive(x: Any) -> Any:
    return x @ adjoint(x) + np.eye(
        x.shape[-1], dtype=np.dtype(x.dtype.dtype if hasattr(x.dtype, "dtype") else x.dtype)
    )


def symmetric(x: Any) -> Any:
    return x + adjoint(x)


def function_of(x: Any) -> Any:
    """Return the sine of a symmetric matrix, computed by its eigenvalues.

    The result does not depend on the phases of the eigenvectors.
    """
    w, v = la.eigh(symmetric(x))
    return v @ (tnf.reshape(tnf.sin(w), (x.shape[-1], 1)) * adjoint(v))


def low_rank(x: Any) -> Any:
    u, s, vh = la.svd(x, full_matrices=False)
    return u @ (tnf.reshape(s**2, (3, 1)) * vh)


SQUARE, BATCH, TALL, WIDE, RIGHT = (4, 4), (2, 4, 4), (5, 3), (3, 5), (4, 2)

CASES: dict[str, tuple[Fn, tuple[tuple[int, ...], ...]]] = {
    "cholesky": (lambda x: la.cholesky(positive(x)), (SQUARE,)),
    "cholesky upper": (lambda x: la.cholesky(positive(x), upper=True), (SQUARE,)),
    "cholesky batched": (lambda x: la.cholesky(positive(x)), (BATCH,)),
    "qr tall": (lambda x: tuple(la.qr(x)), (TALL,)),
    "qr wide": (lambda x: tuple(la.qr(x)), (WIDE,)),
    "qr square": (lambda x: tuple(la.qr(x)), (SQUARE,)),
    "qr batched": (lambda x: tuple(la.qr(x)), (BATCH,)),
    "qr complete": (lambda x: la.qr(x, mode="complete").Q[:, :3], (TALL,)),
    "qr complement": (
        lambda x: (lambda q: q[:, 3:] @ adjoint(q[:, 3:]))(la.qr(x, mode="complete").Q),
        (TALL,),
    ),
    "svdvals tall": (la.svdvals, (TALL,)),
    "svdvals wide": (la.svdvals, (WIDE,)),
    "svdvals batched": (la.svdvals, (BATCH,)),
    "svd product": (low_rank, (TALL,)),
    "svd product wide": (low_rank, (WIDE,)),
    "svd magnitudes": (
        lambda x: (lambda r: (tnf.abs(r.U), tnf.abs(r.Vh)))(la.svd(x, full_matrices=False)),
        (WIDE,),
    ),
    "svd left complement": (
        lambda x: (lambda u: u[:, 3:] @ adjoint(u[:, 3:]))(la.svd(x).U),
        (TALL,),
    ),
    "svd right complement": (lambda x: (lambda v: adjoint(v[3:]) @ v[3:])(la.svd(x).Vh), (WIDE,)),
    "eigvalsh": (lambda x: la.eigvalsh(symmetric(x)), (SQUARE,)),
    "eigh": (function_of, (SQUARE,)),
    "eigvals": (la.eigvals, (SQUARE,)),
    "eig": (lambda x: tnf.abs(la.eig(x).eigenvectors), (SQUARE,)),
    "lu": (lambda x: la.lu(x)[1:], (SQUARE,)),
    "lu tall": (lambda x: la.lu(x)[1:], (TALL,)),
    "lu wide": (lambda x: la.lu(x)[1:], (WIDE,)),
    "lu_solve": (lambda a, b: la.lu_solve(la.lu_factor(a), b), (SQUARE, RIGHT)),
    "solve": (la.solve, (SQUARE, RIGHT)),
    "solve vector": (la.solve, (SQUARE, (4,))),
    "solve broadcast": (la.solve, (BATCH, RIGHT)),
    "triangular": (lambda a, b: la.solve_triangular(a, b, lower=True), (SQUARE, RIGHT)),
    "triangular T": (lambda a, b: la.solve_triangular(a, b, trans="T"), (SQUARE, RIGHT)),
    "triangular C": (
        lambda a, b: la.solve_triangular(a, b, trans="C", unit_diagonal=True),
        (SQUARE, RIGHT),
    ),
    "inv": (la.inv, (SQUARE,)),
    "inv batched": (la.inv, (BATCH,)),
    "det": (la.det, (SQUARE,)),
    "det batched": (la.det, (BATCH,)),
    "slogdet": (lambda x: tuple(la.slogdet(x)), (SQUARE,)),
    "pinv tall": (la.pinv, (TALL,)),
    "pinv wide": (la.pinv, (WIDE,)),
    "lstsq": (lambda a, b: la.lstsq(a, b).x, (TALL, (5, 2))),
    "fro": (la.matrix_norm, (TALL,)),
    "nuc": (lambda x: la.matrix_norm(x, ord="nuc"), (TALL,)),
    "spectral": (lambda x: la.matrix_norm(x, ord=2), (TALL,)),
    "norm 1": (lambda x: la.norm(x, 1), (TALL,)),
    "norm inf": (lambda x: la.norm(x, np.inf), (TALL,)),
    "vector 3": (lambda x: la.vector_norm(x, ord=3), (TALL,)),
    "cond": (la.cond, (SQUARE,)),
    "expm": (la.expm, (SQUARE,)),
    "power": (lambda x: la.matrix_power(x, 3), (SQUARE,)),
    "power of the inverse": (lambda x: la.matrix_power(x, -2), (SQUARE,)),
    "multi_dot": (lambda *x: la.multi_dot(x), (TALL, WIDE, TALL)),
    "cross": (la.cross, ((2, 3), (2, 3))),
    "outer": (la.outer, ((3,), (4,))),
    "trace": (la.trace, (SQUARE,)),
}


both_kinds = pytest.mark.parametrize("dtype", ["f8", "c16"])


def arguments(name: str, dtype: str) -> tuple[Fn, tuple[Any, ...]]:
    fn, shapes = CASES[name]
    return fn, tuple(random(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes))


@in_turn("name", CASES, "dtype", ["f8", "c16"])
def test_derivatives_to_second_order(name: str, dtype: str) -> None:
    fn, args = arguments(name, dtype)
    tnf.check_grads(fn, args, order=2, rtol=1e-7)


@pytest.fixture(scope="module", params=LEVELS)
def xla(request: pytest.FixtureRequest) -> XlaExecutor:
    return peer_of(request)


@in_turn("name", CASES, "dtype", ["f8", "c8", "f4", "c16"])
def test_values_and_cotangents_through_pjrt(name: str, dtype: str, xla: XlaExecutor) -> None:
    if name.startswith("eig") and "h" not in name and dtype in ("f4", "c8"):
        pytest.skip("close eigenvalues come in either order in single precision")
    fn, args = arguments(name, dtype)

    def pulled(*args: Any) -> Any:
        y, pull = tnf.vjp(fn, *args)
        leaves, tree = tnf.types.flatten(y)
        return y, pull(tnf.types.unflatten(tree, [tnf.ones_like(leaf) for leaf in leaves]))

    program = tnf.compile(pulled, *args)
    precision = 1e-3 if np.dtype(dtype).itemsize <= 4 or dtype == "c8" else 1e-9
    native, peer = program.run(*args), xla.run(program, *args)
    for a, b in zip(tnf.types.flatten(native)[0], tnf.types.flatten(peer)[0], strict=True):
        assert a.dtype == b.dtype
        assert np.max(np.abs(a - b), initial=0) <= precision * (1 + np.max(np.abs(a), initial=0))


@pytest.mark.parametrize(
    "name",
    ["solve", "solve vector", "solve broadcast", "inv batched", "expm", "power of the inverse"],
)
def test_large_matrices_are_solved_by_factors(
    name: str, xla: XlaExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    fn, args = arguments(name, "c16")

    def pulled(*args: Any) -> Any:
        y, pull = tnf.vjp(fn, *args)
        return y, *pull(tnf.ones_like(y))

    expected = pulled(*args)
    monkeypatch.setattr(surface, "FACTORED", 1)
    tnf.check_grads(fn, args, order=2, rtol=1e-7)
    program = tnf.compile(pulled, *args)
    assert "lu_solve" in str(program)
    for found in (program.run(*args), xla.run(program, *args)):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    batched = [np.stack([x, 2 * x, -x]) for x in args]
    for several in (tnf.vmap(pulled)(*batched), tnf.jit(tnf.vmap(pulled))(*batched)):
        for found, *ones in zip(
            several, *[pulled(*each) for each in zip(*batched, strict=True)], strict=True
        ):
            np.testing.assert_allclose(found, np.stack(ones), rtol=1e-9, atol=1e-9)


def test_a_large_matrix_is_factorised_once() -> None:
    a, b = random(130, 130) + 12 * np.eye(130), random(130, 3)

    def fn(a: Any, b: Any) -> Any:
        return tnf.sum(la.solve(a, b)) + tnf.sum(la.solve(a, 2 * b)) + tnf.sum(la.inv(a))

    program = tnf.compile(tnf.value_and_grad(fn, (0, 1)), a, b)
    assert [i.op.name for i in program.instructions].count("tenferro.lu.v1") == 1
    tnf.check_grads(fn, (a, b), order=1, rtol=1e-6)
    singular = np.zeros((130, 130))
    assert not np.isfinite(la.solve(singular, b)).any()


@both_kinds
def test_factors_multiply_back(dtype: str) -> None:
    for shape in (SQUARE, TALL, WIDE, BATCH, (0, 3), (3, 0), (2, 0, 0)):
        x = random(*shape, dtype=dtype)
        q, r = la.qr(x)
        np.testing.assert_allclose(q @ r, x, atol=1e-13)
        np.testing.assert_allclose(np.triu(r), r)
        u, s, vh = la.svd(x, full_matrices=False)
        np.testing.assert_allclose(u * s[..., None, :] @ vh, x, atol=1e-13)
        assert (np.diff(s, axis=-1) <= 0).all()
        p, low, up = la.lu(x)
        np.testing.assert_allclose(p @ low @ up, x, atol=1e-13)
        np.testing.assert_allclose(np.tril(low), low)
        np.testing.assert_allclose(np.triu(up), up)
    a = random(*BATCH, dtype=dtype)
    w, v = la.eig(a)
    np.testing.assert_allclose(a @ v, v * w[..., None, :], atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(v, axis=-2), 1)
    h = symmetric(a)
    w, v = la.eigh(h)
    np.testing.assert_allclose(h @ v, v * w[..., None, :], atol=1e-12)
    low = la.cholesky(positive(a))
    np.testing.assert_allclose(low @ adjoint(low), positive(a), atol=1e-12)
    for trans, op in (("N", lambda x: x), ("T", np.transpose), ("C", lambda x: x.conj().T)):
        for lower in (False, True):
            x = la.solve_triangular(a[0], a[1], lower=lower, trans=trans)
            triangle = np.tril(a[0]) if lower else np.triu(a[0])
            np.testing.assert_allclose(op(triangle) @ x, a[1], atol=1e-9)


@both_kinds
def test_numbers_are_scipys(dtype: str) -> None:
    x = random(*SQUARE, dtype=dtype)
    np.testing.assert_allclose(la.det(x), np.linalg.det(x))
    for ours, theirs in zip(la.slogdet(x), np.linalg.slogdet(x), strict=True):
        np.testing.assert_allclose(ours, theirs)
    for scale in (1e-3, 1.0, 30.0):
        np.testing.assert_allclose(la.expm(scale * x), scipy.linalg.expm(scale * x), rtol=1e-9)
    tall = random(*TALL, dtype=dtype)
    np.testing.assert_allclose(la.pinv(tall), np.linalg.pinv(tall))
    b = random(5, 2, dtype=dtype, seed=1)
    found, expected = la.lstsq(tall, b), np.linalg.lstsq(tall, b)
    np.testing.assert_allclose(found.x, expected[0])
    np.testing.assert_allclose(found.residuals, expected[1])
    assert found.rank == expected[2]
    for order in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        np.testing.assert_allclose(la.norm(tall, order), np.linalg.norm(tall, order))
        if order not in ("fro", "nuc"):
            np.testing.assert_allclose(
                la.norm(tall[:, 0], order), np.linalg.norm(tall[:, 0], order)
            )
    for power in (-3, -1, 0, 1, 2, 5):
        np.testing.assert_allclose(la.matrix_power(x, power), np.linalg.matrix_power(x, power))
    assert la.matrix_rank(low_rank(tall)) == 3
    np.testing.assert_allclose(la.cond(x), np.linalg.cond(x))
    np.testing.assert_allclose(la.cond(x, 1), np.linalg.cond(x, 1))


def test_derivatives_that_others_give_as_nan() -> None:
    zero = np.zeros(3)
    np.testing.assert_array_equal(tnf.grad(la.vector_norm)(zero), zero)
    np.testing.assert_array_equal(tnf.grad(la.norm)(np.zeros((2, 2))), np.zeros((2, 2)))
    # Sums of functions of all singular values or all eigenvalues are smooth, even where some of the values are equal.
    eye = np.eye(3)
    np.testing.assert_allclose(tnf.grad(lambda x: tnf.sum(la.svdvals(x)))(eye), eye)
    np.testing.assert_allclose(
        tnf.grad(lambda x: tnf.sum(tnf.exp(la.eigvalsh(x))))(eye), np.e * eye, atol=1e-14
    )
    assert not np.isnan(tnf.grad(lambda x: tnf.sum(la.svdvals(x) ** 2))(np.zeros((3, 2)))).any()


def test_what_cannot_be_factored_is_nan_in_its_place_alone() -> None:
    pair = np.stack([np.eye(2), -np.eye(2)])
    low = la.cholesky(pair)
    np.testing.assert_array_equal(low[0], np.eye(2))
    assert np.isnan(low[1][0, 0])
    program = tnf.compile(la.cholesky, pair)
    peer = XlaExecutor("cpu").run(program, pair)
    np.testing.assert_array_equal(peer[0], np.eye(2))
    assert np.isnan(peer[1][0, 0])
    assert not np.isfinite(la.solve(np.zeros((2, 2)), np.ones(2))).any()


REFUSED: dict[str, tuple[Fn, type[Exception], str]] = {
    "not square": (lambda: la.inv(np.ones((2, 3))), errors.ShapeError, "inv: needs square"),
    "vector": (lambda: la.qr(np.ones(3)), errors.ShapeError, "qr: needs a matrix"),
    "half": (lambda: la.cholesky(np.eye(2, dtype="f2")), errors.DTypeError, "float32"),
    "rows": (lambda: la.solve(np.eye(3), np.ones((2, 1))), errors.ShapeError, "as many"),
    "mode": (lambda: la.qr(np.eye(2), mode="thin"), errors.InvalidConfigError, "reduced"),
    "trans": (
        lambda: la.solve_triangular(np.eye(2), np.ones(2), trans="H"),
        errors.InvalidConfigError,
        "trans",
    ),
    "ord": (lambda: la.matrix_norm(np.eye(2), ord=3), errors.InvalidConfigError, "nuc"),
    "degenerate": (lambda: la.svd(np.eye(2), degenerate="x"), errors.InvalidConfigError, "zero"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused(case: Any) -> None:
    attempt, kind, words = case
    with pytest.raises(kind, match=words):
        attempt()


def test_symbolic_batches_and_orders() -> None:
    program = tnf.compile(
        tnf.value_and_grad(lambda x: tnf.sum(la.inv(x))), tnf.TensorSpec(("b", "n", "n"), "f8")
    )
    for b, n in ((1, 2), (3, 4)):
        x = random(b, n, n)
        value, gradient = program.run(x)
        np.testing.assert_allclose(value, np.linalg.inv(x).sum())
        np.testing.assert_allclose(gradient, tnf.grad(lambda x: tnf.sum(la.inv(x)))(x), rtol=1e-9)


def singular(rank: int, dtype: str) -> Any:
    return random(4, rank, dtype=dtype) @ random(rank, 4, dtype=dtype, seed=1)


@both_kinds
@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
def test_determinants_of_singular_matrices_have_derivatives(
    rank: int, dtype: str, xla: XlaExecutor
) -> None:
    x = singular(rank, dtype)
    gradient = tnf.grad(lambda x: tnf.real(la.det(x)))(x)
    expected = np.array(
        [
            [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(4)]
            for i in range(4)
        ]
    )
    np.testing.assert_allclose(gradient, expected.conj(), atol=1e-12)
    peer = xla if rank in (0, 2) else None
    tnf.check_grads(la.det, (x,), order=2, executor=peer)


@in_turn("shape", [(5, 3), (3, 5), (4, 4)], "dtype", ["f8", "c16"])
def test_pseudoinverse_along_matrices_of_one_rank(shape: tuple[int, int], dtype: str) -> None:
    left, right = random(shape[0], 2, dtype=dtype), random(2, shape[1], dtype=dtype, seed=1)
    b = random(shape[0], 2, dtype=dtype, seed=2)
    tnf.check_grads(lambda a, c: la.pinv(a @ c), (left, right), order=2, rtol=1e-6)
    tnf.check_grads(lambda a, c: la.lstsq(a @ c, b).x, (left, right), order=2, rtol=1e-6)


def test_derivatives_of_pinv_at_an_ill_conditioned_matrix() -> None:
    """For an invertible matrix with the inverse P, the derivatives of pinv along V must be -P V P and 2 P V P V P."""
    rng = np.random.default_rng(7)
    q, _ = np.linalg.qr(rng.standard_normal((4, 4)))
    a, v = q @ np.diag([10.0, 4.0, 1.0, 2e-3]) @ q.T, rng.standard_normal((4, 4))
    first = lambda x: tnf.jvp(la.pinv, (x,), (v,))[1]
    with mpmath.workdps(40):
        p, d = mpmath.matrix(a.tolist()) ** -1, mpmath.matrix(v.tolist())
        slope = np.array((-p * d * p).tolist(), float)
        curvature = np.array((2 * p * d * p * d * p).tolist(), float)
    np.testing.assert_allclose(first(a), slope, rtol=0, atol=1e-11 * np.abs(slope).max())
    second = tnf.jvp(first, (a,), (v,))[1]
    np.testing.assert_allclose(second, curvature, rtol=0, atol=1e-11 * np.abs(curvature).max())
    # Reverse mode must agree. The gradient of sum(w * first(x)), multiplied by v, must be the second derivative
    # weighted with w.
    w = rng.standard_normal((4, 4))
    pulled = tnf.vjp(lambda x: tnf.sum(w * first(x)), a)[1](1.0)[0]
    np.testing.assert_allclose(np.sum(pulled * v), np.sum(w * curvature), rtol=1e-9)


def repeated(dtype: str, values: Any = (3.0, 3.0, 3.0, -1.0, -1.0)) -> Any:
    q, _ = np.linalg.qr(random(5, 5, dtype=dtype))
    return q * np.array(values) @ q.conj().T


@both_kinds
def test_observables_that_are_smooth_where_values_repeat(dtype: str) -> None:
    """Rounding makes equal eigenvalues differ slightly.

    The derivative of a smooth function must not divide by this difference.
    """
    x = repeated(dtype)
    direction = symmetric(random(5, 5, dtype=dtype, seed=4))

    def trace_of_function(x: Any) -> Any:
        return tnf.sum(tnf.sin(la.eigvalsh(x)))

    def projector(x: Any) -> Any:
        v = la.eigh(x).eigenvectors[:, 2:]
        return v @ adjoint(v)

    def left_projector(x: Any) -> Any:
        u = la.svd(x).U[:, :3]
        return u @ adjoint(u)

    def by_differences(fn: Any) -> Any:
        h = 1e-5
        return (fn(x + h * direction) - fn(x - h * direction)) / (2 * h)

    fns = (trace_of_function, projector, left_projector)
    expected = [by_differences(fn) for fn in fns]
    slopes = lambda x, v: [tnf.jvp(fn, (x,), (v,))[1] for fn in fns]
    program = tnf.compile(slopes, x, direction)
    for executor in (tnf.GraphExecutor(), XlaExecutor("cpu"), XlaExecutor("cpu", linalg="inline")):
        for found, wanted in zip(executor.run(program, x, direction), expected, strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-8)


def test_degenerate_can_be_an_error_or_nan() -> None:
    eye = np.eye(3)

    def loss(x: Any, degenerate: str) -> Any:
        return tnf.sum(la.eigh(x, degenerate=degenerate).eigenvectors ** 3)

    with pytest.raises(errors.DegenerateSpectrumError, match="coincide at 1") as caught:
        tnf.grad(loss)(eye, "raise")
    assert "test_linalg.py" in str(caught.value)
    with pytest.raises(errors.DegenerateSpectrumError):
        tnf.grad(lambda x: tnf.sum(la.svd(x, degenerate="raise").U ** 3))(eye)
    assert not np.isfinite(tnf.grad(loss)(eye, "nan")).all()
    assert np.isfinite(tnf.grad(loss)(eye, "zero")).all()
    x = np.diag([1.0, 2.0, 3.0]) + 0.1
    np.testing.assert_array_equal(tnf.grad(loss)(x, "raise"), tnf.grad(loss)(x, "zero"))
    program = tnf.compile(lambda x: tnf.grad(loss)(x, "raise"), x)
    with pytest.raises(errors.UnsupportedError, match="natively only"):
        XlaExecutor("cpu").run(program, x)


@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("shape", [(70, 64), (64, 70), (65, 65), (2, 66, 64), (0, 66, 64)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_qr_of_large_matrices(mode: str, shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal(shape)
    a = (a + 1j * rng.standard_normal(shape)).astype(dtype) if "c" in dtype else a.astype(dtype)
    for arranged in (a, np.asfortranarray(a)):
        q, r = tnf.GraphExecutor().run(
            tnf.compile(lambda x: tuple(la.qr(x, mode=mode)), a), arranged
        )
        expected_q, expected_r = np.linalg.qr(a, mode)
        assert (q.shape, q.dtype, r.shape) == (expected_q.shape, a.dtype, expected_r.shape)
        near = {"atol": 200 * np.finfo(dtype).eps * np.sqrt(max(shape[-2:])), "rtol": 0}
        np.testing.assert_allclose(q @ r, a, **near)
        inner = np.swapaxes(q.conj(), -1, -2) @ q
        np.testing.assert_allclose(inner, np.broadcast_to(np.eye(q.shape[-1]), inner.shape), **near)
        np.testing.assert_array_equal(r, np.triu(r))
        # Both results are computed from the same reflections, so that even the signs of R must agree.
        np.testing.assert_allclose(r, expected_r, atol=near["atol"] * 20, rtol=0)


def test_qr_of_a_large_matrix_that_is_not_finite() -> None:
    a = np.ones((64, 64))
    a[3, 5] = np.nan
    q, r = tnf.GraphExecutor().run(tnf.compile(lambda x: tuple(la.qr(x)), a), a)
    assert np.isnan(q).any()
    assert np.isnan(r).any()


SPECTRAL: dict[str, Fn] = {
    "svd": lambda x: tuple(la.svd(x)),
    "svd, reduced": lambda x: tuple(la.svd(x, full_matrices=False)),
    "svdvals": lambda x: (la.svdvals(x),),
    "eigh": lambda x: tuple(la.eigh(x)),
    "eigvalsh": lambda x: (la.eigvalsh(x),),
    "eig": lambda x: tuple(la.eig(x)),
    "eigvals": lambda x: (la.eigvals(x),),
}


@pytest.mark.parametrize("name", SPECTRAL)
@pytest.mark.parametrize("n", [3, 70])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_spectra_of_what_is_not_finite_are_nan(name: str, n: int, bad: float, dtype: str) -> None:
    """A matrix with NaN or infinity must have a NaN result, and must not be passed to LAPACK.

    For some of these matrices, LAPACK does not return.
    """
    a = random(3, n, n, dtype=dtype)
    a[1, n // 2, n // 2 - 1] = bad
    function = SPECTRAL[name]
    for y, alone in zip(function(a), function(a[0]), strict=True):
        assert np.isnan(y[1]).all()
        np.testing.assert_array_equal(y[0], alone)
        assert np.isfinite(y[2]).all()
    assert all(np.isnan(y).all() for y in function(a[1]))


@pytest.mark.parametrize("name", SPECTRAL)
@pytest.mark.parametrize("n", [3, 70])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_spectra_of_what_is_not_finite_are_nan_through_pjrt(
    name: str, n: int, dtype: str, xla: XlaExecutor
) -> None:
    a = random(3, n, n, dtype=dtype)
    program = tnf.compile(SPECTRAL[name], a)
    expected = xla.run(program, a)
    imaginary = [complex(0, np.inf), complex(1, np.nan)] if "complex" in dtype else []
    for bad in (np.inf, -np.inf, np.nan, *imaginary):
        a[1, n // 2, n // 2 - 1] = bad
        for y, z in zip(xla.run(program, a), expected, strict=True):
            assert np.isnan(y[1]).all()
            np.testing.assert_array_equal(y[[0, 2]], z[[0, 2]])


@pytest.mark.parametrize("shape", [(64, 64), (70, 64), (64, 70), (2, 66, 65), (0, 66, 64)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_singular_values_of_large_matrices(shape: tuple[int, ...], dtype: str) -> None:
    a = random(*shape, dtype=dtype)
    near = {"atol": 500 * np.finfo(dtype).eps * max(shape[-2:]), "rtol": 0}
    for arranged in (a, np.asfortranarray(a)):
        for full in (False, True):
            u, s, vh = la.svd(arranged, full_matrices=full)
            expected = np.linalg.svd(a, full_matrices=full)
            for y, other in zip((u, s, vh), expected, strict=True):
                assert (y.shape, y.dtype) == (other.shape, other.dtype)
            np.testing.assert_allclose(s, expected.S, **near)
            k = s.shape[-1]
            np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, **near)
            for x in (u, np.swapaxes(vh, -1, -2)):
                inner = np.swapaxes(np.conj(x), -1, -2) @ x
                np.testing.assert_allclose(
                    inner, np.broadcast_to(np.eye(x.shape[-1]), inner.shape), **near
                )
        np.testing.assert_allclose(la.svdvals(arranged), np.linalg.svdvals(a), **near)


@pytest.mark.parametrize("shape", [(64, 64), (2, 65, 65), (0, 66, 66)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_eigenvalues_of_large_hermitian_matrices(shape: tuple[int, ...], dtype: str) -> None:
    a = random(*shape, dtype=dtype)
    whole = a + np.swapaxes(a.conj(), -1, -2)
    near = {"atol": 500 * np.finfo(dtype).eps * shape[-1], "rtol": 0}
    for arranged in (whole, np.asfortranarray(whole)):
        before = arranged.copy()
        w, v = la.eigh(arranged)
        np.testing.assert_array_equal(arranged, before)
        expected = np.linalg.eigh(whole)
        assert (w.shape, w.dtype) == (expected[0].shape, expected[0].dtype)
        assert (v.shape, v.dtype) == (expected[1].shape, expected[1].dtype)
        np.testing.assert_allclose(w, expected[0], **near)
        np.testing.assert_allclose(whole @ v, v * w[..., None, :], **near)
        inner = np.swapaxes(np.conj(v), -1, -2) @ v
        np.testing.assert_allclose(inner, np.broadcast_to(np.eye(shape[-1]), inner.shape), **near)
        np.testing.assert_allclose(la.eigvalsh(arranged), expected[0], **near)


IN_MEMORY: dict[str, Callable[[Any], Any]] = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "transposed": lambda x: np.swapaxes(np.ascontiguousarray(np.swapaxes(x, -1, -2)), -1, -2),
    "every other": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "backwards": lambda x: np.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :],
}
OVERWRITING: dict[str, Callable[[Any], Any]] = {
    "cholesky": la.cholesky,
    "qr": la.qr,
    "svd": la.svd,
    "eigh": la.eigh,
    "solve": lambda a: la.solve(a, a[..., :3]),
    "inv": la.inv,
}


@pytest.mark.parametrize("shape", [(140, 140), (2, 66, 66)])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("name", OVERWRITING)
def test_large_matrices_in_any_order_in_memory(
    name: str, dtype: str, shape: tuple[int, ...]
) -> None:
    """Arguments must not change, and their layout must not affect results.

    LAPACK overwrites its operands, so it must receive copies.
    """
    x = random(*shape, dtype=dtype)
    matrix = x @ np.conj(np.swapaxes(x, -1, -2)) + shape[-1] * np.eye(shape[-1], dtype=dtype)
    program = tnf.compile(OVERWRITING[name], matrix)
    executor = tnf.GraphExecutor("K")
    results = dict[str, Any]()
    for order, arranged_as in IN_MEMORY.items():
        a = arranged_as(matrix)
        for _ in range(3):
            results[order] = tnf.types.flatten(executor.run(program, a))[0]
        np.testing.assert_array_equal(a, matrix)
    for order in IN_MEMORY:
        for y, expected in zip(results[order], results["rows"], strict=True):
            np.testing.assert_array_equal(y, expected, err_msg=order)


@pytest.mark.parametrize("columns", [1, 31, 32, 150])
@pytest.mark.parametrize("transpose", ["N", "T", "C"])
@pytest.mark.parametrize("lower", [False, True])
def test_triangles_of_few_and_of_many_right_hand_sides(
    columns: int, transpose: str, lower: bool
) -> None:
    n = 140
    a = (np.tril if lower else np.triu)(random(n, n, dtype="complex128")) / n + np.eye(n)
    b = random(n, columns, dtype="complex128")
    op = families.TriangularSolve(lower=lower, transpose=transpose)
    factor = {"N": a, "T": a.T, "C": a.conj().T}[transpose]
    executor = tnf.GraphExecutor("K")
    results = list[Any]()
    for of_a, of_b in product(IN_MEMORY.values(), repeat=2):
        arrays = of_a(a), of_b(b)
        (x,) = executor.apply(Extension(op), arrays)
        np.testing.assert_allclose(factor @ x, b, rtol=0, atol=1e-12)
        for y, before in zip(arrays, (a, b), strict=True):
            np.testing.assert_array_equal(y, before)
        results.append(x)
    # Arguments in all other layouts must have the same results.
    several = len(IN_MEMORY)
    for number, x in enumerate(results):
        np.testing.assert_array_equal(x, results[number - number % several])


@pytest.mark.parametrize("name", ["svd", "svdvals", "eigh", "eigvalsh"])
def test_large_matrices_on_which_lapack_fails_are_nan(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If LAPACK fails, the results must be NaN.

    The test simulates the failure, because no finite matrix is known to cause one.
    """
    from scipy.linalg import lapack

    original = lapack.get_lapack_funcs

    def failing(names: tuple[str, ...], *args: Any) -> list[Any]:
        (function,) = original(names, *args)
        if names[0].endswith("_lwork"):
            return [function]
        return [lambda *xs, **options: (*function(*xs, **options)[:-1], 1)]

    monkeypatch.setattr(lapack, "get_lapack_funcs", failing)
    results = SPECTRAL[name](random(2, 64, 64))
    assert results
    assert all(np.isnan(y).all() for y in results)


def test_values_that_coincide_need_not_be_neighbours() -> None:
    from tenferro.ext.linalg import runtime

    values = np.array([1.0, 2.0, 1.0])
    with pytest.raises(tnf.errors.DegenerateSpectrumError, match="coincide at 1"):
        runtime.distinct(families.Distinct(), Dense("C"), values)
    distinct = runtime.distinct(families.Distinct(), Dense("C"), values[:2])
    np.testing.assert_array_equal(distinct, values[:2])


def test_factors_are_reduced_unless_all_are_asked_for() -> None:
    assert [op().full for op in (families.Svd, families.Qr)] == [False, False]


ON_ONE: dict[str, Fn] = {
    "cholesky": lambda x: la.cholesky(x @ adjoint(x)),
    "qr": la.qr,
    "qr, complete": lambda x: la.qr(x, "complete"),
    "qr, no vectors": lambda x: la.qr(x, "r"),
    "lu": la.lu,
    "eigh": lambda x: la.eigh(symmetric(x)),
    "eig": la.eig,
    "svd": la.svd,
    "solve": lambda x: la.solve(x, x[..., :2]),
    "triangular": lambda x: la.solve_triangular(x, x[..., :2], lower=True),
    "determinant": la.slogdet,
}


@pytest.mark.parametrize("n", [3, 70])
@pytest.mark.parametrize("name", ON_ONE)
def test_a_batch_of_one_gives_what_its_matrix_does(name: str, n: int) -> None:
    """A batch of one matrix must have the same bits as the matrix alone.

    Large matrices of a batch are processed one at a time.
    """
    x = random(n, n) + n**0.5 * np.eye(n)
    alone, batch = (tnf.types.flatten(ON_ONE[name](each))[0] for each in (x, x[None]))
    for y, one in zip(alone, batch, strict=True):
        assert one.shape == (1, *y.shape)
        np.testing.assert_array_equal(one[0], y)
