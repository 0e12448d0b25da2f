"""`tenferro bench`: a program natively and through PJRT, interleaved in one process."""

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
    """One contestant; all in seconds.

    Attributes:
        first: from the traced program to the first result, everything compiled anew.
        median, least, most: of later runs.
        runs: how many those were.
    """

    contestant: str
    first: float
    median: float
    least: float
    most: float
    runs: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)


def bench(
    program: GraphProgram,
    arguments: Sequence[Any],
    platform: str = "cpu",
    seconds: float = 2.0,
    progress: Callable[[float], None] = lambda done: None,
) -> list[Timing]:
    """The native executor, PJRT from NumPy to NumPy, and PJRT from device to device.

    Args:
        seconds: how long the later runs take in all.
    """
    native, xla = tnf.GraphExecutor(), XlaExecutor(platform)
    # A device takes dense arrays; laying them out is no part of the run.
    dense = [np.asarray(leaf, order="C") for leaf in program.check_arguments(tuple(arguments))]
    firsts: list[float] = []
    firsts.append(_timed(lambda: native.run(program, *arguments)))
    firsts.append(_timed(lambda: xla.run(program, *arguments)))
    buffers = [xla.put(leaf) for leaf in dense]
    firsts.append(firsts[-1])
    executable = xla.compile(program, *dense)

    def on_device() -> None:
        for made in flatten(executable.on_leaves(buffers))[0]:
            made.block_until_ready()

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
        for run, kept in zip(contestants.values(), times, strict=True):
            kept.append(_timed(run))
    return [
        Timing(name, first, statistics.median(kept), min(kept), max(kept), len(kept))
        for name, first, kept in zip(contestants, firsts, times, strict=True)
    ]


def _timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
