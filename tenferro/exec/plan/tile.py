"""Tile: the schedule for one tile of a fused group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tenferro.costs import estimated_cost
from tenferro.exec.kernels import bind_kernel
from tenferro.exec.kernels.row_sums import sum_of_products, sums_single_elements, supports_row_sums
from tenferro.exec.plan.alias import may_view
from tenferro.exec.plan.place import free
from tenferro.exec.planned import Fused, OnTile, Write
from tenferro.exec.schedule import ExecInstruction, ExecProgram, InPlace
from tenferro.facts import Fact
from tenferro.ops import StdTensorOp
from tenferro.ops import reduction as re
from tenferro.ops.elementwise import Multiply
from tenferro.ops.structural import BroadcastInDim, Reshape
from tenferro.types import DType, TensorSpec

__all__ = ["VIEWS", "Group", "tile_group"]

ROWS = TensorSpec((), DType.I64)
"""Type of the number of rows of a tile."""


@dataclass(frozen=True)
class Group:
    """Steps that run tile by tile.

    Attributes:
        shape: shape of the largest values in the group.
        lead: number of leading axes that all values share.
        leaving: slots that are read outside.
        totals: slots of reductions over the leading axes.
    """

    steps: tuple[ExecInstruction, ...]
    shape: tuple[int, ...]
    lead: int
    leaving: Collection[int]
    totals: Collection[int]

    @property
    def operands(self) -> list[int]:
        """Slots that are read from outside."""
        inside = {slot for step in self.steps for slot in step.output_slots}
        read = dict.fromkeys([slot for step in self.steps for slot in step.input_slots])
        return [slot for slot in read if slot not in inside]


def tile_group(program: ExecProgram, group: Group) -> ExecInstruction:
    """Return the step of a group."""
    written = [slot for step in group.steps for slot in step.output_slots if slot in group.leaving]
    results = [slot for slot in written if slot not in group.totals]
    totals = [slot for slot in written if slot in group.totals]
    makers = {step.output_slots[0]: step for step in group.steps}
    bodies = {lead: _Body(program, group, results, totals, lead) for lead in {1, group.lead}}
    body = bodies[group.lead]
    types = program.types
    op = Fused(
        shape=group.shape,
        lead=group.lead,
        tiles={lead: body.schedule() for lead, body in bodies.items()},
        operands=tuple([types[slot] for slot in body.operands]),
        scratch=tuple(body.scratch.values()),
        results=tuple([types[slot] for slot in results]),
        totals=tuple([types[slot] for slot in totals]),
        folds=tuple([_fold(makers[slot]) for slot in totals]),
        members=group.steps,
        cost=sum([estimated_cost(s.op, s.input_types, s.output_types) for s in group.steps]),
    )
    return ExecInstruction(
        op=op,
        input_slots=tuple(body.operands),
        output_slots=(*results, *totals),
        input_types=tuple([types[slot] for slot in body.operands]),
        kernels=program.kernels,
        output_types=(*op.results, *op.totals),
        source=group.steps[0].source,
        origin=tuple([number for step in group.steps for number in step.origin]),
    )


def _fold(step: ExecInstruction) -> Callable[[Any], Any]:
    """Return the function that combines the partial results of a total: the reduction over the first axis."""
    (y,) = step.output_types
    op: Any = replace(step.op, axes=(0,))
    fold = bind_kernel(step.kernel, op, (TensorSpec((1, *y.shape), y.dtype),))
    return lambda shares: np.asarray(fold(shares))


class _Body:
    """Builder of the schedule of a tile; scratch is reused after the last use of a value.

    Slots are those of the program, and new ones for the number of rows, scratch, results and shares.

    Attributes:
        scratch: types of whole values, by the slot of their buffer.
        broadcast: slots whose tile has extents of one where elements are repeated.
        root: the slot whose memory a view of a tile refers to.
    """

    def __init__(
        self,
        program: ExecProgram,
        group: Group,
        results: list[int],
        totals: list[int],
        lead: int,
    ) -> None:
        self.group, self.lead, self.kernels = group, lead, program.kernels
        self.types: list[TensorSpec] = [*program.types, ROWS]
        self.rows = program.n_slots
        constants = program.constants
        moved = {s for step in group.steps if not step.is_elementwise for s in step.input_slots}
        self.constants = {
            slot: constants[slot][(0,) * constants[slot].ndim]
            for slot in group.operands
            if slot in constants and slot not in moved and not any(constants[slot].strides)
        }
        self.operands = [slot for slot in group.operands if slot not in self.constants]
        self.targets = {slot: self._slot(self.types[slot]) for slot in (*results, *totals)}
        self.scratch: dict[int, TensorSpec] = {}
        self.steps: list[ExecInstruction] = []
        self.free: list[int] = []
        self.held: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.broadcast: set[int] = set()
        self.root: dict[int, int] = {}
        for number, step in enumerate(group.steps):
            if may_view(step):
                (slot,) = step.input_slots
                self.root[step.output_slots[0]] = self.root.get(slot, slot)
            self.last.update(dict.fromkeys(self._roots(step.input_slots), number))
        self.sums = self._sums_of_products()
        self._plan()

    def schedule(self) -> ExecProgram:
        """Return the schedule of rows, scratch, operands, results and partial totals, without results."""
        return free(
            ExecProgram(
                instructions=tuple(self.steps),
                input_slots=(self.rows, *self.scratch, *self.operands, *self.targets.values()),
                output_slots=(),
                types=tuple(self.types),
                kernels=self.kernels,
                constants=self.constants,
                numbers=frozenset(self.constants),
            )
        )

    def _slot(self, spec: TensorSpec) -> int:
        self.types.append(spec)
        return len(self.types) - 1

    def _plan(self) -> None:
        summed = {step.output_slots[0] for step in self.sums.values()}
        for number, step in enumerate(self.group.steps):
            (slot,) = step.output_slots
            if slot in self.sums:
                self._sum_of_products(number, step, self.sums[slot])
            elif slot in summed:
                continue
            elif step.is_elementwise:
                self._elementwise(number, step)
            else:
                if isinstance(step.op, BroadcastInDim):
                    self.broadcast.add(slot)
                self._step(step, self._of_tile(step), [self._with_all_rows(step.input_slots[0])])
                self._release(step.input_slots, number)

    def _step(
        self,
        step: ExecInstruction,
        op: Any,
        operands: list[int],
        into: int | None = None,
    ) -> None:
        """Add a step, and the copy of its result to where it leaves, if it is not written there."""
        (slot,) = step.output_slots
        places = () if into is None else (InPlace(into),)
        types = step.input_types if op is step.op else self._types_of(operands)
        inside = step.replaced(op=op, input_slots=tuple(operands), input_types=types, places=places)
        self.steps.append(inside)
        target = self.targets.get(slot)
        if target is not None and target != into:
            self.steps.append(
                ExecInstruction(
                    op=Write(),
                    input_slots=(target, slot),
                    output_slots=(),
                    input_types=self._types_of((target, slot)),
                    output_types=(),
                    kernels=self.kernels,
                    source=step.source,
                )
            )

    def _types_of(self, slots: Sequence[int]) -> tuple[TensorSpec, ...]:
        return tuple([self.types[slot] for slot in slots])

    def _elementwise(self, number: int, step: ExecInstruction) -> None:
        """Add an elementwise step, which writes a result or scratch if its function can."""
        (slot,) = step.output_slots
        kernel: Any = step.kernel
        function = step.function if step.is_ufunc else kernel.into.get(step.function)
        if function is None:
            operands = [self._with_all_rows(s) for s in step.input_slots]
            self._release(step.input_slots, number)
            self._step(step, step.op, operands)
            return
        if isinstance(function, np.ufunc):  # which reads an element before it writes it
            self._release(step.input_slots, number)
        into = self.targets.get(slot)
        if into is None:
            into = self.held[slot] = self._buffer(slot)
        if not isinstance(function, np.ufunc):
            self._release(step.input_slots, number)
        op = step.op if function is step.function else OnTile(step.op, function)
        self._step(step, op, list(step.input_slots), into)

    def _sum_of_products(self, number: int, step: ExecInstruction, total: ExecInstruction) -> None:
        """Add a sum of products; scratch holds the product."""
        buffer = self._buffer(step.output_slots[0])
        self.free.append(buffer)
        operands = [*map(self._with_all_rows, step.input_slots), buffer]
        x = self._tile_type(step.output_slots[0])
        function = sum_of_products(self._axes(total.op), x.rank, x.dtype)
        self._release(step.input_slots, number)
        self._step(total, OnTile(total.op, function), operands)

    def _sums_of_products(self) -> dict[int, ExecInstruction]:
        """Return the sum for each product that only a sum reads."""
        readers = Counter(slot for step in self.group.steps for slot in step.input_slots)
        makers = {step.output_slots[0]: step for step in self.group.steps}
        sums: dict[int, ExecInstruction] = {}
        for step in self.group.steps:
            slot = step.input_slots[0] if step.input_slots else -1
            product = makers.get(slot)
            if (
                type(step.op) is re.ReduceSum
                and product is not None
                and type(product.op) is Multiply
                and supports_row_sums(self.types[slot].dtype)
                and not sums_single_elements(self.types[slot], step.op.axes)
                and readers[slot] == 1
                and slot not in self.targets
                and self.constants.keys().isdisjoint(product.input_slots)
            ):
                sums[slot] = step
        return sums

    def _buffer(self, slot: int) -> int:
        """Return a slot of scratch for a value, reused if possible."""
        spec = self.types[slot]
        buffer = next((s for s in self.free if self.scratch[s] == spec), None)
        if buffer is None:
            buffer = self._slot(spec)
            self.scratch[buffer] = spec
        else:
            self.free.remove(buffer)
        return buffer

    def _release(self, slots: Collection[int], number: int) -> None:
        for slot in self._roots(slots):
            if self.last[slot] == number and slot in self.held:
                self.free.append(self.held.pop(slot))

    def _roots(self, slots: Collection[int]) -> dict[int, None]:
        return dict.fromkeys([self.root.get(slot, slot) for slot in slots])

    def _with_all_rows(self, slot: int) -> int:
        """Return the operand with all of its rows, as a broadcast view if it has one."""
        if slot not in self.broadcast:
            return slot
        whole = self._slot(self.types[slot])
        tail = self._tail(slot)
        maker = next(step for step in self.group.steps if slot in step.output_slots)
        self.steps.append(
            maker.replaced(
                op=OnTile(
                    maker.op, lambda x, rows: np.broadcast_to(x, (rows, *tail)), is_view=True
                ),
                input_slots=(slot, self.rows),
                input_types=self._types_of((slot, self.rows)),
                output_slots=(whole,),
                origin=(),
            )
        )
        return whole

    # ---- ops on axes, which are counted as in a tile ------------------------------------------------

    def _tail(self, slot: int) -> tuple[int, ...]:
        """Return the extents of a slot's tile after the first."""
        return self.types[slot].shape[self.group.lead - self.lead + 1 :]

    def _tile_type(self, slot: int) -> TensorSpec:
        """Return the type of a slot's tile of one row."""
        return TensorSpec((1, *self._tail(slot)), self.types[slot].dtype)

    def _axes(self, op: Any) -> tuple[int, ...]:
        """Return the axes of a reduction on a tile."""
        all_lead = self.group.lead
        first = range(self.lead) if 0 in op.axes else ()
        return (*first, *[axis - all_lead + self.lead for axis in op.axes if axis >= all_lead])

    def _of_tile(self, step: ExecInstruction) -> OnTile:
        """Return a reduction or a view on a tile."""
        op: Any = step.op
        (slot,) = step.input_slots
        lead, all_lead = self.lead, self.group.lead
        if Fact.REDUCES in step.facts:
            op = replace(op, axes=self._axes(op))
            return OnTile(
                step.op, bind_kernel(step.kernel, op, (self._tile_type(slot),)), may_view(step)
            )
        call = VIEWS[type(op)](op, self.types[slot], step.output_types[0], all_lead, lead)
        return OnTile(step.op, call, is_view=True)


def _reshaped(op: Reshape, x: TensorSpec, y: TensorSpec, all_lead: int, lead: int) -> Any:
    tail = y.shape[all_lead:]
    return lambda x: x.reshape((*x.shape[:lead], *tail), order="F")


def _aligned(op: BroadcastInDim, x: TensorSpec, y: TensorSpec, all_lead: int, lead: int) -> Any:
    order = sorted(range(all_lead, x.rank), key=op.dims.__getitem__)
    perm = (*range(lead), *[axis - all_lead + lead for axis in order])
    extents = {op.dims[axis]: x.shape[axis] for axis in order}
    aligned = tuple([extents.get(axis, 1) for axis in range(all_lead, y.rank)])
    return lambda x: x.transpose(perm).reshape((*x.shape[:lead], *aligned))


VIEWS: Mapping[type[StdTensorOp], Callable[..., Any]] = {
    BroadcastInDim: _aligned,
    Reshape: _reshaped,
}
"""Ops whose results take no memory, as functions of tiles: one that is read outside of the group is run there again.

They take the op, the types of its operand and result, and the number of leading axes of these and of a tile.
"""
