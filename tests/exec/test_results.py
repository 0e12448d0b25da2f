"""The memory of a result must return to the pool when the last reference is deleted, and not before."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.errors import InvalidConfigError
from tenferro.exec.runtime.memory import Pool

LARGE = np.random.default_rng(0).normal(size=(400, 300))


def doubled(executor: tnf.GraphExecutor, x: Any) -> Any:
    return executor.run(tnf.compile(lambda x: tnf.sqrt(tnf.abs(x)) * 2.0, x), x)


@pytest.mark.parametrize("order", ["F", "C", "K"])
def test_a_result_keeps_its_memory_as_long_as_anything_looks_at_it(order: Any) -> None:
    executor = tnf.GraphExecutor(order=order)
    expected = np.sqrt(np.abs(LARGE)) * 2.0
    first = doubled(executor, LARGE)
    view, buffer = first[3:, ::2].T, memoryview(first)
    del first
    others = [doubled(executor, LARGE + k) for k in range(4)]
    np.testing.assert_array_equal(view, expected[3:, ::2].T)
    np.testing.assert_array_equal(np.asarray(buffer), expected)
    for k, other in enumerate(others):
        np.testing.assert_array_equal(other, np.sqrt(np.abs(LARGE + k)) * 2.0)
        other[...] = k
    np.testing.assert_array_equal(view, expected[3:, ::2].T)
    assert not any(np.shares_memory(view, other) for other in others)


def test_memory_is_used_again_once_the_last_view_is_gone() -> None:
    executor = tnf.GraphExecutor()
    result = doubled(executor, LARGE)
    view = result[1:]
    del result
    before = executor.memory.stats().held
    del view
    gc.collect()
    assert executor.memory.stats().held >= before + LARGE.nbytes
    kept = doubled(executor, LARGE)
    assert executor.memory.stats().reused >= 1
    executor.cache_clear()
    assert executor.memory.stats() == (type(executor.memory.stats()))(0, 0, 0, 1 << 30)
    np.testing.assert_array_equal(kept, np.sqrt(np.abs(LARGE)) * 2.0)


def test_results_of_loops_and_views_that_leave_are_their_own() -> None:
    """Slices that a scan stacks, and a transposed product, are views; as results, they must have separate memory."""
    executor = tnf.GraphExecutor()

    def fn(x: Any) -> Any:
        total, ys = tnf.scan(lambda c, _: (c @ x * 0.05, c @ x), x, None, length=3)
        return total, ys, tnf.transpose(x @ x), x @ x

    x = LARGE[:300]
    program = tnf.compile(fn, x)
    first = executor.run(program, x)
    copies = [y.copy() for y in first]
    for k in range(1, 4):
        executor.run(program, x * k)
    for y, copy in zip(first, copies, strict=True):
        np.testing.assert_array_equal(y, copy)
    np.testing.assert_allclose(first[2], first[3].T)


def test_at_most_the_capacity_waits() -> None:
    memory = Pool(1000)
    pieces = [memory.allocate(size) for size in (100, 640, 200)]
    assert [piece.size for piece in pieces] == [100, 640, 200]
    assert all(piece.ctypes.data % 64 == 0 for piece in pieces)
    while pieces:
        del pieces[0]
    assert memory.stats().held == 640 + 256
    memory.allocate(640)
    assert memory.stats().reused == 1
    large = memory.allocate(2000)
    del large
    assert memory.stats().held <= 1000
    none = Pool(0)
    none.acquire(64)
    assert none.stats().held == 0
    with pytest.raises(InvalidConfigError, match="at least 0 bytes, got -1"):
        tnf.GraphExecutor(memory_bytes=-1)


def test_a_result_outlives_its_executor() -> None:
    executor = tnf.GraphExecutor()
    result = doubled(executor, LARGE)
    del executor
    gc.collect()
    np.testing.assert_array_equal(result, np.sqrt(np.abs(LARGE)) * 2.0)
    del result
    gc.collect()


def test_many_threads_take_and_drop() -> None:
    memory = Pool(1 << 16)
    wrong: list[int] = []

    def work(number: int) -> None:
        kept: list[Any] = []
        for step in range(2000):
            x = np.ndarray((16,), "i8", memory.allocate(128 * (1 + step % 3)))
            x[...] = number
            kept.append(x)
            if len(kept) > 3:
                gone = kept.pop(step % 3)
                wrong.extend(gone[gone != number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert memory.stats().reused > 0
    assert 0 <= memory.stats().held <= 1 << 16
