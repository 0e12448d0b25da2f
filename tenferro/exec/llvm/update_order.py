"""Order of instructions in which more updates can run in place."""

from __future__ import annotations

from collections.abc import Sequence

from tenferro.graph import Instruction
from tenferro.ops.indexing import DynamicUpdateSlice, Scatter
from tenferro.program import GraphProgram, last_uses

__all__ = ["UPDATE_OPS", "delay_updates"]

UPDATE_OPS = (Scatter, DynamicUpdateSlice)
"""Ops that update their first operand in place at its last use."""


def delay_updates(program: GraphProgram) -> Sequence[Instruction]:
    """Return the instructions in an order in which each update is as late as possible.

    An update runs in place if all other readers of its operand precede it. For example, the derivative of an update
    reads a slice of the cotangent, and sets the slice to zero. A program may contain both steps in either order.
    """
    if not any([isinstance(step.op, UPDATE_OPS) for step in program.instructions]):
        return program.instructions
    outputs = set(program.output_slots)
    last_reader = {
        slot: number for number, step in enumerate(program.instructions) for slot in step.inputs
    }
    order: list[Instruction] = []
    waiting: dict[int, Instruction] = {}
    for number, step in enumerate(program.instructions):
        order += [waiting.pop(slot) for slot in dict.fromkeys(step.inputs) if slot in waiting]
        memory = step.inputs[0] if isinstance(step.op, UPDATE_OPS) else None
        if memory in last_reader and last_reader[memory] > number and memory not in outputs:
            waiting[step.outputs[0]] = step
        else:
            order.append(step)
    order += waiting.values()
    flags = last_uses([step.inputs for step in order], program.output_slots)
    return [
        step._replace(last_use=tuple(is_last)) for step, is_last in zip(order, flags, strict=True)
    ]
