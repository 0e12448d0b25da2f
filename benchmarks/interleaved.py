"""What benchmarks share: contestants that take turns, and tables in pages."""

from __future__ import annotations

import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def medians(
    contestants: dict[str, Callable[[], Any]],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Seconds of one run of each by a clock; they take turns for so long."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        for name, run in contestants.items():
            start = clock()
            run()
            times[name].append(clock() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def show(table: str, page: Path, mark: str) -> None:
    """Print a table, and with `--write` on the command line put it into a page."""
    print(table)
    if "--write" in sys.argv:
        put_into(page, mark, table)


def put_into(page: Path, mark: str, table: str) -> None:
    """Replace what stands between `<!-- mark -->` and `<!-- end -->`."""
    between = re.compile(rf"(<!-- {re.escape(mark)} -->\n).*?(<!-- end -->)", re.DOTALL)
    page.write_text(between.sub(lambda m: f"{m[1]}{table}\n{m[2]}", page.read_text()))
