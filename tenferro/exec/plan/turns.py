"""Turns: loops that are not compiled, as one function with a schedule for being run again and again.

What is the same in every turn is computed once, integers that count are Python's, and a carry is written over where
nobody looks at what it was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tenferro.exec.expression import Change, Expression
from tenferro.exec.loop import Loop, LoopFunction
from tenferro.exec.plan.alias import Aliases, aliases, may_view
from tenferro.exec.plan.elements import by_elements
from tenferro.exec.plan.place import place
from tenferro.exec.plan.ranges import Range, fits, range_of_constant
from tenferro.exec.plan.rewrite import SPREADING, as_array, rewritten
from tenferro.exec.plan.ungroup import ungrouped
from tenferro.exec.plan.zeros import has_negative_zeros, without_negative_zeros
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.ops.control import Scan, While
from tenferro.ops.elementwise import Add
from tenferro.ops.structural import BroadcastInDim, Reshape, Reverse, Slice, Transpose
from tenferro.types import DType

__all__ = ["turns"]

PLAIN_VIEWS = (Slice, Reshape, Transpose, Reverse)
"""Ops whose views can be written to."""


def turns(program: ExecProgram) -> ExecProgram:
    """The schedule with each interpreted loop as a function of its own."""
    loops = [number for number, step in enumerate(program.instructions) if _is_interpreted(step)]
    program = by_elements(program, loops)
    steps = [
        _turned(program, step) if _is_interpreted(step) else step for step in program.instructions
    ]
    return replace(program, instructions=tuple(steps))


def _is_interpreted(step: ExecInstruction) -> bool:
    """Whether it is a loop over bodies of known shapes that are interpreted, and no line of which is compiled."""
    if not isinstance(step.op, Scan | While) or type(step.function) is not partial:
        return False
    return all([
        all([spec.is_static for spec in part.types])
        and (part.later is None or not part.later.after(part))
        for part in step.parts
    ])  # fmt: skip


def _turned(program: ExecProgram, step: ExecInstruction) -> ExecInstruction:
    op: Any = step.op
    *conditions, body = map(ungrouped, step.parts)
    is_scan = isinstance(op, Scan)
    n = op.num_consts
    m = op.num_carry if is_scan else len(body.output_slots)
    known_ranges = _known(program, step)
    counters: dict[int, int] = {}
    ranges = _of_consts(body, known_ranges, n)
    for number in range(m) if is_scan else ():
        slot = body.input_slots[n + number]
        values = _counted(
            body, slot, body.output_slots[number], known_ranges.get(n + number), op.length
        )
        if values is not None:
            ranges[slot], counters[number] = values, slot
    parts = [
        place(_numbers(rewritten(part, _of_consts(part, known_ranges, n), (), ())[0], ()))
        for part in conditions
    ]
    outputs = [body.output_slots[number] for number in counters]
    free = _without_negative_zeros(program, step, body, n, m)
    body, indices = rewritten(body, ranges, counters.values(), outputs, free)
    body, once = _hoisted(_numbers(body, indices), n)
    carry = _Carry(body, n, m)
    body = place(body, carry.owned)
    copied = carry.copied(body)
    settled = carry.settled(body, copied, is_scan and op.length > 0)
    loop = Loop(op, (*parts, body), once, frozenset(counters), copied, settled)
    return step._replace(function=LoopFunction(step, loop), parts=loop.parts)


def _known(program: ExecProgram, step: ExecInstruction) -> dict[int, Range]:
    """The ranges of integers and truth values among the operands that are known, by the operand's number."""
    ranges = {
        number: range_of_constant(program.constants[slot])
        for number, slot in enumerate(step.input_slots)
        if slot in program.constants
    }
    return {number: interval for number, interval in ranges.items() if interval is not None}


def _of_consts(part: ExecProgram, ranges: Mapping[int, Range], consts: int) -> dict[int, Range]:
    """The ranges of inputs that are the same in every turn and known."""
    return {part.input_slots[i]: values for i, values in ranges.items() if i < consts}


def _counted(
    body: ExecProgram, slot: int, output: int, start: Range | None, length: int
) -> Range | None:
    """The values of a carry to which each turn adds the same; None for others."""
    maker = next((step for step in body.instructions if output in step.output_slots), None)
    if body.types[slot].shape or start is None or maker is None or not isinstance(maker.op, Add):
        return None
    first, _ = start
    added = [int(body.constants[each]) for each in maker.input_slots if each in body.constants]
    dtype = body.types[slot].dtype
    if slot not in maker.input_slots or len(added) != 1 or not dtype.is_integer:
        return None
    ends = first, first + added[0] * length
    if not fits((min(ends), max(ends)), dtype):
        return None
    last = first + added[0] * max(0, length - 1)
    return min(first, last), max(first, last)


def _without_negative_zeros(
    program: ExecProgram, step: ExecInstruction, body: ExecProgram, consts: int, count: int
) -> frozenset[int]:
    """The slots of a body without any -0.0, by induction from the first values of carries."""
    constants = program.constants
    free = {
        number for number, slot in enumerate(step.input_slots)
        if slot in constants and not has_negative_zeros(constants[slot])
    }  # fmt: skip
    while True:
        slots = without_negative_zeros(body, [body.input_slots[number] for number in free])
        lost = [
            consts + number for number, output in enumerate(body.output_slots[:count])
            if consts + number in free and output not in slots
        ]  # fmt: skip
        if not lost:
            return slots
        free.difference_update(lost)


def _numbers(program: ExecProgram, indices: Collection[int]) -> ExecProgram:
    """The schedule with values of rank 0 as numbers, but where a step on arrays reads them.

    NumPy takes longer to make an array of a number than of an array of rank 0.
    """
    types = list(program.types)
    numbers = {slot for slot, spec in enumerate(types) if not spec.shape}
    wanted: dict[int, int] = {}  # numbers that are also wanted as arrays, and the slots for them
    read = set(program.output_slots)
    for step in program.instructions:
        if _repeats(step):
            wanted.update([(slot, slot) for slot in step.input_slots if not types[slot].shape])
            continue
        takes = (
            step.is_ufunc
            or step.is_elementwise
            or isinstance(step.function, Expression | LoopFunction)
            or isinstance(step.op, BroadcastInDim | Reshape)
        )
        if takes:
            read.update(step.input_slots)
        else:
            numbers.difference_update(step.input_slots)
        if len(step.output_slots) > 1 and not isinstance(step.function, LoopFunction):
            numbers.difference_update(step.output_slots)
    numbers.update(indices)
    for slot in wanted:
        if slot in numbers:
            if slot in read or slot in indices:
                types.append(types[slot])
                wanted[slot] = len(types) - 1
            else:
                numbers.discard(slot)
    constants = dict(program.constants)
    steps: list[ExecInstruction] = []
    results = set[int]()
    for step in program.instructions:
        if _repeats(step):
            for slot in step.input_slots:
                array = wanted.get(slot, slot)
                if array != slot and array not in results:
                    results.add(array)
                    if slot in constants:
                        constants[array] = constants[slot]
                    else:
                        steps.append(as_array(slot, array, types[slot]))
            inputs = tuple([wanted.get(slot, slot) for slot in step.input_slots])
            step = step._replace(input_slots=inputs)
        steps.append(step)
    constants = {
        slot: np.asarray(value) if slot not in numbers
        else float(value) if types[slot].dtype is DType.F64
        else value[()]
        for slot, value in constants.items()
    }  # fmt: skip
    return replace(
        program,
        instructions=tuple(steps),
        types=tuple(types),
        constants=constants,
        numbers=frozenset(numbers),
    )


def _repeats(step: ExecInstruction) -> bool:
    """Whether a step on arrays repeats numbers beside them."""
    return (step.is_ufunc or step.function in SPREADING) and bool(step.output_types[0].shape)


def _hoisted(program: ExecProgram, consts: int) -> tuple[ExecProgram, int]:
    """The schedule with views and numbers that are the same in every turn first, and their number."""
    still = {*program.input_slots[:consts], *program.constants}
    before: list[ExecInstruction] = []
    rest: list[ExecInstruction] = []
    for step in program.instructions:
        function = step.function
        is_cheap = isinstance(function, Expression) and not isinstance(function, Change) and (
            function.is_view or not step.output_types[0].shape
        )  # fmt: skip
        if is_cheap and still.issuperset(step.input_slots):
            still.update(step.output_slots)
            before.append(step)
        else:
            rest.append(step)
    return replace(program, instructions=(*before, *rest)), len(before)


def _locked(program: ExecProgram) -> set[int]:
    """Slots of views that NumPy does not write to, or that show an element several times."""
    locked: set[int] = set()
    for step in program.instructions:
        is_plain = isinstance(step.function, Expression) or isinstance(step.op, PLAIN_VIEWS)
        if may_view(step) and not (is_plain and locked.isdisjoint(step.input_slots)):
            locked.update(step.output_slots)
    return locked


@dataclass
class _Carry:
    """The owners of the memory of a loop's carry.

    Attributes:
        owned: inputs whose memory is the loop's alone from the second turn on.
    """

    owned: frozenset[int]

    def __init__(self, body: ExecProgram, consts: int, count: int) -> None:
        self.inputs = body.input_slots[consts : consts + count]
        self.outputs = body.output_slots[:count]
        self.aliasing: Aliases = aliases(body)
        ranked = [bool(body.types[slot].shape) for slot in self.inputs]
        roots = [self.aliasing.roots[slot] for slot in self.outputs]
        locked = _locked(body)
        owned = {
            slot for slot, output, is_array in zip(self.inputs, self.outputs, ranked, strict=True)
            if is_array and output not in locked
        }  # fmt: skip
        while True:
            times: dict[int, int] = {}
            for each in roots:
                for root in each:
                    times[root] = times.get(root, 0) + 1
            lost = {
                slot for slot, each in zip(self.inputs, roots, strict=True)
                if slot in owned
                and (len(each) != 1 or times[each[0]] > 1 or each[0] in self.aliasing.foreign - owned)
            }  # fmt: skip
            if not lost:
                break
            owned -= lost
        self.owned = frozenset(owned)

    def _bases(self, body: ExecProgram) -> Mapping[int, int]:
        """For each owned carry the slot with its memory after a turn: an input, or a value of the turn."""
        over = {
            step.output_slots[0]: step.under for step in body.instructions if step.under is not None
        }
        bases: dict[int, int] = {}
        for slot, output in zip(self.inputs, self.outputs, strict=True):
            if slot in self.owned:
                (base,) = self.aliasing.roots[output]
                while base in over:
                    (base,) = self.aliasing.roots[over[base]]
                bases[slot] = base
        return bases

    def copied(self, body: ExecProgram) -> dict[int, str]:
        """The carries with a copied first value, by their number, and the order of the copy."""
        orders: dict[int, str] = {}
        made_over: dict[int, int] = {}
        for step in body.instructions:
            if step.under is not None:
                base = made_over.get(step.under, step.under)
                made_over[step.output_slots[0]] = base
                order = step.function.order if isinstance(step.function, Change) else "K"
                orders.setdefault(base, order)
        wanted = {slot: order for slot, order in orders.items() if slot in self.owned}
        bases, size = self._bases(body), -1
        while len(wanted) != size:
            size = len(wanted)
            for slot, base in bases.items():
                if slot in wanted and base in self.owned:
                    wanted.setdefault(base, wanted[slot])
        return {number: wanted[slot] for number, slot in enumerate(self.inputs) if slot in wanted}

    def settled(self, body: ExecProgram, copied: Mapping[int, str], turns: bool) -> frozenset[int]:
        """The carries that end in memory that is theirs alone."""
        mine = {self.inputs[number] for number in copied}
        bases = self._bases(body)
        return frozenset([
            number for number, slot in enumerate(self.inputs)
            if slot in bases
            and (bases[slot] in mine or bases[slot] not in self.inputs)
            and (turns or slot in mine)
        ])  # fmt: skip
