"""Needs: which steps can be part of a line, and how arrays have to lie for that.

A step can that has a compiled row with the interpreter's bits, or is a call of NumPy's loops: a ufunc, a sum or a product.
Each value of a line lies row by row, or so with its axes in another order, as it does where the program's inputs lie as
those of the run in which lines are looked for. Results of other extensions may lie in either way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import Any

from tenferro.exec.kernels.indexing import SMALLEST_SUMS
from tenferro.exec.kernels.row_sums import is_of_ones
from tenferro.exec.llvm.numpy_products import is_outer
from tenferro.exec.llvm.numpy_sums import sum_of
from tenferro.exec.llvm.straight import VIEWS, is_written, loop_of_step
from tenferro.exec.plan.layouts import layouts_of
from tenferro.exec.plan.product_trials import ProductTrials
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
from tenferro.ops.structural import Concatenate, EmbedDiag, ExtractDiag, Pad, Tril, Triu
from tenferro.types import TensorSpec

__all__ = ["LARGEST", "MOVES", "LineNeeds", "Needs"]

LARGEST = 1 << 16
"""Elements of a value; larger ones are in groups, or one of their arrays fills a cache."""
LARGEST_WORK = 1 << 18
"""Elements times the extent of matrices; more take milliseconds, for which other threads would wait: lines hold their lock."""
TRIED = 1 << 12
"""Elements of what another kernel is called with, to find out how its result lies."""
MOVES = (BitcastConvert, Concatenate, Pad, EmbedDiag, ExtractDiag, Tril, Triu, DynamicSlice, DynamicUpdateSlice, Gather, Scatter,
         ReduceMax, ReduceMin, ReduceAnd, ReduceOr, ArgMax, ArgMin, CumMax, CumMin, Sort, TopK)  # fmt: skip
"""Ops that are not elementwise, whose results are elements of their operands, or the places of those."""
PLACED = (
    BitcastConvert,
    Concatenate,
    Pad,
    EmbedDiag,
    ExtractDiag,
    Tril,
    Triu,
    DynamicSlice,
    DynamicUpdateSlice,
    Gather,
)
"""Those among them for which the order of elements in memory makes no difference, not even to signs of zero."""


class Needs(Enum):
    """How the arrays of a line have to lie, for a step of it."""

    NOTHING = 0
    ROWS = 1
    EITHER = 2


class LineNeeds:
    """What the steps of a schedule need, asked for one after the other.

    Args:
        inputs: arrays that lie as those of the program do; row-major ones without any.

    Attributes:
        rows, orders, apart: slots that lie row by row, so with their axes in another order, or as vectors of one element
            with another step, as far as is known.
        unknown: the results of extensions, and what is elementwise made of them, which may lie in either way.
        views: steps that a line can do again, by the slot that they make.
        bases: what these show, behind other views.
    """

    def __init__(self, program: ExecProgram, inputs: Sequence[Any] = ()) -> None:
        self.program, self.types = program, program.types
        self.views: dict[int, ExecInstruction] = {}
        self.bases: dict[int, int] = {}
        self.rows, self.orders, self.apart = layouts_of(program, self._is_tried, inputs)
        self.unknown: set[int] = set()
        self._trials = ProductTrials(self.types, self.orders, self.views)

    def follow(self, step: ExecInstruction) -> bool:
        """Note how results lie; whether the step is a view that a line does again."""
        passes_on = step.is_elementwise or isinstance(step.op, VIEWS)
        is_read = not self.unknown.isdisjoint(step.input_slots)
        is_other = isinstance(step.op, Extension) and not self._is_routine(step)
        if is_other or (passes_on and is_read):
            self.unknown.update([slot for slot in step.output_slots if self.types[slot].rank > 1])
        if not self._is_view(step):
            return False
        (x,), (y,) = step.input_slots, step.output_slots
        self.views[y], self.bases[y] = step, self._base(x)
        return True

    def of(self, step: ExecInstruction) -> Needs | None:
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
        operands = [self.types[slot] for slot in step.input_slots]
        work = max([spec.size * spec.shape[-1] for spec in operands])
        return work <= LARGEST_WORK and is_written(step, operands)

    def _is_view(self, step: ExecInstruction) -> bool:
        """Whether a step is a view that a line can do again."""
        if not isinstance(step.op, VIEWS) or step.places:
            return False
        return self._is_few((*step.input_slots, *step.output_slots))

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
        return self._trials.is_known(step)

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
