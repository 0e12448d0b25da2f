"""Functions that several benchmarks share: interleaved timing, time limits, geometric means, and tables in pages."""

from __future__ import annotations

import math
import random
import re
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def rounds(
    contestants: dict[str, Callable[[], Any]],
    seconds: float,
    *,
    fewest: int = 1,
    shortest: float = 0.0,
    pause: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Run the functions in alternation, and return the times of each, in seconds.

    The rounds end after `seconds` in all, but there are at least `fewest` of them. Each round has a new random order,
    because a run leaves caches and threads in a state that affects the next run. A function that takes less than
    `shortest` is repeated until the time of all repetitions can be measured. Before each run there is a pause, so
    that the threads of the preceding run stop spinning.
    """
    times: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    stop, iteration = time.perf_counter() + seconds, 0
    while iteration < fewest or time.perf_counter() < stop:
        iteration += 1
        random.Random(iteration).shuffle(order)
        for name in order:
            run = contestants[name]
            time.sleep(pause)
            start, runs, spent = clock(), 0, 0.0
            while not runs or spent < shortest:
                run()
                runs += 1
                spent = clock() - start
            times[name].append(spent / runs)
    return times


def medians(
    contestants: dict[str, Callable[[], Any]],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median time of each function, in seconds, from runs in alternation."""
    times = rounds(contestants, seconds, clock=clock)
    return {name: statistics.median(spent) for name, spent in times.items()}


def geometric_mean(ratios: list[float]) -> float:
    """Return the geometric mean of ratios."""
    return math.exp(math.fsum(math.log(ratio) for ratio in ratios) / len(ratios))


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Limit the time of a `with` block.

    After `seconds`, TimeoutError is raised in the block, as soon as Python code runs again.
    """

    def over(*_: Any) -> None:
        raise TimeoutError(f"more than {seconds:g} s")

    before: Callable[..., Any] | int | None = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def show(table: str, page: Path, mark: str) -> None:
    """Print a table. If the command line contains `--write`, also write the table into the page."""
    print(table)
    if "--write" in sys.argv:
        put_into(page, mark, table)


def put_into(page: Path, mark: str, table: str) -> None:
    """Replace the text between the lines `<!-- mark -->` and `<!-- end -->` of a page by the table.

    Raises:
        ValueError: the page does not contain these two lines.
    """
    between = re.compile(rf"(<!-- {re.escape(mark)} -->\n).*?(<!-- end -->)", re.DOTALL)
    text, count = between.subn(lambda m: f"{m[1]}{table}\n{m[2]}", page.read_text())
    if not count:
        raise ValueError(f"{page} has no marks <!-- {mark} --> and <!-- end -->")
    page.write_text(text)
