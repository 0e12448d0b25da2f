"""NumPy's state during a run, which belongs to the thread: no floating-point warnings, and smaller ufunc buffers.

NumPy copies broadcast operands to buffers. If rows are shorter than a buffer, the copy takes as long as the
computation.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["call_in_numpy_state", "numpy_state"]

BUFFER_ELEMENTS = 1024
"""Number of elements in the buffer of a ufunc; NumPy's default is 8192."""


@contextmanager
def numpy_state() -> Generator[None]:
    """Suppress warnings and set the buffer size during a `with` statement.

    >>> with numpy_state():
    ...     np.log(0.0), np.getbufsize()
    (np.float64(-inf), 1024)
    """
    with np.errstate(all="ignore"):
        before = np.setbufsize(BUFFER_ELEMENTS)
        try:
            yield
        finally:
            np.setbufsize(before)


_PREPARED = threading.local()
"""Cached contexts of each thread in which NumPy's state is set.

Entering a context takes a tenth of the time of creating it. A nested call enters another context, because a context
cannot be entered twice at the same time.
"""


def call_in_numpy_state(
    function: Callable[..., Any], arguments: Sequence[Any], calls_back: bool
) -> Any:
    """Call a function in the state of `numpy_state`, and return its result.

    Args:
        calls_back: whether the function may access context variables of the caller, as an extension's runtime may.

    >>> call_in_numpy_state(np.log, [np.zeros(1)], calls_back=False)
    array([-inf])
    """
    if calls_back:
        with numpy_state():
            return function(*arguments)
    contexts: list[contextvars.Context] = _PREPARED.__dict__.setdefault("contexts", [])
    if contexts:
        context = contexts.pop()
    else:
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
        context.run(np.setbufsize, BUFFER_ELEMENTS)
    try:
        return context.run(function, *arguments)
    finally:
        contexts.append(context)
