"""Strips: scans that act on each index of an axis by itself take all turns on a few indices after the other.

A scan over long arrays reads and writes its carry in every turn. Where what becomes of an index of one axis does not
depend on the others, all turns on a strip of indices go before the next strip: its carry stays in the first-level
cache, and the executor's threads have strips of their own. The bits are those of the whole scan.

`tenferro.exec.llvm.strip_loop` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from tenferro.dims import GuardLog
from tenferro.exec.llvm.reduction import TOTALS
from tenferro.graph import Graph, Instruction
from tenferro.ops import StdTensorOp, analytic, elementwise
from tenferro.ops import structural as st
from tenferro.ops.control import ControlOp, Scan
from tenferro.ops.source import Constant
from tenferro.program import GraphProgram, Subprogram
from tenferro.types import TensorSpec

__all__ = ["Axes", "Prepare", "Strips", "strip_of", "strips_of"]

Prepare = Callable[[GraphProgram], GraphProgram]
Axes = tuple[int | None, ...]
SAME_PLACE = frozenset((*elementwise.CARDS, *analytic.CARDS))
STRIP_BYTES = 1 << 14
"""Of a strip's carry and constants, which every turn reads: half of a small first-level cache."""
LEAST_BYTES = 1 << 16
"""Of the carry and constants of a loop from which strips pay: more than the first-level cache holds."""
LEAST_WIDTH = 64
"""Elements of a strip in a row of memory, so that loops along it fill vectors."""
FEWEST_TURNS = 4


@dataclass(frozen=True)
class Strips:
    """A scan as one of strips.

    Attributes:
        whole: the scan.
        op: the same on one strip.
        extent: indices in all.
        width: indices of a strip.
        inputs: for each operand the axis that is cut, of xs that of a turn's; None where it is whole.
        outputs: the same for results.
    """

    whole: Scan
    op: Scan
    extent: int
    width: int
    inputs: Axes
    outputs: Axes

    @property
    def count(self) -> int:
        """How many there are."""
        return -(-self.extent // self.width)

    def start(self, number: int) -> int:
        """The first index of a strip."""
        return min(number * self.width, self.extent - self.width)

    def whole_outputs(self, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """The types of the results of the whole scan."""
        return self.whole.output_types(tuple(inputs), GuardLog())


def strips_of(op: Scan, inputs: Sequence[TensorSpec], prepare: Prepare) -> Strips | None:
    """The scan in strips; None where indices depend on each other, or where it would not pay."""
    if not isinstance(op.length, int) or op.length < FEWEST_TURNS or op.has_effects:
        return None
    carry = [spec for spec in inputs[op.num_consts : op.first_xs] if spec.rank]
    if not carry:
        return None
    slices = [*inputs[: op.first_xs], *[_sliced(spec) for spec in inputs[op.first_xs :]]]
    largest = max(carry, key=lambda spec: spec.size)
    program = prepare(op.body.program)
    for axis, extent in enumerate(largest.shape):
        axes = tuple([_axis_of(spec, axis, extent) for spec in slices])
        in_every_turn = zip(slices[: op.first_xs], axes, strict=False)
        size = sum([spec.nbytes for spec, cut in in_every_turn if cut is not None])
        if size < LEAST_BYTES:
            continue
        # Loops along the last axis fill vectors, whether that is cut or not.
        unit = max(1, LEAST_WIDTH // max(1, prod(largest.shape[axis + 1 :])))
        width = STRIP_BYTES * extent // size // unit * unit
        if width < unit or 2 * width > extent:
            continue
        body = _Cut(program, extent, width).body(axes)
        if body is None:
            continue
        part, outputs = body
        if outputs[: op.num_carry] == axes[op.num_consts : op.first_xs]:
            return Strips(op, op.with_parts(part), extent, width, axes, outputs)
    return None


def _sliced(spec: TensorSpec) -> TensorSpec:
    return TensorSpec.of(spec.shape[1:], spec.dtype)


def _axis_of(spec: TensorSpec, axis: int, extent: int) -> int | None:
    """The axis of an operand that may be cut with that axis of the carry: the same one, where it has the extent."""
    if spec.rank > axis and spec.shape[axis] == extent:
        return axis
    return spec.shape.index(extent) if extent in spec.shape else None


def strip_of(spec: TensorSpec, width: int, axis: int | None) -> TensorSpec:
    """The type of a strip of a tensor; the whole's without an axis."""
    if axis is None:
        return spec
    return TensorSpec.of((*spec.shape[:axis], width, *spec.shape[axis + 1 :]), spec.dtype)


class _Cut:
    """A body as it is written for strips.

    Attributes:
        axes: of the values that are strips.
        fills: what repeats numbers in values that are whole, from which strips can be made too.
    """

    def __init__(self, program: GraphProgram, extent: int, width: int) -> None:
        self.program, self.extent, self.width = program, extent, width
        self.graph, self.values = Graph(), dict[int, int]()
        self.axes = dict[int, int]()
        self.fills = dict[int, Instruction]()

    def body(self, inputs: Axes) -> tuple[Subprogram, Axes] | None:
        """The body on a strip, and the axes of its outputs; None where an op reaches across."""
        program, again = self.program, 0
        for slot, axis in zip(program.input_slots, inputs, strict=True):
            spec = strip_of(program.types[slot], self.width, axis)
            self.values[slot] = self.graph.add_input(spec)
            if axis is not None:
                self.axes[slot] = axis
        arguments = list(self.values.values())
        for step in program.instructions:
            specs = [program.types[slot] for slot in (*step.inputs, *step.outputs)]
            if isinstance(step.op, ControlOp) or not all([spec.is_static for spec in specs]):
                return None
            if any([slot in self.axes for slot in step.inputs]):
                if not self._write_strip(step):
                    return None
                continue
            operands = tuple([self.values[slot] for slot in step.inputs])
            outputs = self.graph.add(step.op, operands, step.source)
            self.values.update(zip(step.outputs, outputs, strict=True))
            if isinstance(step.op, Constant | st.BroadcastInDim) and self.extent in specs[-1].shape:
                self.fills[step.outputs[0]] = step
            else:
                again += specs[-1].size
        if again > self.width:  # elements that each strip would compute again
            return None
        part = Subprogram.of(
            self.graph, arguments, [self.values[slot] for slot in program.output_slots]
        )
        return part, tuple([self.axes.get(slot) for slot in program.output_slots])

    def _write_strip(self, step: Instruction) -> bool:
        """Write the op on strips; False where it reaches across."""
        axis = next(self.axes[slot] for slot in step.inputs if slot in self.axes)
        types = [self.program.types[slot] for slot in (*step.inputs, *step.outputs)]
        on_strip = _op_of_strip(step.op, types, axis, self.width)
        if on_strip is None:
            return False
        op, result_axis = on_strip
        operands: list[int] = []
        for slot, spec in zip(step.inputs, types, strict=False):
            operand = self._strip_of(slot, axis) if spec.rank else self.values[slot]
            if operand is None:
                return False
            operands.append(operand)
        self.values[step.outputs[0]], *others = self.graph.add(op, tuple(operands), step.source)
        self.axes[step.outputs[0]] = result_axis
        return not others

    def _strip_of(self, slot: int, axis: int) -> int | None:
        """The value as a strip along the axis."""
        if slot in self.axes:
            return self.values[slot] if self.axes[slot] == axis else None
        step, spec = self.fills.get(slot), self.program.types[slot]
        if step is None or spec.rank <= axis or spec.shape[axis] != self.extent:
            return None
        shape = strip_of(spec, self.width, axis).shape
        op: Any = step.op
        if isinstance(op, st.BroadcastInDim):
            if axis in op.dims:
                return None
            filled: StdTensorOp = st.BroadcastInDim(shape, op.dims)
        else:
            array = op.array
            elements = array.view(np.uint8).reshape(array.size, -1)
            if not (elements == elements[:1]).all():
                return None
            filled = Constant.of(np.broadcast_to(array.flat[0], shape))
        operands = tuple([self.values[each] for each in step.inputs])
        return self.graph.add(filled, operands, step.source)[0]


def _op_of_strip(
    op: StdTensorOp, types: Sequence[TensorSpec], axis: int, width: int
) -> tuple[StdTensorOp, int] | None:
    """The op on strips along an axis, and the axis of the result; None where it reaches across."""
    *operands, y = types
    extent = next(x.shape[axis] for x in operands if x.rank > axis)
    if type(op) in SAME_PLACE:
        same = all([x.shape == y.shape for x in operands if x.rank])
        return (op, axis) if same else None
    if isinstance(op, st.BroadcastInDim):
        end = op.dims[axis]
        return st.BroadcastInDim(strip_of(y, width, end).shape, op.dims), end
    if isinstance(op, st.Reshape):
        # Elements are numbered with the first axis fastest.
        before = prod(operands[0].shape[:axis])
        for end, n in enumerate(y.shape):
            if n == extent and prod(y.shape[:end]) == before:
                return st.Reshape(strip_of(y, width, end).shape), end
        return None
    if isinstance(op, st.Transpose):
        return op, op.perm.index(axis)
    if isinstance(op, st.Concatenate):
        return (op, axis) if op.axis != axis else None
    if type(op) in TOTALS:
        axes: tuple[int, ...] = op.axes  # pyright: ignore[reportAttributeAccessIssue]
        end = axis - len([each for each in axes if each < axis])
        return (op, end) if axis not in axes else None
    if isinstance(op, st.Reverse):
        return (op, axis) if axis not in op.axes else None
    if isinstance(op, st.Slice):
        if (op.starts[axis], op.limits[axis], op.strides[axis]) != (0, extent, 1):
            return None
        limits = (*op.limits[:axis], width, *op.limits[axis + 1 :])
        return replace(op, limits=limits), axis
    if isinstance(op, st.Pad):
        is_whole = (op.low[axis], op.high[axis], op.interior[axis]) == (0, 0, 0)
        return (op, axis) if is_whole else None
    return None
