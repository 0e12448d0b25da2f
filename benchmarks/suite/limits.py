"""What the machine allows: bytes over the measured rate of copies, multiplications over BLAS's."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.ops.contraction import DotGeneral

__all__ = ["Limits"]

EXTENT = 1024
"""Of the matrices that BLAS is timed on."""
COPIED = 1 << 23
"""Elements of the array that copies are timed on."""


class Limits:
    """Rates of this machine, all of its cores at work.

    Attributes:
        bytes_per_second: read and written by copies of arrays that no cache holds.
        flops: of matrix products, by dtype.
    """

    def __init__(self) -> None:
        workers = tnf.GraphExecutor().workers
        share, cores = workers.share, workers.count
        x, y = np.ones(COPIED), np.empty(COPIED)

        def copied(start: int, stop: int) -> None:
            np.copyto(y[start:stop], x[start:stop])

        spent = _seconds(lambda: share(copied, COPIED, 1, False))
        self.bytes_per_second = 2 * x.nbytes / spent
        self.flops: dict[Any, float] = {}
        for dtype in (np.float32, np.float64):
            a = np.ones((EXTENT, EXTENT), dtype)
            spent = _seconds(lambda a=a: share(lambda i, j: np.matmul(a, a), cores, 1, False))
            self.flops[np.dtype(dtype)] = cores * 2 * EXTENT**3 / spent

    def of(self, program: tnf.GraphProgram) -> float:
        """Seconds below which no run can be: arguments read once, results written once, products made."""
        specs = (*program.input_specs, *program.output_specs)
        moved = sum(spec.nbytes for spec in specs) / self.bytes_per_second
        compiled = tnf.GraphExecutor().compile(program)
        types = dict(zip(compiled.input_slots, compiled.input_types, strict=True))
        multiplied = 0.0
        for step in compiled.instructions:
            types.update(zip(step.output_slots, step.output_types, strict=True))
            if isinstance(step.op, DotGeneral) and step.output_types[0].dtype.dtype in self.flops:
                lhs = types[step.input_slots[0]]
                terms = prod(lhs.shape[axis] for axis in step.op.lhs_contracting)
                rate = self.flops[step.output_types[0].dtype.dtype]
                multiplied += 2 * terms * step.output_types[0].size / rate
        return max(moved, multiplied)


def _seconds(work: Callable[[], Any]) -> float:
    spent: list[float] = []
    for _ in range(9):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)
