"""Throughput of several threads that call the same small program: `python benchmarks/callers.py [--write]`.

The table has the throughput of all threads together, relative to that of one thread, and the time that one call in a
hundred exceeds. The same columns follow for a function that makes the same NumPy calls by hand. The GIL admits one
thread at a time, so a relative throughput of one is the best possible.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from interleaved import show

import tenferro as tnf

CALLERS = (1, 2, 4, 8)
SECONDS = 0.5
ROUNDS = 9
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


def small(n: Any, x: Any) -> Any:
    """Compute a scalar by six operations on eight elements. The module `n` is tenferro or NumPy."""
    y = n.sin(x) * 2.0 + x
    return n.sum(y * y) / n.exp(-x[0])


def callers_of(run: Callable[[], Any], count: int, seconds: float) -> tuple[float, list[float]]:
    """Let `count` threads call `run`.

    Return the calls per second of all threads together, and the time of each call.
    """
    start = threading.Barrier(count)
    times: list[list[float]] = [[] for _ in range(count)]

    def call(mine: list[float]) -> None:
        start.wait()
        stop = time.perf_counter() + seconds
        stamps = [time.perf_counter()]
        while stamps[-1] < stop:
            run()
            stamps.append(time.perf_counter())
        mine += [after - before for before, after in pairwise(stamps)]

    threads = [threading.Thread(target=call, args=(mine,)) for mine in times]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = [spent for mine in times for spent in mine]
    return len(every) / seconds, every


def table() -> str:
    """Return a table with a row for each number of threads.

    Its entries are medians over rounds, in which native and NumPy runs alternate.
    """
    x = np.linspace(0.1, 1.0, 8)
    program = tnf.compile(lambda x: small(tnf, x), x)
    executor = tnf.GraphExecutor()
    runs = {"native": lambda: executor.run(program, x), "NumPy": lambda: small(np, x)}
    shares: dict[tuple[str, int], list[float]] = {}
    slowest: dict[tuple[str, int], list[float]] = {}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            run()
            alone, _ = callers_of(run, 1, SECONDS)
            for count in CALLERS:
                together, times = callers_of(run, count, SECONDS)
                shares.setdefault((name, count), []).append(together / alone)
                times.sort()
                slowest.setdefault((name, count), []).append(times[-1 - len(times) // 100])
    lines = [
        "| callers | native, in runs of one | NumPy, in runs of one | longest of 100, native | NumPy |",
        "| --- | --- | --- | --- | --- |",
    ]
    for count in CALLERS:
        cells = [f"{statistics.median(shares[name, count]):.2f}" for name in runs]
        cells += [f"{1e3 * statistics.median(slowest[name, count]):.3f} ms" for name in runs]
        lines.append(f"| {count} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    show(table(), PAGE, "callers")
