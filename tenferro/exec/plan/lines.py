"""Lines: consecutive steps on few elements that LLVM compiles as one, with the bits that the steps give.

A line holds elementwise steps with compiled rows that are exact, and ufuncs, whose loops are called; and views along
which a value repeats itself, which it does again. All values have an order that is known, if the arguments have one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

import numpy as np

from tenferro.exec.llvm.straight import is_written, loop_of_step
from tenferro.exec.plan.alias import may_view
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.ops.elementwise import Imag, Real
from tenferro.ops.structural import BroadcastInDim, ExtractDiag, Reshape, Reverse, Transpose

__all__ = ["Compilable", "Line", "lines_of", "runs_until_paid", "text_key"]

LARGEST = 1 << 16
"""Elements of a value; larger ones are in groups, or one of their arrays fills a cache."""
LONGEST = 5000
"""Steps of a schedule with lines: LLVM takes a tenth of a millisecond for each."""
LONGEST_LINE = 240
"""Steps of a line: LLVM takes longer for each the more there are."""
SHORTEST_LINE = {False: 100, True: 12}
"""Steps of a line, at least, where a schedule repeats itself and is cut in lines of one text, without LLVM's passes
and with them."""
LONGEST_PERIOD, MOST = 120, 0.9
"""Steps after which a schedule repeats itself, and the part of it that does."""
CALL = 0.35
"""Microseconds of a call of NumPy, beside its work."""
WORK = 3000
"""Elements that NumPy computes in a microsecond, and a line does not carry to the cache and back."""
LINE = 0.35, 0.12
"""Microseconds of a call of a line, and for each result."""
UNOPTIMISED = 0.0003
"""Microseconds that a line needs longer for an element without LLVM's passes."""
FAST = 0.1
"""Of the microseconds that a line saves, so much may be lost for want of LLVM's passes."""
PRICE = 4000.0, 50.0
"""Microseconds that LLVM takes for a line, and for each of its steps."""
PRICE_OF_PASSES = 9000.0, 300.0
"""The same for its passes."""
TURNING = (Transpose, Reverse, ExtractDiag, Real, Imag)
"""Views of other steps from element to element."""


@dataclass(frozen=True)
class Line:
    """Steps that follow each other, but for views.

    Attributes:
        numbers: of the steps.
        views: those of the views among them.
        body: the steps, with the views that they read.
        takes, gives: slots.
    """

    numbers: tuple[int, ...]
    views: tuple[int, ...]
    body: tuple[ExecInstruction, ...]
    takes: tuple[int, ...]
    gives: tuple[int, ...]

    @property
    def saves(self) -> float:
        """Microseconds of a run, by estimate."""
        elements = sum([step.output_types[0].size for step in self.body if step.is_elementwise])
        call, result = LINE
        return CALL * len(self.numbers) + elements / WORK - call - result * len(self.gives)

    @property
    def is_optimised(self) -> bool:
        """Whether LLVM's passes are worth their time."""
        written = sum([step.output_types[0].size for step in self.body if step.is_elementwise])
        return written * UNOPTIMISED > FAST * self.saves

    @property
    def price(self) -> float:
        """Microseconds that LLVM takes, by estimate."""
        prices = (PRICE, PRICE_OF_PASSES) if self.is_optimised else (PRICE,)
        return sum([start + step * len(self.body) for start, step in prices])

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for lines of the same text, nearly always."""
        return text_key(self.body)


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


def lines_of(program: ExecProgram) -> list[Line]:
    """The lines of a schedule."""
    if len(program.instructions) > LONGEST:
        return []
    finder = _Finder(program)
    return [line for line in finder.lines() if len(line.numbers) > 1]


class _Finder:
    """Looks for lines.

    Attributes:
        spread: slots that are not dense, because a value repeats itself.
        views: steps that give those, and others of one element, by the slot that they make.
        turned: slots that are seldom dense, because axes are in another order.
    """

    def __init__(self, program: ExecProgram) -> None:
        self.program, self.types = program, program.types
        self.views: dict[int, ExecInstruction] = {}
        self.turned: set[int] = set()
        self.spread = {
            slot for slot, value in program.constants.items()
            if value.size > 1 and not value.flags.c_contiguous
        }  # fmt: skip
        self.readers: dict[int, list[int]] = {slot: [-1] for slot in program.output_slots}
        for number, step in enumerate(program.instructions):
            for slot in step.input_slots:
                self.readers.setdefault(slot, []).append(number)

    def lines(self) -> Iterator[Line]:
        """One after the other."""
        numbers, views = list[int](), list[int]()
        for number, step in enumerate(self.program.instructions):
            if self._is_view(step):
                self.views[step.output_slots[0]] = step
                views.append(number)
            elif self._belongs(step):
                numbers.append(number)
            else:
                if isinstance(step.op, TURNING):
                    self.turned.update(step.output_slots)
                yield from self._cut(numbers, views)
                numbers, views = [], []
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

    def _is_few(self, slots: Sequence[int]) -> bool:
        return all([
            self.types[slot].is_static and 0 < self.types[slot].size <= LARGEST for slot in slots
        ])  # fmt: skip

    def _is_view(self, step: ExecInstruction) -> bool:
        """Whether a step is a view that a line can do again."""
        if not isinstance(step.op, BroadcastInDim | Reshape) or step.places:
            return False
        if not self._is_few((*step.input_slots, *step.output_slots)):
            return False
        (y,) = step.output_slots
        if self.types[y].size == 1:
            return True
        if isinstance(step.op, Reshape):
            return False
        self.spread.add(y)
        return True

    def _belongs(self, step: ExecInstruction) -> bool:
        """Whether a step can be part of a line."""
        if not step.is_elementwise or len(step.output_slots) != 1 or may_view(step):
            return False
        if not self._is_few((*step.input_slots, *step.output_slots)):
            return False
        if not self.turned.isdisjoint(step.input_slots):
            return False
        operands = [self.types[slot] for slot in step.input_slots]
        (y,) = step.output_types
        is_ufunc = step.is_ufunc or step.function is np.where
        dense = [slot for slot in step.input_slots if slot not in self.spread]
        if len(dense) < len(operands) and not (
            is_ufunc and is_written(step, operands)
            and any([self.types[slot].shape == y.shape for slot in dense])
        ):  # fmt: skip
            return False  # because NumPy's choice of an order, and of a loop, depends on strides
        return is_written(step, operands) or loop_of_step(step, operands) is not None

    def _finished(self, numbers: Sequence[int], views: Sequence[int]) -> Line:
        """The line of some steps."""
        steps, mine = self.program.instructions, set(numbers)
        body, results, takes = list[ExecInstruction](), set[int](), dict[int, None]()

        def include(slot: int) -> None:
            """A value that a step reads; views are done again."""
            views: list[ExecInstruction] = []
            while slot in self.views and slot not in results:
                views.append(self.views[slot])
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
        return Line(tuple(numbers), tuple(views), tuple(body), tuple(takes), tuple(gives))

    def _is_outside(self, reader: int, mine: set[int]) -> bool:
        """Whether a reader is another step, and no view that this line alone reads."""
        left = [reader]
        while left:
            reader = left.pop()
            if reader in mine:
                continue
            slots = self.program.instructions[reader].output_slots if reader >= 0 else ()
            if not slots or slots[0] not in self.views:
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
