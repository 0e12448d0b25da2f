"""Ungroup: groups of a turn as steps of their own, where tiles save no time.

Between the steps of a turn nothing is far from the processor, and in a group each array pays for being cut into tiles,
and for repeating itself in all of them; by themselves steps leave that to NumPy and write over what dies.
"""

from __future__ import annotations

from dataclasses import replace

from tenferro.exec.kernels.buffered import maximum, minimum
from tenferro.exec.plan.tile import VIEWS
from tenferro.exec.runtime.threads import WORTH
from tenferro.exec.schedule import ExecInstruction, ExecProgram, Tiles
from tenferro.exec.tiles import TilesFunction, cost_of

__all__ = ["ungrouped"]


def ungrouped(program: ExecProgram) -> ExecProgram:
    """The schedule with the steps of groups that save no time."""
    steps: list[ExecInstruction] = []
    for step in program.instructions:
        op = step.op
        if isinstance(op, Tiles) and not (_is_compiled(step) or _saves_time(op)):
            steps += op.members
        else:
            steps.append(step)
    return replace(program, instructions=tuple(steps))


def _is_compiled(step: ExecInstruction) -> bool:
    return isinstance(step.function, TilesFunction) and step.function.machine is not None


def _saves_time(op: Tiles) -> bool:
    """Whether threads share it, or tiles are for reductions, or for steps that do better with a buffer."""
    return cost_of(op) * op.widest / 8 >= WORTH or not all([
        member.is_ufunc or member.function in (maximum, minimum) or type(member.op) in VIEWS
        for member in op.members
    ])  # fmt: skip
