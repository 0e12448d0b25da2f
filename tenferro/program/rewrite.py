"""The loop every pass is: re-emit each instruction into a fresh arena, changed or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tenferro.graph import Graph, Node, SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops.control import ControlOp

if TYPE_CHECKING:
    from tenferro.program.program import GraphProgram

__all__ = ["Producers", "Rule", "rewrite"]

Rule = Callable[[Graph, StdTensorOp, tuple[int, ...], SourceLine | None], tuple[int, ...] | None]
"""`rule(graph, op, inputs, source)` gives the values that replace the outputs, or None to keep op."""


def rewrite(
    program: GraphProgram, rule: Rule, only: type[StdTensorOp] | None = None
) -> GraphProgram:
    """The program with `rule` applied to each instruction in order; what nothing needs is dropped.

    A rule that changes `only` one card's ops leaves a program without any as it is. Loops and choices are
    ops like any other here: what is in them is the rule's business.

    The fresh arena is hash-consed, so equal instructions become one on the way.
    """
    if only is not None and not any(
        type(i.op) is only or isinstance(i.op, ControlOp) for i in program.instructions
    ):
        return program
    graph = Graph()
    values = [graph.add_input(spec) for spec in program.input_specs]
    values += [-1] * (program.n_slots - len(values))
    for instruction in program.instructions:
        inputs = tuple([values[slot] for slot in instruction.inputs])
        made = rule(graph, instruction.op, inputs, instruction.source)
        if made is None:
            made = graph.add(instruction.op, inputs, instruction.source)
        for slot, value in zip(instruction.outputs, made, strict=True):
            values[slot] = value
    return type(program).from_graph(
        graph,
        [values[slot] for slot in program.output_slots],
        name=program.name,
        in_tree=program.in_tree,
        out_tree=program.out_tree,
        input_names=program.input_names,
        output_names=program.output_names,
        guards=program.guards,
    )


class Producers:
    """Looks up which node made a value; follows the arena as it grows."""

    graph: Graph

    def __init__(self) -> None:
        self._made: dict[int, Node] = {}
        self._seen = 0

    def node(self, value: int) -> Node | None:
        """The node that made `value`; None for an input."""
        nodes, made = self.graph.nodes, self._made
        for index in range(self._seen, len(nodes)):
            node = nodes[index]
            for output in node.outputs:
                made[output] = node
        self._seen = len(nodes)
        return made.get(value)

    def of(self, value: int, card: type[StdTensorOp]) -> Node | None:
        """The node that made `value`, if it is of that card."""
        node = self.node(value)
        return node if node is not None and type(node.op) is card else None
