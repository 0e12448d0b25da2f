"""The cyclic garbage collector, at rest while graphs are made.

A graph is a great many small objects that all stay. The collector looks at them again and again as they
come, which takes as long as making them; nothing in them is garbage.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["without_collections"]

Function = TypeVar("Function", bound=Callable[..., Any])


def without_collections(function: Function) -> Function:
    """`function`, during which no cyclic garbage is looked for; afterwards it is as it was.

    >>> without_collections(gc.isenabled)(), gc.isenabled()
    (False, True)
    """

    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        if not gc.isenabled():
            return function(*args, **options)
        gc.disable()
        try:
            return function(*args, **options)
        finally:
            gc.enable()

    return called  # pyright: ignore[reportReturnType]  # because it has the function's signature
