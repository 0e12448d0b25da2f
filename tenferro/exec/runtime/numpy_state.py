"""NumPy's state in kernels: no floating-point warnings, and ufunc buffers of the length of rows.

NumPy copies broadcast operands into buffers, which takes as long as the computation unless a row is as long as a
buffer. The state belongs to the thread, and is restored afterwards.
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
"""Number of elements per ufunc buffer. NumPy's default of 8192 is not faster."""


@contextmanager
def numpy_state() -> Generator[None]:
    """Suppress warnings and set the buffer size in a context.

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
"""Prepared contexts of each thread; entering one takes a tenth of the time of creating a new one.

A context that is already entered cannot be entered again; a nested call uses another."""


def call_in_numpy_state(
    function: Callable[..., Any], arguments: Sequence[Any], calls_back: bool
) -> Any:
    """Call a function in this state, and return its result.

    Args:
        calls_back: the function may access context variables of the caller, as an extension's kernel may.

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
