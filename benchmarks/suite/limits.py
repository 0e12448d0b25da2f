"""Lower bounds of times on this machine.

A bound is the larger of two times: that of moving the bytes at the speed of a copy, and that of the floating-point
operations at the speed of BLAS. A second bound is the time of NumPy's loops on arrays in the cache. All speeds are
measured.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.exec import ExecInstruction
from tenferro.exec.plan import Binder
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.passes import NATIVE_PASSES

__all__ = ["Limits"]

LARGE = 1 << 16
"""Number of elements above which a NumPy loop takes longer than the rest of the NumPy call."""
CACHED = 1 << 13
"""Number of elements of the arrays on which NumPy's loops are timed. Such arrays fit into the cache."""
OFTEN = 100
"""Number of runs of a NumPy loop per measurement."""
EXTENT = 1024
"""Number of rows and columns of the matrices on which BLAS is timed."""
COPIED = 1 << 23
"""Number of elements of the array on which copies are timed."""


class Limits:
    """Speeds of this machine with all cores in use.

    Attributes:
        bytes_per_second: bytes that a copy reads and writes per second, if the array is larger than all caches.
        flops: for each dtype, floating-point operations per second of a matrix product.
    """

    def __init__(self) -> None:
        workers = tnf.GraphExecutor().workers
        self._seconds_of: dict[Any, float] = {}
        share, cores = workers.share, workers.count
        self.cores = cores
        x, y = np.ones(COPIED), np.empty(COPIED)

        def copied(start: int, stop: int) -> None:
            np.copyto(y[start:stop], x[start:stop])

        spent = _seconds(lambda: share(copied, COPIED))
        self.bytes_per_second = 2 * x.nbytes / spent
        self.flops: dict[Any, float] = {}
        for dtype in (np.float32, np.float64):
            a = np.ones((EXTENT, EXTENT), dtype)
            spent = _seconds(lambda a=a: share(lambda i, j: np.matmul(a, a), cores))
            self.flops[np.dtype(dtype)] = cores * 2 * EXTENT**3 / spent

    def of(self, program: tnf.GraphProgram) -> float:
        """Return a lower bound of a program's time, in seconds.

        The bound assumes that arguments are read once, that results are written once, and that matrix products and
        convolutions run at BLAS's speed.
        """
        specs = (*program.input_specs, *program.output_specs)
        moved = sum(spec.nbytes for spec in specs) / self.bytes_per_second
        multiplied = 0.0
        for step, (lhs, *rest) in _steps(program):
            y = step.output_types[0]
            if y.dtype.dtype not in self.flops:
                continue
            if isinstance(step.op, DotGeneral):
                terms = prod(lhs.shape[axis] for axis in step.op.lhs_contracting)
                multiplied += 2 * terms * y.size / self.flops[y.dtype.dtype]
            if isinstance(step.op, Convolution):
                multiplied += 2 * _terms(step.op, lhs, rest[0], y) / self.flops[y.dtype.dtype]
        return max(moved, multiplied)

    def loops(self, program: tnf.GraphProgram) -> float:
        """Return the seconds of NumPy's loops over the large arrays of a program.

        The fixed cost of calls and cache misses are excluded.
        """
        spent = 0.0
        for step, inputs in _steps(program):
            y = step.output_types[0]
            if y.size >= LARGE and step.is_ufunc:
                function: Any = step.function
                spent += y.size * self._per_element(function, [x.dtype.dtype for x in inputs])
        return spent / self.cores

    def _per_element(self, function: np.ufunc, dtypes: list[Any]) -> float:
        key = function, *dtypes
        if key not in self._seconds_of:
            # Both times contain the fixed cost of a call, so their difference does not.
            short, long = (_seconds_of_loop(function, dtypes, n) for n in (8, CACHED + 8))
            self._seconds_of[key] = (long - short) / CACHED
        return self._seconds_of[key]


def _seconds_of_loop(function: np.ufunc, dtypes: list[Any], count: int) -> float:
    arrays = [np.linspace(0.1, 0.9, count).astype(dtype) for dtype in dtypes]
    out = function(*arrays)

    def often() -> None:
        for _ in range(OFTEN):
            function(*arrays, out=out)

    return _seconds(often) / OFTEN


def _terms(op: Convolution, x: tnf.TensorSpec, w: tnf.TensorSpec, y: tnf.TensorSpec) -> int:
    """Return the number of multiplications of a convolution.

    Products with zeros of the padding or of the dilation do not count.
    """
    terms = y.shape[op.output_batch] * y.shape[op.output_feature]
    terms *= w.shape[op.kernel_input_feature]
    for i, (low, _) in enumerate(op.padding):
        places = np.arange(y.shape[op.output_spatial[i]])[:, None] * op.window_strides[i] - low
        places = places + np.arange(w.shape[op.kernel_spatial[i]]) * op.rhs_dilation[i]
        elements, zeros = np.divmod(places, op.lhs_dilation[i])
        extent = x.shape[op.input_spatial[i]]
        terms *= int(np.sum((zeros == 0) & (elements >= 0) & (elements < extent)))
    return terms


def _steps(program: tnf.GraphProgram) -> Iterator[tuple[ExecInstruction, list[tnf.TensorSpec]]]:
    """Yield each step of the compiled program that has operands, with the types of the operands."""
    static = program.specialize(program.bind([spec.shape for spec in program.input_specs]))
    compiled = Binder(passes=NATIVE_PASSES).schedule(static)
    types: Any = compiled.types
    for step in compiled.instructions:
        if step.input_slots:
            yield step, [types[slot] for slot in step.input_slots]


def _seconds(work: Callable[[], Any]) -> float:
    spent: list[float] = []
    for _ in range(9):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)
