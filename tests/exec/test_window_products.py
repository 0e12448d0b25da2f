"""Algorithms of sums over windows: blocks, order of positions, scratch, and results written directly by BLAS."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from tenferro.exec.kernels import window_products
from tenferro.exec.kernels.window_products import (
    _blocks,
    _copies_positions_first,
    _multiply,
    _Operands,
    as_matrix,
    multiply_windows,
    scatter_products,
)
from tenferro.exec.kernels.windows import Window, padded
from tenferro.exec.runtime.resources import SERIAL_RESOURCES


def plain(rank: int, edge: int = 0) -> Window:
    """Return a window of stride 1."""
    ones = (1,) * rank
    return Window(ones, ((edge, edge),) * rank, ones, ones)


@pytest.mark.parametrize(
    ("extents", "most", "outer", "ends"),
    [
        ((10,), 10, (), (0, 10)),
        ((10,), 9, (), (0, 2, 5, 7, 10)),  # as many blocks as four threads need
        ((10,), 2, (), (0, 1, 2, 3, 5, 6, 7, 8, 10)),
        ((3,), 1, (), (0, 1, 2, 3)),
        ((10,), 0, (), tuple(range(11))),
        ((5, 4), 20, (), (0, 5)),
        ((5, 4), 8, (), (0, 1, 2, 3, 5)),
        ((5, 4), 4, (), (0, 1, 2, 3, 4, 5)),
        ((2, 10), 9, (2,), (0, 2, 5, 7, 10)),
        ((2, 3, 10), 10, (2,), (0, 1, 2, 3)),
        ((2, 3, 10), 9, (2, 3), (0, 2, 5, 7, 10)),
    ],
)
def test_blocks_of_the_slowest_axes(
    extents: tuple[int, ...], most: int, outer: tuple[int, ...], ends: tuple[int, ...]
) -> None:
    expected = [
        (*[slice(i, i + 1) for i in place], slice(*cut))
        for place in product(*map(range, outer))
        for cut in pairwise(ends)
    ]
    assert _blocks(extents, most) == expected


def test_no_axes_are_one_block() -> None:
    assert _blocks((), 1) == [()]


def test_without_elements_nothing_is_multiplied() -> None:
    out = np.ones((1, 2, 4))
    multiply_windows(plain(1), np.ones((1, 0, 4)), np.ones((2, 0, 1)), out, SERIAL_RESOURCES)
    assert not out.any()


@pytest.mark.parametrize(
    ("shape", "strides", "positions", "taps", "expected"),
    [
        # If both axes are contiguous in the image, the longer one is innermost.
        ((1, 2, 9, 3), (18, 9, 1, 1), (0, 2), (1, 3), True),
        ((1, 2, 3, 3), (18, 9, 1, 1), (0, 2), (1, 3), True),
        ((1, 2, 3, 9), (18, 9, 1, 1), (0, 2), (1, 3), False),
        # Otherwise the axis with the smaller stride is innermost.
        ((4, 2, 9, 1), (18, 1, 2, 2), (0, 2), (1, 3), False),
        ((4, 2, 9, 1), (18, 9, 1, 1), (0, 2), (1, 3), True),
        ((4, 2, 9, 1), (18, -9, -1, 1), (0, 2), (1, 3), True),
        ((4, 2, 9, 1), (18, -1, -2, 1), (0, 2), (1, 3), False),
        ((4, 2, 9, 1), (18, 1, 1, 1), (0, 2), (1, 3), False),
        # Axes of one element have no position in the order.
        ((1, 2, 1, 3), (6, 3, 1, 1), (0, 2), (1, 3), False),
        ((1, 1, 1, 1), (1, 1, 1, 1), (0, 2), (1, 3), True),
        ((1, 1, 9, 1), (9, 9, 1, 1), (0, 2), (1, 3), True),
    ],
)
def test_whether_places_are_nearer_than_terms(
    shape: Any, strides: Any, positions: Any, taps: Any, expected: bool
) -> None:
    assert _copies_positions_first(shape, strides, positions, taps) == expected


@pytest.mark.parametrize(
    ("layout", "positions", "taps"),
    [
        ((0, 1, 2, 3), (0, 2, 3), (1, 4, 5)),
        ((0, 2, 3, 1), (0, 2, 3), (4, 5, 1)),
        ((3, 2, 1, 0), (3, 2, 0), (5, 4, 1)),
        ((1, 0, 3, 2), (0, 3, 2), (1, 5, 4)),
    ],
)
def test_operands_are_walked_as_the_image_lies(
    layout: tuple[int, ...], positions: tuple[int, ...], taps: tuple[int, ...]
) -> None:
    shape, w = (2, 3, 12, 13), np.ones((5, 3, 2, 4))
    memory = np.zeros([shape[axis] for axis in layout])
    x = memory.transpose(np.argsort(layout))
    operands = _Operands(plain(2), x, w, (11, 10), SERIAL_RESOURCES)
    assert (operands.positions, operands.taps) == (positions, taps)
    assert (operands.rows, operands.terms) == (2 * 11 * 10, 3 * 2 * 4)
    assert operands.kernel_axes == tuple([axis if axis == 1 else axis - 2 for axis in taps])


def test_cuts_hold_as_many_bytes_as_are_copied_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    operands = _Operands(
        plain(1), np.ones((1, 2, 1000)), np.ones((3, 2, 1)), (1000,), SERIAL_RESOURCES
    )
    monkeypatch.setattr(window_products, "BLOCK_BYTES", 250 * 8 * 2)
    assert [part for _, part in operands.split()] == [
        slice(i, i + 250) for i in range(0, 1000, 250)
    ]
    monkeypatch.setattr(window_products, "BLOCK_BYTES", 1)
    assert len(operands.split()) == 8  # blocks of at least MIN_BLOCK_EXTENT


@pytest.mark.parametrize(
    "edges", [((0, 0), (0, 0)), ((1, 0), (0, 0)), ((0, 0), (0, 2)), ((-1, -1), (-1, 0))]
)
def test_rooms_hold_what_is_copied_of_the_largest_block(
    edges: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_products, "BLOCK_BYTES", 1)
    monkeypatch.setattr(window_products, "MIN_BLOCK_EXTENT", 3)
    window = Window((2, 1), edges, (1, 1), (1, 3))
    x, w = np.zeros((2, 3, 11, 14)), np.zeros((5, 3, 2, 3))
    counts = window.counts(x.shape[2:], w.shape[2:])
    operands = _Operands(window, x, w, counts, SERIAL_RESOURCES)
    blocks = operands.split()
    assert len(blocks) > 1
    pad, copied = [], []
    for block in blocks:
        parts = [slice(0, n) for n in operands.shape]
        for axis, part in zip(operands.positions, block, strict=False):
            parts[axis] = part
        cut = window.cut(x.shape[2:], parts[2:4], w.shape[2:])
        pad.append(padded(cut, x[parts[0], parts[1]]).nbytes)
        copied.append(int(np.prod([part.stop - part.start for part in parts])) * x.itemsize)
    is_padded = any([edge > 0 for pair in edges for edge in pair])
    assert operands.scratch_sizes(blocks) == (max(pad) * is_padded, max(copied))
    assert sorted((*operands.positions, *operands.taps)) == list(range(6))


@pytest.mark.parametrize("is_column_major", [False, True])
def test_a_matrix_is_a_view_where_blas_reads_it(is_column_major: bool) -> None:
    x = np.arange(120.0).reshape(2, 3, 4, 5)
    for rows, columns in (((0, 1), (2, 3)), ((2, 3), (0, 1)), ((0,), (1, 2, 3)), ((3,), (0, 1, 2))):
        matrix = as_matrix(x, rows, columns, is_column_major, None)
        m = int(np.prod([x.shape[axis] for axis in rows]))
        np.testing.assert_array_equal(matrix, x.transpose(*rows, *columns).reshape(m, -1))
        assert np.shares_memory(matrix, x)
    for array, rows, columns in (
        (x, (0, 2), (1, 3)),
        (x, (1, 0), (2, 3)),
        (x[..., ::2], (0, 1), (2, 3)),
    ):
        room = np.zeros(array.nbytes, np.uint8)
        matrix = as_matrix(array, rows, columns, is_column_major, room)
        m = int(np.prod([array.shape[axis] for axis in rows]))
        np.testing.assert_array_equal(matrix, array.transpose(*rows, *columns).reshape(m, -1))
        assert np.shares_memory(matrix, room)
        assert matrix.flags["F" if is_column_major else "C"]


@pytest.mark.parametrize("shape", [(2, 6, 4), (2, 4, 6), (2, 6, 7)])
def test_a_product_is_written_to_any_order_of_axes(shape: tuple[int, ...]) -> None:
    """Outputs last, positions last, and outputs last with a gap."""
    left, right = np.arange(60.0).reshape(12, 5), np.arange(20.0).reshape(5, 4)
    memory = np.zeros(shape)
    out = memory if shape[1] == 4 else memory[..., :4].transpose(0, 2, 1)
    _multiply(left, right, out, (0, 2), None)
    np.testing.assert_array_equal(out.transpose(0, 2, 1).reshape(12, 4), left @ right)


def test_a_product_is_copied_where_neither_axis_of_the_result_has_neighbours() -> None:
    out = np.zeros((1, 4, 6, 2))[..., 0]
    _multiply(np.ones((6, 5)), np.ones((5, 4)), out, (0, 2), None)
    assert (out == 5).all()


def test_threads_are_asked_by_multiplications_and_by_what_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[int, ...]] = []
    original = window_products.workers_for
    monkeypatch.setattr(
        window_products,
        "workers_for",
        lambda resources, *work: asked.append(work) or original(resources, *work),
    )
    x, w = np.ones((2, 3, 9)), np.ones((5, 3, 2))
    _Operands(plain(1), x, w, (8,), SERIAL_RESOURCES)
    assert asked == [(2 * 8 * 3 * 2 * 5, 2 * 8 * 3 * 2)]
    asked.clear()
    scatter_products(plain(1), x, w, np.zeros((2, 5, 8)), SERIAL_RESOURCES)
    assert asked == [(2 * 3 * 9 * 2 * 5,)]


@pytest.mark.parametrize("rows", [1, 2, 3, 9])
def test_sums_of_what_meets_are_made_in_blocks_of_rows(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    heights: list[int] = []
    original = window_products._accumulate_taps
    monkeypatch.setattr(
        window_products,
        "_accumulate_taps",
        lambda total, *rest: heights.append(total.shape[2]) or original(total, *rest),
    )
    x = np.arange(8.0).reshape(1, 1, 8)
    # Elements of x beside each row, for two kernels of one tap each.
    monkeypatch.setattr(window_products, "BLOCK_BYTES", rows * 2 * 8 // 2)
    out = np.zeros((1, 2, 8))
    scatter_products(plain(1), x, np.array([2.0, 3.0]).reshape(2, 1, 1), out, SERIAL_RESOURCES)
    np.testing.assert_array_equal(out[0], [2 * x[0, 0], 3 * x[0, 0]])
    cuts = _blocks((8,), rows)
    assert heights == [max([part.stop - part.start for (part,) in cuts])] * len(cuts)


def test_rows_that_nothing_meets_are_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_products, "BLOCK_BYTES", 1)
    window = Window((1,), ((6, 7),), (1,), (1,))
    out = np.full((1, 1, 16), np.nan)
    scatter_products(window, np.ones((1, 1, 3)), np.full((1, 1, 1), 2.0), out, SERIAL_RESOURCES)
    np.testing.assert_array_equal(out[0, 0], [0] * 6 + [2] * 3 + [0] * 7)
