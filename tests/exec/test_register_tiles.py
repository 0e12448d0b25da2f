"""Products of matrices in compiled loops by tiles in registers: exact for whole numbers, at every width of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.register_tiles import _best_tile, lanes_for, product
from tenferro.types import DType
from tests.exec.compiled_loops import run_as_written_and_optimised

EXTENTS = [
    (2, 300, 9), (8, 64, 16), (7, 33, 31), (13, 6, 64), (16, 700, 12), (40, 12, 40), (5, 2, 500), (2, 2, 1100),
    (3, 1025, 2), (100, 17, 3), (17, 130, 63),
]  # fmt: skip
"""Rows, columns and terms: tiles that divide and that overlap, few and many vectors."""


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


@pytest.mark.parametrize(
    ("dtype", "transposed", "extents", "is_tiled"),
    [
        (DType.F32, (False, True), (8, 512, 128), True),
        (DType.F64, (False, True), (17, 512, 128), False),
        (DType.F64, (False, True), (17, 32, 128), True),
        (DType.F32, (False, True), (8, 3, 1000), False),
        (DType.F32, (False, False), (8, 3, 1000), True),
        (DType.F32, (False, False), (8, 3, 1001), False),
        (DType.F32, (True, False), (8, 3, 1000), False),
        (DType.F32, (True, True), (128, 512, 8), True),
        (DType.C64, (False, True), (8, 512, 128), False),
        (DType.F64, (False, True), (16, 1024, 129), False),
    ],
)
def test_products_that_blas_multiplies(
    dtype: DType, transposed: tuple[bool, bool], extents: tuple[int, int, int], is_tiled: bool
) -> None:
    assert (product(Code(True, (4,)), dtype, transposed, extents) is not None) == is_tiled
    assert product(Code(False, (4,)), dtype, transposed, extents) is None


@pytest.mark.parametrize("lanes", [(2,), (4,), (8, 4)])
@pytest.mark.parametrize("extents", [(8, 64), (2, 2), (100, 1), (1, 100), (6, 9)], ids=str)
def test_tiles_fit_into_the_registers(lanes: tuple[int, ...], extents: tuple[int, int]) -> None:
    code = Code(True, lanes)
    rows, columns, _ = _best_tile(code, extents, lanes[0])
    assert 1 <= rows <= extents[0]
    assert 1 <= columns <= extents[1]
    assert rows * columns + columns + 1 <= (32 if lanes[0] == 8 else 16)


def test_vectors_are_as_wide_as_the_processor_has_them() -> None:
    assert lanes_for(Code(True, (8, 4)), DType.F32) == [16, 8, 4]
    assert lanes_for(Code(True, (4,)), DType.F64) == [4, 2]
    assert lanes_for(Code(True, (2,)), DType.F64) == [2]
    assert lanes_for(Code(False, (4,)), DType.F64) == []
