"""Lines: consecutive steps on few elements that LLVM compiles as one, with the bits that the steps give.

A line holds steps that can be part of one (`line_needs`), and views, which it does again. Views of results are done
outside of it as well, where others read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Any, Protocol

import numpy as np

from tenferro.exec.llvm.straight import VIEWS
from tenferro.exec.plan.line_needs import LineNeeds, Needs
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.extension import Extension
from tenferro.ops.indexing import DynamicSlice, DynamicUpdateSlice, Gather, Scatter
from tenferro.ops.reduction import (
    CumMax,
    CumMin,
    ReduceAnd,
    ReduceMax,
    ReduceMin,
    ReduceOr,
    ReduceSum,
    Sort,
    TopK,
)
from tenferro.ops.structural import (
    BroadcastInDim,
    Concatenate,
    EmbedDiag,
    ExtractDiag,
    Pad,
    Reverse,
    Tril,
    Triu,
)

__all__ = ["Compilable", "Line", "lines_of", "runs_until_paid", "text_key"]

LONGEST = 5000
"""Steps of a schedule with lines: LLVM takes a tenth of a millisecond for each."""
LONGEST_LINE = 240
"""Steps of a line: LLVM takes longer for each the more there are."""
SHORTEST_LINE = {False: 100, True: 12}
"""Steps of a line, at least, where a schedule repeats itself and is cut in lines of one text, without LLVM's passes
and with them."""
LONGEST_PERIOD, MOST = 120, 0.9
"""Steps after which a schedule repeats itself, and the part of it that does."""
CALL = 0.5
"""Microseconds of a call of NumPy, beside its work."""
CALLS: Mapping[type, float] = {
    BroadcastInDim: 0.5, Reverse: 1.5, ExtractDiag: 1.0, Concatenate: 1.0, Pad: 1.0, EmbedDiag: 8.0,
    Tril: 1.5, Triu: 1.5, DynamicSlice: 3.0, DynamicUpdateSlice: 3.0, Gather: 8.0, Scatter: 30.0,
    ReduceMax: 1.0, ReduceMin: 1.0, ReduceAnd: 1.0, ReduceOr: 1.0, ReduceSum: 1.5, CumMax: 1.5, CumMin: 1.5,
    Sort: 3.0, TopK: 9.0, DotGeneral: 2.0, Extension: 12.0,
}  # fmt: skip
"""The same of kernels that are several calls, or slow ones."""
MATRIX = 3.0
"""The same of linear algebra for each matrix of a batch but one; NumPy goes over them by itself, SciPy is called for each."""
WORK = 3000
"""Elements that NumPy computes in a microsecond, and a line does not carry to the cache and back."""
LINE = 0.5, 0.15
"""Microseconds of a call of a line, and for each result."""
UNOPTIMISED = 0.0003
"""Microseconds that a line needs longer for an element without LLVM's passes."""
FAST = 0.1
"""Of the microseconds that a line saves, so much may be lost for want of LLVM's passes."""
PRICE = 4000.0, 50.0
"""Microseconds that LLVM takes for a line, and for each of its steps."""
PRICE_OF_PASSES = 9000.0, 300.0
"""The same for its passes."""
STEPS: Mapping[type, int] = {
    Sort: 40,
    TopK: 40,
    Scatter: 5,
    Gather: 3,
    DotGeneral: 3,
    Extension: 20,
}
"""Plain steps for which LLVM takes as long as for one of these."""


@dataclass(frozen=True)
class Line:
    """Steps that follow each other, but for views.

    Attributes:
        numbers: of the steps.
        views: those of the views among them.
        body: the steps, with the views that they read.
        left_out: ops of the views that nothing else reads.
        takes, gives: slots.
        orders: slots of the steps whose arrays are row-major with their axes in this order; all others are row-major.
    """

    numbers: tuple[int, ...]
    views: tuple[int, ...]
    body: tuple[ExecInstruction, ...]
    left_out: tuple[type, ...]
    takes: tuple[int, ...]
    gives: tuple[int, ...]
    orders: Mapping[int, tuple[int, ...]]

    @property
    def elements(self) -> int:
        """Elements of the results of its steps."""
        sizes = [step.output_types[0].size for step in self.body if not isinstance(step.op, VIEWS)]
        return sum(sizes)

    @property
    def saves(self) -> float:
        """Microseconds of a run, by estimate."""
        calls = sum([_call(step) for step in self.body if not isinstance(step.op, VIEWS)])
        views = sum([CALLS.get(op, CALL) for op in self.left_out])
        call, result = LINE
        return calls + views + self.elements / WORK - call - result * len(self.gives)

    @property
    def is_optimised(self) -> bool:
        """Whether LLVM's passes are worth their time."""
        return self.elements * UNOPTIMISED > FAST * self.saves

    @property
    def price(self) -> float:
        """Microseconds that LLVM takes, by estimate."""
        prices = (PRICE, PRICE_OF_PASSES) if self.is_optimised else (PRICE,)
        steps = sum([STEPS.get(type(step.op), 1) for step in self.body])
        return sum([start + each * steps for start, each in prices])

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for lines of the same text, nearly always."""
        return text_key(self.body)


def _call(step: ExecInstruction) -> float:
    """Microseconds of a step, beside its work."""
    matrices = prod(step.output_types[0].shape[:-2]) if isinstance(step.op, Extension) else 1
    return CALLS.get(type(step.op), CALL) + MATRIX * (matrices - 1)


def text_key(steps: Sequence[ExecInstruction]) -> tuple[Any, ...]:
    """Equal for steps that are written as the same text, nearly always."""
    return tuple([(type(step.op), step.output_types) for step in steps])


class Compilable(Protocol):
    """A part of a schedule that saves time in each run once LLVM has compiled it."""

    @property
    def key(self) -> Any:
        """Equal for those of the same text, nearly always."""
        ...

    @property
    def price(self) -> float:
        """Microseconds that LLVM takes, by estimate."""
        ...

    @property
    def saves(self) -> float:
        """Microseconds of a run, by estimate."""
        ...


def runs_until_paid(parts: Sequence[Compilable]) -> int:
    """The least number of runs in which they save the time that LLVM takes for their texts."""
    prices = {part.key: part.price for part in parts}
    return max(1, ceil(sum(prices.values()) / sum([part.saves for part in parts])))


def lines_of(program: ExecProgram, inputs: Sequence[Any] = ()) -> list[Line]:
    """The lines of a schedule.

    Args:
        inputs: arrays that lie as those of the program do; row-major ones without any.
    """
    if len(program.instructions) > LONGEST:
        return []
    finder = _Finder(program, inputs)
    return [line for line in finder.lines() if len(line.numbers) > 1]


class _Finder:
    """Looks for lines."""

    def __init__(self, program: ExecProgram, inputs: Sequence[Any]) -> None:
        self.program = program
        self.needs = LineNeeds(program, inputs)
        self.readers: dict[int, list[int]] = {slot: [-1] for slot in program.output_slots}
        for number, step in enumerate(program.instructions):
            for slot in step.input_slots:
                self.readers.setdefault(slot, []).append(number)

    def lines(self) -> Iterator[Line]:
        """One after the other."""
        numbers, views = list[int](), list[int]()
        needs = set[Needs]()
        for number, step in enumerate(self.program.instructions):
            if self.needs.follow(step):
                views.append(number)
                continue
            need = self.needs.of(step)
            if need is None or {*needs, need} >= {Needs.ROWS, Needs.EITHER}:
                yield from self._cut(numbers, views)
                numbers, views, needs = [], [], set()
            if need is not None:
                numbers.append(number)
                needs.add(need)
        yield from self._cut(numbers, views)

    def _cut(self, numbers: Sequence[int], views: Sequence[int]) -> Iterator[Line]:
        """Lines of steps that follow each other, not too long ones, and of equal texts where steps repeat themselves."""
        length = LONGEST_LINE
        if len(numbers) > min(SHORTEST_LINE.values()):
            steps = [self.program.instructions[number] for number in numbers]
            period = period_of([(type(step.op), step.output_types[0]) for step in steps])
            least = SHORTEST_LINE[self._finished(numbers, ()).is_optimised]
            length = period * -(-least // period) if period else LONGEST_LINE
        for start in range(0, len(numbers), length):
            part = numbers[start : start + length]
            yield self._finished(part, [view for view in views if part[0] < view < part[-1]])

    def _finished(self, numbers: Sequence[int], views: Sequence[int]) -> Line:
        """The line of some steps."""
        steps, mine = self.program.instructions, set(numbers)
        body, results, takes = list[ExecInstruction](), set[int](), dict[int, None]()

        def include(slot: int) -> None:
            """A value that a step reads; views are done again."""
            views: list[ExecInstruction] = []
            while slot in self.needs.views and slot not in results:
                views.append(self.needs.views[slot])
                (slot,) = views[-1].input_slots
            if slot not in results and slot not in self.program.constants:
                takes[slot] = None
            body.extend(reversed(views))
            results.update([view.output_slots[0] for view in views])

        for number in numbers:
            step = steps[number]
            for slot in step.input_slots:
                include(slot)
            body.append(step)
            results.update(step.output_slots)
        gives = [
            slot for number in numbers for slot in steps[number].output_slots
            if any([self._is_outside(reader, mine) for reader in self.readers.get(slot, ())])
        ]  # fmt: skip
        left_out = [
            type(steps[number].op) for number in views if not self._is_outside(number, mine)
        ]
        orders = self.needs.orders
        slots = {*takes, *[slot for step in body for slot in step.output_slots]}
        return Line(
            tuple(numbers),
            tuple(views),
            tuple(body),
            tuple(left_out),
            tuple(takes),
            tuple(gives),
            {slot: orders[slot] for slot in sorted(orders.keys() & slots)},
        )

    def _is_outside(self, reader: int, mine: set[int]) -> bool:
        """Whether a reader is another step, and no view that this line alone reads."""
        left = [reader]
        while left:
            reader = left.pop()
            if reader in mine:
                continue
            slots = self.program.instructions[reader].output_slots if reader >= 0 else ()
            if not slots or slots[0] not in self.needs.views:
                return True
            left += self.readers.get(slots[0], ())
        return False


def period_of(kinds: Sequence[Any]) -> int:
    """The least number of places after which nearly all of a sequence repeats itself; 0 if there is none."""
    numbers: dict[Any, int] = {}
    codes = np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds])
    for period in range(1, min(LONGEST_PERIOD, len(codes) // 3) + 1):
        if np.mean(codes[period:] == codes[:-period]) > MOST:
            return period
    return 0
