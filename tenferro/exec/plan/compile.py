"""Compile: machine code of loops, fused groups and convolutions, or the reasons why they are interpreted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from tenferro.costs import MIN_COMPILED_COST, MIN_COMPILED_REDUCTION_COST, WHILE_ITERATIONS
from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.compiler import LoopCompiler
from tenferro.exec.fused import FusedFunction
from tenferro.exec.kernels.convolution import ConvolutionFunction
from tenferro.exec.plan.tiling import read_in_order, tile_groups
from tenferro.exec.plan.unbind import program_of
from tenferro.exec.planned import Compiled, Control, Fused
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.facts import FACTS, Fact
from tenferro.program import Subprogram

__all__ = [
    "MIN_MULTIPLICATIONS",
    "MIN_MULTIPLICATIONS_IN_LOOPS",
    "compile_groups",
    "compile_loops",
    "tile_compiled_groups",
    "with_compiled_sums",
]

MIN_MULTIPLICATIONS = 1 << 16
"""Minimum number of multiplications of a convolution that is compiled."""
MIN_MULTIPLICATIONS_IN_LOOPS = MIN_MULTIPLICATIONS // WHILE_ITERATIONS
"""Minimum number of multiplications of a convolution that a compiled loop calls."""


def compile_loops(program: ExecProgram, compiler: LoopCompiler) -> ExecProgram:
    """Return the schedule with loops as machine code where that saves time."""
    steps: list[ExecInstruction] = []
    for step in program.instructions:
        op = step.control
        if op is not None and Fact.ITERATES in FACTS.cell(op.op):
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


def tile_compiled_groups(program: ExecProgram, compiler: LoopCompiler) -> ExecProgram:
    """Return the schedule with a tiling of each fused group, for compiled code where that saves time."""

    def is_compiled(op: Fused) -> bool:
        with suppress(NotCompiledError), compiler.log.attempt("fused group"):
            return _pays(op, compiler)
        return False

    return tile_groups(program, is_compiled)


def compile_groups(program: ExecProgram, compiler: LoopCompiler) -> ExecProgram:
    """Return the schedule with fused groups as machine code where that saves time."""
    steps: list[ExecInstruction] = []
    for step in program.instructions:
        op = step.fused
        if op is not None:
            try:
                with compiler.log.attempt("fused group"):
                    step = step.replaced(op=Compiled(op, _group(step, op, compiler)))
            except NotCompiledError as error:
                step = step.replaced(op=read_in_order(replace(op, reason=_first_line(error))))
        steps.append(step)
    return replace(program, instructions=tuple(steps))


def _pays(op: Fused, compiler: LoopCompiler) -> bool:
    """Return whether a group is worth compiling."""
    return compiler.always or op.cost >= _break_even(op)


def _break_even(op: Fused) -> float:
    (first, *others) = op.members
    is_reduction = Fact.REDUCES in first.facts and not others
    return MIN_COMPILED_REDUCTION_COST if is_reduction else MIN_COMPILED_COST


def _group(step: ExecInstruction, op: Fused, compiler: LoopCompiler) -> FusedFunction:
    """Return the machine code of a fused group."""
    if not _pays(op, compiler):
        raise NotCompiledError(f"{op.cost:.0f} calls of NumPy are not worth compiling")
    if op.require_tiling().order == "F":
        raise NotCompiledError("rows of column-major arrays are not contiguous")
    from tenferro.exec.llvm.group import CompiledGroup  # because large groups alone are compiled

    return CompiledGroup(step, step.kernels.runner(op.body), compiler.linker)


def _first_line(error: NotCompiledError) -> str:
    return str(error).partition("\n")[0]


def with_compiled_sums(
    function: Callable[..., Any], compiler: LoopCompiler, min_multiplications: int
) -> Callable[..., Any]:
    """Return a convolution with compiled sums of products; any other function is unchanged."""
    if not isinstance(function, ConvolutionFunction):
        return function
    from tenferro.exec.llvm.sums_of_products import CompiledSums  # because few convolve

    return function.with_compiler(
        CompiledSums(compiler.linker, 1 if compiler.always else min_multiplications)
    )
