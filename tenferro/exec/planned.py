"""Ops of schedules that planning introduces; a schedule also contains standard ops and extensions."""

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
    """Op that planning introduces.

    Attributes:
        reason: the reason why it is not compiled; "" if its compilation was not attempted.
    """

    reason: str = ""

    @property
    def name(self) -> str:
        """The name of the op in errors and in printed schedules."""
        return type(self).__name__

    @property
    def inner(self) -> Any:
        """The op; for a compiled op, the loop, group or block that was compiled."""
        return self

    @property
    def source(self) -> Any:
        """The op of the program that this op replaces; for a fused group or block, the group or block."""
        return self

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        """The schedules that the op contains, such as the bodies of a loop."""
        return ()

    @property
    def remark(self) -> str:
        """Remark that is printed beside the op: the reason why it is not compiled."""
        return self.reason and f"interpreted: {self.reason}"

    def function(self, kernels: Binder) -> Function:
        """Return the function of arrays that computes the op."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.name


class AnnotatedOp(PlannedOp):
    """Op with a decision of planning; errors and printed schedules show the name of the annotated op."""

    op: Any

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def source(self) -> Any:
        return self.op

    def __str__(self) -> str:
        return str(self.op)


class Enclosing(PlannedOp):
    """Op whose body is a sequence of steps."""

    body: ExecProgram

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        return (self.body,)


@dataclass(frozen=True, eq=False)
class Control(AnnotatedOp):
    """Loop or conditional that the interpreter runs.

    Attributes:
        op: the loop or conditional of the program.
        schedules: the schedule of each body of the op, in order.
    """

    op: ControlOp
    schedules: tuple[ExecProgram, ...]
    reason: str = ""

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        return self.schedules

    def function(self, kernels: Binder) -> Function:
        return self.bind_programs(kernels, [kernels.runner(body) for body in self.schedules])

    def bind_programs(self, kernels: Binder, runs: Sequence[Function]) -> Function:
        """Return the function of arrays that runs the loop or conditional; the functions `runs` run its bodies."""
        kernel: Any = kernels.cell(self.op, (), ())
        return partial(kernel.bind_programs(runs), self.op)


@dataclass(frozen=True)
class Tiling:
    """Tiling of a fused group for operands with certain layouts.

    The arrays are viewed with permuted and merged axes. A tile is a range of the first axis of the views.

    Attributes:
        operands: the layout of each operand; an operand with another layout is copied.
        lead: the number of leading axes of the views over which the code loops; 1 if these axes are merged.
        perm: the axis of the array for each axis of the view; () if the axes are not permuted.
        merged: the number of permuted leading axes that are merged into the first axis of the views.
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
        """Return the shape of the view of an array with this shape."""
        shape = tuple([shape[axis] for axis in self.perm]) or shape
        return (prod(shape[: self.merged]), *shape[self.merged :])

    def view_layout(self, layout: Layout) -> Layout:
        """Return the layout of the view of an array with this layout."""
        layout = layout.transposed(self.perm) if self.perm else layout
        if self.merged == 1:
            return layout
        inner = [step for step in layout.strides[: self.merged] if step]
        shape = self.view_shape(layout.shape)
        return Layout(shape, (inner[-1] if inner else 0, *layout.strides[self.merged :]))

    def axes(self, rank: int) -> Axes:
        """Return the order in memory of the axes of a result with this rank."""
        return self.perm or tuple(range(rank))


@dataclass(frozen=True, eq=False)
class Fused(Enclosing):
    """Elementwise steps and reductions that are compiled as one loop over rows of arrays with equal leading axes.

    Attributes:
        shape: the shape of the largest values.
        lead: the number of leading axes.
        body: the schedule of the steps on whole arrays; its outputs are the results, and then the totals.
        results: the types of the results that are written row by row.
        totals: the types of the totals, which are reductions over rows.
        folds: for each total, the function that combines the partial totals of the tiles.
        cost: the estimated time in the interpreter on one thread, as a number of NumPy calls.
        tiling: the tiling; None until `tile_groups` plans it.
        reason: the reason why the group is not compiled, or "".
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
        return f"Fused({', '.join([step.op.name for step in self.body.instructions])})"

    @cached_property
    def widest(self) -> int:
        """The size in bytes of an element of the widest dtype in the group."""
        types = [t for s in self.body.instructions for t in (*s.input_types, *s.output_types)]
        return max([spec.dtype.itemsize for spec in types])

    def require_tiling(self) -> Tiling:
        """Return the tiling.

        Raises:
            InvalidScheduleError: the tiling has not been planned.
        """
        if self.tiling is None:
            raise InvalidScheduleError("a fused group without a tiling: plan it by tile_groups")
        return self.tiling

    def function(self, kernels: Binder) -> Function:
        return kernels.fused(self)

    def __str__(self) -> str:
        tiles = f" in tiles of {self.tiling.height} rows" if self.tiling else ""
        return f"Fused over {list(self.shape)} by {self.lead} axes{tiles}"


@dataclass(frozen=True, eq=False)
class Block(Enclosing):
    """Consecutive steps on small values, which are compiled as one.

    Attributes:
        body: the schedule of the steps.
        axes: the order in memory of the axes of operands and results that are not row-major, by slot of the body.
    """

    body: ExecProgram
    axes: Mapping[int, Axes]

    @property
    def name(self) -> str:
        return f"Block of {len(self.body.instructions)} steps"

    def function(self, kernels: Binder) -> Function:
        run = kernels.runner(self.body)
        return lambda *arrays: unpacked(run(arrays))


@dataclass(frozen=True, eq=False)
class Compiled(AnnotatedOp):
    """Loop, fused group or block that is compiled to machine code.

    Attributes:
        code: the compiled function of arrays. If LLVM fails, it calls the interpreter, and `code.remark` is the reason.
    """

    op: Control | Fused | Block
    code: Any

    @property
    def inner(self) -> Any:
        return self.op

    @property
    def source(self) -> Any:
        return self.op.source

    @property
    def bodies(self) -> Sequence[ExecProgram]:
        return self.op.bodies

    @property
    def remark(self) -> str:
        """The remark of the compiled function: "compiled", or the reason why LLVM failed."""
        return self.code.remark

    def function(self, kernels: Binder) -> Function:
        return self.code


@dataclass(frozen=True, eq=False)
class Copies(PlannedOp):
    """Copies of results for the caller, in the memory order that the caller requests; no two share memory.

    Attributes:
        order: "F", "C", or "K" to keep the order of each result.
        count: the number of results, which are the first operands. The other operands are arrays with which the results
            may share memory.
        makers: the step that computed each result, for error messages; None for an input or a constant.
    """

    order: Literal["F", "C", "K"]
    count: int
    makers: tuple[ExecInstruction | None, ...] = ()

    def function(self, kernels: Binder) -> Function:
        return kernels.copies(self)

    def __str__(self) -> str:
        return f"Copies order={self.order}"
