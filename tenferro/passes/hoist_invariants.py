"""Loop-invariant code motion: before a loop, compute values that are the same in every iteration.

Law: the bits of results do not change. A scan with at least one iteration runs every instruction of its body, so any
instruction without side effects may be hoisted. The body of a while loop may never run. An instruction is hoisted out
of
it only if the instruction certainly ends without an error: standard ops other than loops do.

Data movement is not hoisted, because compiled loops replace it by index arithmetic. Elementwise arithmetic on
broadcast operands is not hoisted either: its result would be larger than its operands, and every iteration would read
the result from memory.
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

DATA_MOVEMENT = frozenset((*structural.CARDS, *source.CARDS))
ELEMENTWISE = frozenset(elementwise.CARDS)


def hoist_invariants(program: GraphProgram) -> GraphProgram:
    """Return the program with loop invariants hoisted out of each loop. Inner loops are processed first."""
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
        invariant: the positions of inputs that are the same in every iteration.
        hoisted: the slots of values that are computed before the loop, and that the loop reads.
    """

    program: GraphProgram
    invariant: tuple[int, ...]
    hoisted: tuple[int, ...]

    def computed(self, graph: Graph, inputs: Values) -> list[int]:
        """Emit the instructions that compute the hoisted values. `inputs` are the operands of the loop."""
        values = {self.program.input_slots[i]: inputs[i] for i in self.invariant}
        copy_into(graph, needed(self.program.instructions, self.hoisted).values(), values)
        return [values[slot] for slot in self.hoisted]

    def with_constants(self, n: int, parts: Sequence[_Part]) -> Subprogram:
        """Return the sub-program without its hoisted instructions.

        Its inputs are the first n inputs of the original, then the hoisted values of all `parts`, then the other
        inputs.
        """
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
    """Loop, and the instructions that are hoisted out of it."""

    op: Scan | While
    parts: tuple[_Part, ...]

    def written(self, producers: Producers, inputs: Values, line: SourceLine | None) -> Values:
        """Emit the hoisted instructions and then the loop, and return the results of the loop."""
        op, n = self.op, self.op.num_consts
        values = [v for part in self.parts for v in part.computed(producers.graph, inputs)]
        new = op.with_parts(*[part.with_constants(n, self.parts) for part in self.parts])
        new = replace(new, num_consts=n + len(values))
        return producers.apply(new, (*inputs[:n], *values, *inputs[n:]), line)


def _plan(op: Scan | While) -> _Plan | None:
    """Return the plan for a loop; None if nothing can be hoisted out of it or out of its inner loops."""
    programs = [hoist_invariants(part.program) for part in op.parts]
    invariant = _invariant_inputs(op, programs[-1])
    # Whether each sub-program certainly runs: a while loop's condition runs at least once, but its body may never run.
    are_run = (
        (True, False) if isinstance(op, While) else (isinstance(op.length, int) and op.length > 0,)
    )
    parts = [
        _Part(program, invariant, _hoisted(program, invariant, is_run))
        for program, is_run in zip(programs, are_run, strict=True)
    ]
    is_same = all([a is b.program for a, b in zip(programs, op.parts, strict=True)])
    return (
        None if is_same and not any([part.hoisted for part in parts]) else _Plan(op, tuple(parts))
    )


def _invariant_inputs(op: Scan | While, body: GraphProgram) -> tuple[int, ...]:
    """Return the positions of inputs that are equal in every iteration: constants, and carries that do not change."""
    n = op.num_consts
    carry = zip(range(n, op.first_xs), body.output_slots, strict=False)
    return (*range(n), *[i for i, slot in carry if body.input_slots[i] == slot])


def _hoisted(program: GraphProgram, invariant: Sequence[int], is_run: bool) -> tuple[int, ...]:
    """Return the slots of a condition or body whose values are computed before the loop.

    Args:
        is_run: whether `program` certainly runs at least once.
    """
    sizes: dict[int, int] = {}
    """Number of elements that an iteration would read from memory to use an invariant slot, by slot.

    If the slot is hoisted, this is its number of elements. Otherwise it is the number of elements of its operands.
    """
    for position in invariant:
        spec = program.types[program.input_slots[position]]
        sizes[program.input_slots[position]] = spec.size if spec.is_static else 0
    chosen: set[int] = set()
    for step in program.instructions:
        types = [program.types[slot] for slot in step.outputs]
        is_invariant = all([slot in sizes for slot in step.inputs])
        is_static = all([spec.is_static for spec in types])
        if not (is_invariant and is_static and _may_hoist(step, is_run)):
            continue
        size = sum([spec.size for spec in types])
        largest = max([sizes[slot] for slot in step.inputs], default=size)
        if type(step.op) in DATA_MOVEMENT or (type(step.op) in ELEMENTWISE and size > largest):
            sizes.update(dict.fromkeys(step.outputs, min(size, largest)))
        else:
            sizes.update(dict.fromkeys(step.outputs, size))
            chosen.update(step.outputs)
    if not chosen:
        return ()
    rest = needed(program.instructions, program.output_slots, available=chosen)
    read = {slot for step in rest.values() for slot in step.inputs} | set(program.output_slots)
    return tuple(sorted(chosen & read))


def _may_hoist(step: Instruction, is_run: bool) -> bool:
    op = step.op
    if op.has_effects or isinstance(op, Mark | Opaque):
        return False
    return is_run or not isinstance(op, ControlOp | Extension)
