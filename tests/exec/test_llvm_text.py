"""LLVM text of loops, branches, calls and constants, and the estimated work of these."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from tenferro.dims import GuardLog
from tenferro.errors import DTypeError
from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import python_calls
from tenferro.exec.llvm.code import MAX_UNROLLED, Code, literal, llvm_type, memory_type
from tenferro.exec.llvm.control import COMPILED
from tenferro.exec.llvm.folding import alloca_scalar
from tenferro.exec.llvm.formula import Number, from_bits, has_bit, multiply_add, two_product, where
from tenferro.exec.llvm.ir import Declaration, Function, Instruction, Value, VectorType
from tenferro.exec.llvm.rows import Row
from tenferro.exec.llvm.source import constant, iota
from tenferro.exec.llvm.tensor import Body
from tenferro.ops import analytic, elementwise
from tenferro.ops.source import Constant, Iota
from tenferro.types import DType, TensorSpec
from tests.exec.llvm_verifier import lines_of

ONE, TWO = "0x3FF0000000000000", "0xC000000000000000"


def written(code: Code) -> list[str]:
    """Return the lines of the LLVM function under construction, with its entry block."""
    return [line.strip() for line in [*map(str, code.entry), *lines_of(code)]]


def text(code: Code, *definition: Any) -> str:
    """Finish the function under construction, and return the text of its module."""
    code.define("f", *definition)
    return code.module().text


def number(name: str, kind: str = "double") -> Value:
    return Value(name, kind)


def fence(order: str) -> Instruction:
    """Return an instruction that computes nothing, as a mark in the text."""
    return Instruction("fence", flags=order)


def shift(code: Code) -> None:
    """Write a loop that copies each of ten elements to the preceding position."""

    def body(i: Any) -> None:
        code.store(code.load("%x", code.add(i, 1), DType.F64), "%y", i, DType.F64)

    code.loop(10, body)
    code.ret(0)


SHIFT = """define internal i64 @f(ptr noalias %x, ptr noalias %y, i64 %n) noinline nounwind {
entry:
  br label %body1
body1:
  %i3 = phi i64 [0, %entry], [%v9, %body1]
  %v5 = add nsw i64 %i3, 1
  %v6 = getelementptr inbounds double, ptr %x, i64 %v5
  %v7 = load double, ptr %v6
  %v8 = getelementptr inbounds double, ptr %y, i64 %i3
  store double %v7, ptr %v8
  %v9 = add nsw i64 %i3, 1
  %more4 = icmp slt i64 %v9, 10
  br i1 %more4, label %body1, label %end2
end2:
  ret i64 0
}
"""


def test_a_loop_is_written_and_counted() -> None:
    code = Code()
    shift(code)
    assert text(code, ["%x", "%y"], ["%n"]) == SHIFT
    # The work is five instructions in each of ten iterations, two branches, the counter and the return.
    assert code.work == 5 * 10 + 4
    module = code.module()
    assert module.plain == module.text


def test_short_loops_are_unrolled() -> None:
    for count, unroll in ((0, False), (1, False), (4, True)):
        code, iterations = Code(), list[Any]()
        code.loop(count, iterations.append, unroll)
        assert iterations == list(range(count))
        assert not lines_of(code)
    for shape in ((), (1,), (0,), (1, 1), (2, 2), (4,)):
        indices: list[Any] = []
        code.loops(shape, indices.append)
        assert indices == list(np.ndindex(shape))
        assert not lines_of(code)


def test_long_loops_are_not_unrolled() -> None:
    for write in (
        lambda code, body: code.loop(2, body),
        lambda code, body: code.loop(5, body, unroll=True),
        lambda code, body: code.loop("%n", body, unroll=True),
        lambda code, body: code.loops((5,), body),
    ):
        code, indices = Code(), list[Any]()
        write(code, indices.append)
        assert len(indices) == 1
        assert lines_of(code)[-1] == "end2:"
    code, indices = Code(), []
    code.loops((2, 3), indices.append)
    assert indices == [("%i3", "%i7")]


def test_interleave_count_metadata() -> None:
    code = Code()
    for chains in (1, 4, 8):
        code.loop("%n", lambda _: None, interleave=chains)
    assert [line for line in lines_of(code) if "!llvm" in line] == [
        "  br i1 %more10, label %body7, label %end8, !llvm.loop !0",
        "  br i1 %more16, label %body13, label %end14, !llvm.loop !4",
    ]
    assert code.globals == [
        "!0 = distinct !{!0, !1}",
        '!1 = !{!"llvm.loop.interleave.count", i32 4}',
        "!4 = distinct !{!4, !5}",
        '!5 = !{!"llvm.loop.interleave.count", i32 8}',
    ]


def test_estimated_work_of_calls() -> None:
    code = Code()
    assert code.intrinsic("smin", "%a", 8) == "%v1"
    assert lines_of(code) == ["  %v1 = call i64 @llvm.smin.i64(i64 %a, i64 8)"]
    assert [*map(str, code.declared.values())] == ["declare i64 @llvm.smin.i64(i64, i64)"]
    assert code.work == 16
    with code.times(3):
        code.append(fence("seq_cst"))
        code.append(fence("seq_cst"), 5)
        with code.times(2):
            code.append(fence("seq_cst"))
    code.append(fence("seq_cst"))
    assert code.work == 16 + 3 + 15 + 6 + 1


def test_branch_and_early_return() -> None:
    code = Code()
    code.branch("%c", lambda: code.append(fence("a")), lambda: code.return_if("%d", -7))
    assert written(code) == [
        "br i1 %c, label %yes1, label %no2",
        "yes1:", "fence a", "br label %end3",
        "no2:", "br i1 %d, label %leave4, label %stay5",
        "leave4:", "ret i64 -7",
        "stay5:", "br label %end3",
        "end3:",
    ]  # fmt: skip


def test_index_arithmetic_folds_constants() -> None:
    code = Code()
    assert (code.add(2, 3), code.add(0, "%i"), code.add("%i", 0)) == (5, "%i", "%i")
    assert (code.scaled(2, 3), code.scaled("%i", 1), code.scaled("%i", 0)) == (6, "%i", 0)
    assert (code.divmod(17, 5), code.divmod("%i", 1)) == ((3, 2), ("%i", 0))
    assert code.unravel_index(17, (3, 2, 5)) == (1, 1, 2)
    assert code.ravel_index((1, 1, 2), (3, 2, 5)) == 17
    assert code.ravel_index(("%i", "%j"), (1, 7)) == "%j"
    assert code.unravel_index("%i", (3,)) == ("%i",)
    assert code.unravel_index("%i", ()) == ()
    assert not lines_of(code)
    assert code.add("%i", 3) == code.add("%i", 3) == "%v1"
    assert code.scaled("%i", 3) == code.scaled("%i", 3) == "%v2"
    assert code.divmod("%i", 3) == code.divmod("%i", 3) == ("%v3", "%v4")
    assert written(code) == [
        "%v1 = add nsw i64 %i, 3", "%v2 = mul nsw i64 %i, 3",
        "%v3 = udiv i64 %i, 3", "%v4 = urem i64 %i, 3",
    ]  # fmt: skip


def test_values_are_cached_in_their_scope() -> None:
    code = Code()

    def value(key: str, other: int) -> Any:
        return code.once(key, lambda: code.value("add", "%x", other, type="i64"))

    outside = value("outside", 1)
    with code.scope():
        assert value("outside", 2) == outside
        inside = value("inside", 3)
        assert value("inside", 4) == inside
    assert value("inside", 5) != inside
    assert value("outside", 6) == outside
    code.invalidate()
    assert value("outside", 7) != outside
    assert written(code) == [f"%v{n} = add i64 %x, {x}" for n, x in enumerate((1, 3, 5, 7), 1)]


def test_constants_are_unique() -> None:
    code = Code()
    names = [code.constant("i64", "1"), code.constant("i64", "2"), code.constant("i64", "1"), code.constant("i32", "1")]  # fmt: skip
    assert names == ["@number0", "@number1", "@number0", "@number2"]
    assert code.globals == [
        "@number0 = private constant i64 1",
        "@number1 = private constant i64 2",
        "@number2 = private constant i32 1",
    ]
    assert (code.alloca("ptr", 3), code.alloca("i8")) == ("%cell1", "%cell2")
    assert written(code) == [
        "%cell1 = alloca ptr, i64 3, align 64",
        "%cell2 = alloca i8, i64 1, align 64",
    ]


@pytest.mark.parametrize(
    ("dtype", "cell"),
    [("float64", "double, i64 1"), ("complex64", "float, i64 2"), ("bool", "i8, i64 1"), ("float16", "i16, i64 1")],
)  # fmt: skip
def test_stack_memory_of_scalars(dtype: str, cell: str) -> None:
    code = Code()
    assert alloca_scalar(code, DType(dtype)) == "%cell1"
    assert written(code) == [f"%cell1 = alloca {cell}, align 64"]


def test_areas_are_parts_of_the_scratch_memory() -> None:
    code = Code()
    code.areas |= {"%at1": 0, "%at2": 64}
    python_calls.define_function(code, ["%scratch"], ["%n"], "g", releases=False)
    assert str(code.functions["f"]).splitlines()[6:] == [
        "  %at1 = getelementptr i8, ptr %scratch, i64 0",
        "  %at2 = getelementptr i8, ptr %scratch, i64 64",
        "  %status = call i64 @g(ptr %scratch, ptr %at1, ptr %at2, i64 %n)",
        "  ret i64 %status",
        "}",
    ]


def test_order_of_sections_in_a_module() -> None:
    code = Code()
    code.globals.append("global")
    code.call("d", "void", ())
    code.functions["g"] = Function("g", "void", (), [Instruction("ret")])
    code.areas |= {"%at1": 0, "%at2": 64}
    code.entry.append(fence("first"))
    code.region = [fence("second")]
    function = ["define void @g() nounwind {", "entry:", "  ret void", "}"]
    assert text(code, ["%x"], ["%n"]).splitlines() == [
        "global", "declare void @d()", *function,
        "define internal i64 @f(ptr noalias %x, ptr noalias %at1, ptr noalias %at2, i64 %n) noinline nounwind {",
        "entry:", "  fence first", "  fence second", "}",
    ]  # fmt: skip
    plain = code.module().text
    names = "d", "a", "b", "c"
    code.vector_functions |= {name: Declaration(name, "void", ()) for name in names}
    code.retained += ["b", "c"]
    used = (
        '@llvm.compiler.used = appending global [2 x ptr] [ptr @b, ptr @c], section "llvm.metadata"'
    )
    module = code.module()
    declared = [f"declare void @{name}()" for name in names[1:]]
    lanes = ["; called by vectorised loops only", *declared, used, ""]
    assert (module.text, module.plain) == (plain + "\n".join(lanes), plain)


TYPES = {
    "bool": ("i1", "i8"), "int8": ("i8", "i8"), "uint8": ("i8", "i8"), "int16": ("i16", "i16"),
    "uint16": ("i16", "i16"), "int32": ("i32", "i32"), "uint32": ("i32", "i32"), "int64": ("i64", "i64"),
    "uint64": ("i64", "i64"), "float16": ("float", "i16"), "bfloat16": ("float", "i16"),
    "float32": ("float", "float"), "float64": ("double", "double"), "complex64": ("float", "float"),
    "complex128": ("double", "double"),
}  # fmt: skip


@pytest.mark.parametrize(
    "dtype", [d for d in DType if not d.is_narrow], ids=lambda dtype: dtype.value
)
def test_types_in_registers_and_in_memory(dtype: DType) -> None:
    assert (llvm_type(dtype), memory_type(dtype)) == TYPES[dtype.value]
    is_integer = "int" in dtype.value or dtype is DType.Bool
    code = Code()
    bits = {"float": 32, "double": 64}
    if is_integer:
        x = number("%x", llvm_type(dtype))
        assert (code.bits(x, dtype), code.from_bits(x, dtype)) == (x, x)
    elif dtype in (DType.F32, DType.F64):
        kind = llvm_type(dtype)
        x, y = number("%x", kind), number("%y", f"i{bits[kind]}")
        assert (code.bits(x, dtype), code.from_bits(y, dtype)) == ("%v1", "%v2")
        assert written(code) == [
            f"%v1 = bitcast {kind} %x to i{bits[kind]}",
            f"%v2 = bitcast i{bits[kind]} %y to {kind}",
        ]


def test_loads_and_stores() -> None:
    code = Code()
    assert code.load("%x", 0, DType.Bool) == "%v2"
    code.store("%b", "%y", 3, DType.Bool)
    assert code.load("%z", "%i", DType.C32) == ("%v7", "%v10")
    code.store(("%a", "%b"), "%w", 1, DType.C64)
    assert written(code) == [
        "%v1 = load i8, ptr %x", "%v2 = trunc i8 %v1 to i1",
        "%v3 = zext i1 %b to i8", "%v4 = getelementptr inbounds i8, ptr %y, i64 3", "store i8 %v3, ptr %v4",
        "%v5 = mul nsw i64 %i, 2",
        "%v6 = getelementptr inbounds float, ptr %z, i64 %v5", "%v7 = load float, ptr %v6",
        "%v8 = add nsw i64 %v5, 1",
        "%v9 = getelementptr inbounds float, ptr %z, i64 %v8", "%v10 = load float, ptr %v9",
        "%v11 = getelementptr inbounds double, ptr %w, i64 2", "store double %a, ptr %v11",
        "%v12 = getelementptr inbounds double, ptr %w, i64 3", "store double %b, ptr %v12",
    ]  # fmt: skip


def test_literals() -> None:
    cases: list[tuple[Any, DType, Any]] = [
        (True, DType.Bool, "true"),
        (0, DType.Bool, "false"),
        (-3.0, DType.I32, "-3"),
        (1, DType.F32, "0x3FF0000000000000"),
        (-2.0, DType.F64, "0xC000000000000000"),
        (1 - 2j, DType.C32, ("0x3FF0000000000000", "0xC000000000000000")),
    ]
    for value, dtype, text in cases:
        assert literal(value, dtype) == text


@pytest.mark.parametrize("contracts", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_floats_are_written_as_their_bits(dtype: str, contracts: bool) -> None:
    """Float constants must be written as bits, because the value of a decimal would depend on LLVM's parser."""
    spec, count = TensorSpec.of((3,), DType(dtype)), 0
    x, y = (Value(name, llvm_type(spec.dtype)) for name in ("%x", "%y"))
    names: Any = (x, y) if spec.dtype.is_complex else x
    cards: list[Any] = [card for card in (*elementwise.CARDS, *analytic.CARDS) if not fields(card)]
    for card in cards:
        op = card()
        body = Body(Code(contracts, 4, converts_halves=True))
        try:
            operands = [body.number(spec, names)] * op.input_count
            types = op.output_types([spec] * op.input_count, GuardLog())
            if COMPILED[card].reason_for(op, [x.spec for x in operands]):
                continue
            (y,) = COMPILED[card].write(body, op, operands, types)
            body.at(y, ("%i",))
        except (DTypeError, NotCompiledError):
            continue
        written = text(body.code, [])
        assert not re.findall(r"(?<=[ (])-?\d+(?:\.|e[-+])\d+.*", written), op.name
        count += 1
    assert count > 10


@pytest.mark.parametrize(
    ("lanes", "kind", "integers", "truths", "suffix", "numbers", "threes", "zeros"),
    [
        (1, "double", "i64", "i1", "f64", ONE, "3", "0"),
        (2, "<2 x double>", "<2 x i64>", "<2 x i1>", "v2f64", f"<double {ONE}, double {ONE}>",
         "<i64 3, i64 3>", "<i64 0, i64 0>"),
    ],
)  # fmt: skip
def test_formulas_on_scalars_and_vectors(
    lanes: int,
    kind: str,
    integers: str,
    truths: str,
    suffix: str,
    numbers: str,
    threes: str,
    zeros: str,
) -> None:
    code = Code(contracts=True)
    floats, words = (
        ("double", "i64") if lanes == 1 else (VectorType(lanes, "double"), VectorType(lanes, "i64"))
    )
    x, y, z, a, b = (Number(code, Value(f"%{name}", floats)) for name in "xyzab")
    i, j = (Number(code, Value(f"%{name}", words)) for name in "ij")
    assert (x.constant(1.0).value, x.type_of("i64")) == (numbers, integers)
    abs(x)
    multiply_add(x, y, z)
    where(x < y, a, b)
    _ = x.bits() >> 3
    from_bits(i + j)
    has_bit(i, 0)
    assert written(code) == [
        f"%v1 = call {kind} @llvm.fabs.{suffix}({kind} %x)",
        f"%v2 = call {kind} @llvm.fma.{suffix}({kind} %x, {kind} %y, {kind} %z)",
        f"%v3 = fcmp olt {kind} %x, %y",
        f"%v4 = select {truths} %v3, {kind} %a, {kind} %b",
        f"%v5 = bitcast {kind} %x to {integers}",
        f"%v6 = lshr {integers} %v5, {threes}",
        f"%v7 = add {integers} %i, %j",
        f"%v8 = bitcast {integers} %v7 to {kind}",
        f"%v9 = and {integers} %i, {threes.replace('3', '1')}",
        f"%v10 = icmp ne {integers} %v9, {zeros}",
    ]
    assert list(map(str, code.declared.values())) == [
        f"declare {kind} @llvm.fabs.{suffix}({kind})",
        f"declare {kind} @llvm.fma.{suffix}({kind}, {kind}, {kind})",
    ]


def test_products_and_their_errors_with_and_without_multiply_adds() -> None:
    code = Code(contracts=True)
    x, y = (Number(code, number(name)) for name in ("%x", "%y"))
    assert [part.value for part in two_product(x, y)] == ["%v1", "%v3"]
    assert written(code) == [
        "%v1 = fmul double %x, %y",
        "%v2 = fneg double %v1",
        "%v3 = call double @llvm.fma.f64(double %x, double %y, double %v2)",
    ]
    code = Code()
    two_product(Number(code, number("%x")), Number(code, number("%y")))
    # A multiplication by 2^27 + 1 splits a number into its upper 26 bits and the rest.
    assert [line for line in written(code) if "0x" in line] == [
        f"%v{n} = fmul double {name}, {literal(2.0**27 + 1, DType.F64)}"
        for n, name in ((2, "%x"), (6, "%y"))
    ]
    code = Code()
    product = multiply_add(*[Number(code, number(name)) for name in ("%x", "%y", "%z")])
    assert product.value == "%v2"
    assert written(code) == ["%v1 = fmul double %x, %y", "%v2 = fadd double %v1, %z"]


# ---- loops between signal checks -------------------------------------------------------------------


@pytest.mark.parametrize(("count", "lines"), [(0, []), (1, ["fence a 0"])])
def test_one_iteration_is_no_loop(count: int, lines: list[str]) -> None:
    code = Code()
    python_calls.counted_loop(code, count, lambda i: code.append(fence(f"a {i}")))
    assert written(code) == lines


@pytest.mark.parametrize(("chunk", "size"), [(27_000, None), (26_999, 512), (2700, 64), (1, 1)])
def test_counted_loops_check_signals_after_each_chunk(
    chunk: int, size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_calls, "CHUNK_WORK", chunk)
    code = Code()
    with code.times(7):
        python_calls.counted_loop(code, 1000, lambda i: code.append(fence(f"a {i}"), 27))
    check = [
        f"%v5 = and i64 %i3, {(size or 0) - 1}",
        f"%v6 = icmp eq i64 %v5, {(size or 0) - 1}",
        "br i1 %v6, label %yes7, label %no8",
        "yes7:",
        "%v10 = call i64 @tenferro_check_signals()",
        "%v11 = icmp ne i64 %v10, 0",
        "br i1 %v11, label %leave12, label %stay13",
        "leave12:",
        "ret i64 -1",
        "stay13:",
        "br label %end9",
        "no8:",
        "br label %end9",
        "end9:",
    ]
    last, following = ("%end9", "%v14") if size else ("%body1", "%v5")
    assert written(code) == [
        "br label %body1",
        "body1:",
        f"%i3 = phi i64 [0, %entry], [{following}, {last}]",
        "fence a %i3",
        *(check if size else []),
        f"{following} = add nsw i64 %i3, 1",
        f"%more4 = icmp slt i64 {following}, 1000",
        "br i1 %more4, label %body1, label %end2",
        "end2:",
    ]
    assert list(code.declared) == (["tenferro_check_signals"] if size else [])


def test_while_loops_check_signals_after_each_chunk() -> None:
    code = Code()
    with code.times(7):
        python_calls.while_loop(code, lambda: "%more", lambda: code.append(fence("a"), 30))
    assert code.while_loops == 1
    assert written(code) == [
        "%cell4 = alloca i64, i64 1, align 64", "store i64 10000000, ptr %cell4",
        "br label %head1",
        "head1:", "br i1 %more, label %body2, label %end3",
        "body2:", "fence a",
        # The work per iteration includes the branches to the head and to the body.
        "%v5 = load i64, ptr %cell4", "%v6 = sub i64 %v5, 32", "store i64 %v6, ptr %cell4",
        "%v7 = icmp slt i64 %v6, 0", "br i1 %v7, label %yes8, label %no9",
        "yes8:", "%v11 = call i64 @tenferro_check_signals()", "%v12 = icmp ne i64 %v11, 0",
        "br i1 %v12, label %leave13, label %stay14",
        "leave13:", "ret i64 -1",
        "stay14:", "store i64 10000000, ptr %cell4", "br label %end10",
        "no9:", "br label %end10",
        "end10:", "br label %head1",
        "end3:",
    ]  # fmt: skip


def test_which_operands_are_materialised() -> None:
    def write(*_: Any) -> Any:
        raise AssertionError

    row = Row(write)
    assert [row.must_materialise(position) for position in range(3)] == [False] * 3
    assert not row.moves
    assert row.reason_for(None, ()) == ""
    assert [Row(write, materialises=True).must_materialise(position) for position in range(2)] == [
        True,
        True,
    ]
    assert [Row(write, materialises=(1, 2)).must_materialise(n) for n in range(4)] == [
        False,
        True,
        True,
        False,
    ]
    refused = Row(write, refusal=lambda op, operands: f"{op} of {len(operands)}")
    assert refused.reason_for("Add", (1, 2)) == "Add of 2"
    assert Row(write, refusal=lambda *_: "later", reason="first").reason_for("Add", ()) == "first"


# ---- constants -------------------------------------------------------------------------------------


def constant_of(array: Any) -> tuple[list[str], list[Any], Any]:
    """Return the globals, the constant arguments, and the tensor of a constant in a compiled function."""
    code = Code(converts_halves=True)
    body = Body(code)
    op = Constant.of(array)
    spec = TensorSpec.of(array.shape, DType.of(array.dtype))
    (tensor,) = constant(body, op, (), (spec,))
    return code.globals, [x for _, x in body.constants], tensor


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("float64", f"[2 x double] [double {ONE}, double {TWO}]"),
        ("float32", f"[2 x float] [float {ONE}, float {TWO}]"),
        ("float16", "[2 x i16] [i16 15360, i16 -16384]"),
        ("int8", "[2 x i8] [i8 1, i8 -2]"),
        ("int64", "[2 x i64] [i64 1, i64 -2]"),
        ("complex64", "[4 x float] [float {0}, float {2}, float {1}, float {2}]".format(ONE, TWO, "0x0000000000000000")),
    ],
)  # fmt: skip
def test_small_constants_are_in_the_text(dtype: str, text: str) -> None:
    in_text, outside, _ = constant_of(np.array([1, -2]).astype(dtype))
    assert in_text == [f"@constant0 = private constant {text}, align 64"]
    assert not outside


def test_bools_are_bytes() -> None:
    in_text, _, _ = constant_of(np.array([True, False, True]))
    assert in_text == ["@constant0 = private constant [3 x i8] [i8 1, i8 0, i8 1], align 64"]


def test_large_constants_are_arguments() -> None:
    for size, is_in_text in ((4096, True), (4097, False)):
        x = np.arange(float(size))
        in_text, outside, _ = constant_of(x)
        assert len(in_text) == is_in_text
        assert [y.tolist() for y in outside] == ([] if is_in_text else [x.tolist()])


def test_numbers_need_no_memory() -> None:
    for array, number in (
        (np.array(1.0), ONE),
        (np.array([1.0]), ONE),
        (np.array([[True]]), "true"),
    ):
        in_text, outside, tensor = constant_of(array)
        assert not in_text
        assert not outside
        assert tensor.spec.shape == array.shape
        assert tensor.element((0,) * array.ndim) == number
    in_text, outside, tensor = constant_of(np.zeros((0, 3)))
    assert (in_text, outside, tensor.spec.shape) == ([], [], (0, 3))


def test_iota_of_constant_indices() -> None:
    for dtype, axis, number in (
        ("int32", 0, "3"),
        ("int32", 1, "0"),
        ("float64", 0, "0x4008000000000000"),
        ("complex128", 0, ("0x4008000000000000", "0x0000000000000000")),
    ):
        code = Code()
        spec = TensorSpec.of((4, 5), DType.of(dtype))
        op = Iota.__new__(Iota)
        object.__setattr__(op, "axis", axis)
        (tensor,) = iota(Body(code), op, (), (spec,))
        assert tensor.element((3, 0)) == number
        assert tensor.is_cheap
        assert not lines_of(code)
        tensor.element(("%i", "%j"))
        assert ("%i", "%j")[axis] in lines_of(code)[0]


def test_short_loops_ask_to_be_unrolled_in_loops_of_the_program() -> None:
    for is_repeated in (False, True):
        code = Code()
        with code.repeated() if is_repeated else nullcontext():
            code.loop(MAX_UNROLLED, lambda i: code.store_value(i, "%x"))
            code.loop(MAX_UNROLLED + 1, lambda i: code.store_value(i, "%x"))
        hints = [line for line in code.globals if "unroll.full" in line]
        assert len(hints) == is_repeated
        assert not code.is_repeated


@pytest.mark.parametrize(
    ("lanes", "counts", "width"),
    [
        (1, [10], None),
        (4, [10], None),
        (8, [10], 512),  # ten elements are one or two vectors and two scalars
        (8, [12], 256),
        (8, [16], 512),
        (8, [12, 64], 512),
        (8, [12, 12, 12, 12, 16], 256),
        (8, [12, *["%n"] * 18], 512),
        (8, ["%n"], 512),
        (8, [], 512),
    ],
)
def test_preferred_vector_width(lanes: int, counts: list[int | str], width: int | None) -> None:
    code = Code(lanes=lanes)
    for count in counts:
        code.loop(count, lambda i: code.store_value(i, "%x"))
    expected = "" if width is None else f'"prefer-vector-width"="{width}"'
    (attributes,) = re.findall('"prefer-vector-width"="[0-9]+"|$', text(code, ["%x"]))[:1]
    assert attributes == expected


def test_preferred_vector_width_counts_innermost_loops() -> None:
    code = Code(lanes=8)
    code.loop(64, lambda _: code.loop(12, lambda i: code.store_value(i, "%x")))
    assert 'width"="256"' in text(code, ["%x"])
