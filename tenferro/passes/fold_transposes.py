"""TransposeFolding: fold transposes of a dot's operands, and of its result, into its dimension numbers.

Law: results do not change, except for the rounding of dots with exchanged operands.

A transpose of an operand is folded only if the free axes keep their order, because the free axes of the result are in
the order of the operand. For example, a transpose from [2,3,4] to [4,3,2] is not folded. The order of batch and
contracting axes may change, because the dimension numbers list these axes.

A transpose of the result may exchange the free axes of lhs and rhs. Then the dot and the transpose are rewritten as a
dot with exchanged operands, unless another instruction reads the dot. BLAS may then add the products in another order.

Source: docs/specification/schedule.md (`TransposeFolding`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from tenferro.graph import SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.structural import Transpose
from tenferro.program import GraphProgram, makers
from tenferro.program.rewrite import Producers, Values, emit_again, rewrite

__all__ = ["exchanged_dot", "fold_transposes"]


def fold_transposes(program: GraphProgram) -> GraphProgram:
    """Return the program with transposes folded into adjacent dots."""
    program = rewrite(program, {DotGeneral: _folded})
    reads = Counter([slot for step in program.instructions for slot in step.inputs])
    reads.update(program.output_slots)
    maker_of = makers(program.instructions)
    exchanged: dict[int, DotGeneral] = {}
    for step in program.instructions:
        dot = maker_of.get(step.inputs[0]) if isinstance(step.op, Transpose) else None
        if dot is not None and isinstance(dot.op, DotGeneral) and reads[dot.outputs[0]] == 1:
            better = exchanged_dot(dot.op, step.op, program.types[dot.inputs[0]].rank)
            if better is not None:
                exchanged[step.outputs[0]] = better
    if not exchanged:
        return program
    steps = iter(program.instructions)

    def rule(
        producers: Producers, _: StdTensorOp, inputs: Values, source: SourceLine | None
    ) -> Values | None:
        better = exchanged.get(next(steps).outputs[0])
        if better is None:
            return None
        dot = producers.maker(inputs[0])
        assert dot is not None
        return producers.apply(better, dot.inputs[::-1], source)

    return emit_again(program, rule)


def exchanged_dot(op: DotGeneral, transpose: Any, lhs_rank: int) -> DotGeneral | None:
    """Return the dot with exchanged operands that equals `transpose` applied to the dot `op`; None if there is none."""
    perm, batch = transpose.perm, len(op.lhs_batch)
    free = lhs_rank - len(op.lhs_contracting)
    if perm != (*range(batch), *range(free, len(perm)), *range(batch, free)):
        return None
    return replace(
        op,
        lhs_contracting=op.rhs_contracting,
        rhs_contracting=op.lhs_contracting,
        lhs_batch=op.rhs_batch,
        rhs_batch=op.lhs_batch,
    )


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
    """Return the contracting and batch axes, as axes before the transpose; None if the free axes change order."""
    assert isinstance(transpose, Transpose)
    perm = transpose.perm
    named = {*contracting, *batch}
    free = [perm[axis] for axis in range(len(perm)) if axis not in named]
    if free != sorted(free):
        return None
    return tuple(perm[axis] for axis in contracting), tuple(perm[axis] for axis in batch)
