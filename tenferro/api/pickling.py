"""What pickle keeps of a function that was made from a function: its global name, or how it was made."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["reduced"]


def reduced(wrapper: object, make: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What `__reduce__` of the wrapper gives: programs that it keeps are made anew where it is loaded.

    A decorated function is found under its name, where its own function is not: that name is what is kept.

    >>> reduced(lambda: None, int, "12", base=3)[0]()
    5
    """
    if _is_global(wrapper):
        return getattr(wrapper, "__qualname__")  # noqa: B009  # because objects have none in their types
    return functools.partial(make, *args, **options), ()


def _is_global(wrapper: object) -> bool:
    """Whether its module, or a class there, has this very object under its name."""
    place: object = sys.modules.get(getattr(wrapper, "__module__", None) or "")
    for name in getattr(wrapper, "__qualname__", "<none>").split("."):
        place = getattr(place, name, None)
    return place is wrapper
