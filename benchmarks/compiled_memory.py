"""Memory that a process retains after compiled programs and their executors have been deleted.

python benchmarks/compiled_memory.py                prints the growth of memory after 10,000 loops
python benchmarks/compiled_memory.py --count 500    compiles fewer loops
"""

from __future__ import annotations

import argparse
import gc
from pathlib import Path

import numpy as np

import tenferro as tnf

WARM_UP = 200
"""Number of programs that are compiled before the first measurement, so that allocators and caches have been filled."""


def resident_kilobytes() -> int:
    """Return the resident memory of this process, in kilobytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def compile_and_drop(number: int) -> None:
    """Compile a loop with a constant of its own, run it twice, and delete it and its executor."""
    x = np.ones(7)
    program = tnf.compile(
        lambda x: tnf.fori_loop(0, 3000, lambda i, c: tnf.sin(c) * (number + 0.5), x), x
    )
    executor = tnf.GraphExecutor("K", threads=1)
    executor.run(program, x)
    executor.run(program, x)
    assert executor.compile_stats().compiled


def main() -> None:
    """Compile and delete the programs, and print the growth of the resident memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    count = parser.parse_args().count
    for number in range(WARM_UP):
        compile_and_drop(-1 - number)
    gc.collect()
    before = resident_kilobytes()
    for number in range(count):
        compile_and_drop(number)
    gc.collect()
    growth = resident_kilobytes() - before
    print(f"{count} compiled programs: {growth / 1000:.1f} MB in all, {growth / count:.2f} kB each")


if __name__ == "__main__":
    main()
