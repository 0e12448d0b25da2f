"""Search for the first op at which two supposedly equivalent programs differ, by their intermediate values.

Both programs run natively on the same arguments, and all values are kept. Instructions of the two programs are partners
if they apply the same op to the same operands, or if their values are equal up to rounding. The search starts at an
output that differs. It goes backwards through both programs in parallel as long as their ops are equal, and then
through values without a partner. The programs begin to differ at an instruction without a partner whose operands all
have partners.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tenferro.ops.control import ControlOp, Scan
from tenferro.ops.source import Constant
from tenferro.ops.structural import BroadcastInDim
from tenferro.program import GraphProgram, Instruction
from tenferro.types import DType
from xla_peer.parity.alignment import Side, aligned
from xla_peer.parity.budget import Budget, SearchTimeoutError
from xla_peer.parity.divergence import maker_numbers, values_of
from xla_peer.parity.iterations import iterations_of, native_outputs

__all__ = ["Difference", "first_difference"]

MOST_BYTES = 1 << 28
"""Maximum size of all intermediate values of both programs together, in bytes."""
MOST_COMPARED = 256
"""Maximum number of values of the same type with which a value is compared to find a partner."""
FEW = 3
"""Maximum number of instructions at which two programs of similar structure begin to differ.

Programs with more such instructions have different structures. Then only values, not instructions, are compared to
locate the difference.
"""


class Difference(NamedTuple):
    """First difference of two programs.

    Attributes:
        program: the first program, or the body of a loop in it.
        number: the number of the instruction in `program`.
        leaves: the arguments of `program`.
        iterations: descriptions of the iterations of the enclosing loops, outermost first.
        other, other_number, other_leaves: the other program, the index of its instruction, and its arguments. The index
            is None if the other program has no corresponding instruction.
    """

    program: GraphProgram
    number: int
    leaves: Sequence[Any]
    iterations: tuple[str, ...]
    other: GraphProgram
    other_number: int | None
    other_leaves: Sequence[Any]

    @property
    def instruction(self) -> Instruction:
        """The instruction of the first program."""
        return self.program.instructions[self.number]

    @property
    def other_instruction(self) -> Instruction | None:
        """The instruction of the other program."""
        return None if self.other_number is None else self.other.instructions[self.other_number]


def first_difference(
    program: GraphProgram,
    other: GraphProgram,
    leaves: Sequence[Any],
    outputs: Iterable[int],
    budget: Budget | None = None,
) -> Difference | None:
    """Find the first difference of two programs; None if no difference is found, or the values are too large to keep.

    Args:
        program, other: programs with static shapes and arguments of the same types.
        outputs: the indices of the outputs that differ.
        budget: the time for the search inside loops.
    """
    budget = budget or Budget()
    iterations: list[str] = []
    difference = _difference((program, leaves), (other, leaves), list(outputs), ())
    while difference is not None:
        inner = _inside(difference, budget)
        if inner is None:
            break
        iterations.append(inner[0])
        deeper = _difference(*inner[1:], None, tuple(iterations))
        if deeper is None:
            break
        difference = deeper
    return difference


Call = tuple[GraphProgram, Sequence[Any]]
"""A program and its arguments."""


@dataclass(frozen=True)
class _Values:
    """Values of a program, by slot."""

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
    call: Call, other_call: Call, outputs: Sequence[int] | None, iterations: tuple[str, ...]
) -> Difference | None:
    (program, leaves), (other, other_leaves) = call, other_call
    values, other_values = _Values.of(program, leaves), _Values.of(other, other_leaves)
    if values is None or other_values is None:
        return None
    if outputs is None:
        pairs = _parting_slots(values, other_values)
    else:
        pairs = [(program.output_slots[n], other.output_slots[n]) for n in outputs]
    classes = _classes(values, other_values)
    common = set(classes[0].values()) & set(classes[1].values())
    same, other_same = (
        {slot for slot, number in each.items() if number in common} for each in classes
    )
    walk = aligned(
        Side(program, classes[0], same),
        Side(other, classes[1], other_same),
        pairs,
        lambda x, y: _key(values.by_slot[x]) == _key(other_values.by_slot[y]),
        lambda x, y: _are_close(values.by_slot[x], other_values.by_slot[y]),
    )
    numbers, other_numbers = maker_numbers(program), maker_numbers(other)
    places = [
        pair for pair in walk.places if pair[0] in numbers
    ]  # no instruction makes an argument
    if places:
        slot, other_slot = min(places, key=lambda pair: numbers[pair[0]])
        there = None if other_slot is None else other_numbers.get(other_slot)
        return Difference(program, numbers[slot], leaves, iterations, other, there, other_leaves)
    slots = [slot for slot, _ in walk.open]
    other_slots = [slot for _, slot in walk.open if slot not in other_same]
    strict = (
        _partnered(values, other_values, same, other_same),
        _partnered(other_values, values, other_same, same),
    )
    begins, other_begins = _beginnings(program, other, strict, slots, other_slots)
    if not begins or len(begins) > FEW:
        loose = (
            _partnered(values, other_values, same, set()),
            _partnered(other_values, values, other_same, set()),
        )
        by_value = _beginnings(program, other, loose, slots, other_slots)
        if by_value[0]:
            begins, other_begins = by_value
    number = min(begins, default=None)
    other_number = None if number is None else _counterpart(program, number, other, other_begins)
    if number is None or not other_slots:
        number, other_number = _swapped(values, other_values, pairs)
    if number is None:
        return None
    return Difference(program, number, leaves, iterations, other, other_number, other_leaves)


def _parting_slots(values: _Values, others: _Values) -> list[tuple[int, int]]:
    """Return the pairs of the slots of the outputs that differ between the bodies of two loops.

    If the bodies have different numbers of outputs, an output differs if no output of the other body is close to it.
    """
    slots, other_slots = values.program.output_slots, others.program.output_slots
    if len(slots) == len(other_slots):
        return [
            (slot, other)
            for slot, other in zip(slots, other_slots, strict=True)
            if not _are_close(values.by_slot[slot], others.by_slot[other])
        ]
    alone = [
        [x for x in of if not any([_are_close(one.by_slot[x], two.by_slot[y]) for y in among])]
        for one, of, two, among in (
            (values, slots, others, other_slots),
            (others, other_slots, values, slots),
        )
    ]
    return list(zip(*alone, strict=False))


def _classes(values: _Values, others: _Values) -> tuple[dict[int, int], dict[int, int]]:
    """Assign a number to each slot of both programs, and return the numbers of each program by slot.

    Inputs with equal values get equal numbers. The results of equal ops on operands with equal numbers get equal
    numbers, too.
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


def _swapped(
    values: _Values, other_values: _Values, pairs: Sequence[tuple[int, int]]
) -> tuple[int | None, int | None]:
    """Return the instructions, in both programs, that compute the first differing output.

    This function is used if the output's values also occur elsewhere in the other program, for example because two
    outputs are swapped.

    Args:
        pairs: the slots of corresponding outputs.
    """
    for slot, other_slot in pairs:
        if not _are_close(values.by_slot[slot], other_values.by_slot[other_slot]):
            numbers, other_numbers = map(maker_numbers, (values.program, other_values.program))
            return numbers.get(slot), other_numbers.get(other_slot)
    return None, None


def _partnered(values: _Values, others: _Values, same: set[int], others_same: set[int]) -> set[int]:
    """Return the slots of a program that have a partner: the same instruction or an equal value in the other program.

    Args:
        same: slots whose instruction occurs in the other program.
        others_same: slots of the other program that are not considered as partners by value.
    """
    exact: set[Any] = set()
    by_type: dict[Any, list[Any]] = defaultdict(list)
    ops, other_ops = _ops_by_slot(values.program), _ops_by_slot(others.program)
    for slot, x in others.by_slot.items():
        if slot in others_same:
            continue
        if _says_little(x):
            exact.add((other_ops.get(slot), _key(x)))
        else:
            exact.add(_key(x))
            by_type[x.dtype, x.shape].append(x)
    partners = set(same)
    for slot, x in values.by_slot.items():
        if slot in same:
            continue
        if _says_little(x):
            is_partner = (ops.get(slot), _key(x)) in exact
        else:
            alike = by_type[x.dtype, x.shape][-MOST_COMPARED:]
            is_partner = _key(x) in exact or any([_are_close(x, y) for y in alike])
        if is_partner:
            partners.add(slot)
    return partners


def _ops_by_slot(program: GraphProgram) -> dict[int, type]:
    return {slot: type(step.op) for step in program.instructions for slot in step.outputs}


def _says_little(x: Any) -> bool:
    """Return whether unrelated ops may compute the same array by chance, so that equality shows no partner.

    Such arrays are bool arrays, and arrays whose elements are all 0, all 1, all -1, all infinite or all NaN.
    """
    if x.dtype.kind == "b" or not x.size:
        return True
    first = x.flat[:1]
    if not (
        np.isin(np.abs(first.astype(np.complex128)), (0.0, 1.0, np.inf)) | (first != first)
    ).all():
        return False
    return bool(((x == first) | ((x != x) & (first != first))).all())


def _key(x: Any) -> Any:
    return x.dtype, x.shape, x.tobytes()


@np.errstate(all="ignore")
def _are_close(x: Any, y: Any) -> bool:
    """Return whether two values are equal up to the rounding errors of another order of operations."""
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if DType.of(x.dtype).kind in "biu":
        return bool((x == y).all())
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    x_wide, y_wide = x.astype(wide), y.astype(wide)
    finite = np.isfinite(x_wide)
    if not np.array_equal(finite, np.isfinite(y_wide)) or not np.array_equal(
        np.where(finite, 0, x_wide), np.where(finite, 0, y_wide), equal_nan=True
    ):
        return False
    eps = float(ml_dtypes.finfo(x.real.dtype).eps)
    apart = np.abs(np.where(finite, x_wide - y_wide, 0))
    size = np.abs(np.where(finite, x_wide, 0))
    if not (apart <= eps**0.75 * float(size.max(initial=0.0))).all():
        return False
    # Rounding errors may be relative to a much larger element, so small elements may differ by more. But cancellation
    # destroys half of the digits of only few elements. So at most a quarter of the elements may differ by more than
    # sqrt(eps).
    return int(np.count_nonzero(apart > eps**0.5 * size)) <= x.size // 4


def _beginnings(
    program: GraphProgram,
    other: GraphProgram,
    partners: tuple[set[int], set[int]],
    slots: Sequence[int],
    other_slots: Sequence[int],
) -> tuple[list[int], list[int]]:
    """Find the instructions at which both programs begin to differ.

    A constant without a partner, or its broadcast, is such an instruction only if the other program also has one of its
    type without a partner. Otherwise the instruction that reads the constant is returned.
    """
    begins, other_begins = (
        _begins(program, partners[0], slots),
        _begins(other, partners[1], other_slots),
    )
    slots_of = _constants(program), _constants(other)
    constants, other_constants = (
        {
            str(part.types[slot])
            for n in numbers
            for slot in part.instructions[n].outputs
            if slot in constant
        }
        for part, numbers, constant in zip(
            (program, other), (begins, other_begins), slots_of, strict=True
        )
    )
    if constants & other_constants or not constants | other_constants:
        return begins, other_begins
    readers = (
        _begins(program, partners[0] | slots_of[0], slots),
        _begins(other, partners[1] | slots_of[1], other_slots),
    )
    return readers[0] or begins, readers[1] or other_begins


def _constants(program: GraphProgram) -> set[int]:
    """Return the slots of constants and of their broadcasts."""
    constants = set[int]()
    for step in program.instructions:
        if isinstance(step.op, Constant) or (
            isinstance(step.op, BroadcastInDim) and step.inputs[0] in constants
        ):
            constants.add(step.outputs[0])
    return constants


def _begins(program: GraphProgram, partners: set[int], slots: Sequence[int]) -> list[int]:
    """Return the numbers of the instructions without a partner whose operands all have partners.

    The search walks backward from the given slots through operands without a partner.
    """
    numbers = maker_numbers(program)
    waiting = [slot for slot in slots if slot in numbers]
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
    """Return the instruction among `begins` that corresponds best to an instruction: by its op, or by its types."""
    step = program.instructions[index]
    types = [program.types[slot] for slot in step.outputs]

    def likeness(number: int) -> tuple[bool, bool, bool, int]:
        there = other.instructions[number]
        same_types = [other.types[slot] for slot in there.outputs] == types
        return (
            type(there.op) is not type(step.op),
            isinstance(there.op, ControlOp) is not isinstance(step.op, ControlOp),
            not same_types or isinstance(there.op, Constant),
            number,
        )

    return min(begins, key=likeness, default=None)


def _inside(difference: Difference, budget: Budget) -> tuple[str, Call, Call] | None:
    """Find the first iteration of a loop in which the bodies of both programs compute different results.

    Each body runs on the values of its own program. Return a description of the iteration, and both bodies with their
    arguments.
    """
    step, other = difference.instruction, difference.other_instruction
    if not isinstance(step.op, ControlOp) or other is None or type(other.op) is not type(step.op):
        return None
    lengths = {op.length for op in (step.op, other.op) if isinstance(op, Scan)}
    if len(lengths) > 1:
        return None  # the loop itself differs
    operands = values_of(difference.program, step.inputs, difference.leaves)
    others = values_of(difference.other, other.inputs, difference.other_leaves)
    line = f" at {step.source}" if step.source else ""
    for one, two in zip(
        iterations_of(step.op, operands), iterations_of(other.op, others), strict=False
    ):
        (name, number, body, arguments), (_, other_number, partner, other_arguments) = one, two
        try:
            budget.spend()
        except SearchTimeoutError:
            return None
        if number != other_number:
            return None
        results, other_results = (
            native_outputs(body, arguments),
            native_outputs(partner, other_arguments),
        )
        if not all([any([_are_close(y, z) for z in other_results]) for y in results]) or (
            len(results) == len(other_results)
            and not all([_are_close(y, z) for y, z in zip(results, other_results, strict=True)])
        ):
            return f"{name}{line}", (body, arguments), (partner, other_arguments)
    return None
