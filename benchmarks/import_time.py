"""Time of importing tenferro in a new process, divided by that of importing NumPy and SciPy's linear algebra.

Run `python benchmarks/import_time.py`. Processes with the two imports alternate. Each printed ratio is the median
over the pairs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median

PAIRS = 21
PEER = "import numpy, scipy.linalg"
TRACED = (
    "import tenferro as tnf; p = tnf.compile(lambda x: tnf.exp(x), tnf.TensorSpec((3,), 'float64'))"
)
STATEMENTS = {
    "import": "import tenferro",
    "import and trace": TRACED,
    "import, trace and run": f"import numpy; {TRACED}; p.run(numpy.ones(3))",
}


def seconds(statements: str) -> float:
    """Return the seconds that the statements take in a new process.

    An earlier process must have cached the bytecode.
    """
    code = f"import time; t = time.perf_counter(); {statements}; print(time.perf_counter() - t)"
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    return float(run.stdout)


def main() -> None:
    """Print the times and the ratio for each entry of `STATEMENTS`."""
    for name, statements in STATEMENTS.items():
        seconds(PEER), seconds(statements)  # so that the bytecode is cached
        pairs = [(seconds(PEER), seconds(statements)) for _ in range(PAIRS)]
        peer, ours = (median(times) for times in zip(*pairs, strict=True))
        ratio = median([mine / theirs for theirs, mine in pairs])
        print(f"{name}: {1e3 * ours:.0f} ms, {ratio:.2f} times {1e3 * peer:.0f} ms of {PEER!r}")


if __name__ == "__main__":
    main()
