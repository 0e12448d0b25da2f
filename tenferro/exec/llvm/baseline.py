"""Baseline compilation: the first tier, without LLVM's passes, for a call that would otherwise wait for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tenferro.exec.llvm.code import LATE_MODULE, VECTOR_SECTION, Code
from tenferro.exec.llvm.vectorise import LOOP, Definitions, NotVectorisedError, VectorLoop

__all__ = ["BASELINE_PENALTY", "Work", "baseline_text", "pass_time", "without_vector_sections"]

PASS_TIME, PASS_TIME_PER_LINE = 5e6, 100e3
"""Estimated time of LLVM's passes and of each line of text in them, in nanoseconds."""
BASELINE_PENALTY = 0.08
"""Estimated time that an instruction takes longer without passes, in nanoseconds."""
VECTOR_INSTRUCTION_COST = 2
"""Cost of a vector instruction without passes, in scalar instructions."""
VECTOR_LINE_TIME = 8e3
"""Estimated time to compile a line with vectors without passes, in nanoseconds."""


class Work(NamedTuple):
    """Estimated number of instructions of a call.

    instructions: total in one iteration of a while loop, or in the call
    innermost:    part of each innermost loop, by the label of its block
    iterations:   assumed iterations of a while loop; otherwise 1
    """

    instructions: int
    innermost: Mapping[str, int] = {}
    iterations: int = 1

    @classmethod
    def from_code(cls, code: Code, iterations: int = 1) -> Work:
        """Return the work of a written function."""
        return cls(code.work, code.innermost, iterations)

    def times(self, calls: int) -> Work:
        """Return the work of several calls."""
        innermost = {label: calls * work for label, work in self.innermost.items()}
        return self._replace(instructions=calls * self.instructions, innermost=innermost)


def pass_time(text: str) -> float:
    """Return the estimated time of LLVM's passes, in nanoseconds."""
    return PASS_TIME + PASS_TIME_PER_LINE * text.count("\n")


def without_vector_sections(text: str) -> str:
    """Return the text without functions that only vectorised loops call."""
    return "".join([part.partition(VECTOR_SECTION)[0] for part in text.split(LATE_MODULE)])


def baseline_text(text: str, work: Work, lanes: int) -> str | None:
    """Return the text for compilation without passes, with loops vectorised where that saves time.

    Args:
        lanes: number of float64 in the processor's widest vectors.

    Returns:
        None if the passes save more time in this call than they take.
    """
    plain, left = without_vector_sections(text), float(work.instructions)
    gain = BASELINE_PENALTY * (1 - VECTOR_INSTRUCTION_COST / lanes)
    definitions = Definitions(text)
    functions: dict[str, str] = {}
    parts: list[str] = []
    start, innermost = 0, dict(work.innermost)
    for loop in LOOP.finditer(plain):
        # Count a label once, because another function of the text may have it too.
        saved = innermost.pop(loop["label"], 0) * gain
        if saved * work.iterations < VECTOR_LINE_TIME * loop["body"].count("\n"):
            continue
        try:
            vectorised = VectorLoop(loop, lanes, definitions)
        except NotVectorisedError:
            continue
        new = vectorised.functions.keys() - functions.keys()
        lines = len(vectorised.lines) + sum(
            [vectorised.functions[name].count("\n") for name in new]
        )
        if saved * work.iterations < VECTOR_LINE_TIME * lines:
            continue
        functions |= vectorised.functions
        parts += [plain[start : loop.start()], vectorised.text]
        start, left = loop.end(), left - saved / BASELINE_PENALTY
    if left * BASELINE_PENALTY > pass_time(text):
        return None
    parts.append(plain[start:])
    declared = [function for name, function in functions.items() if f"@{name}(" not in plain]
    return "\n".join([*declared, "".join(parts)])
