"""`LateStraightener`: a `Straightener` that is imported, with what it compiles by, when a schedule runs a second time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tenferro.compilations import until_compiled
from tenferro.exec.compiler import LoopCompiler
from tenferro.exec.schedule import ExecProgram

if TYPE_CHECKING:
    from tenferro.exec.plan.straight import Straightener

__all__ = ["LateStraightener"]


class LateStraightener:
    """From a schedule to the one that later runs follow; see `Straightener`.

    Args:
        compiler: whose machine code it is; where that compiles always, the first run is a later one.
    """

    def __init__(self, compiler: LoopCompiler) -> None:
        self._compiler, self.always = compiler, compiler.always

    @cached_property
    def _straightener(self) -> Straightener:
        with until_compiled():
            from tenferro.exec.plan.straight import Straightener  # because programs may run once

        return Straightener(self._compiler)

    def after(self, program: ExecProgram, inputs: Sequence[Any] = ()) -> int:
        """The number of runs before anything is compiled; 0 if nothing is."""
        return self._straightener.after(program, inputs)

    def straightened(self, program: ExecProgram, inputs: Sequence[Any] = ()) -> ExecProgram:
        """The schedule of later runs, whose inputs lie in memory as these."""
        return self._straightener.straightened(program, inputs)

    def announced(self, program: ExecProgram) -> ExecProgram:
        """The schedule with remarks on what will be compiled."""
        return self._straightener.announced(program)
