"""Machine: which groups and convolutions run as compiled code, why the others do not, and which loop follows which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.compiler import LoopCompiler
from tenferro.exec.kernels.convolution import Convolved
from tenferro.exec.schedule import ExecInstruction, ExecProgram, Tiles
from tenferro.exec.tiles import TilesFunction, cost_of
from tenferro.ops.control import Scan, While
from tenferro.ops.reduction import Reduction

if TYPE_CHECKING:
    from tenferro.exec.llvm.link import Linker

__all__ = ["FEWEST_IN_LOOPS", "by_machine", "compile_groups", "with_compiled_sums"]

WORTH = 250.0
"""Microseconds of the interpreter, by estimate, that are worth compiling, which takes some 20 milliseconds: paid for by
a hundred runs, and kept for the next process.
"""
WORTH_ALONE = 1e4
"""The same of a reduction by itself, whose tiles NumPy reduces nearly as fast."""

FEWEST = 1 << 16
"""Multiplications of a convolution that are worth compiling: it saves some 70 us of a run, and takes 15 ms."""
FEWEST_IN_LOOPS = 1 << 12
"""The same of one that a compiled loop calls in its turns."""


def compile_groups(program: ExecProgram, compiler: LoopCompiler) -> ExecProgram:
    """The schedule with compiled groups, and sums of convolutions; the compiler owns their functions.

    Compiled loops know which one follows.
    """
    steps: list[ExecInstruction] = []
    for step in program.instructions:
        function = with_compiled_sums(step.function, compiler, FEWEST)
        if function is not step.function:
            step = step._replace(function=function)
        if isinstance(step.op, Tiles):
            try:
                with compiler.log.attempt("fused group"):
                    step = _compiled(step, program, compiler)
            except NotCompiledError as error:
                step = step._replace(note=f"interpreted: {str(error).partition(chr(10))[0]}")
        steps.append(step)
    _let_follow([step.function for step in steps if isinstance(step.op, Scan | While)])
    return replace(program, instructions=tuple(steps))


def _let_follow(functions: Sequence[Callable[..., Any]]) -> None:
    """Tell each compiled loop which one follows it."""
    if not functions:
        return
    from tenferro.exec.llvm.compiled import CompiledFunction  # because not all programs have loops

    loops = [function for function in functions if isinstance(function, CompiledFunction)]
    for loop, following in pairwise(loops):
        loop.following = following


def with_compiled_sums(
    function: Callable[..., Any], compiler: LoopCompiler, fewest: int
) -> Callable[..., Any]:
    """A convolution with compiled sums of so many multiplications and more; any other function as it is."""
    if not isinstance(function, Convolved):
        return function
    from tenferro.exec.llvm.sums_of_products import CompiledSums  # because few convolve

    return function.by(CompiledSums(compiler.linker, 1 if compiler.always else fewest))


def _compiled(
    step: ExecInstruction, program: ExecProgram, compiler: LoopCompiler
) -> ExecInstruction:
    assert isinstance(step.op, Tiles)
    cost = cost_of(step.op)
    (op, *others) = [member.op for member in step.op.members]
    worth = WORTH_ALONE if isinstance(op, Reduction) and not others else WORTH
    if cost < worth and not compiler.always:
        raise NotCompiledError(f"{cost:.0f} us do not pay")
    return by_machine(step, program, compiler.linker)


def by_machine(step: ExecInstruction, program: ExecProgram, linker: Linker) -> ExecInstruction:
    """The step of a group with compiled code.

    Raises:
        NotCompiledError: an op that is not compiled.
    """
    from tenferro.exec.llvm.group import CompiledGroup  # because large groups alone are compiled

    assert isinstance(step.op, Tiles)
    function = TilesFunction(step.op, program.resources, CompiledGroup(step, program.types, linker))
    return step._replace(kernel=function, function=function)
