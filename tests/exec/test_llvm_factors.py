"""Factorisations in compiled loops must satisfy their definitions; factors of non-finite matrices must be NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm.link import is_installed
from tenferro.ext.lapack import families as raw
from tenferro.ext.linalg import families as fam
from tenferro.extension import apply
from tests.exec.compiled_loops import in_two_iterations
from tests.exec.test_llvm_linalg import near
from tests.pairs import in_turn
from tests.samples.matrices import DTYPES, adjoint, general

pytestmark = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
SHAPES = [(4, 4), (2, 3, 5), (2, 5, 3), (1, 1), (6, 1), (1, 6), (3, 2, 40, 33)]


def require_unitary(q: Any) -> None:
    near(
        adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1], dtype=q.dtype), (adjoint(q) @ q).shape)
    )


@in_turn("shape", SHAPES, "dtype", DTYPES)
@pytest.mark.parametrize("full", [False, True])
def test_qr(shape: tuple[int, ...], dtype: Any, full: bool) -> None:
    a = general(*shape, dtype=dtype)
    q, r = in_two_iterations(lambda a: apply(fam.Qr(full=full), a), a)
    m, n = shape[-2:]
    assert q.shape[-2:] == (m, m if full else min(m, n))
    near(q @ r, a)
    require_unitary(q)
    np.testing.assert_array_equal(r, np.triu(r))
    alone = in_two_iterations(lambda a: apply(fam.Qr(full=full, vectors=False), a), a)
    np.testing.assert_array_equal(alone, r)


@in_turn("shape", SHAPES, "dtype", DTYPES)
def test_reflections(shape: tuple[int, ...], dtype: Any) -> None:
    a = general(*shape, dtype=dtype)
    few = min(shape[-2:])

    def product(a: Any) -> Any:
        packed, factors = apply(raw.Geqrf(), a)
        return packed, apply(raw.HouseholderProduct(), packed[..., :few], factors)

    packed, q = in_two_iterations(product, a)
    require_unitary(q)
    near(q @ np.triu(packed[..., :few, :]), a)


@in_turn("shape", SHAPES, "dtype", DTYPES)
def test_row_swaps(shape: tuple[int, ...], dtype: Any) -> None:
    a = general(*shape, dtype=dtype)
    packed, pivots, info = in_two_iterations(lambda a: apply(raw.Getrf(), a), a)
    k = min(shape[-2:])
    assert (pivots.dtype, pivots.shape) == (np.int32, (*shape[:-2], k))
    assert not np.any(info)
    for index in np.ndindex(*shape[:-2]):
        rows = np.arange(shape[-2])
        for i, pivot in enumerate(pivots[index]):
            rows[[i, pivot - 1]] = rows[[pivot - 1, i]]
        low = np.tril(packed[index][:, :k], -1) + np.eye(shape[-2], k)
        near((low @ np.triu(packed[index][:k])).astype(dtype), a[index][rows])


def test_a_zero_pivot_is_reported() -> None:
    info = in_two_iterations(lambda a: apply(raw.Getrf(), a), np.stack([np.eye(3), np.diag([1.0, 0.0, 2.0])]))[2]  # fmt: skip
    np.testing.assert_array_equal(info, [0, 2])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 3, 4, 4), (40, 40)])
def test_eigh(shape: tuple[int, ...], dtype: Any) -> None:
    a = general(*shape, dtype=dtype)
    part = (a + adjoint(a)) / 2
    values, vectors = in_two_iterations(lambda a: apply(fam.Eigh(), a), a)
    require_unitary(vectors)
    near((vectors * values[..., None, :]) @ adjoint(vectors), part)
    assert (np.diff(values) >= 0).all()
    near(in_two_iterations(lambda a: apply(fam.Eigh(vectors=False), a), a), values)


@in_turn("shape", SHAPES, "dtype", DTYPES)
@pytest.mark.parametrize("full", [False, True])
def test_svd(shape: tuple[int, ...], dtype: Any, full: bool) -> None:
    a = general(*shape, dtype=dtype)
    few = min(shape[-2:])
    u, s, v = in_two_iterations(lambda a: apply(fam.Svd(full=full), a), a)
    assert (u.shape[-1], v.shape[-2]) == (shape[-2:] if full else (few, few))
    require_unitary(u)
    require_unitary(adjoint(v))
    near((u[..., :few] * s[..., None, :]) @ v[..., :few, :], a)
    assert (np.diff(s) <= 0).all()
    near(in_two_iterations(lambda a: apply(fam.Svd(vectors=False), a), a), s)


@pytest.mark.parametrize("op", [fam.Eigh(), fam.Eigh(vectors=False), fam.Svd(), fam.Svd(vectors=False)], ids=str)  # fmt: skip
def test_infinite_matrices_do_not_affect_their_batch(op: Any) -> None:
    a = np.stack([np.eye(3), np.full((3, 3), np.nan), 2 * np.eye(3)])
    program = tnf.compile(lambda a: apply(op, a), a)
    expected = tnf.tree.leaves(tnf.GraphExecutor(compiled=False).run(program, a))
    executor = tnf.GraphExecutor("K", compiled=True)
    loop = tnf.compile(lambda a: tnf.scan(lambda c, x: (c, apply(op, x)), 0.0, a[None])[1], a)
    assert "# compiled" in str(executor.compile(loop))
    for y, z in zip(tnf.tree.leaves(executor.run(loop, a)), expected, strict=True):
        np.testing.assert_array_equal(np.isnan(y[0]), np.isnan(z))
        np.testing.assert_allclose(np.abs(y[0]), np.abs(z), atol=1e-14)


@pytest.mark.parametrize("op", [fam.Eigh(), fam.Eigh(vectors=False), fam.Svd(), fam.Svd(True), fam.Svd(vectors=False)], ids=str)  # fmt: skip
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [3, 20])
def test_lapack_is_not_called_on_infinite_matrices(op: Any, dtype: Any, n: int) -> None:
    """If one matrix of a batch contains an infinity or NaN, only its results must be NaN."""
    imaginary = [complex(1, np.inf), complex(0, np.nan)] if np.dtype(dtype).kind == "c" else []
    spots = [
        (row, column, bad)
        for row, column in ((n // 2, n // 2 - 1), (n - 1, n - 1))
        for bad in (np.inf, -np.inf, np.nan, *imaginary)
    ]
    a = np.stack([general(3, n, n, dtype=dtype)] * (len(spots) + 1))
    for step, (row, column, bad) in enumerate(spots):
        a[step, 1, row, column] = bad
    executor = tnf.GraphExecutor("K", compiled=True)
    loop = tnf.compile(lambda a: tnf.scan(lambda c, x: (c + 1.0, apply(op, x)), 0.0, a)[1], a)
    assert "# compiled" in str(executor.compile(loop, a))
    assert "define i64 @f(" in executor.source(loop, "llvm")
    for y in tnf.tree.leaves(executor.run(loop, a)):
        assert np.isnan(y[:-1, 1]).all()
        assert np.isfinite(y[:, [0, 2]]).all()
        assert np.isfinite(y[-1]).all()
