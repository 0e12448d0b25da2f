"""The threads that an executor works with."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from queue import SimpleQueue
from typing import Any, TypeAlias

import numpy as np

from tenferro.aligned import aligned_bytes, rounded
from tenferro.exec.cores import Cores

__all__ = ["Workers", "shared"]

Task: TypeAlias = tuple[
    Callable[[int, int], None], int, int, "list[BaseException | None]", "SimpleQueue[None]"
]
"""A function, the part of the work it is called on, where its error goes, and who is told that it has ended."""
LARGEST_SCRATCH = 1 << 26
"""Bytes that a thread keeps for one use."""


class Workers:
    """Threads that are made when first needed, and wait at a queue: waking one costs as much as a small
    kernel, and futures would cost it twice. Each has cores of its own. The caller waits, because its core is
    not ours to choose.

    Args:
        threads: how many work at once; None takes the machine's cores.
    """

    def __init__(self, threads: int | None) -> None:
        self.count = _cores() if threads is None else threads
        self._lock = threading.Lock()
        self._team: tuple[SimpleQueue[Task | None], Cores] | None = None
        self._local = threading.local()

    def share(self, work: Callable[[int, int], None], rows: int, step: int = 1) -> None:
        """Call work(start, stop) on parts of `rows` that are multiples of `step`, all at once."""
        tiles = -(-rows // step)
        count = min(self.count, tiles)
        if count <= 1:
            work(0, rows)
            return
        cuts = [min(rows, step * (tiles * i // count)) for i in range(count + 1)]
        tasks, cores = self._at_work()
        cores.deal()
        ended, done = list[BaseException | None](), SimpleQueue[None]()
        parts = [(work, start, stop, ended, done) for start, stop in pairwise(cuts)]
        sent, sending = list[None](), map(tasks.put, parts)
        try:
            sent.extend(sending)  # by one call, so that a signal finds them all sent, or none
        finally:
            # All have ended before this returns, so that nothing writes to a result afterwards.
            _await(lambda: len(ended) < len(sent), done)
        for error in ended:
            if error is not None:
                raise error

    def scratch(self, sizes: Sequence[int], use: str = "copies") -> list[Any]:
        """Arrays of so many bytes each, which are this thread's until it asks again for the same use."""
        rooms = list(map(rounded, sizes))
        pieces = self._local.__dict__
        piece = pieces.get(use)
        if piece is None or piece.size < sum(rooms):
            piece = aligned_bytes(sum(rooms))
            if piece.size <= LARGEST_SCRATCH:
                pieces[use] = piece
        ends = list(accumulate(rooms, initial=0))
        return [piece[start : start + size] for start, size in zip(ends, sizes, strict=False)]

    def _at_work(self) -> tuple[SimpleQueue[Task | None], Cores]:
        """Where the threads wait for tasks, and their cores."""
        with self._lock:
            if self._team is None:
                tasks = SimpleQueue[Task | None]()
                threads = [
                    threading.Thread(
                        target=_serve, args=(tasks,), name=f"tenferro_{number}", daemon=True
                    )
                    for number in range(self.count)
                ]
                for thread in threads:
                    thread.start()
                self._team = tasks, Cores(threads)
                # Not at exit: whatever runs then may need them still, and nothing waits for them.
                weakref.finalize(self, _dismiss, tasks, len(threads)).atexit = False
                if hasattr(os, "register_at_fork"):
                    mine = weakref.ref(self)
                    os.register_at_fork(after_in_child=lambda: _abandon(mine()))
            return self._team

    def abandon(self) -> None:
        """Forget the threads of the parent, in a process that was forked."""
        self._team = None


def _serve(tasks: SimpleQueue[Task | None]) -> None:
    """What a thread does: one task after the other, until there is none."""
    np.seterr(all="ignore")
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


def shared(
    workers: Workers | None, work: Callable[[int, int], None], rows: int, step: int = 1
) -> None:
    """Call work(start, stop) on parts of `rows`, by the threads there are."""
    if workers is None:
        work(0, rows)
    else:
        workers.share(work, rows, step)


def _cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _abandon(workers: Workers | None) -> None:
    if workers is not None:
        workers.abandon()
