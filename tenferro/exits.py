"""The end of the process: it waits for daemon threads that trace or compile, and lets no other begin.

Up to Python 3.13 a daemon thread that asks for the interpreter's lock after the main thread's end is unwound where it
stands. In the middle of C++, as of LLVM's or optree's, that ends the process by SIGABRT.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

from tenferro.forks import call_in_child

__all__ = ["stop_at_exit", "until_compiled", "watch_exit"]

MAX_SECONDS = 10.0
"""Longest wait at exit, in seconds."""
SECONDS_OF_A_CALL = 0.02
"""Time for threads to leave a call of C++ that is under way, or to enter a compilation that they were about to."""


class _Threads(threading.local):
    """The number of computations under way in this thread, one inside of the other."""

    depth = 0


_threads = _Threads()
_compiling: set[int] = set()
_is_ending = False


@cache
def watch_exit() -> None:
    """Have the end of the process wait for daemon threads.

    Functions at exit are called in reverse order: optree has to be imported before, whose own takes its registry away.
    """
    atexit.register(_wait)


def stop_at_exit() -> None:
    """Stop a daemon thread that is outside of any compilation, once the process ends."""
    if _is_ending and _threads.depth == 0 and threading.current_thread().daemon:
        threading.Event().wait()


@contextmanager
def until_compiled() -> Generator[None]:
    """Let the end of the process wait for the body; a daemon thread does not begin it any more then."""
    if _threads.depth == 0:
        stop_at_exit()
        _compiling.add(threading.get_ident())
    _threads.depth += 1
    try:
        yield
    finally:
        _threads.depth -= 1
        if _threads.depth == 0:
            _compiling.discard(threading.get_ident())


def _wait() -> None:
    global _is_ending
    _is_ending = True
    if threading.active_count() > 1:
        time.sleep(SECONDS_OF_A_CALL)
    end = time.monotonic() + MAX_SECONDS
    while _compiling - {threading.get_ident()} and time.monotonic() < end:
        time.sleep(0.002)


call_in_child(_compiling.clear)
