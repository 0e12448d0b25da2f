"""The benchmark suite: all contestants (libraries) run each case in one process, in alternation.

python benchmarks/suite                        measures all cases
python benchmarks/suite --only chain           measures cases whose name or group contains the word
python benchmarks/suite --against jax.jit      measures only native and these contestants
python benchmarks/suite --write                also writes build/suite.json, docs/images/suite.png and the table
                                               in docs/performance.md
python benchmarks/suite --pairs 20 --other PATH  compares this checkout with another, in alternating native runs
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

# Every library uses one BLAS thread. With more threads on a busy machine, the threads of NumPy's BLAS would wait for
# each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("JAX_ENABLE_X64", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cases import CASES, Case
from contestants import CONTESTANTS, program_of  # because the environment must be set first
from interleaved import geometric_mean, rounds
from limits import Limits
from pairs import compare, serve
from report import write

from tenferro.program.profile import shown_seconds

SECONDS = 3.0
"""Time for which the contestants run a case in alternation, in seconds."""
PAUSE = 0.005
"""Pause before each run, in seconds. During the pause, the threads of the preceding run stop spinning."""
SHORTEST = 2e-3
"""Minimum time of a measurement, in seconds; a shorter run is repeated."""
FEWEST = 5
"""Minimum number of measurements of each contestant in one case."""
WARM = 0.5
"""Seconds for which each contestant runs alone before the measurements begin.

During this time, tenferro and PyTorch finish optimising the program in the background.
"""
LIMIT = 60.0
"""Time limit of a case with `--pairs`, in seconds. A run that takes longer is stopped."""


def measure(case: Case, names: list[str], limits: Limits) -> dict[str, dict[str, float]]:
    """Measure a case; return the time to the first result, the median and the interquartile range of each contestant.

    For memory traffic and matrix products, a lower bound of the time on this machine is returned, too. All times are
    in seconds.
    """
    args = case.args()
    runs: dict[str, Any] = {}
    timings: dict[str, dict[str, float]] = {}
    for name in names:
        gc.collect()  # so that no run collects the garbage of another
        start = time.perf_counter()
        run = None if name in case.without else CONTESTANTS[name](case, args)
        if run is None:
            continue
        run()
        timings[name] = {"first": time.perf_counter() - start}
        runs[name] = run
    for run in runs.values():
        stop = time.perf_counter() + WARM
        while time.perf_counter() < stop:
            run()
    times = rounds(runs, SECONDS, fewest=FEWEST, shortest=SHORTEST, pause=PAUSE)
    for name, spent in times.items():
        quarters = statistics.quantiles(spent, n=4)
        timings[name] |= {"median": statistics.median(spent), "spread": quarters[2] - quarters[0]}
    if case.group not in ("linear algebra", "small"):
        program = program_of(case, args)
        timings["limit"] = {"median": limits.of(program)}
        if case.group in ("chains", "rows") and (loops := limits.loops(program)):
            timings["loops"] = {"median": loops}
    return timings


def main() -> None:
    """Run the requested measurements."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--against", nargs="*")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--other", type=Path, help="a checkout to compare with")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = list(CONTESTANTS) if options.against is None else ["native", *options.against]
    warnings.simplefilter("ignore")
    cases = {f"{x.group}: {x.name}": x for x in CASES if options.only in f"{x.group}: {x.name}"}
    if options.serve:
        serve(lambda name: CONTESTANTS["native"](cases[name], cases[name].args()), LIMIT)
        return
    if options.pairs:
        if options.other is None:
            parser.error("--pairs needs --other PATH, another checkout")
        medians = compare(Path(__file__).parent, list(cases), options.pairs, options.other)
        if medians:
            mean = geometric_mean(list(medians.values()))
            print(f"{mean:.3f} in the geometric mean of {len(medians)}")
        return
    warm_up(names)
    limits = Limits()
    results: list[dict[str, Any]] = []
    for case in cases.values():
        timings = measure(case, names, limits)
        results.append({"group": case.group, "case": case.name, "times": timings})
        print(line(case, timings), flush=True)
    if options.write:
        write(results, limits)


def warm_up(names: list[str]) -> None:
    """Import every library and run LAPACK once, so that no measured time includes loading them."""
    import numpy as np
    import scipy.linalg

    a = np.eye(256)
    for library in (np.linalg, scipy.linalg):
        for routine in (library.svd, library.qr, library.eigh, library.cholesky, library.inv):
            routine(a)
    tiny = Case("chains", "warm up", lambda n, x: x + x, lambda: (np.ones(2),))
    for name in names:
        run = CONTESTANTS[name](tiny, tiny.args())
        if run is not None:
            run()


def line(case: Case, timings: dict[str, dict[str, float]]) -> str:
    """Format a case as a line for the terminal: times, and ratios to native's time."""
    native = timings["native"]
    parts = [f"{case.name:34s}"]
    for name, times in timings.items():
        ratio = f" ({native['median'] / times['median']:.2f})" if name != "native" else ""
        first = f"{shown_seconds(times['first'])} " if "first" in times else ""
        parts.append(f"{name} {first}{shown_seconds(times['median'])}{ratio}")
    return "  ".join(parts)


if __name__ == "__main__":
    main()
