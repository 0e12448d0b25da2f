"""Invariants hoisted: values that are the same in every turn of a loop are computed once, before it.

Law: the result is the same bit for bit. A scan of at least one turn computes every instruction of its body, so whatever
has no effects may go before it. A while loop may end before its body is run: of that only ops of the vocabulary go,
which cannot fail, and no loops, which may not end.

What moves elements alone stays in the loop, where it is index arithmetic, and so does arithmetic on what is repeated:
computed once, it would have to be read in every turn from memory that is larger than its operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tenferro.graph import Graph, Instruction, Mark, Opaque, SourceLine
from tenferro.ops import StdTensorOp, elementwise, source, structural
from tenferro.ops.control import ControlOp, Scan, While
from tenferro.ops.extension import Extension
from tenferro.program import GraphProgram, Subprogram
from tenferro.program.instructions import copy_into, needed
from tenferro.program.rewrite import Producers, Values, emit_again

__all__ = ["hoist_invariants"]

MOVES = frozenset((*structural.CARDS, *source.CARDS))
CHEAP = frozenset(elementwise.CARDS)


def hoist_invariants(program: GraphProgram) -> GraphProgram:
    """The program with each loop's values of constants alone before it, of inner loops first."""
    plans: dict[int, _Plan] = {}
    for step in program.instructions:
        if isinstance(step.op, Scan | While):
            plan = _plan(step.op)
            if plan is not None:
                plans[id(step.op)] = plan

    def rule(
        producers: Producers, op: StdTensorOp, inputs: Values, line: SourceLine | None
    ) -> Values | None:
        plan = plans.get(id(op))
        return None if plan is None else plan.written(producers, inputs, line)

    return emit_again(program, rule) if plans else program


@dataclass(frozen=True)
class _Part:
    """The body of a loop, or its condition.

    Attributes:
        stays: the positions of inputs that are the same in every turn.
        hoisted: the slots that are computed before the loop, and that the rest of the program reads.
    """

    program: GraphProgram
    stays: tuple[int, ...]
    hoisted: tuple[int, ...]

    def computed(self, graph: Graph, inputs: Values) -> list[int]:
        """The hoisted values, of the operands of the loop."""
        values = {self.program.input_slots[position]: inputs[position] for position in self.stays}
        copy_into(graph, needed(self.program.instructions, self.hoisted).values(), values)
        return [values[slot] for slot in self.hoisted]

    def with_constants(self, n: int, parts: Sequence[_Part]) -> Subprogram:
        """The rest, with the hoisted values of all parts behind its first n inputs."""
        program = self.program
        graph = Graph(program.trusted)
        values = {slot: graph.add_input(program.types[slot]) for slot in program.input_slots[:n]}
        inputs = [*values.values()]
        for part in parts:
            constants = [graph.add_input(part.program.types[slot]) for slot in part.hoisted]
            inputs += constants
            if part is self:
                values.update(zip(self.hoisted, constants, strict=True))
        for slot in program.input_slots[n:]:
            values[slot] = graph.add_input(program.types[slot])
            inputs.append(values[slot])
        rest = needed(program.instructions, program.output_slots, available=self.hoisted)
        copy_into(graph, rest.values(), values)
        return Subprogram.of(graph, inputs, [values[slot] for slot in program.output_slots])


@dataclass(frozen=True)
class _Plan:
    """A loop, with the steps before it."""

    op: Scan | While
    parts: tuple[_Part, ...]

    def written(self, producers: Producers, inputs: Values, line: SourceLine | None) -> Values:
        """Its results, behind the hoisted steps."""
        op, n = self.op, self.op.num_consts
        values = [v for part in self.parts for v in part.computed(producers.graph, inputs)]
        new = op.with_parts(*[part.with_constants(n, self.parts) for part in self.parts])
        new = replace(new, num_consts=n + len(values))
        return producers.apply(new, (*inputs[:n], *values, *inputs[n:]), line)


def _plan(op: Scan | While) -> _Plan | None:
    """None where nothing is hoisted, from inner loops neither."""
    programs = [hoist_invariants(part.program) for part in op.parts]
    stays = _stays(op, programs[-1])
    # A while loop's condition is asked at least once.
    are_run = (
        (True, False) if isinstance(op, While) else (isinstance(op.length, int) and op.length > 0,)
    )
    parts = [
        _Part(program, stays, _hoisted(program, stays, is_run))
        for program, is_run in zip(programs, are_run, strict=True)
    ]
    is_same = all([a is b.program for a, b in zip(programs, op.parts, strict=True)])
    return (
        None if is_same and not any([part.hoisted for part in parts]) else _Plan(op, tuple(parts))
    )


def _stays(op: Scan | While, body: GraphProgram) -> tuple[int, ...]:
    """The positions of constants, and of carries that are handed on as they are."""
    n = op.num_consts
    first = op.first_xs if isinstance(op, Scan) else len(body.input_slots)
    carry = zip(range(n, first), body.output_slots, strict=False)
    return (*range(n), *[i for i, slot in carry if body.input_slots[i] == slot])


def _hoisted(program: GraphProgram, stays: Sequence[int], is_run: bool) -> tuple[int, ...]:
    """The slots that are computed before the loop.

    Args:
        is_run: whether the program is run at least once.
    """
    sizes: dict[int, int] = {}
    """Of invariant slots, the elements that are read for one: those it has in memory, or of what it is made of."""
    for position in stays:
        spec = program.types[program.input_slots[position]]
        sizes[program.input_slots[position]] = spec.size if spec.is_static else 0
    chosen: set[int] = set()
    for step in program.instructions:
        types = [program.types[slot] for slot in step.outputs]
        is_invariant = all([slot in sizes for slot in step.inputs])
        is_static = all([spec.is_static for spec in types])
        if not (is_invariant and is_static and _may_go(step, is_run)):
            continue
        size = sum([spec.size for spec in types])
        largest = max([sizes[slot] for slot in step.inputs], default=size)
        if type(step.op) in MOVES or (type(step.op) in CHEAP and size > largest):
            sizes.update(dict.fromkeys(step.outputs, min(size, largest)))
        else:
            sizes.update(dict.fromkeys(step.outputs, size))
            chosen.update(step.outputs)
    if not chosen:
        return ()
    rest = needed(program.instructions, program.output_slots, available=chosen)
    read = {slot for step in rest.values() for slot in step.inputs} | set(program.output_slots)
    return tuple(sorted(chosen & read))


def _may_go(step: Instruction, is_run: bool) -> bool:
    op = step.op
    if op.has_effects or isinstance(op, Mark | Opaque):
        return False
    return is_run or not isinstance(op, ControlOp | Extension)
