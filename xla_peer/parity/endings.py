"""Search for the smallest module, and the first op, with which XLA ends its process by a crash or a hang."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lowering import PLATFORMS, lower_to_stablehlo
from tenferro.errors import PeerEndedError, TenferroError
from tenferro.program import GraphProgram
from tenferro.types import unflatten
from xla_peer.parity.budget import Budget
from xla_peer.parity.divergence import alone, first_failing, maker_numbers, prefix, shown
from xla_peer.parity.reproduction import save_reproduction

__all__ = ["OUTSIDE", "Ending", "ending_of_text", "first_ending", "text_of"]

OUTSIDE = "another process or the operating system, for lack of memory, may have ended it"
SHOWN_LINES = 12
"""Maximum number of lines of a module that a report shows."""


@dataclass(frozen=True)
class Ending:
    """End of the peer's process by a crash or a hang, and the module that causes it.

    Attributes:
        how: `SIGSEGV` or another signal, `exit status 7`, `timeout` or `out of memory`.
        stage: `compiling` or `running`: what the process did last.
        said: the last line that the process printed; it may be empty.
        op: the first op that ends the process, as printed in the program. It is empty if no single op does, or if there
            was no search.
        line: the user's line, if known.
        module: StableHLO text that ends the process: the op alone if that suffices, else the steps up to it, or
            the whole program.
        program: the module as a program; `leaves` are its arguments.
        platform: platform of the peer.
        recurs: whether the process ends again on the same program; None if this was not tried.
    """

    how: str
    stage: str
    said: str
    op: str
    line: str
    module: str = field(repr=False)
    program: GraphProgram = field(repr=False)
    leaves: tuple[Any, ...] = field(repr=False)
    platform: str = "cpu"
    recurs: bool | None = None

    @property
    def error(self) -> PeerEndedError:
        """The error to raise for this ending."""
        return PeerEndedError(self.how, self.stage, self.said, self.module)

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON-compatible values."""
        return {
            "how": self.how,
            "stage": self.stage,
            "said": self.said,
            "op": self.op,
            "line": self.line,
            "module": self.module,
            "recurs": self.recurs,
        }

    def save(self, folder: Any) -> Path:
        """Write a reproduction; see `Divergence.save`.

        Raises:
            OSError: the folder cannot be made or written.
        """
        said = f"{self.how} while {self.stage}"
        return save_reproduction(
            folder, self.program, self.leaves, self.module, self.platform, said
        )

    def __str__(self) -> str:
        said = f": {self.said}" if self.said else ""
        lines = [f"peer ended: {self.how} while {self.stage}{said}"]
        if self.recurs is False:
            lines.append(f"it did not end again on the same program: {OUTSIDE}")
        if self.op:
            lines.append(f"the first op with which it ends is {self.op}")
        if self.line:
            lines.append(f"  at {self.line}")
        text = self.module.strip().splitlines()
        rest = len(text) - SHOWN_LINES
        lines += [f"  {line:.160}" for line in text[:SHOWN_LINES]]
        return "\n".join(lines + [f"  .. and {rest} more lines"] * (rest > 0))


def first_ending(
    program: GraphProgram,
    leaves: Sequence[Any],
    peer: Any,
    error: PeerEndedError,
    platform: str,
    locate: bool = True,
    budget: Budget | None = None,
) -> Ending:
    """Find the smallest part of a program that ends the peer in the same way, by bisection.

    Timeouts are not bisected, because each attempt would take as long.
    """
    budget = budget or Budget()
    part, arguments, earliest, op, line = program, tuple(leaves), error, "", ""
    recurs = None
    if locate and error.ending != "timeout":
        numbers = maker_numbers(program)
        wrong = [numbers[slot] for slot in program.output_slots if slot in numbers]

        def succeeds(index: int) -> bool:
            budget.spend()
            cone = prefix(program, program.instructions[index].outputs)
            return _ended(cone, leaves, peer) is None

        index = first_failing(program, wrong, succeeds)
        is_tried = wrong and not budget.is_exhausted
        recurs = index is not None if is_tried or index is not None else None
        if index is not None:
            instruction = program.instructions[index]
            op, line = shown(program, instruction), str(instruction.source or "")
            cone = prefix(program, instruction.outputs)
            for candidate, values in (alone(program, index, leaves), (cone, leaves)):
                again = _ended(candidate, values, peer)
                if again is not None:
                    part, arguments, earliest = candidate, tuple(values), again
                    break
    return Ending(
        how=earliest.ending,
        stage=earliest.stage,
        said=earliest.said or error.said,
        op=op,
        line=line,
        module=text_of(part, platform) or error.module,
        program=part,
        leaves=arguments,
        platform=platform,
        recurs=recurs,
    )


def ending_of_text(
    program: GraphProgram, leaves: Sequence[Any], error: PeerEndedError, platform: str
) -> Ending:
    """Return the `Ending` for a process that ended while it ran the original text, which is not bisected."""
    return Ending(
        how=error.ending,
        stage=error.stage,
        said=error.said,
        op="",
        line="",
        module=error.module,
        program=program,
        leaves=tuple(leaves),
        platform=platform,
    )


def _ended(program: GraphProgram, leaves: Sequence[Any], peer: Any) -> PeerEndedError | None:
    try:
        peer.run(program, *unflatten(program.in_tree, leaves))
    except PeerEndedError as error:
        return error
    except TenferroError:
        return None  # the peer rejected the module, so its process did not end
    return None


def text_of(program: GraphProgram, platform: str) -> str:
    """Return the StableHLO text that the peer receives for a program; empty if the program cannot be lowered."""
    try:
        return lower_to_stablehlo(program, platform if platform in PLATFORMS else "cpu").plain_text
    except TenferroError:
        return ""
