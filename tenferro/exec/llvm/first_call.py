"""The code of a first call: a text without LLVM's passes, or with them where these pay at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tenferro.exec.llvm.code import ALONG_LANES, LATE, Code
from tenferro.exec.llvm.vectors import LOOP, Definitions, NotAlongVectorsError, VectorLoop

__all__ = ["UNOPTIMISED", "Work", "for_first_call", "passes", "without_passes"]

PASSES = 5e6, 100e3
"""Nanoseconds that LLVM's passes take, and for each line of a text."""
UNOPTIMISED = 0.08
"""Nanoseconds that an instruction takes longer without them."""
VECTORS = 2
"""Instructions on numbers as long as which one on vectors takes, without passes."""
LINE = 8e3
"""Nanoseconds that a line takes until it is machine code, if it is one of vectors."""


class Work(NamedTuple):
    """Instructions that a call runs, by estimate.

    instructions: in all
    innermost:    of these, those of each loop without another one inside, by the label of its block
    turns:        how often a call runs them; of a while loop, of which nothing tells, a guess
    """

    instructions: int
    innermost: Mapping[str, int] = {}
    turns: int = 1

    @classmethod
    def of(cls, code: Code, turns: int = 1) -> Work:
        """The work of a function that has been written."""
        return cls(code.work, code.innermost, turns)

    def times(self, calls: int) -> Work:
        """The work of several calls."""
        innermost = {label: calls * work for label, work in self.innermost.items()}
        return self._replace(instructions=calls * self.instructions, innermost=innermost)


def passes(text: str) -> float:
    """Nanoseconds that LLVM's passes take, by estimate."""
    start, for_a_line = PASSES
    return start + for_a_line * text.count("\n")


def without_passes(text: str) -> str:
    """The text without the notes for passes."""
    return "".join([part.partition(ALONG_LANES)[0] for part in text.split(LATE)])


def for_first_call(text: str, work: Work, lanes: int) -> str | None:
    """The text to be compiled without passes: with loops along vectors where that is worth the lines.

    Args:
        lanes: float64 that the processor's vectors hold.

    Returns:
        None where passes pay for this call alone.
    """
    plain, left = without_passes(text), float(work.instructions)
    gain = UNOPTIMISED * (1 - VECTORS / lanes)
    definitions = Definitions(text)
    functions: dict[str, str] = {}
    parts: list[str] = []
    start, innermost = 0, dict(work.innermost)
    for loop in LOOP.finditer(plain):
        # Once, because another function of the text may have the label too.
        saved = innermost.pop(loop["label"], 0) * gain
        if saved * work.turns < LINE * loop["body"].count("\n"):
            continue
        try:
            along = VectorLoop(loop, lanes, definitions)
        except NotAlongVectorsError:
            continue
        new = along.functions.keys() - functions.keys()
        lines = len(along.lines) + sum([along.functions[name].count("\n") for name in new])
        if saved * work.turns < LINE * lines:
            continue
        functions |= along.functions
        parts += [plain[start : loop.start()], along.text]
        start, left = loop.end(), left - saved / UNOPTIMISED
    if left * UNOPTIMISED > passes(text):
        return None
    parts.append(plain[start:])
    declared = [each for name, each in functions.items() if f"@{name}(" not in plain]
    return "\n".join([*declared, "".join(parts)])
