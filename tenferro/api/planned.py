"""Surface functions that come to the same ops for the same types, so that an eager runtime may keep them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, Unpack

import numpy as np

from tenferro.api.arguments import refuse_options
from tenferro.types import DType, UfuncOptions

__all__ = ["NotFixedError", "elementwise", "fixed", "planned"]

Function = TypeVar("Function", bound=Callable[..., Any])


def planned(function: Function) -> Function:
    """A surface function of tensors that gives one tensor, by ops that do not depend on elements.

    A tensor class takes part by `__tenferro_call__(function, given, options)`, a static method that gives what
    the function would.
    """

    @functools.wraps(function)
    def call(*given: Any, **options: Unpack[UfuncOptions]) -> Any:
        handler = getattr(type(given[0]), "__tenferro_call__", None) if given else None
        if handler is None:
            return function(*given, **options)
        return handler(function, given, options)

    return call  # pyright: ignore[reportReturnType]  # because it has the function's signature


def elementwise(function: Function) -> Function:
    """A planned function of operands alone; what NumPy's ufuncs take beside them is refused by name."""
    count = function.__code__.co_argcount

    @functools.wraps(function)
    def call(*given: Any, **options: Unpack[UfuncOptions]) -> Any:
        if options:
            refuse_options(call.__name__, options)
        if len(given) == count + 1:
            refuse_options(call.__name__, {}, given[count])
            given = given[:count]
        handler = getattr(type(given[0]), "__tenferro_call__", None) if given else None
        if handler is None:
            return function(*given)
        return handler(function, given, {})

    return call  # pyright: ignore[reportReturnType]  # because it has the function's signature


class NotFixedError(Exception):
    """An argument that is no part of a key."""


def fixed(argument: Any) -> Any:
    """An argument as a part of a key: equal only to the key of the same one, `True` not to that of 1.

    >>> fixed((2, None)), fixed(slice(1, 5)) == fixed(slice(1, 5, 1)), fixed(True) == fixed(1)
    ((2, None), False, False)

    Raises:
        NotFixedError: an array, a float, or what is not known to be a plain value.
    """
    kind = type(argument)
    if kind is int or kind is str or argument is None:
        return argument
    if kind is tuple:
        return tuple([fixed(entry) for entry in argument])
    if kind is slice:
        return (slice, fixed(argument.start), fixed(argument.stop), fixed(argument.step))
    if kind in _PLAIN or isinstance(argument, np.dtype):
        return (kind, argument)
    raise NotFixedError


_PLAIN = frozenset({bool, type, DType, type(Ellipsis)})
