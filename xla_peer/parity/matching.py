"""The first op in which two programs differ that should compute the same, by the values in their middle.

Both run natively on the same arguments, every value is kept, and values that are equal in both, up to rounding,
are paired, whatever op computes them. Backward from an output that parts, through values without a partner, the first
instruction whose operands all have one is where the programs begin to differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tenferro.ops.control import ControlOp
from tenferro.ops.source import Constant
from tenferro.program import GraphProgram, Instruction, makers
from tenferro.types import flatten
from xla_peer.parity.divergence import prefix
from xla_peer.parity.turns import turns_of

__all__ = ["Difference", "first_difference"]

MOST_BYTES = 1 << 28
"""Of all values in the middle of both programs together."""
MOST_COMPARED = 256
"""Values of one type that are tried as partners of a value."""


class Difference(NamedTuple):
    """Where two programs begin to differ.

    Attributes:
        program, number: the first program, or the body of its loop, and the number of the instruction there.
        leaves: the arguments of that program.
        turns: of the loops that it is in, the outermost first.
        other, other_number: the program, or body, that it is compared with; and the instruction there, if any.
    """

    program: GraphProgram
    number: int
    leaves: Sequence[Any]
    turns: tuple[str, ...]
    other: GraphProgram
    other_number: int | None

    @property
    def instruction(self) -> Instruction:
        """The first program's."""
        return self.program.instructions[self.number]

    @property
    def other_instruction(self) -> Instruction | None:
        """The other program's."""
        return None if self.other_number is None else self.other.instructions[self.other_number]


def first_difference(
    program: GraphProgram, other: GraphProgram, leaves: Sequence[Any], outputs: Iterable[int]
) -> Difference | None:
    """Where two programs begin to differ; None where their values say nothing, or are too many.

    Args:
        program, other: with numbers for extents, and arguments of the same types.
        outputs: the numbers of the outputs that part.
    """
    turns: list[str] = []
    difference = _difference(program, other, leaves, list(outputs), ())
    while difference is not None:
        inner = _inside(difference)
        if inner is None:
            break
        turns.append(inner[0])
        deeper = _difference(*inner[1:], None, tuple(turns))
        if deeper is None:
            break
        difference = deeper
    return difference


@dataclass(frozen=True)
class _Values:
    """The values of a program by slot."""

    program: GraphProgram
    by_slot: dict[int, Any]

    @staticmethod
    def of(program: GraphProgram, leaves: Sequence[Any]) -> _Values | None:
        if sum([spec.nbytes for spec in program.types if spec.is_static]) > MOST_BYTES // 2:
            return None
        slots = [slot for step in program.instructions for slot in step.outputs]
        results, _ = flatten(prefix(program, slots).run(*leaves))
        inputs = dict(zip(program.input_slots, map(np.asarray, leaves), strict=True))
        return _Values(program, inputs | dict(zip(slots, results, strict=True)))


def _difference(
    program: GraphProgram,
    other: GraphProgram,
    leaves: Sequence[Any],
    outputs: Sequence[int] | None,
    turns: tuple[str, ...],
) -> Difference | None:
    values, other_values = _Values.of(program, leaves), _Values.of(other, leaves)
    if values is None or other_values is None:
        return None
    partners, other_partners = _partnered(values, other_values), _partnered(other_values, values)
    if outputs is None:
        pairs = zip(program.output_slots, other.output_slots, strict=False)
        outputs = [
            number
            for number, (slot, other_slot) in enumerate(pairs)
            if not _are_close(values.by_slot[slot], other_values.by_slot[other_slot])
        ]
    begins = _begins(program, partners, [program.output_slots[number] for number in outputs])
    index = min(begins, default=None)
    other_slots = [other.output_slots[n] for n in outputs if n < len(other.output_slots)]
    other_begins = _begins(other, other_partners, other_slots)
    other_index = None if index is None else _counterpart(program, index, other, other_begins)
    if index is None:
        index, other_index = _swapped(program, other, values, other_values, outputs)
    if index is None:
        return None
    return Difference(program, index, leaves, turns, other, other_index)


def _swapped(
    program: GraphProgram,
    other: GraphProgram,
    values: _Values,
    other_values: _Values,
    outputs: Sequence[int],
) -> tuple[int | None, int | None]:
    """The makers of an output that parts although both of its values are somewhere in the other program."""
    for number in outputs:
        slot, other_slot = program.output_slots[number], other.output_slots[number]
        if not _are_close(values.by_slot[slot], other_values.by_slot[other_slot]):
            numbers = _numbers(program), _numbers(other)
            return numbers[0].get(slot), numbers[1].get(other_slot)
    return None, None


def _numbers(program: GraphProgram) -> dict[int, int]:
    """The number of the instruction that makes each slot."""
    return {
        slot: number for number, step in enumerate(program.instructions) for slot in step.outputs
    }


def _partnered(values: _Values, others: _Values) -> set[int]:
    """Slots whose value the other program has too."""
    exact: set[Any] = set()
    by_type: dict[Any, list[Any]] = defaultdict(list)
    for x in others.by_slot.values():
        exact.add(_key(x))
        by_type[x.dtype, x.shape].append(x)
    return {
        slot
        for slot, x in values.by_slot.items()
        if _key(x) in exact
        or any([_are_close(x, y) for y in by_type[x.dtype, x.shape][-MOST_COMPARED:]])
    }


def _key(x: Any) -> Any:
    return x.dtype, x.shape, x.tobytes()


@np.errstate(all="ignore")
def _are_close(x: Any, y: Any) -> bool:
    """Whether two values are the same up to the rounding of another order of operations."""
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind in "biu":
        return bool((x == y).all())
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    x_wide, y_wide = x.astype(wide), y.astype(wide)
    finite = np.isfinite(x_wide)
    if not np.array_equal(finite, np.isfinite(y_wide)) or not np.array_equal(
        np.where(finite, 0, x_wide), np.where(finite, 0, y_wide), equal_nan=True
    ):
        return False
    near = float(ml_dtypes.finfo(x.real.dtype).eps) ** 0.75
    apart = np.abs(np.where(finite, x_wide - y_wide, 0))
    largest = float(np.abs(np.where(finite, x_wide, 0)).max(initial=0.0))
    return bool((apart <= near * largest).all())


def _begins(program: GraphProgram, partners: set[int], slots: Sequence[int]) -> list[int]:
    """The instructions, backward from these slots through values without a partner, whose operands all have one."""
    makers_of, numbers = makers(program.instructions), _numbers(program)
    waiting = [slot for slot in slots if slot not in partners and slot in makers_of]
    seen: set[int] = set(waiting)
    begins: list[int] = []
    while waiting:
        slot = waiting.pop()
        lonely = [x for x in makers_of[slot].inputs if x not in partners and x in makers_of]
        if not lonely:
            begins.append(numbers[slot])
        fresh = [x for x in dict.fromkeys(lonely) if x not in seen]
        seen.update(fresh)
        waiting += fresh
    return begins


def _counterpart(
    program: GraphProgram, index: int, other: GraphProgram, begins: Sequence[int]
) -> int | None:
    """The one of the other program's instructions that stands in the place of one here: of the same op, or else
    with a result of the same type.
    """
    step = program.instructions[index]
    types = [program.types[slot] for slot in step.outputs]

    def likeness(number: int) -> tuple[bool, bool, int]:
        there = other.instructions[number]
        same_types = [other.types[slot] for slot in there.outputs] == types
        return (
            type(there.op) is not type(step.op),
            not same_types or isinstance(there.op, Constant),
            number,
        )

    return min(begins, key=likeness, default=None)


def _inside(
    difference: Difference,
) -> tuple[str, GraphProgram, GraphProgram, list[Any]] | None:
    """The first turn of a loop in which the bodies of both programs differ."""
    step, other = difference.instruction, difference.other_instruction
    if not isinstance(step.op, ControlOp) or other is None or type(other.op) is not type(step.op):
        return None
    operands, _ = flatten(prefix(difference.program, step.inputs).run(*difference.leaves))
    line = f" at {step.source}" if step.source else ""
    for name, number, body, arguments in turns_of(step.op, operands):
        partner = other.op.parts[number].program if number < len(other.op.parts) else None
        if partner is None or _types(partner) != _types(body):
            return None
        results, others = flatten(body.run(*arguments))[0], flatten(partner.run(*arguments))[0]
        if not all([_are_close(y, z) for y, z in zip(results, others, strict=True)]):
            return f"{name}{line}", body, partner, arguments
    return None


def _types(program: GraphProgram) -> list[Any]:
    return [*program.input_specs, *program.output_specs]
