"""API functions whose ops depend only on the types of the operands. An eager runtime can cache plans for them."""

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
    """Wrap a function that returns one tensor, and whose ops do not depend on the elements of the operands.

    If the class of the first argument has the static method `__tenferro_call__(function, arguments, options)`, a call
    of the wrapper returns what this method returns. The method may run the function by a cached plan.
    """

    @functools.wraps(function)
    def call(*arguments: Any, **options: Unpack[UfuncOptions]) -> Any:
        handler = getattr(type(arguments[0]), "__tenferro_call__", None) if arguments else None
        if handler is None:
            return function(*arguments, **options)
        return handler(function, arguments, options)

    return call  # pyright: ignore[reportReturnType]  # because it has the function's signature


def elementwise(function: Function) -> Function:
    """Wrap a function of operands, as `planned` does. Options of NumPy's ufuncs must have their default values.

    The function's own options are its keyword-only arguments.
    """
    count = function.__code__.co_argcount
    names: Any = getattr(function, "__kwdefaults__", None) or ()

    @functools.wraps(function)
    def call(*arguments: Any, **options: Unpack[UfuncOptions]) -> Any:
        own: Any = {}
        if options:
            own = {name: options.pop(name) for name in names if name in options}
            refuse_options(call.__name__, options)
        if len(arguments) == count + 1:
            refuse_options(call.__name__, {}, arguments[count])
            arguments = arguments[:count]
        handler = getattr(type(arguments[0]), "__tenferro_call__", None) if arguments else None
        if handler is None:
            return function(*arguments, **own)
        return handler(function, arguments, own)

    return call  # pyright: ignore[reportReturnType]  # because it has the function's signature


class NotFixedError(Exception):
    """Error for an argument that cannot be part of the key of a cached plan."""


def fixed(argument: Any) -> Any:
    """Convert an argument to a part of a cache key. Keys are equal only for equal values of the same type.

    For example, the keys of `True` and 1 differ.

    >>> fixed((2, None)), fixed(slice(1, 5)) == fixed(slice(1, 5, 1)), fixed(True) == fixed(1)
    ((2, None), False, False)

    Raises:
        NotFixedError: the argument has no key, such as an array or a float.
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
