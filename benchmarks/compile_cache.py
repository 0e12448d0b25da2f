"""Time that the cache of compiled code saves in a second process: `python benchmarks/compile_cache.py`.

The first process compiles a program with 40 different fused kernels. The second process loads the kernels from the
cache folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

CHILD = """
import time
import numpy as np, tenferro as tnf
from xla_peer import XlaExecutor
def kernels(*xs):
    return [tnf.sum(tnf.exp(tnf.sin(x)) * (i + 1.5), axis=1) for i, x in enumerate(xs)]
arrays = [np.ones((16 + i, 32 + i)) for i in range(40)]
program = tnf.compile(kernels, *arrays)
xla = XlaExecutor("cpu")
start = time.perf_counter()
xla.compile(program)
print(time.perf_counter() - start, xla.compile_cache_stats().hits)
"""


def main() -> None:
    """Run the program in two processes, one after the other, and print the time of each."""
    with tempfile.TemporaryDirectory() as folder:
        seconds = []
        for expected in ("0", "1"):
            shown = subprocess.run(
                [sys.executable, "-c", CHILD],
                env={**os.environ, "TENFERRO_CACHE_DIR": folder},
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()
            assert shown[1] == expected
            seconds.append(float(shown[0]))
    first, second = seconds
    print(f"first process {first:.3f} s, second {second:.3f} s: {first / second:.0f} times faster")


if __name__ == "__main__":
    main()
