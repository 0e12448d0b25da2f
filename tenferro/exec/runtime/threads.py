"""The threads that an executor works with."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from itertools import pairwise
from queue import SimpleQueue
from typing import TypeAlias

from tenferro.exec.runtime.numpy_state import numpy_state

__all__ = ["ALONE", "Workers"]

Task: TypeAlias = tuple[
    Callable[[int, int], None], int, int, "list[BaseException | None]", "SimpleQueue[None]"
]
"""A function, the part of the work it is called on, where its error goes, and who is told that it has ended."""


class Workers:
    """Threads that are made when first needed, and wait at a queue: waking one costs as much as a small
    kernel, and futures would cost it twice. The caller works with them.

    Args:
        threads: how many work at once; None takes the cores that the process may use.
    """

    def __init__(self, threads: int | None) -> None:
        self.count = _cores() if threads is None else threads
        self._lock = threading.Lock()
        self._team: SimpleQueue[Task | None] | None = None

    def share(self, work: Callable[[int, int], None], rows: int, step: int = 1) -> None:
        """Call work(start, stop) on parts of `rows` that are multiples of `step`, all at once."""
        tiles = -(-rows // step)
        count = min(self.count, tiles)
        if count <= 1:
            work(0, rows)
            return
        cuts = [min(rows, step * (tiles * i // count)) for i in range(count + 1)]
        tasks = self._at_work()
        ended, done = list[BaseException | None](), SimpleQueue[None]()
        first, *parts = [(work, start, stop, ended, done) for start, stop in pairwise(cuts)]
        sent, sending = list[None](), map(tasks.put, parts)
        try:
            sent.extend(sending)  # by one call, so that a signal finds them all sent, or none
            work(*first[1:3])
        finally:
            # All have ended before this returns, so that nothing writes to a result afterwards.
            _await(lambda: len(ended) < len(sent), done)
        for error in ended:
            if error is not None:
                raise error

    def _at_work(self) -> SimpleQueue[Task | None]:
        """Where the threads wait for tasks."""
        with self._lock:
            if self._team is None:
                tasks = SimpleQueue[Task | None]()
                for number in range(1, self.count):
                    threading.Thread(
                        target=_serve, args=(tasks,), name=f"tenferro_{number}", daemon=True
                    ).start()
                self._team = tasks
                # Not at exit: whatever runs then may need them still, and nothing waits for them.
                weakref.finalize(self, _dismiss, tasks, self.count - 1).atexit = False
                if hasattr(os, "register_at_fork"):
                    mine = weakref.ref(self)
                    os.register_at_fork(after_in_child=lambda: _abandon(mine()))
            return self._team

    def abandon(self) -> None:
        """Forget the threads of the parent, in a process that was forked."""
        self._team = None


def _serve(tasks: SimpleQueue[Task | None]) -> None:
    """Serve as a thread: run one task after the other, until there is none."""
    with numpy_state():
        while (task := tasks.get()) is not None:
            work, start, stop, ended, done = task
            error = None
            try:
                work(start, stop)
            except BaseException as raised:  # because it is raised again where the result is wanted
                error = raised
            ended.append(error)
            done.put(None)
            del task, work, ended, done, error  # because arrays must not live until the next task


def _await(is_pending: Callable[[], bool], done: SimpleQueue[None]) -> None:
    """Wait for all, whatever a handler of signals raises meanwhile; that is raised afterwards."""
    interrupt = None
    while is_pending():
        try:
            done.get()
        except BaseException as raised:  # because parts are still being written
            interrupt = raised
    if interrupt is not None:
        raise interrupt


def _dismiss(tasks: SimpleQueue[Task | None], count: int) -> None:
    for _ in range(count):
        tasks.put(None)


def _cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _abandon(workers: Workers | None) -> None:
    if workers is not None:
        workers.abandon()


ALONE = Workers(1)
"""The caller."""
