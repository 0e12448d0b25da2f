"""NumPy's state during a run: there are no floating-point warnings, and ufuncs have smaller buffers.

NumPy copies broadcast operands to buffers. If rows are shorter than a buffer, this takes as long as the computation.
The state belongs to the thread, and is restored after the run.
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
"""Number of elements in the buffer of a ufunc; NumPy's default of 8192 is not faster."""


@contextmanager
def numpy_state() -> Generator[None]:
    """Return a context manager in which warnings are suppressed and the buffer size is set.

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
"""Contexts of each thread in which NumPy's state is set; entering one takes a tenth of the time of creating one.

A context cannot be entered twice at the same time, so a nested call enters another one.
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
