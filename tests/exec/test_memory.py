"""Buffers in use must not overlap, results must have separate memory, and the size of the pool must be bounded."""

import random
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import costs, errors
from tenferro.exec.kernels import dot_general
from tenferro.exec.plan import group, place
from tenferro.exec.plan.memory import plan_memory
from tenferro.exec.runtime.memory import Pool
from tenferro.program.memory_plan import Block, MemoryPlan
from tenferro.types import flatten
from tests.exec.unplanned import run_unplanned
from xla_peer.fuzz.program import random_case


@pytest.mark.parametrize("count", [0, 1, 2, 30, 400, 2000])
def test_places_that_are_needed_at_once_do_not_overlap(count: int) -> None:
    pick = random.Random(count)
    wanted: list[Block] = []
    for slot in range(count):
        first = pick.randrange(max(count, 1))
        wanted.append(Block(slot, pick.randrange(1, 5000), first, first + pick.randrange(20)))
    plan = plan_memory(wanted)
    assert sorted(block.slot for block in plan.blocks) == list(range(count))
    ends: list[Block] = []
    for block in plan.blocks:
        assert block.offset % 64 == 0
        assert block.offset + block.size <= plan.size
        ends = [other for other in ends if other.last >= block.first]
        for other in ends:
            assert (
                block.offset + block.size <= other.offset
                or other.offset + other.size <= block.offset
            )
        ends.append(block)
    alive = [
        sum(-(-b.size // 64) * 64 for b in wanted if b.first <= when <= b.last)
        for when in range(count + 20)
    ]
    assert plan.bound == max(alive, default=0)
    assert plan.bound <= plan.size <= max(1.5 * plan.bound, 1)


def test_a_chain_needs_no_more_than_what_lives_at_once() -> None:
    plan = plan_memory([Block(slot, 1000 * 64, slot, slot + 1) for slot in range(50)])
    assert plan.size == plan.bound == 2 * 1000 * 64
    assert "50 values" in str(plan)


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use planned memory for all results of groups and contractions."""
    monkeypatch.setattr(place, "MIN_PLACED_BYTES", 1)
    monkeypatch.setattr(group, "MIN_GROUPED_ELEMENTS", 1)
    monkeypatch.setattr(costs, "MIN_PARALLEL_COST", 0.0)
    monkeypatch.setattr(dot_general, "MIN_BUFFERED_ELEMENTS", 0)


@pytest.mark.usefixtures("everything_is_large")
def test_random_programs_and_their_results_stay_apart() -> None:
    placed = 0
    for number in range(300):
        case = random_case(7, number, most_ops=20)
        executor = tnf.GraphExecutor(threads=2, compiled="loops")
        first = flatten(executor.run(case.program, *case.leaves))[0]
        copies = [y.copy() for y in first]
        second = flatten(executor.run(case.program, *case.leaves))[0]
        wanted = flatten(run_unplanned(case.program, *case.leaves))[0]
        for y, copy, again, z in zip(first, copies, second, wanted, strict=True):
            assert y.tobytes() == copy.tobytes(), "a result changed when the program ran again"
            assert (again.dtype, again.shape) == (z.dtype, z.shape)
            assert again.tobytes() == z.tobytes()
        placed += len(executor.memory_plan(case.program).blocks)
    assert placed > 15


@pytest.mark.usefixtures("everything_is_large")
def test_views_of_what_has_a_place_keep_it() -> None:
    def fn(x: Any) -> Any:
        y = (x @ x).T
        z = tnf.sin(x @ x) + 1.0
        w = tnf.reshape(z, (-1,))[::2]
        return y, w, tnf.sum(z, axis=()), y @ z, tnf.cumulative_sum(y[::-1], axis=0)

    x = np.random.default_rng(0).standard_normal((20, 20))
    program = tnf.compile(fn, x)
    executor = tnf.GraphExecutor()
    wanted = run_unplanned(program, x)
    for _ in range(3):
        for y, z in zip(executor.run(program, x), wanted, strict=True):
            np.testing.assert_allclose(y, z, rtol=1e-13)
            assert y.base is None or not y.base.flags.owndata or y.base.nbytes <= 2 * y.nbytes


def products(x: Any) -> Any:
    """Compute several intermediate values that are large enough for planned memory."""
    return tnf.sum(tnf.exp(x @ x) @ x)


def test_the_arena_is_used_again_is_bounded_and_can_be_cleared() -> None:
    x = np.random.default_rng(0).standard_normal((200, 200)) / 200
    program = tnf.compile(products, x)
    executor = tnf.GraphExecutor()
    for _ in range(4):
        executor.run(program, x)
    stats = executor.memory.stats()
    assert stats.new < stats.reused
    assert stats.held >= program.memory_plan().size
    executor.cache_clear()
    assert executor.memory.stats().held == 0
    small = tnf.GraphExecutor(memory_bytes=1000)
    assert [small.run(program, x) for _ in range(3)] == [executor.run(program, x)] * 3
    assert small.memory.stats().held <= 1000
    with pytest.raises(errors.InvalidConfigError, match="at least 0"):
        tnf.GraphExecutor(memory_bytes=-1)


def test_runs_at_the_same_time_have_pieces_of_their_own() -> None:
    rng = np.random.default_rng(0)
    x = [rng.standard_normal((150, 150)) / 150 for _ in range(4)]
    program = tnf.compile(products, x[0])
    executor = tnf.GraphExecutor()
    executor.run(program, x[0])
    wanted = [executor.run(program, y) for y in x]
    wrong: list[int] = []

    def work(k: int) -> None:
        wrong.extend(k for _ in range(60) if executor.run(program, x[k]) != wanted[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_pool_keeps_what_fits() -> None:
    pool = Pool(5000)
    pieces = [pool.acquire(size) for size in (1000, 2000, 4000)]
    assert all(piece.ctypes.data % 64 == 0 for piece in pieces)
    for piece in pieces:
        pool.release(piece)
    assert pool.stats().held == 4032
    assert pool.acquire(3000) is pieces[2]
    assert pool.acquire(100) is not pieces[2]


def test_what_does_not_fit_is_freed_at_once() -> None:
    pool = Pool(0)
    lent = pool.allocate(1000)
    lent_piece = weakref.ref(lent.base.obj)
    del lent
    assert lent_piece() is None
    piece = pool.acquire(1000)
    given = weakref.ref(piece)
    pool.release(piece)
    del piece
    assert given() is None


class Holder(np.ndarray):
    """A buffer with a reference to another array, which is freed together with the buffer."""

    kept: Any = None


@pytest.mark.parametrize("look", ["take", "stats", "clear"])
def test_what_comes_back_while_another_piece_does_is_there_afterwards(look: str) -> None:
    pool = Pool(6000)
    piece = np.zeros(4096, np.uint8).view(Holder)
    piece.kept = pool.allocate(1000)
    pool.release(piece)
    del piece
    # The release of another buffer evicts the first buffer, and frees the array to which the first buffer refers.
    pool.release(np.zeros(4096, np.uint8))
    if look == "take":
        pool.acquire(1000)
        assert pool.stats().reused == 1
    elif look == "stats":
        assert pool.stats().held == 4096 + 1024
    else:
        pool.clear()
        assert pool.stats().held == 0


def test_a_plan_is_printed_in_columns() -> None:
    plan = MemoryPlan((Block(3, 5000, 1, 2), Block(12, 64, 2, 10, 5056)), 5120, 5064)
    assert str(plan).splitlines() == [
        "2 values in 5.0 KiB; 4.9 KiB are needed at once",
        "slot  bytes  offset  from  to",
        "  %3  5,000       0     1   2",
        " %12     64   5,056     2  10",
    ]
    assert repr(plan) == "<MemoryPlan: 2 values in 5.0 KiB>"
    assert str(MemoryPlan((), 0, 0)) == "0 values in 0 B; 0 B are needed at once"


@pytest.mark.parametrize(
    ("size", "piece"),
    [(1024, "large"), (961, "large"), (512, "large"), (449, "large"), (448, ""), (1025, ""), (256, "small"), (128, "small"), (64, "")],
)  # fmt: skip
def test_pieces_of_less_than_twice_the_size_are_taken_again(size: int, piece: str) -> None:
    """A request must reuse a free buffer of at most twice its size; sizes are multiples of a cache line."""
    pool = Pool(1 << 20)
    pieces = {"large": pool.acquire(1024), "small": pool.acquire(256)}
    for each in pieces.values():
        pool.release(each)
    memory = pool.acquire(size)
    assert [name for name, each in pieces.items() if each is memory] == ([piece] if piece else [])
    assert memory.size >= size
    stats = pool.stats()
    assert (stats.reused, stats.new) == ((1, 2) if piece else (0, 3))


def test_the_smallest_piece_that_fits_is_taken_and_of_equal_ones_the_last() -> None:
    pool = Pool(1 << 20)
    first, large, last = (pool.acquire(size) for size in (640, 1024, 640))
    for piece in (first, large, last):
        pool.release(piece)
    assert [pool.acquire(600) for _ in range(3)] == [last, first, large]


def test_the_oldest_pieces_go_when_there_are_too_many() -> None:
    pool = Pool(2048)
    pieces = [pool.acquire(1024) for _ in range(3)]
    for piece, held in zip(pieces, (1024, 2048, 2048), strict=True):
        pool.release(piece)
        assert pool.stats().held == held
    assert pool.acquire(1024) is pieces[2]
    assert pool.acquire(1024) is pieces[1]
    pool.clear()
    stats = pool.stats()
    assert (stats.reused, stats.new, stats.held, stats.capacity) == (0, 0, 0, 2048)


@pytest.mark.parametrize("capacity", [-1, True, False])
def test_capacities_that_are_none(capacity: Any) -> None:
    with pytest.raises(errors.InvalidConfigError, match="at least 0 bytes"):
        Pool(capacity)
    assert Pool(0).capacity == 0


def test_scratch_comes_back_from_a_context_that_fails() -> None:
    pool = Pool(1 << 20)
    with pool.scratch([100, 30, 64]) as pieces:
        starts = [piece.ctypes.data - pieces[0].ctypes.data for piece in pieces]
        assert ([piece.size for piece in pieces], starts) == ([100, 30, 64], [0, 128, 192])
        assert pool.stats().held == 0
    assert pool.stats().held == 256
    with pytest.raises(ZeroDivisionError), pool.scratch([100]) as pieces:
        pieces[0][0] = 1 // 0
    assert pool.stats().held == 256
