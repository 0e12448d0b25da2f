"""Order of additions in compiled loops: each vector lane adds terms, then pairs of lanes, then the remaining terms."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm import link
from tenferro.exec.llvm.reduction import LONG_ROW
from tests.exec.compiled_loops import in_a_loop

pytestmark = pytest.mark.skipif(not link.is_installed(), reason="llvmlite is not installed")


def sequential(total: Any, terms: Any) -> Any:
    for x in terms:
        total = total + x
    return total


def by_lanes(x: Any) -> Any:
    """Return the sum of fewer than 2048 terms, added in the order of compiled vector code."""
    widest = link.processor().lanes
    lanes = min((widest, widest // 2), key=lambda n: len(x) // n + len(x) % n)
    whole = len(x) - len(x) % lanes
    sums = np.zeros(lanes, x.dtype)
    for vector in x[:whole].reshape(-1, lanes):
        sums = sums + vector
    while len(sums) > 1:
        half = len(sums) // 2
        sums = sums[:half] + sums[half:]
    return sequential(sums[0] if whole else x.dtype.type(0), x[whole:])


def in_order(x: Any) -> Any:
    """Return the sum of x, added in the order of compiled code.

    Up to 4 terms are added one after the other, and fewer than 2048 in vector lanes. Longer sums are split into
    blocks of 1024 terms. If the last block is incomplete, the sums of the other blocks are added to its sum.
    """
    if len(x) <= 4:
        return sequential(x[0], x[1:])
    if len(x) < 2048:
        return by_lanes(x)
    rest = len(x) % 1024
    total = by_lanes(x[len(x) - rest :]) if rest else x.dtype.type(0)
    return sequential(total, [by_lanes(block) for block in x[: len(x) - rest].reshape(-1, 1024)])


@pytest.mark.parametrize(
    ("dtype", "lanes"), [(np.float32, 8), (np.float64, 4), (np.float64, 2), (np.complex64, 8)]
)
@pytest.mark.parametrize("length", [1, 2, 4, 5, 7, 8, 9, 13, 31, 1023, 2047, 2048, 3100])
def test_sums(dtype: Any, lanes: int, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum must use the processor's vector width with the fewest additions."""
    how = replace(link.processor(), lanes=lanes)
    monkeypatch.setattr(link, "processor", lambda: how)
    rng = np.random.default_rng(length)
    x = rng.standard_normal((20, length))
    x = (x + 1j * rng.standard_normal(x.shape) if dtype is np.complex64 else x).astype(dtype)
    (sums,) = in_a_loop(lambda x: [tnf.sum(x)], x)
    np.testing.assert_array_equal(sums, [in_order(row) for row in x], strict=True)


@pytest.mark.parametrize("columns", [1, 7, 8, 9])
def test_sums_of_columns(columns: int) -> None:
    """If a row has at least eight elements, rows must be added to each other, else each column separately."""
    x = np.random.default_rng(columns).standard_normal((3, 37, columns)).astype(np.float32)
    (sums,) = in_a_loop(lambda x: [tnf.sum(x, axis=0)], x)
    if columns < 8:
        expected = [[in_order(column) for column in each.T] for each in x]
    else:
        expected = [sequential(np.zeros(columns, x.dtype), each) for each in x]
    np.testing.assert_array_equal(sums, np.array(expected), strict=True)


@pytest.mark.parametrize("extents", [(1, 9), (3, 4), (9, 4), (4, 5), (9, 5), (2, 9, 4)])
def test_sums_over_transposed_axes(extents: tuple[int, ...]) -> None:
    """Inner sums of at most four terms must be unrolled, so that vector lanes contain terms of the outer sum."""
    x = np.random.default_rng(0).standard_normal((3, *extents)).astype(np.float32)
    (sums,) = in_a_loop(lambda x: [tnf.sum(x[..., ::-1])], x)

    def nested(x: Any) -> Any:
        if x.ndim == 1:
            return in_order(x)
        terms = np.array([nested(each) for each in x])
        if len(terms) == 1 or x[0].size <= 4:
            return in_order(terms)
        return sequential(x.dtype.type(0), terms)

    np.testing.assert_array_equal(sums, [nested(each[..., ::-1]) for each in x], strict=True)


@pytest.mark.parametrize("columns", [3, 7, 8, 20])
@pytest.mark.parametrize("terms", [1, 2, 7, 8, 9, 16, 17, 30])
def test_products_of_matrices(terms: int, columns: int) -> None:
    """With at least eight columns, a product must add one term to a row of results at a time, else in vector lanes."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, terms)).astype(np.float32)
    y = rng.standard_normal((2, terms, columns)).astype(np.float32)
    (results,) = in_a_loop(lambda x, y: [x @ y], x, y)
    order = in_order if columns < 8 else lambda terms: sequential(terms[0], terms[1:])
    expected = [
        [[order(row * column) for column in b.T] for row in a] for a, b in zip(x, y, strict=True)
    ]
    np.testing.assert_array_equal(results, expected, strict=True)


@pytest.mark.parametrize(("length", "chains"), [(127, 1), (128, 4), (200, 4)])
def test_extremes_are_interleaved(length: int, chains: int) -> None:
    x = np.zeros((3, length))
    program = tnf.compile(lambda x: tnf.scan(lambda n, x: (n, tnf.max(x)), 0, x)[1], x)
    text = tnf.GraphExecutor("K", compiled=True).source(program, "llvm")
    counts = re.findall(r'"llvm.loop.interleave.count", i32 (\d+)', text)
    assert counts == ([] if chains == 1 else [str(chains)])


@pytest.mark.parametrize(("vectors", "chains"), [(1, 0), (2, 2), (4, 4), (5, 0)])
def test_results_of_few_vectors_stay_in_registers(vectors: int, chains: int) -> None:
    """If rows have few vectors, LLVM must unroll the loop over them, so that results stay in registers."""
    x = np.zeros((3, 6, vectors * link.processor().lanes))
    for function in (lambda x: tnf.max(x, axis=0), lambda x: tnf.argmin(x, axis=0)):
        program = tnf.compile(lambda x: tnf.scan(lambda n, x: (n, function(x)), 0, x)[1], x)
        text = tnf.GraphExecutor("K", compiled=True).source(program, "llvm")
        counts = re.findall(r'"llvm.loop.interleave.count", i32 (\d+)', text)
        # On a processor with two elements per vector, a row of one vector is too short for a vector loop.
        assert counts == [str(chains)] * (chains > 0 and x.shape[-1] >= LONG_ROW)


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "int64", "uint8", "uint64", "bool"]
)
@pytest.mark.parametrize(
    ("shape", "axis"), [((5, 16), 0), ((1, 9), 0), ((3, 4, 12), 1), ((2, 7, 3, 8), 1), ((9, 3), 0)]
)
def test_argmax_and_argmin(dtype: str, shape: tuple[int, ...], axis: int) -> None:
    """The index must be that of the first NaN or, without NaN, of the first extreme element; 0.0 equals -0.0."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2 if dtype == "bool" else 4, (20, *shape)).astype(dtype)
    if dtype.startswith("float"):
        for value in (-0.0, np.inf, -np.inf, np.nan):
            x[rng.random(x.shape) < 0.08] = value
    elif dtype.startswith("int"):
        x -= 2
        x[rng.random(x.shape) < 0.1] = np.iinfo(dtype).min
    else:
        x[rng.random(x.shape) < 0.1] = 1 if dtype == "bool" else np.iinfo(dtype).max
    largest, least = in_a_loop(lambda x: [tnf.argmax(x, axis=axis), tnf.argmin(x, axis=axis)], x)
    np.testing.assert_array_equal(largest, np.argmax(x, axis=axis + 1), strict=True)
    np.testing.assert_array_equal(least, np.argmin(x, axis=axis + 1), strict=True)
