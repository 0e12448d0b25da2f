"""Machine code must be callable as a function of arrays, and reject arrays that are unsuitable."""

from __future__ import annotations

import ctypes
import re
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite.binding")
from tenferro.exec.llvm import array_function  # imports llvmlite
from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.link import Linker
from tenferro.exec.llvm.python_calls import define_function
from tenferro.types import DType

NAMES = ["%x", "%y", "%z"]


@pytest.fixture(scope="module")
def summed() -> Any:
    """Return a compiled function that adds two elements of x and y into z, and returns its integer argument."""
    code = Code()
    for k in range(2):
        x, y = (code.load(name, k, DType.F64) for name in NAMES[:2])
        code.store(code.value("fadd", x, y), "%z", k, DType.F64)
    code.ret("%number")
    define_function(code, NAMES, ["%number"], "line", releases=False)
    return Linker().function("test", code.module())


def test_contiguous_arrays_are_passed(summed: Any) -> None:
    x, y, z = np.array([1.0, 2.0]), np.array([0.5, 0.25]), np.zeros(2)
    assert summed(x, y, z, 0) == 0
    assert z.tolist() == [1.5, 2.25]
    y = np.array([[0.5], [2.0]])
    assert summed(x, y, z, 0) == 0
    assert z.tolist() == [1.5, 4.0]


@pytest.mark.parametrize("number", [0, 1, 255, 257, 2**40, 2**63 - 1])
def test_integers_are_passed_and_returned(summed: Any, number: int) -> None:
    assert summed(np.ones(2), np.ones(2), np.zeros(2), number) == number


def test_a_negative_status_is_an_exception(summed: Any) -> None:
    with pytest.raises(SystemError, match="without setting an exception"):
        summed(np.ones(2), np.ones(2), np.zeros(2), -1)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_other_arguments_are_refused(summed: Any, position: int) -> None:
    memory = np.zeros(64, np.uint8)
    begin = -memory.ctypes.data % 8 + 1
    gaps, unaligned = np.zeros(4)[::2], memory[begin : begin + 16].view(np.float64)
    assert not unaligned.flags.aligned
    columns = np.zeros((2, 2)).T
    for other in (gaps, unaligned, columns, [1.0, 2.0], None, 1.0):
        arrays: list[Any] = [np.ones(2), np.ones(2), np.zeros(2)]
        arrays[position] = other
        assert summed(*arrays, 0) is None
        assert position == 2 or not arrays[2].any()
    assert not gaps.any()
    assert not memory.any()


def test_other_numbers_are_refused(summed: Any) -> None:
    z = np.zeros(2)
    for other in ("1", 1.0, None, (1,)):
        assert summed(np.ones(2), np.ones(2), z, other) is None
    assert not z.any()


def test_buffers_are_released(summed: Any) -> None:
    """The buffers of all arguments must be released after a call, even if it rejects an argument or raises an error."""
    memory = bytearray(16)
    owner = np.frombuffer(memory, np.float64)
    for arguments in ((owner, owner, np.zeros(2), 0), (owner, owner, None, 0)):
        summed(*arguments)
    with pytest.raises(SystemError):
        summed(owner, owner, np.zeros(2), -1)
    counts = sys.getrefcount(owner)
    for _ in range(100):
        summed(owner, owner, None, 0)
    assert sys.getrefcount(owner) == counts
    del owner, arguments
    memory.extend(b"more")  # this raises an error while a buffer is held


def test_functions_of_python_are_given_their_addresses() -> None:
    """LLVM must get the addresses of Python's C functions, because some builds of Python hide their symbols."""
    declared = re.findall(r"^declare .*@(\w+)\(", array_function.SHARED, re.MULTILINE)
    for name in declared:
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        assert array_function.addresses().get(name) == address, name
