"""Wrapper of machine code as a CPython built-in function of arrays; calls take a tenth of the time of ctypes.

The wrapper gets the addresses of arrays by the buffer protocol.

Source: https://docs.python.org/3/c-api/buffer.html; `Py_buffer` is part of CPython's stable ABI.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

__all__ = ["CALLER", "CHECK_SIGNALS", "SHARED", "addresses", "new_builtin"]

CALLER = "tenferro_call_with_arrays"
"""Name of the function of the module `SHARED` that implements the built-in function."""
BUFFER_BYTES, ITEM_SIZE_OFFSET = 80, 24
"""Size in bytes of a struct Py_buffer with 64-bit pointers, and the offset of its member `itemsize`."""
FASTCALL = 0x0080
"""Flag METH_FASTCALL: CPython passes the arguments as a C array of objects and its length."""


class _Method(ctypes.Structure):
    """Struct PyMethodDef of CPython, which defines a built-in function."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


CHECK_SIGNALS = "tenferro_check_signals"
"""Name of the function of the module `SHARED` that compiled loops call, so that Ctrl-C ends them."""
CPYTHON = {
    "PyGILState_Ensure": "i32 ()", "PyGILState_Release": "void (i32)", "PyErr_CheckSignals": "i32 ()",
    "PyEval_SaveThread": "ptr ()", "PyEval_RestoreThread": "void (ptr)", "Py_IncRef": "void (ptr)",
    "PyCapsule_GetPointer": "ptr (ptr, ptr)", "PyLong_AsLongLong": "i64 (ptr)", "PyLong_FromLongLong": "ptr (i64)",
    "PyErr_Clear": "void ()", "PyErr_Occurred": "ptr ()", "PyObject_CheckBuffer": "i32 (ptr)",
    "PyObject_GetBuffer": "i32 (ptr, ptr, i32)", "PyBuffer_Release": "void (ptr)",
}  # fmt: skip
"""Functions of CPython's C API, with their types."""
DECLARATIONS = "\n".join(
    [f"declare {x.replace(' ', f' @{name}', 1)}" for name, x in CPYTHON.items()]
)
SHARED = f"""{DECLARATIONS}
declare i64 @llvm.umin.i64(i64, i64)
@python.None = external global i8
define i64 @{CHECK_SIGNALS}() nounwind {{
  %lock = call i32 @PyGILState_Ensure()
  %status = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %lock)
  %wide = sext i32 %status to i64
  ret i64 %wide
}}
define ptr @{CALLER}(ptr %self, ptr %arguments, i64 %count) nounwind {{
start:
  %function = call ptr @PyCapsule_GetPointer(ptr %self, ptr null)
  %values = alloca i64, i64 %count
  %buffers = alloca [{BUFFER_BYTES} x i8], i64 %count, align 8
  %is_any = icmp sgt i64 %count, 0
  br i1 %is_any, label %argument, label %call
argument:
  %number = phi i64 [0, %start], [%following, %known]
  %held = phi i64 [0, %start], [%held.now, %known]
  %place = getelementptr ptr, ptr %arguments, i64 %number
  %x = load ptr, ptr %place
  %checked = call i32 @PyObject_CheckBuffer(ptr %x)
  %is_array = icmp ne i32 %checked, 0
  br i1 %is_array, label %array, label %other
array:
  %buffer = getelementptr [{BUFFER_BYTES} x i8], ptr %buffers, i64 %held
  %got = call i32 @PyObject_GetBuffer(ptr %x, ptr %buffer, i32 0)
  %is_refused = icmp slt i32 %got, 0
  br i1 %is_refused, label %refused, label %dense
dense:
  %held.more = add i64 %held, 1
  %data = load i64, ptr %buffer
  %size.at = getelementptr i8, ptr %buffer, i64 {ITEM_SIZE_OFFSET}
  %size = load i64, ptr %size.at
  %alignment = call i64 @llvm.umin.i64(i64 %size, i64 8)
  %mask = sub i64 %alignment, 1
  %rest = and i64 %data, %mask
  %is_aligned = icmp eq i64 %rest, 0
  br i1 %is_aligned, label %known, label %leave
other:
  %integer = call i64 @PyLong_AsLongLong(ptr %x)
  %may_have_failed = icmp eq i64 %integer, -1
  br i1 %may_have_failed, label %doubtful, label %known
doubtful:
  %error = call ptr @PyErr_Occurred()
  %is_integer = icmp eq ptr %error, null
  br i1 %is_integer, label %known, label %refused
known:
  %value = phi i64 [%data, %dense], [%integer, %other], [%integer, %doubtful]
  %held.now = phi i64 [%held.more, %dense], [%held, %other], [%held, %doubtful]
  %value.at = getelementptr i64, ptr %values, i64 %number
  store i64 %value, ptr %value.at
  %following = add i64 %number, 1
  %more = icmp slt i64 %following, %count
  br i1 %more, label %argument, label %call
call:
  %held.all = phi i64 [0, %start], [%held.now, %known]
  %status = call i64 %function(ptr %values)
  %has_raised = icmp slt i64 %status, 0
  br i1 %has_raised, label %end, label %done
done:
  %y = call ptr @PyLong_FromLongLong(i64 %status)
  br label %end
refused:
  call void @PyErr_Clear()
  br label %leave
leave:
  %held.left = phi i64 [%held, %refused], [%held.more, %dense]
  call void @Py_IncRef(ptr @python.None)
  br label %end
end:
  %result = phi ptr [null, %call], [%y, %done], [@python.None, %leave]
  %left = phi i64 [%held.all, %call], [%held.all, %done], [%held.left, %leave]
  br label %release
release:
  %still = phi i64 [%left, %end], [%rest.held, %released]
  %is_last = icmp eq i64 %still, 0
  br i1 %is_last, label %return, label %released
released:
  %rest.held = sub i64 %still, 1
  %last = getelementptr [{BUFFER_BYTES} x i8], ptr %buffers, i64 %rest.held
  call void @PyBuffer_Release(ptr %last)
  br label %release
return:
  ret ptr %result
}}
"""
"""LLVM text of the module that defines `CHECK_SIGNALS` and `CALLER`.

`CALLER` calls the function in the capsule `self`, with the addresses of arrays and the values of integers.
"""


def addresses() -> dict[str, int]:
    """Return the addresses of CPython's functions and of `None`, by their symbols in `SHARED`."""
    functions = {name: getattr(ctypes.pythonapi, name) for name in CPYTHON}
    pointers = {name: ctypes.cast(each, ctypes.c_void_p) for name, each in functions.items()}
    return {name: each.value or 0 for name, each in pointers.items()} | {"python.None": id(None)}


def new_builtin(function: int, caller: int, owner: Any) -> Callable[..., int | None]:
    """Return a built-in function of arrays and integers that calls `@f`, and returns its status.

    If the status is negative, the built-in function raises the exception that `@f` has set. If an argument is neither
    an integer nor an aligned row-major array, it returns None, and does not call `@f`.

    Args:
        function, caller: the addresses of `@f` and of `CALLER`.
        owner: the owner of the machine code, to which the built-in function has a reference.
    """
    pointer, value = ctypes.c_void_p, ctypes.py_object
    capsule = ctypes.PYFUNCTYPE(value, pointer, pointer, pointer)
    builtin = ctypes.PYFUNCTYPE(value, pointer, value, value)
    method = _Method(b"tenferro", caller, FASTCALL, None)
    held = capsule(("PyCapsule_New", ctypes.pythonapi))(function, None, None)
    return builtin(("PyCFunction_NewEx", ctypes.pythonapi))(
        ctypes.addressof(method), held, (owner, method)
    )
