"""Compilations under way, for which forks and the end of the process wait.

A child that is forked in the middle of an import or of LLVM has half of a module, or a lock that nobody releases. Up
to Python 3.13 a daemon thread that asks for the interpreter's lock after the main thread's end is unwound where it
stands: in the middle of C++, as of LLVM's or optree's, that ends the process by SIGABRT.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any

__all__ = ["hold_over_forks", "stop_at_exit", "until_compiled", "watch_exit"]

MAX_SECONDS = 10.0
"""Longest wait of a fork or of the end of the process, in seconds."""
SECONDS_OF_A_CALL = 0.02
"""Time for threads to leave a call of C++ that is under way, or to enter a compilation that they were about to."""


class _Threads(threading.local):
    """The number of computations under way in this thread, one inside of the other."""

    depth = 0


_threads = _Threads()
_compiling: set[int] = set()
_may_begin = threading.Event()
_may_begin.set()
_locks: list[Any] = []
_is_ending = False


@contextmanager
def until_compiled() -> Generator[None]:
    """Let forks and the end of the process wait for the body; a daemon thread does not begin it after the end."""
    me = threading.get_ident()
    if _threads.depth == 0:
        stop_at_exit()
        _compiling.add(me)
        while not _may_begin.is_set():  # because a fork that did not see this thread is under way
            _compiling.discard(me)
            _may_begin.wait(MAX_SECONDS)
            _compiling.add(me)
    _threads.depth += 1
    try:
        yield
    finally:
        _threads.depth -= 1
        if _threads.depth == 0:
            _compiling.discard(me)


def _wait_for_others() -> None:
    end = time.monotonic() + MAX_SECONDS
    while _compiling - {threading.get_ident()} and time.monotonic() < end:
        time.sleep(0.002)


# ---- the end of the process --------------------------------------------------------------------------


@cache
def watch_exit() -> None:
    """Have the end of the process wait for daemon threads.

    Functions at exit are called in reverse order: optree has to be imported before, whose own takes its registry away.
    """
    atexit.register(_wait_at_exit)


def stop_at_exit() -> None:
    """Stop a daemon thread that is outside of any compilation, once the process ends."""
    if _is_ending and _threads.depth == 0 and threading.current_thread().daemon:
        threading.Event().wait()


def _wait_at_exit() -> None:
    global _is_ending
    _is_ending = True
    if threading.active_count() > 1:
        time.sleep(SECONDS_OF_A_CALL)
    _wait_for_others()


# ---- forks -------------------------------------------------------------------------------------------


def hold_over_forks(lock: Any) -> None:
    """Have forks acquire a lock, after compilations have ended, and release it in both processes."""
    _locks.append(lock)


def _before_fork() -> None:
    _may_begin.clear()
    _wait_for_others()
    for lock in _locks:
        lock.__enter__()


def _after_fork() -> None:
    for lock in reversed(_locks):
        lock.__exit__(None, None, None)
    _may_begin.set()


def _after_fork_in_child() -> None:
    _compiling.intersection_update({threading.get_ident()})
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
    )
