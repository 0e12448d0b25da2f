"""Machine code as a function of arrays: accepted arguments, and calls of kernels."""

from __future__ import annotations

import ctypes
import re
import sys
from typing import Any

import numpy as np
import pytest

from tenferro import errors
from tenferro.ops.elementwise import Add
from tenferro.ops.extension import Extension

pytest.importorskip("llvmlite.binding")
from tenferro.exec.llvm import array_function, python_calls  # because of their requirements
from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.host import MAX_VIEWS, CallSite, HostCalls
from tenferro.exec.llvm.link import Linker
from tenferro.exec.llvm.python_calls import define_function
from tenferro.types import DType, TensorSpec

NAMES = ["%x", "%y", "%z"]


@pytest.fixture(scope="module")
def summed() -> Any:
    """Return a function that stores the sums of two elements; its integer argument is the status."""
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
    """Release buffers of all arguments, of those before a rejected argument, and after an exception."""
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
    memory.extend(b"more")  # which a held buffer would prevent


# ---- kernels that loops call -----------------------------------------------------------------------

SPEC = TensorSpec((2,), "float64")


def test_kernels_see_current_memory() -> None:
    seen: list[Any] = []

    def kernel(*arrays: Any) -> Any:
        seen.extend(arrays)
        return arrays[0] + arrays[1], arrays[0] - arrays[1]

    x, y, total, difference = np.ones(2), np.full(2, 3.0), np.zeros(2), np.zeros(2)
    site = CallSite(Add(), None, kernel, (SPEC, SPEC), (SPEC, SPEC))
    addresses = [each.ctypes.data for each in (x, y, total, difference)]
    site(addresses)
    assert (total.tolist(), difference.tolist()) == ([4.0, 4.0], [-2.0, -2.0])
    assert not any([each.flags.writeable for each in seen])
    assert [np.shares_memory(*pair) for pair in zip(seen, (x, y), strict=True)] == [True, True]
    x[:] = 5.0
    site(addresses)
    assert total.tolist() == [8.0, 8.0]
    assert seen[0] is seen[2]
    # In place: an operand aliases a result.
    site([addresses[0], addresses[1], addresses[0], addresses[1]])
    assert (x.tolist(), y.tolist()) == ([8.0, 8.0], [2.0, 2.0])


def test_views_are_cached() -> None:
    many = np.zeros((MAX_VIEWS, 2))
    site = CallSite(None, None, lambda x: x, (SPEC,), (SPEC,))
    out = np.zeros(2)
    counts: list[int] = []
    for row in many:
        row[:] = len(counts)
        site([row.ctypes.data, out.ctypes.data])
        assert out.tolist() == [len(counts)] * 2
        counts.append(len(site.views))
    # A view of the result and one of each row, up to the maximum.
    assert counts == [*range(2, MAX_VIEWS + 1), 2]


def test_views_of_empty_arrays() -> None:
    none = TensorSpec((0, 3), "float32")
    seen: list[Any] = []
    site = CallSite(None, None, lambda x: seen.append(x) or x, (none,), (none,))
    site([0, 0])
    assert (seen[0].shape, seen[0].dtype) == ((0, 3), np.float32)


def test_calls_by_the_number_of_their_site() -> None:
    calls: list[Any] = []
    host = HostCalls(None)  # type: ignore[arg-type]
    for number in range(2):
        host.sites.append(CallSite(None, None, lambda x, number=number: calls.append(number) or x + number, (SPEC,), (SPEC,)))  # fmt: skip
    x, y = np.ones(2), np.zeros(2)
    pointers = (ctypes.c_int64 * 2)(x.ctypes.data, y.ctypes.data)
    assert host.address == id(host)
    host(1, ctypes.addressof(pointers))
    assert (calls, y.tolist()) == ([1], [2.0, 2.0])


def test_extensions_may_keep_their_operands() -> None:
    kept: list[Any] = []
    x, y = np.ones(2), np.zeros(2)
    site = CallSite(
        Extension.__new__(Extension), None, lambda x: kept.append(x) or x, (SPEC,), (SPEC,)
    )
    for _ in range(2):
        site([x.ctypes.data, y.ctypes.data])
        x += 1.0
    assert [each.tolist() for each in kept] == [[1.0, 1.0], [2.0, 2.0]]
    assert y.tolist() == [2.0, 2.0]


def test_errors_of_kernels_name_the_op_and_the_line() -> None:
    add = Add()
    site = CallSite(add, "file.py:3", len, (SPEC,), (SPEC,))
    named = site.named(ValueError("no room"))
    assert isinstance(named, errors.TenferroError)
    assert "Add" in str(named)
    assert "no room" in str(named)
    assert "file.py:3" in str(named)
    assert isinstance(named.__cause__, ValueError)
    own = errors.InvalidConfigError("mine")
    assert "file.py:3" in str(site.named(own))
    assert type(site.named(own)) is errors.InvalidConfigError
    assert "None" not in str(
        CallSite(add, None, len, (SPEC,), (SPEC,)).named(ValueError("no room"))
    )


@pytest.mark.parametrize("module", [array_function, python_calls])
def test_functions_of_python_are_given_their_addresses(module: Any) -> None:
    """Otherwise LLVM searches the process, and some builds of Python hide their symbols there."""
    declared = re.findall(r"^declare .*@(\w+)\(", module.SHARED, re.MULTILINE)
    for name in declared:
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        assert module.addresses().get(name) == address, name
