"""Ops of planning: what a schedule has beside standard ops and extensions.

Each knows its function of arrays, its bodies, and what is printed beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from tenferro.ops import StdTensorOp
from tenferro.ops.control import ControlOp
from tenferro.types import TensorSpec

if TYPE_CHECKING:
    from tenferro.exec.schedule import ExecInstruction, ExecProgram, KernelTable

__all__ = [
    "Axes",
    "Block",
    "Compiled",
    "Control",
    "Copies",
    "Fused",
    "InOrder",
    "OnTile",
    "PlannedOp",
    "Write",
]

Axes: TypeAlias = tuple[int, ...]
"""Axes of an array, the one with the largest stride first."""
Function: TypeAlias = Callable[..., Any]


class PlannedOp:
    """An op that planning introduces.

    Attributes:
        is_view: whether a result may be a view of an operand.
    """

    is_view: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The name in errors and texts."""
        return type(self).__name__

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        """The schedules inside of it."""
        return ()

    @property
    def remark(self) -> str:
        """A remark that is printed beside it."""
        return ""

    def function(self, kernels: KernelTable) -> Function:
        """Return the op as a function of arrays."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Control(PlannedOp):
    """A loop or conditional whose bodies are schedules, which the interpreter runs.

    Attributes:
        op: the op that it was; its own programs are not read.
        schedules: the schedules of the op's parts, in order.
        reason: why it is not compiled, if that was asked.
    """

    op: ControlOp
    schedules: tuple[ExecProgram, ...]
    reason: str = ""

    @property
    def name(self) -> str:
        """The op's name."""
        return self.op.name

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        """The schedules of the op's parts."""
        return self.schedules

    @property
    def remark(self) -> str:
        """The reason why it is not compiled."""
        return self.reason and f"interpreted: {self.reason}"

    def function(self, kernels: KernelTable) -> Function:
        """Return the loop or conditional over its bodies."""
        return self.bind_programs(kernels, [kernels.runner(body) for body in self.schedules])

    def bind_programs(self, kernels: KernelTable, runs: Sequence[Function]) -> Function:
        """Return the loop or conditional over functions in place of its bodies."""
        kernel: Any = kernels.cell(self.op, (), ())
        return partial(kernel.bind_programs(runs), self.op)

    def __str__(self) -> str:
        return str(self.op)


@dataclass(frozen=True, eq=False)
class Fused(PlannedOp):
    """Elementwise steps and reductions that run tile by tile, as rows of arrays with equal leading axes.

    Attributes:
        shape: the shape of the largest values.
        lead: the number of leading axes that all values share.
        tiles: the steps on one tile, by the number of leading axes of its arrays: `lead`, or 1 where they are
            merged. They take the number of rows, scratch, operands, results and shares of the totals.
        scratch: types of whole values that are kept tile by tile only.
        results: types of the results that are written tile by tile.
        totals: types of the reductions over rows, which are combined of the shares of all tiles.
        folds: functions that combine the shares of each total.
        members: the steps, on whole arrays.
        column_major: numbers of results that are written in column-major order, where that costs less than a copy.
        reason: why it is not compiled, if that was asked.
    """

    shape: tuple[int, ...]
    lead: int
    tiles: Mapping[int, ExecProgram]
    scratch: tuple[TensorSpec, ...]
    results: tuple[TensorSpec, ...]
    totals: tuple[TensorSpec, ...]
    folds: tuple[Callable[[Any], Any], ...]
    members: tuple[ExecInstruction, ...]
    reason: str = ""

    @property
    def name(self) -> str:
        """The ops, in order."""
        names = [step.op.name for step in self.tiles[self.lead].instructions if step.origin]
        return f"Fused({', '.join(names)})"

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        """The steps on one tile."""
        return (self.tiles[self.lead],)

    @property
    def remark(self) -> str:
        """The reason why it is not compiled."""
        return self.reason and f"interpreted: {self.reason}"

    @cached_property
    def widest(self) -> int:
        """Bytes of an element of the widest values."""
        types = self.tiles[self.lead].types
        return max([spec.dtype.itemsize for spec in types], default=1)

    def function(self, kernels: KernelTable) -> Function:
        """Return the group as a function of arrays, by NumPy's functions tile by tile."""
        return kernels.fused(self)

    def __str__(self) -> str:
        return f"Fused over {list(self.shape)} by {self.lead} axes"


@dataclass(frozen=True, eq=False)
class Block(PlannedOp):
    """Consecutive steps on small values, which are compiled as one.

    Attributes:
        body: the steps.
        axes: for operands and results that are not row-major the order of their axes in memory, by the body's slots.
    """

    body: ExecProgram
    axes: Mapping[int, Axes]

    @property
    def name(self) -> str:
        """The number of steps."""
        return f"Block of {len(self.body.instructions)} steps"

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        """The steps."""
        return (self.body,)

    def function(self, kernels: KernelTable) -> Function:
        """Return the steps as a function of arrays, one after the other."""
        run = kernels.runner(self.body)

        def function(*arrays: Any) -> Any:
            results = run(arrays)
            return results[0] if len(results) == 1 else results

        return function


@dataclass(frozen=True, eq=False)
class Compiled(PlannedOp):
    """A loop, fused group or block as machine code.

    Attributes:
        op: what it computes.
        code: the function of arrays. Where LLVM fails it is interpreted, and its remark says so.
    """

    op: Control | Fused | Block
    code: Any

    @property
    def name(self) -> str:
        """The op's name."""
        return self.op.name

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        """The op's bodies."""
        return self.op.bodies

    @property
    def remark(self) -> str:
        """Whether it is compiled."""
        return self.code.remark

    def function(self, kernels: KernelTable) -> Function:
        """Return the machine code."""
        return self.code

    def __str__(self) -> str:
        return str(self.op)


@dataclass(frozen=True, eq=False)
class InOrder(PlannedOp):
    """A standard op whose result is written in row-major or column-major order, where that costs less than a copy.

    Attributes:
        op: the standard op.
        operands: the types of its operands.
    """

    op: StdTensorOp
    operands: tuple[TensorSpec, ...]
    order: Literal["F", "C"]

    @property
    def name(self) -> str:
        """The op's name."""
        return self.op.name

    def function(self, kernels: KernelTable) -> Function:
        """Return the op's kernel, in the order."""
        function: Any = kernels.function(self.op, self.operands)
        return function.with_order(self.order)

    def __str__(self) -> str:
        return f"{self.op} order={self.order}"


def function_of(op: Any, kernels: KernelTable, operands: tuple[TensorSpec, ...]) -> Function:
    """Return an op as a function of arrays of these types."""
    return op.function(kernels) if isinstance(op, PlannedOp) else kernels.function(op, operands)


@dataclass(frozen=True, eq=False)
class OnTile(PlannedOp):
    """A step of a fused group on one tile, where its axes are counted otherwise than on the whole arrays.

    Attributes:
        op: the op on whole arrays.
        call: the function of tiles.
        is_view: whether its result may be a view of an operand.
    """

    op: StdTensorOp
    call: Function
    is_view: bool = False  # pyright: ignore[reportIncompatibleVariableOverride]  # because each differs

    @property
    def name(self) -> str:
        """The op's name."""
        return self.op.name

    def function(self, kernels: KernelTable) -> Function:
        """Return the function of tiles."""
        return self.call

    def __str__(self) -> str:
        return str(self.op)


@dataclass(frozen=True)
class Write(PlannedOp):
    """A copy of the second operand into the first: a tile's value to where it leaves."""

    def function(self, kernels: KernelTable) -> Function:
        """Return NumPy's copy."""
        return np.copyto


@dataclass(frozen=True, eq=False)
class Copies(PlannedOp):
    """Results as the caller wants them: dense in an order, each in memory of its own.

    Attributes:
        order: "F", "C", or "K" for whatever order they have.
        count: the number of results, which are the first operands; the others are arrays that they may share memory with.
        makers: the steps that made the results, which errors name.
    """

    order: Literal["F", "C", "K"]
    count: int
    makers: tuple[ExecInstruction | None, ...] = ()

    def function(self, kernels: KernelTable) -> Function:
        """Return the copies as a function of arrays."""
        return kernels.copies(self)

    def __str__(self) -> str:
        return f"Copies order={self.order}"
