"""LLVM lowerings of ops: which operands must be in memory, and which cases are not compiled."""

from __future__ import annotations

from typing import Any

import pytest

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.control import COMPILED
from tenferro.exec.llvm.tensor import Body, Memory
from tenferro.ops import StdTensorOp
from tenferro.ops import analytic as an
from tenferro.ops import contraction as co
from tenferro.ops import elementwise as el
from tenferro.ops import indexing as ix
from tenferro.ops import reduction as re
from tenferro.types import DType, TensorSpec

READ_ELSEWHERE = {
    "Transpose", "Reshape", "BroadcastInDim", "Slice", "Reverse", "ExtractDiag", "ReduceSum",
    "ReduceProd", "ReduceMax", "ReduceMin", "ReduceAnd", "ReduceOr", "ArgMax", "ArgMin", "CumSum", "CumProd", "CumMax",
    "CumMin", "Sort", "TopK", "DotGeneral", "Convolution", "Gather", "Scatter", "DynamicSlice", "DynamicUpdateSlice",
}  # fmt: skip
READ_OFTEN = {
    "ArgMax": True, "ArgMin": True, "Sort": (0,), "TopK": (0,), "DotGeneral": True,
    "Convolution": True, "Gather": True, "Scatter": (1,),
}  # fmt: skip
"""Operands that must be in memory: True for all operands, else their positions."""


def named(fact: Any) -> set[str]:
    """Return the names of the ops whose entry in `COMPILED` satisfies the predicate `fact`."""
    return {op.__name__ for op, row in COMPILED.items() if fact(row)}


def test_facts() -> None:
    assert named(lambda row: row.moves) == READ_ELSEWHERE
    materialises = {
        op.__name__: row.materialises for op, row in COMPILED.items() if row.materialises
    }
    assert materialises == READ_OFTEN


def spec(text: str) -> TensorSpec:
    return TensorSpec.parse(text)


@pytest.mark.parametrize(
    ("op", "operands", "reason"),
    [
        (re.Sort(0), ["f64[128]"], ""),
        (re.Sort(0), ["f64[129]"], "129 elements are more than 128"),
        (re.Sort(1), ["f64[129,3]"], ""),
        (re.Sort(1), ["f64[3,129,2]"], "129 elements are more than 128"),
        (re.Sort(0), ["c128[3]"], "an order of complex128 is not compiled"),
        (re.TopK(2), ["f32[129,128]"], ""),
        (re.TopK(2), ["f32[3,129]"], "129 elements are more than 128"),
        (re.TopK(2), ["f32[3,129,4]"], ""),
        (re.TopK(2), ["f32[129]"], "129 elements are more than 128"),
        (re.TopK(2), ["c64[3]"], "an order of complex64 is not compiled"),
        (el.BitcastConvert(DType.I16), ["f16[3]"], "bits of float16 are not compiled"),
        (el.BitcastConvert(DType.BF16), ["i16[3]"], "bits of bfloat16 are not compiled"),
        (el.BitcastConvert(DType.I64), ["c64[3]"], "bits of complex64 are not compiled"),
        (el.BitcastConvert(DType.C32), ["i64[3]"], "bits of complex64 are not compiled"),
        (el.BitcastConvert(DType.I64), ["f64[3]"], ""),
        (el.BitcastConvert(DType.I8), ["f64[3]"], "bits of float64 as int8 are not compiled"),
        (el.BitcastConvert(DType.F64), ["i32[3,2]"], "bits of int32 as float64 are not compiled"),
        (el.Power(), ["f16[3]", "f16[3]"], ""),
        (el.Power(), ["i32[3]", "i32[3]"], "int32 is not compiled"),
        (el.Power(), ["c128[3]", "c128[3]"], "complex128 is not compiled"),
        (an.Exp(), ["c128[3]"], ""),
        (an.Exp(), ["f32[3]"], ""),
        (an.Expm1(), ["c128[3]"], "complex128 is not compiled"),
        (an.Sqrt(), ["c128[3]"], "complex128 is not compiled"),
        (an.Rsqrt(), ["c64[3]"], "complex64 is not compiled"),
        (an.Lgamma(), ["f32[3]"], ""),
        (an.Polygamma(1), ["f64[3]"], "no scalar form is written"),
        (el.ReducePrecision(5, 10), ["f64[3]"], "narrower mantissas are not compiled"),
    ],
    ids=str,
)  # fmt: skip
def test_refusals(op: StdTensorOp, operands: list[str], reason: str) -> None:
    assert COMPILED[type(op)].reason_for(op, tuple([spec(each) for each in operands])) == reason


@pytest.mark.parametrize(
    ("op", "operands", "results", "reason"),
    [
        (re.ArgMin(0), ["f64[0,2]"], ["i64[2]"], "an empty axis is not compiled"),
        (co.DotGeneral((0,), (0,), (), ()), ["f32[3]", "f32[3]"], ["f64[]"], "f32[3] with f32[3] to f64[] is not compiled"),
    ],
    ids=str,
)  # fmt: skip
def test_refusals_during_lowering(
    op: StdTensorOp, operands: list[str], results: list[str], reason: str
) -> None:
    body = Body(Code())
    tensors = [body.stored(Memory(f"%x{n}", spec(each))) for n, each in enumerate(operands)]
    with pytest.raises(NotCompiledError) as caught:
        COMPILED[type(op)].write(body, op, tensors, [spec(each) for each in results])
    assert f"{op.name}: {reason}" in str(caught.value)


@pytest.mark.parametrize("combiner", ["set", "add", "multiply", "min", "max"])
def test_complex_numbers_have_no_order(combiner: str) -> None:
    op = ix.Scatter(
        update_window_dims=(), inserted_window_dims=(0,), input_batching_dims=(), scatter_indices_batching_dims=(),
        scatter_dims_to_operand_dims=(0,), index_vector_dim=1, combiner=combiner,
    )  # fmt: skip
    body = Body(Code())
    operands = [
        body.stored(Memory(f"%x{n}", spec(each)))
        for n, each in enumerate(("c128[4]", "i64[2,1]", "c128[2]"))
    ]
    write = COMPILED[ix.Scatter].write
    if combiner in ("min", "max"):
        with pytest.raises(
            NotCompiledError, match=f"Scatter: {combiner} of complex128 is not compiled"
        ):
            write(body, op, operands, [spec("c128[4]")])
    else:
        (y,) = write(body, op, operands, [spec("c128[4]")])
        assert y.memory is not None
