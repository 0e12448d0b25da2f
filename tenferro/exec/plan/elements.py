"""Elements: small values of an interpreted loop as their elements, each of which is a value of rank 0.

A call of NumPy takes as long as Python needs for some ten numbers. So what a turn computes of few elements is written
as the same ops on numbers, element by element; structure is then which element goes where, and costs nothing. What
an array is needed for is made of the elements again. Carries, and rows that a scan reads and writes, are elements
from turn to turn.

Which values are worth it is decided by an estimate for each part of the turn that hangs together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

from tenferro.exec.plan.alias import may_view
from tenferro.exec.plan.element_writer import (
    MOVES,
    MOVES_AT,
    ElementWriter,
    is_positive,
    known_operands,
)
from tenferro.exec.plan.rewrite import has_operators, operator_of
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.ops.analytic import Sqrt
from tenferro.ops.control import ControlOp, Scan
from tenferro.ops.elementwise import Power
from tenferro.ops.reduction import ReduceSum
from tenferro.ops.structural import Reshape
from tenferro.types import DType, TensorSpec

__all__ = ["by_elements"]

MOST = 9
"""Elements of a value. Up to some 20 would pay, but each is a line to compile."""
CALL, VIEW = 0.27, 0.08
"""Microseconds of a step on arrays, and of one that gives a view."""
NUMBER, PYTHON, FUNCTION = 0.03, 0.013, 0.11
"""Microseconds of an operator on NumPy's numbers, on Python's, and of a function."""
READ, ROW, ARRAY = 0.045, 0.2, 0.02
"""Microseconds to read an element of an array, to make an array, and for each of its elements."""
LINE, RUNS, TURNS = 27.0, 100, 50
"""Microseconds to plan and print a line, and by assumption the runs of a loop in which it is to pay, and the turns of
one that ends by a condition."""


def by_elements(program: ExecProgram, loops: Collection[int]) -> ExecProgram:
    """The schedule with small values inside of loops as elements.

    Args:
        loops: the numbers of the steps that are interpreted loops.
    """
    choices = {number: _Choice(program, program.instructions[number]) for number in loops}
    choices = {number: choice for number, choice in choices.items() if any(choice.steps)}
    if not choices:
        return program
    read = {slot for step in program.instructions for slot in step.input_slots}
    read.update(program.output_slots)
    around = ElementWriter(program)
    for number, step in enumerate(program.instructions):
        if number in choices:
            choices[number].write(around, read)
        else:
            around.add(step)
    return around.finished(program.input_slots, program.output_slots)


def is_few(spec: TensorSpec) -> bool:
    """Whether a value can be its elements: not too many, of a dtype that has operators.

    >>> [is_few(TensorSpec.parse(text)) for text in ("f64[2,2]", "f64[]", "f64[10]", "f16[2]", "c128[2]")]
    [True, False, False, False, False]
    """
    return spec.rank > 0 and spec.is_static and 0 < spec.size <= MOST and has_operators(spec.dtype)


def _price(step: ExecInstruction, part: _Part) -> float | None:
    """Microseconds of a step on elements; None where it is none."""
    op: Any = step.op
    if len(step.output_slots) != 1 or isinstance(op, ControlOp):
        return None
    (y,), inputs = step.output_types, [part.program.types[slot] for slot in step.input_slots]
    numbers = known_operands(op, len(inputs))
    slots = [slot for number, slot in enumerate(step.input_slots) if number not in numbers]
    ranked = [slot for slot in (*slots, *step.output_slots) if part.program.types[slot].shape]
    if not ranked or not part.few.issuperset(ranked):
        return None
    if isinstance(op, MOVES):
        return 0.0
    if type(op) in MOVES_AT:
        is_known = all([step.input_slots[number] in part.constants for number in numbers])
        return 0.0 if is_known and getattr(op, "combiner", "set") == "set" else None
    price = PYTHON if y.dtype is DType.F64 else NUMBER
    if isinstance(op, ReduceSum):
        # A sum of more floats depends on the order of the additions, which is NumPy's or BLAS's own. A sum of
        # -0.0 alone is -0.0 or 0.0, depending on how it lies.
        (x,) = inputs
        is_exact = (
            y.dtype.is_integer
            or x.size == 2 * y.size
            or (x.size == y.size and (x.rank > 1 or is_positive(part.makers.get(slots[0]))))
        )
        return price * x.size if op.axes and is_exact else None
    if not step.is_elementwise or isinstance(op, Power):
        return None  # because NumPy has other powers for one exponent than for several
    if operator_of(op, inputs[-1].dtype)[0] is not None:
        return price * y.size
    return FUNCTION * y.size if isinstance(op, Sqrt) and step.is_ufunc else None


class _Part:
    """A schedule of a loop: its steps that can be on elements, and the values read as arrays.

    Attributes:
        constants: what is known, also of operands.
        few: slots of values of few elements.
        nodes: those that are not the same in every turn. Elements of others are there without a price.
        prices: of those steps, by number, in microseconds.
        arrays: slots.
    """

    def __init__(
        self,
        program: ExecProgram,
        consts: int,
        constants: Mapping[int, Any],
        results: Iterable[int],
    ) -> None:
        types = {id(spec): is_few(spec) for spec in program.types}
        self.program = program
        self.few = {slot for slot, spec in enumerate(program.types) if types[id(spec)]}
        self.nodes = self.few.difference(program.input_slots[:consts], program.constants)
        operands = {program.input_slots[number]: value for number, value in constants.items()}
        self.constants = {**program.constants, **operands}
        self.makers = {slot: step for step in program.instructions for slot in step.output_slots}
        self.prices: dict[int, float] = {}
        self.arrays = {
            slot for slot in results if program.types[slot].shape and not self.is_row(slot)
        }
        for number in range(len(program.instructions) - 1, -1, -1):
            step = program.instructions[number]
            price = _price(step, self)
            if price is not None and (
                self.arrays.isdisjoint(step.output_slots) or self.is_dense(*step.output_slots)
            ):
                self.prices[number] = price
            else:
                self.arrays.update([slot for slot in step.input_slots if program.types[slot].shape])

    def is_row(self, slot: int) -> bool:
        """Whether it is a few elements that lie in memory in one way only."""
        return slot in self.few and self.program.types[slot].rank == 1

    def is_dense(self, slot: int) -> bool:
        """Whether it is a row without gaps, so that an array made of its elements is no other.

        How products and sums round depends on gaps, and on the order of axes.
        """
        types = self.program.types
        if not self.is_row(slot):
            return False
        while types[slot].size > 1 and slot in self.makers:
            maker = self.makers[slot]
            if not may_view(maker):
                return True
            if not isinstance(maker.op, Reshape):
                return False
            (slot,) = maker.input_slots
        return True


class _Choice:
    """The values on elements in a loop.

    Attributes:
        parts: the schedules, that of the body last.
        steps: for each of them the numbers of the steps on elements.
        carried, rows: the numbers of results that are elements, of those that are carried and of others.
        split, whole: the numbers of operands that are elements, and of those that are arrays.
    """

    def __init__(self, program: ExecProgram, step: ExecInstruction) -> None:
        op: Any = step.op
        *conditions, body = step.parts
        constants = {
            number: program.constants[slot]
            for number, slot in enumerate(step.input_slots[: op.num_consts])
            if slot in program.constants
        }
        self.step, self.consts = step, op.num_consts
        self.carries = op.num_carry if isinstance(op, Scan) else len(body.output_slots)
        turns = op.length if isinstance(op, Scan) else TURNS
        self._line = LINE / (RUNS * max(1, turns))
        self.body = _Part(body, self.consts, constants, body.output_slots)
        self.parts = [*[_Part(each, self.consts, constants, ()) for each in conditions], self.body]
        self._carried = [
            number for number, slot in enumerate(body.output_slots[: self.carries])
            if self.body.is_dense(slot)
        ]  # fmt: skip
        self._first = [0]
        for part in self.parts:
            self._first.append(self._first[-1] + len(part.program.types))
        self._roots = list(range(self._first[-1]))
        self._of_steps = [self._united(part_number) for part_number in range(len(self.parts))]
        self._unite_turns()
        gains = {root: gain for root, gain in self._gains().items() if gain > 0}
        self.steps = [
            {number for number, node in nodes.items() if self._root(node) in gains}
            for nodes in self._of_steps
        ]
        first, inputs = self._first[-2], body.input_slots
        self.carried = {
            number for number in self._carried
            if self._root(first + inputs[self.consts + number]) in gains
        }  # fmt: skip
        self._settle()

    # ---- what hangs together ---------------------------------------------------------------------

    def _nodes(self, number: int, slots: Iterable[int]) -> list[int]:
        """The values of few elements among some slots."""
        nodes, first = self.parts[number].nodes, self._first[number]
        return [first + slot for slot in slots if slot in nodes]

    def _united(self, part_number: int) -> dict[int, int]:
        """Join the values of each step, and give one of them, by the step's number."""
        part, of_steps = self.parts[part_number], dict[int, int]()
        for number in part.prices:
            step = part.program.instructions[number]
            nodes = self._nodes(part_number, (*step.input_slots, *step.output_slots))
            self._join(nodes)
            of_steps.update([(number, node) for node in nodes[:1]])
        return of_steps

    def _unite_turns(self) -> None:
        """Join the values of each carry from turn to turn."""
        last = len(self.parts) - 1
        for number in self._carried:
            nodes = self._nodes(last, [self.body.program.output_slots[number]])
            for part_number, part in enumerate(self.parts):
                nodes += self._nodes(part_number, [part.program.input_slots[self.consts + number]])
            self._join(nodes)

    def _join(self, nodes: Sequence[int]) -> None:
        for node in nodes[1:]:
            self._roots[self._root(node)] = self._root(nodes[0])

    def _root(self, node: int) -> int:
        """Of the set that a value is in."""
        roots = self._roots
        while roots[node] != node:
            roots[node] = roots[roots[node]]
            node = roots[node]
        return node

    def _gains(self) -> dict[int, float]:
        """Microseconds of a turn that are saved, by the root of each set."""
        gains: dict[int, float] = {}

        def add(node: int, gain: float) -> None:
            root = self._root(node)
            gains[root] = gains.get(root, 0.0) + gain

        for part_number, part in enumerate(self.parts):
            program, inside, read = part.program, set[int](), set[int]()
            for number, node in self._of_steps[part_number].items():
                step = program.instructions[number]
                call, price = VIEW if may_view(step) else CALL, part.prices[number]
                lines = step.output_types[0].size if price else 0
                add(node, call - price - self._line * lines)
                inside.update(step.output_slots)
                read.update(step.input_slots)
            inside.update([program.input_slots[self.consts + number] for number in self._carried])
            if part is self.body:
                read.update([program.output_slots[number] for number in self._carried])
            first = self._first[part_number]
            for node in self._nodes(part_number, read - inside):
                add(node, -READ * program.types[node - first].size)
            for node in self._nodes(part_number, part.arrays & inside):
                add(node, -ROW - ARRAY * program.types[node - first].size)
        return gains

    # ---- what goes in and comes out --------------------------------------------------------------

    def _settle(self) -> None:
        """Decide on the loop's operands and results."""
        body, consts = self.body.program, self.consts
        elements = {body.input_slots[consts + number] for number in self.carried}
        for number in self.steps[-1]:
            elements.update(body.instructions[number].output_slots)
        self.rows = {
            number for number in range(self.carries, len(body.output_slots))
            if body.output_slots[number] in elements and self.body.is_row(body.output_slots[number])
        }  # fmt: skip
        self.split = {consts + number for number in self.carried}
        self.whole = set[int]()
        for part, chosen in zip(self.parts, self.steps, strict=True):
            program, read, arrays = part.program, set[int](), set[int]()
            for number, step in enumerate(program.instructions):
                slots = step.input_slots
                if number in chosen:
                    numbers = known_operands(step.op, len(slots))
                    read.update([s for each, s in enumerate(slots) if each not in numbers])
                else:
                    arrays.update(slots)
            for number, slot in enumerate(program.output_slots if part is self.body else ()):
                (read if number in self.carried or number in self.rows else arrays).add(slot)
            for number, slot in enumerate(program.input_slots):
                if consts <= number < consts + self.carries:
                    continue
                if slot in read and slot in part.few:
                    self.split.add(number)
                if slot in arrays:
                    self.whole.add(number)
        self.whole.update(set(range(len(body.input_slots))) - self.split)

    def write(self, around: ElementWriter, read: Collection[int]) -> None:
        """Write the loop, with its operands before it and its results behind.

        Args:
            read: slots that other steps read.
        """
        step, inputs = self.step, self.body.program.input_slots
        ends = [0, self.consts, self.consts + self.carries, len(inputs)]
        operands: list[list[int]] = []
        for start, stop in pairwise(ends):
            operands.append([])
            for number in range(start, stop):
                slot = step.input_slots[number]
                if number in self.split:
                    parts = (
                        around.columns_of(slot)
                        if start == ends[2]
                        else around.elements_of(slot).flat
                    )
                    operands[-1] += map(int, parts)
                if number in self.whole:
                    operands[-1].append(around.array(slot))
        results: list[int] = []
        for number, slot in enumerate(step.output_slots):
            if number in self.carried:
                results += map(int, around.scattered(slot).flat)
            elif number in self.rows:
                results += around.scattered_rows(slot)
            else:
                results.append(slot)
        op: Any = step.op
        counts = {"num_consts": len(operands[0])}
        if isinstance(op, Scan):
            counts["num_carry"] = len(operands[1])
        around.add(
            step._replace(
                op=replace(op, **counts),
                input_slots=tuple(chain.from_iterable(operands)),
                output_slots=tuple(results),
                output_types=tuple([around.types[slot] for slot in results]),
                parts=tuple(map(self._written, self.parts, self.steps)),
            )
        )  # fmt: skip
        for number in sorted(self.carried | self.rows):
            if step.output_slots[number] in read:
                around.array(step.output_slots[number])

    def _written(self, part: _Part, chosen: Collection[int]) -> ExecProgram:
        """A schedule with the chosen steps on elements."""
        program, writer = part.program, ElementWriter(part.program)
        inputs: list[int] = []
        for number, slot in enumerate(program.input_slots):
            if number in self.split:
                inputs += map(int, writer.scattered(slot).flat)
            if number in self.whole:
                inputs.append(slot)
                writer.missing.discard(slot)
        for number, step in enumerate(program.instructions):
            if number in chosen:
                writer.on_elements(step, part.constants)
            else:
                writer.on_arrays(step)
        outputs: list[int] = []
        for number, slot in enumerate(program.output_slots):
            if part is self.body and (number in self.carried or number in self.rows):
                outputs += map(int, writer.elements_of(slot).flat)
            else:
                outputs.append(writer.array(slot))
        return replace(writer.finished(inputs, outputs), later=None)  # because it is printed
