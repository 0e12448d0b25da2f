"""Removal of ops with effects, such as printing, from programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tenferro.graph import SourceLine
from tenferro.ops.control import ControlOp
from tenferro.ops.source import Constant
from tenferro.ops.structural import BroadcastInDim
from tenferro.program.rewrite import Producers, Values, emit_again

if TYPE_CHECKING:
    from tenferro.program.program import GraphProgram

__all__ = ["without_effects"]


def without_effects(
    program: GraphProgram, chosen: Callable[[Any], bool] = lambda op: True
) -> GraphProgram:
    """Return the program with zeros in place of the outputs of ops with effects, also inside loops and branches.

    Args:
        chosen: function of an op with effects that returns whether to remove it; by default all are removed.
    """

    def rule(
        emitter: Producers, op: Any, inputs: Values, source: SourceLine | None
    ) -> Values | None:
        if not op.has_effects:
            return None
        if isinstance(op, ControlOp):
            parts = [
                type(part).of_program(without_effects(part.program, chosen)) for part in op.parts
            ]
            return emitter.apply(op.with_parts(*parts), inputs, source)
        if not chosen(op):
            return None
        zeros: list[int] = []
        for spec in op.infer(*[emitter.types[value] for value in inputs]):
            (zero,) = emitter.apply(Constant.of(np.zeros((), spec.dtype.dtype)), (), source)
            zeros += emitter.apply(BroadcastInDim(spec.shape, ()), (zero,), source)
        return tuple(zeros)

    return emit_again(program, rule) if program.has_effects else program
