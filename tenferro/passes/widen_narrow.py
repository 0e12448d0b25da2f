"""Widen narrow dtypes: compute ops on narrow dtypes in the wider dtype `DType.wide`, between two conversions.

Law: the result is that of exact arithmetic, rounded once. Only conversions, and ops that copy elements, have kernels
for narrow dtypes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tenferro.facts import Fact, facts_of
from tenferro.graph import SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops import elementwise as el
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.reduction import ReduceMax, ReduceMin, Sort
from tenferro.ops.source import Constant, Iota
from tenferro.ops.structural import BroadcastInDim
from tenferro.program import GraphProgram
from tenferro.program.rewrite import Producers, Values, emit_again
from tenferro.types import DType, TensorSpec

__all__ = ["is_widened", "widen_narrow"]

SIGNED_BITS, UNSIGNED_BITS = "i", "u"
READ_AS: Mapping[type[StdTensorOp], str] = {
    el.ShiftRightArithmetic: SIGNED_BITS,
    el.ShiftRightLogical: UNSIGNED_BITS,
    el.PopulationCount: UNSIGNED_BITS,
    el.CountLeadingZeros: UNSIGNED_BITS,
}
"""Functions that widen the operands of ops whose result depends on the number of bits: by the sign bit, or by zeros."""
_SAME_WIDTH = {
    (DType.I2, UNSIGNED_BITS): DType.U2,
    (DType.I4, UNSIGNED_BITS): DType.U4,
    (DType.U2, SIGNED_BITS): DType.I2,
    (DType.U4, SIGNED_BITS): DType.I4,
}


def is_widened(op: StdTensorOp, types: list[TensorSpec]) -> bool:
    """Return whether an op with operands and results of these types is computed in a wider dtype."""
    if not any([spec.dtype.is_narrow for spec in types]):
        return False
    if isinstance(op, Sort):
        return types[0].dtype.is_narrow
    if isinstance(op, el.Convert | el.BitcastConvert) or op.parts:
        return False
    return not facts_of(op) & (Fact.COPIES | Fact.EXTERNAL)


def widen_narrow(program: GraphProgram) -> GraphProgram:
    """Return the program in which ops on narrow dtypes compute in wide dtypes. Bodies of loops are not changed."""
    if not any([spec.dtype.is_narrow for spec in program.types]):
        return program
    return emit_again(program, _widened)


def _widened(
    producers: Producers, op: StdTensorOp, inputs: Values, source: SourceLine | None
) -> Values | None:
    operands = [producers.types[value] for value in inputs]
    results = op.infer(*operands, guards=producers.graph.guards)
    if not is_widened(op, [*operands, *results]):
        return None

    def apply(op: StdTensorOp, *values: int) -> int:
        (value,) = producers.apply(op, values, source)
        return value

    def extended(value: int) -> int:
        dtype = producers.types[value].dtype
        same_width = _SAME_WIDTH.get((dtype, READ_AS.get(type(op), "")))
        if same_width is not None:
            value, dtype = apply(el.BitcastConvert(same_width), value), same_width
        return apply(el.Convert(dtype.wide), value) if dtype.is_narrow else value

    def rounded(value: int, spec: TensorSpec) -> int:
        dtype, wide = spec.dtype, producers.types[value]
        if not dtype.is_narrow:
            return value
        if isinstance(op, ReduceMax | ReduceMin):
            value = apply(el.Clamp(), value, *[full(limit, wide) for limit in dtype.extremes])
        if isinstance(op, el.CountLeadingZeros):
            value = apply(el.Subtract(), value, full(8 - dtype.bits, wide))
        if wide.dtype.kind != dtype.kind:
            same_width = _SAME_WIDTH[dtype, wide.dtype.kind]
            return apply(el.BitcastConvert(dtype), apply(el.Convert(same_width), value))
        return apply(el.Convert(dtype), value)

    def full(number: Any, like: TensorSpec) -> int:
        scalar = apply(Constant.of(np.asarray(number, like.dtype.dtype)))
        return apply(BroadcastInDim(like.shape, ()), scalar) if like.shape else scalar

    if isinstance(
        op, Sort
    ):  # sort by a wide key, so that the moved elements keep their bits, also those of NaN
        _, *moved = producers.apply(
            replace(op, count=op.count + 1), (extended(inputs[0]), *inputs), source
        )
        return tuple(moved)
    values = producers.apply(_in_wide(op), tuple(map(extended, inputs)), source)
    return tuple(map(rounded, values, results))


def _in_wide(op: StdTensorOp) -> StdTensorOp:
    """Return the op with each narrow dtype in its payload replaced by the wide dtype."""
    if isinstance(op, Iota):
        return replace(op, dtype=op.dtype.wide)
    if isinstance(op, DotGeneral) and op.accumulate_dtype is not None:
        return replace(op, accumulate_dtype=op.accumulate_dtype.wide)
    return op
