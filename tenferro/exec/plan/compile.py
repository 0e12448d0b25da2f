"""Compile: loops, fused groups and convolutions as machine code, or the reasons why they are interpreted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.compiler import LoopCompiler
from tenferro.exec.fused import FusedFunction, cost_of
from tenferro.exec.kernels.convolution import ConvolutionFunction
from tenferro.exec.plan.unbind import program_of
from tenferro.exec.planned import Compiled, Control, Fused
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.ops.control import Scan, While
from tenferro.ops.reduction import Reduction
from tenferro.program import Subprogram

__all__ = ["FEWEST", "FEWEST_IN_LOOPS", "compile_groups", "compile_loops", "with_compiled_sums"]

WORTH = 250.0
"""Estimated microseconds of the interpreter that are worth compiling a fused group, which takes some 20 milliseconds:
they are paid for by a hundred runs, and kept for the next process.
"""
WORTH_ALONE = 1e4
"""The same for a reduction by itself, whose tiles NumPy reduces nearly as fast."""
FEWEST = 1 << 16
"""Multiplications of a convolution that are worth compiling: it saves some 70 us of a run, and takes 15 ms."""
FEWEST_IN_LOOPS = 1 << 12
"""The same for a convolution that a compiled loop calls in each iteration."""


def compile_loops(program: ExecProgram, compiler: LoopCompiler) -> ExecProgram:
    """Return the schedule with loops as machine code where that pays."""
    steps: list[ExecInstruction] = []
    for step in program.instructions:
        op = step.op
        if isinstance(op, Control) and isinstance(op.op, Scan | While):
            try:
                step = step.replaced(op=Compiled(op, _loop(step, op, compiler)))
            except NotCompiledError as error:
                step = step.replaced(op=replace(op, reason=_first_line(error)))
        steps.append(step)
    codes = [step.op.code for step in steps if isinstance(step.op, Compiled)]
    for loop, following in pairwise([code for code in codes if hasattr(code, "compile_ahead")]):
        loop.following = following  # which is compiled while the first one runs
    return replace(program, instructions=tuple(steps))


def _loop(step: ExecInstruction, control: Control, compiler: LoopCompiler) -> Any:
    """Return the machine code of a loop."""
    parts = [Subprogram.of_program(program_of(body)) for body in control.schedules]
    op: Any = control.op.with_parts(*parts)
    interpreted = partial(_interpreted, control, step.kernels)
    return compiler.loop(op, step.input_types, lambda program: program, step.kernels, interpreted)


def _interpreted(control: Control, kernels: Any) -> Callable[..., Any]:
    """Return the interpreter's loop, which runs where LLVM fails."""
    planned = tuple([kernels.planned(body) for body in control.schedules])
    return replace(control, schedules=planned).function(kernels)


def compile_groups(program: ExecProgram, compiler: LoopCompiler) -> ExecProgram:
    """Return the schedule with fused groups as machine code where that pays."""
    steps: list[ExecInstruction] = []
    for step in program.instructions:
        if isinstance(step.op, Fused):
            try:
                with compiler.log.attempt("fused group"):
                    step = step.replaced(op=Compiled(step.op, _group(step, program, compiler)))
            except NotCompiledError as error:
                step = step.replaced(op=replace(step.op, reason=_first_line(error)))
        steps.append(step)
    return replace(program, instructions=tuple(steps))


def _group(step: ExecInstruction, program: ExecProgram, compiler: LoopCompiler) -> FusedFunction:
    """Return the machine code of a fused group."""
    cost = cost_of(step.op)
    (op, *others) = [member.op for member in step.op.members]
    worth = WORTH_ALONE if isinstance(op, Reduction) and not others else WORTH
    if cost < worth and not compiler.always:
        raise NotCompiledError(f"{cost:.0f} us are not worth compiling")
    from tenferro.exec.llvm.group import CompiledGroup  # because large groups alone are compiled

    machine = CompiledGroup(step, program.types, compiler.linker)
    return FusedFunction(step.op, program.resources, machine)


def _first_line(error: NotCompiledError) -> str:
    return str(error).partition("\n")[0]


def with_compiled_sums(
    function: Callable[..., Any], compiler: LoopCompiler, fewest: int
) -> Callable[..., Any]:
    """Return a convolution with compiled sums, from so many multiplications on; any other function as it is."""
    if not isinstance(function, ConvolutionFunction):
        return function
    from tenferro.exec.llvm.sums_of_products import CompiledSums  # because few convolve

    return function.with_compiler(CompiledSums(compiler.linker, 1 if compiler.always else fewest))
