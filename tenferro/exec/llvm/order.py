"""The order of a body's instructions: updates of memory after its readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tenferro.graph import Instruction
from tenferro.ops.indexing import DynamicUpdateSlice, Scatter
from tenferro.program import GraphProgram, last_uses

__all__ = ["WRITERS", "updates_late"]

WRITERS = (Scatter, DynamicUpdateSlice)
"""Ops that write into their first operand's memory, where it dies."""


def updates_late(program: GraphProgram) -> Sequence[Instruction]:
    """The instructions, with updates behind other readers of that memory, as far as these do not need them.

    An update is in place where its operand dies: in the derivative of one, a slice of the cotangent is taken, and set
    to zero, in either order.
    """
    if not any([isinstance(step.op, WRITERS) for step in program.instructions]):
        return program.instructions
    unread = Counter(slot for step in program.instructions for slot in set(step.inputs))
    order: list[Instruction] = []
    waiting: dict[int, dict[int, Instruction]] = {}  # by what they update, and by their results
    memory_of: dict[int, int] = {}

    def emit(step: Instruction) -> None:
        order.append(step)
        for slot in set(step.inputs):
            unread[slot] -= 1
            updates = waiting.get(slot)
            if updates and unread[slot] == len(updates):
                del waiting[slot]
                for update in updates.values():
                    del memory_of[update.outputs[0]]
                    emit(update)

    def must_wait(step: Instruction) -> bool:
        if not isinstance(step.op, WRITERS):
            return False
        memory = step.inputs[0]
        others = unread[memory] - 1 - len(waiting.get(memory, ()))
        return others > 0 and memory not in program.output_slots

    for step in program.instructions:
        for slot in step.inputs:
            if slot in memory_of:
                emit(waiting[memory_of.pop(slot)].pop(slot))
        if must_wait(step):
            waiting.setdefault(step.inputs[0], {})[step.outputs[0]] = step
            memory_of[step.outputs[0]] = step.inputs[0]
        else:
            emit(step)
    for updates in waiting.values():
        order += updates.values()
    flags = last_uses([step.inputs for step in order], program.output_slots)
    return [
        step._replace(last_use=tuple(is_last)) for step, is_last in zip(order, flags, strict=True)
    ]
