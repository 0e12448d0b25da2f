"""`outlined`: a program in which repeated calls of one Python function are calls of one sub-program.

The trace of a function repeats its ops at each call. The sub-program of a call is the only branch of a `Cond`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowering.numpy_source.statements import StatementFinder
from tenferro.facts import Fact, facts_of
from tenferro.graph import Graph, Instruction, SourceLine
from tenferro.ops.control import Cond
from tenferro.ops.source import Constant
from tenferro.program import GraphProgram, makers
from tenferro.program.instructions import copy_into, readers
from tenferro.program.rewrite import fresh_arena, written_again
from tenferro.program.subprogram import Subprogram

__all__ = ["outlined"]

MIN_OPS = 4
"""Minimum number of ops of a sub-program, without ops that only move elements."""
MIN_SAVED = 12
"""Minimum number of ops that calls of a sub-program replace, without those of the sub-program."""
MAX_INPUTS = 8
"""Maximum number of inputs of a sub-program."""
MAX_OUTPUTS = 4
"""Maximum number of outputs of a sub-program."""

NOWHERE = SourceLine("", 0, "")
"""Source line of a call, because the trace has recorded only the lines of the called function."""


@dataclass
class _Call:
    """Consecutive instructions of one Python function.

    Attributes:
        members: the instructions of the function that do more than move elements.
        code: the members, and the instructions that move elements and compute constants for them, in order.
        inputs: the values that the code reads.
        numbers: the number of each value in the order of inputs and results.
        key: the code with these numbers in place of values; equal for equal code.
        outputs: numbers of results that other instructions read.
    """

    members: list[Instruction] = field(default_factory=list)
    code: list[Instruction] = field(default_factory=list)
    inputs: dict[int, None] = field(default_factory=dict)
    numbers: dict[int, tuple[str, int]] = field(default_factory=dict)
    key: Any = None
    outputs: set[tuple[str, int]] = field(default_factory=set)


def outlined(program: GraphProgram, finder: StatementFinder) -> GraphProgram:
    """Return the program in which repeated calls of one Python function are calls of one sub-program."""
    maker_of = makers(program.instructions)
    readers_of = readers(program.instructions)
    groups: dict[Any, list[_Call]] = defaultdict(list)
    for call in _calls(program, finder):
        _complete(call, program, maker_of, readers_of)
        if call.key is not None:
            groups[call.key].append(call)
    heads: dict[int, tuple[_Call, Subprogram, Any]] = {}
    for calls in groups.values():
        outputs = sorted(set().union(*[call.outputs for call in calls]))
        size = len(calls[0].members)
        if size < MIN_OPS or size * (len(calls) - 1) < MIN_SAVED or len(outputs) > MAX_OUTPUTS:
            continue
        part = _part(calls[0], program, outputs)
        for call in calls:
            heads[call.members[0].outputs[0]] = call, part, outputs
    return _with_calls(program, heads) if heads else program


def _is_moving(instruction: Instruction) -> bool:
    """Return whether an instruction only moves elements, or is a constant, so that it may be computed twice."""
    op = instruction.op
    return isinstance(op, Constant) or bool(facts_of(op) & (Fact.MOVES | Fact.CARRIES))


def _calls(program: GraphProgram, finder: StatementFinder) -> list[_Call]:
    """Return the sequences of instructions of one Python function; a call begins where line numbers decrease."""
    calls: list[_Call] = []
    last: Any = None
    for instruction in program.instructions:
        source = instruction.source
        if _is_moving(instruction):
            continue
        name = "" if source is None or instruction.op.parts else finder.function(source)
        if not name or source is None:
            last = None
            continue
        here = (source.file, name, bool(source.derivative_of))
        is_later = last is not None and (source.derivative_of or source.line >= last[1])
        if last is None or last[0] != here or not is_later:
            calls.append(_Call())
        calls[-1].members.append(instruction)
        last = here, source.line
    return [call for call in calls if len(call.members) >= MIN_OPS]


def _complete(
    call: _Call, program: GraphProgram, maker_of: dict[int, Instruction], readers_of: Any
) -> None:
    """Find the code, the inputs and the outputs of a call; its key remains None if it cannot be outlined."""
    own = {slot for member in call.members for slot in member.outputs}
    first = min(own)
    code: dict[int, Instruction] = {}

    for member in call.members:
        stack = [(member, iter(member.inputs))]
        while stack:
            instruction, slots = stack[-1]
            slot = next((x for x in slots if x not in own and x not in code), None)
            maker = None if slot is None else maker_of.get(slot)
            if slot is None:
                stack.pop()
                code.update(dict.fromkeys(instruction.outputs, instruction))
                call.code.append(instruction)
            elif maker is not None and _is_moving(maker):
                stack.append((maker, iter(maker.inputs)))
            else:
                call.inputs[slot] = None
    is_before = all(slot not in maker_of or slot < first for slot in call.inputs)
    if not is_before or len(call.inputs) > MAX_INPUTS:
        return
    if not all(program.types[slot].is_static for slot in (*call.inputs, *code)):
        return
    call.numbers = {slot: ("x", n) for n, slot in enumerate(call.inputs)}
    call.numbers |= {slot: ("y", n) for n, slot in enumerate(code)}
    members = {id(member) for member in call.members}
    outside = set(program.output_slots)

    def is_read(slot: int) -> bool:
        """Return whether an output of the program or another call depends on a value, perhaps on moved elements."""
        queue = [slot]
        for moved in queue:
            if moved in outside:
                return True
            for reader in readers_of.get(moved, ()):
                if _is_moving(reader):
                    queue += reader.outputs
                elif id(reader) not in members:
                    return True
        return False

    call.outputs = {call.numbers[slot] for slot in own if is_read(slot)}
    call.key = (
        tuple([program.types[slot] for slot in call.inputs]),
        tuple([(i.op, tuple([call.numbers[slot] for slot in i.inputs])) for i in call.code]),
    )


def _part(call: _Call, program: GraphProgram, outputs: Sequence[Any]) -> Subprogram:
    """Return the sub-program of a call, with the outputs of these numbers."""
    graph = Graph()
    values = {slot: graph.add_input(program.types[slot]) for slot in call.inputs}
    copy_into(graph, call.code, values)
    slots = {number: slot for slot, number in call.numbers.items()}
    results = [values[slots[number]] for number in outputs]
    return Subprogram.of_program(GraphProgram.from_graph(graph, results))


def _with_calls(program: GraphProgram, heads: dict[int, Any]) -> GraphProgram:
    """Return the program with a call in place of each sequence of instructions."""
    graph, values = fresh_arena(program)
    members = {slot for call, _, _ in heads.values() for i in call.members for slot in i.outputs}
    for instruction in program.instructions:
        head = heads.get(instruction.outputs[0]) if instruction.outputs else None
        if head is not None:
            call, part, outputs = head
            (index,) = graph.add(Constant.of(np.int32(0)), ())
            inputs = (index, *[values[slot] for slot in call.inputs])
            results = graph.add(Cond((part,)), inputs, NOWHERE)
            slots = {number: slot for slot, number in call.numbers.items()}
            for number, result in zip(outputs, results, strict=True):
                values[slots[number]] = result
        elif not members.isdisjoint(instruction.outputs):
            continue
        elif all(values[slot] >= 0 for slot in instruction.inputs):
            copy_into(graph, [instruction], values, types=program.types)
    return written_again(program, graph, values)
