"""From a graph to instructions: the part that some outputs need, over numbered slots.

A sweep backward finds the nodes that are needed, and meets the last reader of each value first; a sweep
forward numbers what they make.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tenferro.errors import InvalidConfigError
from tenferro.graph import Graph, Mark, Node, Opaque, SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops.control import ControlOp
from tenferro.types import TensorSpec

__all__ = ["Instruction", "instructions_of"]


class Instruction(NamedTuple):
    """One op over slots; each slot is written once.

    `last_use[i]` says that no later instruction reads input i and that it is no output.
    """

    op: StdTensorOp
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    last_use: tuple[bool, ...]
    source: SourceLine | None = None


Needed = tuple[StdTensorOp, tuple[int, ...], tuple[int, ...], tuple[bool, ...], int]
"""Op, inputs, outputs and last uses of a node that is needed, and its number."""


def instructions_of(
    graph: Graph, inputs: Sequence[int], outputs: Sequence[int]
) -> tuple[tuple[Instruction, ...], tuple[TensorSpec, ...], tuple[int, ...]]:
    """The instructions that make `outputs` of `inputs`, the types of slots, and the slots of the outputs.

    Slots 0 .. n-1 are the inputs, whatever makes them in the graph.

    Raises:
        InvalidConfigError: something needs a value that is neither an input nor made.
        ADRuleUnsupportedError: something needs a map that only its transpose can compute.
    """
    nodes: Sequence[Node | None] = graph.nodes
    if graph.marked:
        nodes, outputs = _without_marks(graph, inputs, outputs)
    types, sources = graph.types, graph.sources
    slot_of = [-1] * len(types)
    for slot, value in enumerate(inputs):
        slot_of[value] = slot
    found = [types[value] for value in inputs]
    instructions: list[Instruction] = []
    new: Any = tuple.__new__  # because `Instruction(..)` takes longer, and there are many
    for op, taken, made, last_use, index in reversed(_needed(nodes, len(types), inputs, outputs)):
        slots = tuple(map(slot_of.__getitem__, taken))
        if -1 in slots:
            missing = types[taken[slots.index(-1)]]
            raise InvalidConfigError(
                f"{op.name} needs a value of type {missing} which is no input of the program"
            )
        source = sources[index]
        if graph.marked and isinstance(op, Opaque):
            raise op.refuse().at(str(source or ""))
        given = tuple(range(len(found), len(found) + len(made)))
        for value in made:
            slot_of[value] = len(found)
            found.append(types[value])
        instructions.append(new(Instruction, (op, slots, given, last_use, source)))
    return tuple(instructions), tuple(found), tuple([slot_of[value] for value in outputs])


def _needed(
    nodes: Sequence[Node | None], count: int, inputs: Sequence[int], outputs: Sequence[int]
) -> list[Needed]:
    """The nodes that the outputs need, last one first."""
    unread = [True] * count
    for value in outputs:
        unread[value] = False
    given = set(inputs)
    needed: list[Needed] = []
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        if node is None:
            continue
        op, taken, made = node
        for value in made:
            if not unread[value] and value not in given:
                break
        else:
            continue
        if isinstance(op, ControlOp):
            read = [not unread[value] and value not in given for value in made]
            op, inner, outer = op.pruned(read)
            taken, made = tuple([taken[i] for i in inner]), tuple([made[i] for i in outer])
        last_use = tuple(map(unread.__getitem__, taken))
        for value in taken:
            unread[value] = False
        needed.append((op, taken, made, last_use, index))  # pyright: ignore[reportArgumentType]  # because no mark is left
    return needed


def _without_marks(
    graph: Graph, inputs: Sequence[int], outputs: Sequence[int]
) -> tuple[list[Node | None], list[int]]:
    """The nodes as if old names had been used, and the outputs; None for marks, and for what two names of
    one value had been used for and is one node once the names are gone.
    """
    same = list(range(len(graph.types)))
    given = set(inputs)
    renamed: dict[Any, tuple[int, ...]] = {}
    nodes: list[Node | None] = []
    for node in graph.nodes:
        op, taken, made = node
        resolved = tuple(map(same.__getitem__, taken))
        if isinstance(op, Mark):
            nodes.append(None)
            for position, value in zip(op.takes, made, strict=True):
                if value not in given:
                    same[value] = resolved[position]
        elif made and same[made[0]] != made[0]:
            nodes.append(None)
        elif resolved == taken:
            nodes.append(node)
        elif isinstance(op, Opaque) or not given.isdisjoint(made):
            nodes.append(Node(op, resolved, made))
        else:
            twin = graph.find(op, resolved)
            if twin is None or not given.isdisjoint(twin):
                twin = renamed.setdefault((op.token, resolved), made)
            first, second = sorted([made, tuple(map(same.__getitem__, twin))])
            nodes.append(Node(op, resolved, made) if first == made else None)
            for value, known in zip(second, first, strict=False):
                same[value] = known
    return nodes, [same[value] for value in outputs]
