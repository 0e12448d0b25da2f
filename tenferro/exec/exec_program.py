"""`ExecProgram`: the native execution IR, instructions over slots with everything decided.

Source: seed 002, sections II to V.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, repeat
from typing import Any, Literal, NamedTuple

from tenferro.collector import without_collections
from tenferro.dims import ShapeExtent, extent_of
from tenferro.errors import TenferroError
from tenferro.exec.extensions import ExtensionRegistry
from tenferro.exec.grouping import is_large
from tenferro.exec.kernels import KERNELS, bound
from tenferro.exec.memory import Arena
from tenferro.exec.quiet import BUFFER
from tenferro.exec.results import ResultMemory
from tenferro.exec.run import repeated, run_instructions
from tenferro.exec.straight_line import StraightLine, straight_line
from tenferro.exec.workers import Workers
from tenferro.graph import SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops.control import ControlOp
from tenferro.ops.extension import Extension
from tenferro.ops.source import Constant
from tenferro.program import GraphProgram
from tenferro.table import first_of
from tenferro.types import DType, TensorSpec

__all__ = [
    "ExecInstruction",
    "ExecProgram",
    "Pass",
    "Resources",
    "compile_std_to_exec",
    "kernel_of",
]

Pass = Callable[[GraphProgram], GraphProgram]
"""A pure function from program to program that keeps its meaning."""


class ExecInstruction(NamedTuple):
    """One kernel call; `last_use[i]` frees input i afterwards."""

    op: StdTensorOp
    kernel: Callable[..., Any]
    input_slots: tuple[int, ...]
    output_slots: tuple[int, ...]
    output_types: tuple[TensorSpec, ...]
    last_use: tuple[bool, ...]
    source: SourceLine | None

    @property
    def dtype(self) -> DType:
        """The dtype of the first output."""
        return self.output_types[0].dtype

    @property
    def output_shapes(self) -> tuple[tuple[Any, ...], ...]:
        """One shape per output."""
        return tuple(spec.shape for spec in self.output_types)

    @property
    def output_extents(self) -> tuple[tuple[ShapeExtent, ...], ...]:
        """One vector of extents per output: exact, bounded or unknown."""
        return tuple(
            tuple(extent_of(extent) for extent in spec.shape) for spec in self.output_types
        )


@dataclass(frozen=True)
class Resources:
    """What an executor lends to the programs that it runs.

    Attributes:
        workers: threads for large arrays.
        arena: memory for values in the middle.
        results: memory for what leaves.
        order: of results, where they can be written so; "K" asks for none.
        segmented, check_finite: how sub-programs are run; see `GraphExecutor`.
    """

    workers: Workers = field(default_factory=lambda: Workers(1))
    arena: Arena = field(default_factory=lambda: Arena(0))
    results: ResultMemory = field(default_factory=lambda: ResultMemory(0))
    order: Literal["F", "C", "K"] = "K"
    segmented: bool = True
    check_finite: bool = False


@dataclass(frozen=True, eq=False)
class ExecProgram:
    """A program specialised to concrete input shapes, after the native passes.

    Every slot is written once.
    """

    instructions: tuple[ExecInstruction, ...]
    input_slots: tuple[int, ...]
    output_slots: tuple[int, ...]
    n_slots: int
    input_types: tuple[TensorSpec, ...]
    resources: Resources
    _later: Iterator[bool] = field(default_factory=lambda: chain([False], repeat(True)), repr=False)

    def __repr__(self) -> str:
        types = first_of(self.input_types)
        return f"<ExecProgram ({types}): {len(self.instructions)} instructions>"

    @property
    def generated(self) -> StraightLine | None:
        """The generated Python, once there is any."""
        return self.__dict__.get("straight_line")

    def is_worth_generating(self) -> bool:
        """From the second run on, because to generate and compile takes longer than the loop takes once;
        where arrays are large enough for groups, at once.
        """
        return next(self._later) or self.has_large_arrays

    @cached_property
    def constant_bytes(self) -> int:
        """Bytes of its constants."""
        constants = [step.op for step in self.instructions if isinstance(step.op, Constant)]
        return sum([memoryview(op.data).nbytes for op in constants])

    @cached_property
    def has_large_arrays(self) -> bool:
        """Whether a group may begin anywhere."""
        return any(map(is_large, self._types))

    @cached_property
    def has_long_loops(self) -> bool:
        """Whether an array is larger than a buffer of NumPy's."""
        return any([not spec.is_static or spec.size > BUFFER for spec in self._types])

    @property
    def _types(self) -> Iterable[TensorSpec]:
        """Each type that there is."""
        known = {id(x): x for step in self.instructions for x in step.output_types}
        known |= {id(x): x for x in self.input_types}
        return known.values()

    @cached_property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The kernel of each instruction, bound to its types once for every way of running it.

        Two bindings of one product may differ in the last bits: what leaves column-major is multiplied so.
        """
        types = dict(zip(self.input_slots, self.input_types, strict=True))
        columns = set(self.output_slots) if self.resources.order == "F" else set[int]()
        functions: list[Callable[..., Any]] = []
        for step in self.instructions:
            inputs = tuple([types[slot] for slot in step.input_slots])
            is_column_major = not columns.isdisjoint(step.output_slots)
            functions.append(
                bound(step.kernel, step.op, inputs, self.resources.workers, is_column_major)
            )
            types.update(zip(step.output_slots, step.output_types, strict=True))
        return tuple(functions)

    @cached_property
    def straight_line(self) -> StraightLine:
        """The program as generated Python, compiled when first asked for."""
        return straight_line(self)

    def __str__(self) -> str:
        lines = []
        for instruction in self.instructions:
            made = ", ".join(
                f"%{slot}: {spec}"
                for slot, spec in zip(
                    instruction.output_slots, instruction.output_types, strict=True
                )
            )
            taken = "".join(
                f" {'~' if last else ''}%{slot}"
                for slot, last in zip(instruction.input_slots, instruction.last_use, strict=True)
            )
            lines.append(f"{made} = {instruction.op}{taken}")
        return "\n".join(lines)


@without_collections
def compile_std_to_exec(
    program: GraphProgram,
    passes: Sequence[Pass] = (),
    extensions: ExtensionRegistry | None = None,
    resources: Resources | None = None,
) -> ExecProgram:
    """Run the passes on a static program and bind each instruction to its kernel.

    Args:
        resources: of the executor; one thread and no arena by default.

    Raises:
        UnsupportedError: an extension whose family has no runtime in `extensions`.
    """
    registry = ExtensionRegistry() if extensions is None else extensions
    resources = Resources() if resources is None else resources
    for rewrite in passes:
        program = rewrite(program)
    types = program.types
    instructions = tuple([
        ExecInstruction(
            op,
            kernel_of(op, passes, registry, resources, source),
            inputs,
            outputs,
            tuple([types[slot] for slot in outputs]),
            last_use,
            source,
        )
        for op, inputs, outputs, last_use, source in program.instructions
    ])  # fmt: skip
    return ExecProgram(
        instructions=instructions,
        input_slots=program.input_slots,
        output_slots=program.output_slots,
        n_slots=program.n_slots,
        input_types=program.input_specs,
        resources=resources,
    )


def kernel_of(
    op: StdTensorOp,
    passes: Sequence[Pass],
    registry: ExtensionRegistry,
    resources: Resources,
    source: SourceLine | None = None,
) -> Callable[..., Any]:
    """What runs an op on arrays: an extension by its family's runtime, a loop over its compiled body.

    Raises:
        UnsupportedError: an extension without a runtime, with your line.
    """
    try:
        if isinstance(op, Extension):
            return registry.kernel(op)
        if isinstance(op, ControlOp):
            inner = replace(resources, order="K")
            runs = [
                _run_of(compile_std_to_exec(part.program, passes, registry, inner))
                for part in op.parts
            ]
            return KERNELS[type(op)].over(runs)  # pyright: ignore[reportAttributeAccessIssue]  # because all of that family are ControlKernels
    except TenferroError as error:
        raise error.at(str(source or "")) from None
    return KERNELS[type(op)]


def _run_of(program: ExecProgram) -> Callable[[Sequence[Any]], list[Any]]:
    """What runs a sub-program, as its executor runs programs."""
    given = program.resources
    if given.segmented and not given.check_finite:
        return repeated(program)
    return partial(
        run_instructions,
        program,
        segmented=given.segmented,
        check_finite=given.check_finite,
    )
