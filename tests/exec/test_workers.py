"""The executor's worker threads, and the state of NumPy and other libraries in each thread."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.runtime.threads import Workers


def test_all_parts_are_done_and_the_first_error_is_raised() -> None:
    workers = Workers(3)
    done: list[tuple[int, int, str]] = []
    all_at_work = threading.Barrier(3, timeout=30)

    def work(start: int, stop: int) -> None:
        all_at_work.wait()
        time.sleep(0.01 * start)
        done.append((start, stop, threading.current_thread().name))
        if start:
            raise ValueError(f"from {start}")

    with pytest.raises(ValueError, match="from 4"):
        workers.parallel_for(work, 11, 2)
    assert sorted(part[:2] for part in done) == [(0, 4), (4, 8), (8, 11)]
    assert len({name for *_, name in done}) == 3
    with pytest.raises(ZeroDivisionError):
        workers.parallel_for(lambda start, _: 1 // start, 3, 1)


def test_what_is_dealt_is_done_once_each_by_whoever_is_ready() -> None:
    workers = Workers(3)
    for count in (0, 1, 2, 50):
        done: list[int] = []
        workers.for_each(done.append, count)
        assert sorted(done) == list(range(count))
    slow = threading.Event()
    numbers: list[int] = []

    def work(number: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            slow.wait(30)
        numbers.append(number)
        if len(numbers) == 8:
            slow.set()

    workers.for_each(work, 10)
    assert sorted(numbers) == list(range(10))
    with pytest.raises(ZeroDivisionError):
        workers.for_each(lambda number: 1 // number, 5)


def test_the_caller_does_what_no_thread_has_begun() -> None:
    """A caller must itself run all tasks that no thread has begun, because threads may be busy for another caller."""
    workers = Workers(2)
    is_held, is_done = threading.Event(), threading.Event()

    def other(start: int, _: int) -> None:
        if start:
            is_held.set()
            assert is_done.wait(30)

    caller = threading.Thread(target=workers.parallel_for, args=(other, 2))
    caller.start()
    assert is_held.wait(30)
    done: list[int] = []
    workers.for_each(done.append, 6)
    assert done == list(range(6))
    is_done.set()
    caller.join(30)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores have no numbers")
def test_threads_run_where_the_caller_may_but_not_beside_it() -> None:
    before = os.sched_getaffinity(0)
    workers = Workers(2)
    cores: dict[int, set[int]] = {}

    def work(start: int, _: int) -> None:
        cores[start] = os.sched_getaffinity(threading.get_native_id())

    workers.parallel_for(work, 2)
    assert os.sched_getaffinity(0) == cores[0] == before
    assert cores[1] == before or (len(cores[1]) == len(before) - 1 and cores[1] < before)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores have no numbers")
def test_threads_of_a_caller_on_one_core_stay_there() -> None:
    before = os.sched_getaffinity(0)
    cores: list[set[int]] = []
    os.sched_setaffinity(0, {max(before)})
    try:
        workers = Workers(2)
        own = lambda *_: cores.append(os.sched_getaffinity(threading.get_native_id()))
        workers.parallel_for(own, 2, 1)
    finally:
        os.sched_setaffinity(0, before)
    assert cores == [{max(before)}] * 2


def test_threads_end_with_their_executor() -> None:
    workers = Workers(2)
    found: set[threading.Thread] = set()
    is_begun = threading.Event()

    def work(start: int, _: int) -> None:
        found.add(threading.current_thread())
        assert start or is_begun.wait(30)
        is_begun.set()

    workers.parallel_for(work, 2)
    found.discard(threading.current_thread())
    assert len(found) == 1
    del workers
    gc.collect()
    for thread in found:
        thread.join(5)
        assert not thread.is_alive()


def test_they_work_until_the_interpreter_ends() -> None:
    script = """
import atexit
from tenferro.exec.runtime.threads import Workers
parts = []
workers = Workers(2)
atexit.register(lambda: (workers.parallel_for(lambda *part: parts.append(part), 2), print(sorted(parts))))
workers.parallel_for(lambda *part: None, 2)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[(0, 1), (1, 2)]\n"
    assert done.stderr == ""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer's signal")
def test_whoever_is_interrupted_waits_for_the_others() -> None:
    workers = Workers(2)
    is_begun = threading.Event()
    ended: list[int] = []

    def interrupt(*_: object) -> None:
        raise TimeoutError

    def work(start: int, _: int) -> None:
        if start:
            is_begun.set()
            time.sleep(0.3)
            ended.append(start)
        else:
            assert is_begun.wait(30)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        workers.parallel_for(lambda *_: None, 2)
        signal.setitimer(signal.ITIMER_REAL, 0.15)
        with pytest.raises(TimeoutError):
            workers.parallel_for(work, 2)
        assert ended == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


PARTS = {
    (4, 8, 1): [(0, 2), (2, 4), (4, 6), (6, 8)], (4, 9, 2): [(0, 2), (2, 4), (4, 6), (6, 9)], (3, 2, 1): [(0, 1), (1, 2)],
    (2, 7, 3): [(0, 3), (3, 7)], (2, 3, 3): [(0, 3)], (2, 4, 3): [(0, 3), (3, 4)], (1, 9, 2): [(0, 9)], (2, 0, 1): [(0, 0)],
}  # fmt: skip


@pytest.mark.parametrize(("count", "rows", "step"), PARTS)
def test_parts_are_as_equal_as_steps_allow(count: int, rows: int, step: int) -> None:
    workers = Workers(count)
    before = {*threading.enumerate()}
    done: list[tuple[int, int]] = []
    alive: list[str] = []

    def work(start: int, stop: int) -> None:
        alive.extend(t.name for t in {*threading.enumerate()} - before)
        done.append((start, stop))

    workers.parallel_for(work, rows, step)
    parts = PARTS[count, rows, step]
    assert sorted(done) == parts
    # If there is only one task, the caller must run it, and wake no thread.
    others = {f"tenferro_{number}" for number in range(1, count)}
    assert set(alive) == (others if len(parts) > 1 else set())


def test_one_number_is_dealt_to_the_caller() -> None:
    before = threading.active_count()
    callers: list[threading.Thread] = []
    workers = Workers(3)
    workers.for_each(lambda _: callers.append(threading.current_thread()), 1)
    assert callers == [threading.current_thread()]
    assert threading.active_count() == before


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores have no numbers")
def test_as_many_threads_as_the_process_may_use() -> None:
    assert Workers(None).count == len(os.sched_getaffinity(0))
    assert Workers(7).count == 7


def without_threads(monkeypatch: pytest.MonkeyPatch, first: int) -> list[str]:
    """Let only `first` threads start, and return a list to which each attempt to start a thread adds its name."""
    names: list[str] = []
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        names.append(thread.name)
        if len(names) > first:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return names


@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_caller_works_with_the_threads_that_can_be_started(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    names = without_threads(monkeypatch, count)
    workers = Workers(4)
    members = {threading.current_thread().name, *[f"tenferro_{n}" for n in range(1, count + 1)]}
    for _ in range(3):
        done: list[tuple[int, int]] = []
        callers: set[str] = set()

        def work(start: int, stop: int) -> None:
            done.append((start, stop))
            callers.add(threading.current_thread().name)

        workers.parallel_for(work, 12, 2)
        assert sorted(done) == PARTS_OF_TWELVE[count]
        assert callers <= members
        numbers: list[int] = []
        workers.for_each(numbers.append, 9)
        assert sorted(numbers) == list(range(9))
        with pytest.raises(ZeroDivisionError):
            workers.parallel_for(lambda start, _: 1 // start, 12, 2)
    # The start of one thread failed, and no start was tried again.
    assert names == [f"tenferro_{n}" for n in range(1, count + 2)]


PARTS_OF_TWELVE = {0: [(0, 12)], 1: [(0, 6), (6, 12)], 2: [(0, 4), (4, 8), (8, 12)]}


@pytest.mark.parametrize("count", [0, 1])
def test_programs_give_the_same_results_without_threads(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    rng = np.random.default_rng(1)
    x, kernel = rng.normal(size=(1500, 1500)), rng.normal(size=(5, 5))

    def sums(x: tnf.TracedTensor) -> object:
        return tnf.sum(tnf.exp(x) * 2 + x), tnf.sum(tnf.exp(-x), axis=0), tnf.exp(tnf.sin(x)).T + x

    def loops(x: tnf.TracedTensor) -> object:
        step = lambda i, c: tnf.sin(c) * 0.9 + tnf.cos(x[0, :7])
        one = tnf.fori_loop(0, 400, step, x[0, :7])
        carry, ys = tnf.scan(lambda c, r: (tnf.sin(c + r), tnf.cos(c)), x[1], x[:500])
        return one, carry, ys

    def products(x: tnf.TracedTensor) -> object:
        small = tnf.lax.conv_general_dilated(
            x[None, None, :500, :500], kernel[None, None], (1, 1), "SAME"
        )
        return x @ x[:, :400], tnf.sum(x[:, None, :3] * x[None, :, :3], axis=2), small

    asked: list[str] = []
    for fn in (sums, loops, products):
        program = tnf.compile(fn, x)
        with_threads = tnf.GraphExecutor(threads=4)
        expected = [with_threads.run(program, x) for _ in range(3)][-1]
        with monkeypatch.context() as patch:
            names = without_threads(patch, count)
            executor = tnf.GraphExecutor(threads=4)
            for _ in range(4):
                results = executor.run(program, x)
                for result, value in zip(results, expected, strict=True):
                    np.testing.assert_array_equal(result, value)
        asked += names
    assert asked
