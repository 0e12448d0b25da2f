"""Bind: creates a step for each instruction of a program, and looks up its kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from typing import Any, Literal

from tenferro.errors import TenferroError
from tenferro.exec.attempts import NotCompiledError, user_code
from tenferro.exec.backend import NUMPY, Backend
from tenferro.exec.compiler import LoopCompiler
from tenferro.exec.extensions import ExtensionRegistry
from tenferro.exec.fused import FusedFunction
from tenferro.exec.kernels import KERNELS, bind_kernel
from tenferro.exec.kernels.copying import Dense
from tenferro.exec.kernels.kernel import unpacked
from tenferro.exec.plan.finish import copied
from tenferro.exec.plan.verify import verified
from tenferro.exec.planned import Axes, Control, Copies, Fused
from tenferro.exec.printer import Runner
from tenferro.exec.runtime.resources import SERIAL_RESOURCES, Resources
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.facts import FACTS, Fact, facts_of
from tenferro.ops import StdTensorOp
from tenferro.ops.control import Alternatives
from tenferro.passes import choose_alternatives, is_widened, widen_narrow
from tenferro.program import GraphProgram, ProgramBuilder, expansion_of
from tenferro.types import TensorSpec

__all__ = ["Binder", "Pass", "PlanStep"]

Pass = Callable[[GraphProgram], GraphProgram]
"""Pure function from a program to a program with the same results."""
PlanStep = Callable[[ExecProgram], ExecProgram]
"""Pure function from a schedule to a schedule with the same results."""


@dataclass(frozen=True)
class Binder:
    """Binder of ops to the kernels of a backend, and planner of schedules.

    Attributes:
        passes: the passes that run on programs, and on the bodies of loops and conditionals.
        plan: the planning steps that run on schedules, and on the bodies of loops and conditionals.
        prints: whether a body runs as printed Python code from its second iteration on.
        compiler: the compiler of loops, blocks and groups; None if the interpreter runs all steps.
    """

    backend: Backend = NUMPY
    extensions: ExtensionRegistry = field(default_factory=ExtensionRegistry)
    passes: tuple[Pass, ...] = ()
    plan: tuple[PlanStep, ...] = ()
    resources: Resources = SERIAL_RESOURCES
    prints: bool = True
    compiler: LoopCompiler | None = None

    def schedule(
        self,
        program: GraphProgram,
        axes: Sequence[Axes | None] = (),
        order: Literal["F", "C", "K"] = "K",
    ) -> ExecProgram:
        """Return the schedule of a static program.

        Args:
            axes: for each input, the order of its axes in memory, or None if row-major; () if all are row-major.
            order: the layout that the caller requests for results.

        Raises:
            UnsupportedError: an op has no kernel, or an extension has no runtime; the error names the user's line.
        """
        schedule = self.bind(self.prepared(program))
        layouts = zip(schedule.input_slots, axes, strict=False)
        layout = {slot: each for slot, each in layouts if each is not None}
        return self.planned(replace(schedule, axes=layout, order=order))

    def planned(self, schedule: ExecProgram) -> ExecProgram:
        """Return a bound schedule after all planning steps."""
        for step in self.plan:
            schedule = verified(_applied(step, schedule))
        return schedule

    def bind(self, program: GraphProgram) -> ExecProgram:
        """Return a schedule with a step for each instruction of a program, also in the bodies of loops."""
        types = program.types
        return ExecProgram(
            instructions=tuple([
                self._instruction(number, instruction, types)
                for number, instruction in enumerate(program.instructions)
            ]),
            input_slots=program.input_slots,
            output_slots=program.output_slots,
            types=tuple(types),
            kernels=self,
        )  # fmt: skip

    def _instruction(self, number: int, instruction: Any, types: Any) -> ExecInstruction:
        op, inputs, outputs, last_use, source = instruction
        try:
            bodies = [self.bind(self.prepared(part.program)) for part in op.parts]
            step = ExecInstruction(
                op=Control(op, tuple(bodies)) if bodies else op,
                input_slots=inputs,
                output_slots=outputs,
                input_types=tuple([types[slot] for slot in inputs]),
                output_types=tuple([types[slot] for slot in outputs]),
                kernels=self,
                source=source,
                frees=tuple(dict.fromkeys(compress(inputs, last_use))),
                origin=(number,),
            )
            # If the op has no kernel, this raises an error, to which the user's line is added below.
            self.cell(op, step.input_types, step.output_types)
            _ = op.parts or step.function
        except TenferroError as error:
            error.at(source)
            raise
        return step

    def cell(
        self, op: Any, operands: Sequence[TensorSpec] = (), results: Sequence[TensorSpec] = ()
    ) -> Any:
        """Return the kernel of an op, a function of the op and of arrays.

        Raises:
            UnsupportedError: the op has no kernel, or the extension has no runtime.
        """
        backend = self.backend
        if backend is not NUMPY:
            dtypes = tuple([spec.dtype for spec in (*operands, *results)])
            name = f"extension: {op.family_id}" if Fact.EXTERNAL in facts_of(op) else None
            return backend.kernel(type(op), dtypes, name)
        if Fact.EXTERNAL not in facts_of(op):
            return KERNELS.cell(op)
        with user_code():
            return self.extensions.kernel(op)

    def function(self, op: Any, operands: tuple[TensorSpec, ...]) -> Callable[..., Any]:
        """Return the function of arrays of these types that applies the op."""
        return bind_kernel(self.cell(op, operands, ()), op, operands, self.resources)

    def runner(self, body: ExecProgram) -> Runner:
        """Return a function from a sequence of arrays to a list of arrays, which runs a body."""
        return Runner(body, self.prints)

    def fused(self, op: Fused) -> FusedFunction:
        """Return a function of arrays that runs the steps of a fused group, one after the other."""
        return FusedFunction(op, self.runner(op.body), self.resources)

    def copies(self, op: Copies) -> Callable[..., Any]:
        """Return a function that copies results in the order `op.order`."""
        return partial(copied, op, None if op.order == "K" else Dense(op.order, self.resources))

    def row(self, op: Any, inputs: tuple[TensorSpec, ...]) -> Any:
        """Return the LLVM lowering of an extension's op; None if the runtime does not support compilation."""
        if Fact.EXTERNAL not in facts_of(op) or self.backend is not NUMPY:
            return None
        # Only the compiler of loops needs these modules.
        from tenferro.exec.llvm.control import row_of_program
        from tenferro.exec.llvm.routines import row_of

        with user_code():
            runtime = self.extensions.runtime_of(op)
            routine = runtime.compiled_routine(op.op)
            is_expanded = routine is None and runtime.compiles_expansion(op.op)
        if routine is not None:
            return row_of(routine, inputs)
        if not is_expanded or op.has_effects:
            return None
        with user_code():
            expansion = expansion_of(op, inputs, keep=lambda family: False)
        return row_of_program(self.prepared(expansion))

    def alternative(self, op: Alternatives) -> Any:
        """Return the sequential alternative if compiling its loops saves time, else the parallel alternative."""
        steps = op.sequential.program.instructions
        loops = [step.op for step in steps if Fact.ITERATES in FACTS.cell(step.op)]
        if self.compiler is not None:
            from tenferro.exec.llvm.loop import require_gain  # because many programs have no loops

            with suppress(NotCompiledError), self.compiler.log.attempt("estimate of a loop"):
                for loop in loops:
                    require_gain(loop, self, self.compiler.always)
                return op.sequential
        return op.parallel

    def prepared(self, program: GraphProgram) -> GraphProgram:
        """Return a program or body after all passes."""
        program = widen_narrow(choose_alternatives(program, self.alternative))
        with user_code():  # because passes may be the user's own
            for rewrite in self.passes:
                program = rewrite(program)
        return program

    def kernel(
        self,
        op: StdTensorOp,
        operands: Sequence[TensorSpec] = (),
        results: Sequence[TensorSpec] = (),
    ) -> Callable[..., Any]:
        """Return a function of an op and of arrays that applies the op outside of a program.

        Args:
            operands, results: the types that the backend must support.

        Raises:
            UnsupportedError: the op has no kernel, or the extension has no runtime.
        """
        if is_widened(op, [*operands, *results]):
            builder = ProgramBuilder()
            outputs = builder.apply(op, *[builder.input(spec) for spec in operands])
            run = self.runner(self.schedule(builder.finish(outputs)))
            return lambda _, *arrays: unpacked(run(arrays))
        kernel = self.cell(op, operands, results)
        if isinstance(op, Alternatives):
            return kernel.bind_programs([self.runner(self.schedule(self.alternative(op).program))])
        if not op.parts:
            return kernel
        return kernel.bind_programs([self.runner(self.schedule(part.program)) for part in op.parts])


def _applied(step: PlanStep, schedule: ExecProgram) -> ExecProgram:
    """Run a planning step on a schedule, then on the bodies of its interpreted loops and conditionals."""
    schedule = step(schedule)
    if not any([each.control is not None for each in schedule.instructions]):
        return schedule
    instructions: list[ExecInstruction] = []
    for each in schedule.instructions:
        if each.control is not None:
            bodies = tuple([_applied(step, body) for body in each.control.schedules])
            each = each.replaced(op=replace(each.control, schedules=bodies))
        instructions.append(each)
    return replace(schedule, instructions=tuple(instructions))
