"""Compilations and memory of twelve processes that run the same compiled gradient.

There are three ways to pass the constants of the program to a process: send them, let the process read a file, or map a
file that all processes share.

python benchmarks/workers.py                       uses 64 MB of constants in 12 processes
python benchmarks/workers.py --workers 4 --megabytes 16 --ways mapped

Memory is read from /proc while all workers wait for each other. The memory of a worker is its private memory plus its
share of the shared memory.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import pickle
import statistics
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import tenferro as tnf

WAYS = ("sent", "read", "mapped")
GATES: list[Any] = []


def start(gate: Any) -> None:
    """Store in a new worker process the barrier at which the workers wait for each other."""
    GATES.append(gate)


@functools.cache
def executor() -> tnf.GraphExecutor:
    """Return this worker's executor, which uses one thread."""
    return tnf.GraphExecutor(threads=1)


@functools.cache
def loaded(path: str, mapped: bool) -> tnf.GraphProgram:
    """Load the program from a file. Later calls in the same worker return the loaded program."""
    return tnf.load(path, mapped=mapped)


def memory() -> tuple[int, int]:
    """Return the private memory of this process, and its proportional set size (PSS), in bytes.

    The PSS contains a process's share of memory that several processes use.
    """
    sizes: dict[str, int] = {}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]:
        name, size, *_ = line.split()
        sizes[name] = int(size) * 1024
    return sizes["Private_Clean:"] + sizes["Private_Dirty:"], sizes["Pss:"]


def task(program: bytes, path: str, way: str, x: Any) -> tuple[int, int, tuple[int, int], Any]:
    """Run the gradient in a worker process.

    Return the process id, the number of compilations, the memory in bytes, and the gradient.
    """
    own = pickle.loads(program) if way == "sent" else loaded(path, way == "mapped")
    gradient = executor().run(own, x)
    GATES[0].wait()
    used = memory()
    GATES[0].wait()
    return os.getpid(), executor().cache_stats().misses, used, gradient


def main() -> None:
    """Print a row for each way in which the constants reach the processes."""
    parser = argparse.ArgumentParser(description="Memory of workers")
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--ways", nargs="*", default=[*WAYS], choices=[*WAYS])
    given = parser.parse_args()
    width = int((given.megabytes * 1e6 / 8) ** 0.5)
    print(
        "| constants | compilations of a worker | private MB | share MB |\n| --- | --- | --- | --- |"
    )
    for extent, ways in ((8, ["none"]), (width, given.ways)):
        table = np.random.default_rng(0).standard_normal((extent, extent))
        x = np.linspace(0, 1, extent)
        program = tnf.compile(tnf.grad(lambda x, table=table: tnf.sum(tnf.tanh(table @ x))), x)
        sent = pickle.dumps(program, protocol=5)
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "gradient.tnf")
            tnf.save(program, path)
            for way in ways:
                context = multiprocessing.get_context("spawn")
                gate = context.Barrier(given.workers)
                with ProcessPoolExecutor(given.workers, context, start, (gate,)) as pool:
                    content = sent if way in ("sent", "none") else b""
                    run = functools.partial(task, content, path, "sent" if way == "none" else way)
                    rounds = [list(pool.map(run, [x] * given.workers)) for _ in range(2)]
                results = rounds[-1]
                assert len({process for process, *_ in results}) == given.workers
                compilations = {count for _, count, _, _ in results}
                private, share = [
                    statistics.median([used[i] for _, _, used, _ in results]) / 1e6 for i in (0, 1)
                ]
                print(f"| {way} | {max(compilations)} | {private:.0f} | {share:.0f} |", flush=True)


if __name__ == "__main__":
    main()
