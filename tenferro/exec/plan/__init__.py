"""Planning: pure functions from schedule to schedule, one after the other; each decides one thing.

docs/execution.md lists them, and what each decides.
"""

from __future__ import annotations

from functools import partial

from tenferro.exec.compiler import LoopCompiler
from tenferro.exec.plan import block, fold, group, place, stencil
from tenferro.exec.plan.bind import Binder, Pass, PlanStep
from tenferro.exec.plan.compile import compile_groups, compile_loops
from tenferro.exec.plan.tiling import tile_groups

__all__ = ["NATIVE", "Binder", "Pass", "PlanStep", "planning"]

NATIVE: tuple[PlanStep, ...] = (fold.fold, place.place)
"""The steps of planning between `bind` and `finish`, which bodies of loops go through, too."""


def planning(compiler: LoopCompiler | None) -> tuple[PlanStep, ...]:
    """Return the steps of planning, with compiled loops, blocks and groups if there is a compiler."""
    if compiler is None:
        return NATIVE
    loops, stencils, fused, blocks, compiled = (
        partial(step, compiler=compiler)
        for step in (compile_loops, stencil.stencil, group.group, block.block, compile_groups)
    )
    return (
        loops,
        fold.fold,
        stencils,
        fused,
        blocks,
        tile_groups,
        place.place,
        compiled,
    )
