"""Instruction order that lets updates run in place: after other readers of the updated operand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tenferro.graph import Instruction
from tenferro.ops.indexing import DynamicUpdateSlice, Scatter
from tenferro.program import GraphProgram, last_uses

__all__ = ["UPDATE_OPS", "delay_updates"]

UPDATE_OPS = (Scatter, DynamicUpdateSlice)
"""Ops that update their first operand in place at its last use."""


def delay_updates(program: GraphProgram) -> Sequence[Instruction]:
    """Return the instructions with updates after other readers of their operands, as far as dependences allow.

    An update is in place at the last use of its operand. The derivative of an update reads a slice of the cotangent and
    sets it to zero, and programs may have these in either order.
    """
    if not any([isinstance(step.op, UPDATE_OPS) for step in program.instructions]):
        return program.instructions
    unread = Counter(slot for step in program.instructions for slot in set(step.inputs))
    order: list[Instruction] = []
    waiting: dict[int, dict[int, Instruction]] = {}  # by updated operand, then by result
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
        if not isinstance(step.op, UPDATE_OPS):
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
