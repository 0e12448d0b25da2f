"""Scans fused: two that take the same turns become one, and what the second reads of the first is not stacked.

Law: the result is the same bit for bit. The tangent of a scan is a scan over what the first one stacks of its turns;
going forward both take them in the same order, so that one loop can hand each value on as it is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tenferro.graph import Graph, Instruction
from tenferro.ops.control import Scan
from tenferro.program import GraphProgram, Subprogram
from tenferro.program.instructions import copy_into, makers

__all__ = ["fuse_scans"]


def fuse_scans(program: GraphProgram) -> GraphProgram:
    """The program with each pair of scans as one, whose second reads the first by stacks alone."""
    while (pair := next(_pairs(program), None)) is not None:
        program = _fused(program, *pair)
    return program


def _pairs(program: GraphProgram) -> Iterator[tuple[int, int]]:
    """The numbers of two scans that can be one."""
    instructions = program.instructions
    scans = {id(step): number for number, step in enumerate(instructions) if _is_plain(step)}
    if len(scans) < 2:
        return
    maker_of = makers(instructions)
    step: Any
    for second, step in enumerate(instructions):
        if id(step) not in scans:
            continue
        for slot in step.inputs[step.op.first_xs :]:
            source = maker_of.get(slot)
            first = None if source is None else scans.get(id(source))
            if first is not None and _takes_the_same_turns(instructions, first, second):
                yield first, second
                break


def _is_plain(step: Instruction) -> bool:
    op = step.op
    return isinstance(op, Scan) and isinstance(op.length, int) and not op.has_effects


def _takes_the_same_turns(instructions: Sequence[Instruction], first: int, second: int) -> bool:
    """Whether the second scan depends on the first turn by turn, and in no other way."""
    a: Any = instructions[first]
    b: Any = instructions[second]
    if (a.op.length, a.op.reverse) != (b.op.length, b.op.reverse):
        return False
    stacks = set(a.outputs[a.op.num_carry :])
    later = _dependents(instructions, first, second)
    return not any([
        slot in later and not (slot in stacks and position >= b.op.first_xs)
        for position, slot in enumerate(b.inputs)
    ])  # fmt: skip


def _dependents(instructions: Sequence[Instruction], first: int, stop: int) -> set[int]:
    """Values that depend on an instruction, of those before another."""
    values = set(instructions[first].outputs)
    for step in instructions[first + 1 : stop]:
        if not values.isdisjoint(step.inputs):
            values.update(step.outputs)
    return values


def _fused(program: GraphProgram, first: int, second: int) -> GraphProgram:
    """The program with one scan for two: what the second needs goes before it, what needs the first behind it."""
    instructions = program.instructions
    a: Any = instructions[first]
    b: Any = instructions[second]
    later = _dependents(instructions, first, second)
    between = instructions[first + 1 : second]
    graph = Graph()
    graph.trusted = program.trusted
    values = [graph.add_input(spec) for spec in program.input_specs]
    values += [-1] * (program.n_slots - len(values))
    copy_into(graph, instructions[:first], values)
    copy_into(graph, [step for step in between if later.isdisjoint(step.inputs)], values)
    op, operands = _both(a, b)
    results = graph.add(op, tuple([values[slot] for slot in operands]), b.source or a.source)
    m, n = a.op.num_carry, b.op.num_carry
    stacks = n + len(a.outputs)
    of_first = [*results[:m], *results[m + n : stacks]]
    of_second = [*results[m : m + n], *results[stacks:]]
    for slots, outputs in ((a.outputs, of_first), (b.outputs, of_second)):
        for slot, value in zip(slots, outputs, strict=True):
            values[slot] = value
    copy_into(graph, [step for step in between if not later.isdisjoint(step.inputs)], values)
    copy_into(graph, instructions[second + 1 :], values)
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


def _both(a: Any, b: Any) -> tuple[Scan, list[int]]:
    """One scan with the constants, the carries and the xs of both, and its operands."""
    position = {slot: index for index, slot in enumerate(a.outputs)}
    handed_on = [slot in position for slot in b.inputs[b.op.first_xs :]]
    operands = [
        *a.inputs[: a.op.num_consts],
        *b.inputs[: b.op.num_consts],
        *a.inputs[a.op.num_consts : a.op.first_xs],
        *b.inputs[b.op.num_consts : b.op.first_xs],
        *a.inputs[a.op.first_xs :],
        *[slot for slot in b.inputs[b.op.first_xs :] if slot not in position],
    ]
    graph = Graph()

    def inputs_of(step: Any, start: int, stop: int) -> list[int]:
        return [graph.add_input(spec) for spec in step.op.body.input_specs[start:stop]]

    consts = [inputs_of(step, 0, step.op.num_consts) for step in (a, b)]
    carries = [inputs_of(step, step.op.num_consts, step.op.first_xs) for step in (a, b)]
    slices = inputs_of(a, a.op.first_xs, len(a.inputs))
    ours = a.op.body.emit(graph, [*consts[0], *carries[0], *slices])
    own: list[int] = []
    reads: list[int] = []
    for index, (slot, is_handed_on) in enumerate(
        zip(b.inputs[b.op.first_xs :], handed_on, strict=True)
    ):
        if not is_handed_on:
            own += inputs_of(b, b.op.first_xs + index, b.op.first_xs + index + 1)
        reads.append(ours[position[slot]] if is_handed_on else own[-1])
    theirs = b.op.body.emit(graph, [*consts[1], *carries[1], *reads])
    m, n = a.op.num_carry, b.op.num_carry
    body = Subprogram.of(
        graph,
        [*consts[0], *consts[1], *carries[0], *carries[1], *slices, *own],
        [*ours[:m], *theirs[:n], *ours[m:], *theirs[n:]],
    )
    num_consts = a.op.num_consts + b.op.num_consts
    return Scan(body, a.op.length, num_consts, m + n, a.op.reverse), operands
