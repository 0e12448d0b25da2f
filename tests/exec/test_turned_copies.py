"""Compiled copies into another order: the same elements, by blocks of any extents, and only where whole lines fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec import copying
from tenferro.exec.copying import Copy, Dense
from tenferro.exec.runtime.memory import Pool
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.threads import Workers
from tenferro.exec.runtime.turn import Turn, turn_of

pytest.importorskip("llvmlite.binding")
from tenferro.exec.llvm.link import Linker, Processor
from tenferro.exec.llvm.turned_copy import TurnedCopies, lanes_of

LINKER = Linker()
DTYPES = ("int8", "float16", "float32", "float64", "complex128")


class Counted(TurnedCopies):
    """Turns, and how many were asked for."""

    turns: tuple[Turn, ...] = ()

    def function(self, turn: Turn) -> Any:
        self.turns = (*self.turns, turn)
        return super().function(turn)


@pytest.fixture(autouse=True)
def small_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small results are turned too."""
    monkeypatch.setattr(copying, "TURNED", 0)


def short_vectors(lanes: int) -> Linker:
    """A linker for this processor, with vectors of no more than so many float64."""
    linker = Linker()
    own = linker.processor
    linker.__dict__["processor"] = Processor(
        own.name,
        own.features,
        own.multiplies_and_adds,
        own.converts_halves,
        tuple([n for n in own.lanes if n <= lanes]) or own.lanes,
    )
    return linker


@pytest.mark.parametrize("streamed", [0, 1 << 30])
@pytest.mark.parametrize("lanes", [4, 8])
@pytest.mark.parametrize(
    ("shape", "perm"),
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
    ids=str,
)
def test_blocks_of_any_extents_are_turned(
    shape: tuple[int, ...],
    perm: tuple[int, ...],
    lanes: int,
    streamed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copying, "STREAMED", streamed)
    turner = Counted(short_vectors(lanes), worth=1)
    resources = Resources(Workers(2), Pool(1 << 22), turner=turner)
    rng = np.random.default_rng(0)
    for dtype in DTYPES:
        x = rng.integers(-100, 100, shape).astype(dtype)
        for view in (x.transpose(perm), np.flip(x.transpose(perm), 0), x[1:].transpose(perm)):
            assert np.array_equal(Dense("C", resources)(view), view)
            assert np.array_equal(Dense("F", resources)(view.T), view.T)
    assert turner.turns
    assert {turn.is_streamed for turn in turner.turns} == {not streamed}


@pytest.mark.parametrize(
    ("shape", "is_turned"),
    [
        ((40, 64), True),
        ((40, 63), False),  # lines of the result would be broken
        ((3, 64), False),  # few neighbours in the source
        ((4, 64), True),
        ((1, 64), False),
    ],
)
def test_turns_are_of_whole_lines(shape: tuple[int, int], is_turned: bool) -> None:
    x = np.zeros(shape[::-1]).T
    assert (turn_of(np.zeros(shape), x) is not None) is is_turned


def test_a_source_with_gaps_has_the_same_turn_as_its_steps() -> None:
    x = np.zeros((64, 80))[:, ::2].T
    assert turn_of(np.zeros(x.shape), x) is None  # no neighbours
    x = np.zeros((128, 40))[::2].T
    turn = turn_of(np.zeros(x.shape), x)
    assert turn == Turn(8, (), ((64, 80),), ((40, 64),), is_streamed=True)


def test_columns_fill_registers_or_are_taken_twice_in_part() -> None:
    processor = LINKER.processor
    widest = max(processor.lanes)
    for n, most in ((8, 8), (12, 4), (13, 8), (6, 4), (20, 4), (24, 8)):
        assert lanes_of(Turn(8, (), ((64, n),), ((n, 64),), True), processor) == min(most, widest)


def test_a_result_that_begins_within_a_line_is_copied_by_numpy() -> None:
    turner = Counted(LINKER, worth=1)
    resources = Resources(Workers(1), Pool(0), turner=turner)
    x = np.arange(64 * 40.0).reshape(64, 40).T
    memory = np.zeros(64 * 40 + 16)
    start = -memory.ctypes.data % 64 // 8
    for shift, turns in ((1, 0), (0, 1)):
        out = memory[start + shift :][: x.size].reshape(x.shape)
        Copy(out, x)(out, x, resources)
        assert np.array_equal(out, x)
        assert len(turner.turns) == turns


def test_what_is_seldom_copied_is_not_compiled() -> None:
    x = np.arange(64 * 40.0).reshape(64, 40).T
    turner = Counted(LINKER, worth=3 * x.nbytes)
    dense = Dense("C", Resources(Workers(1), Pool(0), turner=turner))
    for turns in (0, 0, 1, 2):
        assert np.array_equal(dense(x), x)
        assert len(turner.turns) == turns


def test_processors_with_short_vectors_copy_by_numpy() -> None:
    linker = short_vectors(8)
    linker.__dict__["processor"] = Processor("generic", "", False, False, (2,))
    x = np.arange(64 * 40.0).reshape(64, 40).T
    turn = turn_of(np.zeros(x.shape), x)
    assert turn is not None
    turner = TurnedCopies(linker, worth=1)
    assert turner.function(turn) is None
    assert np.array_equal(Dense("C", Resources(turner=turner))(x), x)


def test_results_of_programs_are_turned() -> None:
    executor = tnf.GraphExecutor(compiled=True)
    program = tnf.compile(lambda x: x + 1.0, np.zeros((96, 64)))
    rng = np.random.default_rng(1)
    for _ in range(2):
        x = rng.random((96, 64))
        y = executor.run(program, x)
        assert y.flags.f_contiguous
        assert np.array_equal(y, x + 1.0)
    assert executor.compiler is not None
    assert executor.compiler.turner.stats().entries == 1
    executor.cache_clear()
    assert executor.compiler.turner.stats().entries == 0
