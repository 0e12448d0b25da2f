"""`ExecProgram`: the schedule of a native run, and the only record of its execution.

Planning builds it, function by function; the interpreter runs it and the printer writes it as Python, and
neither decides anything. `print(exec_program)` shows all of it.

Source: docs/specification/schedule.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from tenferro.dims import ShapeExtent, extent_of
from tenferro.exec.planned import (
    Axes,
    Control,
    Fused,
    PlannedOp,
)
from tenferro.exec.runtime.resources import Resources
from tenferro.facts import Fact, facts_of
from tenferro.graph import SourceLine
from tenferro.program import GraphProgram
from tenferro.program.memory_plan import MemoryPlan
from tenferro.table import first_of
from tenferro.types import DType, TensorSpec

if TYPE_CHECKING:
    from tenferro.exec.plan.bind import Binder

__all__ = [
    "Arena",
    "ExecInstruction",
    "ExecProgram",
    "InPlace",
    "Place",
    "Pooled",
]


class InPlace(NamedTuple):
    """The memory of an operand at its last use: the kernel takes it as `out`, or as an entry of `into`."""

    slot: int

    def __str__(self) -> str:
        return f"%{self.slot}"


class Arena(NamedTuple):
    """Bytes of the piece of memory that a run borrows for intermediate values; an entry of the kernel's `into`."""

    offset: int
    size: int

    def __str__(self) -> str:
        return f"arena[{self.offset}:{self.offset + self.size}]"


class Pooled(NamedTuple):
    """Memory that returns to the pool when the result is no longer referenced; an entry of the kernel's `into`."""

    size: int

    def __str__(self) -> str:
        return f"pool[{self.size}]"


Place: TypeAlias = InPlace | Arena | Pooled


@dataclass(frozen=True, eq=False)
class ExecInstruction:
    """An op on slots, with what planning decided about it. The kernel follows from the op and the operands' types.

    Attributes:
        op: a standard op, an extension, or an op of planning.
        kernels: the table that the kernel is looked up in.
        places: where each result goes; None, or no entry, is memory of the kernel's own.
        frees: slots that are not used afterwards.
        origin: numbers of the program's instructions that it comes from; the first names it in errors.
    """

    op: Any
    input_slots: tuple[int, ...]
    output_slots: tuple[int, ...]
    input_types: tuple[TensorSpec, ...]
    output_types: tuple[TensorSpec, ...]
    kernels: Binder = field(repr=False)
    source: SourceLine | None = None
    places: tuple[Place | None, ...] = ()
    frees: tuple[int, ...] = ()
    origin: tuple[int, ...] = ()

    def replaced(self, **changes: Any) -> ExecInstruction:
        """Return the instruction with other attributes."""
        new = replace(self, **changes)
        if new.op is self.op and new.input_types is self.input_types:
            looked_up = {"kernel", "function"} & self.__dict__.keys()
            new.__dict__.update({name: self.__dict__[name] for name in looked_up})
        return new

    @cached_property
    def kernel(self) -> Callable[..., Any]:
        """The cell of the op: a function of the op and arrays."""
        return self.kernels.cell(self.op, self.input_types, self.output_types)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The kernel as a function of arrays of the operands' types."""
        if isinstance(self.op, PlannedOp):
            return self.op.function(self.kernels)
        return self.kernels.function(self.op, self.input_types)

    @property
    def planned(self) -> PlannedOp | None:
        """The op, if planning introduced it."""
        return self.op if isinstance(self.op, PlannedOp) else None

    @property
    def facts(self) -> Fact:
        """The facts of a program's op; none of one that planning introduced."""
        return facts_of(self.op)

    @property
    def inner_op(self) -> Any:
        """The op without annotations of how it runs: compiled, or with results in an order."""
        return self.op if self.planned is None else self.planned.inner

    @property
    def fused(self) -> Fused | None:
        """The fused group, compiled or not, if it is one."""
        return self.inner_op if isinstance(self.inner_op, Fused) else None

    @property
    def control(self) -> Control | None:
        """The loop or conditional that is interpreted, if it is one."""
        return self.op if isinstance(self.op, Control) else None

    @property
    def source_op(self) -> Any:
        """The program's own op, or the fused group or block."""
        return self.op if self.planned is None else self.planned.source

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        """The schedules inside of the op."""
        return () if self.planned is None else self.planned.bodies

    @property
    def remark(self) -> str:
        """Whether the step is compiled, or why it is not."""
        return "" if self.planned is None else self.planned.remark

    @property
    def last_use(self) -> tuple[bool, ...]:
        """Flag of each operand: whether this is its last use."""
        return tuple([slot in self.frees for slot in self.input_slots])

    @property
    def dtype(self) -> DType:
        """The dtype of the first result."""
        return self.output_types[0].dtype

    @property
    def output_shapes(self) -> tuple[tuple[Any, ...], ...]:
        """The shape of each result."""
        return tuple([spec.shape for spec in self.output_types])

    @property
    def output_extents(self) -> tuple[tuple[ShapeExtent, ...], ...]:
        """The extents of each result: exact, bounded or unknown."""
        return tuple([tuple(map(extent_of, spec.shape)) for spec in self.output_types])

    @property
    def is_ufunc(self) -> bool:
        """Whether the kernel is a ufunc of elements, which takes numbers and a buffer; np.matmul is one of matrices."""
        if self.planned is not None:
            return False
        return isinstance(self.function, np.ufunc) and self.function.signature is None

    @property
    def is_elementwise(self) -> bool:
        """Whether each element of the result is made of the operands' elements at its index."""
        return self.planned is None and getattr(self.kernel, "elementwise", False)

    @property
    def accepts_buffers(self) -> bool:
        """Whether the kernel writes results into bytes that it is given."""
        return getattr(self.function, "accepts_buffers", False)

    @property
    def out(self) -> int | None:
        """The operand whose memory the kernel takes as `out`; other kernels take such as entries of `into`."""
        target = self.places[0] if self.places and not self.accepts_buffers else None
        return target.slot if isinstance(target, InPlace) else None

    def __str__(self) -> str:
        results = ", ".join([
            f"%{slot}: {spec}"
            for slot, spec in zip(self.output_slots, self.output_types, strict=True)
        ])  # fmt: skip
        operands = "".join([
            f" {'~' if last else ''}%{slot}"
            for slot, last in zip(self.input_slots, self.last_use, strict=True)
        ])  # fmt: skip
        places = ", ".join(["fresh" if target is None else str(target) for target in self.places])
        notes = (f"  into {places}" if places else "") + (
            f"  # {self.remark}" if self.remark else ""
        )
        return f"{results} = {self.op}{operands}{notes}".lstrip(" =")


@dataclass(frozen=True, eq=False)
class ExecProgram:
    """A program specialised to concrete input shapes and layouts, after the native passes. Every slot is written once.

    Attributes:
        instructions: the steps, in order.
        types: of every slot.
        kernels: the table that kernels are looked up in.
        constants: known values, by slot.
        memory: offsets of large intermediate values.
        axes: for inputs that are not row-major the order of their axes in memory, the slowest first.
        order: the layout of results that the caller requests.
        program: the program that it was bound from, if it was.
    """

    instructions: tuple[ExecInstruction, ...]
    input_slots: tuple[int, ...]
    output_slots: tuple[int, ...]
    types: tuple[TensorSpec, ...]
    kernels: Binder
    constants: Mapping[int, Any] = field(default_factory=dict)
    memory: MemoryPlan = field(default_factory=partial(MemoryPlan, (), 0, 0))
    axes: Mapping[int, Axes] = field(default_factory=dict)
    order: Literal["F", "C", "K"] = "K"
    program: GraphProgram | None = None

    @property
    def resources(self) -> Resources:
        """Threads and memory of the executor."""
        return self.kernels.resources

    @property
    def n_slots(self) -> int:
        """The number of slots."""
        return len(self.types)

    @property
    def input_types(self) -> tuple[TensorSpec, ...]:
        """The type of each input."""
        return tuple([self.types[slot] for slot in self.input_slots])

    @cached_property
    def constant_bytes(self) -> int:
        """Bytes of its constants."""
        return sum([value.nbytes for value in self.constants.values()])

    @cached_property
    def may_call_back(self) -> bool:
        """Whether a kernel may call tenferro, as a runtime of an extension may that is not a library routine."""
        return any([
            any([body.may_call_back for body in step.bodies])
            or (step.planned is None and getattr(step.kernel, "may_call_back", False))
            for step in self.instructions
        ])  # fmt: skip

    def readers(self) -> dict[int, list[int]]:
        """Return the numbers of the steps that read each slot; -1 comes first where the caller reads it."""
        readers: dict[int, list[int]] = {slot: [-1] for slot in self.output_slots}
        for number, step in enumerate(self.instructions):
            for slot in step.input_slots:
                readers.setdefault(slot, []).append(number)
        return readers

    def start(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the values of all slots before the first step."""
        slots: list[Any] = [None] * len(self.types)
        for slot, leaf in zip(self.input_slots, leaves, strict=True):
            slots[slot] = leaf
        for slot, value in self.constants.items():
            slots[slot] = value
        return slots

    def __repr__(self) -> str:
        types = first_of(self.input_types)
        return f"<ExecProgram ({types}): {len(self.instructions)} instructions>"

    def __str__(self) -> str:
        failures = self.resources.log.stats().failures
        return "\n".join([*self.lines(), *[f"# failed to compile: {each}" for each in failures]])

    def lines(self) -> Iterator[str]:
        """Give the schedule line by line, with bodies indented."""
        for slot, value in self.constants.items():
            shown = f" {value}" if np.size(value) == 1 else ""
            yield f"%{slot}: {self.types[slot]} = constant{shown}"
        if self.memory.size:
            yield f"arena: {self.memory.size} bytes"
        for step in self.instructions:
            yield str(step)
            for body in step.bodies:
                yield f"  ({', '.join([f'%{slot}' for slot in body.input_slots])}) ->"
                yield from [f"    {line}" for line in body.lines()]
        if self.output_slots:
            yield f"-> {', '.join([f'%{slot}' for slot in self.output_slots])}"
