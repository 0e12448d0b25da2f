"""Linearise: compute the tangents of a graph's values in one forward sweep.

Law: each tangent is the directional derivative of its value. A tangent is a linear function of the tangents that the
caller passes, and is computed by ops that have a transpose. Values that depend on no active input, or that no
output needs, have no tangent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from tenferro.ad.algebra import Value
from tenferro.ad.graph_emitter import GraphEmitter
from tenferro.errors import ADRuleUnsupportedError, TenferroError
from tenferro.graph import Instruction, Mark, Opaque
from tenferro.ops import StdTensorOp
from tenferro.program import needed

__all__ = ["linearize"]


def linearize(
    emitter: GraphEmitter,
    start: int,
    outputs: Iterable[int],
    tangents: Mapping[int, int],
    mode: Literal["forward", "reverse"] = "forward",
) -> list[int | None]:
    """Return the tangents of `outputs`, given the tangents of other values. A result is None if its output is inactive.

    Args:
        start: the number of instructions in the graph when the first value in `tangents` was created. No earlier
            instruction depends on the values in `tangents`.
        tangents: a map from values to their tangents. Such a tangent replaces the one that the op's rule would compute.
        mode: "reverse" if the result will be transposed, otherwise "forward".

    Raises:
        ADRuleUnsupportedError: an active op has no rule; the error names the user's line.
    """
    graph = emitter.graph
    emitter.mode = mode
    outputs = list(outputs)

    def differentiated(instruction: Instruction, wanted: Any) -> Instruction:
        op, inputs = instruction.op, instruction.inputs
        if not tangents.keys().isdisjoint(instruction.outputs):
            return instruction._replace(inputs=())
        if not isinstance(op, Mark):
            return instruction
        return instruction._replace(inputs=tuple([inputs[i] for i in op.differentiates(mode)]))

    emitter.first = len(graph)
    dots: dict[int, int] = dict(tangents)
    for value, dot in dots.items():
        emitter.primal_of.setdefault(dot, value)
    for index in needed(graph.instructions, outputs, start=start, narrow=differentiated):
        node = graph.instructions[index]
        if dots.keys().isdisjoint(node.inputs) or not tangents.keys().isdisjoint(node.outputs):
            continue
        active = [dots.get(value) for value in node.inputs]
        emitter.derive(index)
        try:
            y_dots = _tangents(emitter, node, active, mode)
        except TenferroError as error:
            error.at(emitter.source)
            raise
        for value, dot in zip(node.outputs, y_dots, strict=True):
            if dot is not None and graph.types[value].dtype.is_inexact:
                dots[value] = dot.handle
                emitter.primal_of.setdefault(dot.handle, value)
    emitter.source = None
    return [dots.get(value) for value in outputs]


def _tangents(emitter: GraphEmitter, node: Instruction, active: list[int | None], mode: str) -> Any:
    inputs = emitter.values(node.inputs)
    outputs = emitter.values(node.outputs)
    tangents = [None if dot is None else Value(emitter, dot) for dot in active]
    op = node.op
    if isinstance(op, Mark):
        return op.linearize(emitter, inputs, outputs, tangents, mode)
    if isinstance(op, Opaque):
        raise op.refuse()
    if not any([emitter.graph.types[value].dtype.is_inexact for value in node.outputs]):
        return (None,) * len(outputs)
    rule = emitter.rules[type(op)]
    if rule.jvp is None:
        return (None,) * len(outputs)
    return rule.jvp(op, inputs, outputs, tangents)


def missing_rule(op: StdTensorOp, kind: str) -> ADRuleUnsupportedError:
    """Return an error that says that `op` has no rule of the kind `kind`."""
    return ADRuleUnsupportedError(f"{op.name}: has no {kind} rule")
