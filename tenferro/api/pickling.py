"""Pickling of functions derived from functions: by their global names, or as a recipe."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["reduced"]


def reduced(wrapper: object, make: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return the value of `__reduce__` for a wrapper; after loading, its programs are traced again.

    A decorated function is pickled under its global name, because its inner function has none.

    >>> reduced(lambda: None, int, "12", base=3)[0]()
    5
    """
    if _is_global(wrapper):
        return getattr(wrapper, "__qualname__")  # noqa: B009  # because objects have none in their types
    return functools.partial(make, *args, **options), ()


def _is_global(wrapper: object) -> bool:
    """Return whether the function's module, or a class in it, holds this same object under its name."""
    attribute: object = sys.modules.get(getattr(wrapper, "__module__", None) or "")
    for name in getattr(wrapper, "__qualname__", "<none>").split("."):
        attribute = getattr(attribute, name, None)
    return attribute is wrapper
