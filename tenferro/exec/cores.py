"""Cores for each of the threads that work on one thing.

Between two calls of NumPy, Python's threads hand a lock to each other. Whoever has to wait for it sleeps, and is
woken on the core of the thread that let go, if nothing keeps it from there: then two share a core, and another
core is idle for as long as the operating system takes to see it, which is longer than most programs run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

__all__ = ["Cores"]


class Cores:
    """Those of the machine, dealt out among threads, so that no two have one in common as long as there are enough.

    Where the operating system has no such setting, or does not permit it, nothing is done.

    Args:
        threads: that have started.
    """

    def __init__(self, threads: Sequence[threading.Thread]) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._dealt: set[int] = set()
        self._can_be_dealt = hasattr(os, "sched_setaffinity")

    def deal(self) -> None:
        """Keep the threads to the cores that the calling thread may use."""
        if not self._can_be_dealt:
            return
        try:
            own = os.sched_getaffinity(0)
            if own == self._dealt:
                return
            with self._lock:
                cores, count = sorted(own), len(self._threads)
                for number, thread in enumerate(self._threads):
                    mine = cores[number::count] or [cores[number % len(cores)]]
                    os.sched_setaffinity(thread.native_id or 0, mine)
                self._dealt = own
        except OSError:  # because a sandbox may forbid it
            self._can_be_dealt = False
