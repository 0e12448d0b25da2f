"""Choose alternatives: one of two programs that compute the same, in place of their op.

Law: the result computes the same, to rounding, and has no `Alternatives` outside of loops and choices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenferro.graph import SourceLine
from tenferro.ops.control import Alternatives
from tenferro.program import GraphProgram, Subprogram
from tenferro.program.rewrite import Producers, Values, rewrite

__all__ = ["choose_alternatives"]


def choose_alternatives(
    program: GraphProgram, chosen: Callable[[Alternatives], Any]
) -> GraphProgram:
    """The program with `chosen(op)`, one of the parts, written in place of each `Alternatives`."""

    def rule(
        producers: Producers, op: Alternatives, inputs: Values, source: SourceLine | None
    ) -> Values | None:
        graph = producers.graph
        part = Subprogram.of_program(choose_alternatives(chosen(op).program, chosen))
        return tuple(part.emit(graph, inputs, source))

    return rewrite(program, {Alternatives: rule})
