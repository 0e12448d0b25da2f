"""Products of windows: the split of rows into blocks, and results without products."""

from __future__ import annotations

import numpy as np
import pytest

from tenferro.exec.kernels import window_products
from tenferro.exec.kernels.window_products import WindowProducts, scatter_products
from tenferro.exec.kernels.windows import Window
from tenferro.exec.runtime.resources import SERIAL_RESOURCES


def plain(rank: int, edge: int = 0) -> Window:
    """Return a window of stride 1 without dilation. Both ends of each axis are padded by `edge`."""
    ones = (1,) * rank
    return Window(ones, ((edge, edge),) * rank, ones, ones)


def test_without_elements_nothing_is_multiplied() -> None:
    out = np.ones((1, 2, 4))
    products = WindowProducts(SERIAL_RESOURCES)
    products.write(plain(1), np.ones((1, 0, 4)), np.ones((2, 0, 1)), out)
    assert not out.any()


@pytest.mark.parametrize("block_bytes", [1, 40, 100, 1000])
def test_products_are_summed_in_blocks_of_rows(
    block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_products, "BLOCK_BYTES", block_bytes)
    x, w = np.arange(16.0).reshape(1, 2, 8), np.arange(12.0).reshape(2, 2, 3)
    out = np.full((1, 2, 8), np.nan)
    scatter_products(plain(1, 1), x, w, out, SERIAL_RESOURCES)
    expected = [
        [sum([np.convolve(x[0, c], w[o, c, ::-1], "same") for c in range(2)]) for o in range(2)]
    ]
    np.testing.assert_array_equal(out, expected)


def test_rows_without_products_are_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_products, "BLOCK_BYTES", 1)
    window = Window((1,), ((6, 7),), (1,), (1,))
    out = np.full((1, 1, 16), np.nan)
    scatter_products(window, np.ones((1, 1, 3)), np.full((1, 1, 1), 2.0), out, SERIAL_RESOURCES)
    np.testing.assert_array_equal(out[0, 0], [0] * 6 + [2] * 3 + [0] * 7)
