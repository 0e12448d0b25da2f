"""Loops along vectors for a first call: what is written, what stays as it was and why, and what it is worth."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm import first_call, link
from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.first_call import Work, for_first_call, passes
from tenferro.exec.llvm.functions import call
from tenferro.exec.llvm.vectors import LOOP, Definitions, NotAlongVectorsError, VectorLoop
from tenferro.types import DType
from tests.exec.compiled_loops import in_a_loop

pytestmark = pytest.mark.skipif(not link.is_installed(), reason="llvmlite is not installed")
RNG = np.random.default_rng(5)


def run_on(text: str, *arrays: Any, numbers: tuple[int, ...] = ()) -> None:
    """Call `@f` of a text, as it stands."""
    convention = link.OfPointers(len(arrays), len(numbers))
    function = link.Linker().function("test", text, convention, is_optimised=False)
    assert function(*[x.ctypes.data for x in arrays], *numbers) == 0


def code_of(body: Callable[[Code, Any], None], count: Any, contracts: bool = False) -> Code:
    code = Code(contracts)
    code.loop(count, lambda i: body(code, i))
    code.line("ret i64 0")
    return code


def text_of(
    body: Callable[[Code, Any], None], count: Any, pointers: int, numbers: tuple[str, ...] = ()
) -> str:
    """A function of a loop over arrays of float64."""
    return code_of(body, count).text("f", [f"%a{n}" for n in range(pointers)], numbers)


def along(text: str, lanes: int) -> str:
    """All loops along vectors, whatever that is worth."""
    with mock.patch.object(first_call, "LINE", 0.0):
        plain = for_first_call(text, Work(0), lanes)
    assert plain is not None
    return plain


def reason_for(text: str, lanes: int = 4) -> str:
    """Why the loop of a text stays as it is."""
    (loop,) = LOOP.finditer(text)
    with pytest.raises(NotAlongVectorsError) as error:
        VectorLoop(loop, lanes, Definitions(text))
    assert along(text, lanes) == text
    return str(error.value)


def read(code: Code, number: int, i: Any, dtype: DType = DType.F64) -> Any:
    return code.load(f"%a{number}", i, dtype)


def put(code: Code, y: Any, number: int, i: Any, dtype: DType = DType.F64) -> None:
    code.store(y, f"%a{number}", i, dtype)


# ---- what is written -----------------------------------------------------------------------------


def stencil(code: Code, i: Any) -> None:
    """y[i] = (x[i] + x[i + 2]) * c - i * x[1]"""
    total = code.value(f"fadd double {read(code, 0, i)}, {read(code, 0, code.add(i, 2))}")
    scaled = code.value(f"fmul double {total}, {read(code, 1, 0)}")
    number = code.value(f"sitofp i64 {code.scaled(i, 3)} to double")
    product = code.value(f"fmul double {number}, {read(code, 0, 1)}")
    put(code, code.value(f"fsub double {scaled}, {product}"), 2, i)


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("count", [2, 3, 7, 8, 9, 15, 16, 17, 40])
def test_the_last_vector_ends_with_the_last_element(count: int, lanes: int) -> None:
    """And nothing is written behind it."""
    x, c = RNG.standard_normal(count + 2), np.array([1.25])
    y, before = np.full(count + 3, -7.0), np.full(count + 3, -7.0)
    text = text_of(stencil, count, 3)
    vectors = along(text, lanes)
    assert ("x double>" in vectors) == (count >= 2)
    assert vectors.count("phi i64") == int(count > min(lanes, 1 << (count.bit_length() - 1)))
    run_on(vectors, x, c, y[1:])
    run_on(text, x, c, before[1:])
    expected = (x[:count] + x[2 : count + 2]) * 1.25 - 3.0 * np.arange(count) * x[1]
    np.testing.assert_array_equal(y, [-7.0, *expected, *[-7.0] * 2])
    np.testing.assert_array_equal(y, before)


def doubled(code: Code, i: Any) -> None:
    put(code, code.value(f"fadd double {read(code, 0, i)}, {read(code, 0, i)}"), 0, i)


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("count", [2, 3, 7, 8, 9, 17, 40])
def test_what_is_read_and_written_is_computed_once(count: int, lanes: int) -> None:
    x = RNG.standard_normal(count + 1)
    expected = np.concatenate([2.0 * x[:count], x[count:]])
    run_on(along(text_of(doubled, count, 1), lanes), x)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 19])
@pytest.mark.parametrize("body", [doubled, stencil])
def test_a_count_that_is_known_late(body: Any, count: int) -> None:
    text = text_of(body, "%n", 3, ("%n",))
    vectors = along(text, 4)
    assert "<4 x double>" in vectors
    assert "= and i64 %n, -4" in vectors
    results: list[Any] = []
    for each in (text, vectors):
        x, c, y = np.arange(count + 2.0) ** 2, np.array([0.3]), np.full(count + 1, -7.0)
        run_on(each, x, c, y, numbers=(count,))
        results.append((x, y))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


def test_a_choice_that_is_the_same_for_all() -> None:
    """Between vectors, and between numbers, by what the loop computes."""

    def body(code: Code, i: Any) -> None:
        is_less = code.value(f"fcmp olt double {read(code, 1, 0)}, {read(code, 1, 1)}")
        x, y = read(code, 0, i), read(code, 1, 1)
        chosen = code.value(f"select i1 {is_less}, double {x}, double {y}")
        number = code.value(f"select i1 {is_less}, double {y}, double 3.0")
        put(code, code.value(f"fadd double {chosen}, {number}"), 2, i)

    vectors = along(text_of(body, 9, 3), 4)
    assert re.search(r"select i1 %i\d+\.w\d+, <4 x double>", vectors)
    assert re.search(r"select i1 %i\d+\.w\d+, double", vectors)
    x, y = np.arange(9.0), np.empty(9)
    for bounds, expected in (((1.0, 2.0), x + 2.0), ((2.0, 1.0), 1.0 + 3.0)):
        run_on(vectors, x, np.array(bounds), y)
        np.testing.assert_array_equal(y, np.broadcast_to(expected, 9))


def test_an_index_that_falls() -> None:
    """As a number, and as a place that is the same in every turn."""

    def body(code: Code, i: Any) -> None:
        falling = code.value(f"sub i64 7, {i}")
        first = code.value(f"sub i64 {code.add(i, 3)}, {i}")
        put(
            code,
            code.value(f"add i64 {falling}, {read(code, 1, first, DType.I64)}"),
            0,
            i,
            DType.I64,
        )

    y, x = np.empty(9, np.int64), np.arange(10, 20)
    vectors = along(text_of(body, 9, 2), 4)
    assert "store <4 x i64>" in vectors
    run_on(vectors, y, x)
    np.testing.assert_array_equal(y, 7 - np.arange(9) + 13)


def test_numbers_of_elements_wrap() -> None:
    def body(code: Code, i: Any) -> None:
        put(code, code.value(f"mul i64 {i}, {(1 << 63) - 1}"), 0, i, DType.I64)

    y = np.empty(9, np.int64)
    run_on(along(text_of(body, 9, 1), 8), y)
    np.testing.assert_array_equal(y, np.arange(9) * np.int64((1 << 63) - 1))


def test_lanes_are_as_many_as_the_largest_elements_fit() -> None:
    def copied(code: Code, i: Any) -> None:
        put(code, read(code, 0, i, dtype), 1, i, dtype)

    expected = {"F64": 4, "I64": 4, "F32": 8, "I32": 8, "I16": 8, "I8": 8, "Bool": 8, "F16": 8}
    for name, lanes in expected.items():
        dtype = DType[name]
        text = code_of(copied, 50).text("f", ["%a0", "%a1"])
        (loop,) = LOOP.finditer(text)
        assert VectorLoop(loop, 4, Definitions(text)).lanes == lanes, name


DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic_of_every_dtype(dtype: str) -> None:
    """The bits of code as written, along vectors and optimised, where extents fill no vectors."""
    x = RNG.integers(0, 9, (3, 7, 13)).astype(dtype)
    y = RNG.integers(1, 9, (3, 7, 13)).astype(dtype)

    def f(x: Any, y: Any) -> Any:
        z = tnf.where(x > y, x, y)
        if dtype == "bool":
            return z & x, x | ~y
        chosen = tnf.minimum(z * x + y, x) if dtype != "int8" else z - x
        return chosen, tnf.astype(x, "float32") * 0.5, x.T + z.T

    results = in_a_loop(f, x, y)
    for number, row in enumerate(zip(*results, strict=True)):
        for result, expected in zip(row, f(x[number], y[number]), strict=True):
            np.testing.assert_array_equal(result, np.asarray(expected))


@pytest.mark.parametrize("name", ["exp", "sin", "tanh", "log1p", "pow", "erf", "logistic"])
def test_functions_along_vectors(name: str) -> None:
    """One of a straight line is written on vectors, another one is there; both as on numbers."""

    def body(code: Code, i: Any) -> None:
        operands = [read(code, n, i) for n in range(1 + (name == "pow"))]
        put(code, call(code, name, DType.F64, *operands), 2, i)

    code = Code(True, (8, 4))
    code.loop(13, lambda i: body(code, i))
    code.line("ret i64 0")
    text = code.text("f", ["%a0", "%a1", "%a2"]) + code.lanes_text()
    vectors = along(text, 4)
    assert f"call <4 x double> @tenferro_{name}_4(" in vectors
    x = np.array([0.5, -0.0, 0.0, 1e300, np.inf, np.nan, 3.0, 1e-310, 2.0, 7.5, 1e5, 30.0, 0.1])
    results = [np.empty(13), np.empty(13)]
    for each, y in zip((text, vectors), results, strict=True):
        run_on(first_call.without_passes(each), x, np.full(13, 1.7), y)
    is_nan = np.isnan(results[0])
    np.testing.assert_array_equal(np.isnan(results[1]), is_nan)
    assert results[0][~is_nan].tobytes() == results[1][~is_nan].tobytes()


# ---- what stays as it was ------------------------------------------------------------------------


def gathered(code: Code, i: Any) -> None:
    put(code, read(code, 1, read(code, 0, i, DType.I64)), 2, i)


def strided(code: Code, i: Any) -> None:
    put(code, read(code, 0, code.scaled(i, 2)), 1, i)


def scattered(code: Code, i: Any) -> None:
    put(code, read(code, 0, i), 1, code.scaled(i, 2))


def summed(code: Code, i: Any) -> None:
    put(code, code.value(f"fadd double {read(code, 1, 0)}, {read(code, 0, i)}"), 1, 0)


def running(code: Code, i: Any) -> None:
    put(code, read(code, 0, i), 0, code.add(i, 1))


def overwritten(code: Code, i: Any) -> None:
    put(code, read(code, 0, i), 1, i)
    put(code, read(code, 0, i), 1, code.add(i, 1))


def rested(code: Code, i: Any) -> None:
    rest = code.value(f"srem i64 {read(code, 0, i, DType.I64)}, 3")
    put(code, rest, 1, i, DType.I64)


def told(code: Code, i: Any) -> None:
    code.call("outside", "double", [("double", read(code, 0, 0))])
    put(code, read(code, 0, i), 1, i)


def asked(code: Code, i: Any) -> None:
    put(code, code.call("llvm.pow.f64", "double", [("double", read(code, 0, i))] * 2), 1, i)


def pointed(code: Code, i: Any) -> None:
    pointer = code.value("load ptr, ptr %a0")
    put(code, code.value(f"load double, ptr {pointer}"), 1, i)


def inside(code: Code, i: Any) -> None:
    first = code.value(f"getelementptr inbounds double, ptr %a0, i64 {i}")
    second = code.value(f"getelementptr inbounds double, ptr {first}, i64 1")
    put(code, code.value(f"load double, ptr {second}"), 1, i)


def mistaken(code: Code, i: Any) -> None:
    address = code.value(f"getelementptr inbounds i8, ptr %a0, i64 {i}")
    put(code, code.value(f"load double, ptr {address}"), 1, i)


def of_two_kinds(code: Code, i: Any) -> None:
    put(code, read(code, 0, i), 1, i)
    put(code, read(code, 2, i, DType.I32), 1, i, DType.I32)


STAYING = {
    gathered: "elements lie where others say",
    strided: "elements do not lie side by side",
    scattered: "elements are not written side by side",
    summed: "elements are not written side by side",
    running: "turns share memory",
    overwritten: "turns share memory",
    rested: "srem of vectors",
    told: "calls @outside",
    asked: "calls @llvm.pow.f64",
    pointed: "load",
    inside: "memory begins where the loop says",
    mistaken: "double lies where i8 does",
    of_two_kinds: "turns share memory",
}


@pytest.mark.parametrize("body", STAYING, ids=lambda body: body.__name__)
def test_loops_that_stay(body: Any) -> None:
    assert reason_for(text_of(body, 16, 3)) == STAYING[body]


def test_a_vector_has_two_elements() -> None:
    assert reason_for(text_of(doubled, 16, 1), lanes=1) == "a single element"


def test_loops_around_others_stay() -> None:
    code = Code()
    code.loops(
        (8, 16), lambda index: put(code, read(code, 0, index[1]), 1, code.linear(index, (8, 16)))
    )
    code.line("ret i64 0")
    text = code.text("f", ["%a0", "%a1"])
    assert [loop["count"] for loop in LOOP.finditer(text)] == ["16"]
    x, y = RNG.standard_normal(16), np.zeros((8, 16))
    run_on(along(text, 4), x, y)
    np.testing.assert_array_equal(y, np.broadcast_to(x, (8, 16)))


# ---- what it is worth ----------------------------------------------------------------------------


def test_a_line_is_written_where_it_saves_more_than_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 0.08 ns of each instruction, vectors of 8 save three quarters."""
    text = text_of(stencil, 40, 3)
    (loop,) = LOOP.finditer(text)
    lines = len(VectorLoop(loop, 8, Definitions(text)).lines)
    assert lines > loop["body"].count("\n")
    monkeypatch.setattr(first_call, "LINE", 600.0)
    worth = lines * 600.0 / (0.08 * 0.75)
    for work, turns, is_written in (
        (worth - 1, 1, False),
        (worth + 1, 1, True),
        (worth / 10 + 1, 10, True),
        (worth / 10 - 1, 10, False),
    ):
        of_loop = Work(10**6, {loop["label"]: work}, turns)
        assert (for_first_call(text, of_loop, 8) != text) == is_written
    assert for_first_call(text, Work(10**6, {"another": 10**9}), 8) == text
    # Vectors of two elements save nothing.
    assert for_first_call(text, Work(10**6, {loop["label"]: 10**9}), 2) == text


def test_two_functions_with_one_label() -> None:
    """The work is that of one of them."""
    text = text_of(stencil, 40, 3)
    both = text.replace("@f(", "@first(") + text
    (loop,) = LOOP.finditer(text)
    as_passes = passes(both) / 0.08
    with mock.patch.object(first_call, "LINE", 1.0):
        vectors = for_first_call(both, Work(2 * as_passes, {loop["label"]: 2 * as_passes}), 8)
        # Of four three are saved, and not six.
        assert (
            for_first_call(both, Work(4.5 * as_passes, {loop["label"]: 4 * as_passes}), 8) is None
        )
    assert vectors is not None
    assert vectors.count("store <8 x double>") == 1


def test_functions_on_vectors_are_paid_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(i: Any) -> None:
        put(code, call(code, "exp", DType.F64, read(code, 0, i)), 1, i)

    code = Code(True, (8, 4))
    for _ in range(2):
        code.loop(40, body)
    code.line("ret i64 0")
    text = code.text("f", ["%a0", "%a1"])
    first, second = LOOP.finditer(text)
    loop = VectorLoop(first, 8, Definitions(text))
    function = sum([each.count("\n") for each in loop.functions.values()])
    assert function > 20
    monkeypatch.setattr(first_call, "LINE", 600.0)
    both = (function + len(loop.lines)) * 600.0 / (0.08 * 0.75) + 1
    alone = first["body"].count("\n") * 600.0 / (0.08 * 0.75) + 1
    for works, calls in (((both, alone), 2), ((alone, both), 1), ((both - 2, both - 2), 0)):
        work = Work(10**6, dict(zip((first["label"], second["label"]), works, strict=True)))
        vectors = for_first_call(text, work, 8)
        assert vectors is not None
        assert len(re.findall(r"= call <8 x double> @tenferro_exp_8", vectors)) == calls
        assert vectors.count("define internal <8 x double> @tenferro_exp_8") == bool(calls)


def test_passes_pay_for_what_vectors_leave() -> None:
    text = text_of(stencil, 40, 3)
    (loop,) = LOOP.finditer(text)
    work = 4 * passes(text) / 0.08
    assert for_first_call(text, Work(work / 4 - 1), 8) is not None
    assert for_first_call(text, Work(work / 4 + 1), 8) is None
    assert for_first_call(text, Work(work - 4, {loop["label"]: work - 4}), 8) is not None
    assert for_first_call(text, Work(work + 4, {loop["label"]: work + 4}), 8) is None


def test_the_work_of_loops_is_counted() -> None:
    code = Code()

    def row(i: Any) -> None:
        code.loop(9, lambda j: put(code, read(code, 0, j), 1, code.add(j, code.scaled(i, 9))))

    code.loop(5, row)
    code.loop(20, lambda i: doubled(code, i))
    work = Work.of(code)
    # Two reads, a sum and a result; a read and a result at an index of two steps.
    assert sorted(work.innermost.values()) == [20 * 7, 5 * 9 * 6]
    assert work.instructions > sum(work.innermost.values())
    assert work.times(3) == Work(
        3 * work.instructions, {k: 3 * v for k, v in work.innermost.items()}
    )
    assert Work.of(code, 100).turns == 100
    assert work.instructions == code.work


def test_first_calls_go_along_vectors() -> None:
    """Of a program, by its own estimate."""
    texts: list[str] = []
    compiled = link._compiled

    def noted(text: str, machine: Any, is_optimised: bool = True) -> Any:
        texts.append(text)
        return compiled(text, machine, is_optimised)

    x = RNG.standard_normal((64, 500))
    program = tnf.compile(lambda x: tnf.fori_loop(0, 300, lambda i, y: y * 0.5 + x * y, x), x)
    executor = tnf.GraphExecutor("K", threads=1)
    with mock.patch.object(link, "_compiled", noted), mock.patch.object(first_call, "LINE", 1.0):
        results = [executor.run(program, x) for _ in range(2)]
    assert ["x double>" in text for text in texts] == [max(link.processor().lanes) > 2, False]
    assert results[0].tobytes() == results[1].tobytes()
