"""A core for each of the threads that work on one thing.

Between two calls of NumPy, Python's threads hand a lock to each other. Whoever has to wait for it sleeps, and is
woken on the core of the thread that let go, if nothing keeps it from there: then two share a core, and another
core is idle for as long as the operating system takes to see it, which is longer than most programs run.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

__all__ = ["Cores"]


class Cores:
    """Those of a few threads and of whoever calls them.

    Where the operating system has no such setting, or does not permit it, nothing is done.

    Args:
        threads: that have started.
    """

    def __init__(self, threads: Sequence[threading.Thread]) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._dealt: tuple[int, set[int]] | None = None
        self._here = _core()

    def own(self) -> set[int]:
        """The cores that the calling thread may use; none where they cannot be told."""
        return os.sched_getaffinity(0) if self._here is not None else set()

    def part(self, own: set[int]) -> None:
        """Keep the calling thread where it is, which may use these cores, and the others away from there."""
        if len(own) < 2 or self._here is None:
            return
        here = self._here()
        try:
            with self._lock:
                if self._dealt != (here, own):
                    self._deal(sorted(own - {here}))
                    self._dealt = here, own
            os.sched_setaffinity(0, {here})
        except OSError:  # because a sandbox may forbid it
            self._here = None

    def rejoin(self, own: set[int]) -> None:
        """Let the calling thread use these cores again."""
        if len(own) > 1:
            with suppress(OSError):
                os.sched_setaffinity(0, own)

    def _deal(self, others: Sequence[int]) -> None:
        count = len(self._threads)
        for number, thread in enumerate(self._threads):
            cores = others[number::count] or [others[number % len(others)]]
            os.sched_setaffinity(thread.native_id or 0, cores)


def _core() -> Callable[[], int] | None:
    """A function that tells on which core it is called."""
    if sys.platform != "linux" or not hasattr(library := ctypes.PyDLL(None), "sched_getcpu"):
        return None
    found = library.sched_getcpu
    found.argtypes, found.restype = [], ctypes.c_int
    return found  # type: ignore[no-any-return]
