"""DotDecomposer: rewrite each dot as one batched matrix product, [batch, m, k] by [batch, k, n].

Law: results do not change. Transposes, which are views in native execution, move the axes of an operand to canonical
order: batch axes, free axes, contracting axes. The kernel merges the axes of each kind. It copies an operand whose
strides, known only at run time, do not allow that.

Source: docs/specification/schedule.md (`DotDecomposer`).
"""

from __future__ import annotations

from dataclasses import replace

from tenferro.graph import SourceLine
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.structural import Transpose
from tenferro.program import GraphProgram
from tenferro.program.rewrite import Producers, Values, rewrite

__all__ = ["decompose_dots"]


def decompose_dots(program: GraphProgram) -> GraphProgram:
    """Return the program with each dot rewritten as a batched matrix product."""
    return rewrite(program, {DotGeneral: _decomposed})


def _decomposed(
    producers: Producers, op: DotGeneral, inputs: Values, source: SourceLine | None
) -> Values:
    lhs, rhs = inputs
    batch, contracted = len(op.lhs_batch), len(op.lhs_contracting)
    lhs_rank, rhs_rank = producers.types[lhs].rank, producers.types[rhs].rank
    lhs_free = _free(lhs_rank, op.lhs_batch, op.lhs_contracting)
    rhs_free = _free(rhs_rank, op.rhs_batch, op.rhs_contracting)
    canonical = replace(
        op,
        lhs_batch=tuple(range(batch)),
        rhs_batch=tuple(range(batch)),
        lhs_contracting=tuple(range(lhs_rank - contracted, lhs_rank)),
        rhs_contracting=tuple(range(batch, batch + contracted)),
    )
    lhs = _transposed(producers, lhs, (*op.lhs_batch, *lhs_free, *op.lhs_contracting), source)
    rhs = _transposed(producers, rhs, (*op.rhs_batch, *op.rhs_contracting, *rhs_free), source)
    return producers.apply(canonical, (lhs, rhs), source)


def _free(rank: int, batch: tuple[int, ...], contracting: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis for axis in range(rank) if axis not in batch and axis not in contracting)


def _transposed(
    producers: Producers, value: int, perm: tuple[int, ...], source: SourceLine | None
) -> int:
    if perm == tuple(range(len(perm))):
        return value
    (result,) = producers.apply(Transpose(perm), (value,), source)
    return result
