"""Compiled transposing copies must keep all elements, and write only whole cache lines, for blocks of any extents."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.kernels import copying
from tenferro.exec.kernels.copying import Copy, Dense
from tenferro.exec.kernels.transposition import Transposition, transposition_of
from tenferro.exec.runtime.memory import Pool
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.threads import Workers

pytest.importorskip("llvmlite.binding")
from tenferro.exec.llvm.link import Linker, Processor
from tenferro.exec.llvm.transposing_copy import TransposingCopies, lanes_of, module_of, tasks_of
from tests.pairs import in_turn

LINKER = Linker()
DTYPES = ("int8", "float16", "float32", "float64", "complex128")


class Recording(TransposingCopies):
    """Subclass of `TransposingCopies` that records the transpositions for which code was requested."""

    requests: tuple[Transposition, ...] = ()

    def function(self, transposition: Transposition) -> Any:
        self.requests = (*self.requests, transposition)
        return super().function(transposition)


@pytest.fixture(autouse=True)
def small_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile transposing copies also for small results."""
    monkeypatch.setattr(copying, "MIN_TILED_BYTES", 0)


def short_vectors(lanes: int) -> Linker:
    """Return a linker for this processor that uses vectors of at most `lanes` float64 numbers."""
    linker = Linker()
    own = linker.processor
    linker.__dict__["processor"] = Processor(
        own.name, own.features, own.has_fma, own.converts_halves, min(own.lanes, lanes)
    )
    return linker


@in_turn(
    "shape_and_perm",
    [
        ((64, 40), (1, 0)),
        ((320, 65), (1, 0)),
        ((3, 128, 37), (0, 2, 1)),
        ((64, 3, 24), (1, 2, 0)),
        ((64, 3, 24), (2, 1, 0)),
        ((1088, 2, 16), (2, 1, 0)),
        ((2, 4, 3, 4, 4, 3, 3, 4), (6, 2, 7, 1, 4, 0, 3, 5)),
        ((4, 2, 4, 4, 2, 4, 2), (6, 5, 3, 1, 4, 2, 0)),
        ((64, 48, 2), (1, 0, 2)),
        ((64, 48, 4), (1, 0, 2)),
        ((64, 48, 8), (1, 0, 2)),
        ((5, 3, 7, 6, 8), (2, 1, 3, 0, 4)),
    ],
    "lanes_and_streamed",
    [(4, 0), (8, 1 << 30), (8, 0), (4, 1 << 30)],
)
def test_blocks_of_any_extents_are_transposed(
    shape_and_perm: tuple[tuple[int, ...], tuple[int, ...]],
    lanes_and_streamed: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (shape, perm), (lanes, streamed) = shape_and_perm, lanes_and_streamed
    if lanes > LINKER.processor.lanes >= 4:
        pytest.skip("the widest vectors are those of the other case")
    monkeypatch.setattr(copying, "MIN_STREAMED_BYTES", streamed)
    transposer = Recording(short_vectors(lanes))
    resources = Resources(Workers(2), Pool(1 << 22), transposer=transposer.function)
    rng = np.random.default_rng(0)
    for dtype in DTYPES:
        x = rng.integers(-100, 100, shape).astype(dtype)
        for view in (x.transpose(perm), np.flip(x.transpose(perm), 0), x[1:].transpose(perm)):
            assert np.array_equal(Dense("C", resources)(view), view)
            assert np.array_equal(Dense("F", resources)(view.T), view.T)
    assert transposer.requests
    assert {each.is_streamed for each in transposer.requests} == {not streamed}


@pytest.mark.parametrize(
    ("shape", "is_transposed"),
    [
        ((40, 64), True),
        ((40, 63), False),  # a row of the result ends inside a cache line
        ((3, 64), False),  # the contiguous runs of the source are too short
        ((4, 64), True),
        ((1, 64), False),
    ],
)
def test_transpositions_write_whole_cache_lines(
    shape: tuple[int, int], is_transposed: bool
) -> None:
    x = np.zeros(shape[::-1]).T
    assert (transposition_of(np.zeros(shape), x) is not None) is is_transposed


@pytest.mark.parametrize(("between", "is_transposed"), [(96, True), (104, True), (100, False)])
def test_transpositions_into_a_view_start_runs_at_cache_lines(
    between: int, is_transposed: bool
) -> None:
    """A copy to rows of 96 elements, `between` elements apart, is compiled only if each row starts at a cache line."""
    part = np.zeros((40, between))[:, :96]
    assert (transposition_of(part, np.zeros((96, 40)).T) is not None) == is_transposed


def test_a_source_with_gaps_is_transposed_by_its_strides() -> None:
    x = np.zeros((64, 80))[:, ::2].T
    assert transposition_of(np.zeros(x.shape), x) is None  # the source has no contiguous runs
    x = np.zeros((128, 40))[::2].T
    transposition = transposition_of(np.zeros(x.shape), x)
    assert transposition == Transposition(8, (), ((64, 80),), ((40, 64),), is_streamed=True)


def test_columns_fill_vectors_or_overlap() -> None:
    processor = LINKER.processor
    widest = processor.lanes
    for n, most in ((8, 8), (12, 4), (13, 8), (6, 4), (20, 4), (24, 8)):
        assert lanes_of(Transposition(8, (), ((64, n),), ((n, 64),), True), processor) == min(
            most, widest
        )


def test_a_misaligned_result_is_copied_by_numpy() -> None:
    transposer = Recording(LINKER)
    resources = Resources(Workers(1), Pool(0), transposer=transposer.function)
    x = np.arange(64 * 40.0).reshape(64, 40).T
    memory = np.zeros(64 * 40 + 16)
    start = -memory.ctypes.data % 64 // 8
    for shift, requests in ((1, 0), (0, 1)):
        out = memory[start + shift :][: x.size].reshape(x.shape)
        Copy(out, x)(out, x, resources)
        assert np.array_equal(out, x)
        assert len(transposer.requests) == requests


def test_processors_with_short_vectors_copy_by_numpy() -> None:
    linker = short_vectors(8)
    linker.__dict__["processor"] = Processor("generic", "", False, False, 2)
    x = np.arange(64 * 40.0).reshape(64, 40).T
    transposition = transposition_of(np.zeros(x.shape), x)
    assert transposition is not None
    transposer = TransposingCopies(linker)
    assert transposer.function(transposition) is None
    linker.__dict__["processor"] = replace(LINKER.processor, lanes=4)
    assert TransposingCopies(linker).function(transposition) is not None
    linker.__dict__["processor"] = Processor("generic", "", False, False, 2)
    assert np.array_equal(Dense("C", Resources(transposer=transposer.function))(x), x)


def test_results_of_programs_are_transposed() -> None:
    executor = tnf.GraphExecutor(compiled=True)
    program = tnf.compile(lambda x: x + 1.0, np.zeros((96, 64)))
    rng = np.random.default_rng(1)
    for _ in range(2):
        x = rng.random((96, 64))
        y = executor.run(program, x)
        assert y.flags.f_contiguous
        assert np.array_equal(y, x + 1.0)
    assert executor.compiler is not None
    assert executor.compiler.transposer.functions.stats().entries == 1
    executor.cache_clear()
    assert executor.compiler.transposer.functions.stats().entries == 0


def with_columns(itemsize: int, *columns: int) -> Transposition:
    return Transposition(itemsize, (), ((64, 64),), tuple([(n, 64) for n in columns]), False)


@pytest.mark.parametrize(
    ("widest", "itemsize", "columns", "lanes"),
    [
        *[(8, itemsize, (64,), lanes) for itemsize, lanes in ((1, 16), (2, 16), (4, 16), (8, 8), (16, 4), (32, 2), (64, 1))],
        *[(4, itemsize, (64,), lanes) for itemsize, lanes in ((1, 16), (2, 16), (4, 8), (8, 4), (16, 2), (32, 1), (64, 1))],
        # A vector must have at most as many lanes as there are columns, and half as many if this divides the columns.
        (8, 8, (3,), 2),
        (8, 8, (1,), 1),
        (8, 8, (6,), 4),
        (8, 8, (12,), 4),
        (8, 8, (3, 4), 4),
        (8, 8, (4, 4), 8),
        (8, 4, (24,), 8),
        (8, 4, (20,), 16),
        (8, 4, (36,), 16),
        (8, 4, (12,), 4),
        (4, 1, (15,), 8),
    ],
)  # fmt: skip
def test_lanes_of_vectors(widest: int, itemsize: int, columns: tuple[int, ...], lanes: int) -> None:
    processor = Processor("", "", False, False, widest)
    assert lanes_of(with_columns(itemsize, *columns), processor) == lanes


@pytest.mark.parametrize(
    ("itemsize", "outer", "rows", "counts", "own"),
    [
        (8, (), (6400,), [25], 1),  # a tile has 256 rows, which are 32 cache lines
        (8, (), (6408,), [26], 1),
        (8, (), (64, 100), [25], 1),
        (8, (), (64,), [1], 1),
        (1, (), (640,), [3], 1),  # a tile has four cache lines
        (16, (), (64,), [1], 1),
        (16, (), (512,), [2], 1),
        (64, (), (512,), [2], 1),
        (8, (5, 3), (6400,), [5, 3, 25], 3),
        (8, (8, 8), (6400,), [8, 8, 25], 2),
        (8, (64, 3), (6400,), [64, 3, 25], 1),
        (8, (63, 3), (6400,), [63, 3, 25], 2),
    ],
)  # fmt: skip
def test_large_results_have_many_tasks(
    itemsize: int, outer: tuple[int, ...], rows: tuple[int, ...], counts: list[int], own: int
) -> None:
    transposition = Transposition(
        itemsize, tuple([(n, 1, 1) for n in outer]), tuple([(n, 1) for n in rows]), ((8, 64),), True
    )
    assert tasks_of(transposition) == (counts, own)


@pytest.mark.parametrize(("itemsize", "kind"), [(1, "<16 x i8>"), (4, "<8 x i32>"), (8, "<4 x i64>"), (16, "<4 x i64>")])  # fmt: skip
@pytest.mark.parametrize("is_streamed", [False, True])
def test_cache_lines_are_written_by_whole_vectors(
    itemsize: int, kind: str, is_streamed: bool
) -> None:
    processor = Processor("", "", False, False, 4)
    height = 64 // itemsize
    transposition = Transposition(itemsize, (), ((height, 16),), ((16, height),), is_streamed)
    lanes = lanes_of(transposition, processor)
    text = module_of(transposition, processor).text
    loads = re.findall(r"load (<.*?>), ptr %v\d+, align (\d+)\n", text)
    assert loads == [(kind, str(min(8, itemsize)))] * height
    stores = re.findall(r"store (<.*?>) %v\d+, ptr %v\d+, align (\d+)(.*)\n", text)
    around = ", !nontemporal !0" if is_streamed else ""
    # Each column of a block must fill one cache line, which is written once.
    assert stores == [(kind, str(lanes * itemsize), around)] * height
    assert ("!0 = !{i32 1}" in text, "fence seq_cst" in text) == (is_streamed, is_streamed)
