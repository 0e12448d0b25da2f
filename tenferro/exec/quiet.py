"""Calls without floating-point warnings, for less than `np.errstate` costs around one small kernel."""

from __future__ import annotations

import contextvars
import threading

import numpy as np

__all__ = ["QUIET"]


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
