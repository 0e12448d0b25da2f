"""Alias analysis: computes which values may share memory."""

from __future__ import annotations

from dataclasses import dataclass

from tenferro.exec.kernels import Kernel
from tenferro.exec.schedule import ExecInstruction, ExecProgram

__all__ = ["Aliases", "aliases", "may_view"]


@dataclass(frozen=True)
class Aliases:
    """Result of the alias analysis of a schedule.

    Attributes:
        roots: for each slot, the slots whose memory its value may share. A root is an input, a constant, or a result
            that is not a view of an operand.
        foreign: the roots whose memory the program may neither overwrite nor return, such as inputs and constants.
    """

    roots: dict[int, tuple[int, ...]]
    foreign: frozenset[int]


def aliases(program: ExecProgram) -> Aliases:
    """Return the aliases of all slots of the schedule."""
    sources = (*program.input_slots, *program.constants)
    roots: dict[int, tuple[int, ...]] = {slot: (slot,) for slot in sources}
    foreign = set(sources)
    for step in program.instructions:
        if not may_view(step):
            roots.update([(slot, (slot,)) for slot in step.output_slots])
            continue
        operands = dict.fromkeys([root for slot in step.input_slots for root in roots[slot]])
        for slot in step.output_slots:
            roots[slot] = tuple(operands) or (slot,)
            if not operands:
                foreign.add(slot)  # a kernel without operands may return a cached array
    return Aliases(roots, frozenset(foreign))


def may_view(step: ExecInstruction) -> bool:
    """Return whether a result of a step may be a view of an operand, or a cached read-only array."""
    if step.planned is not None or step.is_ufunc:
        return False
    return isinstance(step.kernel, Kernel) and step.kernel.may_view(step.op)
