"""Writes steps on elements: the same op for each element of a result, or none where elements are moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tenferro.exec.kernels import KERNELS, bound
from tenferro.exec.schedule import ExecInstruction, ExecProgram, Tiles
from tenferro.ops.elementwise import Abs, Add, Multiply
from tenferro.ops.indexing import DynamicSlice, DynamicUpdateSlice, Gather, Scatter
from tenferro.ops.reduction import ReduceSum
from tenferro.ops.structural import (
    BroadcastInDim,
    Concatenate,
    ExtractDiag,
    Pad,
    Reshape,
    Reverse,
    Slice,
    Transpose,
)
from tenferro.types import DType, TensorSpec

__all__ = ["MOVES", "MOVES_AT", "ElementWriter", "is_positive", "known_operands"]

Slots = np.ndarray[Any, np.dtype[np.int64]]
"""In the shape of a value."""
MOVES = (Slice, Reshape, BroadcastInDim, Transpose, Concatenate, Reverse, ExtractDiag, Pad)
"""Ops whose results are elements of their operands, whatever these are."""
MOVES_AT = {Gather: slice(1, 2), DynamicSlice: slice(1, None), Scatter: slice(1, 2),
            DynamicUpdateSlice: slice(2, None)}  # fmt: skip
"""The same where some operands are known, and from which to which operand these are."""
NOTHING = range(0)


def known_operands(op: Any, count: int) -> range:
    """The numbers of operands that say where an op moves elements."""
    ends = MOVES_AT.get(type(op))
    return NOTHING if ends is None else range(count)[ends]


def is_positive(maker: ExecInstruction | None) -> bool:
    """Whether a step gives no -0.0: a square or a modulus."""
    if maker is None:
        return False
    is_square = isinstance(maker.op, Multiply) and len({*maker.input_slots}) == 1
    return is_square or isinstance(maker.op, Abs)


class ElementWriter:
    """Writes a schedule by elements.

    Attributes:
        elements: of values of few elements, the slots of these, in the value's shape.
        columns: of rows of few elements, the slots of the rows of one element.
        missing: values among them of which there is no array yet.
        same: of numbers, the slot that has the value.
    """

    def __init__(self, program: ExecProgram) -> None:
        self.program = program
        self.types, self.constants = list(program.types), dict(program.constants)
        self.steps: list[ExecInstruction] = []
        self.elements: dict[int, Slots] = {}
        self.columns: dict[int, list[int]] = {}
        self.missing: set[int] = set()
        self.same: dict[int, int] = {}
        self._known: dict[tuple[DType, bytes], int] = {}
        self._makers: dict[int, ExecInstruction] = {}

    def finished(self, inputs: Iterable[int], outputs: Iterable[int]) -> ExecProgram:
        """The schedule."""
        return replace(
            self.program,
            instructions=tuple(self.steps),
            input_slots=tuple(inputs),
            output_slots=tuple(outputs),
            types=tuple(self.types),
            constants=self.constants,
        )

    # ---- steps -----------------------------------------------------------------------------------

    def new(self, spec: TensorSpec) -> int:
        """A slot."""
        self.types.append(spec)
        return len(self.types) - 1

    def add(self, step: ExecInstruction) -> None:
        """Add a step."""
        self.steps.append(step)
        self._makers.update([(slot, step) for slot in step.output_slots])

    def on_arrays(self, step: ExecInstruction) -> None:
        """Add a step as it is; a group with its members, which may be steps of their own later."""
        op, slots = step.op, tuple([self.array(slot) for slot in step.input_slots])
        if isinstance(op, Tiles) and slots != step.input_slots:
            same = dict(zip(step.input_slots, slots, strict=True))
            members = [
                member._replace(input_slots=tuple([same.get(x, x) for x in member.input_slots]))
                for member in op.members
            ]
            op = replace(op, members=tuple(members))
        self.add(step._replace(op=op, input_slots=slots))

    def on_elements(self, step: ExecInstruction, constants: Mapping[int, Any]) -> None:
        """Add a step for each element of its result, or none if it moves elements."""
        op: Any = step.op
        (y,), (spec,) = step.output_slots, step.output_types
        numbers = known_operands(op, len(step.input_slots))
        operands = [
            constants[slot] if number in numbers else self.elements_of(slot)
            for number, slot in enumerate(step.input_slots)
        ]  # fmt: skip
        if isinstance(op, MOVES) or type(op) in MOVES_AT:
            slots = np.asarray(step.kernel(op, *operands))
        elif isinstance(op, ReduceSum):
            free = [axis for axis in range(operands[0].ndim) if axis not in op.axes]
            terms = operands[0].transpose(*free, *op.axes).reshape(spec.size, -1)
            slots = np.array([self._sum(each, spec.dtype) for each in terms]).reshape(spec.shape)
        else:
            of_one = TensorSpec.of((), spec.dtype)
            operands = [each.flat for each in np.broadcast_arrays(*operands)]
            slots = np.array([
                self._call(step, map(int, inputs), of_one) for inputs in zip(*operands, strict=True)
            ]).reshape(spec.shape)  # fmt: skip
        if spec.rank:
            self.elements[y] = slots
            self.missing.add(y)
        else:
            self.same[y] = int(slots)

    def _call(self, like: ExecInstruction, inputs: Iterable[int], spec: TensorSpec) -> int:
        """Add a step that does the same to other values."""
        slot = self.new(spec)
        self.add(
            like._replace(
                input_slots=tuple(inputs), output_slots=(slot,), output_types=(spec,),
                frees=(), places=(),
            )
        )  # fmt: skip
        return slot

    def _apply(
        self, op: Any, inputs: Sequence[int], spec: TensorSpec, slot: int | None = None
    ) -> int:
        """Add a step of another op; its result, in a new slot if none is said."""
        kernel = KERNELS[type(op)]
        function = bound(kernel, op, tuple([self.types[each] for each in inputs]))
        y = self.new(spec) if slot is None else slot
        self.add(ExecInstruction(op, kernel, function, tuple(inputs), (y,), (spec,)))
        return y

    def _sum(self, terms: Slots, dtype: DType) -> int:
        """Add the additions of a sum, which starts with a zero, as NumPy's and BLAS's do.

        That matters where all terms are -0.0, which squares are not.
        """
        of_one = TensorSpec.of((), dtype)
        slots = list(map(int, terms))
        if dtype.is_float and not any([is_positive(self._makers.get(slot)) for slot in slots]):
            slots.insert(0, self._constant(np.zeros((), dtype.dtype)))
        total, *others = slots
        for slot in others:
            total = self._apply(Add(), [total, slot], of_one)
        return total

    # ---- elements and arrays ---------------------------------------------------------------------

    def _constant(self, value: Any) -> int:
        """The slot of a known number."""
        dtype = DType.of(value.dtype)
        key = dtype, value.tobytes()
        if key not in self._known:
            slot = self._known[key] = self.new(TensorSpec.of((), dtype))
            self.constants[slot] = np.array(value)
            self.constants[slot].flags.writeable = False
        return self._known[key]

    def elements_of(self, slot: int) -> Slots:
        """The slots of the elements."""
        spec = self.types[slot]
        if not spec.rank:
            return np.array(self.same.get(slot, slot))
        if slot not in self.elements:
            value = self.constants.get(slot)
            self.elements[slot] = np.array([
                self._element(slot, index) if value is None else self._constant(value[index])
                for index in np.ndindex(*spec.shape)
            ]).reshape(spec.shape)  # fmt: skip
        return self.elements[slot]

    def _element(self, slot: int, index: Sequence[int]) -> int:
        """Read an element of an array; of the one of which this is a window, if it is one."""
        dtype = self.types[slot].dtype
        maker = self._makers.get(slot)
        while maker is not None and isinstance(maker.op, Slice):
            starts = maker.op.resolved("starts", (self.types[maker.input_slots[0]].shape,))
            index = [
                start + i * stride
                for start, i, stride in zip(starts, index, maker.op.strides, strict=True)
            ]
            (slot,) = maker.input_slots
            maker = self._makers.get(slot)
        ends = tuple([i + 1 for i in index])
        one = Slice(tuple(index), ends, (1,) * len(index))
        part = self._apply(one, [slot], TensorSpec.of((1,) * len(index), dtype))
        return self._apply(Reshape(()), [part], TensorSpec.of((), dtype))

    def columns_of(self, slot: int) -> list[int]:
        """Of rows of few elements, the slots of the rows of one element."""
        if slot not in self.columns:
            spec = self.types[slot]
            length, *row = spec.shape
            of_one = TensorSpec.of((length,), spec.dtype)
            thin = TensorSpec.of((length, *[1] * len(row)), spec.dtype)
            self.columns[slot] = []
            for index in np.ndindex(*row):
                ends = (length, *[i + 1 for i in index])
                part = self._apply(Slice((0, *index), ends, (1,) * spec.rank), [slot], thin)
                self.columns[slot].append(self._apply(Reshape((length,)), [part], of_one))
        return self.columns[slot]

    def scattered(self, slot: int) -> Slots:
        """New slots, for the elements of a value."""
        spec = self.types[slot]
        of_one = TensorSpec.of((), spec.dtype)
        slots = np.array([self.new(of_one) for _ in range(spec.size)]).reshape(spec.shape)
        self.elements[slot] = slots
        self.missing.add(slot)
        return slots

    def scattered_rows(self, slot: int) -> list[int]:
        """New slots, for the rows of one element of rows of few."""
        spec = self.types[slot]
        length, width = spec.shape
        of_one = TensorSpec.of((length,), spec.dtype)
        self.columns[slot] = [self.new(of_one) for _ in range(width)]
        self.missing.add(slot)
        return self.columns[slot]

    def array(self, slot: int) -> int:
        """The slot of a value as an array, or of a number."""
        if slot in self.missing:
            self.missing.discard(slot)
            spec = self.types[slot]
            columns = self.columns.get(slot)
            parts = list(map(int, self.elements[slot])) if columns is None else columns
            thin = TensorSpec.of((*spec.shape[:-1], 1), spec.dtype)
            if len(parts) == 1:
                self._apply(Reshape(thin.shape), parts, thin, slot)
            else:
                thin_parts = [self._apply(Reshape(thin.shape), [part], thin) for part in parts]
                self._apply(Concatenate(spec.rank - 1, len(parts)), thin_parts, spec, slot)
        return self.same.get(slot, slot)
