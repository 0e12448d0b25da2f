"""Ops that planning introduces into schedules, besides standard ops and extensions.

Each defines its function of arrays, its bodies, and the remark that is printed beside it.
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

__all__ = ["Block", "Compiled", "Control", "Copies", "Fused", "PlannedOp", "Tiling"]

Function: TypeAlias = Callable[..., Any]


class PlannedOp:
    """An op that planning introduces.

    Attributes:
        reason: why it is not compiled; "" if compiling was not tried.
    """

    reason: str = ""

    @property
    def name(self) -> str:
        """The name in errors and texts."""
        return type(self).__name__

    @property
    def inner(self) -> Any:
        """The op without planning's annotations, such as compiled code or an order of results."""
        return self

    @property
    def source(self) -> Any:
        """The op of the program, or the fused group or block."""
        return self

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        """The schedules inside the op."""
        return ()

    @property
    def remark(self) -> str:
        """Remark that is printed beside the op: the reason why it is not compiled."""
        return self.reason and f"interpreted: {self.reason}"

    def function(self, kernels: Binder) -> Function:
        """Return the op as a function of arrays."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.name


class AnnotatedOp(PlannedOp):
    """Annotation of an op with a decision of planning; errors and printed schedules show the op's own name."""

    op: Any

    @property
    def name(self) -> str:
        """The op's name."""
        return self.op.name

    @property
    def source(self) -> Any:
        """The op of the program."""
        return self.op

    def __str__(self) -> str:
        return str(self.op)


class Enclosing(PlannedOp):
    """Op whose body is a sequence of steps."""

    body: ExecProgram

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        """The steps."""
        return (self.body,)


@dataclass(frozen=True, eq=False)
class Control(AnnotatedOp):
    """A loop or conditional whose bodies are schedules, which the interpreter runs.

    Attributes:
        op: the loop or conditional of the program; `schedules` replaces its bodies.
        schedules: one schedule for each body of the op, in order.
        reason: why it is not compiled; "" if compiling was not tried.
    """

    op: ControlOp
    schedules: tuple[ExecProgram, ...]
    reason: str = ""

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        """The schedules of the op's bodies."""
        return self.schedules

    def function(self, kernels: Binder) -> Function:
        """Return the loop or conditional, with its bodies run by the interpreter."""
        return self.bind_programs(kernels, [kernels.runner(body) for body in self.schedules])

    def bind_programs(self, kernels: Binder, runs: Sequence[Function]) -> Function:
        """Return the loop or conditional, with these functions as its bodies."""
        kernel: Any = kernels.cell(self.op, (), ())
        return partial(kernel.bind_programs(runs), self.op)


@dataclass(frozen=True)
class Tiling:
    """Tiling of a fused group for arrays of certain layouts.

    Threads share tiles, which are cut along the first axis of views of the arrays.

    Attributes:
        operands: the layout of each operand; an operand in another layout is copied.
        lead: the number of leading axes that all views share.
        perm: the permutation of axes from the arrays to the views; () for the identity.
        merged: the number of leading axes, after the permutation, that are merged into the first axis of the views.
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
class Fused(Enclosing):
    """Elementwise steps and reductions that are compiled as one loop over rows of arrays with equal leading axes.

    Attributes:
        shape: the shape of the largest values.
        lead: the number of leading axes that all values share.
        body: the steps on whole arrays; its outputs are the results, then the totals.
        results: types of the results that are written row by row.
        totals: types of the reductions over rows, which combine the partial totals of all tiles.
        folds: for each total, the function that combines its partial totals.
        cost: estimated time in the interpreter on one thread, in calls of NumPy.
        tiling: the tiles and layouts; None until `tile_groups` plans them.
        reason: why it is not compiled; "" otherwise.
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
        """The names of the ops, in order."""
        return f"Fused({', '.join([step.op.name for step in self.body.instructions])})"

    @cached_property
    def widest(self) -> int:
        """Size of an element of the widest values, in bytes."""
        types = [t for s in self.body.instructions for t in (*s.input_types, *s.output_types)]
        return max([spec.dtype.itemsize for spec in types])

    def require_tiling(self) -> Tiling:
        """Return the tiling.

        Raises:
            InvalidScheduleError: the tiling is not planned yet.
        """
        if self.tiling is None:
            raise InvalidScheduleError("a fused group without a tiling: plan it by tile_groups")
        return self.tiling

    def function(self, kernels: Binder) -> Function:
        """Return a function of arrays that runs the steps of the group one after the other."""
        return kernels.fused(self)

    def __str__(self) -> str:
        tiles = f" in tiles of {self.tiling.height} rows" if self.tiling else ""
        return f"Fused over {list(self.shape)} by {self.lead} axes{tiles}"


@dataclass(frozen=True, eq=False)
class Block(Enclosing):
    """Consecutive steps on small values, which are compiled as one.

    Attributes:
        body: the steps.
        axes: the order of axes in memory of operands and results that are not row-major, by the body's slots.
    """

    body: ExecProgram
    axes: Mapping[int, Axes]

    @property
    def name(self) -> str:
        """The number of steps."""
        return f"Block of {len(self.body.instructions)} steps"

    def function(self, kernels: Binder) -> Function:
        """Return a function of arrays that runs the steps one after the other."""
        run = kernels.runner(self.body)
        return lambda *arrays: unpacked(run(arrays))


@dataclass(frozen=True, eq=False)
class Compiled(AnnotatedOp):
    """A loop, fused group or block with its machine code.

    Attributes:
        op: the compiled op.
        code: the function of arrays. If LLVM fails, it runs the interpreter, and its remark gives the reason.
    """

    op: Control | Fused | Block
    code: Any

    @property
    def inner(self) -> Any:
        """The loop, fused group or block."""
        return self.op

    @property
    def source(self) -> Any:
        """The loop of the program, or the fused group or block."""
        return self.op.source

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        """The op's bodies."""
        return self.op.bodies

    @property
    def remark(self) -> str:
        """The word "compiled", or the reason why LLVM failed."""
        return self.code.remark

    def function(self, kernels: Binder) -> Function:
        """Return the machine code."""
        return self.code


@dataclass(frozen=True, eq=False)
class Copies(PlannedOp):
    """Copies of results for the caller: contiguous in an order, each in separate memory.

    Attributes:
        order: "F", "C", or "K" to keep the order of each result.
        count: the number of results. They are the first operands; the other operands are arrays that they may share
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
