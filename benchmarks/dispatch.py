"""Overhead of a call through PJRT, compared with jax.jit: `python benchmarks/dispatch.py`.

The program adds its float32[8] inputs. The table has the microseconds per call, as the median of 25 blocks of 200
calls, and their ratio to jax.jit with inputs of the same kind. Blocks of both alternate in one process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import tenferro as tnf
from xla_peer import XlaExecutor

BLOCKS, CALLS = 25, 200


def microseconds(*calls: Callable[[], Any]) -> list[float]:
    """Return the time per call of each function, in microseconds; blocks of calls of the functions alternate."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(BLOCKS):
        for call, samples in zip(calls, times, strict=True):
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            samples.append((time.perf_counter() - start) / CALLS)
    return [1e6 * statistics.median(samples) for samples in times]


def main() -> None:
    """Print a table with the time of a call of jax.jit and of tenferro, for each kind of input."""
    xla = XlaExecutor("cpu")
    print(f"{'inputs':<8}{'kind':<18}{'jax.jit':>9}{'ours':>9}{'ratio':>8}")
    for count in (1, 8):
        arrays = [np.arange(8, dtype="float32") + i for i in range(count)]

        def total(*xs: Any) -> Any:
            y = xs[0] + xs[0]
            for x in xs[1:]:
                y = y + x
            return y

        program = tnf.compile(total, *arrays)
        executable, theirs = xla.compile(program), jax.jit(total)
        buffers = [xla.put(x) for x in arrays]
        rows = {
            "device to device": (lambda: theirs(*buffers), lambda: executable(*buffers)),
            "NumPy to NumPy": (
                lambda: np.array(theirs(*arrays)),
                lambda: xla.run(program, *arrays),
            ),
        }
        for kind, (jitted, ours) in rows.items():
            a, b = microseconds(jitted, ours)
            print(f"{count:<8}{kind:<18}{a:>9.1f}{b:>9.1f}{b / a:>8.2f}")


if __name__ == "__main__":
    main()
