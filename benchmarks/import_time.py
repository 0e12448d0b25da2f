"""Import time of tenferro over NumPy's, the least of nine runs each: `python benchmarks/import_time.py`."""

from __future__ import annotations

import os
import subprocess
import sys

RUNS = 9


def seconds(module: str) -> float:
    """The least time to import a module in a fresh process, bytecode cached."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    times = [
        float(
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
            ).stdout
        )
        for _ in range(RUNS)
    ]
    return min(times)


if __name__ == "__main__":
    base = seconds("numpy")
    ours = seconds("tenferro")
    print(f"numpy {base:.3f} s, tenferro {ours:.3f} s: {ours / base:.2f} times")
