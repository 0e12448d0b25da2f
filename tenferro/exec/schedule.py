"""`ExecProgram`: the schedule of a native run, and the only record of its execution.

Planning makes it, a function after the other; the interpreter runs it and the printer writes it as Python, and
neither decides anything. `print(exec_program)` shows all of it.

Source: docs/specification/schedule.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, overload

import numpy as np

from tenferro.dims import ShapeExtent, extent_of
from tenferro.exec.runtime.resources import Resources
from tenferro.graph import SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops.control import ControlOp
from tenferro.ops.extension import Extension
from tenferro.program import GraphProgram, Routine
from tenferro.program.memory_plan import MemoryPlan
from tenferro.table import first_of
from tenferro.types import DType, TensorSpec

__all__ = [
    "Arena",
    "Axes",
    "Block",
    "Copies",
    "Deferred",
    "ExecInstruction",
    "ExecProgram",
    "Lent",
    "Over",
    "Place",
    "Tiles",
    "Write",
]


class Over(NamedTuple):
    """The memory of an operand that dies; the kernel takes the operand as `out`, a group as an entry of `into`."""

    slot: int

    def __str__(self) -> str:
        return f"over %{self.slot}"


class Arena(NamedTuple):
    """Bytes of the piece that a run borrows for values in the middle; an entry of the kernel's `into`."""

    offset: int
    size: int

    def __str__(self) -> str:
        return f"arena[{self.offset}:{self.offset + self.size}]"


class Lent(NamedTuple):
    """Memory that comes back when nobody holds the result any more; an entry of the kernel's `into`."""

    size: int

    def __str__(self) -> str:
        return f"lent[{self.size}]"


Place: TypeAlias = Over | Arena | Lent
Axes: TypeAlias = tuple[int, ...]
"""Axes of an array, the one with the largest step first."""


@dataclass(frozen=True, eq=False)
class Tiles:
    """A fused group of instructions that runs tile by tile, as rows of arrays with equal leading axes.

    Attributes:
        shape: of the largest values in the group.
        lead: how many leading axes all values share.
        bodies: what happens to one tile, by how many leading axes its arrays have: `lead`, or 1 where they are
            merged. A body takes the number of rows, scratch, operands, results and shares of the totals.
        scratch: types of whole values that are kept tile by tile only.
        results: types of the results that are written tile by tile.
        totals: types of the reductions over rows, which are combined of the shares of all tiles.
        folds: combine the shares of each total.
        members: the steps that it is made of, on whole arrays.
    """

    shape: tuple[int, ...]
    lead: int
    bodies: Mapping[int, ExecProgram]
    scratch: tuple[TensorSpec, ...]
    results: tuple[TensorSpec, ...]
    totals: tuple[TensorSpec, ...]
    folds: tuple[Callable[[Any], Any], ...]
    members: tuple[ExecInstruction, ...]

    @property
    def name(self) -> str:
        """The ops, in order."""
        names = [step.op.name for step in self.bodies[self.lead].instructions if step.origin]
        return f"Tiles({', '.join(names)})"

    @cached_property
    def widest(self) -> int:
        """Bytes of an element of the widest values."""
        types = self.bodies[self.lead].types
        return max([spec.dtype.itemsize for spec in types], default=1)

    def __str__(self) -> str:
        return f"Tiles of {list(self.shape)} by {self.lead} axes"


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive steps on small values that are compiled as one.

    Attributes:
        body: the steps.
        program: the same steps as a program, which is compiled.
        axes: for operands and results that are not row-major, by the program's slots, the order of their axes in memory.
    """

    body: ExecProgram
    program: GraphProgram
    axes: Mapping[int, Axes]

    @property
    def name(self) -> str:
        """The number of its steps."""
        return str(self)

    def __str__(self) -> str:
        return f"Block of {len(self.body.instructions)} steps"


@dataclass(frozen=True)
class Copies:
    """Results as the caller wants them: dense in an order, each in memory of its own.

    Attributes:
        order: "F", "C", or "K" for whatever order they have.
        count: the number of results, which are the first operands; the others are arrays that they may share memory with.
    """

    name: ClassVar[str] = "Copies"
    order: Literal["F", "C", "K"]
    count: int

    def __str__(self) -> str:
        return f"Copies order={self.order}"


@dataclass(frozen=True)
class Write:
    """A copy of the second operand into the first: a tile's value to where it leaves."""

    name: ClassVar[str] = "Write"

    def __str__(self) -> str:
        return self.name


class Deferred(Sequence["ExecProgram"]):
    """Schedules that are planned when somebody reads them: those inside of a compiled loop, which nothing runs.

    Args:
        plan: gives them.
    """

    def __init__(self, plan: Callable[[], tuple[ExecProgram, ...]]) -> None:
        self._plan = plan

    @cached_property
    def _parts(self) -> tuple[ExecProgram, ...]:
        return self._plan()

    def __len__(self) -> int:
        return len(self._parts)

    @overload
    def __getitem__(self, index: int) -> ExecProgram: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ExecProgram, ...]: ...
    def __getitem__(self, index: int | slice) -> ExecProgram | tuple[ExecProgram, ...]:
        return self._parts[index]


class ExecInstruction(NamedTuple):
    """One call of a kernel, and everything that was decided about it.

    Attributes:
        op: of the program; a group in tiles, or the copies at the end.
        kernel: the op's cell, a function of the op and arrays.
        function: the kernel bound to the types, for every way of running it: a function of the arrays.
        places: where each result goes; None, or no entry, is memory of the kernel's own.
        frees: slots that die afterwards.
        origin: numbers of the program's instructions that it comes from; the first names it in errors.
        parts: the schedules inside of a loop or a choice; those of a compiled loop are planned when they are read.
        note: the remark that is printed beside a step whose function has none of its own.
        routine: what an extension is, if its runtime says so.
    """

    op: StdTensorOp | Tiles | Block | Copies | Write
    kernel: Callable[..., Any]
    function: Callable[..., Any]
    input_slots: tuple[int, ...]
    output_slots: tuple[int, ...]
    output_types: tuple[TensorSpec, ...]
    source: SourceLine | None = None
    places: tuple[Place | None, ...] = ()
    frees: tuple[int, ...] = ()
    origin: tuple[int, ...] = ()
    parts: Sequence[ExecProgram] = ()
    note: str = ""
    routine: Routine | None = None

    @property
    def remark(self) -> str:
        """Whether the step is compiled, or why it is not."""
        return getattr(self.function, "remark", "") or self.note

    @property
    def last_use(self) -> tuple[bool, ...]:
        """For each input whether it dies."""
        return tuple([slot in self.frees for slot in self.input_slots])

    @property
    def dtype(self) -> DType:
        """The dtype of the first output."""
        return self.output_types[0].dtype

    @property
    def output_shapes(self) -> tuple[tuple[Any, ...], ...]:
        """One shape per output."""
        return tuple([spec.shape for spec in self.output_types])

    @property
    def output_extents(self) -> tuple[tuple[ShapeExtent, ...], ...]:
        """One vector of extents per output: exact, bounded or unknown."""
        return tuple([tuple(map(extent_of, spec.shape)) for spec in self.output_types])

    @property
    def is_compiled(self) -> bool:
        """Whether the step is machine code by itself."""
        return hasattr(self.function, "fallback")

    @property
    def is_ufunc(self) -> bool:
        """Whether it is a ufunc of elements, which takes numbers and a buffer; np.matmul is one of matrices."""
        return isinstance(self.function, np.ufunc) and self.function.signature is None

    @property
    def is_elementwise(self) -> bool:
        """Whether each element of the result is made of the operands' elements in its place."""
        return getattr(self.kernel, "elementwise", False)

    @property
    def under(self) -> int | None:
        """The operand that dies whose memory the kernel takes as `out`; a group takes such as entries of `into`."""
        target = self.places[0] if self.places and not isinstance(self.op, Tiles) else None
        return target.slot if isinstance(target, Over) else None

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
    """A program specialised to concrete input shapes, after the native passes. Every slot is written once.

    Attributes:
        instructions: the steps, in order.
        types: of every slot.
        constants: values that are known, by slot.
        numbers: slots of rank 0 whose values are NumPy's scalars, because nothing but ufuncs reads them.
        memory: where values in the middle lie.
        resources: threads and memory of the executor.
        kernels: the executor's table of kernels.
        axes: for inputs that are not row-major the order of their axes in memory, the slowest first.
        order: the order of results that the caller asks for.
    """

    instructions: tuple[ExecInstruction, ...]
    input_slots: tuple[int, ...]
    output_slots: tuple[int, ...]
    types: tuple[TensorSpec, ...]
    resources: Resources
    constants: Mapping[int, Any] = field(default_factory=dict)
    numbers: frozenset[int] = frozenset()
    memory: MemoryPlan = field(default_factory=partial(MemoryPlan, (), 0, 0))
    kernels: Any = None
    axes: Mapping[int, Axes] = field(default_factory=dict)
    order: Literal["F", "C", "K"] = "K"

    @property
    def n_slots(self) -> int:
        """How many slots there are."""
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
        """Whether a kernel may come back to tenferro, as an extension's may that is no routine of a library."""
        return any([
            (isinstance(step.op, Extension) and not (step.routine and step.routine.is_exact))
            or (
                isinstance(step.op, ControlOp)
                and any([part.program.extensions for part in step.op.parts])
            )
            for step in self.instructions
        ])  # fmt: skip

    def start(self, leaves: Sequence[Any]) -> list[Any]:
        """The values of all slots before the first step."""
        slots: list[Any] = [None] * len(self.types)
        for slot, leaf in zip(self.input_slots, leaves, strict=True):
            slots[slot] = leaf[()] if slot in self.numbers else leaf
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
        """The schedule, with those inside of loops and groups indented."""
        for slot, value in self.constants.items():
            shown = f" {value}" if np.size(value) == 1 else ""
            yield f"%{slot}: {self.types[slot]} = constant{shown}"
        if self.memory.size:
            yield f"arena: {self.memory.size} bytes"
        for step in self.instructions:
            yield str(step)
            bodies = (
                [step.op.bodies[step.op.lead]] if isinstance(step.op, Tiles)
                else [step.op.body] if isinstance(step.op, Block)
                else step.parts
            )  # fmt: skip
            for body in bodies:
                yield f"  ({', '.join([f'%{slot}' for slot in body.input_slots])}) ->"
                yield from [f"    {line}" for line in body.lines()]
        if self.output_slots:
            yield f"-> {', '.join([f'%{slot}' for slot in self.output_slots])}"
