"""Matrix products of integers in compiled loops must be exact, for every layout and extent of the operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tests.exec.compiled_loops import run_as_written_and_optimised

EXTENTS = [
    (2, 300, 9), (8, 64, 16), (7, 33, 31), (13, 6, 64), (16, 700, 12), (40, 12, 40), (5, 2, 500), (2, 2, 1100),
    (3, 1025, 2), (100, 17, 3), (17, 130, 63),
]  # fmt: skip
"""Numbers of rows, columns and terms of the products."""


def whole(rng: np.random.Generator, *shape: int) -> Any:
    return rng.integers(-8, 8, shape).astype("f8")


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("order", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("extents", EXTENTS, ids=str)
def test_products_of_whole_numbers_are_exact(
    extents: tuple[int, int, int], order: str, dtype: str
) -> None:
    rows, columns, terms = extents
    rng = np.random.default_rng(rows)
    lhs = whole(rng, *((rows, terms) if order[0] == "n" else (terms, rows)))
    rhs = whole(rng, *((terms, columns) if order[1] == "n" else (columns, terms)))

    def multiplied(lhs: Any, rhs: Any) -> Any:
        return (lhs if order[0] == "n" else lhs.T) @ (rhs if order[1] == "n" else rhs.T)

    def body(total: Any, k: Any) -> Any:
        return total + multiplied(lhs_ + k, rhs_), None

    lhs_, rhs_ = lhs.astype(dtype), rhs.astype(dtype)
    program = tnf.compile(
        lambda total, ks: tnf.scan(body, total, ks)[0],
        np.zeros((rows, columns), dtype),
        np.arange(3, dtype=dtype),
    )
    arrays = np.zeros((rows, columns), dtype), np.arange(3, dtype=dtype)
    executor = tnf.GraphExecutor(compiled=True)
    result = run_as_written_and_optimised(executor, program, *arrays)
    expected = sum([multiplied(lhs + k, rhs) for k in range(3)])
    np.testing.assert_array_equal(result, expected)


def test_a_batch_of_products() -> None:
    rng = np.random.default_rng(1)
    lhs, rhs = whole(rng, 3, 9, 20), whole(rng, 3, 20, 30)
    program = tnf.compile(
        lambda x: tnf.fori_loop(0, 4, lambda _, x: (x @ rhs)[:, :, :20] - x, x), lhs
    )
    x = lhs / 2.0**16
    expected = x
    for _ in range(4):
        expected = (expected @ rhs)[:, :, :20] - expected
    result = tnf.GraphExecutor(compiled=True).run(program, x)
    np.testing.assert_allclose(result, expected, rtol=1e-14)


def test_complex_products_without_a_sum_are_not_scaled() -> None:
    """A product of single terms must not be scaled by BLAS, because 1 + 0i times an infinity would be NaN."""
    x, y = np.array([complex(-np.inf, 2e-308), 1j]), np.array([1 + 2j, 3 - 1j])

    def fn(x: Any, y: Any) -> Any:
        return tnf.lax.dot_general(-x, y, (((), ()), ((), ())))

    with np.errstate(invalid="ignore"):
        product = np.multiply.outer(-x, y)
    assert np.isinf(product[0].real).all()
    executor = tnf.GraphExecutor(compiled=True)
    result = run_as_written_and_optimised(executor, tnf.compile(fn, x, y), x, y)
    np.testing.assert_array_equal(result, product)
