"""Compile: adds machine code to loops and fused groups, or the reason why the interpreter runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.compiler import LoopCompiler
from tenferro.exec.plan.unbind import program_of
from tenferro.exec.planned import Compiled
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.facts import FACTS, Fact
from tenferro.program import Subprogram

__all__ = ["compile_groups", "compile_loops"]


def compile_loops(program: ExecProgram, compiler: LoopCompiler) -> ExecProgram:
    """Return the schedule with compiled loops, where compiling saves time."""

    def iterates(step: ExecInstruction) -> bool:
        return step.control is not None and Fact.ITERATES in FACTS.cell(step.control.op)

    return _with_code(program, iterates, partial(_loop, compiler))


def _with_code(
    program: ExecProgram,
    selects: Callable[[ExecInstruction], bool],
    code_of: Callable[[ExecInstruction], Any],
) -> ExecProgram:
    """Return the schedule with compiled steps, or with the reason at a step that cannot be compiled.

    Args:
        selects: returns whether a step is to be compiled.
        code_of: returns the compiled function of a step, or raises `NotCompiledError`.
    """
    steps = list(program.instructions)
    for number, step in enumerate(steps):
        if selects(step):
            try:
                op: Any = Compiled(step.op, code_of(step))
            except NotCompiledError as error:
                op = replace(step.op, reason=str(error).partition("\n")[0])
            steps[number] = step.replaced(op=op)
    return replace(program, instructions=tuple(steps))


def _loop(compiler: LoopCompiler, step: ExecInstruction) -> Any:
    """Return the compiled function of a loop.

    Raises:
        NotCompiledError: the loop cannot be compiled, or compiling it saves no time.
    """
    from tenferro.exec.llvm.loop import (  # because many programs have no loops
        compiled_loop,
        require_gain,
    )

    control, kernels = step.op, step.kernels
    parts = [Subprogram.of_program(program_of(body)) for body in control.schedules]
    op: Any = control.op.with_parts(*parts)
    with compiler.log.attempt("loop"):
        require_gain(op, kernels, compiler.always)

    def interpreted() -> Callable[..., Any]:
        """Return the interpreted loop, which runs if LLVM fails."""
        planned = tuple([kernels.planned(body) for body in control.schedules])
        return replace(control, schedules=planned).function(kernels)

    return compiled_loop(op, step.input_types, kernels, compiler.linker, interpreted)


def compile_groups(program: ExecProgram, compiler: LoopCompiler) -> ExecProgram:
    """Return the schedule with compiled fused groups."""

    def code(step: ExecInstruction) -> Any:
        from tenferro.exec.llvm.group import CompiledGroup  # because few programs have groups

        with compiler.log.attempt("fused group"):
            return CompiledGroup(step, step.kernels.runner(step.op.body), compiler.linker)

    return _with_code(program, lambda step: step.fused is not None, code)
