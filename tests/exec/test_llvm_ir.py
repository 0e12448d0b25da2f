"""LLVM IR as Python objects: types of results, regions, printing, and the verifier."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec import llvm
from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.control import Emitter
from tenferro.exec.llvm.functions import call
from tenferro.exec.llvm.ir import (
    Declaration,
    Function,
    Instruction,
    Module,
    Value,
    VectorType,
    splat,
)
from tenferro.exec.llvm.link import Linker
from tenferro.exec.llvm.python_calls import define_function
from tenferro.exec.llvm.tensor import Body, Memory
from tenferro.types import DType
from tests.exec.llvm_verifier import InvalidError, verify, verify_function

X, Y, N = Value("%x", "double"), Value("%y", "double"), Value("%n", "i64")
V, W = Value("%v", VectorType(4, "double")), Value("%w", VectorType(4, "double"))
RETURN = Instruction("ret", (Value(0, "i64"),))


def test_nothing_reads_text() -> None:
    """No module of tenferro.exec.llvm may import regular expressions: the compiler must not parse LLVM's text."""
    for path in Path(llvm.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not {"re", "regex"} & {alias.name for alias in node.names}, path.name
            elif isinstance(node, ast.ImportFrom):
                assert node.module not in ("re", "regex"), path.name


@pytest.mark.parametrize(
    ("write", "kind"),
    [
        (lambda code: code.value("fadd", X, Y), "double"),
        (lambda code: code.value("fneg", V), "<4 x double>"),
        (lambda code: code.value("add", N, 1), "i64"),
        (lambda code: code.value("sub", 7, N), "i64"),
        (lambda code: code.value("sub", "%stop", "%start", type="i32"), "i32"),
        (lambda code: code.icmp("slt", N, 3), "i1"),
        (lambda code: code.fcmp("olt", V, W), "<4 x i1>"),
        (lambda code: code.select("true", X, Y), "double"),
        (lambda code: code.select("%c", 1, 0, "i8"), "i8"),
        (lambda code: code.cast("fptosi", X, "i32"), "i32"),
        (lambda code: code.cast("sitofp", 3, "float"), "float"),
        (lambda code: code.load_value("i16", "%p"), "i16"),
        (lambda code: code.gep("double", "%p", 2), "ptr"),
        (lambda code: code.load("%p", 0, DType.F16), "float"),
        (lambda code: code.load("%p", 0, DType.Bool), "i1"),
        (lambda code: code.intrinsic("smin", "%i", 8), "i64"),
        (lambda code: code.intrinsic("fma", V, W, V), "<4 x double>"),
        (lambda code: code.insert(V, X, 1), "<4 x double>"),
        (lambda code: code.extract(V, 1), "double"),
        (lambda code: code.shuffle(V, "poison", (0, 2)), "<2 x double>"),
        (lambda code: code.alloca("i32"), "ptr"),
    ],
)
def test_results_have_the_types_of_operands(write: Any, kind: str) -> None:
    code = Code(converts_halves=True)
    y = write(code)
    assert y.type == kind
    code.ret(0)
    parameters = (X, Y, N, V, W, *[Value(f"%{name}", "ptr") for name in "pq"])
    numbers = (
        Value("%i", "i64"),
        Value("%c", "i1"),
        *[Value(f"%{x}", "i32") for x in ("stop", "start")],
    )
    function = Function("f", "i64", (*parameters, *numbers), code.region, code.entry)
    verify_function(function)


def test_a_type_is_told_where_no_operand_has_one() -> None:
    with pytest.raises(AssertionError, match="load"):
        Code().load_value("", "%p")


def test_constants_in_every_lane() -> None:
    y = splat(Value("1.0", "double"), 2)
    assert (y, y.type) == ("<double 1.0, double 1.0>", "<2 x double>")


def test_printed_modules_are_text() -> None:
    code = Code(True, 4)
    y = call(code, "tan", DType.F64, code.load("%x", 0, DType.F64))
    code.store(y, "%x", 0, DType.F64)
    code.ret(0)
    define_function(code, ["%x"], (), "tangent")
    module = code.module()
    verify(module)
    printed = module.printed()
    assert (printed.text, printed.plain) == (module.text, module.plain)
    assert module.text != module.plain
    assert {type(x) for x in module.functions.values()} == {Function, Declaration}
    assert {type(x) for x in printed.functions.values()} == {Declaration}
    assert printed.is_calling("tan")
    assert not printed.is_calling("cos")
    if llvm.is_installed():
        x = np.array([2.0])
        assert Linker().function("test", printed)(x) == 0
        np.testing.assert_allclose(x, np.tan(2.0), rtol=1e-15)


# ---- the verifier ----------------------------------------------------------------------------------


def loop_over(body: list[Any], label: str = "%body") -> list[Instruction]:
    name = label[1:]
    index, more, following = (
        Value(f"%i{name}", "i64"),
        Value(f"%m{name}", "i1"),
        Value(f"%f{name}", "i64"),
    )
    before = "%entry" if label == "%body" else "%endbody"
    return [
        Instruction("br", labels=(label,)),
        Instruction("label", labels=(label,)),
        Instruction("phi", (Value(0, "i64"), following), index, "i64", labels=(before, label)),
        *body,
        Instruction("add", (index, Value(1, "i64")), following),
        Instruction("icmp", (following, Value(9, "i64")), more, flags="slt"),
        Instruction("br", (more,), labels=(label, f"%end{name}")),
        Instruction("label", labels=(f"%end{name}",)),
    ]


def add(result: str, x: Value = X, y: Value = Y) -> Instruction:
    return Instruction("fadd", (x, y), Value(result, x.type))


INVALID: dict[str, tuple[list[Any], str]] = {
    "redefined": ([add("%a"), add("%a"), RETURN], "one definition per value"),
    "parameter": ([add("%x"), RETURN], "one definition per value"),
    "undefined": ([add("%a", Value("%z", "double")), RETURN], "%z is defined"),
    "retyped": ([add("%a", Value("%n", "double")), RETURN], "%n has one type"),
    "early": ([add("%a", Value("%b", "double")), add("%b"), RETURN], "dominates"),
    "branched": (
        [
            Instruction("br", (Value("%c", "i1"),), labels=("%yes", "%no")),
            Instruction("label", labels=("%yes",)),
            add("%a"),
            Instruction("br", labels=("%no",)),
            Instruction("label", labels=("%no",)),
            add("%b", Value("%a", "double")),
            RETURN,
        ],
        "dominates",
    ),
    "escaped": (
        [*loop_over([add("%a")]), add("%b", Value("%a", "double")), RETURN],
        "stays in the region",
    ),
    "exchanged": (
        [*loop_over([add("%a")]), *loop_over([add("%b", Value("%a", "double"))], "%two"), RETURN],
        "stays in the region",
    ),
    "index": (
        [*loop_over([]), Instruction("add", (Value("%ibody", "i64"), N), Value("%b", "i64")), RETURN],
        "stays in the region",
    ),
    "unended": ([add("%a")], "one terminator"),
    "continued": ([RETURN, add("%a"), RETURN], "one terminator"),
    "labels": ([*loop_over([]), *loop_over([]), RETURN], "one block per label"),
    "target": ([Instruction("br", labels=("%nowhere",))], "a branch to a block"),
    "edges": (
        [
            Instruction("br", labels=("%next",)),
            Instruction("label", labels=("%next",)),
            Instruction("phi", (X,), Value("%a", "double"), "double", labels=("%next",)),
            RETURN,
        ],
        "a value for each edge",
    ),
    "mixed": ([Instruction("fadd", (X, N), Value("%a", "double")), RETURN], "types"),
    "integers": ([Instruction("fadd", (N, N), Value("%a", "i64")), RETURN], "types"),
    "condition": ([Instruction("select", (N, X, Y), Value("%a", "double")), RETURN], "types"),
    "lanes": ([Instruction("fcmp", (V, V), Value("%a", "i1"), flags="olt"), RETURN], "types"),
    "narrowing": ([Instruction("zext", (N,), Value("%a", "i8"), "i8"), RETURN], "types"),
    "bits": ([Instruction("bitcast", (N,), Value("%a", "float"), "float"), RETURN], "types"),
    "pointer": ([Instruction("load", (N,), Value("%a", "i64"), "i64"), RETURN], "types"),
    "returned": ([Instruction("ret", (X,))], "types"),
    "undeclared": (
        [Instruction("call", (Value("@g", "ptr"), X), Value("%a", "i64"), "i64"), RETURN],
        "a callee that is declared",
    ),
    "arguments": (
        [Instruction("call", (Value("@f", "ptr"), X), Value("%a", "i64"), "i64"), RETURN],
        "types",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_invalid_functions(name: str) -> None:
    region, rule = INVALID[name]
    parameters = X, Y, N, V, Value("%c", "i1")
    function = Function("f", "i64", parameters, region)
    with pytest.raises(InvalidError, match=rule):
        verify(Module((), {"f": function}))


# ---- supported dtypes ------------------------------------------------------------------------------


def test_whoever_writes_an_op_asks_for_its_dtypes() -> None:
    """An op that is not compiled for a dtype must raise an error, because compiled code calls no kernels."""
    x = np.ones(3, np.int32)
    for program, reason in (
        (tnf.compile(lambda x: x**x, x), "Power: int32 is not compiled"),
        (tnf.compile(tnf.sort, np.ones(200)), "Sort: 200 elements are more than 128"),
    ):
        body = Body(Code())
        inputs = [body.stored(Memory("%a0", program.input_specs[0]))]
        with pytest.raises(NotCompiledError, match=reason):
            Emitter(body).emit(program, inputs)
