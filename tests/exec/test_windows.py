"""The number of windows must be right, and padded arrays must equal arrays that are filled element by element."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from tenferro.exec.kernels.windows import (
    Window,
    empty_like_channels,
    is_channels_last,
    padded,
    padded_bytes,
    window_view,
)

EDGES = [(0, 0), (2, 1), (-1, 0), (0, -2), (-1, 3), (1, -1), (-2, -1)]


def spread(n: int, low: int, high: int, gap: int) -> list[int | None]:
    """Return the index of the element at each position of a padded axis, or None for padding."""
    found: list[int | None] = [None] * max(0, low)
    for i in range(n):
        found += [i] + [None] * (gap if i < n - 1 else 0)
    found = found[max(0, -low) :] + [None] * max(0, high)
    return found[: max(0, len(found) + min(0, high))]


@pytest.mark.parametrize("order", [*permutations(range(4))][::3], ids=str)
def test_edges_and_gaps(order: tuple[int, ...]) -> None:
    memory = np.arange(1.0, 121.0).reshape([(2, 3, 4, 5)[axis] for axis in order])
    # x is reversed along one axis, but its axes keep their order.
    x = memory.transpose(np.argsort(order))[:, :, ::-1]
    for first, second, gap in product(EDGES, EDGES[:4], (0, 1)):
        rows, columns = spread(4, *first, gap), spread(5, *second, 0)
        wanted = np.zeros((2, 3, len(rows), len(columns)))
        for (i, row), (j, column) in product(enumerate(rows), enumerate(columns)):
            if row is not None and column is not None:
                wanted[:, :, i, j] = x[:, :, row, column]
        window = Window((1, 1), (first, second), (gap + 1, 1), (1, 1))
        # Reused memory may have any content.
        got = padded(window, x, np.full(wanted.nbytes + 8, 255, np.uint8)[: wanted.nbytes])
        is_view = gap == 0 and max(*first, *second) <= 0
        assert padded_bytes(window, x) == (0 if is_view else wanted.nbytes)
        np.testing.assert_array_equal(got, wanted)
        lies = [abs(step) for step in got.transpose(order).strides]
        assert lies == sorted(lies, reverse=True)
        assert np.shares_memory(got, x) == (is_view and got.size > 0)


def test_as_many_windows_as_fit() -> None:
    for n, size, stride, low, high, gap, reach in product(
        range(5), range(4), (1, 2, 3), (-1, 0, 2), (0, 1), (1, 2), (1, 3)
    ):
        extent = low + high + ((n - 1) * gap + 1 if n else 0)
        taps = [k * reach for k in range(size)]
        last = taps[-1] if taps else -1
        wanted = len([p for p in range(0, extent + 1, stride) if p + last < extent])
        window = Window((stride,), ((low, high),), (gap,), (reach,))
        assert window.counts((n,), (size,)) == ((wanted if extent > 0 else 0),)


def test_elements_of_windows() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 9, 8))
    view = window_view(Window((2, 3), ((5, 5), (5, 5)), (4, 4), (3, 2)), x, (3, 2))
    assert view.shape == (2, 3, 2, 2, 3, 2)
    assert not view.flags.writeable
    for p, q, k, m in product(*map(range, view.shape[2:])):
        np.testing.assert_array_equal(view[:, :, p, q, k, m], x[:, :, 2 * p + 3 * k, 3 * q + 2 * m])


def test_where_channels_are_last() -> None:
    x = np.zeros((2, 3, 4, 5))
    last = np.moveaxis(np.zeros((2, 4, 5, 3)), -1, 1)
    assert not is_channels_last(x)
    assert is_channels_last(last)
    assert is_channels_last(last[:, :, ::-1, ::-1])
    assert is_channels_last(last[:, ::-1])
    assert not is_channels_last(last[:, :1])
    assert not is_channels_last(x.transpose(0, 1, 3, 2))
    assert not is_channels_last(np.zeros((2, 3)))
    for like, order in ((x, (0, 1, 2, 3)), (last, (0, 2, 3, 1))):
        y = empty_like_channels(like, (2, 6, 7, 8), np.float32)
        assert (y.shape, y.dtype) == ((2, 6, 7, 8), np.float32)
        assert y.transpose(order).flags.c_contiguous
        piece = np.zeros(2 * 6 * 7 * 8 * 4, np.uint8)
        assert np.shares_memory(empty_like_channels(like, y.shape, y.dtype, piece), piece)
