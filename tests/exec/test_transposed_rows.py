"""Column-major results of compiled rows: the bits of row-major results, for any remainder of rows and any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.runtime.transposition import ROW_BLOCK_BYTES, transposed_rows
from tenferro.types import TensorSpec

pytest.importorskip("llvmlite.binding")
from tenferro.exec.llvm import link
from tenferro.exec.llvm.transposing_copy import MIN_LANES, TransposingCopies

RNG = np.random.default_rng(3)
OTHERS = tuple(RNG.normal(size=(2, 2064, 300)).astype(np.float32))
wide = pytest.mark.skipif(max(link.processor().lanes) < MIN_LANES, reason="vectors are short")


@pytest.fixture
def transposed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the blocks of rows that compiled code transposes."""
    seen: list[Any] = []
    original = TransposingCopies.row_function

    def row_function(self: Any, rows: Any, *others: Any) -> Any:
        seen.append(rows)
        return original(self, rows, *others)

    monkeypatch.setattr(TransposingCopies, "row_function", row_function)
    return seen


def softmax(x: Any) -> Any:
    e = tnf.exp(x - tnf.max(x, axis=-1, keepdims=True))
    return e / tnf.sum(e, axis=-1, keepdims=True)


def over_two_axes(x: Any) -> Any:
    return x - tnf.mean(x, axis=(1, 2), keepdims=True)


def several(x: Any) -> Any:
    """Return two column-major results, and one of rank 1."""
    y = x - tnf.max(x, axis=1, keepdims=True)
    return y, tnf.sum(y, axis=1), tnf.exp(y) * 2


def of_three(x: Any) -> Any:
    """Return three results of three operands."""
    y = x * tnf.sum(x, axis=1, keepdims=True) - tnf.cos(x * OTHERS[0]) * OTHERS[1]
    return y, tnf.max(y, axis=1), tnf.exp(y)


@wide
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("fn", "shape", "dtype"),
    [
        (softmax, (1040, 600), np.float32),
        (softmax, (4096, 256), np.float64),
        (softmax, (208, 5000), np.float32),
        (softmax, (64, 16384), np.float16),
        (over_two_axes, (1024, 24, 32), np.float32),
        (several, (2064, 300), np.float32),
        (of_three, (2064, 300), np.float32),
    ],
)
def test_column_major_results_have_the_bits_of_row_major_ones(
    fn: Any, shape: tuple[int, ...], dtype: Any, threads: int, transposed: list[Any]
) -> None:
    x = RNG.normal(size=shape).astype(dtype)
    program = tnf.compile(fn, x)
    by_columns = tnf.GraphExecutor("F", compiled=True, threads=threads)
    by_rows = tnf.GraphExecutor("C", compiled=True, threads=threads)
    expected = tnf.types.flatten(by_rows.run(program, x))[0]
    for _ in range(2):
        results = tnf.types.flatten(by_columns.run(program, x))[0]
        for y, z in zip(results, expected, strict=True):
            assert y.flags.f_contiguous
            assert y.flags.writeable
            np.testing.assert_array_equal(y, z)
    assert transposed


@wide
@pytest.mark.parametrize("shape", [(1041, 600), (8, 100_000)])
def test_results_with_partial_cache_lines_are_copied(
    shape: tuple[int, ...], transposed: list[Any]
) -> None:
    """Copy columns of partial cache lines, and fewer rows than a cache line holds."""
    x = RNG.normal(size=shape).astype(np.float32)
    program = tnf.compile(softmax, x)
    y = tnf.GraphExecutor("F", compiled=True).run(program, x)
    assert y.flags.f_contiguous
    np.testing.assert_array_equal(y, tnf.GraphExecutor("C", compiled=True).run(program, x))
    assert not transposed


def test_results_do_not_overlap() -> None:
    """Check that a later run does not overwrite live results."""
    x = RNG.normal(size=(1040, 600)).astype(np.float32)
    program = tnf.compile(softmax, x)
    executor = tnf.GraphExecutor("F", compiled=True)
    first = executor.run(program, x)
    kept = first.copy()
    others = [executor.run(program, x + i) for i in (1, 2)]
    np.testing.assert_array_equal(first, kept)
    assert not any(np.shares_memory(first, y) for y in others)


F16, F32 = tnf.types.DType.F16, tnf.types.DType.F32


def test_blocks_of_rows_fill_cache_lines() -> None:
    """Check that blocks fill cache lines of the narrowest dtype, and that all results fit in scratch."""
    specs = [TensorSpec((4096, 64), F32), TensorSpec((4096, 100), F16)]
    rows = transposed_rows(specs, [0, 1])
    assert rows is not None
    row_bytes = 64 * 4 + 100 * 2
    assert rows.height == max(n for n in range(0, 4096, 32) if n * row_bytes <= ROW_BLOCK_BYTES)
    assert rows.sizes == [rows.height * 256, rows.height * 200]
    assert rows.numbers == (0, 1)
    assert rows.nbytes == 4096 * row_bytes
    assert transposed_rows(specs, []) is None
    assert transposed_rows([TensorSpec((4096,), F32)], [0]) is None
    assert transposed_rows([TensorSpec((4096,), F32), *specs], [0, 1]) == transposed_rows(
        [TensorSpec((4096,), F32), *specs], [1]
    )


def test_blocks_of_long_rows_fill_one_cache_line() -> None:
    """Check blocks of very long rows, of too few rows, and of rows without elements."""
    rows = transposed_rows([TensorSpec((16, 40_000), F32)], [0])
    assert rows is not None
    assert rows.height == 16
    assert transposed_rows([TensorSpec((15, 40_000), F32)], [0]) is None
    assert transposed_rows([TensorSpec((4096, 0), F32)], [0]) is None
