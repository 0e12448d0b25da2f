"""`qr_append` adds rows or columns to a QR decomposition. The new factors must satisfy the definition of QR."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tests.pairs import in_turn

la = tnf.linalg
XLA = xla_peer.XlaExecutor()
RANDOM = np.random.default_rng(7)
DTYPES = ("float32", "float64", "complex64", "complex128")


def matrix(*shape: int, dtype: str = "float64") -> Any:
    x = RANDOM.standard_normal(shape)
    if dtype.startswith("c"):
        x = x + 1j * RANDOM.standard_normal(shape)
    return x.astype(dtype)


def assert_factors(q: Any, r: Any, a: Any, leading: int | None = None) -> None:
    """Check that Q has orthonormal columns, R is upper trapezoidal, and their product is A."""
    digits = 1e3 * np.finfo(a.dtype).eps * (1 + np.abs(a).max(initial=0))
    k = min(a.shape[-2:]) if leading is None else leading
    assert q.shape == (*a.shape[:-1], k)
    assert r.shape == (*a.shape[:-2], k, a.shape[-1])
    assert q.dtype == r.dtype == a.dtype
    np.testing.assert_allclose(q @ r, a, atol=digits, rtol=0)
    unit = np.conj(np.swapaxes(q, -1, -2)) @ q
    np.testing.assert_allclose(unit, np.broadcast_to(np.eye(k), unit.shape), atol=digits, rtol=0)
    np.testing.assert_array_equal(r, np.triu(r))


CASES = {
    "columns": ((7, 3), (7, 2), -1),
    "columns up to a square": ((4, 3), (4, 1), -1),
    "more columns than rows": ((4, 3), (4, 5), -1),
    "columns of a wide matrix": ((3, 5), (3, 2), -1),
    "a batch of columns": ((2, 5, 2), (2, 5, 2), -1),
    "no columns": ((4, 2), (4, 0), -1),
    "columns after none": ((4, 0), (4, 2), -1),
    "rows": ((5, 3), (2, 3), -2),
    "rows of a wide matrix": ((2, 4), (1, 4), -2),
    "rows that make it tall": ((2, 4), (5, 4), -2),
    "a batch of rows": ((2, 4, 3), (2, 2, 3), -2),
    "no rows": ((4, 3), (0, 3), -2),
}


@in_turn("case", CASES, "dtype", DTYPES)
def test_factors(case: str, dtype: str) -> None:
    shape, more, axis = CASES[case]
    a, b = matrix(*shape, dtype=dtype), matrix(*more, dtype=dtype)
    q, r = (np.asarray(x) for x in la.qr(a))
    whole = np.concatenate([a, b], axis)
    assert_factors(*la.qr_append(q, r, b, axis=axis), whole)
    program = tnf.compile(lambda *xs: la.qr_append(*xs, axis=axis), q, r, b)
    assert_factors(*program.run(q, r, b), whole)
    assert_factors(*XLA.run(program, q, r, b), whole)


A, B = matrix(6, 3), matrix(6, 2)
SPAN = {
    "in the span": A @ matrix(3, 2),
    "zero": np.zeros((6, 2)),
    "twice the same": np.repeat(matrix(6, 1), 2, axis=1),
    "nearly in the span": A @ matrix(3, 2) + 1e-14 * matrix(6, 2),
    "one of two": np.concatenate([matrix(6, 1), A[:, :1]], 1),
    "badly scaled": matrix(6, 2) * [1e-150, 1e150],
}


@pytest.mark.parametrize("name", SPAN)
@pytest.mark.parametrize("executor", [None, XLA], ids=["native", "peer"])
def test_dependent_columns_leave_q_orthonormal(name: str, executor: Any) -> None:
    for a in (A, np.eye(6)[:, :3]):
        b = SPAN[name] if a is A else np.eye(6)[:, :2]
        q, r = la.qr_append(*la.qr(a), b) if executor is None else executor.run(
            tnf.compile(lambda a, b: la.qr_append(*la.qr(a), b), a, b), a, b
        )  # fmt: skip
        np.testing.assert_allclose(q.T @ q, np.eye(5), atol=1e-13)
        whole = np.concatenate([a, b], 1)
        scale = np.maximum(np.abs(whole).max(0), 1e-300)
        np.testing.assert_allclose((q @ r) / scale, whole / scale, atol=1e-12)


def test_columns_of_q_stay() -> None:
    q, r = la.qr(A)
    wider, taller = la.qr_append(q, r, B)
    np.testing.assert_array_equal(wider[:, :3], q)
    np.testing.assert_array_equal(taller[:3, :3], r)


def test_a_complete_q_stays() -> None:
    q, r = la.qr(A, "complete")
    same, longer = la.qr_append(q, r, B)
    assert same is q or np.array_equal(same, q)
    np.testing.assert_allclose(same @ longer, np.concatenate([A, B], 1), atol=1e-13)


@pytest.mark.parametrize("axis", [-1, -2])
def test_derivatives(axis: int) -> None:
    b = B if axis == -1 else matrix(2, 3)

    def appended(a: Any, b: Any) -> Any:
        q, r = la.qr_append(*la.qr(a), b, axis=axis)
        return tnf.sum(tnf.abs(q) ** 3) + tnf.sum(tnf.abs(r) ** 3)

    def whole(a: Any, b: Any) -> Any:
        q, r = la.qr(tnf.concatenate([a, b], axis=axis))
        return tnf.sum(tnf.abs(q) ** 3) + tnf.sum(tnf.abs(r) ** 3)

    tnf.check_grads(appended, (A, b), order=2)
    expected = tnf.grad(whole, (0, 1))(A, b)
    for executor in (tnf.GraphExecutor(), XLA):
        program = tnf.compile(tnf.grad(appended, (0, 1)), A, b)
        for x, y in zip(executor.run(program, A, b), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


def test_batches() -> None:
    a, b = matrix(3, 5, 2), matrix(3, 5, 2)
    b[1] = a[1]  # this slice has dependent columns
    q, r = tnf.vmap(lambda a, b: la.qr_append(*la.qr(a), b))(a, b)
    assert_factors(np.asarray(q), np.asarray(r), np.concatenate([a, b], -1))


def test_symbols() -> None:
    specs = [tnf.TensorSpec(shape, "float64") for shape in (("m", "k"), ("k", "n"), ("p", "n"))]
    program = tnf.compile(lambda q, r, b: la.qr_append(q, r, b, axis=-2), *specs)
    b = matrix(2, 3)
    assert_factors(*program.run(*la.qr(A), b), np.concatenate([A, b]))
    with pytest.raises(tnf.errors.NonStaticShapeError, match="qr_append: extents must be numbers"):
        tnf.compile(la.qr_append, *specs[:2], tnf.TensorSpec(("m", 2), "float64"))


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        ((A, A[:3], A[:5]), {}, tnf.errors.ShapeError, "qr_append: q of"),
        ((A, A[:2], A), {}, tnf.errors.ShapeError, "qr_append: q of"),
        ((A, A[:3], B), {"axis": -2}, tnf.errors.ShapeError, "qr_append: q of"),
        ((A.T, A, A[:3]), {}, tnf.errors.ShapeError, "orthonormal columns"),
        ((A, A[:3], B), {"axis": 0}, tnf.errors.InvalidConfigError, "axis must be -1"),
        ((A, A[:3], B[:, 0]), {}, tnf.errors.ShapeError, "qr_append"),
    ],
)
def test_what_does_not_fit(arguments: Any, options: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        la.qr_append(*arguments, **options)
