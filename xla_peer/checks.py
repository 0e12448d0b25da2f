"""Support of `tenferro.check` on XLA: conditions become additional results of a program, checked after a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tenferro.errors import UnsupportedError
from tenferro.ops.control import ControlOp
from tenferro.ops.extension import Extension
from tenferro.program import BoundedCache, GraphProgram
from tenferro.program.effects import without_effects
from tenferro.program.program import flat_tree

__all__ = ["CheckedProgram", "CheckedPrograms"]


@dataclass(frozen=True, eq=False)
class CheckedProgram:
    """A program from which checks were removed; the operands of the checks are its last results.

    Attributes:
        source: the original program, which contains the checks.
        program: the program without checks, with additional results.
        checks: each check's op, its source line, and the number of its operands.
    """

    source: GraphProgram
    program: GraphProgram
    checks: tuple[tuple[Any, str, int], ...]

    def verified(self, results: Sequence[Any]) -> Any:
        """Check the conditions in the results of a run, and return the other results in the program's structure.

        Raises:
            CheckFailedError: a condition is not true. If there are several, the error is for the first check in the
                program.
        """
        position = len(self.source.output_slots)
        for op, line, count in self.checks:
            error = op.failure([None, *results[position : position + count]])
            if error is not None:
                raise error.at(line)
            position += count
        return self.source.pack(results[: len(self.source.output_slots)])


class CheckedPrograms:
    """Cache of at most `capacity` checked programs."""

    def __init__(self, capacity: int) -> None:
        self._programs: BoundedCache[tuple[GraphProgram, CheckedProgram | None]] = BoundedCache(
            capacity
        )

    def of(self, program: GraphProgram) -> CheckedProgram | None:
        """Return a program with the operands of its checks as additional results; return None if it has no checks.

        Raises:
            UnsupportedError: a check is in a loop or a branch.
        """
        # An entry keeps its program alive, so that its id is not reused.
        return self._programs.get(id(program), lambda: (program, _checked(program)))[1]

    def clear(self) -> None:
        """Drop all cached programs."""
        self._programs.clear()


def _is_check(op: Any) -> bool:
    return isinstance(op, Extension) and hasattr(op.op, "failure")


def _line_of_inner_check(program: GraphProgram) -> str | None:
    """Return the source line of a check in a loop or branch of a program; None if no loop or branch has a check."""
    for step in program.instructions:
        if isinstance(step.op, ControlOp) and step.op.has_effects:
            for part in step.op.parts:
                inner = part.program
                lines = [str(i.source or "") for i in inner.instructions if _is_check(i.op)]
                line = lines[0] if lines else _line_of_inner_check(inner)
                if line is not None:
                    return line
    return None


def _checked(program: GraphProgram) -> CheckedProgram | None:
    line = _line_of_inner_check(program)
    if line is not None:
        raise UnsupportedError(
            "check: a condition in a loop or branch is not a result of the program, and XLA cannot raise; return it from "
            "the loop and check it there, or run natively"
        ).at(line)
    steps = [step for step in program.instructions if _is_check(step.op)]
    if not steps:
        return None
    slots = [slot for step in steps for slot in step.inputs[1:]]
    outputs = (*program.output_slots, *slots)
    extended = replace(
        program,
        output_slots=outputs,
        out_tree=flat_tree(len(outputs)),
        output_names=(*program.output_names, *[f"check{i}" for i in range(len(slots))]),
        origin=None,
        marked=None,
    )
    checks = tuple([
        (step.op.op, str(step.source or ""), len(step.inputs) - 1)  # pyright: ignore[reportAttributeAccessIssue]  # because it is an extension
        for step in steps
    ])  # fmt: skip
    return CheckedProgram(program, without_effects(extended, _is_check), checks)
