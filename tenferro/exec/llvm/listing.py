"""Listings of compiled steps."""

from __future__ import annotations

from tenferro.exec.llvm.group import CompiledGroup
from tenferro.exec.llvm.loop import CompiledLoop
from tenferro.exec.llvm.straight import StraightFunction
from tenferro.exec.llvm.strip_loop import StripLoop
from tenferro.exec.schedule import ExecProgram

__all__ = ["llvm_of"]


def llvm_of(schedule: ExecProgram) -> str:
    """The texts of the loops, groups and straight lines that are compiled, those in bodies of others too; of a group that
    for row-major arrays.
    """
    texts: list[str] = []
    schedules = [schedule]
    while schedules:
        current = schedules.pop()
        later = current.later.straightened(current) if current.later else current
        for step in later.instructions:
            machine = getattr(step.function, "machine", step.function)
            if isinstance(machine, CompiledLoop | StripLoop | CompiledGroup | StraightFunction):
                line = step.source or "an unknown line"
                texts.append(f"; {step.op.name} at {line}\n{machine.text}")
            else:
                schedules += step.parts
    return "\n".join(texts) or "; nothing is compiled\n"
