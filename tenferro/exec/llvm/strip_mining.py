"""Strip-mining of scans whose carry is computed elementwise.

If the ops of a scan over long arrays are elementwise, the carry is cut into strips along an axis. All iterations run on
one strip, then on the next. The carry of a strip stays in the first-level cache, and threads run strips in parallel.
The bits of the results are the same. `tenferro.exec.llvm.strip_loop` writes the code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from tenferro.dims import GuardLog
from tenferro.exec.llvm.tensor import Specs
from tenferro.graph import Graph, Instruction
from tenferro.ops import StdTensorOp, analytic, elementwise
from tenferro.ops.control import Scan
from tenferro.ops.source import Constant
from tenferro.ops.structural import BroadcastInDim
from tenferro.program import GraphProgram, Subprogram
from tenferro.types import TensorSpec

__all__ = ["Axes", "StripMinedScan", "strip_mine", "strip_spec"]

Axes: TypeAlias = "tuple[int | None, ...]"
"""Strip-mined axis of each value; None for a value that is not cut into strips."""
ELEMENTWISE = frozenset((*elementwise.CARDS, *analytic.CARDS))
STRIP_BYTES = 1 << 14
"""Size in bytes of a strip's carry and constants: half of a small first-level cache."""
MIN_CARRY_BYTES = 1 << 16
"""Minimum size in bytes of the carry and constants of a strip-mined loop: more than the first-level cache."""
MIN_STRIP_WIDTH = 64
"""Minimum number of contiguous elements of a strip, so that they fill vectors."""
MIN_ITERATIONS = 4
"""Minimum number of iterations of a strip-mined scan."""


@dataclass(frozen=True)
class StripMinedScan:
    """Scan on a strip, and the strips of the operands and results.

    Attributes:
        op: the scan on one strip.
        width: the extent of a strip along the strip-mined axis.
        starts: the first index of each strip.
        inputs: the strip-mined axis of each operand, or None; for stacked operands, the axis of a slice.
        outputs: the strip-mined axis of each result in one iteration, or None.
        types: the types of the results of the original scan.
    """

    op: Scan
    width: int
    starts: Sequence[int]
    inputs: Axes
    outputs: Axes
    types: Specs


def strip_mine(op: Scan, inputs: Specs) -> StripMinedScan | None:
    """Return the strip-mined scan; None if its ops are not elementwise, or if strips would save no time."""
    if not isinstance(op.length, int) or op.length < MIN_ITERATIONS or op.has_effects:
        return None
    carry = [spec for spec in inputs[op.num_consts : op.first_xs] if spec.rank]
    if not carry:
        return None
    slices = [TensorSpec.of(spec.shape[1:], spec.dtype) for spec in inputs[op.first_xs :]]
    slices = [*inputs[: op.first_xs], *slices]
    largest = max(carry, key=lambda spec: spec.size)
    program = op.body.program
    for axis, extent in enumerate(largest.shape):
        axes = tuple([axis if spec.shape == largest.shape else None for spec in slices])
        invariant = zip(slices[: op.first_xs], axes, strict=False)
        size = sum([spec.nbytes for spec, cut in invariant if cut is not None])
        if size < MIN_CARRY_BYTES:
            continue
        # The width is a multiple of `unit`, so that the contiguous elements of a strip fill vectors.
        unit = max(1, MIN_STRIP_WIDTH // max(1, prod(largest.shape[axis + 1 :])))
        width = STRIP_BYTES * extent // size // unit * unit
        if width < unit or 2 * width > extent:
            continue
        body = _StripWriter(program, axis, width).body(axes)
        if body is None:
            continue
        subprogram, outputs = body
        if outputs[: op.num_carry] == axes[op.num_consts : op.first_xs]:
            starts = [min(first, extent - width) for first in range(0, extent, width)]
            types = op.output_types(tuple(inputs), GuardLog())
            return StripMinedScan(op.with_parts(subprogram), width, starts, axes, outputs, types)
    return None


def strip_spec(spec: TensorSpec, width: int, axis: int | None) -> TensorSpec:
    """Return the type of a strip of a tensor along an axis; if the axis is None, of the tensor."""
    if axis is None:
        return spec
    return TensorSpec.of((*spec.shape[:axis], width, *spec.shape[axis + 1 :]), spec.dtype)


class _StripWriter:
    """Writer of a scan's body on a strip along an axis.

    Attributes:
        strips: the slots whose values are strips.
        fills: the instructions of constants and broadcasts, by slot, which can also be written for a strip.
    """

    def __init__(self, program: GraphProgram, axis: int, width: int) -> None:
        self.program, self.axis, self.width = program, axis, width
        self.graph, self.values = Graph(), dict[int, int]()
        self.strips = set[int]()
        self.fills = dict[int, Instruction]()

    def body(self, inputs: Axes) -> tuple[Subprogram, Axes] | None:
        """Return the body on a strip, and the strip-mined axes of its outputs; None if strips are not possible."""
        program, recomputed = self.program, 0
        for slot, axis in zip(program.input_slots, inputs, strict=True):
            spec = strip_spec(program.types[slot], self.width, axis)
            self.values[slot] = self.graph.add_input(spec)
            if axis is not None:
                self.strips.add(slot)
        arguments = list(self.values.values())
        for step in program.instructions:
            specs = [program.types[slot] for slot in (*step.inputs, *step.outputs)]
            if step.op.parts or not all([spec.is_static for spec in specs]):
                return None
            if not self.strips.isdisjoint(step.inputs):
                if not self._write_strip(step, specs):
                    return None
                continue
            operands = tuple([self.values[slot] for slot in step.inputs])
            outputs = self.graph.add(step.op, operands, step.source)
            self.values.update(zip(step.outputs, outputs, strict=True))
            if isinstance(step.op, Constant | BroadcastInDim) and specs[-1].rank:
                self.fills[step.outputs[0]] = step
            else:
                recomputed += specs[-1].size
        if recomputed > self.width:  # because each strip would compute these elements again
            return None
        results = [self.values[slot] for slot in program.output_slots]
        subprogram = Subprogram.of(self.graph, arguments, results)
        axes = [self.axis if slot in self.strips else None for slot in program.output_slots]
        return subprogram, tuple(axes)

    def _write_strip(self, step: Instruction, specs: Specs) -> bool:
        """Write an op on strips; return False if it is not elementwise, or if an operand has no strip."""
        shapes = {spec.shape for spec in specs if spec.rank}
        if type(step.op) not in ELEMENTWISE or len(shapes) > 1:
            return False
        strips = [self._strip(slot) for slot in step.inputs]
        operands = [strip for strip in strips if strip is not None]
        if len(operands) < len(strips):
            return False
        (slot,) = step.outputs
        (self.values[slot],) = self.graph.add(step.op, tuple(operands), step.source)
        self.strips.add(slot)
        return True

    def _strip(self, slot: int) -> int | None:
        """Return the strip of a slot's value, for a scalar the scalar; None if it has no strip."""
        spec = self.program.types[slot]
        if slot in self.strips or not spec.rank:
            return self.values[slot]
        step = self.fills.get(slot)
        if step is None:
            return None
        shape = strip_spec(spec, self.width, self.axis).shape
        op: Any = step.op
        if isinstance(op, BroadcastInDim):
            if self.axis in op.dims:
                return None
            filled: StdTensorOp = BroadcastInDim(shape, op.dims)
        else:
            array = op.array
            elements = array.view(np.uint8).reshape(array.size, -1)
            if not (elements == elements[:1]).all():
                return None
            filled = Constant.of(np.broadcast_to(array.flat[0], shape))
        operands = tuple([self.values[operand] for operand in step.inputs])
        return self.graph.add(filled, operands, step.source)[0]
