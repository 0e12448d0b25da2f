"""Shrink dots of broadcast operands, so that each repeated element is multiplied once.

A dot is computed without the free axes along which an operand is broadcast, and the result is broadcast instead. A dot
with an operand of ones is rewritten as a sum of the other operand. Derivatives of sums of products contain many dots of
both kinds.

Small dots are not rewritten. Dots of x with another constant operand c are not rewritten either. If x has infinities,
the sum of the products x c may differ from c times the sum of x. Complex dots with ones are not rewritten, because a
product with one changes complex infinities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

from tenferro import costs
from tenferro.graph import SourceLine
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.reduction import ReduceSum
from tenferro.ops.structural import BroadcastInDim
from tenferro.passes.clean_up import is_splat_of
from tenferro.program import GraphProgram
from tenferro.program.rewrite import Producers, Values, rewrite
from tenferro.types import TensorSpec

__all__ = ["shrink_dots"]

MIN_MULTIPLICATIONS = round(costs.MIN_PARALLEL_COST * costs.MULTIPLICATIONS)
"""Minimum number of multiplications of a dot that is rewritten. From this size on, several threads compute a dot.
"""


def shrink_dots(program: GraphProgram) -> GraphProgram:
    """Return the program with large dots of broadcast operands shrunk."""
    return rewrite(program, {DotGeneral: _shrunk})


def _shrunk(
    producers: Producers, op: DotGeneral, inputs: Values, source: SourceLine | None
) -> Values | None:
    if not _is_large(op, [producers.types[x] for x in inputs]):
        return None
    dot = _Dot.of(producers, op, inputs, source)
    return dot.sum_of_other() or dot.without_repeats()


def _is_large(op: DotGeneral, inputs: Sequence[TensorSpec]) -> bool:
    """Return whether a dot has enough multiplications for the rewrite to pay for its additional instructions."""
    if not all([spec.is_static for spec in inputs]):
        return False
    (y,) = op.infer(*inputs)
    return (
        y.size * prod(inputs[0].shape[axis] for axis in op.lhs_contracting) >= MIN_MULTIPLICATIONS
    )


class _Axis(NamedTuple):
    """Role of an axis of an operand or result of a dot.

    The axis is a free axis, or belongs to a numbered pair of batch or contracting axes of both operands.
    """

    kind: str
    number: int


@dataclass(frozen=True)
class _Dot:
    """Dot whose axes are identified by their roles.

    Attributes:
        axes: the roles of the axes of lhs, and the roles of the axes of rhs, in order.
        result: the roles of the axes of the result, in order.
    """

    producers: Producers
    op: DotGeneral
    inputs: Values
    source: SourceLine | None
    axes: tuple[tuple[_Axis, ...], tuple[_Axis, ...]]

    @classmethod
    def of(
        cls, producers: Producers, op: DotGeneral, inputs: Values, source: SourceLine | None
    ) -> _Dot:
        """Return a description of the dot `op` in which each axis has a role."""
        sides: list[tuple[_Axis, ...]] = []
        lists = ((op.lhs_batch, op.lhs_contracting), (op.rhs_batch, op.rhs_contracting))
        for side, (value, (batch, contracting)) in enumerate(zip(inputs, lists, strict=True)):
            paired = {axis: _Axis("batch", i) for i, axis in enumerate(batch)}
            paired |= {axis: _Axis("contracting", i) for i, axis in enumerate(contracting)}
            rank = producers.types[value].rank
            sides.append(tuple([paired.get(i, _Axis(f"free {side}", i)) for i in range(rank)]))
        return cls(producers, op, inputs, source, (sides[0], sides[1]))

    @property
    def result(self) -> tuple[_Axis, ...]:
        """The roles of the axes of the result: batch axes, free axes of lhs, free axes of rhs."""
        batch = tuple([_Axis("batch", i) for i in range(len(self.op.lhs_batch))])
        free = [axis for axes in self.axes for axis in axes if axis.kind.startswith("free")]
        return (*batch, *free)

    def sum_of_other(self) -> Values | None:
        """Emit a sum of one operand if all elements of the other operand are one; return None otherwise."""
        if (
            self.op.accumulate_dtype is not None
            or self.producers.types[self.inputs[0]].dtype.is_complex
        ):
            return None
        for side in (1, 0):
            if not is_splat_of(self.producers, self.inputs[side], 1):
                continue
            operand, axes = self.inputs[1 - side], self.axes[1 - side]
            summed = tuple([i for i, axis in enumerate(axes) if axis.kind == "contracting"])
            remaining = [axis for axis in axes if axis.kind != "contracting"]
            (total,) = (
                self.producers.apply(ReduceSum(summed), (operand,), self.source)
                if summed
                else (operand,)
            )
            return self._broadcast(total, remaining)
        return None

    def without_repeats(self) -> Values | None:
        """Emit the dot without the free axes along which operands are broadcast, and broadcast its result."""
        inputs, sides = list(self.inputs), list(self.axes)
        for side in (0, 1):
            repeat: Any = self.producers.of(inputs[side], BroadcastInDim)
            if repeat is None:
                continue
            axes, dims, shape = sides[side], repeat.op.dims, repeat.op.shape
            remaining = [
                i
                for i, axis in enumerate(axes)
                if i in dims or not axis.kind.startswith("free") or shape[i] == 1
            ]
            if len(remaining) == len(axes):
                continue
            smaller = BroadcastInDim(
                tuple([shape[i] for i in remaining]), tuple([remaining.index(i) for i in dims])
            )
            sides[side] = tuple([axes[i] for i in remaining])
            inputs[side] = self.producers.apply(smaller, repeat.inputs, self.source)[0]
        if tuple(inputs) == self.inputs:
            return None
        positions = [{axis: i for i, axis in enumerate(axes)} for axes in sides]

        def listed(kind: str, side: int) -> tuple[int, ...]:
            count = len(self.op.lhs_batch if kind == "batch" else self.op.lhs_contracting)
            return tuple([positions[side][_Axis(kind, i)] for i in range(count)])

        smaller_dot = replace(
            self.op,
            lhs_batch=listed("batch", 0),
            rhs_batch=listed("batch", 1),
            lhs_contracting=listed("contracting", 0),
            rhs_contracting=listed("contracting", 1),
        )
        (product,) = self.producers.apply(smaller_dot, tuple(inputs), self.source)
        axes_of_result = [
            axis for axis in self.result if axis.kind == "batch" or axis in sides[0] + sides[1]
        ]
        return self._broadcast(product, axes_of_result)

    def _broadcast(self, value: int, axes: list[_Axis]) -> tuple[int, ...]:
        """Broadcast a value to the shape of the dot's result. `axes` are the roles of the value's axes."""
        result = self.result
        (spec,) = self.op.infer(*[self.producers.types[x] for x in self.inputs])
        dims = tuple([result.index(axis) for axis in axes])
        if dims == tuple(range(len(result))):
            return (value,)
        return self.producers.apply(BroadcastInDim(spec.shape, dims), (value,), self.source)
