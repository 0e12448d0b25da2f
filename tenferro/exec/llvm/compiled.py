"""Compiled functions of arrays, which are linked at their first call and interpreted if LLVM fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tenferro.blas import SCIPYS
from tenferro.exec.llvm import blas, python_calls
from tenferro.exec.llvm.ir import Module
from tenferro.exec.llvm.link import LinkedFunction, Linker
from tenferro.exec.llvm.tensor import Body
from tenferro.exec.runtime.resources import Resources
from tenferro.types import TensorSpec

__all__ = [
    "CompiledFunction",
    "Interpreted",
    "WrittenFunction",
    "allocate_results",
    "as_contiguous",
    "written_function",
]

MAX_UNPOOLED_BYTES = 1 << 16
"""Maximum size in bytes of scratch memory that each call allocates; the pool provides larger scratch memory."""
MIN_THREADED_WORK = 400_000
"""Minimum number of instructions of the largest call of BLAS or LAPACK for which OpenBLAS may use several threads."""
EMPTY_SCRATCH = np.empty(0, np.uint8)
Interpreted: TypeAlias = Callable[[], Callable[..., Any]]
"""Function without arguments that returns the interpreter's function of operands."""


class WrittenFunction(NamedTuple):
    """LLVM module of a loop, a strip of a loop, or a block.

    Attributes:
        module: the module. Its function takes operands, results, large constants, scratch memory, and for a strip also
            integers.
        constants: the arrays of the large constants.
        scratch: the size of the scratch memory, in bytes.
        largest_call: the estimated number of instructions of the largest call of BLAS or LAPACK.
        work: the estimated number of instructions of a run; None if it is unknown.
    """

    module: Module
    constants: Sequence[Any]
    scratch: int
    largest_call: int
    work: int | None


def written_function(
    body: Body,
    name: str,
    pointers: Sequence[str],
    numbers: Sequence[str] = (),
    releases: bool = True,
    calls: int = 1,
) -> WrittenFunction:
    """Define the function that consists of the current instructions, and return its module.

    Args:
        pointers: the names of the pointers to operands and results.
        numbers: the names of the last arguments, which are integers.
        releases: whether a call releases the GIL.
        calls: the number of calls in a run of the step.
    """
    code = body.code
    pointers = [*pointers, *[constant for constant, _ in body.constants], "%scratch"]
    python_calls.define_function(code, pointers, numbers, name, releases)
    constants = [array for _, array in body.constants]
    work = None if code.while_loops else calls * code.work
    return WrittenFunction(code.module(), constants, body.scratch_bytes, code.largest_call, work)


def as_contiguous(x: Any) -> Any:
    """Return x as a row-major, aligned `np.ndarray`, not an instance of a subclass; copy it only if necessary."""
    return np.require(x, requirements=("C", "A", "E"))


def allocate_results(
    specs: Sequence[TensorSpec], buffers: Sequence[Any] | None, inits: Sequence[Any] = ()
) -> list[Any]:
    """Return row-major arrays of these types.

    Args:
        buffers: the buffer of each array, or None for new memory.
        inits: the values of the first arrays; the other arrays are uninitialised.
    """
    results = [
        np.empty(spec.shape, spec.dtype.dtype)
        if buffer is None
        else np.ndarray(spec.shape, spec.dtype.dtype, buffer)
        for spec, buffer in zip(specs, buffers or (None,) * len(specs), strict=True)
    ]
    for y, x in zip(results, inits, strict=False):
        np.copyto(y, x)
    return results


class CompiledFunction(LinkedFunction):
    """Machine code as a function of its operands, which allocates its results.

    Args:
        kind: name in the executor's compile statistics.
        outputs: types of the results.
        carried: operands whose values initialise the first results, such as a loop's carry.
        interpreted: returns the interpreter's function, which runs if LLVM fails.
        starts: first index of each strip, if the function computes one strip at a time; threads share the strips.
    """

    accepts_buffers = True

    def __init__(
        self,
        kind: str,
        written: WrittenFunction,
        outputs: Sequence[TensorSpec],
        carried: slice,
        resources: Resources,
        linker: Linker,
        interpreted: Interpreted,
        starts: Sequence[int] = (),
    ) -> None:
        super().__init__(kind, written.module, linker)
        self.scratch_bytes, self.work = written.scratch, written.work
        self.outputs, self.memory = tuple(outputs), resources.memory
        self.starts, self.workers = starts, resources.workers
        self._interpreted = interpreted
        self._first, self._last = carried.start, carried.stop
        self._fallback: Callable[..., Any] | None = None
        # Between iterations, idle threads of OpenBLAS would spin.
        threads = resources.workers.count
        self.blas_threads = threads if written.largest_call >= MIN_THREADED_WORK else 1
        self._sets_threads = (
            written.module.is_calling(blas.PREFIX) and written.largest_call > blas.MAX_SERIAL_WORK
        )
        self._allocates_scratch = not self._sets_threads and written.scratch <= MAX_UNPOOLED_BYTES
        self._constants = tuple(written.constants)

    def __call__(self, *arrays: Any, into: Sequence[Any] | None = None) -> Any:
        """Return the result, or a tuple of the results if there are several.

        Args:
            into: the buffer of each result, or None for new memory.
        """
        function = self._function or self.linked(self.work)
        if function is None:
            return self._interpret(arrays, allocate_results(self.outputs, into))
        first, last = self._first, self._last
        results = allocate_results(self.outputs, into, arrays[first:last])
        count = last - first
        operands = *arrays[:first], *results[:count], *arrays[last:], *results[count:]
        (self._run_strips if self.starts else self._run)(function, operands)
        return results[0] if len(results) == 1 else tuple(results)

    def _run(self, function: Callable[..., int | None], operands: Sequence[Any]) -> None:
        size = self.scratch_bytes
        if self._allocates_scratch:
            scratch = np.empty(size, np.uint8) if size else EMPTY_SCRATCH
            self._run_in(scratch, function, operands)
        else:
            threads = SCIPYS.several(self.blas_threads) if self._sets_threads else nullcontext()
            with threads, self.memory.scratch([size]) as (scratch,):
                self._run_in(scratch, function, operands)

    def _run_in(self, scratch: Any, function: Callable[..., int | None], operands: Any) -> None:
        """Run the function with this scratch memory; if it returns None because of an operand's layout, pass copies."""
        last = *self._constants, scratch
        if function(*operands, *last) is None:
            status = function(*map(as_contiguous, operands), *last)
            assert status is not None

    def _run_strips(self, function: Callable[..., int | None], operands: Sequence[Any]) -> None:
        """Run a function strip by strip on the executor's threads, until a strip raises an exception."""
        operands, stop = [*map(as_contiguous, operands), *self._constants], threading.Event()

        def run(first: int, last: int) -> None:
            with self.memory.scratch([self.scratch_bytes]) as (scratch,):
                try:
                    for start in self.starts[first:last]:
                        if stop.is_set():
                            return
                        status = function(*operands, scratch, start)
                        assert status is not None
                except BaseException:
                    stop.set()
                    raise

        self.workers.parallel_for(run, len(self.starts))

    def _interpret(self, arrays: Sequence[Any], results: Sequence[Any]) -> Any:
        """Run the interpreter's function, and return its results in the arrays `results`."""
        if self._fallback is None:
            self._fallback = self._interpreted()
        values = self._fallback(*arrays)
        for y, value in zip(results, (values,) if len(results) == 1 else values, strict=True):
            np.copyto(y, value)
        return results[0] if len(results) == 1 else tuple(results)
