"""Threads of an executor, which share the work on large arrays."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import TypeAlias

from tenferro.exec.runtime.numpy_state import numpy_state
from tenferro.forks import call_in_child

__all__ = ["SERIAL", "Workers", "even_ranges"]

Task: TypeAlias = tuple[
    Callable[[int, int], None], int, int, "list[BaseException | None]", "SimpleQueue[None]"
]
"""Function, start and end of its range, list to which its error or None is appended, and queue that signals the end."""


def even_ranges(extent: int, count: int) -> list[tuple[int, int]]:
    """Return `count` ranges that divide 0..extent, and whose lengths differ by at most one.

    >>> even_ranges(8, 3)
    [(0, 2), (2, 5), (5, 8)]
    """
    return [*pairwise([extent * i // count for i in range(count + 1)])]


class Workers:
    """Thread pool, which is started when it is first used; the calling thread does a share of the work.

    The threads wait for tasks in a queue, because waking a thread by a future takes twice as long.

    Args:
        threads: the number of threads, including the caller; None for one per core that the process may use.

    Attributes:
        count: the number of threads, which is smaller than requested if the system refuses to start a thread.
    """

    def __init__(self, threads: int | None) -> None:
        self.count = _core_count() if threads is None else threads
        self.reset()
        call_in_child(self.reset)
        self._threads: list[threading.Thread] = []
        self._excluded_core: int | None = None

    def parallel_for(self, work: Callable[[int, int], None], rows: int, step: int = 1) -> None:
        """Call work(start, stop) concurrently on ranges of 0..rows, whose starts are multiples of `step`."""
        tiles = -(-rows // step)
        tasks = self._start_threads() if min(self.count, tiles) > 1 else None
        count = min(self.count, tiles)  # `self.count` may be smaller after threads are started
        if tasks is None or count <= 1:
            work(0, rows)
            return
        self._set_affinity()
        ended, done = list[BaseException | None](), SimpleQueue[None]()
        first, *parts = [
            (work, step * start, min(rows, step * stop), ended, done)
            for start, stop in even_ranges(tiles, count)
        ]
        sent, sending = list[None](), map(tasks.put, parts)
        try:
            sent.extend(sending)  # one call, because a signal handler cannot interrupt it
            work(*first[1:3])
        finally:
            _run_pending(tasks, ended)
            # No task may write to a result after this function returns.
            _wait(lambda: len(ended) < len(sent), done)
        for error in ended:
            if error is not None:
                raise error

    def for_each(self, work: Callable[[int], object], count: int) -> None:
        """Call work(number) concurrently for each number below `count`; each thread takes the next number when idle."""
        numbers = iter(range(count))

        def run_numbers(first: int, last: int) -> None:
            for number in numbers:
                work(number)

        self.parallel_for(run_numbers, min(count, self.count))

    def _start_threads(self) -> SimpleQueue[Task | None]:
        """Start the threads unless they run already, and return their queue of tasks."""
        with self._lock:
            if self._tasks is None:
                tasks = SimpleQueue[Task | None]()
                self._excluded_core = None
                self._threads = []
                for number in range(1, self.count):
                    thread = threading.Thread(
                        target=_serve, args=(tasks,), name=f"tenferro_{number}", daemon=True
                    )
                    if not _is_started(thread):
                        break
                    self._threads.append(thread)
                self.count = 1 + len(self._threads)
                self._tasks = tasks
                # The threads are not stopped when the process exits, because other exit handlers may need them.
                weakref.finalize(self, _stop, tasks, len(self._threads)).atexit = False
            return self._tasks

    def _set_affinity(self) -> None:
        """Exclude the caller's core from the cores on which the other threads run.

        On a virtual machine that reports idle cores as busy, a woken thread would otherwise wait for the caller's core.
        """
        core = _current_core()
        if core is None or core == self._excluded_core:
            return
        self._excluded_core = core
        if others := os.sched_getaffinity(0) - {core}:
            for number in [thread.native_id for thread in self._threads]:
                if number:  # 0 would mean the calling thread
                    with suppress(OSError):  # the system may forbid to set the affinity
                        os.sched_setaffinity(number, others)

    def reset(self) -> None:
        """Forget all threads, because they do not exist in a forked process."""
        self._lock = threading.Lock()
        self._tasks: SimpleQueue[Task | None] | None = None


def _is_started(thread: threading.Thread) -> bool:
    """Start a thread, and return whether the system allowed it."""
    try:
        thread.start()
    except RuntimeError:  # resource limits, sandboxes and browsers may refuse threads
        return False
    return True


def _serve(tasks: SimpleQueue[Task | None]) -> None:
    """Run the tasks of a queue until the queue yields None."""
    with numpy_state():
        while (task := tasks.get()) is not None:
            _run_task(task)
            del task  # so that its arrays can be freed before the next task is received


def _run_task(task: Task) -> None:
    """Run a task, record the error that it raises, and notify its caller."""
    work, start, stop, ended, done = task
    error = None
    try:
        work(start, stop)
    except BaseException as raised:  # because the caller raises it again
        error = raised
    ended.append(error)
    done.put(None)


def _run_pending(tasks: SimpleQueue[Task | None], ended: list[BaseException | None]) -> None:
    """Run the caller's tasks that no thread has started, because waking a thread may take longer than the work."""
    while True:
        try:
            task = tasks.get_nowait()
        except Empty:
            return
        if task is None or task[3] is not ended:
            tasks.put(task)  # the task belongs to another caller
            return
        _run_task(task)


def _wait(is_pending: Callable[[], bool], done: SimpleQueue[None]) -> None:
    """Wait for all tasks, and then raise the exception of a signal handler that was called meanwhile, if any."""
    interrupt = None
    while is_pending():
        try:
            done.get()
        except BaseException as raised:  # raised only at the end, because threads are still writing
            interrupt = raised
    if interrupt is not None:
        raise interrupt


def _stop(tasks: SimpleQueue[Task | None], count: int) -> None:
    for _ in range(count):
        tasks.put(None)


_SCHED_GETCPU: Callable[[], int] | None = (
    getattr(ctypes.PyDLL(None), "sched_getcpu", None)
    if sys.platform == "linux" and hasattr(os, "sched_setaffinity")
    else None
)
"""Function sched_getcpu of the C library, or None."""


def _current_core() -> int | None:
    core = None if _SCHED_GETCPU is None else _SCHED_GETCPU()
    return core if core is not None and core >= 0 else None


def _core_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


SERIAL = Workers(1)
"""Workers without additional threads; the calling thread does all work."""
