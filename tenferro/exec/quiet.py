"""Calls without floating-point warnings, for less than `np.errstate` costs around one small kernel.

And with buffers that suit rows: where an operand repeats itself along an axis, NumPy's loops copy their
operands through buffers, which takes as long as the work, unless a row is as long as a buffer.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["BUFFER", "buffer_for", "quietly"]

BUFFER = 1024
"""Elements of a buffer. NumPy has 8192 unless told otherwise, and is no faster with them."""


def buffer_for(row: int) -> int:
    """Elements of a buffer for arrays with such rows.

    >>> buffer_for(100), buffer_for(700), buffer_for(5000)
    (1024, 688, 1024)
    """
    return row // 16 * 16 if BUFFER // 4 <= row < BUFFER else BUFFER


class Quiet(threading.local):
    """For each thread a context in which NumPy says nothing of what is not finite.

    `run(function, *arrays)` calls within it. A context is entered once at a time, so `function` must not
    come back here: kernels do not, and extensions, which may do anything, are not called so.
    """

    def __init__(self) -> None:
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
        context.run(np.setbufsize, BUFFER)
        self.run = context.run


QUIET = Quiet()


def quietly(function: Callable[..., Any], arguments: Sequence[Any], is_foreign: bool) -> Any:
    """What a function gives, NumPy saying nothing of what is not finite.

    Args:
        is_foreign: whether the function may come back here, as an extension's kernel may.

    >>> quietly(np.log, [np.zeros(1)], is_foreign=False)
    array([-inf])
    """
    if is_foreign:
        with np.errstate(all="ignore"):
            return function(*arguments)
    return QUIET.run(function, *arguments)
