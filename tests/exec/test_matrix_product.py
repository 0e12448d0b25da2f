"""Algorithms of matrix products: which views BLAS can read, and how threads share a product."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.kernels import matrix_product
from tenferro.exec.kernels.matrix_product import (
    COPY_COST,
    MATVEC_COST,
    MAX_PARTIAL_ELEMENTS,
    MIN_BLOCK_EXTENT,
    MIN_PARALLEL_WORK,
    MIN_POOLED_BYTES,
    AxisGroups,
    Product,
    block_count,
    estimated_work,
    scratch,
    workers_for,
)
from tenferro.exec.kernels.matrix_view import (
    MatrixView,
    is_blas_layout,
    mergeable_order,
    merged_stride,
)
from tenferro.exec.llvm.link import is_installed
from tenferro.exec.runtime.memory import Pool
from tenferro.exec.runtime.resources import SERIAL_RESOURCES, Resources
from tenferro.exec.runtime.threads import SERIAL, Workers

needs_llvmlite = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")


@pytest.fixture(autouse=True)
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow 16 blocks, as on a machine with many cores."""
    monkeypatch.setattr(matrix_product, "MAX_BLOCKS", 16)


@pytest.mark.parametrize(
    ("steps", "shape", "expected"),
    [
        # BLAS reads row-major and column-major matrices, with or without gaps between rows or columns.
        ((40, 8), (3, 5), True), ((8, 24), (3, 5), True), ((48, 8), (3, 5), True), ((8, 32), (3, 5), True),
        # BLAS does not read matrices whose rows or columns overlap, are reversed, or are not contiguous.
        ((32, 8), (3, 5), False), ((8, 16), (3, 5), False), ((-40, 8), (3, 5), False), ((8, -24), (3, 5), False),
        ((80, 16), (3, 5), False), ((16, 48), (3, 5), False), ((0, 8), (3, 5), False),
        # In a matrix of one row, one column or one element, some strides are irrelevant.
        ((0, 8), (1, 5), True), ((0, 16), (1, 5), True), ((0, 0), (1, 5), False), ((0, -8), (1, 5), False),
        ((8, 0), (3, 1), True), ((16, 0), (3, 1), True), ((0, 0), (3, 1), False), ((-8, 0), (3, 1), False),
        ((0, 0), (1, 1), True), ((-8, -8), (1, 1), True),
    ],
)  # fmt: skip
def test_matrices_that_blas_reads(
    steps: tuple[int, int], shape: tuple[int, int], expected: bool
) -> None:
    assert is_blas_layout(steps, shape, 8) == expected


def test_axes_that_are_one() -> None:
    x = np.zeros((2, 3, 4))
    for axes, step in (
        ((0, 1, 2), 8), ((1, 2), 8), ((2,), 8), ((0, 1), 32), ((0,), 96), ((), 8),
        ((0, 2), None), ((1, 0), None), ((2, 1), None),
    ):  # fmt: skip
        assert merged_stride(x, axes) == step
    assert merged_stride(x[:, :1], (0, 1)) == 96
    assert merged_stride(x[:, :1], (1, 0)) == 96
    assert merged_stride(x[:, :1], (0, 1, 2)) is None
    assert merged_stride(x[::-1, ::-1], (0, 1)) == -32
    assert merged_stride(x[::-1], (0, 1)) is None
    for axes, order in (
        ((1, 0), (0, 1)), ((2, 0, 1), (0, 1, 2)), ((0, 2), (0, 2)), ((2, 0), (2, 0)), ((0, 1), (0, 1)),
    ):  # fmt: skip
        assert mergeable_order(x, axes) == order
    assert mergeable_order(x[::-1, ::-1], (1, 0)) == (0, 1)
    assert mergeable_order(x[::-1], (1, 0)) == (1, 0)


@pytest.mark.parametrize(
    ("axes", "is_view", "is_column_major"),
    [
        (((), (0, 1), (2, 3)), True, False),
        (((), (2, 3), (0, 1)), True, True),
        (((), (0, 2), (1, 3)), False, False),
        (((), (1, 3), (0, 2)), False, True),
        (((0,), (1,), (2, 3)), True, False),
        (((0,), (2, 3), (1,)), True, True),
        (((0,), (2,), (1, 3)), False, False),
        (((0,), (1, 3), (2,)), False, True),
        (((0, 1), (2,), (3,)), True, False),
        (((1,), (0,), (2, 3)), True, False),
        (((0,), (), (1, 2, 3)), True, False),
    ],
)
def test_an_operand_as_a_matrix(axes: Any, is_view: bool, is_column_major: bool) -> None:
    x = np.arange(120.0).reshape(2, 3, 4, 5)
    batch, rows, columns = axes
    view = MatrixView(x, batch, rows, columns)
    shape = tuple([int(np.prod([x.shape[axis] for axis in each])) for each in (rows, columns)])
    expected = x.transpose(*batch, *rows, *columns).reshape(*[x.shape[a] for a in batch], *shape)
    assert view.shape == expected.shape
    assert view.copy_bytes == (0 if is_view else x.nbytes)
    assert view.is_column_major == is_column_major
    room = np.zeros(x.nbytes, np.uint8)
    matrix = view.copied(x, room)
    np.testing.assert_array_equal(matrix, expected)
    down, across = matrix.strides[-2:]
    assert matrix.shape[-2] == 1 or (down < across) == is_column_major
    assert np.shares_memory(matrix, x if is_view else room)


@pytest.mark.parametrize(
    ("times", "blocks"),
    [(1, 2), (3, 2), (4, 2), (7, 2), (8, 4), (31, 4), (32, 8), (127, 8), (128, 16), (511, 16), (512, 16), (4096, 16)],
)  # fmt: skip
def test_pieces_grow_with_the_work(
    times: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert block_count(times * MIN_PARALLEL_WORK) == blocks
    assert block_count(times * MIN_PARALLEL_WORK - 1) <= blocks
    assert block_count(MIN_PARALLEL_WORK - 1) == 1
    assert block_count(MIN_PARALLEL_WORK - 3 * COPY_COST, 3) == 2
    assert block_count(MIN_PARALLEL_WORK - 3 * COPY_COST - 1, 3) == 1
    assert block_count(0, MIN_PARALLEL_WORK) == 1
    monkeypatch.setattr(matrix_product, "MAX_BLOCKS", 3)
    assert block_count(times * MIN_PARALLEL_WORK) == min(blocks, 3)


def test_pieces_are_no_more_than_the_cores_of_the_machine() -> None:
    code = "from tenferro.exec.kernels import matrix_product as m; print(m.MAX_BLOCKS, m.block_count(1 << 40))"
    for cores, wanted in ((1, 1), (3, 3), (64, 16)):
        faked = f"import os; os.cpu_count = lambda: {cores}; {code}"
        run = subprocess.run(
            [sys.executable, "-c", faked], capture_output=True, text=True, check=True
        )
        assert run.stdout.split() == [str(wanted)] * 2


def test_work_of_vectors_is_that_of_reading() -> None:
    assert estimated_work(3, 5, 7) == 105
    assert estimated_work(1, 5, 7) == estimated_work(5, 1, 7) == 35 * MATVEC_COST
    assert estimated_work(5, 7, 1) == 35
    shared = Resources(Workers(2))
    assert workers_for(shared, MIN_PARALLEL_WORK) is shared.workers
    assert workers_for(shared, MIN_PARALLEL_WORK - 1) is SERIAL
    assert workers_for(shared, 1, MIN_PARALLEL_WORK // COPY_COST) is shared.workers


def test_small_copies_have_memory_of_their_own() -> None:
    resources = Resources(SERIAL, Pool(1 << 20))
    with scratch(resources, (MIN_POOLED_BYTES - 9, 8)) as memory:
        assert list(memory) == [None, None]
    with scratch(resources, (MIN_POOLED_BYTES - 8, 8)) as memory:
        assert [part.nbytes for part in memory] == [MIN_POOLED_BYTES - 8, 8]


def blocks(m: int, k: int, n: int, is_column_major: bool = False, batch: int = 0) -> Product:
    """Return the plan of a matrix product that is split into blocks."""
    each = (batch,) if batch else ()
    lhs, rhs = np.empty((*each, m, k)), np.empty((*each, k, n))
    at = len(each)
    axes = tuple(range(at))
    groups = AxisGroups((axes, axes), (at,), (at + 1,), ((at + 1,), (at,)))
    return Product(groups, lhs, rhs, SERIAL_RESOURCES, is_column_major)


@pytest.mark.parametrize(
    ("m", "k", "n", "is_column_major", "expected"),
    [
        # If the sums are long and the result is small, the summed terms must be split.
        (128, 256, 128, False, ("terms", 2)), (128, 255, 128, False, ("", 1)), (1, 2048, 1, False, ("terms", 16)),
        (2, MAX_PARTIAL_ELEMENTS // 2 + 1, MAX_PARTIAL_ELEMENTS // 2, False, ("terms", 16)),
        (2, MAX_PARTIAL_ELEMENTS // 2, MAX_PARTIAL_ELEMENTS // 2, False, ("columns", 16)),
        (2, MAX_PARTIAL_ELEMENTS // 2 + 2, MAX_PARTIAL_ELEMENTS // 2 + 1, False, ("columns", 16)),
        # If the result has at least as many rows as columns, the rows must be split, for any layout of the result.
        (256, 9, 256, False, ("rows", 2)), (255, 9, 255, False, ("", 1)),
        (384, 9, 512, False, ("columns", 4)), (512, 9, 384, False, ("rows", 4)),
        (4096, 9, 4096, False, ("rows", 16)), (4095, 9, 4096, False, ("columns", 16)),
        (256, 9, 256, True, ("rows", 2)), (384, 9, 512, True, ("columns", 4)), (512, 9, 384, True, ("rows", 4)),
        # In a matrix-vector product, the only long axis must be split.
        (400, 9, 1, False, ("rows", 3)), (400, 9, 1, True, ("rows", 3)),
        (1, 9, 400, False, ("columns", 3)), (1, 9, 400, True, ("columns", 3)),
    ],
)  # fmt: skip
def test_what_a_product_is_cut_along(
    m: int, k: int, n: int, is_column_major: bool, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix_product, "MIN_PARALLEL_WORK", 1)
    product = blocks(m, k, n, is_column_major)
    assert (product.kind, len(product.cuts)) == expected


def test_products_that_are_worth_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_product, "MIN_PARALLEL_WORK", 512 * 9 * 300)
    for m, expected in ((512, 2), (511, 1)):
        assert len(blocks(m, 9, 300).cuts) == expected
    for batch, expected in ((4, 2), (3, 1)):
        product = blocks(128, 9, 300, batch=batch)
        assert (product.kind, len(product.cuts)) == ("batch" if expected > 1 else "", expected)
    monkeypatch.setattr(matrix_product, "MIN_PARALLEL_WORK", 1)
    many = blocks(2, 3, 2, batch=5)
    assert many.cuts == [(i, i + 1) for i in range(5)]


@pytest.mark.parametrize(
    ("rows", "terms", "is_copied"), [((0, 1), (2,), False), ((0, 2), (1,), True)]
)
def test_rooms_of_pieces(
    rows: Any, terms: Any, is_copied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product needs scratch memory for copies of one block of the split operand, and of the whole other operand."""
    monkeypatch.setattr(matrix_product, "MIN_PARALLEL_WORK", 1)
    lhs = np.empty((300, 5, 4))
    k = lhs.shape[terms[0]]
    for rhs, of_single in ((np.empty((k, 7)), 0), (np.empty((k, 14))[:, ::2], k * 7 * 8)):
        groups = AxisGroups(((), ()), rows, (1,), (terms, (0,)))
        cut = Product(groups, lhs, rhs, SERIAL_RESOURCES, False)
        assert (cut.kind, cut.left.axis, cut.right.axis) == ("rows", 0, None)
        assert cut.cuts[0][0] == 0
        assert cut.cuts[-1][1] == 300
        assert len(cut.cuts) == 300 * 20 // k // MIN_BLOCK_EXTENT
        longest = max([j - i for i, j in cut.cuts])
        assert (cut.left.shared_bytes, cut.right.shared_bytes) == (0, of_single)
        assert (cut.left.block_bytes, cut.right.block_bytes) == (longest * 5 * 4 * 8 * is_copied, 0)


AXES: dict[str, tuple[tuple[int, ...], tuple[int, ...], Any]] = {
    # The shapes of lhs and rhs, their contracting axes and their batch axes.
    "rows of two axes": ((3, 128, 16, 40), (40, 64), (((3,), (0,)), ((), ()))),
    "rows after one of extent 1": ((1, 256, 40), (40, 64), (((2,), (0,)), ((), ()))),
    "terms first": ((40, 256, 3), (64, 40), (((0,), (1,)), ((), ()))),
    "columns of two axes": ((32, 40), (40, 128, 3), (((1,), (0,)), ((), ()))),
    "columns behind a batch of 1": ((1, 32, 40), (40, 1, 256), (((2,), (0,)), ((0,), (1,)))),
    "columns after one of extent 1": ((32, 40), (40, 1, 256), (((1,), (0,)), ((), ()))),
    "rows of three axes": ((16, 8, 48, 40), (40, 32), (((3,), (0,)), ((), ()))),
    "batch of two axes": ((64, 5, 24, 16), (5, 16, 64, 32), (((3,), (1,)), ((0, 1), (2, 0)))),
    "batch in the middle": ((24, 64, 16), (16, 32, 64), (((2,), (0,)), ((1,), (2,)))),
}


@pytest.mark.parametrize("name", AXES)
@pytest.mark.parametrize("layout", ["C", "F", "CF", "FC", "KC"])
def test_pieces_of_column_major_results_of_any_axes(
    name: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix_product, "MIN_PARALLEL_WORK", 1 << 14)
    monkeypatch.setattr(matrix_product, "MIN_BLOCK_EXTENT", 16)
    lhs, rhs, axes = AXES[name]
    rng = np.random.default_rng(0)
    x = np.asarray(rng.standard_normal(lhs), order=layout[0])  # type: ignore[call-overload]
    if layout[0] == "K":  # store its first axis as the second to last
        x = np.moveaxis(np.moveaxis(x, 0, -2).copy(), -2, 0)
    y = np.asarray(rng.standard_normal(rhs), order=layout[-1])  # type: ignore[call-overload]
    program = tnf.compile(lambda x, y: tnf.lax.dot_general(x, y, axes), x, y)
    expected = tnf.GraphExecutor("K", threads=1).run(program, x, y)
    (of_x, of_y), (batch, batch_of_y) = axes
    labels_of_y = list(range(10, 10 + y.ndim))
    for i, k in (*zip(of_x, of_y, strict=True), *zip(batch, batch_of_y, strict=True)):
        labels_of_y[k] = i
    free = [i for i in range(x.ndim) if i not in (*of_x, *batch)]
    results = [*batch, *free, *[i for i in labels_of_y if i >= 10]]
    by_definition = np.einsum(x, [*range(x.ndim)], y, labels_of_y, results)
    np.testing.assert_allclose(expected, by_definition, rtol=0, atol=1e-12)
    for threads in (1, 2):
        result = tnf.GraphExecutor("F", threads=threads).run(program, x, y)
        assert result.flags.f_contiguous
        np.testing.assert_array_equal(result, expected)


def test_pieces_are_copied_by_one_thread_each() -> None:
    shared = replace(SERIAL_RESOURCES, workers=Workers(2))
    lhs, rhs = np.empty((4096, 64)), np.empty((64, 128))
    groups = AxisGroups(((), ()), (0,), (1,), ((1,), (0,)))
    cut = Product(groups, lhs, rhs, shared)
    assert cut.thread_resources.workers is SERIAL
    assert cut.resources is shared
