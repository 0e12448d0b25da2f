"""Exceptions raised by signal handlers. They concern the caller, and are not failures of a kernel.

Python runs signal handlers between two bytecodes of the main thread. An exception from a handler (a time limit, a
request to stop) can therefore be raised in any computation that is running.
"""

from __future__ import annotations

import functools
import signal
import threading
from types import CodeType, FrameType
from typing import Any

__all__ = ["is_interruption"]


def is_interruption(error: BaseException) -> bool:
    """Return whether a signal handler raised the exception, which then passed through the interrupted code.

    A frame of the traceback counts as the frame of a handler in two cases. In the first case, an argument of its
    function is the frame that called it, which Python passes to handlers. In the second case, its function is a handler
    that is installed now.

    >>> is_interruption(ValueError("of a kernel"))
    False
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    frames: list[FrameType] = []
    traceback = error.__traceback__
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    if any(map(_receives_caller_frame, frames)):
        return True
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    return any([frame.f_code in handlers for frame in frames])


def _receives_caller_frame(frame: FrameType) -> bool:
    """Return whether an argument of the function is the frame that called it."""
    caller = frame.f_back
    if caller is None:
        return False
    code = frame.f_code
    count = (
        code.co_argcount + code.co_kwonlyargcount + 2
    )  # plus *args and **kwargs, if the function has them
    values = [frame.f_locals.get(name) for name in code.co_varnames[:count]]
    return any([x is caller or (type(x) is tuple and any(y is caller for y in x)) for x in values])


def _code_of(handler: Any) -> CodeType | None:
    """Return the code object of a signal handler. Return None if the handler is not written in Python."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    handler = getattr(handler, "__func__", handler)
    method = handler if hasattr(handler, "__code__") else vars(type(handler)).get("__call__")
    return getattr(method, "__code__", None)
