"""The first op in which two programs differ that should compute the same, by the values in their middle.

Both run natively on the same arguments, and every value is kept. Instructions with the same op on the same operands
are partners; of the others those whose values are equal, up to rounding, whatever op computes them. Backward from an
output that parts, through values without a partner, the first instruction whose operands all have one is where the
programs begin to differ.
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
from tenferro.program import GraphProgram, Instruction
from xla_peer.parity.divergence import maker_numbers, values_of
from xla_peer.parity.turns import native_outputs, turns_of

__all__ = ["Difference", "first_difference"]

MOST_BYTES = 1 << 28
"""Of all values in the middle of both programs together."""
MOST_COMPARED = 256
"""Values of one type that are tried as partners of a value."""
FEW = 3
"""Beginnings of a difference, by the structure of programs: with more they are written in different ways, and values
alone say where they differ.
"""


class Difference(NamedTuple):
    """Where two programs begin to differ.

    Attributes:
        program, number: the first program, or the body of its loop, and the number of the instruction there.
        leaves: the arguments of that program.
        turns: of the loops that it is in, the outermost first.
        other, other_number, other_leaves: the same of the program, or body, that it is compared with; no number
            where it has no such instruction.
    """

    program: GraphProgram
    number: int
    leaves: Sequence[Any]
    turns: tuple[str, ...]
    other: GraphProgram
    other_number: int | None
    other_leaves: Sequence[Any]

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
    difference = _difference((program, leaves), (other, leaves), list(outputs), ())
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


Call = tuple[GraphProgram, Sequence[Any]]
"""A program and its arguments."""


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
        results = values_of(program, slots, leaves)
        inputs = dict(zip(program.input_slots, map(np.asarray, leaves), strict=True))
        return _Values(program, inputs | dict(zip(slots, results, strict=True)))


def _difference(
    call: Call, other_call: Call, outputs: Sequence[int] | None, turns: tuple[str, ...]
) -> Difference | None:
    (program, leaves), (other, other_leaves) = call, other_call
    values, other_values = _Values.of(program, leaves), _Values.of(other, other_leaves)
    if values is None or other_values is None:
        return None
    if outputs is None:
        outputs = _parting_outputs(values, other_values)
    slots = [program.output_slots[n] for n in outputs if n < len(program.output_slots)]
    other_slots = [other.output_slots[n] for n in outputs if n < len(other.output_slots)]
    classes = _classes(values, other_values)
    common = set(classes[0].values()) & set(classes[1].values())
    same, other_same = (
        {slot for slot, number in each.items() if number in common} for each in classes
    )
    strict = (
        _partnered(values, other_values, same, other_same),
        _partnered(other_values, values, other_same, same),
    )
    begins, other_begins = (
        _begins(program, strict[0], slots),
        _begins(other, strict[1], other_slots),
    )
    if not begins or len(begins) > FEW:
        loose = (
            _partnered(values, other_values, same, set()),
            _partnered(other_values, values, other_same, set()),
        )
        by_value = _begins(program, loose[0], slots)
        if by_value:
            begins, other_begins = by_value, _begins(other, loose[1], other_slots)
    number = min(begins, default=None)
    other_number = None if number is None else _counterpart(program, number, other, other_begins)
    if number is not None and other_number is not None:
        left_out = _left_out(program, other, classes, other_number)
        number = number if left_out is None else left_out
    if number is None:
        number, other_number = _swapped(program, other, values, other_values, outputs)
    if number is None:
        return None
    return Difference(program, number, leaves, turns, other, other_number, other_leaves)


def _parting_outputs(values: _Values, others: _Values) -> list[int]:
    """Outputs of a body that its partner does not give in the same place."""
    pairs = zip(values.program.output_slots, others.program.output_slots, strict=False)
    return [
        number
        for number, (slot, other_slot) in enumerate(pairs)
        if not _are_close(values.by_slot[slot], others.by_slot[other_slot])
    ]


def _classes(values: _Values, others: _Values) -> tuple[dict[int, int], dict[int, int]]:
    """A number for each slot of both, equal where they stand for the same: inputs of one value, and the same op on
    the same operands.
    """
    classes: dict[Any, int] = {}
    numbered: list[dict[int, int]] = []
    for each in (values, others):
        class_of: dict[int, int] = {}
        for slot in each.program.input_slots:
            key = _key(each.by_slot[slot])
            class_of[slot] = classes.setdefault(key, len(classes))
        for step in each.program.instructions:
            operands = tuple([class_of[slot] for slot in step.inputs])
            for number, slot in enumerate(step.outputs):
                key = (type(step.op), step.op.token, operands, number)
                class_of[slot] = classes.setdefault(key, len(classes))
        numbered.append(class_of)
    one, other = numbered
    return one, other


def _left_out(
    program: GraphProgram,
    other: GraphProgram,
    classes: tuple[dict[int, int], dict[int, int]],
    other_number: int,
) -> int | None:
    """The instruction that is left out in the other program, which reads its operand in its place."""
    class_of, other_class_of = classes
    reader = other.instructions[other_number]
    numbers = maker_numbers(program)
    for step in program.instructions:
        if type(step.op) is not type(reader.op) or len(step.inputs) != len(reader.inputs):
            continue
        apart = [
            (here, there)
            for here, there in zip(step.inputs, reader.inputs, strict=True)
            if class_of[here] != other_class_of[there]
        ]
        if len(apart) == 1 and apart[0][0] in numbers:
            here, there = apart[0]
            if other_class_of[there] in [
                class_of[x] for x in program.instructions[numbers[here]].inputs
            ]:
                return numbers[here]
    return None


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
            return maker_numbers(program).get(slot), maker_numbers(other).get(other_slot)
    return None, None


def _partnered(values: _Values, others: _Values, same: set[int], others_same: set[int]) -> set[int]:
    """Slots that are the same in the other program, or have an equal value there.

    Args:
        same: slots that stand for the same in both.
        others_same: slots of the other program that are partners of others already.
    """
    exact: set[Any] = set()
    by_type: dict[Any, list[Any]] = defaultdict(list)
    for slot, x in others.by_slot.items():
        if slot not in others_same:
            exact.add(_key(x))
            by_type[x.dtype, x.shape].append(x)
    return same | {
        slot
        for slot, x in values.by_slot.items()
        if slot not in same
        and (
            _key(x) in exact
            or any([_are_close(x, y) for y in by_type[x.dtype, x.shape][-MOST_COMPARED:]])
        )
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
    """The first instructions with partners for all operands, backward from these slots through values without one."""
    numbers = maker_numbers(program)
    waiting = [slot for slot in slots if slot not in partners and slot in numbers]
    seen: set[int] = set(waiting)
    begins: list[int] = []
    while waiting:
        number = numbers[waiting.pop()]
        operands = program.instructions[number].inputs
        lonely = [x for x in operands if x not in partners and x in numbers]
        if not lonely:
            begins.append(number)
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


def _inside(difference: Difference) -> tuple[str, Call, Call] | None:
    """The first turn of a loop in which the bodies of both programs differ, each on its own arguments."""
    step, other = difference.instruction, difference.other_instruction
    if not isinstance(step.op, ControlOp) or other is None or type(other.op) is not type(step.op):
        return None
    operands = values_of(difference.program, step.inputs, difference.leaves)
    others = values_of(difference.other, other.inputs, difference.other_leaves)
    line = f" at {step.source}" if step.source else ""
    for one, two in zip(turns_of(step.op, operands), turns_of(other.op, others), strict=False):
        (name, number, body, arguments), (_, other_number, partner, other_arguments) = one, two
        if number != other_number:
            return None
        results, other_results = (
            native_outputs(body, arguments),
            native_outputs(partner, other_arguments),
        )
        if not all([any([_are_close(y, z) for z in other_results]) for y in results]) or not all(
            [_are_close(y, z) for y, z in zip(results, other_results, strict=False)]
        ):
            return f"{name}{line}", (body, arguments), (partner, other_arguments)
    return None
