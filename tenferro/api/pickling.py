"""Pickling of wrapped functions, such as `jit(f)`: by their global name, or as a call that wraps the function again."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["reduced"]


def reduced(wrapper: object, make: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return the value that the method `__reduce__` of a wrapper must return.

    A wrapper that is a decorated global function is pickled by its global name, because the function inside it has
    none. Otherwise, loading calls `make(*args, **options)`. Programs are not pickled, but traced again after loading.

    >>> reduced(lambda: None, int, "12", base=3)[0]()
    5
    """
    if _is_global(wrapper):
        return getattr(wrapper, "__qualname__")  # noqa: B009  # because objects have none in their types
    return functools.partial(make, *args, **options), ()


def _is_global(wrapper: object) -> bool:
    """Return whether the wrapper is the object that its module contains under the wrapper's qualified name."""
    attribute: object = sys.modules.get(getattr(wrapper, "__module__", None) or "")
    for name in getattr(wrapper, "__qualname__", "<none>").split("."):
        attribute = getattr(attribute, name, None)
    return attribute is wrapper
