"""Forms of a lowered module.

Its text must be deterministic, and must not depend on the machine.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
from lowering import mlir_bindings
from tenferro import errors
from tenferro.dispatch import apply
from tenferro.ops import (
    StdTensorOp,
    analytic,
    contraction,
    elementwise,
    indexing,
    reduction,
    structural,
)
from tenferro.types import DType
from tests.levels import version_of
from tests.samples.contraction import window

CODE = """
import lowering, numpy as np, sys, tenferro as tnf
program = tnf.compile(lambda x, y: {"a": tnf.erf(x) @ y, "b": tnf.sort(x)}, *[tnf.TensorSpec((3, 3), "f4")] * 2)
print(lowering.lower_to_stablehlo(program).fingerprint)
assert not any(name.split(".")[0] in ("jax", "jaxlib") for name in sys.modules)
"""


def module_of(fn, *specs) -> lowering.StableHloModule:
    return lowering.lower_to_stablehlo(tnf.compile(fn, *specs))


def test_text_is_the_same_in_every_process_and_needs_no_jaxlib() -> None:
    shown = {
        subprocess.run(
            [sys.executable, "-c", CODE],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(shown) == 1


def test_the_fingerprint_ignores_lines_and_nothing_else() -> None:
    spec = tnf.TensorSpec((3,), "f4")
    first = module_of(lambda x: tnf.exp(x), spec)
    moved = module_of(lambda x: tnf.exp(x), spec)
    other = module_of(lambda x: tnf.exp(x), tnf.TensorSpec((3,), "f8"))
    assert first.text != moved.text
    assert first.fingerprint == moved.fingerprint != other.fingerprint
    assert "test_module.py" in first.text
    assert "test_module.py" not in str(first)


def test_bytecode_and_artifact_read_back_as_the_same_module() -> None:
    module = module_of(lambda x: tnf.sum(tnf.exp(x) @ x), tnf.TensorSpec((3, 3), "f4"))
    assert module.bytecode()[:4] == b"ML\xefR"
    mlir_bindings.parse_and_verify(module.bytecode())
    for target in (None, "1.0.0"):
        artifact = module.portable_artifact(target)
        assert artifact[:4] == b"ML\xefR"
        text = mlir_bindings.deserialize_portable_artifact(artifact)
        assert "stablehlo.dot_general" in text
        assert "stablehlo.exponential" in text
    assert module.portable_artifact() == module.portable_artifact()


@pytest.mark.parametrize("target", ["nonsense", "99.0.0", "0.1.0", ""])
def test_an_unknown_target_version_is_named(target: str) -> None:
    module = module_of(lambda x: x + x, tnf.TensorSpec((3,), "f4"))
    with pytest.raises(tnf.errors.TenferroError, match="version"):
        module.portable_artifact(target)


def test_malformed_text_gives_line_and_column() -> None:
    with pytest.raises(mlir_bindings.MlirDiagnosticError, match=r"2:\d+"):
        mlir_bindings.parse_and_verify("module {\n  nonsense\n}")


@pytest.mark.parametrize("content", [b"", b"ML\xefR", b"ML\xefR" + bytes(64), b"\x00\x01"])
def test_malformed_bytes_are_an_error(content: bytes) -> None:
    with pytest.raises(tnf.errors.TenferroError):
        mlir_bindings.deserialize_portable_artifact(content)


NEWER = {"digamma": (0, 11, 2), "asin": (0, 12)}
"""First version of jaxlib whose StableHLO expands the op in another way.

Except for digamma, the new expansion has the same meaning. At zero, StableHLO's newer digamma is minus infinity.
tenferro's is NaN, natively and lowered.
"""


@pytest.mark.skipif(version_of("jaxlib") < (0, 10), reason="older expansions are other texts")
def test_templates_are_what_stablehlo_legalises_to() -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
    try:
        import chlo_templates
    finally:
        sys.path.pop(0)
    files = chlo_templates.all_templates()
    assert {path.name for path in chlo_templates.FOLDER.iterdir()} == set(files)
    changed = {
        name
        for name, content in files.items()
        if (chlo_templates.FOLDER / name).read_text() != content
    }
    newer = [name for name, since in NEWER.items() if version_of("jaxlib") >= since]
    assert changed == {f"{name}_{element}.mlir" for name in newer for element in ("f32", "f64")}


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (1, 0, 2)], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_templates_take_every_shape(shape: tuple[int, ...], dtype: str) -> None:
    def fn(x: tnf.TracedTensor) -> list[tnf.TracedTensor]:
        names = ["asinh", "acos", "sinh", "atanh"]
        names += [] if dtype.startswith("c") else ["erf", "erfc", "lgamma", "digamma"]
        return [getattr(tnf, name)(x) for name in names]

    module_of(fn, tnf.TensorSpec(shape, dtype)).verify()


def test_a_symbolic_program_is_lowered_for_its_specs() -> None:
    program = tnf.compile(lambda x: x + tnf.ones_like(x), tnf.TensorSpec(("n",), "f8"))
    with pytest.raises(tnf.errors.NonStaticShapeError, match="n"):
        lowering.lower_to_stablehlo(program)
    module = lowering.lower_to_stablehlo(program, specs=[tnf.TensorSpec((4,), "f8")])
    assert "tensor<4xf64>" in module.text
    module.verify()


def test_large_constants_are_compact() -> None:
    big = np.random.default_rng(0).normal(size=10_000)
    module = module_of(lambda x: x + big, tnf.TensorSpec((10_000,), "f8"))
    assert 'dense<"0x' in module.text
    assert len(module.text) < 2.2 * 8 * 10_000
    module.verify()


@pytest.mark.parametrize(
    "fn", [tnf.sin, tnf.abs, lambda z: z / z, lambda z: tnf.cumulative_sum(z) ** z]
)
def test_what_ends_the_tpu_compiler_is_refused_with_the_users_line(fn: Any) -> None:
    program = tnf.compile(fn, tnf.TensorSpec((3,), "complex128"))
    lowering.lower_to_stablehlo(program, "cpu")
    lowering.lower_to_stablehlo(tnf.compile(fn, tnf.TensorSpec((3,), "complex64")), "tpu")
    with pytest.raises(errors.UnsupportedError, match=r"(?s)c128\[3\] on tpu.*test_module"):
        lowering.lower_to_stablehlo(program, "tpu")


def test_complex_convolutions_for_gpus_are_four_real_ones() -> None:
    from tenferro.ops.contraction import Convolution
    from tests.samples import SAMPLES
    from xla_peer import XlaExecutor

    xla = XlaExecutor("cpu")
    for sample in SAMPLES[Convolution]:
        program = tnf.compile(lambda *xs, op=sample.op: apply(op, *xs), *sample.inputs)
        kind = sample.inputs[0].dtype.kind
        if kind in "biu":
            with pytest.raises(errors.UnsupportedError, match="Convolution"):
                lowering.lower_to_stablehlo(program, "cuda")
        elif kind == "c":
            module = lowering.lower_to_stablehlo(program, "cuda")
            assert module.text.count("stablehlo.convolution") == 4
            (found,) = xla.compile_module(module)(*map(xla.put, sample.inputs))
            np.testing.assert_allclose(found, sample.expected[0], rtol=2e-5)


def test_narrow_integers_are_converted_before_they_are_multiplied() -> None:
    """For CUDA, int8 operands must be converted before an int32 product, and for a TPU they must not.

    On CUDA, XLA would compute twice the product.
    """
    op = contraction.DotGeneral((1,), (0,), accumulate_dtype=DType.I32)
    program = tnf.compile(lambda a, b: apply(op, a, b), *[tnf.TensorSpec((3, 3), "int8")] * 2)
    for platform in ("cpu", "cuda", "rocm", "tpu"):
        (line,) = [
            line
            for line in lowering.lower_to_stablehlo(program, platform).text.splitlines()
            if "dot_general" in line
        ]
        operand = "xi8>" if platform == "tpu" else "xi32>"
        assert line.count(operand) == (2 if platform == "tpu" else 3)


def statements(fn: Any, *specs: Any) -> list[str]:
    """Return the names of the StableHLO operations in the module of a function, in order, without terminators."""
    names = re.findall(r"stablehlo\.(\w+)(?![\w<>.])", str(module_of(fn, *specs)))
    return [name for name in names if name != "return"]


LOWERED: dict[str, tuple[StdTensorOp, list[tuple[tuple[int, ...], str]], str]] = {
    "reshape": (structural.Reshape((3, 2)), [((2, 3), "f4")], "transpose reshape transpose"),
    "reshape by extents of one": (structural.Reshape((2, 1, 3)), [((2, 3), "f4")], "reshape"),
    "reverse": (structural.Reverse((1,)), [((2, 3), "f4")], "reverse"),
    "reverse of no axis": (structural.Reverse(()), [((2, 3), "f4")], ""),
    "sum": (reduction.ReduceSum((0,)), [((2, 3), "f4")], "constant reduce add"),
    "sum of f16": (reduction.ReduceSum((0,)), [((2, 3), "f2")], "convert constant reduce add convert"),
    "product of f16": (reduction.ReduceProd((0,)), [((2,), "f2")], "convert constant reduce multiply convert"),
    "maximum of f16": (reduction.ReduceMax((0,)), [((2, 3), "f2")], "constant reduce maximum"),
    "maximum of bool": (reduction.ReduceMax((0,)), [((2, 3), "?")], "constant reduce or"),
    "minimum of bool": (reduction.ReduceMin((0,)), [((2, 3), "?")], "constant reduce and"),
    "running sum": (reduction.CumSum(0), [((2, 3), "f4")], "constant reduce_window add"),
    "running sum of f16": (reduction.CumSum(0), [((2, 3), "f2")], "convert constant reduce_window add convert"),
    "running product of f16": (reduction.CumProd(0), [((2,), "f2")], "convert constant reduce_window multiply convert"),
    "running maximum of f16": (reduction.CumMax(0), [((2, 3), "f2")], "constant reduce_window maximum"),
    "running sum of one": (reduction.CumSum(0), [((1, 3), "f4")], ""),
    "running sum of nothing": (reduction.CumSum(1), [((0, 3), "f4")], ""),
    "the greatest": (reduction.TopK(2), [((3,), "f4")], "iota sort compare compare compare and or slice slice"),
    "all in descending order": (reduction.TopK(3), [((3,), "f4")], "iota sort compare compare compare and or"),
    "all integers in descending order": (reduction.TopK(3), [((3,), "i4")], "iota sort compare"),
    "leading zeros": (elementwise.CountLeadingZeros(), [((3,), "u4")], "count_leading_zeros"),
    "leading zeros of signed": (
        elementwise.CountLeadingZeros(), [((3,), "i4")], "bitcast_convert count_leading_zeros bitcast_convert"
    ),
    "f64 to bf16": (elementwise.Convert(DType.BF16), [((3,), "f8")], "convert convert"),
    "bf16 to f64": (elementwise.Convert(DType.F64), [((3,), "bfloat16")], "convert convert"),
    "bool to bf16": (elementwise.Convert(DType.BF16), [((3,), "?")], "convert"),
    "bf16 to c128": (elementwise.Convert(DType.C64), [((3,), "bfloat16")], "convert convert constant complex"),
    "f64 to c128": (elementwise.Convert(DType.C64), [((3,), "f8")], "constant complex"),
    "c128 to f32": (elementwise.Convert(DType.F32), [((3,), "c16")], "real convert"),
    "c128 to f64": (elementwise.Convert(DType.F64), [((3,), "c16")], "real"),
    "c128 to bf16": (elementwise.Convert(DType.BF16), [((3,), "c16")], "real convert convert"),
    "c128 to c64": (elementwise.Convert(DType.C32), [((3,), "c16")], "convert"),
    "c128 to bool": (elementwise.Convert(DType.Bool), [((3,), "c16")], "constant compare"),
    "conj of real": (elementwise.Conj(), [((3,), "f8")], ""),
    "conj": (elementwise.Conj(), [((3,), "c16")], "imag negate real complex"),
    "real of real": (elementwise.Real(), [((3,), "f8")], ""),
    "imag of real": (elementwise.Imag(), [((3,), "f8")], "constant"),
    "abs of unsigned": (elementwise.Abs(), [((3,), "u1")], ""),
    "sign of unsigned": (elementwise.Sign(), [((3,), "u1")], "constant minimum"),
    "a format": (elementwise.ReducePrecision(5, 2), [((3,), "f4")], "reduce_precision"),
    "a format without mantissa": (
        elementwise.ReducePrecision(5, 0), [((3,), "f4")], "reduce_precision compare select"
    ),
    "quotient": (elementwise.Divide(), [((3,), "f4")] * 2, "divide"),
    "quotient of unsigned": (
        elementwise.Divide(), [((3,), "u4")] * 2, "constant constant compare select constant divide select"
    ),
    "power of unsigned bytes": (
        elementwise.Power(), [((3,), "u1")] * 2,
        "constant constant" + " and compare multiply select shift_right_logical multiply" * 7
        + " and compare multiply select",
    ),
    "power of signed bytes": (
        elementwise.Power(), [((3,), "i1")] * 2,
        "constant constant" + " and compare multiply select shift_right_logical multiply" * 6
        + " and compare multiply select"
        + " and compare select constant compare compare select select compare select",
    ),
    "a slice of a scalar": (indexing.DynamicSlice(()), [((), "f4")], ""),
    "an update of a scalar": (indexing.DynamicUpdateSlice(0), [((), "f4")] * 2, ""),
    "dot": (contraction.DotGeneral((1,), (0,)), [((2, 3), "f4"), ((3, 2), "f4")], "dot_general"),
    "dot of f16": (
        contraction.DotGeneral((1,), (0,)), [((2, 3), "f2"), ((3, 2), "f2")], "dot_general convert"
    ),
    "convolution": (window(), [((1, 1, 4), "f4"), ((1, 1, 2), "f4")], "convolution"),
    "convolution of f16": (window(), [((1, 1, 4), "f2"), ((1, 1, 2), "f2")], "convolution convert"),
    "convolution of int32": (
        window(), [((1, 1, 4), "i4"), ((1, 1, 2), "i4")], "optimization_barrier convolution"
    ),
    "convolution of int16": (
        window(), [((1, 1, 4), "i2"), ((1, 1, 2), "i2")],
        "convert convert optimization_barrier convolution convert",
    ),
    "convolution of no channels": (window(), [((1, 0, 4), "f4"), ((1, 0, 2), "f4")], "constant"),
    "sine": (analytic.Sin(), [((3,), "f4")], "sine"),
    "sine of f16": (analytic.Sin(), [((3,), "f2")], "convert sine convert"),
    "sine of bf16": (analytic.Sin(), [((3,), "bfloat16")], "convert sine convert"),
}  # fmt: skip


@pytest.mark.parametrize("case", LOWERED.values(), ids=LOWERED)
def test_an_op_is_as_many_statements_as_it_needs(case: Any) -> None:
    op, operands, expected = case
    specs = [tnf.TensorSpec(*operand) for operand in operands]
    assert " ".join(statements(lambda *xs: apply(op, *xs), *specs)) == expected


@pytest.mark.parametrize(("length", "counter"), [(1, "i32"), ((1 << 31) - 1, "i32"), (1 << 31, "i64")])  # fmt: skip
def test_loops_count_in_int32_where_their_length_fits(length: int, counter: str) -> None:
    module = module_of(
        lambda x: tnf.scan(lambda c, _: (tnf.sin(c), None), x, None, length=length)[0],
        tnf.TensorSpec((3,), "f4"),
    )
    (start, step, end) = re.findall(
        r"stablehlo\.constant dense<(\d+)> : tensor<(\w+)>", str(module)
    )
    assert sorted([start, step, end]) == sorted((str(n), counter) for n in (0, 1, length))


def test_loops_of_no_turns_are_their_start() -> None:
    def fn(x: Any) -> Any:
        return tnf.scan(lambda c, _: (tnf.sin(c), c), x, None, length=0)

    assert statements(fn, tnf.TensorSpec((3,), "f4")) == ["constant"]


def test_choices_by_bool_are_if_and_others_case() -> None:
    parts = [tnf.sin, tnf.cos]
    x = tnf.TensorSpec((), "f4")
    by_bool = statements(lambda p, x: tnf.cond(p, *parts, x), tnf.TensorSpec((), "?"), x)
    by_number = statements(lambda i, x: tnf.switch(i, parts, x), tnf.TensorSpec((), "i8"), x)
    assert by_bool == ["if", "sine", "cosine"]
    assert [name for name in by_number if name in ("case", *by_bool)] == ["case", "sine", "cosine"]


@pytest.mark.parametrize("flag", [False, True])
def test_what_is_known_of_indices_is_told(flag: bool) -> None:
    x, at = tnf.TensorSpec((5,), "f4"), tnf.TensorSpec((2, 1), "i8")
    gather = indexing.Gather((), (0,), (), (), (0,), 1, (1,), indices_are_sorted=flag)
    text = str(module_of(lambda x, i: apply(gather, x, i), x, at))
    assert f"indices_are_sorted = {str(flag).lower()}" in text
    for others in (False, True):
        op = indexing.Scatter(
            (), (0,), (), (), (0,), 1, "add", indices_are_sorted=flag, unique_indices=others
        )
        text = str(module_of(lambda *xs, op=op: apply(op, *xs), x, at, tnf.TensorSpec((2,), "f4")))
        assert f"indices_are_sorted = {str(flag).lower()}" in text
        assert f"unique_indices = {str(others).lower()}" in text


@pytest.mark.parametrize(
    ("combiner", "numbers", "bools"),
    [("set", "", ""), ("add", "add", "or"), ("multiply", "multiply", "and"), ("min", "minimum", "and"), ("max", "maximum", "or")],
)  # fmt: skip
def test_the_region_of_a_scatter_combines(combiner: str, numbers: str, bools: str) -> None:
    for dtype, name in (("f4", numbers), ("?", bools)):
        op = indexing.Scatter((), (0,), (), (), (0,), 1, combiner)
        specs = [
            tnf.TensorSpec((5,), dtype),
            tnf.TensorSpec((2, 1), "i8"),
            tnf.TensorSpec((2,), dtype),
        ]
        names = statements(lambda *xs, op=op: apply(op, *xs), *specs)
        assert [each for each in names if each != "scatter"] == [name] * bool(name)
