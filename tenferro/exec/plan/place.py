"""Buffer assignment: determines the buffer of each result, and the last use of each value.

All large intermediate values share one buffer, at offsets that depend on their live ranges. A large output gets a
buffer from the pool. A ufunc or a fused group overwrites an operand at the operand's last use if no other live value
shares its memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, TypeAlias

from tenferro import costs
from tenferro.exec.layout import dense
from tenferro.exec.plan.alias import Aliases, aliases
from tenferro.exec.plan.memory import plan_memory
from tenferro.exec.schedule import Arena, ExecInstruction, ExecProgram, InPlace, Place, Pooled
from tenferro.facts import Fact
from tenferro.program import last_uses
from tenferro.program.memory_plan import Block

__all__ = ["free", "place", "slots_read"]

MIN_PLACED_BYTES = costs.FRESH
"""Minimum size in bytes of a result for which a buffer is planned; NumPy caches the memory of smaller arrays."""


def free(program: ExecProgram) -> ExecProgram:
    """Return the schedule in which the last step that uses a slot frees it; outputs and constants are not freed."""
    touched = [(*slots_read(step), *step.output_slots) for step in program.instructions]
    last = last_uses(touched, (*program.output_slots, *program.constants))
    steps: list[ExecInstruction] = []
    for step, slots, is_last in zip(program.instructions, touched, last, strict=True):
        last_used = tuple(dict.fromkeys(compress(slots, is_last))) if True in is_last else ()
        steps.append(step if last_used == step.frees else step.replaced(frees=last_used))
    return replace(program, instructions=tuple(steps))


def slots_read(step: ExecInstruction) -> Sequence[int]:
    """Return the slots that a step reads or overwrites."""
    if not step.places:
        return step.input_slots
    return [*step.input_slots, *[p.slot for p in step.places if isinstance(p, InPlace)]]


def place(program: ExecProgram) -> ExecProgram:
    """Return the schedule with a buffer for each large result, and with results of ufuncs that overwrite operands."""
    program, aliasing = free(program), aliases(program)
    spans, leaving, over = _spans(program, aliasing)
    memory = plan_memory([
        Block(slot, program.types[slot].nbytes, *span)
        for slot, span in spans.items()
        if slot not in leaving
    ])  # fmt: skip
    blocks = {block.slot: block for block in memory.blocks}
    blocks |= {slot: blocks[root] for slot, (_, root) in over.items() if root in blocks}
    steps: list[ExecInstruction] = []
    live = _LiveAliases(aliasing, blocks)
    for step in program.instructions:
        slot = live.overwritable(step, program.types)
        places: tuple[Place | None, ...] = () if slot is None else (InPlace(slot),)
        if spans and not places:
            places = tuple([
                InPlace(over[slot][0]) if slot in over
                else Arena(blocks[slot].offset, blocks[slot].size) if slot in blocks
                else Pooled(program.types[slot].nbytes) if slot in leaving
                else None
                for slot in _placeable(step)
            ])  # fmt: skip
        live.step(step)
        steps.append(step.replaced(places=places) if any(places) else step)
    return replace(program, instructions=tuple(steps), memory=memory)


def _placeable(step: ExecInstruction) -> tuple[int, ...]:
    """Return the slots of the results that the kernel can write to planned buffers."""
    if step.fused is not None:
        return step.output_slots[: len(step.fused.results)]
    return step.output_slots if step.accepts_buffers else ()


_Spans: TypeAlias = tuple[dict[int, tuple[int, int]], set[int], dict[int, tuple[int, int]]]


def _spans(program: ExecProgram, aliasing: Aliases) -> _Spans:
    """Return the live ranges of large values, the values that leave the program, and the in-place results of groups.

    An in-place result is mapped to two slots: the operand that it overwrites, and the value for which the buffer was
    planned.
    """
    spans: dict[int, tuple[int, int]] = {}
    leaving: set[int] = set()
    over: dict[int, tuple[int, int]] = {}
    live = _LiveAliases(aliasing, {})

    def roots_of(slot: int) -> set[int]:
        roots = [over[root][1] if root in over else root for root in aliasing.roots[slot]]
        return spans.keys() & roots

    for number, step in enumerate(program.instructions):
        read = {root for slot in step.input_slots for root in roots_of(slot)}
        spans.update([(root, (spans[root][0], number)) for root in read])
        if Fact.EXTERNAL in step.facts:
            leaving |= read  # because a runtime may keep references to its operands
        # A group may overwrite an operand to whose memory nothing else refers, not even a runtime.
        last_used = [
            slot
            for slot in (step.frees if step.fused is not None else ())
            if live.is_alone(slot) and roots_of(slot) - leaving
        ]
        for slot in _placeable(step):
            spec = program.types[slot]
            if spec.is_static and spec.nbytes >= MIN_PLACED_BYTES:
                operand = _overwritten_operand(step, slot, last_used, program.types)
                if operand is None:
                    spans[slot] = number, number
                else:
                    last_used.remove(operand)
                    (root,) = roots_of(operand)
                    over[slot] = operand, root
        live.step(step)
    for slot in program.output_slots:
        leaving |= roots_of(slot)
    return spans, leaving, over


def _overwritten_operand(
    step: ExecInstruction, slot: int, last_used: Iterable[int], types: Sequence[Any]
) -> int | None:
    """Return an operand of an elementwise group that has the type and the layout of the result, or None."""
    op = step.fused
    if op is None or op.lead < len(op.shape):
        return None
    tiling = op.require_tiling()
    layout = dense(types[slot].shape, tiling.axes(types[slot].rank))
    for operand in last_used:
        if operand not in step.input_slots or types[operand] != types[slot]:
            continue
        if tiling.operands[step.input_slots.index(operand)] == layout:
            return operand
    return None


class _LiveAliases:
    """Counts of the live values that refer to each buffer, at one step of the schedule.

    Args:
        blocks: the planned buffers of values, by slot.
    """

    def __init__(self, aliasing: Aliases, blocks: Mapping[int, Block]) -> None:
        self.aliasing, self.blocks = aliasing, blocks
        self.aliases: dict[int, int] = {}

    def overwritable(self, step: ExecInstruction, types: Sequence[Any]) -> int | None:
        """Return an operand of the result's type that a ufunc may overwrite at the operand's last use, or None."""
        if not step.frees or not step.output_types[0].shape or not step.is_ufunc:
            return None
        for slot in step.frees:
            is_free = self.is_alone(slot) and slot not in self.blocks
            if is_free and types[slot] == step.output_types[0]:
                return slot
        return None

    def is_alone(self, slot: int) -> bool:
        """Return whether no other live value refers to the memory of the slot's value."""
        return self.aliasing.roots[slot] == (slot,) and self.aliases.get(slot) == 1

    def step(self, step: ExecInstruction) -> None:
        """Update the counts for the values that a step writes and frees."""
        counts, roots_of = self.aliases, self.aliasing.roots
        for slot in step.output_slots:
            roots = roots_of[slot]
            if roots == (slot,) and slot not in self.aliasing.foreign:
                counts[slot] = 0
            for root in roots:
                if root in counts:
                    counts[root] += 1
        for slot in step.frees:
            for root in roots_of[slot]:
                if root in counts:
                    counts[root] -= 1
