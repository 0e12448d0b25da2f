"""Planning of schedules by a sequence of pure functions from schedule to schedule, which docs/execution.md lists."""

from __future__ import annotations

from functools import partial

from tenferro.exec.compiler import LoopCompiler
from tenferro.exec.plan import block, fold, group, place, stencil
from tenferro.exec.plan.bind import Binder, Pass, PlanStep
from tenferro.exec.plan.compile import compile_groups, compile_loops
from tenferro.exec.plan.tiling import tile_groups

__all__ = ["NATIVE", "Binder", "Pass", "PlanStep", "planning"]

NATIVE: tuple[PlanStep, ...] = (fold.fold, place.place)
"""Planning steps without a compiler; they run between `bind` and `finish`, also on the bodies of loops."""


def planning(compiler: LoopCompiler | None) -> tuple[PlanStep, ...]:
    """Return the planning steps; with a compiler, they include the compilation of loops, groups and blocks."""
    if compiler is None:
        return NATIVE
    loops, stencils, fused, blocks, compiled = (
        partial(step, compiler=compiler)
        for step in (compile_loops, stencil.stencil, group.group, block.block, compile_groups)
    )
    return (loops, fold.fold, stencils, fused, blocks, tile_groups, place.place, compiled)
