"""Machine code as a built-in function of NumPy's arrays, which costs a tenth of a call through ctypes.

The code finds the elements of an array by the public head of NumPy's record of it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.code import Code

__all__ = [
    "CALLER",
    "SHARED",
    "addresses",
    "built_in",
    "entry",
    "functions_of_python",
    "knows_arrays",
]

CALLER = "tenferro_call_with_arrays"
"""The function that Python calls, of the module `SHARED`."""
DENSE = 0x0101
"""The flags of an array that is aligned and row-major."""
FASTCALL = 0x0080
"""The flag of a method that takes a C array of objects and its length."""


class _Array(ctypes.Structure):
    """The public head of NumPy's record of an array."""

    _fields_ = (
        ("object", ctypes.c_char * (object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p))),
        ("type", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int),
        ("dimensions", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("base", ctypes.c_void_p),
        ("descr", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


class _Method(ctypes.Structure):
    """CPython's record of a built-in function."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


NAMES = ("Py_IncRef", "PyCapsule_GetPointer", "PyLong_AsLongLong", "PyLong_FromLongLong")
SHARED = f"""declare void @Py_IncRef(ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
@python.None = external global i8
@python.int = external global i8
@numpy.ndarray = external global i8
define ptr @{CALLER}(ptr %self, ptr %arguments, i64 %count) nounwind {{
start:
  %function = call ptr @PyCapsule_GetPointer(ptr %self, ptr null)
  %values = alloca i64, i64 %count
  %is_any = icmp sgt i64 %count, 0
  br i1 %is_any, label %argument, label %call
argument:
  %number = phi i64 [0, %start], [%following, %known]
  %place = getelementptr ptr, ptr %arguments, i64 %number
  %x = load ptr, ptr %place
  %type.at = getelementptr i8, ptr %x, i64 {_Array.type.offset}
  %type = load ptr, ptr %type.at
  %is_array = icmp eq ptr %type, @numpy.ndarray
  br i1 %is_array, label %array, label %other
array:
  %flags.at = getelementptr i8, ptr %x, i64 {_Array.flags.offset}
  %flags = load i32, ptr %flags.at
  %both = and i32 %flags, {DENSE}
  %fits = icmp eq i32 %both, {DENSE}
  br i1 %fits, label %dense, label %leave
dense:
  %data.at = getelementptr i8, ptr %x, i64 {_Array.data.offset}
  %data = load i64, ptr %data.at
  br label %known
other:
  %is_integer = icmp eq ptr %type, @python.int
  br i1 %is_integer, label %integer, label %leave
integer:
  %small = call i64 @PyLong_AsLongLong(ptr %x)
  br label %known
known:
  %value = phi i64 [%data, %dense], [%small, %integer]
  %value.at = getelementptr i64, ptr %values, i64 %number
  store i64 %value, ptr %value.at
  %following = add i64 %number, 1
  %more = icmp slt i64 %following, %count
  br i1 %more, label %argument, label %call
call:
  %status = call i64 %function(ptr %values)
  %has_raised = icmp slt i64 %status, 0
  br i1 %has_raised, label %raised, label %done
raised:
  ret ptr null
done:
  %y = call ptr @PyLong_FromLongLong(i64 %status)
  ret ptr %y
leave:
  call void @Py_IncRef(ptr @python.None)
  ret ptr @python.None
}}
"""
"""Looks at its arguments, and calls the function that a capsule holds with the address of their addresses and values."""


@cache
def knows_arrays() -> bool:
    """Whether arrays lie in memory as this module reads them."""
    for x in (np.zeros((2, 3)), np.zeros((2, 3)).T, np.zeros(7)[::2]):
        record = _Array.from_address(id(x))
        facts = record.type, record.data, record.rank, record.descr
        if facts != (id(np.ndarray), x.ctypes.data, x.ndim, id(x.dtype)):
            return False
        if record.flags & DENSE != x.flags.num & DENSE:
            return False
    return True


def addresses() -> dict[str, int]:
    """Addresses for the names in the text of `SHARED`."""
    objects = {"python.None": id(None), "python.int": id(int), "numpy.ndarray": id(np.ndarray)}
    return functions_of_python(NAMES) | objects


def functions_of_python(names: Sequence[str]) -> dict[str, int]:
    """Where functions of CPython's interface lie."""
    pointers = {
        name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p) for name in names
    }
    return {name: pointer.value for name, pointer in pointers.items() if pointer.value is not None}


def entry(
    code: Code,
    function: str,
    pointers: Sequence[str],
    numbers: Sequence[str] = (),
    before: str = "",
    after: str = "",
) -> str:
    """`@f`, which `CALLER` calls with the address of arguments, and which calls a function of pointers and numbers.

    Args:
        before, after: lines around the call.

    Raises:
        NotCompiledError: NumPy's records of arrays have another layout.
    """
    if not knows_arrays():
        raise NotCompiledError("arrays lie in memory in another way than is known")
    lines = list[str]()
    for position, name in enumerate((*pointers, *numbers)):
        kind = "ptr" if position < len(pointers) else "i64"
        lines += [
            f"  {name}.at = getelementptr i64, ptr %arguments, i64 {position}",
            f"  {name} = load {kind}, ptr {name}.at",
        ]
    return "\n".join([
        "define i64 @f(ptr %arguments) nounwind {",
        *lines,
        *([before] if before else []),
        code.call_of(function, pointers, numbers),
        *([after] if after else []),
        "  ret i64 %status",
        "}",
        "",
    ])  # fmt: skip


def built_in(function: int, caller: int, owner: Any) -> Callable[..., int | None]:
    """A function of arrays and integers: the number that `@f` gives, or None, having done nothing, if an argument is
    something else, or an array that is not dense.

    Args:
        function, caller: addresses of `@f` and of `CALLER`.
        owner: what the code lives as long as.

    Raises:
        Exception: what has been raised where `@f` gives a negative number.
    """
    new_capsule, new_function = _makers()
    method = _Method(b"tenferro", caller, FASTCALL, None)
    capsule = new_capsule(function, None, None)
    return new_function(ctypes.addressof(method), capsule, (owner, method))


@cache
def _makers() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """CPython's makers of capsules and of built-in functions."""
    pointer, value = ctypes.c_void_p, ctypes.py_object
    capsule = ctypes.PYFUNCTYPE(value, pointer, pointer, pointer)
    function = ctypes.PYFUNCTYPE(value, pointer, value, value)
    return (
        capsule(("PyCapsule_New", ctypes.pythonapi)),
        function(("PyCFunction_NewEx", ctypes.pythonapi)),
    )
