"""Decompositions that are truncated to a data-dependent rank.

They must satisfy their definition, and their derivatives must equal finite differences.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from xla_peer import XlaExecutor

RTOL = 1e-6
KINDS = ["f8", "c16"]


def matrix(values: Any, m: int = 6, n: int = 5, dtype: str = "f8") -> Any:
    """Return a random m x n matrix with the given singular values."""
    generator = np.random.default_rng(len(values))
    left, right = (generator.normal(size=(size, len(values))) for size in (m, n))
    if dtype == "c16":
        left = left + 1j * generator.normal(size=left.shape)
        right = right + 1j * generator.normal(size=right.shape)
    return np.linalg.qr(left).Q * np.array(values) @ np.linalg.qr(right).Q.conj().T


def weighted(a: Any, **options: Any) -> Any:
    """Return a real number that depends on the product of the truncated factors and on the singular values.

    It does not depend on the arbitrary phases of the vectors.
    """
    u, s, vh, _ = tnf.linalg.truncated_svd(a, max_rank=3, rtol=RTOL, **options)
    product = tnf.einsum("ik,kj->ij", u, vh)
    return tnf.sum(tnf.sin(tnf.real(product))) + tnf.sum(s**3)


def reconstruction(a: Any, **options: Any) -> Any:
    q, r, _, _ = tnf.linalg.rank_revealing_qr(a, rtol=RTOL, max_rank=3, **options)
    product = tnf.einsum("ik,kj->ij", q, r)
    projector = tnf.einsum("ik,jk->ij", q, tnf.conj(q))
    return tnf.sum(tnf.sin(tnf.real(product))) + tnf.sum(tnf.cos(tnf.real(projector)))


def slope(function: Any, a: Any, direction: Any, h: float = 1e-4) -> float:
    """Return the derivative of a function at `a` in a direction, by a central difference of fourth order."""
    near, far = ([float(function(a + k * s * direction)) for s in (h, -h)] for k in (1, 2))
    return (8 * (near[0] - near[1]) - (far[0] - far[1])) / (12 * h)


def along(a: Any) -> Any:
    """Return a direction A B + C A with random B and C. Along such a direction, the rank of A does not change."""
    generator = np.random.default_rng(1)
    m, n = a.shape
    return a @ generator.normal(size=(n, n)) + generator.normal(size=(m, m)) @ a


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("values", [(3.0, 2.0), (5.0, 3.0, 2.0, 1.0), (1.0,), (3.0, 2.0, 1e-9)])
def test_truncated_svd_by_definition(values: Any, dtype: str) -> None:
    a = matrix(values, dtype=dtype)
    kept = [value for value in values if value > RTOL * values[0]][:3]
    u, s, vh, rank = tnf.linalg.truncated_svd(a, max_rank=3, rtol=RTOL)
    assert (u.shape, s.shape, vh.shape) == ((6, len(kept)), (len(kept),), (len(kept), 5))
    assert int(rank) == len(kept)
    assert rank.dtype == np.int64
    np.testing.assert_allclose(s, kept, rtol=1e-12)
    np.testing.assert_allclose(u.conj().T @ a @ vh.conj().T, np.diag(kept), atol=1e-12)
    masked = tnf.linalg.truncated_svd(a, max_rank=3, rtol=RTOL, masked=True)
    assert [part.shape for part in masked] == [(6, 3), (3,), (3, 5), ()]
    assert not masked.U[:, len(kept) :].any()
    assert not masked.Vh[len(kept) :].any()
    np.testing.assert_allclose(masked.U * masked.S @ masked.Vh, u * s @ vh, atol=1e-12)


def test_one_program_gives_several_ranks() -> None:
    program = tnf.compile(
        lambda a: tnf.linalg.truncated_svd(a, max_rank=3, rtol=RTOL), tnf.TensorSpec((6, 5), "f8")
    )
    ranks = [program.run(matrix(values)).S.shape for values in ((1.0,), (2.0, 1.0), (4.0, 3.0, 2.0, 1.0))]  # fmt: skip
    assert ranks == [(1,), (2,), (3,)]
    assert program.run(np.zeros((6, 5))).U.shape == (6, 0)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("function", [weighted, reconstruction])
@pytest.mark.parametrize("shape", [(6, 5), (4, 6)])
def test_gradients_against_differences(function: Any, masked: bool, dtype: str, shape: Any) -> None:
    a = matrix((3.0, 2.0), *shape, dtype=dtype)
    direction = along(a)
    gradient = tnf.grad(lambda x: function(x, masked=masked))(a)
    found = np.sum((gradient.conj() * direction).real)
    np.testing.assert_allclose(found, slope(function, a, direction), rtol=1e-7)


@pytest.mark.parametrize("masked", [False, True])
def test_gradient_is_that_of_the_full_decomposition(masked: bool) -> None:
    def full(a: Any) -> Any:
        u, s, vh = tnf.linalg.svd(a, full_matrices=False)
        u, s, vh = u[:, :3], s[:3], vh[:3]
        return tnf.sum(tnf.sin(u @ vh)) + tnf.sum(s**3)

    a = matrix((5.0, 3.0, 2.0, 1.0))
    gradient = tnf.grad(lambda x: weighted(x, masked=masked))(a)
    np.testing.assert_allclose(gradient, tnf.grad(full)(a), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(6, 5), (4, 6)])
def test_rank_revealing_qr_by_definition(shape: Any, dtype: str) -> None:
    a = matrix((3.0, 2.0, 1.0), *shape, dtype=dtype)
    q, r, perm, rank = tnf.linalg.rank_revealing_qr(a, rtol=RTOL)
    assert int(rank) == 3
    assert q.shape == (shape[0], 3)
    assert r.shape == (3, shape[1])
    assert sorted(perm) == list(range(shape[1]))
    np.testing.assert_allclose(q @ r, a[:, perm], atol=1e-12)
    np.testing.assert_allclose(q.conj().T @ q, np.eye(3), atol=1e-12)
    assert not np.tril(r, -1).any()
    falling = np.abs(np.diagonal(r))
    assert (falling[:-1] >= falling[1:]).all()


@pytest.mark.parametrize("function", [weighted, reconstruction])
def test_masked_factors_and_gradients_through_xla(function: Any) -> None:
    a = matrix((3.0, 2.0))
    program = tnf.compile(tnf.value_and_grad(lambda x: function(x, masked=True)), a)
    for native, compiled in zip(program.run(a), XlaExecutor().run(program, a), strict=True):
        np.testing.assert_allclose(compiled, native, rtol=1e-9, atol=1e-12)


def test_exact_factors_are_refused_by_xla() -> None:
    program = tnf.compile(
        lambda a: tnf.linalg.truncated_svd(a, max_rank=3, rtol=RTOL), matrix((1.0,))
    )
    with pytest.raises(errors.NonStaticShapeError, match="DynamicTruncate: axis 1 of output 0"):
        XlaExecutor().run(program, matrix((1.0,)))


def test_batches_are_masked() -> None:
    a = np.stack([matrix((3.0, 2.0)), matrix((1.0,))])
    masked = tnf.linalg.truncated_svd(a, max_rank=3, rtol=RTOL, masked=True)
    assert list(masked.rank) == [2, 1]
    np.testing.assert_allclose(masked.U * masked.S[:, None] @ masked.Vh, a, atol=1e-12)
    assert list(tnf.linalg.rank_revealing_qr(a, rtol=RTOL, masked=True).rank) == [2, 1]
    for function in (
        lambda: tnf.linalg.truncated_svd(a, max_rank=3, rtol=RTOL),
        lambda: tnf.linalg.rank_revealing_qr(a, rtol=RTOL),
    ):
        with pytest.raises(errors.ShapeError, match="use masked=True"):
            function()


def test_a_rank_below_one_is_refused() -> None:
    with pytest.raises(errors.InvalidConfigError, match="max_rank must be at least 1, got 0"):
        tnf.linalg.truncated_svd(np.eye(2), max_rank=0, rtol=0.0)


def test_cut_and_pad_are_transposes() -> None:
    x, y = np.arange(12.0).reshape(3, 4), np.arange(1.0, 7.0).reshape(3, 2)
    cut, pull = tnf.vjp(lambda v: tnf.dynamic_truncate(v, np.array(2)), x)
    np.testing.assert_array_equal(cut, x[:, :2])
    np.testing.assert_array_equal(pull(y)[0], np.pad(y, ((0, 0), (0, 2))))
    padded, back = tnf.vjp(lambda v: tnf.pad_to_match(v, x), y)
    np.testing.assert_array_equal(padded, np.pad(y, ((0, 0), (0, 2))))
    np.testing.assert_array_equal(back(x)[0], x[:, :2])
    with pytest.raises(errors.ShapeError, match="same rank"):
        tnf.pad_to_match(x, y[0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "uint64"])
def test_sizes_of_any_real_dtype(dtype: str) -> None:
    """A fractional size must be rounded up.

    A size that cannot be a number of elements, such as NaN, must be an error.
    """
    x = np.arange(7.0)
    is_float = tnf.DType.of(dtype).is_float
    sizes = {0: 0, 3: 3, 100: 7}
    if is_float:
        sizes |= {2.5: 3, 2.25: 2, 0.5: 1, -1.5: 0, np.nan: 0}
    for size, count in sizes.items():
        program = tnf.compile(tnf.dynamic_truncate, x, np.zeros((), tnf.DType.of(dtype).dtype))
        for _ in range(2):
            cut = program.run(x, np.asarray(size, tnf.DType.of(dtype).dtype))
            np.testing.assert_array_equal(cut, x[:count])


def cut_rows(x: Any, sizes: Any, **options: Any) -> Any:
    """Return the first `sizes[t]` elements of each row t, stacked by a scan."""
    step = lambda carry, row: (carry, tnf.dynamic_truncate(row[0], row[1]))
    return tnf.scan(step, np.zeros(2), (x, sizes), **options)[1]


@pytest.mark.parametrize("options", [{}, {"reverse": True}])
def test_a_scan_stacks_rows_that_are_cut_to_one_length(options: Any) -> None:
    x = np.arange(12.0).reshape(3, 4)
    program = tnf.compile(lambda x, sizes: cut_rows(x, sizes, **options), x, np.full(3, 2))
    for size in (2, 3, 0):  # the first run is interpreted, later runs use printed Python code
        np.testing.assert_array_equal(program.run(x, np.full(3, size)), x[:, :size])
    none = tnf.compile(lambda x, n: tnf.scan(
        lambda c, row: (c, tnf.dynamic_truncate(row, n)), 0.0, x)[1], x[:0], np.array(2))  # fmt: skip
    assert none.run(x[:0], np.array(2)).shape == (0, 0)


def test_rows_of_a_scan_that_differ_in_length_are_an_error_that_says_where() -> None:
    x = np.arange(12.0).reshape(3, 4)
    program = tnf.compile(cut_rows, x, np.full(3, 2))
    # A row of one element must be rejected, too, although an array of one element could be broadcast.
    for sizes, other in (
        ([2, 2, 3], "f64[3] in iteration 2"),
        ([2, 1, 2], "f64[1] in iteration 1"),
    ):
        with pytest.raises(errors.ShapeError, match=r"y 0 is f64\[2\] in iteration 0") as raised:
            program.run(x, np.array(sizes))
        assert other in str(raised.value)
        assert "pad_to_match" in str(raised.value)
        assert "test_truncation.py" in str(raised.value)
