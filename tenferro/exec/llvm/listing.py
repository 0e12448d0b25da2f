"""Listings of compiled steps."""

from __future__ import annotations

from tenferro.exec.llvm.compiled import CompiledFunction
from tenferro.exec.llvm.group import CompiledGroup
from tenferro.exec.llvm.strip_loop import StripLoop
from tenferro.exec.schedule import ExecProgram

__all__ = ["llvm_of"]


def llvm_of(schedule: ExecProgram) -> str:
    """Return the texts of compiled loops, blocks and groups, in bodies too; of a group the text for row-major arrays."""
    texts: list[str] = []
    schedules = [schedule]
    while schedules:
        current = schedules.pop()
        for step in current.instructions:
            machine = getattr(step.function, "machine", step.function)
            if isinstance(machine, CompiledFunction | StripLoop | CompiledGroup):
                line = step.source or "an unknown line"
                texts.append(f"; {step.op.name} at {line}\n{machine.text}")
            else:
                schedules += step.parts
    return "\n".join(texts) or "; nothing is compiled\n"
