"""Schedules of native runs.

Planning makes all decisions about a run, and builds the schedule. The interpreter runs the schedule, and the printer
writes it as a Python function. `print(exec_program)` shows the whole schedule.

Source: docs/specification/schedule.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from tenferro.dims import ShapeExtent, extent_of
from tenferro.exec.planned import Axes, Control, Fused, PlannedOp
from tenferro.exec.runtime.resources import Resources
from tenferro.facts import Fact, facts_of
from tenferro.graph import SourceLine
from tenferro.program.memory_plan import MemoryPlan
from tenferro.table import first_of
from tenferro.types import DType, TensorSpec

if TYPE_CHECKING:
    from tenferro.exec.plan.bind import Binder

__all__ = ["Arena", "ExecInstruction", "ExecProgram", "InPlace", "Place", "Pooled"]


class InPlace(NamedTuple):
    """Buffer of the operand `slot`, which the result overwrites; the kernel gets it as `out` or in the list `into`."""

    slot: int

    def __str__(self) -> str:
        return f"%{self.slot}"


class Arena(NamedTuple):
    """Range of bytes of the arena, a run's buffer for intermediate values; the kernel gets it in the list `into`."""

    offset: int
    size: int

    def __str__(self) -> str:
        return f"arena[{self.offset}:{self.offset + self.size}]"


class Pooled(NamedTuple):
    """Buffer that returns to the pool when nothing refers to the result; the kernel gets it in the list `into`."""

    size: int

    def __str__(self) -> str:
        return f"pool[{self.size}]"


Place: TypeAlias = InPlace | Arena | Pooled


@dataclass(frozen=True, eq=False)
class ExecInstruction:
    """Step of a schedule: an op on slots, with the decisions of planning.

    Attributes:
        op: a standard op, an extension, or an op that planning introduced.
        kernels: looks up the kernel, by the op and the types of its operands.
        source: the user's line that created the op.
        places: the buffer of each result. If it is None or missing, the kernel allocates the result.
        frees: the slots that no later step uses.
        origin: the numbers of the program's instructions that the step computes.
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
        """Return a copy of the step with changed attributes; it has the same kernel if op and types are unchanged."""
        new = replace(self, **changes)
        if new.op is self.op and new.input_types is self.input_types:
            looked_up = {"kernel", "function"} & self.__dict__.keys()
            new.__dict__.update({name: self.__dict__[name] for name in looked_up})
        return new

    @cached_property
    def kernel(self) -> Callable[..., Any]:
        """The kernel of the op, which is a function of the op and of arrays."""
        return self.kernels.cell(self.op, self.input_types, self.output_types)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The kernel as a function of arrays alone, for operands of the step's types."""
        if isinstance(self.op, PlannedOp):
            return self.op.function(self.kernels)
        return self.kernels.function(self.op, self.input_types)

    @property
    def planned(self) -> PlannedOp | None:
        """The op if planning introduced it, else None."""
        return self.op if isinstance(self.op, PlannedOp) else None

    @property
    def facts(self) -> Fact:
        """The facts of the op; none for an op that planning introduced."""
        return facts_of(self.op)

    @property
    def inner_op(self) -> Any:
        """The op; for a compiled step, the loop, group or block that was compiled."""
        return self.op if self.planned is None else self.planned.inner

    @property
    def fused(self) -> Fused | None:
        """The fused group, compiled or not; None if the step is no fused group."""
        return self.inner_op if isinstance(self.inner_op, Fused) else None

    @property
    def control(self) -> Control | None:
        """The interpreted loop or conditional; None if the step is neither, or is compiled."""
        return self.op if isinstance(self.op, Control) else None

    @property
    def source_op(self) -> Any:
        """The op of the program that the step computes; for a fused group or block, the group or block."""
        return self.op if self.planned is None else self.planned.source

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        """The schedules that the op contains, such as the bodies of a loop."""
        return () if self.planned is None else self.planned.bodies

    @property
    def remark(self) -> str:
        """The remark that is printed beside the step: "compiled", the reason why it is interpreted, or ""."""
        return "" if self.planned is None else self.planned.remark

    @property
    def last_use(self) -> tuple[bool, ...]:
        """Whether this step is the last use of each operand."""
        return tuple([slot in self.frees for slot in self.input_slots])

    @property
    def dtype(self) -> DType:
        """The dtype of the first result."""
        return self.output_types[0].dtype

    @property
    def output_shapes(self) -> tuple[tuple[Any, ...], ...]:
        return tuple([spec.shape for spec in self.output_types])

    @property
    def output_extents(self) -> tuple[tuple[ShapeExtent, ...], ...]:
        """The extents of each result, which are exact, bounded or unknown."""
        return tuple([tuple(map(extent_of, spec.shape)) for spec in self.output_types])

    @property
    def is_ufunc(self) -> bool:
        """Whether the kernel is an elementwise ufunc, which accepts Python numbers and `out`; np.matmul is not."""
        if self.planned is not None:
            return False
        return isinstance(self.function, np.ufunc) and self.function.signature is None

    @property
    def is_elementwise(self) -> bool:
        """Whether each element of the result depends only on the operands' elements at the same index."""
        return self.planned is None and getattr(self.kernel, "elementwise", False)

    @property
    def accepts_buffers(self) -> bool:
        """Whether the kernel can write its results to buffers, which it takes as `into`."""
        return getattr(self.function, "accepts_buffers", False)

    @property
    def out(self) -> int | None:
        """The slot of the operand whose buffer the kernel takes as `out`; None for a kernel that takes `into`."""
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
    """Schedule of a program for inputs of certain shapes and layouts; each slot is written once.

    Attributes:
        instructions: the steps, in order.
        types: the type of each slot.
        kernels: looks up kernels.
        constants: the arrays whose values are known before a run, by slot.
        memory: the offsets of large intermediate values in the arena.
        axes: the order of the axes in memory, slowest first, of each input that is not row-major, by slot.
        order: the layout that the caller requests for results.
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

    @property
    def resources(self) -> Resources:
        return self.kernels.resources

    @property
    def n_slots(self) -> int:
        return len(self.types)

    @property
    def input_types(self) -> tuple[TensorSpec, ...]:
        return tuple([self.types[slot] for slot in self.input_slots])

    @cached_property
    def constant_bytes(self) -> int:
        return sum([value.nbytes for value in self.constants.values()])

    @cached_property
    def may_call_back(self) -> bool:
        """Whether a kernel may call tenferro, as an extension's runtime in Python may."""
        return any([
            any([body.may_call_back for body in step.bodies])
            or (step.planned is None and getattr(step.kernel, "may_call_back", False))
            for step in self.instructions
        ])  # fmt: skip

    def readers(self) -> dict[int, list[int]]:
        """Return the numbers of the steps that read each slot; for an output, the first number is -1, the caller."""
        readers: dict[int, list[int]] = {slot: [-1] for slot in self.output_slots}
        for number, step in enumerate(self.instructions):
            for slot in step.input_slots:
                readers.setdefault(slot, []).append(number)
        return readers

    def start(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the value of each slot before the first step; None for a slot that a step writes."""
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
        """Yield the lines of the printed schedule; the lines of bodies are indented."""
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
