"""Vectorisation of loops in baseline code: results, refusals and estimated gain."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm import baseline, link
from tenferro.exec.llvm.baseline import Work, baseline_module, pass_time
from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.functions import call
from tenferro.exec.llvm.ir import Function, Instruction, Loop, Module, Value, VectorType
from tenferro.exec.llvm.vectorise import (
    NotVectorisedError,
    VectorBlock,
    VectorLoop,
    VectorVariants,
)
from tenferro.types import DType
from tests.exec.compiled_loops import in_a_loop
from tests.exec.llvm_verifier import verify

pytestmark = pytest.mark.skipif(not link.is_installed(), reason="llvmlite is not installed")
RNG = np.random.default_rng(5)


def run_on(module: Module, *arrays: Any, numbers: tuple[int, ...] = ()) -> None:
    """Call `@f` of a module without passes."""
    convention = link.PointerConvention(len(arrays), len(numbers))
    function = link.Linker().function("test", module, convention, is_optimised=False)
    assert function(*[x.ctypes.data for x in arrays], *numbers) == 0


def code_of(body: Callable[[Code, Any], None], count: Any, contracts: bool = False) -> Code:
    code = Code(contracts)
    code.loop(count, lambda i: body(code, i))
    code.ret(0)
    return code


def module_of(
    body: Callable[[Code, Any], None], count: Any, pointers: int, numbers: tuple[str, ...] = ()
) -> Module:
    """Return the module of a loop over arrays of float64."""
    code = code_of(body, count)
    code.define("f", [f"%a{n}" for n in range(pointers)], numbers)
    return code.module()


def along(module: Module, lanes: int) -> Module:
    """Vectorise all loops, whatever the gain."""
    with mock.patch.object(baseline, "VECTOR_LINE_TIME", 0.0):
        plain = baseline_module(module, Work(0), lanes)
    assert plain is not None
    verify(plain)
    return plain


def loops_of(module: Module) -> list[Loop]:
    """Return the loops of one basic block."""
    regions = [x.region for x in module.functions.values() if isinstance(x, Function)]
    found: list[Loop] = []
    for region in regions:
        loops = [x for x in region if isinstance(x, Loop)]
        found += [x for x in loops if x.is_block]
        regions += [x.body for x in loops if not x.is_block]
    return found


def vectorised(module: Module, lanes: int) -> VectorLoop:
    """Return the first loop on vectors."""
    return VectorLoop(loops_of(module)[0], lanes, VectorVariants(module.all_functions))


def reason_for(module: Module, lanes: int = 4) -> str:
    """Return why the loop of a module stays scalar."""
    with pytest.raises(NotVectorisedError) as error:
        vectorised(module, lanes)
    assert along(module, lanes).text == module.text
    return str(error.value)


def read(code: Code, number: int, i: Any, dtype: DType = DType.F64) -> Any:
    return code.load(f"%a{number}", i, dtype)


def put(code: Code, y: Any, number: int, i: Any, dtype: DType = DType.F64) -> None:
    code.store(y, f"%a{number}", i, dtype)


# ---- what is written -----------------------------------------------------------------------------


def stencil(code: Code, i: Any) -> None:
    """y[i] = (x[i] + x[i + 2]) * c - i * x[1]"""
    total = code.value("fadd", read(code, 0, i), read(code, 0, code.add(i, 2)))
    scaled = code.value("fmul", total, read(code, 1, 0))
    number = code.cast("sitofp", code.scaled(i, 3), "double")
    product = code.value("fmul", number, read(code, 0, 1))
    put(code, code.value("fsub", scaled, product), 2, i)


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("count", [2, 3, 7, 8, 9, 15, 16, 17, 40])
def test_the_last_vector_overlaps(count: int, lanes: int) -> None:
    """Nothing is written after the last element."""
    x, c = RNG.standard_normal(count + 2), np.array([1.25])
    y, before = np.full(count + 3, -7.0), np.full(count + 3, -7.0)
    module = module_of(stencil, count, 3)
    vectors = along(module, lanes)
    assert ("x double>" in vectors.text) == (count >= 2)
    assert vectors.text.count("phi i64") == int(count > min(lanes, 1 << (count.bit_length() - 1)))
    run_on(vectors, x, c, y[1:])
    run_on(module, x, c, before[1:])
    expected = (x[:count] + x[2 : count + 2]) * 1.25 - 3.0 * np.arange(count) * x[1]
    np.testing.assert_array_equal(y, [-7.0, *expected, *[-7.0] * 2])
    np.testing.assert_array_equal(y, before)


def doubled(code: Code, i: Any) -> None:
    put(code, code.value("fadd", read(code, 0, i), read(code, 0, i)), 0, i)


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("count", [2, 3, 7, 8, 9, 17, 40])
def test_loops_that_read_what_they_write_have_a_remainder(count: int, lanes: int) -> None:
    x = RNG.standard_normal(count + 1)
    expected = np.concatenate([2.0 * x[:count], x[count:]])
    run_on(along(module_of(doubled, count, 1), lanes), x)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 19])
@pytest.mark.parametrize("body", [doubled, stencil])
def test_dynamic_trip_counts(body: Any, count: int) -> None:
    module = module_of(body, "%n", 3, ("%n",))
    vectors = along(module, 4)
    assert "<4 x double>" in vectors.text
    assert "= and i64 %n, -4" in vectors.text
    results: list[Any] = []
    for each in (module, vectors):
        x, c, y = np.arange(count + 2.0) ** 2, np.array([0.3]), np.full(count + 1, -7.0)
        run_on(each, x, c, y, numbers=(count,))
        results.append((x, y))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


def test_uniform_conditions() -> None:
    """Conditions that select vectors, and scalars."""

    def body(code: Code, i: Any) -> None:
        is_less = code.fcmp("olt", read(code, 1, 0), read(code, 1, 1))
        x, y = read(code, 0, i), read(code, 1, 1)
        chosen = code.select(is_less, x, y)
        number = code.select(is_less, y, "3.0")
        put(code, code.value("fadd", chosen, number), 2, i)

    vectors = along(module_of(body, 9, 3), 4)
    assert re.search(r"select i1 %i\d+\.w\d+, <4 x double>", vectors.text)
    assert re.search(r"select i1 %i\d+\.w\d+, double", vectors.text)
    x, y = np.arange(9.0), np.empty(9)
    for bounds, expected in (((1.0, 2.0), x + 2.0), ((2.0, 1.0), 1.0 + 3.0)):
        run_on(vectors, x, np.array(bounds), y)
        np.testing.assert_array_equal(y, np.broadcast_to(expected, 9))


def test_decreasing_indices() -> None:
    """As a value, and as the index of a uniform access."""

    def body(code: Code, i: Any) -> None:
        falling = code.value("sub", 7, i)
        first = code.value("sub", code.add(i, 3), i)
        put(
            code,
            code.value("add", falling, read(code, 1, first, DType.I64)),
            0,
            i,
            DType.I64,
        )

    y, x = np.empty(9, np.int64), np.arange(10, 20)
    vectors = along(module_of(body, 9, 2), 4)
    assert "store <4 x i64>" in vectors.text
    run_on(vectors, y, x)
    np.testing.assert_array_equal(y, 7 - np.arange(9) + 13)


def test_indices_wrap() -> None:
    def body(code: Code, i: Any) -> None:
        put(code, code.value("mul", i, (1 << 63) - 1), 0, i, DType.I64)

    y = np.empty(9, np.int64)
    run_on(along(module_of(body, 9, 1), 8), y)
    np.testing.assert_array_equal(y, np.arange(9) * np.int64((1 << 63) - 1))


def test_the_widest_element_determines_the_lanes() -> None:
    def copied(code: Code, i: Any) -> None:
        put(code, read(code, 0, i, dtype), 1, i, dtype)

    expected = {"F64": 4, "I64": 4, "F32": 8, "I32": 8, "I16": 8, "I8": 8, "Bool": 8, "F16": 8}
    for name, lanes in expected.items():
        dtype = DType[name]
        assert vectorised(module_of(copied, 50, 2), 4).lanes == lanes, name


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
    """Scalar, vectorised and optimised code give the same bits, with remainders."""
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
def test_vector_variants_of_functions(name: str) -> None:
    """Basic blocks are vectorised, other functions have a variant; both give the bits of the scalar function."""

    def body(code: Code, i: Any) -> None:
        operands = [read(code, n, i) for n in range(1 + (name == "pow"))]
        put(code, call(code, name, DType.F64, *operands), 2, i)

    code = Code(True, (8, 4))
    code.loop(13, lambda i: body(code, i))
    code.ret(0)
    code.define("f", ["%a0", "%a1", "%a2"])
    module = code.module()
    vectors = along(module, 4)
    assert f"call <4 x double> @tenferro_{name}_4(" in vectors.text
    x = np.array([0.5, -0.0, 0.0, 1e300, np.inf, np.nan, 3.0, 1e-310, 2.0, 7.5, 1e5, 30.0, 0.1])
    results = [np.empty(13), np.empty(13)]
    for each, y in zip((module, vectors), results, strict=True):
        run_on(each, x, np.full(13, 1.7), y)
    is_nan = np.isnan(results[0])
    np.testing.assert_array_equal(np.isnan(results[1]), is_nan)
    assert results[0][~is_nan].tobytes() == results[1][~is_nan].tobytes()


# ---- rules -----------------------------------------------------------------------------------------


def widened(x: Instruction, lanes: int = 4) -> list[str]:
    """Return the rewrite of an instruction on a vector `%x`, or `%c` of conditions, and a uniform `%u`."""
    block = VectorBlock(lanes, VectorVariants({}), {}, "%w")
    for y in x.operands:
        if y in ("%x", "%c"):
            block.vectors[y] = Value(f"{y}s", VectorType(lanes, y.type))
    block.rewrite([x])
    return [str(each).strip() for each in block.instructions]


X, U, C = Value("%x", "double"), Value("%u", "double"), Value("%c", "i1")
Y, ONE, INDEX = Value("%y", "double"), Value("1.0", "double"), Value("%x", "i64")
BROADCAST = [
    "%w0 = insertelement <4 x double> poison, double %u, i64 0",
    "%w1 = shufflevector <4 x double> %w0, <4 x double> poison, <4 x i32> zeroinitializer",
]


@pytest.mark.parametrize(
    ("instruction", "lines"),
    [
        (Instruction("fadd", (U, U), Y), ["%w0 = fadd double %u, %u"]),
        (Instruction("fadd", (X, U), Y), [*BROADCAST, "%w2 = fadd <4 x double> %xs, %w1"]),
        (Instruction("fneg", (X,), Y), ["%w0 = fneg <4 x double> %xs"]),
        (
            Instruction("fcmp", (X, ONE), Value("%y", "i1"), flags="olt"),
            [f"%w0 = fcmp olt <4 x double> %xs, <{', '.join(['double 1.0'] * 4)}>"],
        ),
        (
            Instruction("sitofp", (INDEX,), Y, "double"),
            ["%w0 = sitofp <4 x i64> %xs to <4 x double>"],
        ),
        (
            Instruction("select", (C, X, X), Y),
            ["%w0 = select <4 x i1> %cs, <4 x double> %xs, <4 x double> %xs"],
        ),
        (
            Instruction("call", (Value("@llvm.sqrt.f64", "ptr"), X), Y, "double"),
            ["%w0 = call <4 x double> @llvm.sqrt.v4f64(<4 x double> %xs)"],
        ),
    ],
    ids=lambda x: x.opcode if isinstance(x, Instruction) else "",
)  # fmt: skip
def test_rules_of_instructions(instruction: Instruction, lines: list[str]) -> None:
    assert widened(instruction) == lines


def test_instructions_without_a_rule() -> None:
    for x in (Instruction("fence", flags="seq_cst"), Instruction("udiv", (INDEX, INDEX), INDEX)):
        with pytest.raises(NotVectorisedError, match=x.opcode):
            widened(x)


# ---- what stays as it was ------------------------------------------------------------------------


def gathered(code: Code, i: Any) -> None:
    put(code, read(code, 1, read(code, 0, i, DType.I64)), 2, i)


def strided(code: Code, i: Any) -> None:
    put(code, read(code, 0, code.scaled(i, 2)), 1, i)


def scattered(code: Code, i: Any) -> None:
    put(code, read(code, 0, i), 1, code.scaled(i, 2))


def summed(code: Code, i: Any) -> None:
    put(code, code.value("fadd", read(code, 1, 0), read(code, 0, i)), 1, 0)


def recurrent(code: Code, i: Any) -> None:
    put(code, read(code, 0, i), 0, code.add(i, 1))


def overwritten(code: Code, i: Any) -> None:
    put(code, read(code, 0, i), 1, i)
    put(code, read(code, 0, i), 1, code.add(i, 1))


def remainders(code: Code, i: Any) -> None:
    rest = code.value("srem", read(code, 0, i, DType.I64), 3)
    put(code, rest, 1, i, DType.I64)


def calls_function(code: Code, i: Any) -> None:
    code.call("outside", "double", [read(code, 0, 0)])
    put(code, read(code, 0, i), 1, i)


def calls_intrinsic(code: Code, i: Any) -> None:
    put(code, code.intrinsic("pow", *[read(code, 0, i)] * 2), 1, i)


def pointed(code: Code, i: Any) -> None:
    pointer = code.load_value("ptr", "%a0")
    put(code, code.load_value("double", pointer), 1, i)


def inside(code: Code, i: Any) -> None:
    first = code.gep("double", "%a0", i, "inbounds")
    second = code.gep("double", first, 1, "inbounds")
    put(code, code.load_value("double", second), 1, i)


def mistyped(code: Code, i: Any) -> None:
    address = code.gep("i8", "%a0", i, "inbounds")
    put(code, code.load_value("double", address), 1, i)


def of_two_kinds(code: Code, i: Any) -> None:
    put(code, read(code, 0, i), 1, i)
    put(code, read(code, 2, i, DType.I32), 1, i, DType.I32)


REFUSED = {
    gathered: "indirect access",
    strided: "a strided load",
    scattered: "a strided or uniform store",
    summed: "a strided or uniform store",
    recurrent: "loop-carried dependence",
    overwritten: "loop-carried dependence",
    remainders: "srem of vectors",
    calls_function: "calls @outside",
    calls_intrinsic: "calls @llvm.pow.f64",
    pointed: "load",
    inside: "the base of an access changes",
    mistyped: "memory of i8 is accessed as double",
    of_two_kinds: "loop-carried dependence",
}


@pytest.mark.parametrize("body", REFUSED, ids=lambda body: body.__name__)
def test_loops_that_stay_scalar(body: Any) -> None:
    assert reason_for(module_of(body, 16, 3)) == REFUSED[body]


def test_a_vector_has_two_elements() -> None:
    assert reason_for(module_of(doubled, 16, 1), lanes=1) == "a single element"


def test_outer_loops_stay_scalar() -> None:
    code = Code()
    code.loops(
        (8, 16),
        lambda index: put(code, read(code, 0, index[1]), 1, code.ravel_index(index, (8, 16))),
    )
    code.ret(0)
    code.define("f", ["%a0", "%a1"])
    module = code.module()
    assert [loop.count for loop in loops_of(module)] == ["16"]
    x, y = RNG.standard_normal(16), np.zeros((8, 16))
    run_on(along(module, 4), x, y)
    np.testing.assert_array_equal(y, np.broadcast_to(x, (8, 16)))


# ---- estimated gain -------------------------------------------------------------------------------


def test_loops_are_vectorised_if_that_saves_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Vectors of 8 save three quarters of 0.08 ns for each instruction."""
    module = module_of(stencil, 40, 3)
    (loop,) = loops_of(module)
    lines = len(vectorised(module, 8).body)
    assert lines > len(loop.body)
    monkeypatch.setattr(baseline, "VECTOR_LINE_TIME", 600.0)
    worth = lines * 600.0 / (0.08 * 0.75)
    for work, iterations, is_written in (
        (worth - 1, 1, False),
        (worth + 1, 1, True),
        (worth / 10 + 1, 10, True),
        (worth / 10 - 1, 10, False),
    ):
        of_loop = Work(10**6, {loop.label: work}, iterations)
        assert (text_of(baseline_module(module, of_loop, 8)) != module.text) == is_written
    another = Work(10**6, {"another": 10**9})
    assert text_of(baseline_module(module, another, 8)) == module.text
    # Vectors of two elements save nothing.
    of_loop = Work(10**6, {loop.label: 10**9})
    assert text_of(baseline_module(module, of_loop, 2)) == module.text


def text_of(module: Module | None) -> str:
    assert module is not None
    return module.text


def test_two_functions_with_one_label() -> None:
    """The work of a label is counted once."""
    module = module_of(stencil, 40, 3)
    (function,) = module.functions.values()
    assert isinstance(function, Function)
    both = Module((), {"first": replace(function, name="first"), "f": function})
    (loop,) = loops_of(module)
    as_passes = pass_time(both) / 0.08
    with mock.patch.object(baseline, "VECTOR_LINE_TIME", 1.0):
        vectors = baseline_module(both, Work(2 * as_passes, {loop.label: 2 * as_passes}), 8)
        # Of four three are saved, and not six.
        assert baseline_module(both, Work(4.5 * as_passes, {loop.label: 4 * as_passes}), 8) is None
    assert text_of(vectors).count("store <8 x double>") == 1


def test_vector_variants_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(i: Any) -> None:
        put(code, call(code, "exp", DType.F64, read(code, 0, i)), 1, i)

    code = Code(True, (8, 4))
    for _ in range(2):
        code.loop(40, body)
    code.ret(0)
    code.define("f", ["%a0", "%a1"])
    module = code.module()
    first, second = loops_of(module)
    loop = vectorised(module, 8)
    functions = [each for each in loop.functions.values() if isinstance(each, Function)]
    function = sum([each.length + 1 for each in functions])
    assert function > 20
    monkeypatch.setattr(baseline, "VECTOR_LINE_TIME", 600.0)
    both = (function + len(loop.body)) * 600.0 / (0.08 * 0.75) + 1
    alone = (len(first.body) + 1) * 600.0 / (0.08 * 0.75) + 1
    for works, calls in (((both, alone), 2), ((alone, both), 1), ((both - 2, both - 2), 0)):
        work = Work(10**6, dict(zip((first.label, second.label), works, strict=True)))
        vectors = text_of(baseline_module(module, work, 8))
        assert len(re.findall(r"= call <8 x double> @tenferro_exp_8", vectors)) == calls
        assert vectors.count("define internal <8 x double> @tenferro_exp_8") == bool(calls)


def test_break_even_of_passes() -> None:
    module = module_of(stencil, 40, 3)
    (loop,) = loops_of(module)
    work = 4 * pass_time(module) / 0.08
    assert baseline_module(module, Work(work / 4 - 1), 8) is not None
    assert baseline_module(module, Work(work / 4 + 1), 8) is None
    assert baseline_module(module, Work(work - 4, {loop.label: work - 4}), 8) is not None
    assert baseline_module(module, Work(work + 4, {loop.label: work + 4}), 8) is None


def test_estimated_work_of_loops() -> None:
    code = Code()

    def row(i: Any) -> None:
        code.loop(9, lambda j: put(code, read(code, 0, j), 1, code.add(j, code.scaled(i, 9))))

    code.loop(5, row)
    code.loop(20, lambda i: doubled(code, i))
    work = Work.from_code(code)
    # Two reads, a sum and a result; a read and a result at an index of two steps.
    assert sorted(work.innermost.values()) == [20 * 7, 5 * 9 * 6]
    assert work.instructions > sum(work.innermost.values())
    assert work.times(3) == Work(
        3 * work.instructions, {k: 3 * v for k, v in work.innermost.items()}
    )
    assert Work.from_code(code, 100).iterations == 100
    assert work.instructions == code.work


def test_baseline_code_is_vectorised() -> None:
    """Vectorisation follows the estimated work of a program."""
    texts: list[str] = []
    compiled = link._compiled

    def noted(module: Module, machine: Any, is_optimised: bool = True) -> Any:
        texts.append(module.plain)
        return compiled(module, machine, is_optimised)

    x = RNG.standard_normal((64, 500))
    program = tnf.compile(lambda x: tnf.fori_loop(0, 300, lambda i, y: y * 0.5 + x * y, x), x)
    executor = tnf.GraphExecutor("K", threads=1)
    with (
        mock.patch.object(link, "_compiled", noted),
        mock.patch.object(baseline, "VECTOR_LINE_TIME", 1.0),
    ):
        results = [executor.run(program, x) for _ in range(2)]
    assert ["x double>" in text for text in texts] == [max(link.processor().lanes) > 2, False]
    assert results[0].tobytes() == results[1].tobytes()
