"""NumPy's own loops of ufuncs, called by address: the bits are NumPy's, whatever processor chose the loop.

A loop is a C function of the addresses of operands and results, of a count and of the bytes from element to element.
It is given what NumPy itself gives it for dense arrays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tenferro.exec.llvm.code import Code
from tenferro.types import DType

__all__ = ["Loop", "call", "dense_steps", "loop_of", "run"]


class _Ufunc(ctypes.Structure):
    """The public head of NumPy's record of a ufunc."""

    _fields_ = (
        ("object", ctypes.c_char * object.__basicsize__),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_byte)),
    )


class Loop(NamedTuple):
    """A loop of a ufunc.

    Attributes:
        symbols: the addresses of the loop and, if it has some, of its data, by their names in texts.
        dtypes: of operands, then of the results.
    """

    name: str
    symbols: dict[str, int]
    dtypes: tuple[DType, ...]


@cache
def loop_of(ufunc: np.ufunc, dtypes: tuple[DType, ...]) -> Loop | None:
    """The loop for operands and results of these dtypes; None where NumPy would convert first, or has no such loop."""
    record = _Ufunc.from_address(id(ufunc))
    facts = (record.nin, record.nout, record.nargs, record.ntypes)
    if facts != (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes):
        return None
    if record.name != ufunc.__name__.encode() or len(dtypes) != ufunc.nargs:
        return None
    numbers = [dtype.dtype.num for dtype in dtypes]
    for position in range(ufunc.ntypes):
        start = position * ufunc.nargs
        if [record.types[start + number] for number in range(ufunc.nargs)] == numbers:
            return _loop(ufunc, record, position, dtypes)
    return None


def _loop(ufunc: np.ufunc, record: Any, position: int, dtypes: tuple[DType, ...]) -> Loop | None:
    address = record.functions[position]
    data = record.data[position] if record.data else None
    if not address:
        return None
    name = ".".join(["numpy", ufunc.__name__, *[dtype.value for dtype in dtypes]])
    symbols = {name: address}
    return Loop(name, symbols | ({f"{name}.data": data} if data else {}), dtypes)


def dense_steps(loop: Loop, is_number: bool) -> list[int]:
    """The bytes from element to element of dense operands and results.

    Args:
        is_number: whether the operands have rank 0, which NumPy gives no steps.
    """
    sizes = [dtype.itemsize for dtype in loop.dtypes]
    return [0] * (len(sizes) - 1) + sizes[-1:] if is_number else sizes


def call(
    code: Code, loop: Loop, pointers: Sequence[str], counts: Sequence[int], steps: Sequence[int]
) -> None:
    """Call a loop.

    Args:
        pointers: of operands, then of the results.
        counts: of elements; of a ufunc of arrays, of rows first.
        steps: the bytes from element to element; of a ufunc of arrays, from row to row first.
    """
    arity = len(pointers)
    code.symbols |= loop.symbols
    places, length = (
        code.constant(
            f"[{len(numbers)} x i64]", f"[{', '.join([f'i64 {number}' for number in numbers])}]"
        )
        for numbers in (steps, counts)
    )
    code.declared[loop.name] = f"declare void @{loop.name}(ptr, ptr, ptr, ptr)"
    data = "null"
    if len(loop.symbols) > 1:
        data = f"@{loop.name}.data"
        code.declared[data] = f"{data} = external global i8"
    caller = f"call_loop_{arity}"
    code.functions[caller] = _caller(caller, arity)
    operands = ", ".join([f"ptr {pointer}" for pointer in pointers])
    code.line(f"call void @{caller}(ptr @{loop.name}, ptr {data}, ptr {length}, ptr {places}, {operands})")  # fmt: skip


def run(loop: Loop, places: Sequence[Any], counts: Sequence[int], steps: Sequence[int]) -> None:
    """Call a loop at once.

    Args:
        places: arrays or addresses of operands, then of the results.
        counts, steps: as in `call`.
    """
    pointers = [x if isinstance(x, int) else x.ctypes.data for x in places]
    numbers = [(ctypes.c_ssize_t * len(each))(*each) for each in (pointers, counts, steps)]
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(loop.symbols[loop.name])
    function(*numbers, loop.symbols.get(f"{loop.name}.data"))


def _caller(name: str, arity: int) -> str:
    """A function that puts pointers where a loop looks for them, and calls it."""
    pointers = ", ".join([f"ptr %p{number}" for number in range(arity)])
    lines = [f"define internal void @{name}(ptr %loop, ptr %data, ptr %count, ptr %steps, {pointers}) noinline nounwind {{",
             f"  %pointers = alloca ptr, i64 {arity}"]  # fmt: skip
    for number in range(arity):
        lines += [
            f"  %at{number} = getelementptr ptr, ptr %pointers, i64 {number}",
            f"  store ptr %p{number}, ptr %at{number}",
        ]
    lines += [
        "  call void %loop(ptr %pointers, ptr %count, ptr %steps, ptr %data)",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)
