"""Notices on the error stream about operations that take long, and about known faults of jaxlib."""

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
"""Name of an environment variable whose value `off` suppresses all notices."""

PATIENCE = 2.0
"""Seconds after which the first notice about an operation is printed."""

_notified: set[str] = set()
_IS_SILENCED: ContextVar[bool] = ContextVar("tenferro_notices_are_silenced", default=False)


@contextmanager
def silenced(silence: bool = True) -> Generator[None]:
    """Suppress notices while the body of the `with` statement runs; with `silence` false, do nothing."""
    token = _IS_SILENCED.set(silence)
    try:
        yield
    finally:
        _IS_SILENCED.reset(token)


@contextmanager
def noticed(doing: str, done: str, wanted: bool = True) -> Generator[None]:
    """Print a notice when the body of the `with` statement has run for two seconds, and another when it ends.

    The second notice contains the total time. If the body takes less than two seconds, nothing is printed.

    Args:
        doing: the text of the first notice, such as "compiling f".
        done: the text of the second notice, such as "compiled f".
        wanted: whether to print notices at all.

    >>> with noticed("sleeping", "slept"):
    ...     pass
    """
    if not (wanted and _is_enabled()):
        yield
        return
    start, patience = time.monotonic(), PATIENCE
    timer = threading.Timer(patience, _say, [f"{doing}: {patience:.3g} s so far .."])
    timer.daemon = True
    with suppress(RuntimeError):  # because the system may refuse to start a thread
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
    """Print a text on the error stream, unless it is empty or this process has already printed it.

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
