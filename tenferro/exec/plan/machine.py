"""Machine: which groups run as compiled code, and why the others do not."""

from __future__ import annotations

from dataclasses import replace

from tenferro.exec.llvm.code import NotCompiledError
from tenferro.exec.llvm.group import CompiledGroup, cost_of
from tenferro.exec.llvm.loop import LoopCompiler
from tenferro.exec.schedule import ExecInstruction, ExecProgram, Tiles
from tenferro.exec.tiles import TilesFunction

__all__ = ["Machine"]

WORTH = 1000.0
"""Microseconds of the interpreter, by estimate, that are worth compiling, which takes some 20 milliseconds."""


class Machine:
    """The step of planning that compiles groups.

    Args:
        compiler: whose functions are kept.
    """

    def __init__(self, compiler: LoopCompiler) -> None:
        self.compiler = compiler

    def __call__(self, program: ExecProgram) -> ExecProgram:
        """The schedule with compiled groups."""
        steps = [
            self._compiled(step, program) if isinstance(step.op, Tiles) else step
            for step in program.instructions
        ]
        return replace(program, instructions=tuple(steps))

    def _compiled(self, step: ExecInstruction, program: ExecProgram) -> ExecInstruction:
        assert isinstance(step.op, Tiles)
        cost = cost_of(step)
        if cost < WORTH and not self.compiler.always:
            return step._replace(remark=f"interpreted: {cost:.0f} us do not pay")
        try:
            group = CompiledGroup(step, program.types, self.compiler.linker)
        except NotCompiledError as error:
            return step._replace(remark=f"interpreted: {str(error).partition(chr(10))[0]}")
        function = TilesFunction(step.op, program.resources, group)
        return step._replace(kernel=function, function=function, remark="compiled")
