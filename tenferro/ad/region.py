"""A part of a graph that can be written down again: the nodes between some inputs and some outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenferro.graph import Graph, Mark, Node, Opaque, SourceLine

__all__ = ["Region", "region_of"]


@dataclass(frozen=True)
class Region:
    """Nodes in order, the values they take from outside, and the values they are there for."""

    frontier: tuple[int, ...]
    nodes: tuple[tuple[Node, SourceLine | None], ...]
    outputs: tuple[int, ...]

    def emit(self, graph: Graph, inputs: Sequence[int]) -> list[int]:
        """The outputs, computed again from other values in place of the frontier."""
        values: dict[int, int] = dict(zip(self.frontier, inputs, strict=True))
        for node, source in self.nodes:
            taken = tuple([values[value] for value in node.inputs])
            op = node.op
            made = (
                graph.add_mark(op, taken, source)
                if isinstance(op, Mark | Opaque)
                else graph.add(op, taken, source)
            )
            values.update(zip(node.outputs, made, strict=True))
        return [values[value] for value in self.outputs]


def region_of(graph: Graph, start: int, outputs: Sequence[int]) -> Region:
    """The nodes from number `start` on that `outputs` need."""
    needed = set(outputs)
    kept: list[tuple[Node, SourceLine | None]] = []
    for index in range(len(graph.nodes) - 1, start - 1, -1):
        node = graph.nodes[index]
        if not needed.isdisjoint(node.outputs):
            kept.append((node, graph.sources[index]))
            needed.difference_update(node.outputs)
            needed.update(node.inputs)
    return Region(tuple(sorted(needed)), tuple(reversed(kept)), tuple(outputs))
