"""DotDimensionSorter: sort the contracting axes of a dot if that makes them consecutive.

Law: results do not change, because the lists of axes of both operands are permuted in the same way.

Source: docs/specification/schedule.md (`DotDimensionSorter`).
"""

from __future__ import annotations

from dataclasses import replace

from tenferro.graph import SourceLine
from tenferro.ops.contraction import DotGeneral
from tenferro.program import GraphProgram
from tenferro.program.rewrite import Producers, Values, rewrite

__all__ = ["sort_dot_dimensions"]


def sort_dot_dimensions(program: GraphProgram) -> GraphProgram:
    """Return the program with sorted contracting axes in each dot, if that makes them consecutive in an operand."""
    return rewrite(program, {DotGeneral: _sorted})


def _sorted(
    producers: Producers, op: DotGeneral, inputs: Values, source: SourceLine | None
) -> Values | None:
    for leading in (op.lhs_contracting, op.rhs_contracting):
        order = sorted(range(len(leading)), key=leading.__getitem__)
        ascending = [leading[i] for i in order]
        consecutive = bool(ascending) and ascending == list(
            range(ascending[0], ascending[0] + len(ascending))
        )
        if consecutive and order != list(range(len(order))):
            changed = replace(
                op,
                lhs_contracting=tuple(op.lhs_contracting[i] for i in order),
                rhs_contracting=tuple(op.rhs_contracting[i] for i in order),
            )
            return producers.apply(changed, inputs, source)
        if consecutive:
            return None
    return None
