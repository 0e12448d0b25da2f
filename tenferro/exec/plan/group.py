"""Group: fuses steps that are compiled to one loop over rows.

All values of a fused group have the same leading axes. A row is a slice of a value at one index of these axes. Each row
of a result depends only on the same row of the operands. If all ops are elementwise, all axes are leading, and a row is
one element. A group may contain reductions over axes that are not leading, and broadcasts of their results. A total, a
reduction over leading axes, combines partial results of tiles, and no other step of the group reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from tenferro import costs
from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.compiler import LoopCompiler
from tenferro.exec.kernels import bind_kernel
from tenferro.exec.plan.block import enclosed, step_of
from tenferro.exec.plan.place import free
from tenferro.exec.planned import Fused
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.facts import Fact
from tenferro.ops.structural import BroadcastInDim, Reshape
from tenferro.types import DType, TensorSpec

__all__ = ["VIEWS", "group"]

VIEWS = (BroadcastInDim, Reshape)
"""Ops whose results are views; a view that a step outside the group reads is created again after the group."""

MIN_GROUPED_ELEMENTS = costs.SMALL
"""Minimum number of elements of a value with which a fused group begins."""
MIN_REDUCED_BYTES = 32 * costs.CACHE
"""Minimum size in bytes of the operand of a reduction that is the only step of a group, divided by `Cost.tiled`."""


def group(program: ExecProgram, compiler: LoopCompiler) -> ExecProgram:
    """Return the schedule with fused groups, where compiling saves time.

    A step that cannot be in a group is moved before the group if it reads none of the group's results. Thus groups are
    longer.
    """
    if not any(map(is_large, {id(spec): spec for spec in program.types}.values())):
        return program
    with suppress(NotCompiledError), compiler.log.attempt("estimate of fused groups"):
        return _with_groups(program, compiler.always)
    return program


def _with_groups(program: ExecProgram, always: bool) -> ExecProgram:
    steps: list[ExecInstruction] = []
    readers = program.readers()
    run = _Run(program, readers, always)
    for number, step in enumerate(program.instructions):
        if run.add(number):
            continue
        if run.is_needed_by(step):
            steps += run.finish()
            run = _Run(program, readers, always)
            if run.add(number):
                continue
        steps.append(step)
    steps += run.finish()
    return free(replace(program, instructions=tuple(steps)))


def is_large(spec: TensorSpec) -> bool:
    """Return whether a value of this type is large enough to begin a group."""
    return spec.is_static and spec.size >= MIN_GROUPED_ELEMENTS


def _may_be_grouped(step: ExecInstruction) -> bool:
    from tenferro.exec.llvm.control import COMPILED  # because few programs have large values

    if not (_reduces(step) or _is_view(step) or step.is_elementwise):
        return False
    return not COMPILED.cell(step.op).reason_for(step.op, step.input_types)


@dataclass
class _Run:
    """Group to which steps are added.

    Attributes:
        readers: the numbers of the steps that read each slot.
        always: whether to fuse the group even if compiling it saves no time.
        numbers: the numbers of the steps in the group.
        results: the slots that these steps write.
        totals: the slots of reductions over leading axes.
        shape: the shape of the operands of the first step.
        lead: the number of leading axes.
    """

    program: ExecProgram
    readers: dict[int, list[int]]
    always: bool
    numbers: list[int] = field(default_factory=list)
    results: set[int] = field(default_factory=set)
    totals: set[int] = field(default_factory=set)
    shape: tuple[Any, ...] = ()
    lead: int = 0

    def add(self, index: int) -> bool:
        """Add the step with this number if it fits into the group, and return whether it does."""
        step = self.program.instructions[index]
        if not _may_be_grouped(step) or not self.totals.isdisjoint(step.input_slots):
            return False
        first = step.input_types[0] if _reduces(step) else step.output_types[0]
        if not self.numbers and not is_large(first):
            return False
        is_static = all([spec.is_static for spec in (*step.input_types, *step.output_types)])
        lead = self._lead(step) if is_static else None
        if lead is None:
            return False
        if not self.numbers:
            self.shape = step.input_types[0].shape
        self.lead = lead
        self.numbers.append(index)
        self.results.add(step.output_slots[0])
        if _is_total(step):
            self.totals.add(step.output_slots[0])
        return True

    def is_needed_by(self, step: ExecInstruction) -> bool:
        return not self.results.isdisjoint(step.input_slots)

    def _lead(self, step: ExecInstruction) -> int | None:
        """Return the number of leading axes of the group with this step; None if the step does not fit."""
        op = step.op
        if step.is_elementwise:
            return self._lead_of_elementwise(step)
        if _reduces(step) and op.axes:
            return self._lead_of_reduction(step)
        if _is_view(step) and step.input_slots[0] in self.results:
            x, y = step.input_types[0], step.output_types[0]
            aligned = not isinstance(op, BroadcastInDim) or op.dims[: self.lead] == tuple(
                range(self.lead)
            )
            fits = aligned and self._shares(x) and self._shares(y) and self.lead < len(self.shape)
            return self.lead if fits and y.size <= prod(self.shape) else None
        return None

    def _lead_of_elementwise(self, step: ExecInstruction) -> int | None:
        (y,) = step.output_types
        if not self.numbers:
            return y.rank
        if y.shape == self.shape:
            return self.lead
        return (
            self.lead
            if self.is_needed_by(step) and self._shares(y) and y.size <= prod(self.shape)
            else None
        )

    def _lead_of_reduction(self, step: ExecInstruction) -> int | None:
        x, op = step.input_types[0], step.op
        if self.numbers and not (self.is_needed_by(step) or x.shape == self.shape):
            return None
        shape, lead = (self.shape, self.lead) if self.numbers else (x.shape, x.rank)
        if x.shape[:lead] != shape[:lead]:
            return None
        if _is_total(step):
            # These totals are not fused, because the partial result of each tile would be rounded to 16 bits.
            if x.dtype in (DType.F16, DType.BF16):
                return None
            axes = sorted(op.axes)
            lead = min(lead, sum(axis == i for i, axis in enumerate(axes)))
        else:
            lead = min(lead, *op.axes)
        return lead if prod(shape[lead:]) <= costs.SMALL else None

    def _shares(self, spec: TensorSpec) -> bool:
        return spec.rank >= self.lead and spec.shape[: self.lead] == self.shape[: self.lead]

    def finish(self) -> Iterator[ExecInstruction]:
        """Yield the step of the fused group, and then the views that steps outside the group read.

        If fusing saves no time, yield the steps of the group instead.
        """
        steps = self.program.instructions
        mine, needed = set(self.numbers), set[int]()
        leaving: set[int] = set()
        again: list[int] = []
        for number in reversed(self.numbers):
            step = steps[number]
            (slot,) = step.output_slots
            readers = self.readers.get(slot, [])
            is_outside = slot in leaving or any([reader not in mine for reader in readers])
            if is_outside and _is_view(step):
                again.append(number)
                leaving.discard(slot)
                leaving.update(step.input_slots)
            elif is_outside:
                leaving.add(slot)
            if slot in leaving or any([reader in needed for reader in readers]):
                needed.add(number)
        order = [number for number in self.numbers if number in needed]
        members = [steps[number] for number in order]
        if self._is_worth_fusing(members):
            yield self._fused(members, leaving)
        else:
            yield from members
            again = [number for number in again if number not in needed]
        yield from [steps[number] for number in reversed(again)]

    def _is_worth_fusing(self, members: Sequence[ExecInstruction]) -> bool:
        """Return whether fusing the steps saves more time than compiling takes.

        A large reduction may be the only step of a group, because threads share its tiles.
        """
        if len(members) == 1 and not members[0].is_elementwise:
            tiled = costs.COSTS.cell(members[0].op).tiled
            return members[0].input_types[0].nbytes >= tiled * MIN_REDUCED_BYTES
        return bool(members) and (self.always or _cost(members) >= costs.MIN_COMPILED_COST)

    def _fused(
        self, members: Sequence[ExecInstruction], leaving: Collection[int]
    ) -> ExecInstruction:
        """Return the step of the fused group of these members.

        Args:
            leaving: the slots that steps outside the group read.
        """
        program, types = self.program, self.program.types
        written = [slot for step in members for slot in step.output_slots if slot in leaving]
        results = [slot for slot in written if slot not in self.totals]
        totals = [slot for slot in written if slot in self.totals]
        makers = {step.output_slots[0]: step for step in members}
        moved = {s for step in members if not step.is_elementwise for s in step.input_slots}
        # Constants that are broadcasts of one number become a part of the code.
        constants = {
            slot: value
            for slot, value in program.constants.items()
            if slot not in moved and not any(value.strides)
        }
        body = enclosed(program, members, (*results, *totals), constants)
        op = Fused(
            shape=self.shape,
            lead=self.lead,
            body=body,
            results=tuple([types[slot] for slot in results]),
            totals=tuple([types[slot] for slot in totals]),
            folds=tuple([_fold(makers[slot]) for slot in totals]),
            cost=_cost(members),
        )
        return step_of(op, body)


def _cost(steps: Sequence[ExecInstruction]) -> float:
    """Return the estimated time of the steps in the interpreter, in NumPy calls."""
    return sum([costs.estimated_cost(s.op, s.input_types, s.output_types) for s in steps])


def _fold(step: ExecInstruction) -> Callable[[Any], Any]:
    """Return the function that combines the partial results of a total by a reduction over axis 0."""
    (y,) = step.output_types
    op: Any = replace(step.op, axes=(0,))
    fold = bind_kernel(step.kernel, op, (TensorSpec((1, *y.shape), y.dtype),))
    return lambda shares: np.asarray(fold(shares))


def _is_view(step: ExecInstruction) -> bool:
    return type(step.op) in VIEWS


def _reduces(step: ExecInstruction) -> bool:
    return Fact.REDUCES in step.facts


def _is_total(step: ExecInstruction) -> bool:
    return _reduces(step) and 0 in step.op.axes
