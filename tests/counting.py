"""Measurement of work by counting function calls, which depends neither on the machine nor on its load."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def at_most(calls: int) -> Iterator[None]:
    """Fail if the body of the `with` statement makes more than `calls` calls of Python and C functions.

    The body is interrupted at the limit, so that an endless loop fails, too.
    """
    left = calls

    def note(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            sys.setprofile(before)
            raise AssertionError(f"more than {calls} calls")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


def calls(function: Callable[[], object]) -> Counter[str]:
    """Run a function, and count how often each Python function is called, by name."""
    names: Counter[str] = Counter()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            names[frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return names
