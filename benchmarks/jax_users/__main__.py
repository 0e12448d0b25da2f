"""Times of programs that JAX's users wrote.

Runs of each program by `xla_peer.native` and by `jax.jit` alternate in one process.

python benchmarks/jax_users                       measures all programs, values and gradients
python benchmarks/jax_users --only cable spline   measures programs whose names contain one of the words
python benchmarks/jax_users --seconds 1           measures each row for this time
python benchmarks/jax_users --first 5             repeats first results, and reports the shortest
python benchmarks/jax_users --larger              measures programs of matrix products and large arrays instead
python benchmarks/jax_users --check               only checks that the results agree
python benchmarks/jax_users --write               also writes the table in docs/jax.md, and the line in README.md
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Every library uses one BLAS thread. With more threads on a busy machine, the threads of NumPy's BLAS would wait for
# each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("JAX_ENABLE_X64", "1")
sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

import jax  # because JAX reads the variable on import
import numpy as np
from chance import CHANCE
from differential_equations import DIFFERENTIAL_EQUATIONS
from grids import GRIDS
from interleaved import geometric_mean, put_into, rounds
from larger import LARGER
from llvmlite.binding import get_host_cpu_name
from small_carries import SMALL_CARRIES
from user_program import UserProgram

from tenferro.program.profile import shown_seconds
from xla_peer import native

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = [*SMALL_CARRIES, *DIFFERENTIAL_EQUATIONS, *CHANCE, *GRIDS]
FEWEST = 5
"""Minimum number of rounds of measurements for each row of the table."""
SHORTEST = 2e-3
"""Minimum time of a measurement, in seconds; a shorter run is repeated."""
WARM = 0.3
"""Seconds for which each library runs alone before the measurements begin, for example to finish optimising."""
CONTESTANTS = ("native", "jax.jit", "NumPy", "numba")


@dataclass(frozen=True)
class Row:
    """Measurements of a program, either of its value or of its value and gradient.

    Attributes:
        first: the seconds to the first result, tracing and compiling included.
        processor: the processor seconds of all cores to the first result.
        later: the seconds of the fastest later run. The fastest run is used, because other programs share the machine.
        distance: the largest difference from the results of `jax.jit`, relative to the largest element.
    """

    name: str
    source: str
    first: dict[str, float]
    processor: dict[str, float]
    later: dict[str, float]
    distance: float
    is_right: bool

    def ratio(self, name: str) -> float | None:
        """Return native's time of a later run divided by that of the contestant `name`.

        None if the contestant was not measured.
        """
        return self.later["native"] / self.later[name] if name in self.later else None

    def first_ratio(self) -> float:
        """Return native's time to the first result divided by that of `jax.jit`."""
        return self.first["native"] / self.first["jax.jit"]

    def processor_ratio(self) -> float:
        """Return native's processor time to the first result divided by that of `jax.jit`."""
        return self.processor["native"] / self.processor["jax.jit"]


def contestants(program: UserProgram, gradient: bool) -> dict[str, Callable[[], Callable[[], Any]]]:
    """Return a function for each contestant.

    Each call compiles the program again, and returns a function that runs it.
    """
    arguments = program.arguments()
    function = program.differentiated() if gradient else program.function

    def by_native() -> Callable[[], Any]:
        compiled = native(lambda *xs: function(*xs))
        return lambda: compiled(*arguments)

    def by_jit() -> Callable[[], Any]:
        compiled = jax.jit(lambda *xs: function(*xs))
        return lambda: jax.tree.map(np.asarray, compiled(*arguments))

    ready = {"native": by_native, "jax.jit": by_jit}
    if program.by_hand is not None and not gradient:
        by_hand = program.by_hand
        ready["NumPy"] = lambda: lambda: by_hand(*arguments)
        if program.numba and importlib.util.find_spec("numba"):
            from numba import njit  # because numba may be missing

            compiled = njit(by_hand)
            ready["numba"] = lambda: lambda: compiled(*arguments)
    return ready


def measure(program: UserProgram, gradient: bool, seconds: float, repeats: int) -> Row:
    """Measure the first result and later runs of each contestant, and compare the results."""
    ready = contestants(program, gradient)
    runs: dict[str, Callable[[], Any]] = {}
    firsts: dict[str, list[float]] = {name: [] for name in ready}
    processor: dict[str, list[float]] = {name: [] for name in ready}
    for repeat in range(repeats):
        order = list(ready) if repeat % 2 == 0 else list(ready)[::-1]
        for name in order if repeat == 0 else [x for x in order if x in ("native", "jax.jit")]:
            gc.collect()  # so that no run collects the garbage of another
            start, spent = time.perf_counter(), time.process_time()
            run = ready[name]()
            result = run()
            firsts[name].append(time.perf_counter() - start)
            processor[name].append(time.process_time() - spent)
            runs[name] = run
            del result
    expected = runs["jax.jit"]()
    distance = max([distant(run(), expected) for run in runs.values()])
    for run in runs.values():
        stop = time.perf_counter() + WARM if seconds else 0.0
        while time.perf_counter() < stop:
            run()
    times = rounds(runs, seconds, fewest=FEWEST if seconds else 1, shortest=SHORTEST)
    return Row(
        program.name + (", gradient" if gradient else ""),
        program.source,
        {name: min(firsts[name]) for name in ("native", "jax.jit")},
        {name: min(processor[name]) for name in ("native", "jax.jit")},
        {name: min(each) for name, each in times.items()},
        distance,
        distance <= program.tolerance,
    )


def distant(results: Any, expected: Any) -> float:
    """Return the largest difference between results and expected results.

    A difference is divided by the largest element of the expected array, or by 1 if all its elements are smaller.
    """
    worst = 0.0
    leaves = zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True)
    for x, y in leaves:
        a, b = np.asarray(x), np.asarray(y)
        if a.shape != b.shape:
            raise ValueError(f"result of shape {a.shape}, expected {b.shape}")
        if not np.all(np.isfinite(b)):
            raise ValueError("the result of jax.jit is not finite")
        scale = max(1.0, float(np.max(np.abs(b), initial=0.0)))
        far = float(np.max(np.abs(a.astype(np.float64) - b), initial=0.0)) / scale
        worst = max(worst, far if np.isfinite(far) else np.inf)
    return worst


def line(row: Row) -> str:
    """Format a row of measurements as a line for the terminal."""
    shown = [
        f"{name} {shown_seconds(seconds)}"
        + (f" ({row.ratio(name):.2f})" if name != "native" else "")
        for name, seconds in row.later.items()
    ]
    wrong = "" if row.is_right else f"  OFF BY {row.distance:.1e}"
    return f"{row.name:44s} first {row.first_ratio():.2f}  {'  '.join(shown)}{wrong}"


def table(rows: list[Row]) -> str:
    """Return the Markdown table.

    In brackets after each time is native's time divided by this time.
    """
    names = [name for name in CONTESTANTS if any([name in row.later for row in rows])]
    head = ["program", "first: native", "first: jax.jit", *names]
    lines = [f"| {' | '.join(head)} |", "| --- |" + " --- |" * (len(head) - 1)]
    for row in rows:
        cells = [shown_seconds(row.first["native"])]
        cells.append(f"{shown_seconds(row.first['jax.jit'])} ({row.first_ratio():.2f})")
        for name in names:
            if name not in row.later:
                cells.append("")
                continue
            ratio = "" if name == "native" else f" ({row.ratio(name):.2f})"
            cells.append(shown_seconds(row.later[name]) + ratio)
        lines.append(f"| {row.name} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", summary(rows)])


def summary(rows: list[Row]) -> str:
    """Return sentences that state the geometric means over all rows, and the row with the largest ratio."""
    later = [row.later["native"] / row.later["jax.jit"] for row in rows]
    first = geometric_mean([row.first_ratio() for row in rows])
    processor = geometric_mean([row.processor_ratio() for row in rows])
    slowest = rows[later.index(max(later))].name
    return (
        f"A native function takes {first:.2f} of the time of `jax.jit` (jaxlib {version('jaxlib')}, on {os.cpu_count()} cores of "
        f"the type {get_host_cpu_name()}) to the first result, "
        f"{processor:.2f} of the processor time, and {geometric_mean(later):.2f} of the time in later runs. These are "
        f"geometric means of {len(rows)} rows; the largest ratio of later runs is {max(later):.2f} ({slowest})."
    )


def warm_up() -> None:
    """Import every library and run its compiler once, so that no measured time includes its start."""

    def function(x: Any) -> Any:
        y = jax.lax.scan(lambda total, each: (total + each @ each, None), 0.0, x)[0]
        return jax.numpy.linalg.solve(x.T @ x, x[0]) * y

    for compiled in (native(jax.jacrev(function)), jax.jit(jax.jacrev(function))):
        for _ in range(2):
            compiled(np.eye(5, 3))


def main() -> int:
    """Run the requested measurements; return 1 if results disagree."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=[""], help="words of names")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--first", type=int, default=3)
    parser.add_argument("--larger", action="store_true", help="programs of large arrays instead")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    warm_up()
    rows: list[Row] = []
    for program in LARGER if options.larger else PROGRAMS:
        for gradient in (False, True) if program.gradient else (False,):
            name = program.name + (", gradient" if gradient else "")
            if not any([word in name for word in options.only]):
                continue
            seconds, repeats = (0.0, 1) if options.check else (options.seconds, options.first)
            row = measure(program, gradient, seconds, repeats)
            rows.append(row)
            print(line(row), flush=True)
    print(summary(rows))
    if options.write:
        name = "jax users, larger" if options.larger else "jax users"
        put_into(ROOT / "docs" / "jax.md", name, table(rows))
        for page in () if options.larger else ("README.md", "docs/index.md"):
            put_into(ROOT / page, name, summary(rows))
    return 0 if all([row.is_right for row in rows]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
