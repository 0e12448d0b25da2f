"""LLVM text of the compiled steps of a schedule."""

from __future__ import annotations

from tenferro.exec.planned import Compiled
from tenferro.exec.schedule import ExecProgram

__all__ = ["llvm_text"]


def llvm_text(schedule: ExecProgram) -> str:
    """Return the LLVM texts of a schedule's compiled loops, blocks and fused groups."""
    texts: list[str] = []
    schedules = [schedule]
    while schedules:
        for step in schedules.pop().instructions:
            op = step.op
            if isinstance(op, Compiled):
                texts.append(
                    f"; {op.name} at {step.source or 'an unknown line'}\n{op.code.module.text}"
                )
            else:
                schedules += step.bodies
    return "\n".join(texts) or "; nothing is compiled\n"
