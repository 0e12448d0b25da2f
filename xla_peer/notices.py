"""Notices on the error stream: long operations, while they run and when they are done, and known faults."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

__all__ = ["NOTICES_VARIABLE", "noticed", "notify_once", "silenced"]

NOTICES_VARIABLE = "TENFERRO_NOTICES"
"""`off` silences all notices."""

PATIENCE = 2.0
"""Seconds after which an operation is reported."""

_notified: set[str] = set()
_IS_SILENCED: ContextVar[bool] = ContextVar("tenferro_notices_are_silenced", default=False)


@contextmanager
def silenced(silence: bool = True) -> Generator[None]:
    """Suppress notices while the body runs."""
    token = _IS_SILENCED.set(silence)
    try:
        yield
    finally:
        _IS_SILENCED.reset(token)


@contextmanager
def noticed(doing: str, done: str, wanted: bool = True) -> Generator[None]:
    """Report on the error stream when the body has run for two seconds, and its total time at the end.

    A shorter body is not reported.

    >>> with noticed("sleeping", "slept"):
    ...     pass
    """
    if not (wanted and _is_enabled()):
        yield
        return
    start, patience = time.monotonic(), PATIENCE
    timer = threading.Timer(patience, _say, [f"{doing}: {patience:.3g} s so far .."])
    timer.daemon = True
    with suppress(RuntimeError):  # because limits may refuse a thread
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
    if timer.ident is not None:
        timer.join()
    seconds = time.monotonic() - start
    if seconds > patience:
        _say(f"{done} in {seconds:.1f} s")


def notify_once(text: str) -> None:
    """Report a text on the error stream, unless it is empty or was reported in this process before.

    >>> notify_once("")
    """
    if text and text not in _notified and _is_enabled():
        _notified.add(text)
        _say(text)


def _is_enabled() -> bool:
    return not _IS_SILENCED.get() and os.environ.get(NOTICES_VARIABLE) != "off"


def _say(text: str) -> None:
    if sys.stderr is not None:  # because pythonw has no error stream
        print(f"tenferro: {text}", file=sys.stderr, flush=True)
