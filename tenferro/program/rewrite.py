"""The loop of every pass: copy the instructions of a program into a new graph, each changed by a rule or unchanged.

A pass is a table of rules by op class. The rules are first tried without a graph to write to; if no rule changes
anything, the result is the program itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tenferro.graph import Graph, Instruction, SourceLine
from tenferro.ops import StdTensorOp
from tenferro.program.instructions import copy_into, makers
from tenferro.types import TensorSpec

if TYPE_CHECKING:
    from tenferro.program.program import GraphProgram

__all__ = [
    "Producers",
    "Rule",
    "Values",
    "emit_again",
    "fresh_arena",
    "merged",
    "rewrite",
    "written_again",
]

Values = tuple[int, ...]


class WritesError(Exception):
    """A rule writes while it is only tried on the unchanged program."""


class Producers:
    """A rule's view of a program: the types of values, the instruction that computes each value, and the graph to
    which the rule writes.

    Args:
        source: a program, if rules are only tried; or the graph to which rules write.
    """

    def __init__(self, source: GraphProgram | Graph) -> None:
        self.types: Sequence[TensorSpec] = source.types
        self._source = source
        self._makers: dict[int, Instruction] = {}
        self._seen = 0

    @property
    def graph(self) -> Graph:
        """The graph to which the rule writes.

        Raises:
            WritesError: the rule writes although it is only tried on an unchanged program.
        """
        if not isinstance(self._source, Graph):
            raise WritesError
        return self._source

    def apply(self, op: StdTensorOp, inputs: Values, source: SourceLine | None) -> Values:
        """Write an op into the graph, and return its outputs."""
        return self.graph.add(op, inputs, source)

    def maker(self, value: int) -> Instruction | None:
        """Return the instruction that computes `value`; None for an input."""
        instruction = self._makers.get(value)
        instructions = self._source.instructions
        if instruction is None and self._seen < len(instructions):
            self._makers.update(makers(instructions[self._seen :]))
            self._seen = len(instructions)
            instruction = self._makers.get(value)
        return instruction

    def of(self, value: int, card: type[StdTensorOp]) -> Instruction | None:
        """Return the instruction that computes `value` if its op is of this class, else None."""
        instruction = self.maker(value)
        return instruction if instruction is not None and type(instruction.op) is card else None


Rule = Callable[[Producers, Any, Values, SourceLine | None], Values | None]
"""`rule(producers, op, inputs, source)` returns the values that replace the outputs, or None to copy the op."""


def rewrite(program: GraphProgram, rules: Mapping[type[StdTensorOp], Rule]) -> GraphProgram:
    """Return the program after each instruction was changed, in order, by the rule of its op's class; remove unused
    instructions.

    Loops and conditionals are treated like other ops; their rules decide whether to change their bodies.
    """
    start = _first_change(program, rules)
    if start is None:
        return program

    def rule(
        emitter: Producers, op: StdTensorOp, inputs: Values, source: SourceLine | None
    ) -> Values | None:
        of_card = rules.get(type(op))
        return None if of_card is None else of_card(emitter, op, inputs, source)

    return emit_again(program, rule, start)


def emit_again(program: GraphProgram, rule: Rule, start: int = 0) -> GraphProgram:
    """Return the program with `rule` applied to each instruction from `start` on, whatever its op.

    Instructions are written into a new graph, so equal instructions are merged.
    """
    graph, values = fresh_arena(program)
    copy_into(graph, program.instructions[:start], values, types=program.types)
    written = functools.partial(rule, Producers(graph))
    copy_into(graph, program.instructions[start:], values, written, types=program.types)
    return written_again(program, graph, values)


def fresh_arena(program: GraphProgram) -> tuple[Graph, list[int]]:
    """Return a graph with the program's inputs, and the value of each slot; -1 for slots that are not yet written."""
    graph = Graph(program.trusted)
    values = [graph.add_input(spec) for spec in program.input_specs]
    return graph, values + [-1] * (program.n_slots - len(values))


def written_again(program: GraphProgram, graph: Graph, values: Sequence[int]) -> GraphProgram:
    """Return the program with the instructions of `graph`, in which `values[slot]` is the value of each slot."""
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


def _first_change(program: GraphProgram, rules: Mapping[type[StdTensorOp], Rule]) -> int | None:
    """Return the number of the first instruction that a rule changes, or None."""
    emitter = Producers(program)
    for index, (op, inputs, _, _, source) in enumerate(program.instructions):
        rule = rules.get(type(op))
        if rule is None:
            continue
        try:
            if rule(emitter, op, inputs, source) is not None:
                return index
        except WritesError:
            return index
    return None


def merged(
    program: GraphProgram,
    first: int,
    second: int,
    later: set[int],
    write: Callable[[Graph, list[int]], None],
) -> GraphProgram:
    """Return the program with two instructions merged into a replacement.

    Instructions between the two that depend on the first follow the replacement.

    Args:
        first, second: the numbers of the two instructions.
        later: the values computed between the two that depend on the first.
        write: function of a graph and its values by slot. It writes the replacement of both instructions into the
            graph, and sets the values of their outputs.
    """
    instructions = program.instructions
    between = instructions[first + 1 : second]
    graph, values = fresh_arena(program)
    copy_into(graph, instructions[:first], values)
    copy_into(graph, [step for step in between if later.isdisjoint(step.inputs)], values)
    write(graph, values)
    copy_into(graph, [step for step in between if not later.isdisjoint(step.inputs)], values)
    copy_into(graph, instructions[second + 1 :], values)
    return written_again(program, graph, values)
