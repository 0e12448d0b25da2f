"""Bind: one kernel per instruction, for its types and for every way of running it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from typing import Any, Literal

from tenferro.errors import TenferroError
from tenferro.exec.attempts import NotCompiledError, user_code
from tenferro.exec.backend import NUMPY, Backend
from tenferro.exec.compiler import LoopCompiler
from tenferro.exec.extensions import ExtensionRegistry
from tenferro.exec.kernels import bound
from tenferro.exec.plan.machine import FEWEST_IN_LOOPS, with_compiled_sums
from tenferro.exec.plan.verify import verified
from tenferro.exec.runner import Runner
from tenferro.exec.runtime.resources import CALLER, Resources
from tenferro.exec.schedule import Axes, Deferred, ExecInstruction, ExecProgram
from tenferro.graph import Instruction
from tenferro.ops import StdTensorOp
from tenferro.ops.control import Alternatives, ControlOp, Scan, While
from tenferro.ops.extension import Extension
from tenferro.passes import choose_alternatives
from tenferro.program import GraphProgram, Routine, expansion_of
from tenferro.types import TensorSpec

__all__ = ["Binder", "Pass", "PlanStep"]

Pass = Callable[[GraphProgram], GraphProgram]
"""A pure function from program to program that keeps its meaning."""
PlanStep = Callable[[ExecProgram], ExecProgram]
"""A pure function from schedule to schedule that keeps its meaning."""


@dataclass(frozen=True)
class Binder:
    """Binds the ops of programs to the kernels of a backend.

    Attributes:
        backend: whose kernels they are.
        extensions: the runtimes of families.
        passes: that bodies of loops and choices go through, as programs do.
        plan: the steps of planning, of bodies too.
        prints: whether bodies run as printed code from their second turn on.
        compiler: of loops; None leaves all to the interpreter.
    """

    backend: Backend = NUMPY
    extensions: ExtensionRegistry = field(default_factory=ExtensionRegistry)
    passes: tuple[Pass, ...] = ()
    plan: tuple[PlanStep, ...] = ()
    resources: Resources = CALLER
    prints: bool = True
    compiler: LoopCompiler | None = None

    def schedule(
        self,
        program: GraphProgram,
        axes: Sequence[Axes | None] = (),
        order: Literal["F", "C", "K"] = "K",
    ) -> ExecProgram:
        """The schedule of a static program, or of a body.

        Args:
            axes: for each input the order of its axes in memory, or None for row-major ones; all are without any.
            order: the order of results that the caller asks for.

        Raises:
            UnsupportedError: an op without a kernel, an extension without a runtime; with your line.
        """
        schedule = self.bind(self.prepared(program))
        known = zip(schedule.input_slots, axes, strict=False)
        layout = {slot: each for slot, each in known if each is not None}
        schedule = replace(schedule, axes=layout, order=order)
        for step in self.plan:
            schedule = verified(step(schedule))
        return schedule

    def bind(self, program: GraphProgram) -> ExecProgram:
        """The program's own instructions, in order, each with its kernel."""
        types = program.types
        return ExecProgram(
            instructions=tuple([
                self._instruction(number, instruction, types)
                for number, instruction in enumerate(program.instructions)
            ]),
            input_slots=program.input_slots,
            output_slots=program.output_slots,
            types=tuple(types),
            resources=self.resources,
            kernels=self,
        )  # fmt: skip

    def _instruction(self, number: int, instruction: Instruction, types: Any) -> ExecInstruction:
        op, inputs, outputs, last_use, source = instruction
        try:
            operands = tuple([types[slot] for slot in inputs])
            results = tuple([types[slot] for slot in outputs])
            kernel = self._kernel(op, operands, results)
            function, parts, remark = self._function(op, kernel, operands)
        except TenferroError as error:
            error.at(str(source or ""))
            raise
        frees = tuple(dict.fromkeys(compress(inputs, last_use)))
        return ExecInstruction(
            op,
            kernel,
            function,
            inputs,
            outputs,
            results,
            source,
            (),
            frees,
            (number,),
            parts,
            remark,
            self._routine(op),
        )

    def _routine(self, op: StdTensorOp) -> Routine | None:
        """What an extension is, if its runtime says so."""
        if type(op) is not Extension or self.backend is not NUMPY:
            return None
        return self.extensions.runtime_of(op).compiled_routine(op.op)

    def _kernel(
        self, op: StdTensorOp, operands: Sequence[TensorSpec], results: Sequence[TensorSpec]
    ) -> Any:
        backend = self.backend
        if backend is not NUMPY:
            dtypes = tuple([spec.dtype for spec in (*operands, *results)])
            name = f"extension: {op.family_id}" if isinstance(op, Extension) else None
            return backend.kernel(type(op), dtypes, name)
        return self.extensions.kernel(op) if type(op) is Extension else backend.kernels[type(op)]

    def _parts(self, op: ControlOp) -> tuple[ExecProgram, ...]:
        """The schedules of the bodies."""
        return tuple([self.schedule(part.program) for part in op.parts])

    def _function(
        self, op: Any, kernel: Any, inputs: tuple[TensorSpec, ...]
    ) -> tuple[Callable[..., Any], Sequence[ExecProgram], str]:
        """The kernel bound to types, the schedules of the bodies, and the remark that is printed beside it."""
        if not isinstance(op, ControlOp):
            return bound(kernel, op, inputs, self.resources), (), ""
        remark = ""
        if self.compiler is not None and isinstance(op, Scan | While):
            try:
                parts = Deferred(partial(self._parts, op))
                interpreted = partial(self._interpreted, op, kernel, parts)
                return self.compiler.loop(op, inputs, self.prepared, self, interpreted), parts, ""
            except NotCompiledError as error:
                remark = f"interpreted: {str(error).partition(chr(10))[0]}"
        parts = self._parts(op)
        return self._interpreted(op, kernel, parts), parts, remark

    def _interpreted(
        self, op: ControlOp, kernel: Any, parts: Sequence[ExecProgram]
    ) -> Callable[..., Any]:
        """The interpreter's loop or conditional, as a function of its operands."""
        return partial(kernel.over(self._runs(parts)), op)

    def _runs(self, parts: Sequence[ExecProgram]) -> list[Runner]:
        """The bodies as functions."""
        return [Runner(part, self.prints) for part in parts]

    def bound(self, op: StdTensorOp, inputs: tuple[TensorSpec, ...]) -> Callable[..., Any]:
        """The kernel of an op without bodies, bound to types, as a compiled loop calls it."""
        with user_code():
            kernel = self._kernel(op, (), ())
        function = bound(kernel, op, inputs, self.resources)
        if self.compiler is None:
            return function
        return with_compiled_sums(function, self.compiler, FEWEST_IN_LOOPS)

    def row(self, op: StdTensorOp, inputs: tuple[TensorSpec, ...]) -> Any:
        """How an extension's runtime has its op compiled, if it does."""
        if not isinstance(op, Extension) or self.backend is not NUMPY:
            return None
        # because only what compiles a loop asks
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
        """The sequential program where its loops are compiled, and the interpreter would not turn them."""
        steps = op.sequential.program.instructions
        loops = [step.op for step in steps if isinstance(step.op, Scan | While)]
        compiler = self.compiler
        if compiler is None or not all([compiler.pays(loop, self) for loop in loops]):
            return op.parallel
        return op.sequential

    def prepared(self, program: GraphProgram) -> GraphProgram:
        """A program or a body after the passes."""
        program = choose_alternatives(program, self.alternative)
        with user_code():  # because passes are an argument of the executor
            for rewrite in self.passes:
                program = rewrite(program)
        return program

    def kernel(
        self,
        op: StdTensorOp,
        operands: Sequence[TensorSpec] = (),
        results: Sequence[TensorSpec] = (),
    ) -> Callable[..., Any]:
        """The function that runs one op, its first argument, on arrays outside of any program.

        Args:
            operands, results: types that the backend is asked about.

        Raises:
            UnsupportedError: an op without a kernel, an extension without a runtime.
        """
        kernel = self._kernel(op, operands, results)
        if isinstance(op, Alternatives):
            return kernel.over(self._runs([self.schedule(self.alternative(op).program)]))
        return kernel.over(self._runs(self._parts(op))) if isinstance(op, ControlOp) else kernel
