"""Replace each `Alternatives` op by one of its two programs.

Law: results are equal up to rounding, and no `Alternatives` op remains outside loops and conditionals.
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
    """Return the program with each `Alternatives` op replaced by `chosen(op)`, which is one of its programs."""

    def rule(
        producers: Producers, op: Alternatives, inputs: Values, source: SourceLine | None
    ) -> Values | None:
        graph = producers.graph
        part = Subprogram.of_program(choose_alternatives(chosen(op).program, chosen))
        return tuple(part.emit(graph, inputs, source))

    return rewrite(program, {Alternatives: rule})
