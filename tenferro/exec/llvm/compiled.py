"""Compiled functions of arrays, which are linked at their first call and interpreted if LLVM fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tenferro.blas import SCIPYS
from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import blas, python_calls
from tenferro.exec.llvm.ir import Module
from tenferro.exec.llvm.link import Linker
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
"""Maximum size in bytes of scratch memory that each call allocates; larger scratch memory is borrowed from the pool."""
MIN_THREADED_WORK = 400_000
"""Minimum number of instructions of the largest call of BLAS or LAPACK for which OpenBLAS may use several threads."""
EMPTY_SCRATCH = np.empty(0, np.uint8)
Interpreted: TypeAlias = Callable[[], Callable[..., Any]]
"""Function without arguments that returns a function of operands, by which the interpreter computes the results."""


class WrittenFunction(NamedTuple):
    """LLVM module of a loop, a strip of a loop, or a block.

    Attributes:
        module: the module of a function of operands, results, large constants and scratch memory; for a strip, also of
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
    """Define the function whose instructions have been written, and return its module.

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
    """Return x as a row-major, aligned `np.ndarray`, not an instance of a subclass; it is copied only if necessary."""
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


class CompiledFunction:
    """Function of operands that allocates the results and runs machine code.

    Args:
        kind: the kind of function in the executor's compile statistics.
        written: the LLVM module.
        outputs: the types of the results.
        carried: the range of the operands that are the initial values of the first results, such as a loop's carry.
        interpreted: the function that returns the interpreter's function, which runs instead if LLVM fails.

    Attributes:
        remark: the remark beside the step in the printed schedule.
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
    ) -> None:
        self.kind, self.written, self.linker = kind, written, linker
        self.outputs, self.memory = tuple(outputs), resources.memory
        self.remark = "compiled"
        self._interpreted = interpreted
        self._first, self._last = carried.start, carried.stop
        self._fallback: Callable[..., Any] | None = None
        self._function: Callable[..., int | None] | None = None
        # One thread for small calls, because idle threads of OpenBLAS are busy waiting until the next call.
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
        function = self._function or self._linked()
        if function is None:
            return self._interpret(arrays, allocate_results(self.outputs, into))
        first, last = self._first, self._last
        results = allocate_results(self.outputs, into, arrays[first:last])
        count = last - first
        self._run(function, (*arrays[:first], *results[:count], *arrays[last:], *results[count:]))
        return results[0] if len(results) == 1 else tuple(results)

    def _run(self, function: Callable[..., int | None], operands: Sequence[Any]) -> None:
        """Run the function with arrays of operands and results, in scratch memory that is allocated or borrowed."""
        size = self.written.scratch
        if self._allocates_scratch:
            scratch = np.empty(size, np.uint8) if size else EMPTY_SCRATCH
            self._run_in(scratch, function, operands)
        else:
            threads = SCIPYS.several(self.blas_threads) if self._sets_threads else nullcontext()
            with threads, self.memory.scratch([size]) as (scratch,):
                self._run_in(scratch, function, operands)

    def _run_in(self, scratch: Any, function: Callable[..., int | None], operands: Any) -> None:
        """Run the function in this scratch memory; if it refuses an operand's layout, run it with copies."""
        last = *self._constants, scratch
        if function(*operands, *last) is None:
            status = function(*map(as_contiguous, operands), *last)
            assert status is not None

    @property
    def module(self) -> Module:
        """LLVM module of the function."""
        return self.written.module

    def _linked(self) -> Callable[..., int | None] | None:
        """Compile and link the function, and return it; return None if LLVM fails.

        If a call is short, the first one runs code that LLVM has not optimised.
        """
        if self._fallback is None:
            try:
                baseline = self.linker.baseline(self.kind, self.module, self.written.work)
                if baseline is not None:
                    return baseline
                self._function = self.linker.function(self.kind, self.module)
                self.written = self.written._replace(module=self.module.printed())
            except NotCompiledError as error:
                self._fallback = self._interpreted()
                self.remark = f"interpreted: {error.text()}"
        return self._function

    def _interpret(self, arrays: Sequence[Any], results: Sequence[Any]) -> Any:
        """Run the interpreter's function, copy its results to the arrays `results`, and return these."""
        assert self._fallback is not None
        values = self._fallback(*arrays)
        for y, value in zip(results, (values,) if len(results) == 1 else values, strict=True):
            np.copyto(y, value)
        return results[0] if len(results) == 1 else tuple(results)
