"""Ops of planning: ops of schedules besides standard ops and extensions.

Each has its function of arrays, its bodies, and its printed remark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tenferro.errors import InvalidScheduleError
from tenferro.exec.kernels.kernel import unpacked
from tenferro.exec.layout import Axes, Layout
from tenferro.ops.control import ControlOp
from tenferro.types import TensorSpec

if TYPE_CHECKING:
    from tenferro.exec.plan.bind import Binder
    from tenferro.exec.schedule import ExecInstruction, ExecProgram

__all__ = [
    "Block",
    "Compiled",
    "Control",
    "Copies",
    "Fused",
    "PlannedOp",
    "Tiling",
]

Function: TypeAlias = Callable[..., Any]


class PlannedOp:
    """An op that planning introduces."""

    @property
    def name(self) -> str:
        """The name in errors and texts."""
        return type(self).__name__

    @property
    def inner(self) -> Any:
        """The op without annotations of how it runs: compiled, or with results in an order."""
        return self

    @property
    def source(self) -> Any:
        """The program's own op, or the fused group or block."""
        return self

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        """The schedules inside of the op."""
        return ()

    @property
    def remark(self) -> str:
        """A remark that is printed beside it."""
        return ""

    def function(self, kernels: Binder) -> Function:
        """Return the op as a function of arrays."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.name


class AnnotatedOp(PlannedOp):
    """An op with what planning decided about it; errors and texts name the op."""

    op: Any

    @property
    def name(self) -> str:
        """The op's name."""
        return self.op.name

    @property
    def source(self) -> Any:
        """The program's own op."""
        return self.op

    def __str__(self) -> str:
        return str(self.op)


@dataclass(frozen=True, eq=False)
class Control(AnnotatedOp):
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
    def bodies(self) -> Sequence[ExecProgram]:
        """The schedules of the op's parts."""
        return self.schedules

    @property
    def remark(self) -> str:
        """The reason why it is not compiled."""
        return self.reason and f"interpreted: {self.reason}"

    def function(self, kernels: Binder) -> Function:
        """Return the loop or conditional over its bodies."""
        return self.bind_programs(kernels, [kernels.runner(body) for body in self.schedules])

    def bind_programs(self, kernels: Binder, runs: Sequence[Function]) -> Function:
        """Return the loop or conditional over functions in place of its bodies."""
        kernel: Any = kernels.cell(self.op, (), ())
        return partial(kernel.bind_programs(runs), self.op)


@dataclass(frozen=True)
class Tiling:
    """Tiling of a fused group for arrays of certain layouts.

    Threads share tiles, which are cut along the first axis of views of the arrays.

    Attributes:
        operands: the layout of each operand; one that arrives in another layout is copied.
        lead: the number of leading axes that all views share.
        perm: the order of axes of the views, if it differs from the arrays'.
        merged: the number of leading axes of the arrays, in that order, that are the first axis of the views.
        rows: the extent of the first axis of the views.
        height: the number of rows of a tile.
        is_parallel: whether threads share the tiles.
    """

    operands: tuple[Layout, ...]
    lead: int
    perm: Axes
    merged: int
    rows: int
    height: int
    is_parallel: bool

    def view_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the view of an array of this shape."""
        shape = tuple([shape[axis] for axis in self.perm]) or shape
        return (prod(shape[: self.merged]), *shape[self.merged :])

    def view_layout(self, layout: Layout) -> Layout:
        """Return the layout of the view of an array of a layout."""
        layout = layout.transposed(self.perm) if self.perm else layout
        if self.merged == 1:
            return layout
        inner = [step for step in layout.strides[: self.merged] if step]
        shape = self.view_shape(layout.shape)
        return Layout(shape, (inner[-1] if inner else 0, *layout.strides[self.merged :]))

    def axes(self, rank: int) -> Axes:
        """Return the order of the axes of a result in memory."""
        return self.perm or tuple(range(rank))


@dataclass(frozen=True, eq=False)
class Fused(PlannedOp):
    """Elementwise steps and reductions that are compiled as one loop over rows of arrays with equal leading axes.

    Attributes:
        shape: the shape of the largest values.
        lead: the number of leading axes that all values share.
        body: the steps, on whole arrays: from the operands to the results, then the totals.
        results: types of the results that are written row by row.
        totals: types of the reductions over rows, which combine those of all tiles.
        folds: functions that combine the partial totals of each total.
        cost: estimated time in the interpreter on one thread, in calls of NumPy.
        tiling: how arrays are walked over, once that is planned.
        reason: why it is not compiled, if it is not.
    """

    shape: tuple[int, ...]
    lead: int
    body: ExecProgram
    results: tuple[TensorSpec, ...]
    totals: tuple[TensorSpec, ...]
    folds: tuple[Callable[[Any], Any], ...]
    cost: float
    tiling: Tiling | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        """The ops, in order."""
        return f"Fused({', '.join([step.op.name for step in self.body.instructions])})"

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        """The steps."""
        return (self.body,)

    @property
    def remark(self) -> str:
        """The reason why it is not compiled."""
        return self.reason and f"interpreted: {self.reason}"

    @cached_property
    def widest(self) -> int:
        """Bytes of an element of the widest values."""
        types = [t for s in self.body.instructions for t in (*s.input_types, *s.output_types)]
        return max([spec.dtype.itemsize for spec in types])

    def require_tiling(self) -> Tiling:
        """Return the tiling.

        Raises:
            InvalidScheduleError: it is not planned.
        """
        if self.tiling is None:
            raise InvalidScheduleError("a fused group without a tiling: plan it by tile_groups")
        return self.tiling

    def function(self, kernels: Binder) -> Function:
        """Return the group as a function of arrays, by its steps one after the other."""
        return kernels.fused(self)

    def __str__(self) -> str:
        tiles = f" in tiles of {self.tiling.height} rows" if self.tiling else ""
        return f"Fused over {list(self.shape)} by {self.lead} axes{tiles}"


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

    def function(self, kernels: Binder) -> Function:
        """Return the steps as a function of arrays, one after the other."""
        run = kernels.runner(self.body)
        return lambda *arrays: unpacked(run(arrays))


@dataclass(frozen=True, eq=False)
class Compiled(AnnotatedOp):
    """A loop, fused group or block as machine code.

    Attributes:
        op: the compiled op.
        code: the function of arrays. Where LLVM fails it is interpreted, and its remark says so.
    """

    op: Control | Fused | Block
    code: Any

    @property
    def inner(self) -> Any:
        """Description of the computation."""
        return self.op

    @property
    def source(self) -> Any:
        """The program's own loop, or the fused group or block."""
        return self.op.source

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        """The op's bodies."""
        return self.op.bodies

    @property
    def remark(self) -> str:
        """Whether it is compiled."""
        return self.code.remark

    def function(self, kernels: Binder) -> Function:
        """Return the machine code."""
        return self.code


@dataclass(frozen=True, eq=False)
class Copies(PlannedOp):
    """Results as the caller wants them: dense in an order, each in memory of its own.

    Attributes:
        order: "F", "C", or "K" for the order that they have.
        count: the number of results, which are the first operands; the other slots are arrays that they may share
            memory with.
        makers: the steps that made the results, which errors name.
    """

    order: Literal["F", "C", "K"]
    count: int
    makers: tuple[ExecInstruction | None, ...] = ()

    def function(self, kernels: Binder) -> Function:
        """Return the copies as a function of arrays."""
        return kernels.copies(self)

    def __str__(self) -> str:
        return f"Copies order={self.order}"
