"""Work as a number of calls, which is the same on every machine and however busy it is."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def at_most(calls: int) -> Iterator[None]:
    """Fail where the block calls more functions, of Python and of C, than `calls`.

    Stops at the limit, so that work without end is red and not endless.
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
    """Python calls by name while `function` runs."""
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
