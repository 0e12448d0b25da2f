"""Tracebacks that end at the user's line: frames of tenferro are dropped where an exception leaves it.

`public` decorates the functions that users call. A traceback keeps the frames of the user's functions, and drops
the frames of tenferro and its libraries. `errors.show_internal_frames` and `TENFERRO_TRACEBACK=full` keep all.

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
"""Files whose frames are internal if tenferro called them, and the user's if the user did."""

_HIDDEN = "raised inside tenferro; TENFERRO_TRACEBACK=full shows where"


def end_at_the_caller(error: BaseException, called: str = "") -> None:
    """Drop internal frames from the traceback of an exception, its causes and contexts, in place.

    Args:
        error:   the exception
        called:  the function that the user called, for messages about axes; without it, messages do not change

    An exception other than a `TenferroError` that was raised inside gets a note about showing all frames.
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
    """Add a note to the error for `.at` on NumPy's arrays, which do not have it."""
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


def is_refusal_of_jax(error: BaseException) -> bool:
    """Return whether JAX was called on tensors of a trace, and refused them.

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
        is_jax = name.startswith("jax.") or (is_jax and name.startswith("tenferro."))
        traceback = traceback.tb_next
    return is_jax


def _name_the_called(error: AxisError, called: str) -> None:
    """Begin the message with the function that the user called, if an inner function has the axis.

    A user's function in between, such as one that is traced, has called the inner function itself. Ops keep their
    names, which are in the graph.
    """
    function, colon, fault = str(error.args[0]).partition(": ")
    if colon and function.islower() and _user_frames(error.__traceback__) is None:
        error.args = (f"{called}: {fault}",)


def line_number(traceback: TracebackType) -> int:
    """Return the line of a traceback's entry; the function's first if a signal's handler raised on the way into it."""
    number: Any = traceback.tb_lineno
    return traceback.tb_frame.f_code.co_firstlineno if number is None else number


def _is_internal(code: CodeType, caller_is_internal: bool) -> bool:
    file = code.co_filename
    return file.startswith((*INTERNAL, _GENERATED)) or (
        caller_is_internal and file.startswith(_LIBRARIES)
    )


def _user_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Return the frames that are not internal."""
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

    Arguments that do not fit are refused in `public` itself, before there is a frame: that is the caller's error.
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
        name: public name in messages about axes; without it they stay as they are

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
    """Wrap a method with one argument like `public`, in half the time: operators are called often."""
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
    """Do nothing; the function is wrapped only to compare the wrapper's code."""


_BOUNDARIES = tuple(
    [cast(FunctionType, wrap(_nothing)).__code__ for wrap in (public, _public_operator)]
)


def public_methods(cls: Class) -> Class:
    """Make the methods that users call, operators among them, `public`: a class decorator.

    Names with a leading underscore or `__tenferro_`, the constructor, and often called hooks of Python's object
    protocol are not wrapped.
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
"""Modules with names that have another meaning in `tenferro` itself: `lax.sort`, `nn.logsumexp`."""


def publish(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Wrap the functions with these names in `public`, and report the module itself as the one that defines them."""
    module = namespace["__name__"].rpartition(".")[2]
    prefix = f"{module}." if module in _NAMED_WITH_MODULE else ""
    for name in names:
        function = namespace.get(name)
        if isinstance(function, FunctionType) and function.__code__ not in _BOUNDARIES:
            wrapped = namespace[name] = public(function, prefix + name)
            wrapped.__module__ = namespace["__name__"]
            wrapped.__qualname__ = name
