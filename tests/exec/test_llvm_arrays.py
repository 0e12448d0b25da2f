"""Machine code as a function of arrays: what it reads of their records, and which arrays it takes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tenferro import errors
from tenferro.ops.elementwise import Add
from tenferro.ops.extension import Extension

pytest.importorskip("llvmlite.binding")
from tenferro.exec.llvm import array_function, ufunc_loops  # because of what they need
from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.host import VIEWS, HostCalls, Site
from tenferro.exec.llvm.link import Linker, OfArrays
from tenferro.types import DType, TensorSpec

NAMES = ["%x", "%y", "%z"]


@pytest.fixture(scope="module")
def summed() -> Any:
    """x + y into z, of the first two elements; the number is the result, and negative where an exception is raised."""
    code = Code()
    for k in range(2):
        x, y = (code.load(name, k, DType.F64) for name in NAMES[:2])
        code.store(code.value(f"fadd double {x}, {y}"), "%z", k, DType.F64)
    code.line("ret i64 %number")
    text = code.text("line", NAMES, ["%number"], is_internal=True)
    text += array_function.entry(code, "line", NAMES, ["%number"])
    return Linker().function("test", text, OfArrays(), is_optimised=False)


def test_dense_arrays_are_taken(summed: Any) -> None:
    x, y, z = np.array([1.0, 2.0]), np.array([0.5, 0.25]), np.zeros(2)
    assert summed(x, y, z, 0) == 0
    assert z.tolist() == [1.5, 2.25]
    y = np.array([[0.5], [2.0]])
    assert summed(x, y, z, 0) == 0
    assert z.tolist() == [1.5, 4.0]


@pytest.mark.parametrize("number", [0, 1, 255, 257, 2**40, 2**63 - 1])
def test_numbers_come_and_go(summed: Any, number: int) -> None:
    assert summed(np.ones(2), np.ones(2), np.zeros(2), number) == number


def test_a_negative_number_is_an_exception(summed: Any) -> None:
    with pytest.raises(SystemError, match="without setting an exception"):
        summed(np.ones(2), np.ones(2), np.zeros(2), -1)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_others_are_left_as_they_are(summed: Any, position: int) -> None:
    memory = np.zeros(64, np.uint8)
    begin = -memory.ctypes.data % 8 + 1
    gaps, unaligned = np.zeros(4)[::2], memory[begin : begin + 16].view(np.float64)
    assert not unaligned.flags.aligned
    turned = np.zeros((2, 2)).T
    for other in (gaps, unaligned, turned, np.float64(1.0), [1.0, 2.0], None):
        arrays: list[Any] = [np.ones(2), np.ones(2), np.zeros(2)]
        arrays[position] = other
        assert summed(*arrays, 0) is None
        assert position == 2 or not arrays[2].any()
    assert not gaps.any()
    assert not memory.any()


def test_what_is_no_array_is_not_read(summed: Any) -> None:
    z = np.zeros(2)
    for other in (np.float64(1.0), (1.0, 2.0), np.ma.ones(2), True, 1.0):
        assert summed(np.ones(2), other, z, 0) is None
        assert summed(np.ones(2), np.ones(2), z, other) is None
    assert not z.any()


@pytest.mark.parametrize(
    ("one", "other"),
    [("type", "base"), ("data", "base"), ("data", "strides"), ("rank", "flags"), ("descr", "base"), ("data", "dimensions")],
)  # fmt: skip
def test_records_of_another_layout_are_noticed(
    one: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = [
        ({one: other, other: one}.get(name, name), kind)
        for name, kind in array_function._Array._fields_
    ]
    other_record = type("_Array", (ctypes.Structure,), {"_fields_": tuple(fields)})
    monkeypatch.setattr(array_function, "_Array", other_record)
    assert not array_function.knows_arrays.__wrapped__()


def test_flags_alone_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = [(name, ctypes.c_int if name == "flags" else kind) for name, kind in array_function._Array._fields_]  # fmt: skip
    fields.insert(-1, ("before", ctypes.c_int))
    other_record = type("_Array", (ctypes.Structure,), {"_fields_": tuple(fields)})
    monkeypatch.setattr(array_function, "_Array", other_record)
    assert not array_function.knows_arrays.__wrapped__()


def test_loops_are_found_by_their_dtypes() -> None:
    f64, f32, boolean = DType.F64, DType.F32, DType.Bool
    found = ufunc_loops.loop_of(np.add, (f64, f64, f64))
    assert found is not None
    assert (found.name, found.dtypes) == ("numpy.add.float64.float64.float64", (f64, f64, f64))
    assert next(iter(found.symbols)) == found.name
    addresses: set[int] = set()
    for ufunc, dtypes in (
        (np.add, (f64, f64, f64)),
        (np.add, (f32, f32, f32)),
        (np.multiply, (f64, f64, f64)),
        (np.less, (f64, f64, boolean)),
        (np.sin, (f64, f64)),
        (np.modf, (f64, f64, f64)),
    ):
        found = ufunc_loops.loop_of(ufunc, dtypes)
        assert found is not None
        addresses.add(found.symbols[found.name])
    assert len(addresses) == 6
    for ufunc, dtypes in (
        (np.add, (f64, f32, f64)),
        (np.add, (f64, f64)),
        (np.add, (f64, f64, f64, f64)),
        (np.less, (f64, f64, f64)),
        (np.modf, (f64, f64)),
        (np.sin, (DType.I32, f64)),
    ):
        assert ufunc_loops.loop_of(ufunc, dtypes) is None


@pytest.mark.parametrize("wrong", ["nin", "nout", "nargs", "ntypes", "name"])
def test_records_of_ufuncs_of_another_layout_are_noticed(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Record:
        nin, nout, nargs, ntypes, name = np.add.nin, np.add.nout, np.add.nargs, np.add.ntypes, b"add"  # fmt: skip
        types = functions = data = ()

        @classmethod
        def from_address(cls, address: int) -> Any:
            assert address == id(np.add)
            return cls

    monkeypatch.setattr(Record, wrong, b"sub" if wrong == "name" else getattr(Record, wrong) + 1)
    monkeypatch.setattr(ufunc_loops, "_Ufunc", Record)
    assert ufunc_loops.loop_of.__wrapped__(np.add, (DType.F64,) * 3) is None


@pytest.mark.parametrize("is_number", [False, True])
def test_a_loop_is_given_what_numpy_gives_it(is_number: bool) -> None:
    code = Code()
    symbols = {"numpy.less": 1, "numpy.less.data": 2}
    loop = ufunc_loops.Loop("numpy.less", symbols, (DType.F64, DType.F64, DType.Bool))
    ufunc_loops.call(code, loop, NAMES, [5], ufunc_loops.dense_steps(loop, is_number))
    steps = "i64 0, i64 0, i64 1" if is_number else "i64 8, i64 8, i64 1"
    assert code.globals == [
        f"@number0 = private constant [3 x i64] [{steps}]",
        "@number1 = private constant [1 x i64] [i64 5]",
    ]
    assert code.lines == [
        "  call void @call_loop_3(ptr @numpy.less, ptr @numpy.less.data, ptr @number1, ptr @number0,"
        " ptr %x, ptr %y, ptr %z)"
    ]
    assert list(code.declared.values()) == [
        "declare void @numpy.less(ptr, ptr, ptr, ptr)",
        "@numpy.less.data = external global i8",
    ]
    code = Code()
    steps = ufunc_loops.dense_steps(loop, is_number)
    ufunc_loops.call(code, loop._replace(symbols={"numpy.less": 1}), NAMES, [5], steps)
    assert "ptr @numpy.less, ptr null, ptr @number1" in code.lines[0]
    assert list(code.declared) == ["numpy.less"]
    assert list(code.functions) == ["call_loop_3"]


# ---- kernels that loops call -----------------------------------------------------------------------

SPEC = TensorSpec((2,), "float64")


def test_kernels_see_memory_as_it_is_then() -> None:
    seen: list[Any] = []

    def kernel(*arrays: Any) -> Any:
        seen.extend(arrays)
        return arrays[0] + arrays[1], arrays[0] - arrays[1]

    x, y, total, difference = np.ones(2), np.full(2, 3.0), np.zeros(2), np.zeros(2)
    site = Site(Add(), None, kernel, (SPEC, SPEC), (SPEC, SPEC))
    addresses = [each.ctypes.data for each in (x, y, total, difference)]
    site(addresses)
    assert (total.tolist(), difference.tolist()) == ([4.0, 4.0], [-2.0, -2.0])
    assert not any([each.flags.writeable for each in seen])
    assert [np.shares_memory(*pair) for pair in zip(seen, (x, y), strict=True)] == [True, True]
    x[:] = 5.0
    site(addresses)
    assert total.tolist() == [8.0, 8.0]
    assert seen[0] is seen[2]
    # In place: the memory of an operand is that of a result too.
    site([addresses[0], addresses[1], addresses[0], addresses[1]])
    assert (x.tolist(), y.tolist()) == ([8.0, 8.0], [2.0, 2.0])


def test_views_are_kept_of_some_memory() -> None:
    many = np.zeros((VIEWS, 2))
    site = Site(None, None, lambda x: x, (SPEC,), (SPEC,))
    out = np.zeros(2)
    counts: list[int] = []
    for row in many:
        row[:] = len(counts)
        site([row.ctypes.data, out.ctypes.data])
        assert out.tolist() == [len(counts)] * 2
        counts.append(len(site.views))
    # One of the result, and one of each row, until there are as many as are kept.
    assert counts == [*range(2, VIEWS + 1), 2]


def test_no_elements_lie_nowhere() -> None:
    none = TensorSpec((0, 3), "float32")
    seen: list[Any] = []
    site = Site(None, None, lambda x: seen.append(x) or x, (none,), (none,))
    site([0, 0])
    assert (seen[0].shape, seen[0].dtype) == ((0, 3), np.float32)


def test_a_call_is_of_its_site() -> None:
    calls: list[Any] = []
    host = HostCalls(None)  # type: ignore[arg-type]
    for number in range(2):
        host.sites.append(Site(None, None, lambda x, number=number: calls.append(number) or x + number, (SPEC,), (SPEC,)))  # fmt: skip
    x, y = np.ones(2), np.zeros(2)
    pointers = (ctypes.c_int64 * 2)(x.ctypes.data, y.ctypes.data)
    assert host.address == id(host)
    host(1, ctypes.addressof(pointers))
    assert (calls, y.tolist()) == ([1], [2.0, 2.0])


def test_extensions_may_keep_what_they_are_given() -> None:
    kept: list[Any] = []
    x, y = np.ones(2), np.zeros(2)
    site = Site(Extension.__new__(Extension), None, lambda x: kept.append(x) or x, (SPEC,), (SPEC,))
    for _ in range(2):
        site([x.ctypes.data, y.ctypes.data])
        x += 1.0
    assert [each.tolist() for each in kept] == [[1.0, 1.0], [2.0, 2.0]]
    assert y.tolist() == [2.0, 2.0]


def test_errors_of_kernels_name_the_op_and_the_line() -> None:
    add = Add()
    site = Site(add, "file.py:3", len, (SPEC,), (SPEC,))
    named = site.named(ValueError("no room"))
    assert isinstance(named, errors.TenferroError)
    assert "Add" in str(named)
    assert "no room" in str(named)
    assert "file.py:3" in str(named)
    assert isinstance(named.__cause__, ValueError)
    own = errors.InvalidConfigError("mine")
    assert "file.py:3" in str(site.named(own))
    assert type(site.named(own)) is errors.InvalidConfigError
    assert "None" not in str(Site(add, None, len, (SPEC,), (SPEC,)).named(ValueError("no room")))
