"""The loop of every pass: copy the instructions of a program into a new graph, and let rules change some of them.

A pass is a table of rules by op class. The rules are first tried without a graph to which they could write. If no rule
changes anything, the result of the pass is the program itself.
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
    """Error that is raised if a rule writes an op while the rule is only tried on the unchanged program."""


class Producers:
    """A rule's view of a program.

    It contains the types of the values, the instruction that computes each value, and the graph to which the rule
    writes.

    Args:
        source: the unchanged program if rules are only tried, else the graph to which rules write.
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
            WritesError: the rule writes although it is only tried on the unchanged program.
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
        """Return the instruction that computes `value` if its op is of the class `card`, else None."""
        instruction = self.maker(value)
        return instruction if instruction is not None and type(instruction.op) is card else None


Rule = Callable[[Producers, Any, Values, SourceLine | None], Values | None]
"""Rule of a pass: `rule(producers, op, inputs, source)` returns values for the outputs, or None to copy `op`."""


def rewrite(program: GraphProgram, rules: Mapping[type[StdTensorOp], Rule]) -> GraphProgram:
    """Apply the rule for its op's class to each instruction, in order, and return the new program.

    Instructions that are no longer used are removed. Loops and conditionals are treated like other ops: their rules
    decide whether to change the bodies.
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
    """Apply `rule` to each instruction from position `start` on, whatever its op, and return the new program.

    Instructions are written into a new graph, so equal instructions are merged.
    """
    graph, values = fresh_arena(program)
    copy_into(graph, program.instructions[:start], values, types=program.types)
    written = functools.partial(rule, Producers(graph))
    copy_into(graph, program.instructions[start:], values, written, types=program.types)
    return written_again(program, graph, values)


def fresh_arena(program: GraphProgram) -> tuple[Graph, list[int]]:
    """Return a new graph with the program's inputs, and a list of its value for each slot; -1 stands for none yet."""
    graph = Graph(program.trusted)
    values = [graph.add_input(spec) for spec in program.input_specs]
    return graph, values + [-1] * (program.n_slots - len(values))


def written_again(program: GraphProgram, graph: Graph, values: Sequence[int]) -> GraphProgram:
    """Return the program of the instructions of `graph`, in which slot `i` has become the value `values[i]`."""
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
    """Return the position of the first instruction that a rule changes; None if no rule changes an instruction."""
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
    """Return the program in which one replacement is written for two instructions.

    Instructions between the two that depend on the first are moved after the replacement.

    Args:
        first, second: the positions of the two instructions.
        later: the values that are computed between the two and depend on the first.
        write: function of a graph and a list of the graph's value for each slot. It writes the replacement into the
            graph, and sets the values for the outputs of the two instructions.
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
