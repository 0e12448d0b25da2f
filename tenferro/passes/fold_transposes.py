"""TransposeFolding: fold a transpose that feeds a dot into its dimension numbers.

The result is unchanged, because a transpose is folded only where the free axes keep their order. The dot's result has
them in the order of the operand's axes, so [4,3,2] as a transpose of [2,3,4] is not folded. Batch and contracting axes
are listed in the dimension numbers, and may be permuted.

Source: docs/specification/schedule.md (`TransposeFolding`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenferro.graph import SourceLine
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.structural import Transpose
from tenferro.program import GraphProgram
from tenferro.program.rewrite import Producers, Values, rewrite

__all__ = ["fold_transposes"]


def fold_transposes(program: GraphProgram) -> GraphProgram:
    """Return the program with transposes folded into the dots they feed."""
    return rewrite(program, {DotGeneral: _folded})


def _folded(
    producers: Producers, op: DotGeneral, inputs: Values, source: SourceLine | None
) -> Values | None:
    folded, lhs, rhs = op, *inputs
    while (node := producers.of(lhs, Transpose)) and (better := _fold_lhs(folded, node.op)):
        folded, lhs = better, node.inputs[0]
    while (node := producers.of(rhs, Transpose)) and (better := _fold_rhs(folded, node.op)):
        folded, rhs = better, node.inputs[0]
    return None if folded is op else producers.apply(folded, (lhs, rhs), source)


def _fold_lhs(op: DotGeneral, transpose: Any) -> DotGeneral | None:
    moved = _moved(transpose, op.lhs_contracting, op.lhs_batch)
    return moved and replace(op, lhs_contracting=moved[0], lhs_batch=moved[1])


def _fold_rhs(op: DotGeneral, transpose: Any) -> DotGeneral | None:
    moved = _moved(transpose, op.rhs_contracting, op.rhs_batch)
    return moved and replace(op, rhs_contracting=moved[0], rhs_batch=moved[1])


def _moved(
    transpose: Any, contracting: tuple[int, ...], batch: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the contracting and batch axes before the transpose; None if the free axes would change order."""
    assert isinstance(transpose, Transpose)
    perm = transpose.perm
    named = {*contracting, *batch}
    free = [perm[axis] for axis in range(len(perm)) if axis not in named]
    if free != sorted(free):
        return None
    return tuple(perm[axis] for axis in contracting), tuple(perm[axis] for axis in batch)
