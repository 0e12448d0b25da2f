"""Lines: consecutive steps on few elements that LLVM compiles as one, with the bits that the steps give.

A line holds steps with compiled rows that are exact, elementwise or not, and ufuncs, sums and products, for which
NumPy's loops are called; and views, which it does again. Each value of a line lies row by row or column by column, as it
does where the program's inputs lie as those of the run in which lines are looked for. Results of extensions may lie in either way, and so may a line that is
elementwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil, prod
from typing import Any, Protocol

import numpy as np

from tenferro.exec.kernels.indexing import SMALLEST_SUMS
from tenferro.exec.kernels.row_sums import is_of_ones
from tenferro.exec.llvm.numpy_products import Product, is_outer, product_of, tried
from tenferro.exec.llvm.numpy_sums import sum_of
from tenferro.exec.llvm.straight import VIEWS, is_written, loop_of_step
from tenferro.exec.plan.layouts import layouts_of
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.ops import StdTensorOp
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.ops.control import ControlOp
from tenferro.ops.elementwise import BitcastConvert
from tenferro.ops.extension import Extension
from tenferro.ops.indexing import DynamicSlice, DynamicUpdateSlice, Gather, Scatter
from tenferro.ops.reduction import (
    ArgMax,
    ArgMin,
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
from tenferro.types import TensorSpec

__all__ = ["Compilable", "Line", "lines_of", "runs_until_paid", "text_key"]

LARGEST = 1 << 16
"""Elements of a value; larger ones are in groups, or one of their arrays fills a cache."""
TRIED = 1 << 12
"""Elements of what another kernel is called with, to find out how its result lies."""
LONGEST = 5000
"""Steps of a schedule with lines: LLVM takes a tenth of a millisecond for each."""
LONGEST_LINE = 240
"""Steps of a line: LLVM takes longer for each the more there are."""
SHORTEST_LINE = {False: 100, True: 12}
"""Steps of a line, at least, where a schedule repeats itself and is cut in lines of one text, without LLVM's passes
and with them."""
LONGEST_PERIOD, MOST = 120, 0.9
"""Steps after which a schedule repeats itself, and the part of it that does."""
TRIALS = 4
"""Random operands with which the call for a product is held against its step."""
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
MOVES = (BitcastConvert, Concatenate, Pad, EmbedDiag, ExtractDiag, Tril, Triu, DynamicSlice, DynamicUpdateSlice, Gather, Scatter,
         ReduceMax, ReduceMin, ReduceAnd, ReduceOr, ArgMax, ArgMin, CumMax, CumMin, Sort, TopK)  # fmt: skip
"""Ops that are not elementwise, whose results are elements of their operands, or the places of those."""
PLACED = (
    BitcastConvert,
    Concatenate,
    Pad,
    EmbedDiag,
    Tril,
    Triu,
    DynamicSlice,
    DynamicUpdateSlice,
    Gather,
)
"""Those among them for which the order of elements in memory makes no difference, not even to signs of zero."""


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


class Needs(Enum):
    """How the arrays of a line have to lie, for a step of it."""

    NOTHING = 0
    ROWS = 1
    EITHER = 2


class _Finder:
    """Looks for lines.

    Attributes:
        rows, orders, apart: slots that lie row by row, so with their axes in another order, or as vectors of one element
            with another step, as far as is known.
        unknown: the results of extensions, and what is elementwise made of them, which may lie in either way.
        views: steps that a line can do again, by the slot that they make.
        bases: what these show, behind other views.
        products: whether calls give NumPy's bits, by what they depend on.
    """

    def __init__(self, program: ExecProgram, inputs: Sequence[Any] = ()) -> None:
        self.program, self.types = program, program.types
        self.views: dict[int, ExecInstruction] = {}
        self.bases: dict[int, int] = {}
        self.rows, self.orders, self.apart = layouts_of(program, self._is_tried, inputs)
        self.unknown: set[int] = set()
        self.products: dict[Any, bool] = {}
        self.readers: dict[int, list[int]] = {slot: [-1] for slot in program.output_slots}
        for number, step in enumerate(program.instructions):
            for slot in step.input_slots:
                self.readers.setdefault(slot, []).append(number)

    def lines(self) -> Iterator[Line]:
        """One after the other."""
        numbers, views = list[int](), list[int]()
        needs = set[Needs]()
        for number, step in enumerate(self.program.instructions):
            self._pass_on(step)
            if self._is_view(step):
                (x,), (y,) = step.input_slots, step.output_slots
                self.views[y], self.bases[y] = step, self._base(x)
                views.append(number)
                continue
            need = self._needs(step)
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

    def _is_few(self, slots: Sequence[int]) -> bool:
        return all([
            self.types[slot].is_static and 0 < self.types[slot].size <= LARGEST for slot in slots
        ])  # fmt: skip

    def _is_tried(self, step: ExecInstruction) -> bool:
        """Whether the kernel of a step may be called on zeros: those of lines, and others of little work."""
        op, slots = step.op, (*step.input_slots, *step.output_slots)
        if not isinstance(op, StdTensorOp) or isinstance(op, ControlOp | Convolution):
            return False
        if isinstance(op, Extension):
            return self._is_routine(step)
        if step.is_elementwise or isinstance(op, (*VIEWS, *MOVES)):
            return self._is_few(slots)
        return self._is_few(slots) and max([self.types[slot].size for slot in slots]) <= TRIED

    def _is_routine(self, step: ExecInstruction) -> bool:
        """Whether a step is a routine of linear algebra that lines call."""
        if step.routine is None or not self._is_few((*step.input_slots, *step.output_slots)):
            return False
        return is_written(step, [self.types[slot] for slot in step.input_slots])

    def _pass_on(self, step: ExecInstruction) -> None:
        """Note results that may lie in either way."""
        passes_on = step.is_elementwise or isinstance(step.op, VIEWS)
        is_read = not self.unknown.isdisjoint(step.input_slots)
        is_other = isinstance(step.op, Extension) and not self._is_routine(step)
        if is_other or (passes_on and is_read):
            self.unknown.update([slot for slot in step.output_slots if self.types[slot].rank > 1])

    def _is_view(self, step: ExecInstruction) -> bool:
        """Whether a step is a view that a line can do again."""
        if not isinstance(step.op, VIEWS) or step.places:
            return False
        return self._is_few((*step.input_slots, *step.output_slots))

    def _needs(self, step: ExecInstruction) -> Needs | None:
        """How arrays have to lie so that a step can be part of a line; None where it cannot."""
        if not self._is_few((*step.input_slots, *step.output_slots)):
            return None
        operands = [self.types[slot] for slot in step.input_slots]
        if isinstance(step.op, DotGeneral):
            return Needs.ROWS if self._is_known_product(step) else None
        if isinstance(step.op, Extension):
            slots = (*step.output_slots, *self._taken(step))
            return Needs.ROWS if self._is_routine(step) and self._are_dense(slots) else None
        if isinstance(step.op, (*MOVES, ReduceSum)):
            return Needs.ROWS if self._is_moved(step, operands) else None
        if step.is_elementwise and len(step.output_slots) == 1:
            return self._needs_of_elements(step, operands)
        return None

    def _taken(self, step: ExecInstruction) -> set[int]:
        """What a step reads, behind views. Constants need not lie in any way: they are written, or copied, row by row."""
        bases, constants = map(self._base, step.input_slots), self.program.constants
        return {slot for slot in bases if slot not in constants}

    def _are_dense(self, slots: Collection[int]) -> bool:
        """Whether arrays have no gaps, and the order of their axes is known."""
        return self.unknown.isdisjoint(slots) and all([
            slot in self.rows or slot in self.orders for slot in slots
        ])  # fmt: skip

    def _is_moved(self, step: ExecInstruction, operands: Sequence[TensorSpec]) -> bool:
        slots = (*step.output_slots, *self._taken(step))
        are_placed = self._are_dense(slots)
        if not isinstance(step.op, PLACED) and not self._is_of_ones(step):
            are_placed = are_placed and self.rows.issuperset(slots)
        return (
            are_placed
            and self.unknown.isdisjoint(step.input_slots)
            and not self._is_added_up(step)
            and (is_written(step, operands) or self._is_of_ones(step) or self._is_known_sum(step))
        )

    def _needs_of_elements(
        self, step: ExecInstruction, operands: Sequence[TensorSpec]
    ) -> Needs | None:
        """The same of an elementwise step."""
        (y,) = step.output_slots
        # Of elements that lie apart, or of one that repeats itself, NumPy's functions may have other bits.
        is_function = loop_of_step(step, operands) is not None and all([
            self._lie_alike(slot, y) if self.types[slot].size > 1 else slot not in self.apart
            for slot in step.input_slots
        ])  # fmt: skip
        if not self._are_dense((y,)) and y not in self.unknown:
            return None
        # Over its operand, NumPy multiplies one complex number in another way.
        is_one_over = (
            step.under is not None and self.types[y].size == 1 and self.types[y].dtype.is_complex
        )
        if not (is_written(step, operands) or (is_function and not is_one_over)):
            return None
        others = {slot for slot in step.input_slots if not self._is_one(slot)}
        is_of_views = not self.views.keys().isdisjoint(others)
        if y in self.unknown:
            is_dense = all([self.types[slot].shape == self.types[y].shape for slot in others])
            return (
                Needs.EITHER if is_dense and not is_of_views and self.rows >= {y, *others} else None
            )
        if not self._are_dense(self._taken(step)):
            return None
        is_by_rows = self.rows >= {y, *self._taken(step)}
        return (
            Needs.ROWS
            if not is_by_rows or (is_of_views and self.types[y].rank > 1)
            else Needs.NOTHING
        )

    def _lie_alike(self, x: int, y: int) -> bool:
        """Whether the elements of two values follow each other in the same order."""
        return {x, y} <= self.rows or self.orders.get(x) == self.orders.get(y, ())

    def _is_known_product(self, step: ExecInstruction) -> bool:
        """Whether a step is a product that a call of NumPy's loop makes, or one of two numbers for each element."""
        op, (lhs, _), (y,) = step.op, step.input_slots, step.output_slots
        assert isinstance(op, DotGeneral)
        bases = {*map(self._base, step.input_slots)}
        if not self._are_dense((y, *bases)) or not self.unknown.isdisjoint(step.input_slots):
            return False
        if is_outer(op, self.types[lhs]):
            dtype = self.types[lhs].dtype
            is_plain = not dtype.is_complex and dtype.accumulator is dtype
            return is_plain and self.types[y].dtype is dtype
        rng = np.random.default_rng(0)
        arrays = self._tried_arrays(step, rng)
        product = product_of(op, *arrays)
        if product is None or product.order != self.orders.get(y, ()):
            return False
        key = op, *[(x.shape, x.strides, x.dtype) for x in arrays], arrays[0] is arrays[1]
        if key not in self.products:
            self.products[key] = all(
                [
                    self._gives_bits(step, product, *self._tried_arrays(step, rng))
                    for _ in range(TRIALS)
                ]
            )
        return self.products[key]

    def _gives_bits(self, step: ExecInstruction, product: Product, lhs: Any, rhs: Any) -> bool:
        """Whether a call gives the bits of a step."""
        call = tried(product, lhs, rhs)
        call = call.swapaxes(-1, -2) if product.is_turned else call
        return call.tobytes() == np.asarray(step.function(lhs, rhs)).tobytes()

    def _tried_arrays(self, step: ExecInstruction, rng: np.random.Generator) -> list[Any]:
        """Random operands of a product, which lie as they do in a run."""
        arrays: dict[int, Any] = {}

        def array_of(slot: int) -> Any:
            chain = list[ExecInstruction]()
            while slot in self.views:
                chain.append(self.views[slot])
                (slot,) = chain[-1].input_slots
            if slot not in arrays:
                arrays[slot] = self._random(rng, slot)
            x = arrays[slot]
            for view in reversed(chain):
                x = view.function(x)
            return x

        lhs, rhs = map(array_of, step.input_slots)
        return [lhs, lhs if step.input_slots[0] == step.input_slots[1] else rhs]

    def _random(self, rng: Any, slot: int) -> Any:
        """Random numbers as a value lies."""
        spec = self.types[slot]
        parts = 2 if spec.dtype.is_complex else 1
        x = rng.standard_normal((*spec.shape, parts)) * 8
        x = (x.view(np.complex128) if parts == 2 else x)[..., 0]
        order = self.orders.get(slot, range(spec.rank))
        x = np.ascontiguousarray(x.astype(spec.dtype.dtype).transpose(order))
        return x.transpose(np.argsort(order))

    def _is_of_ones(self, step: ExecInstruction) -> bool:
        """Whether a step is a sum of one element each."""
        op, spec = step.op, self.types[step.input_slots[0]]
        is_plain = spec.dtype.accumulator is spec.dtype
        return isinstance(op, ReduceSum) and is_plain and is_of_ones(spec, op.axes)

    def _is_known_sum(self, step: ExecInstruction) -> bool:
        """Whether a step is a sum that calls of NumPy's loops make."""
        (x, *_), op = step.input_slots, step.op
        if not isinstance(op, ReduceSum) or x not in self.rows:
            return False
        return sum_of(self.types[x], op.axes) is not None

    def _base(self, slot: int) -> int:
        """The value that a view shows, which a line takes."""
        return self.bases.get(slot, slot)

    def _is_one(self, slot: int) -> bool:
        """Whether all elements of a value are one."""
        slot = self._base(slot)
        constant = self.program.constants.get(slot)
        return self.types[slot].size == 1 or (constant is not None and not any(constant.strides))

    def _is_added_up(self, step: ExecInstruction) -> bool:
        """Whether a scatter may add so many updates that NumPy's order is another."""
        op = step.op
        if not isinstance(op, Scatter) or op.combiner != "add":
            return False
        return self.types[step.input_slots[2]].size >= SMALLEST_SUMS

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
        left_out = [
            type(steps[number].op) for number in views if not self._is_outside(number, mine)
        ]
        slots = {*takes, *[slot for step in body for slot in step.output_slots]}
        return Line(
            tuple(numbers),
            tuple(views),
            tuple(body),
            tuple(left_out),
            tuple(takes),
            tuple(gives),
            {slot: self.orders[slot] for slot in sorted(self.orders.keys() & slots)},
        )

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
