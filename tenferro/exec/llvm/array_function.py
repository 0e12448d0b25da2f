"""Machine code as a built-in function of NumPy's arrays, which costs a tenth of a call through ctypes.

The code finds the elements of an array by the public head of NumPy's record of it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from tenferro.exec.llvm.code import Code

__all__ = ["ENTRY", "addresses", "built_in", "entry", "knows_arrays"]

ENTRY = "call"
"""The name of the function that Python calls."""
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
    """Addresses for the names in the text of `entry`."""
    count = ctypes.cast(ctypes.pythonapi.Py_IncRef, ctypes.c_void_p).value
    assert count is not None
    return {
        "Py_IncRef": count,
        "python.True": id(True),
        "python.False": id(False),
        "numpy.ndarray": id(np.ndarray),
    }


def entry(code: Code, function: str, pointers: Sequence[str], checked: Sequence[int]) -> str:
    """A function of arrays that calls one of pointers to their elements, and gives True; False, having done nothing, if
    an argument is no array or one that is not dense.

    Args:
        checked: which arrays may have any strides.
    """
    lines = [
        "declare void @Py_IncRef(ptr)",
        "@python.True = external global i8",
        "@python.False = external global i8",
        "@numpy.ndarray = external global i8",
        f"define ptr @{ENTRY}(ptr %self, ptr %arguments, i64 %count) nounwind {{",
    ]
    for number in range(len(pointers)):
        lines += [
            f"  %place{number} = getelementptr ptr, ptr %arguments, i64 {number}",
            f"  %array{number} = load ptr, ptr %place{number}",
            f"  %kind{number} = getelementptr i8, ptr %array{number}, i64 {_Array.type.offset}",
            f"  %type{number} = load ptr, ptr %kind{number}",
            f"  %is{number} = icmp eq ptr %type{number}, @numpy.ndarray",
            f"  br i1 %is{number}, label %is_array{number}, label %leave",
            f"is_array{number}:",
        ]
        if number in checked:
            lines += [
                f"  %field{number} = getelementptr i8, ptr %array{number}, i64 {_Array.flags.offset}",
                f"  %flags{number} = load i32, ptr %field{number}",
                f"  %both{number} = and i32 %flags{number}, {DENSE}",
                f"  %fits{number} = icmp eq i32 %both{number}, {DENSE}",
                f"  br i1 %fits{number}, label %is_dense{number}, label %leave",
                f"is_dense{number}:",
            ]
        lines += [
            f"  %head{number} = getelementptr i8, ptr %array{number}, i64 {_Array.data.offset}",
            f"  %data{number} = load ptr, ptr %head{number}",
        ]
    if code.areas:
        whole = f"%data{list(pointers).index('%scratch')}"
        lines.append(f"  %scratch = getelementptr i8, ptr {whole}, i64 0")
    lines += [
        code.call_of(function, [f"%data{number}" for number in range(len(pointers))], ()),
        "  call void @Py_IncRef(ptr @python.True)",
        "  ret ptr @python.True",
        "leave:",
        "  call void @Py_IncRef(ptr @python.False)",
        "  ret ptr @python.False",
        "}",
        "",
    ]
    return "\n".join(lines)


def built_in(address: int, owner: Any) -> Callable[..., bool]:
    """The built-in function at an address.

    Args:
        owner: what the code lives as long as.
    """
    method = _Method(b"tenferro", address, FASTCALL, None)
    return _new()(ctypes.addressof(method), (owner, method), None)


@cache
def _new() -> Any:
    """CPython's maker of built-in functions."""
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
    )
    return prototype(("PyCFunction_NewEx", ctypes.pythonapi))
