"""Late groups: those of exact steps that are compiled once they have run so often that LLVM's work is paid for.

Compiled, such a group gives the bits that it gives tile by tile, so that the schedule may change between two runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.link import Linker
from tenferro.exec.llvm.straight import is_written
from tenferro.exec.plan.lines import text_key
from tenferro.exec.plan.machine import by_machine
from tenferro.exec.schedule import ExecInstruction, ExecProgram, Tiles
from tenferro.exec.tiles import COMPILED, TilesFunction, cost_of
from tenferro.ops.reduction import ReduceAnd, ReduceMax, ReduceMin, ReduceOr
from tenferro.ops.structural import BroadcastInDim, Reshape

__all__ = ["LateGroup", "late_groups", "with_compiled"]

PRICE = 20000.0
"""Microseconds that LLVM takes for a group."""
CHOICES = ReduceMax, ReduceMin, ReduceAnd, ReduceOr
"""Reductions that give one of their numbers, whatever the order."""
LEAST = 20.0
"""Microseconds of a run that are worth a change."""


@dataclass(frozen=True)
class LateGroup:
    """A group that is interpreted at first.

    Attributes:
        number: of the step.
    """

    number: int
    op: Tiles
    price = PRICE

    @property
    def saves(self) -> float:
        """Microseconds of a run, by estimate."""
        return cost_of(self.op) * (1 - COMPILED)

    @property
    def key(self) -> Any:
        """Equal for groups of the same text, nearly always."""
        return text_key(self.op.members)


def late_groups(program: ExecProgram) -> list[LateGroup]:
    """Those of a schedule."""
    groups = [
        LateGroup(number, step.op)
        for number, step in enumerate(program.instructions)
        if isinstance(step.op, Tiles)
        and isinstance(step.function, TilesFunction)
        and step.function.machine is None
        and all([_is_exact(member, program) for member in step.op.members])
    ]  # fmt: skip
    return [group for group in groups if group.saves >= LEAST]


def _is_exact(step: ExecInstruction, program: ExecProgram) -> bool:
    if isinstance(step.op, BroadcastInDim | Reshape):
        return True
    operands = [program.types[slot] for slot in step.input_slots]
    is_of_elements = step.is_elementwise or isinstance(step.op, CHOICES)
    return is_of_elements and is_written(step, operands)


def with_compiled(program: ExecProgram, groups: Iterable[LateGroup], linker: Linker) -> ExecProgram:
    """The schedule with these groups compiled, those that can be."""
    steps = list(program.instructions)
    for group in groups:
        with suppress(NotCompiledError), linker.log.attempt("fused group"):
            steps[group.number] = by_machine(steps[group.number], program, linker)
    return replace(program, instructions=tuple(steps))
