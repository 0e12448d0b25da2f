"""The threads that an executor works with."""

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
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from tenferro.exec.runtime.numpy_state import numpy_state
from tenferro.forks import call_in_child
from tenferro.interruption import is_interruption

__all__ = ["ALONE", "WORTH", "Ahead", "Workers"]

T = TypeVar("T")
Task: TypeAlias = tuple[
    Callable[[int, int], None], int, int, "list[BaseException | None]", "SimpleQueue[None]"
]
"""A function, the part of the work it is called on, where its error goes, and who is told that it has ended."""
WORTH = 300.0
"""Microseconds of one thread that are worth sharing: another wakes, and is waited for, in 60 to 100."""


class Workers:
    """Threads that are made when first needed, and wait at a queue: waking one costs as much as a small
    kernel, and futures would cost it twice. The caller works with them.

    Args:
        threads: how many work at once; None takes the cores that the process may use. `count` has that number, and
            a smaller one once the system has refused to start a thread: the caller does the rest.
    """

    def __init__(self, threads: int | None) -> None:
        self.count = _cores() if threads is None else threads
        self.abandon()
        call_in_child(self.abandon)
        self._members: list[threading.Thread] = []
        self._avoided: int | None = None

    def share(self, work: Callable[[int, int], None], rows: int, step: int = 1) -> None:
        """Call work(start, stop) on parts of `rows` that are multiples of `step`, all at once."""
        self._share(work, rows, step, takes_back=False)

    def _share(
        self, work: Callable[[int, int], None], rows: int, step: int, takes_back: bool
    ) -> None:
        tiles = -(-rows // step)
        tasks = self._at_work() if min(self.count, tiles) > 1 else None
        count = min(self.count, tiles)  # of the threads that there are
        if tasks is None or count <= 1:
            work(0, rows)
            return
        cuts = [min(rows, step * (tiles * i // count)) for i in range(count + 1)]
        self._avoid_caller()
        ended, done = list[BaseException | None](), SimpleQueue[None]()
        first, *parts = [(work, start, stop, ended, done) for start, stop in pairwise(cuts)]
        sent, sending = list[None](), map(tasks.put, parts)
        try:
            sent.extend(sending)  # by one call, so that a signal finds them all sent, or none
            work(*first[1:3])
        finally:
            if takes_back:
                _take_back(tasks, ended)
            # All have ended before this returns, so that nothing writes to a result afterwards.
            _await(lambda: len(ended) < len(sent), done)
        for error in ended:
            if error is not None:
                raise error

    def deal(self, work: Callable[[int], object], count: int) -> None:
        """Call work(number) for each number below `count`; threads take the next one when they are ready."""
        numbers = iter(range(count))

        def some(first: int, last: int) -> None:
            for number in numbers:
                work(number)

        self._share(some, min(count, self.count), 1, takes_back=True)

    def _at_work(self) -> SimpleQueue[Task | None]:
        """Where the threads wait for tasks."""
        with self._lock:
            if self._team is None:
                tasks = SimpleQueue[Task | None]()
                self._avoided = None
                self._members = []
                for number in range(1, self.count):
                    member = threading.Thread(
                        target=_serve, args=(tasks,), name=f"tenferro_{number}", daemon=True
                    )
                    if not _is_started(member):
                        break
                    self._members.append(member)
                self.count = 1 + len(self._members)
                self._team = tasks
                # Not at exit: whatever runs then may need them still, and nothing waits for them.
                weakref.finalize(self, _dismiss, tasks, len(self._members)).atexit = False
            return self._team

    def _avoid_caller(self) -> None:
        """Let the threads run on all cores that the caller may use but on the one that it runs on.

        Virtual machines take a core that idled for some milliseconds for one that is busy elsewhere, and wake a thread
        on the core that it is woken from, where it waits until the caller has ended. Nothing of the caller's changes.
        """
        core = _core()
        if core is None or core == self._avoided:
            return
        self._avoided = core
        if others := os.sched_getaffinity(0) - {core}:
            for number in [member.native_id for member in self._members]:
                if number:  # because 0 is the caller
                    with suppress(
                        OSError
                    ):  # because the system may forbid it, which costs time alone
                        os.sched_setaffinity(number, others)

    def abandon(self) -> None:
        """Have no threads yet, as in a process that was forked."""
        self._lock = threading.Lock()
        self._team: SimpleQueue[Task | None] | None = None


class Ahead(Generic[T]):
    """The value of a function that a thread of its own computes meanwhile.

    It is none of a team, whose members wait for parts of the work that the caller does. To fork waits for it: what it
    holds, as LLVM's lock, nobody would give back in the child. Where no thread can be started, the caller computes it
    at once.

    >>> Ahead(lambda: 6 * 7).value()
    42
    """

    _all: ClassVar[weakref.WeakSet[Ahead[Any]]] = weakref.WeakSet()

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._values: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._compute, name="tenferro_ahead")
        self._all.add(self)
        if not _is_started(self._thread):
            self._compute()
            error: Any = self._error
            if error is not None and (not isinstance(error, Exception) or is_interruption(error)):
                raise error

    def is_there(self) -> bool:
        """Whether nobody would wait for the value."""
        return not self._thread.is_alive()

    def value(self) -> T:
        """The value, once it is there; the function's error is raised here."""
        if self._thread.ident is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        return self._values[0]

    @classmethod
    def wait_for_all(cls) -> None:
        """Return once none is under way."""
        for each in list(cls._all):
            thread = each._thread
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join()

    def _compute(self) -> None:
        try:
            self._values.append(self._function())
        except BaseException as error:  # because it is raised again where the value is wanted
            self._error = error


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=Ahead.wait_for_all)


def _is_started(thread: threading.Thread) -> bool:
    """Start a thread; return whether the system had one to give."""
    try:
        thread.start()
    except RuntimeError:  # as limits, sandboxes and browsers refuse one
        return False
    return True


def _serve(tasks: SimpleQueue[Task | None]) -> None:
    """Serve as a thread: run one task after the other, until there is none."""
    with numpy_state():
        while (task := tasks.get()) is not None:
            _do(task)
            del task  # because arrays must not live until the next task


def _do(task: Task) -> None:
    """Do one task and say so."""
    work, start, stop, ended, done = task
    error = None
    try:
        work(start, stop)
    except BaseException as raised:  # because it is raised again where the result is wanted
        error = raised
    ended.append(error)
    done.put(None)


def _take_back(tasks: SimpleQueue[Task | None], ended: list[BaseException | None]) -> None:
    """Do those tasks of a caller that no thread has begun yet: waking may take longer than the work."""
    while True:
        try:
            task = tasks.get_nowait()
        except Empty:
            return
        if task is None or task[3] is not ended:
            tasks.put(task)  # because it is another caller's
            return
        _do(task)


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


def _core_number() -> Callable[[], int] | None:
    """The C function that gives the number of the caller's core; None where there is none."""
    if sys.platform != "linux" or not hasattr(os, "sched_setaffinity"):
        return None
    return getattr(ctypes.PyDLL(None), "sched_getcpu", None)


_CORE_NUMBER = _core_number()


def _core() -> int | None:
    """The number of the core that the caller runs on, as far as the system tells."""
    core = None if _CORE_NUMBER is None else _CORE_NUMBER()
    return core if core is not None and core >= 0 else None


def _cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


ALONE = Workers(1)
"""The caller."""
