"""Seconds to trace, compile, run, lower and differentiate programs that are chains of many ops.

python benchmarks/graph_scale.py            prints the table
python benchmarks/graph_scale.py --write    also writes it into docs/performance.md
"""

from __future__ import annotations

import time
import timeit
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from interleaved import show

import lowering
import tenferro as tnf

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
SIZES = (10_000, 100_000, 1_000_000)
STAGES = ("trace", "compile", "run", "lower", "gradient", "code")
REPEATED = 70_000
"""Total number of ops in all repetitions of a measurement: shorter chains are repeated more often.

The median is printed.
"""


def chain(length: int) -> Any:
    """Return a function that applies `length` ops, each to the result of the preceding op."""

    def fn(x: Any) -> Any:
        for _ in range(length // 2):
            x = x * x + x
        return x

    return fn


def measure(length: int) -> dict[str, float]:
    """Return the seconds that each stage takes for a chain of `length` ops, and the seconds of one call of np.add."""
    add = seconds_of_add()
    x = np.full(8, 1e-12)
    marks = [time.perf_counter()]
    program = tnf.compile(chain(length), x)
    marks.append(time.perf_counter())
    executor = tnf.GraphExecutor()
    executor.compile(program)
    marks.append(time.perf_counter())
    executor.run(program, x)
    marks.append(time.perf_counter())
    lowering.lower_to_stablehlo(program)
    marks.append(time.perf_counter())
    gradient = tnf.compile(tnf.grad(lambda x: tnf.sum(chain(length)(x))), x)
    marks.append(time.perf_counter())
    executor.source(gradient)
    marks.append(time.perf_counter())
    spent = {stage: marks[i + 1] - marks[i] for i, stage in enumerate(STAGES)}
    return spent | {"add": (add + seconds_of_add()) / 2}


def seconds_of_add() -> float:
    """Return the seconds of one call of np.add on float64[8].

    The table also has times in this unit, to compare machines.
    """
    x = np.ones(8)
    return median(timeit.repeat(lambda: np.add(x, x), number=10_000, repeat=9)) / 10_000


def table() -> str:
    """Return the table, with a row for each length of the chain."""
    lines = [
        "| ops | trace s | compile s | run s | lower s | trace, linearise and transpose s "
        "| its passes and code s | us per op in all | in calls of np.add |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for size in SIZES:
        runs = [measure(size) for _ in range(max(1, REPEATED // size))]
        cells = [f"{median([run[stage] for run in runs]):.2f}" for stage in STAGES]
        each = [(run["gradient"] + run["code"]) / size for run in runs]
        calls = [spent / run["add"] for spent, run in zip(each, runs, strict=True)]
        cells += [f"{1e6 * median(each):.0f}", f"{median(calls):.0f}"]
        lines.append(f"| {size:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    show(table(), PAGE, "graphs")
