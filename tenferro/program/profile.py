"""`Profile`: time and memory of each instruction of a native run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tenferro.table import aligned

if TYPE_CHECKING:
    from tenferro.program.program import GraphProgram

__all__ = ["InstructionProfile", "Profile"]

BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class InstructionProfile:
    """Measurements of one instruction of a native run.

    Attributes:
        op: the op with its payload.
        types: the types of the outputs.
        source: the line of the user's code that created the instruction, or "".
        seconds: the total time of all executions of the instruction in one run, as the median over the runs.
        made_bytes: the bytes that the instruction allocated in its last execution. A view allocates none.
        moved_bytes: the total bytes of its operands and results.
        live_bytes: bytes of all arrays that are live while the instruction runs, including arguments and results.
        depth: the number of enclosing loops and conditionals. The instructions inside a loop are listed after the loop,
            and the `seconds` of the loop include their times.
        executions: the number of executions in one run, for example the number of iterations of the enclosing loop.
    """

    op: str
    types: str
    source: str
    seconds: float
    made_bytes: int
    moved_bytes: int
    live_bytes: int
    depth: int = 0
    executions: int = 1


@dataclass(frozen=True)
class Profile:
    """Measurements of the instructions of a native run. `print(profile)` shows the slowest instructions.

    Attributes:
        program: the program that ran, after it was specialised to the arguments and changed by the native passes.
        instructions: the measurements, in the order in which the instructions ran.
        runs: the number of timed runs.
    """

    program: GraphProgram
    instructions: tuple[InstructionProfile, ...]
    runs: int

    @property
    def seconds(self) -> float:
        """Total time of the instructions in seconds, without the overhead of the executor."""
        return sum([row.seconds for row in self.outermost])

    @property
    def outermost(self) -> tuple[InstructionProfile, ...]:
        """The instructions of the program itself, without the instructions inside loops and conditionals."""
        return tuple([row for row in self.instructions if not row.depth])

    @property
    def peak_bytes(self) -> int:
        """The largest number of bytes that are live at the same time, including the arguments."""
        return max((row.live_bytes for row in self.instructions), default=0)

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as dicts, lists, numbers and strings, for JSON."""
        return {
            "program": self.program.name,
            "runs": self.runs,
            "seconds": self.seconds,
            "peak_bytes": self.peak_bytes,
            "instructions": [
                {
                    "op": row.op,
                    "types": row.types,
                    "source": row.source,
                    "seconds": row.seconds,
                    "made_bytes": row.made_bytes,
                    "moved_bytes": row.moved_bytes,
                    "live_bytes": row.live_bytes,
                    "depth": row.depth,
                    "executions": row.executions,
                }
                for row in self.instructions
            ],
        }

    def __repr__(self) -> str:
        return f"<Profile of {self._summary()}>"

    def __str__(self) -> str:
        return self.table()

    def _summary(self) -> str:
        return (
            f"{self.program.name}: {len(self.instructions)} instructions, "
            f"{shown_seconds(self.seconds)}, median of {self.runs} runs; "
            f"at most {shown_bytes(self.peak_bytes)} alive"
        )

    def table(self, most: int = 20) -> str:
        """Return a text: the `most` slowest instructions, the values that loops stack, and the memory over time."""
        rows = [("share", "time", "GB/s", "made", "op", "line")]
        slowest = sorted(self.instructions, key=lambda row: -row.seconds)[:most]
        for row in slowest:
            share = row.seconds / self.seconds if self.seconds else 0.0
            speed = row.moved_bytes / row.seconds / 1e9 if row.seconds else 0.0
            op = "  " * row.depth + (row.op if len(row.op) <= 40 else row.op[:38] + "..")
            op += f" x {row.executions}" if row.depth else ""
            location = row.source.rpartition("/")[2]
            rows.append(
                (
                    f"{share:.1%}",
                    shown_seconds(row.seconds),
                    f"{speed:.2g}",
                    shown_bytes(row.made_bytes),
                    f"{op} -> {row.types}",
                    location,
                )
            )
        lines = [self._summary()]
        lines += aligned(rows, right=4)
        hidden = len(self.instructions) - len(slowest)
        if hidden > 0:
            lines.append(f".. and {hidden} faster ones")
        from tenferro.program.tape import tapes_of  # because few programs are profiled

        for number, tape in tapes_of(self.program).items():
            lines += [
                f"{'' if i else f'loop {number}: '}{line}" for i, line in enumerate(tape.lines())
            ]
        lines.append(f"memory |{self.memory_timeline()}|")
        return "\n".join(lines)

    def memory_timeline(self, width: int = 72) -> str:
        """Return the live bytes over the run as a line of bars. Each bar shows the maximum of its interval.

        >>> import numpy as np, tenferro as tnf
        >>> profile = tnf.compile(lambda x: tnf.sum(x + 1), np.ones(8)).profile(np.ones(8))
        >>> len(profile.memory_timeline()) == len(profile.instructions)
        True
        """
        live = [row.live_bytes for row in self.outermost]
        columns = min(width, len(live))
        edges = [len(live) * i // columns for i in range(columns + 1)] if columns else [0]
        heights = [max(live[a:b]) for a, b in pairwise(edges)]
        top = max(self.peak_bytes, 1)
        return "".join(BARS[(8 * height + top - 1) // top] for height in heights)

    def to_html(self) -> str:
        """Return an HTML page that draws the program that ran, with the times of its ops and the memory over time."""
        from tenferro.program.drawing.page import to_html  # because few programs are drawn

        return to_html(self.program, self.instructions)

    def _repr_html_(self) -> str:
        from tenferro.program.drawing.page import as_frame  # because few programs are drawn

        return as_frame(self.to_html(), 680)


def shown_seconds(seconds: float) -> str:
    """Format a duration in seconds with a suitable unit.

    >>> shown_seconds(2.5e-5), shown_seconds(0.25), shown_seconds(3)
    ('25.0 us', '250 ms', '3.00 s')
    """
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.2f} s"


def shown_bytes(count: int) -> str:
    """Format a number of bytes with a suitable unit.

    >>> shown_bytes(0), shown_bytes(1536), shown_bytes(3 << 20)
    ('0 B', '1.5 KiB', '3.0 MiB')
    """
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
