"""Alignment of two programs: search backwards from differing outputs for the instructions that differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from tenferro.facts import Fact, ops_with
from tenferro.program import GraphProgram, Instruction, makers

__all__ = ["Alignment", "Side", "aligned"]

COMMUTATIVE = ops_with(Fact.COMMUTES)
Pair = tuple[int, int]


@dataclass(frozen=True)
class Side:
    """One of the two programs that are aligned.

    Attributes:
        program: the program.
        class_of: a number for each slot; corresponding slots of the two programs have equal numbers.
        common: slots that have a corresponding slot in the other program.
    """

    program: GraphProgram
    class_of: Mapping[int, int]
    common: Set[int]


class Alignment(NamedTuple):
    """Slots at which the parallel walk through two programs ends.

    Attributes:
        places: pairs of a slot of each program. Their instructions differ although their operands agree, or the other
            program reads the second slot in place of the first. The second slot is None if the other program omits
            the op.
        open: differing slots whose instructions cannot be compared operand by operand.
    """

    places: list[tuple[int, int | None]]
    open: list[Pair]


def aligned(
    side: Side,
    other: Side,
    pairs: Sequence[Pair],
    are_equal: Callable[[int, int], bool],
    are_close: Callable[[int, int], bool],
) -> Alignment:
    """Walk backwards from slots that differ to operands that differ, as long as both programs apply the same op.

    Args:
        side, other: the two programs.
        pairs: pairs of differing slots, of the first and of the other program.
        are_equal: whether two slots, one of each program, have the same bits.
        are_close: whether two slots, one of each program, have equal values up to rounding.
    """
    maker_of, other_maker_of = makers(side.program.instructions), makers(other.program.instructions)
    alignment = Alignment([], [])
    waiting = list(dict.fromkeys(pairs))
    seen = set(waiting)

    def is_behind(x: int, y: int) -> bool:
        there = other_maker_of.get(y)
        return x in maker_of and there is not None and _reads(other, there, side.class_of[x])

    def is_altered(x: int, y: int) -> bool:
        """Return whether `y` is an altered copy of `x`, which is common although `y` is not.

        The same class of op computes both, or another op computes `y` from the operands of `x`.
        """
        step, there = maker_of.get(x), other_maker_of.get(y)
        if y in other.common or step is None or there is None:
            return False
        return _are_alike(step, there, x, y) or reads_the_same(step, there)

    def reads_the_same(step: Instruction, there: Instruction) -> bool:
        """Return whether the operands of two instructions correspond."""
        return [side.class_of[x] for x in step.inputs] == [other.class_of[y] for y in there.inputs]

    while waiting:
        slot, other_slot = waiting.pop()
        step, there = maker_of.get(slot), other_maker_of.get(other_slot)
        if step is not None and _reads(side, step, other.class_of[other_slot]):
            alignment.places.append((slot, None))
            continue
        if is_behind(slot, other_slot):
            alignment.places.append((slot, other_slot))  # the other program inserts an op
            continue
        if step is None or there is None or not _are_alike(step, there, slot, other_slot):
            # If the other program has no such value, and reads another value of the first program in its place, the
            # instruction of the missing value is named.
            is_replaced = step is not None and (
                (slot not in side.common and other_slot in other.common)
                or (slot in side.common and is_altered(slot, other_slot))
            )
            (alignment.places if is_replaced else alignment.open).append((slot, other_slot))
            continue
        # If the difference is so small that the values are close, only equal bits show which operands agree.
        agrees = are_equal if are_close(slot, other_slot) else are_close
        is_same = partial(_is_same, side, other, agrees)
        parted = _differing(step, there, is_same)
        crosses = any(is_same(x, y) for x, _ in parted for _, y in parted)
        is_reader = any(
            x in side.common and not is_behind(x, y) and not is_altered(x, y) for x, y in parted
        )
        if not parted or crosses or is_reader:
            alignment.places.append((slot, other_slot))
            continue
        fresh = [pair for pair in parted if pair not in seen]
        seen.update(fresh)
        waiting += fresh
    return alignment


def _is_same(side: Side, other: Side, agrees: Callable[[int, int], bool], x: int, y: int) -> bool:
    return side.class_of[x] == other.class_of[y] or agrees(x, y)


def _reads(side: Side, step: Instruction, number: int) -> bool:
    """Return whether an operand of the instruction `step` has the class number `number`."""
    return number in [side.class_of[slot] for slot in step.inputs]


def _are_alike(step: Instruction, there: Instruction, slot: int, other_slot: int) -> bool:
    """Return whether two instructions apply the same class of op to as many operands, and compute the two slots.

    The slots must have the same index among the outputs of their instructions.
    """
    return (
        type(step.op) is type(there.op)
        and len(step.inputs) == len(there.inputs)
        and step.outputs.index(slot) == there.outputs.index(other_slot)
    )


def _differing(
    step: Instruction, there: Instruction, is_same: Callable[[int, int], bool]
) -> list[Pair]:
    """Return the pairs of corresponding operands that differ."""
    pairs = list(zip(step.inputs, there.inputs, strict=True))
    parted = [(x, y) for x, y in pairs if not is_same(x, y)]
    if type(step.op) in COMMUTATIVE and parted:
        swapped = list(zip(step.inputs, there.inputs[::-1], strict=True))
        parted = min(parted, [(x, y) for x, y in swapped if not is_same(x, y)], key=len)
    return parted
