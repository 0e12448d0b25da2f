"""Which instructions run together, tile by tile.

A group works on rows: every value in it has the same leading axes, and what becomes of a row depends on
that row alone. Elementwise ops do so over all axes; sums along trailing axes, and what repeats a row's
number along the row, leave the axes in front of them. A reduction over the leading axes can end a group:
each tile gives its share, and the shares are combined afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from tenferro.exec.kernels import is_elementwise
from tenferro.ops import StdTensorOp
from tenferro.ops import reduction as re
from tenferro.ops.structural import BroadcastInDim, Reshape
from tenferro.types import DType, TensorSpec

if TYPE_CHECKING:
    from tenferro.exec.exec_program import ExecInstruction, ExecProgram

__all__ = ["REDUCTIONS", "Group", "grouped", "is_large"]

REDUCTIONS = (
    re.ReduceSum,
    re.ReduceProd,
    re.ReduceMax,
    re.ReduceMin,
    re.ReduceAnd,
    re.ReduceOr,
)
VIEWS = (BroadcastInDim, Reshape)
"""Ops that take no memory: one whose result is needed outside is done there once more."""
SMALLEST = 1 << 16
"""Elements of a shape whose instructions are worth grouping."""
LONGEST_ROW = 1 << 16
"""Elements of a row, where rows stay whole."""


def _may_be_grouped(op: StdTensorOp) -> bool:
    return isinstance(op, (*REDUCTIONS, *VIEWS)) or is_elementwise(op)


@dataclass(frozen=True)
class Group:
    """Instructions that run tile by tile.

    Attributes:
        instructions: their numbers.
        takes, gives: slots from outside, and those that are needed outside.
        totals: slots of reductions over the leading axes, which only the end of the group knows.
        shape: of the largest values in the group.
        lead: how many leading axes all values share.
    """

    instructions: tuple[int, ...]
    takes: tuple[int, ...]
    gives: tuple[int, ...]
    totals: tuple[int, ...]
    shape: tuple[int, ...]
    lead: int

    @property
    def makes(self) -> tuple[int, ...]:
        """Slots that are written for the outside."""
        return (*self.gives, *self.totals)


def is_large(spec: TensorSpec) -> bool:
    """Whether a group may begin with a value of this type."""
    return spec.is_static and spec.size >= SMALLEST


def grouped(
    program: ExecProgram, specs: Sequence[Any], skipped: Sequence[bool]
) -> Iterator[int | Group]:
    """The instructions in an order that keeps what depends on what, runs that belong together as groups.

    An instruction that needs nothing of the run before it goes ahead of it, so that runs are long.
    """
    if not program.has_large_arrays:
        yield from [index for index, is_skipped in enumerate(skipped) if not is_skipped]
        return
    readers: dict[int, list[int]] = {}
    for index, step in enumerate(program.instructions):
        for slot in step.input_slots:
            readers.setdefault(slot, []).append(index)
    for slot in program.output_slots:
        readers.setdefault(slot, []).append(-1)
    run = _Run(program, specs, readers)
    for index, step in enumerate(program.instructions):
        if skipped[index]:
            continue
        if run.take(index):
            continue
        if not run.made.keys().isdisjoint(step.input_slots):
            yield from run.finish()
            run = _Run(program, specs, readers)
            if run.take(index):
                continue
        yield index
    yield from run.finish()


@dataclass
class _Run:
    """A group that is being collected."""

    program: ExecProgram
    specs: Sequence[TensorSpec]
    readers: dict[int, list[int]]
    instructions: list[int] = field(default_factory=list)
    made: dict[int, None] = field(default_factory=dict)
    totals: set[int] = field(default_factory=set)
    shape: tuple[Any, ...] = ()
    lead: int = 0

    def take(self, index: int) -> bool:
        """Take the instruction in, if it fits."""
        step = self.program.instructions[index]
        if not _may_be_grouped(step.op) or not self.totals.isdisjoint(step.input_slots):
            return False
        if not self.instructions and not self._is_large(step):
            return False
        if not all([self.specs[s].is_static for s in (*step.input_slots, *step.output_slots)]):
            return False
        lead = self._lead(step)
        if lead is None:
            return False
        if not self.instructions:
            self.shape = self.specs[step.input_slots[0]].shape
        self.lead = lead
        self.instructions.append(index)
        self.made[step.output_slots[0]] = None
        if _is_total(step):
            self.totals.add(step.output_slots[0])
        return True

    def _is_large(self, step: ExecInstruction) -> bool:
        """Whether a group may begin with it: by its result, or by what it reduces."""
        x = self.specs[step.input_slots[0]] if isinstance(step.op, REDUCTIONS) else None
        return is_large(step.output_types[0] if x is None else x)

    def _lead(self, step: ExecInstruction) -> int | None:
        """How many leading axes the group has with this instruction in it; None where it does not fit."""
        op, kind = step.op, type(step.op)
        if is_elementwise(op):
            return self._lead_of_elementwise(step)
        if isinstance(op, REDUCTIONS) and op.axes:
            return self._lead_of_reduction(step)
        if kind in VIEWS and step.input_slots[0] in self.made:
            x, y = self.specs[step.input_slots[0]], step.output_types[0]
            aligned = not isinstance(op, BroadcastInDim) or op.dims[: self.lead] == tuple(
                range(self.lead)
            )
            fits = aligned and self._shares(x) and self._shares(y) and self.lead < len(self.shape)
            return self.lead if fits and y.size <= prod(self.shape) else None
        return None

    def _lead_of_elementwise(self, step: ExecInstruction) -> int | None:
        (y,) = step.output_types
        if not self.instructions:
            return y.rank
        if y.shape == self.shape:
            return self.lead
        needed = not self.made.keys().isdisjoint(step.input_slots)
        return self.lead if needed and self._shares(y) and y.size <= prod(self.shape) else None

    def _lead_of_reduction(self, step: ExecInstruction) -> int | None:
        slot, op = step.input_slots[0], step.op
        assert isinstance(op, REDUCTIONS)
        x = self.specs[slot]
        if self.instructions and not (slot in self.made or x.shape == self.shape):
            return None
        shape, lead = (self.shape, self.lead) if self.instructions else (x.shape, x.rank)
        if x.shape[:lead] != shape[:lead]:
            return None
        if _is_total(step):
            # A share of every tile in a narrow float would be rounded once more than the whole.
            if x.dtype in (DType.F16, DType.BF16) or not self.instructions:
                return None
            axes = sorted(op.axes)
            lead = min(lead, sum(axis == i for i, axis in enumerate(axes)))
        else:
            lead = min(lead, *op.axes)
        return lead if prod(shape[lead:]) <= LONGEST_ROW else None

    def _shares(self, spec: TensorSpec) -> bool:
        return spec.rank >= self.lead and spec.shape[: self.lead] == self.shape[: self.lead]

    def finish(self) -> Iterator[int | Group]:
        """The group, and once more the views that are needed outside; a single reduction by itself."""
        steps = self.program.instructions
        mine, kept = set(self.instructions), set[int]()
        given: set[int] = set()
        again: list[int] = []
        for index in reversed(self.instructions):
            step = steps[index]
            (slot,) = step.output_slots
            read = self.readers.get(slot, [])
            inside = any(reader in kept for reader in read)
            outside = slot in given or any(reader not in mine for reader in read)
            if outside and type(step.op) in VIEWS:
                again.append(index)
                given.discard(slot)
                given.update(step.input_slots)
            elif outside:
                given.add(slot)
            if inside or slot in given:
                kept.add(index)
        order = [index for index in self.instructions if index in kept]
        if len(order) < 2 and not (order and is_elementwise(steps[order[0]].op)):
            yield from order
        else:
            made = {steps[index].output_slots[0]: None for index in order}
            taken = dict.fromkeys(s for index in order for s in steps[index].input_slots)
            yield Group(
                instructions=tuple(order),
                takes=tuple([slot for slot in taken if slot not in made]),
                gives=tuple([s for s in made if s in given and s not in self.totals]),
                totals=tuple([s for s in made if s in given and s in self.totals]),
                shape=self.shape,
                lead=self.lead,
            )
        yield from reversed(again)


def _is_total(step: ExecInstruction) -> bool:
    return isinstance(step.op, REDUCTIONS) and 0 in step.op.axes
