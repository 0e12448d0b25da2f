"""Tracebacks that end at the user's line. When an exception leaves tenferro, frames of tenferro are removed.

`public` decorates the functions that users call. A traceback contains the frames of the user's functions, but no
frames of tenferro and its libraries. `errors.show_internal_frames` and `TENFERRO_TRACEBACK=full` keep all frames.

Source: JAX's filtered tracebacks.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, TracebackType
from typing import Any, TypeVar, cast

import numpy as np

from tenferro.errors import AxisError, ConcretizationError, TenferroError, shows_internal_frames

__all__ = [
    "INTERNAL",
    "end_at_the_caller",
    "is_refusal_of_jax",
    "line_number",
    "public",
    "public_methods",
    "publish",
]

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(_PACKAGE)

INTERNAL = tuple(
    os.path.join(_ROOT, name) + os.sep for name in ("tenferro", "lowering", "xla_peer")
)
"""Folders of tenferro's source files."""

_GENERATED = "<tenferro"
"""Prefix of the file names of generated code."""

_SITE = os.path.dirname(os.path.dirname(os.path.abspath(np.__file__)))
_LIBRARIES = (
    *[str(module.__file__) for module in (contextlib, functools, threading)],
    os.path.join(os.path.dirname(threading.__file__), "concurrent") + os.sep,
    *[
        os.path.join(_SITE, name) + os.sep
        for name in ("numpy", "scipy", "optree", "opt_einsum", "ml_dtypes", "jax", "jaxlib")
    ],
)
"""Files of libraries.

Their frames are internal if tenferro called the library. If the user did, they are the user's.
"""

_HIDDEN = "raised inside tenferro; TENFERRO_TRACEBACK=full shows where"


def end_at_the_caller(error: BaseException, called: str = "") -> None:
    """Remove internal frames from the tracebacks of an exception, its causes and contexts, in place.

    Args:
        error: the exception.
        called: the function that the user called, which begins messages about axes. If it is empty, messages do not
            change.

    If an exception that is not a `TenferroError` was raised inside tenferro, a note is added that says how to show all
    frames.
    """
    _advise(error)
    if called and isinstance(error, AxisError):
        _name_the_called(error, called)
    if shows_internal_frames():
        return
    ends_inside = _ends_inside(error.__traceback__)
    if ends_inside and not isinstance(error, TenferroError) and not hasattr(error, "__notes__"):
        error.add_note(_HIDDEN)
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        link = pending.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            link.__traceback__ = _user_frames(link.__traceback__)
            pending += [link.__cause__, link.__context__]


def _advise(error: BaseException) -> None:
    """Add a note that names `tenferro.at` to the AttributeError for `.at` on a NumPy array."""
    if (
        isinstance(error, AttributeError)
        and error.name == "at"
        and isinstance(error.obj, np.ndarray)
        and not hasattr(error, "__notes__")
    ):
        error.add_note("tenferro.at(x)[index].set(values) takes NumPy arrays and tensors")
    if is_refusal_of_jax(error) and _OF_JAX not in getattr(error, "__notes__", ()):
        error.add_note(_OF_JAX)


_OF_JAX = (
    "the function is JAX's, and tenferro's tensors are not: xla_peer.native(f) runs it, and "
    "xla_peer.from_jax(f, *arguments) gives a program, which tenferro.grad and the other functions take"
)


_TRACED_BY_JAX = ("xla_peer.flat_function", "xla_peer.from_jax")
"""Modules in whose calls JAX traces a function, on its own tracers."""


def is_refusal_of_jax(error: BaseException) -> bool:
    """Return whether the error is from JAX, because a function of JAX was called on tensors of a trace.

    >>> is_refusal_of_jax(TypeError("unsupported operand"))
    False
    """
    if sys.modules.get("jax") is None:
        return False
    if isinstance(error, TypeError) and re.search(r"\b(Traced|Eager)Tensor\b", str(error)):
        return True
    if not isinstance(error, ConcretizationError | TypeError):
        return False
    traceback, is_jax = error.__traceback__, False
    while traceback is not None:
        name = str(traceback.tb_frame.f_globals.get("__name__"))
        if name in _TRACED_BY_JAX:
            return False
        is_jax = name.startswith("jax.") or (is_jax and name.startswith("tenferro."))
        traceback = traceback.tb_next
    return is_jax


def _name_the_called(error: AxisError, called: str) -> None:
    """Begin the message of an AxisError with the function that the user called, not with an inner function.

    The message does not change if a function of the user, such as a traced function, called the inner function. It also
    does not change if it begins with the name of an op, because users see ops in the graph.
    """
    function, colon, fault = str(error.args[0]).partition(": ")
    if colon and function.islower() and _user_frames(error.__traceback__) is None:
        error.args = (f"{called}: {fault}",)


def line_number(traceback: TracebackType) -> int:
    """Return the line of a traceback entry.

    If a signal handler raised the exception when the function began, return the first line of the function.
    """
    number: Any = traceback.tb_lineno
    return traceback.tb_frame.f_code.co_firstlineno if number is None else number


def _is_internal(code: CodeType, caller_is_internal: bool) -> bool:
    file = code.co_filename
    return file.startswith((*INTERNAL, _GENERATED)) or (
        caller_is_internal and file.startswith(_LIBRARIES)
    )


def _user_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback with only the frames that are not internal."""
    user_frames: list[TracebackType] = []
    is_internal = False
    while traceback is not None:
        is_internal = _is_internal(traceback.tb_frame.f_code, is_internal)
        if not is_internal:
            user_frames.append(traceback)
        traceback = traceback.tb_next
    frames: TracebackType | None = None
    for entry in reversed(user_frames):
        frames = TracebackType(frames, entry.tb_frame, entry.tb_lasti, line_number(entry))
    return frames


def _ends_inside(traceback: TracebackType | None) -> bool:
    """Return whether the traceback ends in a function of tenferro.

    If arguments do not fit a function, the traceback ends in the wrapper of `public`. This is an error of the caller.
    """
    is_internal = is_boundary = False
    while traceback is not None:
        code = traceback.tb_frame.f_code
        is_internal, is_boundary = _is_internal(code, is_internal), code in _BOUNDARIES
        traceback = traceback.tb_next
    return is_internal and not is_boundary


def public(function: Function, name: str = "") -> Function:
    """Wrap `function` so that tracebacks of exceptions end at the line of the call.

    Args:
        name: the public name of the function in messages about axes. If it is empty, messages do not change.

    >>> @public
    ... def halve(x):
    ...     return x / 2
    >>> halve(3)
    1.5
    """
    end = end_at_the_caller

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            end(error, name)
            raise  # This raises with the current traceback, and adds no line of this frame.

    return _in_place_of(function, call)


def _public_operator(function: Function) -> Function:
    """Wrap a method with one argument, as `public` does.

    The wrapper takes half the time of that of `public`, because operators are called often.
    """
    end = end_at_the_caller

    def call(self: Any, operand: Any) -> Any:
        try:
            return function(self, operand)
        except Exception as error:
            end(error)
            raise

    return _in_place_of(function, call)


def _in_place_of(function: Function, call: FunctionType) -> Function:
    """Set the name and module of `call` to those of `function`, so that tools find its definition."""
    names = getattr(function, "__globals__", globals())
    wrapped = FunctionType(call.__code__, names, call.__name__, None, call.__closure__)
    return cast(Function, functools.update_wrapper(wrapped, function))


def _nothing(*_: Any) -> None:
    """Do nothing. The function is wrapped only to obtain the code objects of the wrappers."""


_BOUNDARIES = tuple(
    [cast(FunctionType, wrap(_nothing)).__code__ for wrap in (public, _public_operator)]
)


def public_methods(cls: Class) -> Class:
    """Wrap the methods of a class that users call, including operators, in `public`. Can be used as a class decorator.

    Not wrapped are names with a leading underscore or `__tenferro_`, the constructor, and hooks of Python's object
    protocol that are called often.
    """
    for name, member in list(vars(cls).items()):
        if isinstance(member, FunctionType) and not _is_hook(name):
            is_binary = name.startswith("__") and member.__code__.co_varnames[:2] == (
                "self",
                "other",
            )
            setattr(cls, name, (_public_operator if is_binary else public)(member))
    return cls


def _is_hook(name: str) -> bool:
    is_operator = name.startswith("__") and not name.startswith("__tenferro_")
    return name in _HOOKS or (name.startswith("_") and not is_operator)


_HOOKS = frozenset(
    {"__init__", "__new__", "__hash__", "__repr__", "__str__", "__dir__", "__del__", "__get__"}
)


_NAMED_WITH_MODULE = ("lax", "nn")
"""Modules in which some names have a different meaning than in `tenferro`, such as `lax.sort` and `nn.logsumexp`."""


def publish(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Wrap the functions of a module with these names in `public`, and set their `__module__` to the module."""
    module = namespace["__name__"].rpartition(".")[2]
    prefix = f"{module}." if module in _NAMED_WITH_MODULE else ""
    for name in names:
        function = namespace.get(name)
        if isinstance(function, FunctionType) and function.__code__ not in _BOUNDARIES:
            wrapped = namespace[name] = public(function, prefix + name)
            wrapped.__module__ = namespace["__name__"]
            wrapped.__qualname__ = name
