"""Implementation of `tenferro bench`: times of native runs and of runs through PJRT, interleaved in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.program import GraphProgram
from tenferro.types import flatten
from xla_peer.executor import XlaExecutor

__all__ = ["Timing", "bench"]


@dataclass(frozen=True)
class Timing:
    """Times of one executor, in seconds.

    Attributes:
        contestant: the name of the executor.
        first: the time of the first run of the traced program, including all compilation.
        median, least, most: the median, minimum and maximum time of the later runs.
        runs: the number of later runs.
    """

    contestant: str
    first: float
    median: float
    least: float
    most: float
    runs: int

    def to_dict(self) -> dict[str, Any]:
        """Convert the timing to dicts, numbers and strings, for JSON."""
        return asdict(self)


def bench(
    program: GraphProgram,
    arguments: Sequence[Any],
    platform: str = "cpu",
    seconds: float = 2.0,
    progress: Callable[[float], None] = lambda done: None,
) -> list[Timing]:
    """Measure the times of a program in the native executor, in PJRT on NumPy arrays, and in PJRT on device arrays.

    Args:
        seconds: the total time of the later runs.
    """
    native, xla = tnf.GraphExecutor(), XlaExecutor(platform)
    # PJRT accepts only contiguous arrays. They are copied here, so that the timed runs do not include the copies.
    dense = [np.asarray(leaf, order="C") for leaf in program.check_arguments(tuple(arguments))]
    firsts: list[float] = []
    firsts.append(_timed(lambda: native.run(program, *arguments)))
    firsts.append(_timed(lambda: xla.run(program, *arguments)))
    buffers = [xla.put(leaf) for leaf in dense]
    firsts.append(firsts[-1])
    executable = xla.compile(program, *dense)

    def on_device() -> None:
        for buffer in flatten(executable.on_leaves(buffers))[0]:
            buffer.block_until_ready()

    contestants: dict[str, Callable[[], Any]] = {
        "native": lambda: native.run(program, *arguments),
        f"PJRT {platform}": lambda: xla.run(program, *arguments),
        f"PJRT {platform}, on device": on_device,
    }
    times: list[list[float]] = [[] for _ in contestants]
    for run in contestants.values():
        run()
    start = time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds or not times[0]:
        progress(min(spent, seconds))
        for run, samples in zip(contestants.values(), times, strict=True):
            samples.append(_timed(run))
    return [
        Timing(name, first, statistics.median(samples), min(samples), max(samples), len(samples))
        for name, first, samples in zip(contestants, firsts, times, strict=True)
    ]


def _timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
