"""The state of NumPy that kernels run in: no warnings about floating point, and buffers as long as rows.

Where an operand repeats itself along an axis, NumPy's loops copy their operands through buffers, which takes as
long as the work, unless a row is as long as a buffer. Both are the thread's own, and as before afterwards.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["BUFFER", "buffer_for", "numpy_state", "quietly"]

BUFFER = 1024
"""Elements of a buffer. NumPy has 8192 unless told otherwise, and is no faster with them."""


def buffer_for(row: int) -> int:
    """Elements of a buffer for arrays with such rows.

    >>> buffer_for(100), buffer_for(700), buffer_for(5000)
    (1024, 688, 1024)
    """
    return row // 16 * 16 if BUFFER // 4 <= row < BUFFER else BUFFER


@contextmanager
def numpy_state(buffer: int = BUFFER) -> Generator[None]:
    """A context in which NumPy is silent, and has buffers of the given number of elements.

    >>> with numpy_state():
    ...     np.log(0.0), np.getbufsize()
    (np.float64(-inf), 1024)
    """
    with np.errstate(all="ignore"):
        before = np.setbufsize(buffer)
        try:
            yield
        finally:
            np.setbufsize(before)


class _Prepared(threading.local):
    """Prepared contexts of each thread: to enter one costs a tenth of creating one.

    A context is entered once at a time; what comes back here from within takes another.
    """

    def __init__(self) -> None:
        self.contexts: list[contextvars.Context] = []

    def new(self) -> contextvars.Context:
        """One more."""
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
        context.run(np.setbufsize, BUFFER)
        return context


_PREPARED = _Prepared()


def quietly(function: Callable[..., Any], arguments: Sequence[Any], calls_back: bool) -> Any:
    """The result of a function that is run in that state.

    Args:
        calls_back: whether the function may read or set context variables of the caller, as an extension's
            kernel may.

    >>> quietly(np.log, [np.zeros(1)], calls_back=False)
    array([-inf])
    """
    if calls_back:
        with numpy_state():
            return function(*arguments)
    contexts = _PREPARED.contexts
    context = contexts.pop() if contexts else _PREPARED.new()
    try:
        return context.run(function, *arguments)
    finally:
        contexts.append(context)
