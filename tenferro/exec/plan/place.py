"""Place: the memory of each result, and the values that die with each step.

A large value that stays inside gets a place in one piece of memory, by the span of steps over which it is needed;
what leaves gets memory that comes back; a ufunc writes over an operand that dies, if nobody else looks at it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

from tenferro.aligned import rounded
from tenferro.exec.expression import Change
from tenferro.exec.plan.alias import Aliases, aliases
from tenferro.exec.schedule import Arena, ExecInstruction, ExecProgram, Lent, Over, Place, Tiles
from tenferro.ops.extension import Extension
from tenferro.program import last_uses
from tenferro.program.memory_plan import Block, MemoryPlan

__all__ = ["free", "place", "plan_memory", "slots_read"]

SMALLEST_BLOCK = 1 << 17
"""Bytes of a value that is given a place; smaller ones stay with the process when they are freed."""
FEW = 512
"""Blocks that are placed by size, which packs them best; more are placed in the order of the program."""


def free(program: ExecProgram) -> ExecProgram:
    """The schedule with every slot freed by the last step that reads it, or writes it for nobody."""
    touched = [(*slots_read(step), *step.output_slots) for step in program.instructions]
    last = last_uses(touched, (*program.output_slots, *program.constants))
    steps: list[ExecInstruction] = []
    for step, slots, is_last in zip(program.instructions, touched, last, strict=True):
        dying = tuple(dict.fromkeys(compress(slots, is_last))) if True in is_last else ()
        steps.append(step if dying == step.frees else step._replace(frees=dying))
    return replace(program, instructions=tuple(steps))


def slots_read(step: ExecInstruction) -> Sequence[int]:
    """Slots that a step reads, or writes over."""
    if not step.places:
        return step.input_slots
    return [*step.input_slots, *[p.slot for p in step.places if isinstance(p, Over)]]


def place(program: ExecProgram, owned: Iterable[int] = ()) -> ExecProgram:
    """The schedule with a place for each result that is better written somewhere than in new memory.

    Args:
        owned: inputs whose memory is the program's to write, and that no other input looks at.
    """
    program, aliasing = free(program), aliases(program)
    aliasing = replace(aliasing, foreign=aliasing.foreign - frozenset(owned))
    spans, leaving = _spans(program, aliasing) if _has_large(program) else ({}, set[int]())
    memory = plan_memory([
        Block(slot, program.types[slot].nbytes, *span)
        for slot, span in spans.items()
        if slot not in leaving
    ])  # fmt: skip
    blocks = {block.slot: block for block in memory.blocks}
    steps: list[ExecInstruction] = []
    watch = _Watch(aliasing, blocks, owned)
    for step in program.instructions:
        slot = watch.buffer(step, program.types)
        places: tuple[Place | None, ...] = () if slot is None else (Over(slot),)
        if spans and not places:
            places = tuple([
                Arena(blocks[slot].offset, blocks[slot].size) if slot in blocks
                else Lent(program.types[slot].nbytes) if slot in leaving
                else None
                for slot in _placeable(step)
            ])  # fmt: skip
        watch.step(step)
        steps.append(step._replace(places=places) if any(places) else step)
    return replace(program, instructions=tuple(steps), memory=memory)


def _has_large(program: ExecProgram) -> bool:
    """Whether any value is worth a place."""
    types = {id(spec): spec for spec in program.types}.values()
    return any([
        spec.is_static and spec.nbytes >= SMALLEST_BLOCK for spec in types
    ])  # fmt: skip


def _placeable(step: ExecInstruction) -> tuple[int, ...]:
    """Slots that the kernel writes into bytes that it is given."""
    if isinstance(step.op, Tiles):
        return step.output_slots[: len(step.op.results)]
    return step.output_slots if getattr(step.function, "takes_places", False) else ()


def _spans(program: ExecProgram, aliasing: Aliases) -> tuple[dict[int, tuple[int, int]], set[int]]:
    """From which to which step large values are needed that can have places, and those that leave."""
    spans: dict[int, tuple[int, int]] = {}
    leaving: set[int] = set()
    for number, step in enumerate(program.instructions):
        read = {root for slot in step.input_slots for root in aliasing.roots[slot]} & spans.keys()
        spans.update([(root, (spans[root][0], number)) for root in read])
        if isinstance(step.op, Extension):
            leaving |= read  # because a runtime may keep what it is given
        for slot in _placeable(step):
            spec = program.types[slot]
            if spec.is_static and spec.nbytes >= SMALLEST_BLOCK:
                spans[slot] = number, number
    for slot in program.output_slots:
        leaving.update(aliasing.roots[slot])
    return spans, leaving & spans.keys()


class _Watch:
    """How many living values look at each root's memory, step by step."""

    def __init__(
        self, aliasing: Aliases, blocks: Mapping[int, Block], owned: Iterable[int]
    ) -> None:
        self.aliasing, self.blocks = aliasing, blocks
        self.lookers: dict[int, int] = dict.fromkeys(owned, 1)

    def buffer(self, step: ExecInstruction, types: Sequence[Any]) -> int | None:
        """A dying operand of the result's type that a ufunc, or a change of it, may overwrite."""
        is_change = isinstance(step.function, Change)
        if not step.frees or not step.output_types[0].shape or not (step.is_ufunc or is_change):
            return None
        for slot in step.input_slots[:1] if is_change else step.frees:
            if slot not in step.frees:
                continue
            is_alone = self.aliasing.roots[slot] == (slot,) and self.lookers.get(slot) == 1
            if is_alone and slot not in self.blocks and types[slot] == step.output_types[0]:
                return slot
        return None

    def step(self, step: ExecInstruction) -> None:
        """Count the values that a step adds and frees."""
        lookers, roots_of = self.lookers, self.aliasing.roots
        for slot in step.output_slots:
            roots = roots_of[slot]
            if roots == (slot,) and slot not in self.aliasing.foreign:
                lookers[slot] = 0
            for root in roots:
                if root in lookers:
                    lookers[root] += 1
        for slot in step.frees:
            for root in roots_of[slot]:
                if root in lookers:
                    lookers[root] -= 1


def plan_memory(wanted: Iterable[Block]) -> MemoryPlan:
    """Offsets for blocks; those that are needed at the same time do not overlap."""
    blocks = sorted(wanted, key=lambda block: (block.first, block.slot))
    placed = _in_order(blocks)
    if len(blocks) <= FEW:
        placed = min(placed, _by_size(blocks), key=_top)
    return MemoryPlan(tuple(placed), _top(placed), _bound(blocks))


def _top(blocks: list[Block]) -> int:
    return max([block.offset + rounded(block.size) for block in blocks], default=0)


def _bound(blocks: list[Block]) -> int:
    """The most that lives at once."""
    change: dict[int, int] = {}
    for block in blocks:
        change[block.first] = change.get(block.first, 0) + rounded(block.size)
        change[block.last + 1] = change.get(block.last + 1, 0) - rounded(block.size)
    most = alive = 0
    for when in sorted(change):
        alive += change[when]
        most = max(most, alive)
    return most


def _in_order(blocks: list[Block]) -> list[Block]:
    """Each into the tightest gap that is free when it begins."""
    gaps: list[tuple[int, int]] = []  # (offset, end), sorted, apart from each other
    ends: list[tuple[int, int, int]] = []  # (last, offset, end) of what lives
    placed: list[Block] = []
    top = 0
    for block in blocks:
        while ends and ends[0][0] < block.first:
            _, offset, end = ends.pop(0)
            _free(gaps, offset, end)
        room = rounded(block.size)
        fitting = [gap for gap in gaps if gap[1] - gap[0] >= room]
        if fitting:
            offset, end = min(fitting, key=lambda gap: gap[1] - gap[0])
            gaps.remove((offset, end))
            if end > offset + room:
                insort(gaps, (offset + room, end))
        else:
            offset = top
            if gaps and gaps[-1][1] == top:
                offset = gaps.pop()[0]
            top = offset + room
        insort(ends, (block.last, offset, offset + room))
        placed.append(replace(block, offset=offset))
    return placed


def _free(gaps: list[tuple[int, int]], offset: int, end: int) -> None:
    """Give a place back, as one with the gaps beside it."""
    where = bisect_left(gaps, (offset, end))
    if where < len(gaps) and gaps[where][0] == end:
        end = gaps.pop(where)[1]
    if where and gaps[where - 1][1] == offset:
        offset = gaps.pop(where - 1)[0]
    insort(gaps, (offset, end))


def _by_size(blocks: list[Block]) -> list[Block]:
    """The largest first, each as low as those that live beside it allow."""
    placed: list[Block] = []
    for block in sorted(blocks, key=lambda block: -block.size):
        offset = 0
        beside = [b for b in placed if b.first <= block.last and block.first <= b.last]
        for neighbour in sorted(beside, key=lambda b: b.offset):
            if neighbour.offset - offset >= rounded(block.size):
                break
            offset = max(offset, neighbour.offset + rounded(neighbour.size))
        placed.append(replace(block, offset=offset))
    return sorted(placed, key=lambda block: (block.first, block.slot))
