"""Strip-mining of scans whose iterations are independent along an axis.

A scan over long arrays reads and writes its carry in each iteration. If the indices of one axis are independent, the
scan is interchanged with a loop over strips of that axis. The carry of a strip then stays in the first-level cache, and
threads run strips in parallel. Results have the same bits.

`tenferro.exec.llvm.strip_loop` compiles and runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tenferro.dims import GuardLog
from tenferro.exec.llvm.control import Prepare
from tenferro.exec.llvm.tensor import Specs
from tenferro.facts import FACTS, Fact
from tenferro.graph import Graph, Instruction
from tenferro.ops import StdTensorOp, analytic, elementwise
from tenferro.ops import structural as st
from tenferro.ops.control import Scan
from tenferro.ops.source import Constant
from tenferro.program import GraphProgram, Subprogram
from tenferro.types import TensorSpec

__all__ = ["Axes", "StripMinedScan", "strip_mine", "strip_spec"]

Axes: TypeAlias = "tuple[int | None, ...]"
"""Strip-mined axis of each value, or None."""
ELEMENTWISE = frozenset((*elementwise.CARDS, *analytic.CARDS))
STRIP_BYTES = 1 << 14
"""Size of a strip's carry and constants, half of a small first-level cache."""
MIN_CARRY_BYTES = 1 << 16
"""Minimum size of the carry and constants of a strip-mined loop, more than the first-level cache."""
MIN_STRIP_WIDTH = 64
"""Minimum number of contiguous elements of a strip, which fill vectors."""
MIN_ITERATIONS = 4
"""Minimum number of iterations of a strip-mined scan."""


@dataclass(frozen=True)
class StripMinedScan:
    """Strip-mined scan.

    Attributes:
        original: the original scan.
        op: the scan on one strip.
        extent: extent of the strip-mined axis.
        width: extent of a strip.
        inputs: strip-mined axis of each operand, or None; for xs the axis of a slice.
        outputs: strip-mined axis of each result, or None.
    """

    original: Scan
    op: Scan
    extent: int
    width: int
    inputs: Axes
    outputs: Axes

    @property
    def count(self) -> int:
        """Number of strips."""
        return -(-self.extent // self.width)

    def start(self, number: int) -> int:
        """Return the first index of a strip."""
        return min(number * self.width, self.extent - self.width)

    def output_types(self, inputs: Specs) -> tuple[TensorSpec, ...]:
        """Return the types of the results of the original scan."""
        return self.original.output_types(tuple(inputs), GuardLog())


def strip_mine(op: Scan, inputs: Specs, prepare: Prepare) -> StripMinedScan | None:
    """Return the strip-mined scan, or None if indices depend on each other or strips save no time."""
    if not isinstance(op.length, int) or op.length < MIN_ITERATIONS or op.has_effects:
        return None
    carry = [spec for spec in inputs[op.num_consts : op.first_xs] if spec.rank]
    if not carry:
        return None
    slices = [TensorSpec.of(spec.shape[1:], spec.dtype) for spec in inputs[op.first_xs :]]
    slices = [*inputs[: op.first_xs], *slices]
    largest = max(carry, key=lambda spec: spec.size)
    program = prepare(op.body.program)
    for axis, extent in enumerate(largest.shape):
        axes = tuple([_strip_axis(spec, axis, extent) for spec in slices])
        invariant = zip(slices[: op.first_xs], axes, strict=False)
        size = sum([spec.nbytes for spec, cut in invariant if cut is not None])
        if size < MIN_CARRY_BYTES:
            continue
        # Contiguous elements of a strip fill vectors.
        unit = max(1, MIN_STRIP_WIDTH // max(1, prod(largest.shape[axis + 1 :])))
        width = STRIP_BYTES * extent // size // unit * unit
        if width < unit or 2 * width > extent:
            continue
        body = _StripWriter(program, extent, width).body(axes)
        if body is None:
            continue
        subprogram, outputs = body
        if outputs[: op.num_carry] == axes[op.num_consts : op.first_xs]:
            return StripMinedScan(op, op.with_parts(subprogram), extent, width, axes, outputs)
    return None


def _strip_axis(spec: TensorSpec, axis: int, extent: int) -> int | None:
    """Return the axis of an operand that may be strip-mined with an axis of the carry, preferably the same one."""
    if spec.rank > axis and spec.shape[axis] == extent:
        return axis
    return spec.shape.index(extent) if extent in spec.shape else None


def strip_spec(spec: TensorSpec, width: int, axis: int | None) -> TensorSpec:
    """Return the type of a strip along an axis; for None that of the tensor."""
    if axis is None:
        return spec
    return TensorSpec.of((*spec.shape[:axis], width, *spec.shape[axis + 1 :]), spec.dtype)


class _StripWriter:
    """Writer of a scan's body for strips.

    Attributes:
        axes: strip-mined axis of each value that is a strip.
        fills: constants and broadcasts, which can be written for strips too.
    """

    def __init__(self, program: GraphProgram, extent: int, width: int) -> None:
        self.program, self.extent, self.width = program, extent, width
        self.graph, self.values = Graph(), dict[int, int]()
        self.axes = dict[int, int]()
        self.fills = dict[int, Instruction]()

    def body(self, inputs: Axes) -> tuple[Subprogram, Axes] | None:
        """Return the body on a strip and the axes of its outputs, or None if an op mixes strips."""
        program, recomputed = self.program, 0
        for slot, axis in zip(program.input_slots, inputs, strict=True):
            spec = strip_spec(program.types[slot], self.width, axis)
            self.values[slot] = self.graph.add_input(spec)
            if axis is not None:
                self.axes[slot] = axis
        arguments = list(self.values.values())
        for step in program.instructions:
            specs = [program.types[slot] for slot in (*step.inputs, *step.outputs)]
            if step.op.parts or not all([spec.is_static for spec in specs]):
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
                recomputed += specs[-1].size
        if recomputed > self.width:  # elements that each strip would compute
            return None
        results = [self.values[slot] for slot in program.output_slots]
        subprogram = Subprogram.of(self.graph, arguments, results)
        return subprogram, tuple([self.axes.get(slot) for slot in program.output_slots])

    def _write_strip(self, step: Instruction) -> bool:
        """Write an op on strips and return whether it does not mix them."""
        axis = next(self.axes[slot] for slot in step.inputs if slot in self.axes)
        types = [self.program.types[slot] for slot in (*step.inputs, *step.outputs)]
        on_strip = _strip_op(step.op, types, axis, self.width)
        if on_strip is None:
            return False
        op, result_axis = on_strip
        operands: list[int] = []
        for slot, spec in zip(step.inputs, types, strict=False):
            operand = self._strip(slot, axis) if spec.rank else self.values[slot]
            if operand is None:
                return False
            operands.append(operand)
        self.values[step.outputs[0]], *others = self.graph.add(op, tuple(operands), step.source)
        self.axes[step.outputs[0]] = result_axis
        return not others

    def _strip(self, slot: int, axis: int) -> int | None:
        """Return the value as a strip along an axis, or None."""
        if slot in self.axes:
            return self.values[slot] if self.axes[slot] == axis else None
        step, spec = self.fills.get(slot), self.program.types[slot]
        if step is None or spec.rank <= axis or spec.shape[axis] != self.extent:
            return None
        shape = strip_spec(spec, self.width, axis).shape
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
        operands = tuple([self.values[operand] for operand in step.inputs])
        return self.graph.add(filled, operands, step.source)[0]


class _Strips(NamedTuple):
    """An op whose operands are cut into strips.

    Attributes:
        axis: axis of the operands that is cut.
        extent: its extent.
        width: width of a strip.
        operand: type of the first operand.
        y: type of the result.
    """

    axis: int
    extent: int
    width: int
    operand: TensorSpec
    y: TensorSpec


OnStrips: TypeAlias = tuple[StdTensorOp, int] | None
"""An op on strips and the axis of its result that is cut; None if it mixes strips."""


def _strip_op(
    op: StdTensorOp, types: Specs, axis: int, width: int
) -> tuple[StdTensorOp, int] | None:
    """Return the op on strips along an axis and the axis of the result, or None if it mixes strips."""
    *operands, y = types
    if type(op) in ELEMENTWISE:
        same = all([x.shape == y.shape for x in operands if x.rank])
        return (op, axis) if same else None
    extent = next(x.shape[axis] for x in operands if x.rank > axis)
    rule = _totals if Fact.REDUCES in FACTS.cell(op) else RULES.get(type(op))
    return None if rule is None else rule(op, _Strips(axis, extent, width, operands[0], y))


def _broadcast(op: st.BroadcastInDim, strips: _Strips) -> OnStrips:
    end = op.dims[strips.axis]
    return st.BroadcastInDim(strip_spec(strips.y, strips.width, end).shape, op.dims), end


def _reshape(op: st.Reshape, strips: _Strips) -> OnStrips:
    # Reshapes are column-major.
    before = prod(strips.operand.shape[: strips.axis])
    for end, n in enumerate(strips.y.shape):
        if n == strips.extent and prod(strips.y.shape[:end]) == before:
            return st.Reshape(strip_spec(strips.y, strips.width, end).shape), end
    return None


def _totals(op: Any, strips: _Strips) -> OnStrips:
    end = strips.axis - len([reduced for reduced in op.axes if reduced < strips.axis])
    return (op, end) if strips.axis not in op.axes else None


def _slice(op: st.Slice, strips: _Strips) -> OnStrips:
    axis = strips.axis
    if (op.starts[axis], op.limits[axis], op.strides[axis]) != (0, strips.extent, 1):
        return None
    limits = (*op.limits[:axis], strips.width, *op.limits[axis + 1 :])
    return replace(op, limits=limits), axis


def _pad(op: st.Pad, strips: _Strips) -> OnStrips:
    axis = strips.axis
    is_whole = (op.low[axis], op.high[axis], op.interior[axis]) == (0, 0, 0)
    return (op, axis) if is_whole else None


RULES: Mapping[type[StdTensorOp], Callable[[Any, _Strips], OnStrips]] = {
    st.BroadcastInDim: _broadcast,
    st.Reshape: _reshape,
    st.Transpose: lambda op, strips: (op, op.perm.index(strips.axis)),
    st.Concatenate: lambda op, strips: (op, strips.axis) if op.axis != strips.axis else None,
    st.Reverse: lambda op, strips: (op, strips.axis) if strips.axis not in op.axes else None,
    st.Slice: _slice,
    st.Pad: _pad,
}
"""Ops of structure on strips; others mix them."""
