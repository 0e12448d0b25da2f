"""Compilations that are running. Forks and the exit of the process wait for them.

A child process that is forked during an import or a compilation inherits a partial module, or a lock that is never
released. Up to Python 3.13, a daemon thread that requests the interpreter's lock after the main thread ended is unwound
immediately. If the thread is in C++ code, such as LLVM or optree, the unwinding aborts the process (SIGABRT).
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

MAX_WAIT_SECONDS = 10.0
"""Maximum time in seconds that a fork or the exit of the process waits."""
CALL_SECONDS = 0.02
"""Time in seconds in which threads may finish a running C++ call, or enter a compilation. The exit waits afterwards."""


class _Threads(threading.local):
    """The number of nested compilations in the current thread."""

    depth = 0


_threads = _Threads()
_compiling: set[int] = set()
_may_begin = threading.Event()
_may_begin.set()
_locks: list[Any] = []
_is_exiting = False


@contextmanager
def until_compiled() -> Generator[None]:
    """Return a context for a compilation. Forks and the exit of the process wait until it ends.

    A daemon thread that enters the context after the exit began is blocked.
    """
    me = threading.get_ident()
    if _threads.depth == 0:
        stop_at_exit()
        _compiling.add(me)
        while not _may_begin.is_set():  # a fork is running that did not see this thread
            _compiling.discard(me)
            _may_begin.wait(MAX_WAIT_SECONDS)
            _compiling.add(me)
    _threads.depth += 1
    try:
        yield
    finally:
        _threads.depth -= 1
        if _threads.depth == 0:
            _compiling.discard(me)


def _wait_for_others() -> None:
    end = time.monotonic() + MAX_WAIT_SECONDS
    while _compiling - {threading.get_ident()} and time.monotonic() < end:
        time.sleep(0.002)


# ---- the exit of the process -------------------------------------------------------------------------


@cache
def watch_exit() -> None:
    """Make the exit of the process wait for daemon threads that compile.

    Exit functions run in reverse order. Import optree before this call: the exit function of optree clears its
    registry, and must run last.
    """
    atexit.register(_wait_at_exit)


def stop_at_exit() -> None:
    """Block this thread for ever if it is a daemon, the process is exiting, and the thread is not compiling."""
    if _is_exiting and _threads.depth == 0 and threading.current_thread().daemon:
        threading.Event().wait()


def _wait_at_exit() -> None:
    global _is_exiting
    _is_exiting = True
    if threading.active_count() > 1:
        time.sleep(CALL_SECONDS)
    _wait_for_others()


# ---- forks -------------------------------------------------------------------------------------------


def hold_over_forks(lock: Any) -> None:
    """Make each fork acquire `lock` after compilations have ended, and release it in parent and child."""
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
