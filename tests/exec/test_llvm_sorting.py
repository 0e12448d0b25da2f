"""Sorts in compiled loops must have NumPy's bits, also with equal elements and NaN."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm import sorting
from tenferro.exec.llvm.link import is_installed
from tests.exec.compiled_loops import in_a_loop

pytestmark = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
DTYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.uint64, np.int32, np.bool_]  # fmt: skip
ENDS = [np.nan, -0.0, 0.0, np.inf, -np.inf, -np.nan, 0.0, -0.0, 1.0, np.nan]


def numbers(dtype: Any, *shape: int) -> Any:
    """Return numbers, many of which are equal; floats include infinities and NaN."""
    rng = np.random.default_rng(0)
    if np.dtype(dtype).kind in "bu":
        return rng.integers(0, 9, shape).astype(dtype)
    if np.dtype(dtype).kind == "i":
        return rng.integers(-9, 9, shape).astype(dtype)
    x = rng.integers(-40, 40, shape) / 8
    x.flat[:: max(1, x.size // 30)] = np.resize(ENDS, x.flat[:: max(1, x.size // 30)].size)
    return x.astype(dtype)


def bits(x: Any) -> Any:
    """Return the bytes of an array in which NaN is replaced by 7, because its bits may differ."""
    return np.where(np.isnan(x), x.dtype.type(7), x).tobytes() if x.dtype.kind in "fV" else x.tobytes()  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shape", [(2, 1), (3, 7), (2, 100), (2, 5, 3), (2, 0)], ids=str)
def test_a_stable_order(dtype: Any, shape: tuple[int, ...]) -> None:
    x = numbers(dtype, *shape)
    key = x.astype(np.float32) if dtype is ml_dtypes.bfloat16 else x
    order = np.argsort(key, axis=1, kind="stable")
    values, places = in_a_loop(lambda x: [tnf.sort(x, axis=0), tnf.argsort(x, axis=0)], x)
    np.testing.assert_array_equal(places, order)
    assert bits(values) == bits(np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("k", [0, 1, 4, 60])
def test_top_k(k: int) -> None:
    """NaN must count as the largest number, and equal elements must keep their order."""
    x = numbers(np.float64, 3, 60)
    values, places = in_a_loop(lambda x: list(tnf.top_k(x, k)), x)
    order = np.argsort(np.where(np.isnan(x), -1e9, np.clip(-x, -1e8, 1e8)), 1, kind="stable")
    np.testing.assert_array_equal(places, order[:, :k])
    assert bits(values) == bits(np.take_along_axis(x, order[:, :k], 1))


def test_long_axes_are_sorted_by_numpy() -> None:
    x = numbers(np.float64, 2, sorting.MAX_EXTENT + 1)
    executor = tnf.GraphExecutor("K", compiled=True)
    program = tnf.compile(lambda x: tnf.scan(lambda n, x: (n, tnf.sort(x)), 0, x)[1], x)
    assert "nothing is compiled" in executor.source(program, "llvm")
    np.testing.assert_array_equal(executor.run(program, x), np.sort(x))
