"""Sums in compiled loops have the order that is written out: lanes, their halves, and what fills no vector."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tenferro import sum as total_of
from tenferro.exec.llvm.link import is_installed, processor
from tests.exec.compiled_loops import in_a_loop

pytestmark = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")


def one_by_one(total: Any, terms: Any) -> Any:
    for x in terms:
        total = total + x
    return total


def along_lanes(x: Any) -> Any:
    """Fewer than two blocks of terms."""
    lanes = min(processor().lanes, key=lambda n: len(x) // n + len(x) % n, default=1)
    if lanes == 1:
        return one_by_one(x.dtype.type(0), x)
    whole = len(x) - len(x) % lanes
    sums = np.zeros(lanes, x.dtype)
    for vector in x[:whole].reshape(-1, lanes):
        sums = sums + vector
    while len(sums) > 1:
        half = len(sums) // 2
        sums = sums[:half] + sums[half:]
    return one_by_one(sums[0] if whole else x.dtype.type(0), x[whole:])


def in_order(x: Any) -> Any:
    """Few terms as they come; of many the rest first, then blocks of 1024."""
    if len(x) <= 4:
        return one_by_one(x[0], x[1:])
    if len(x) < 2048:
        return along_lanes(x)
    rest = len(x) % 1024
    total = along_lanes(x[len(x) - rest :]) if rest else x.dtype.type(0)
    return one_by_one(total, [along_lanes(block) for block in x[: len(x) - rest].reshape(-1, 1024)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 8, 9, 31, 1023, 1025, 2047, 2048, 2049, 3100])
def test_sums(dtype: Any, length: int) -> None:
    rng = np.random.default_rng(length)
    x = rng.standard_normal((3, length))
    x = (x + 1j * rng.standard_normal(x.shape) if dtype is np.complex64 else x).astype(dtype)
    (sums,) = in_a_loop(lambda x: [total_of(x)], x)
    np.testing.assert_array_equal(sums, [in_order(row) for row in x], strict=True)
