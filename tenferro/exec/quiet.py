"""Calls without floating-point warnings, for less than `np.errstate` costs around one small kernel."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["quietly"]


class Quiet(threading.local):
    """For each thread a context in which NumPy says nothing of what is not finite.

    `run(function, *arrays)` calls within it. A context is entered once at a time, so `function` must not
    come back here: kernels do not, and extensions, which may do anything, are not called so.
    """

    def __init__(self) -> None:
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
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
