"""Column-major results of compiled rows: the bits of row-major ones, whichever rows come last and whoever computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.runtime.turn import ROWS, turned_rows
from tenferro.types import TensorSpec

pytest.importorskip("llvmlite.binding")
from tenferro.exec.llvm import link
from tenferro.exec.llvm.turned_copy import NARROWEST, TurnedCopies

RNG = np.random.default_rng(3)
OTHERS = tuple(RNG.normal(size=(2, 2064, 300)).astype(np.float32))
wide = pytest.mark.skipif(max(link.processor().lanes) < NARROWEST, reason="vectors are short")


@pytest.fixture
def turned(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The rows that were turned by code."""
    seen: list[Any] = []
    original = TurnedCopies.by_rows

    def by_rows(self: Any, rows: Any, *others: Any) -> Any:
        seen.append(rows)
        return original(self, rows, *others)

    monkeypatch.setattr(TurnedCopies, "by_rows", by_rows)
    return seen


def softmax(x: Any) -> Any:
    e = tnf.exp(x - tnf.max(x, axis=-1, keepdims=True))
    return e / tnf.sum(e, axis=-1, keepdims=True)


def over_two_axes(x: Any) -> Any:
    return x - tnf.mean(x, axis=(1, 2), keepdims=True)


def several(x: Any) -> Any:
    """Two results by columns, and one of rank 1."""
    y = x - tnf.max(x, axis=1, keepdims=True)
    return y, tnf.sum(y, axis=1), tnf.exp(y) * 2


def of_three(x: Any) -> Any:
    """The last of three results, of three operands."""
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
def test_bits_of_results_by_rows(
    fn: Any, shape: tuple[int, ...], dtype: Any, threads: int, turned: list[Any]
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
    assert turned


@wide
@pytest.mark.parametrize("shape", [(1041, 600), (8, 100_000)])
def test_what_breaks_lines_is_copied(shape: tuple[int, ...], turned: list[Any]) -> None:
    """Columns that are no whole lines, and fewer rows than a line holds."""
    x = RNG.normal(size=shape).astype(np.float32)
    program = tnf.compile(softmax, x)
    y = tnf.GraphExecutor("F", compiled=True).run(program, x)
    assert y.flags.f_contiguous
    np.testing.assert_array_equal(y, tnf.GraphExecutor("C", compiled=True).run(program, x))
    assert not turned


def test_results_stay_apart() -> None:
    """A later run writes to none of the results that somebody holds."""
    x = RNG.normal(size=(1040, 600)).astype(np.float32)
    program = tnf.compile(softmax, x)
    executor = tnf.GraphExecutor("F", compiled=True)
    first = executor.run(program, x)
    kept = first.copy()
    others = [executor.run(program, x + i) for i in (1, 2)]
    np.testing.assert_array_equal(first, kept)
    assert not any(np.shares_memory(first, y) for y in others)


F16, F32 = tnf.types.DType.F16, tnf.types.DType.F32


def test_rows_fill_lines() -> None:
    """As many rows as fill lines of the narrowest dtype, of all results together within the scratch."""
    specs = [TensorSpec((4096, 64), F32), TensorSpec((4096, 100), F16)]
    rows = turned_rows(specs, [0, 1])
    assert rows is not None
    row_bytes = 64 * 4 + 100 * 2
    assert rows.height == max(n for n in range(0, 4096, 32) if n * row_bytes <= ROWS)
    assert rows.sizes == [rows.height * 256, rows.height * 200]
    assert rows.numbers == (0, 1)
    assert rows.nbytes == 4096 * row_bytes
    assert turned_rows(specs, []) is None
    assert turned_rows([TensorSpec((4096,), F32)], [0]) is None
    assert turned_rows([TensorSpec((4096,), F32), *specs], [0, 1]) == turned_rows(
        [TensorSpec((4096,), F32), *specs], [1]
    )


def test_long_rows_fill_one_line_each() -> None:
    """However long they are, if there are as many; and rows without elements are no reason to divide by zero."""
    rows = turned_rows([TensorSpec((16, 40_000), F32)], [0])
    assert rows is not None
    assert rows.height == 16
    assert turned_rows([TensorSpec((15, 40_000), F32)], [0]) is None
    assert turned_rows([TensorSpec((4096, 0), F32)], [0]) is None
