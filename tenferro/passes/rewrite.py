"""The loop every pass is: re-emit each instruction into a fresh arena, changed or not."""

from __future__ import annotations

from collections.abc import Callable

from tenferro.graph import Graph, SourceLine
from tenferro.ops import StdTensorOp
from tenferro.program import GraphProgram

__all__ = ["Rule", "rewrite"]

Rule = Callable[[Graph, StdTensorOp, tuple[int, ...], SourceLine | None], tuple[int, ...] | None]
"""`rule(graph, op, inputs, source)` gives the values that replace the outputs, or None to keep op."""


def rewrite(program: GraphProgram, rule: Rule) -> GraphProgram:
    """The program with `rule` applied to each instruction in order; what nothing needs is dropped.

    The fresh arena is hash-consed, so equal instructions become one on the way.
    """
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
    return GraphProgram.from_graph(
        graph,
        [values[slot] for slot in program.output_slots],
        name=program.name,
        in_tree=program.in_tree,
        out_tree=program.out_tree,
        input_names=program.input_names,
        output_names=program.output_names,
        guards=program.guards,
    )
