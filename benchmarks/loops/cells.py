"""Entries of the table: measurements of a kernel or its gradient.

All contestants run in alternation, and each run has a time limit.
"""

from __future__ import annotations

import gc
import statistics
import time
from dataclasses import dataclass, field

from contestants import CONTESTANTS, Run
from interleaved import limited, rounds
from kernel import Kernel

from tenferro.program.profile import shown_seconds

__all__ = ["Cell", "Times", "measure"]

PENALTY = 10
"""Factor by which the slowest measured time is multiplied to get the time of a contestant that does not finish.
"""
FEWEST = 3
"""Minimum number of rounds. In a round, every contestant runs once."""
SHORTEST = 2e-3
"""Minimum time of a measurement, in seconds; a shorter run is repeated."""


@dataclass(frozen=True)
class Times:
    """Times of a contestant, in seconds.

    `first` is the time to the first result, tracing and compiling included. The others are those of later runs.
    """

    first: float
    median: float
    least: float


@dataclass
class Cell:
    """Measurements of one kernel or of its gradient.

    Attributes:
        times: the times of each contestant that finished.
        failures: for each contestant that did not finish, the reason.
    """

    kernel: str
    gradient: bool
    times: dict[str, Times] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Label of the entry's row in the table."""
        return f"{self.kernel}, gradient" if self.gradient else self.kernel

    def seconds(self, contestant: str) -> float | None:
        """Return a contestant's median time in seconds.

        If the contestant did not finish, the result is `PENALTY` times the slowest median. If it did not run at all,
        the result is None.
        """
        if contestant in self.times:
            return self.times[contestant].median
        if contestant in self.failures and self.times:
            return PENALTY * max(times.median for times in self.times.values())
        return None

    def ratio(self, contestant: str) -> float | None:
        """Return native's time divided by the time of `contestant`; None if one of the times is missing."""
        ours, theirs = self.seconds("native"), self.seconds(contestant)
        if ours is None or theirs is None or {"native", contestant} <= self.failures.keys():
            return None
        return ours / theirs

    def line(self) -> str:
        """Format the entry as a line for the terminal: times of first and later results, ratios to native's time."""
        parts = [f"{self.name:28s}"]
        for name, times in self.times.items():
            ratio = "" if name == "native" else f" ({self.ratio(name):.2f})"
            parts.append(
                f"{name} {shown_seconds(times.first)} {shown_seconds(times.median)}{ratio}"
            )
        parts += [f"{name}: {reason}" for name, reason in self.failures.items()]
        return "  ".join(parts)


def measure(kernel: Kernel, gradient: bool, names: list[str], seconds: float, limit: float) -> Cell:
    """Measure the first result and later runs of each contestant.

    A contestant that raises an error or exceeds the time limit is recorded as a failure.
    """
    arguments = kernel.arguments(kernel.size)
    cell = Cell(kernel.name, gradient)
    runs: dict[str, Run] = {}
    firsts: dict[str, float] = {}
    for name in names:
        gc.collect()  # so that no run collects the garbage of another
        start = time.perf_counter()
        try:
            with limited(limit):
                run = CONTESTANTS[name](kernel, arguments, gradient)
                if run is None:
                    continue
                run()
                firsts[name] = time.perf_counter() - start
                run()  # because the second run may still compile something
        except Exception as reason:
            cell.failures[name] = _in_words(reason)
        else:
            runs[name] = run
    spent = rounds(runs, seconds, fewest=FEWEST, shortest=SHORTEST)
    for name, each in spent.items():
        cell.times[name] = Times(firsts[name], statistics.median(each), min(each))
    return cell


def _in_words(reason: Exception) -> str:
    if isinstance(reason, TimeoutError):
        return str(reason)
    return f"{type(reason).__name__}: {str(reason).splitlines()[0] if str(reason) else ''}"
