"""Functions to call in forked child processes, for example to replace locks that threads of the parent held.

>>> class Counter:
...     def __init__(self):
...         self.renew()
...         call_in_child(self.renew)
...
...     def renew(self):
...         self.lock = threading.Lock()
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import cached_property
from types import MethodType
from typing import Any

__all__ = ["call_in_child"]

PACKAGES = ("tenferro", "lowering", "xla_peer")
_functions: list[Callable[[], Any]] = []
_methods: set[weakref.WeakMethod[Callable[[], Any]]] = set()


def call_in_child(function: Callable[[], Any]) -> None:
    """Register a function to call in each forked child process.

    A bound method is called only while its object exists.
    """
    if isinstance(function, MethodType):
        _methods.add(weakref.WeakMethod(function, _methods.discard))
    else:
        _functions.append(function)


def _call_functions() -> None:
    for function in [*_functions, *[reference() for reference in list(_methods)]]:
        if function is not None:
            function()


def _renew_locks_of_properties() -> None:
    """Give each `cached_property` a new lock. In Python 3.11, all instances of the class share the lock."""
    for cached in _cached_properties():
        cached.lock = threading.RLock()


def _cached_properties() -> Iterator[Any]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in PACKAGES:
            continue
        for cls in list(vars(module).values()):
            if isinstance(cls, type) and cls.__module__ == name:
                yield from [each for each in vars(cls).values() if type(each) is cached_property]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_call_functions)
    if sys.version_info < (3, 12):
        os.register_at_fork(after_in_child=_renew_locks_of_properties)
