"""Compiled functions of arrays: linked at their first call, and interpreted if LLVM fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tenferro.blas import SCIPYS
from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import blas, python_calls
from tenferro.exec.llvm.ir import Module
from tenferro.exec.llvm.link import Linker, pass_time
from tenferro.exec.llvm.python_calls import UNFINISHED, UNLIMITED
from tenferro.exec.llvm.tensor import Body
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.threads import Future
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
"""Maximum scratch memory that each call allocates, in bytes; more is borrowed from the pool."""
MIN_THREADED_WORK = 400_000
"""Minimum number of multiplications of a product that OpenBLAS distributes over threads."""
EMPTY_SCRATCH = np.empty(0, np.uint8)
Interpreted: TypeAlias = Callable[[], Callable[..., Any]]
"""Function without arguments that returns the interpreter's function of operands."""


class WrittenFunction(NamedTuple):
    """Module of a loop, a strip of one, or a block.

    Attributes:
        module: function of operands, results, constants and scratch memory, and of a last integer: the number of chunks
            after which a while loop returns, or the first index of a strip.
        constants: large constants.
        scratch: size of scratch memory, in bytes.
        work: estimated number of instructions of a call, if it is known.
        largest_call: estimated instructions of the largest call of BLAS or LAPACK.
    """

    module: Module
    constants: Sequence[Any]
    scratch: int
    work: int | None
    largest_call: int


def written_function(
    body: Body,
    name: str,
    pointers: Sequence[str],
    number: str,
    work: int | None,
    releases: bool = True,
) -> WrittenFunction:
    """Return the module of a function.

    Args:
        pointers: names of the operands and results.
        number: name of the last argument.
        releases: whether to release the interpreter's lock during a call.
    """
    code = body.code
    pointers = [*pointers, *[constant for constant, _ in body.constants], "%scratch"]
    python_calls.define_function(code, pointers, [number], name, releases)
    constants = [array for _, array in body.constants]
    return WrittenFunction(code.module(), constants, body.scratch_bytes, work, code.largest_call)


def as_contiguous(x: Any) -> Any:
    """Return an array as a row-major, aligned array of no subclass, copied if necessary."""
    return np.require(x, requirements=("C", "A", "E"))


def allocate_results(
    specs: Sequence[TensorSpec], buffers: Sequence[Any] | None, inits: Sequence[Any] = ()
) -> list[Any]:
    """Return row-major arrays of these types.

    Args:
        buffers: buffer of each array, or None for a new one.
        inits: initial values of the first arrays.
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
    """Machine code as a function of its operands, which allocates its results.

    Args:
        kind: name of its attempts in the log.
        written: the module.
        outputs: types of the results.
        carried: operands whose values initialise the first results, such as a loop's carry.
        interpreted: returns the interpreter's function, which runs if LLVM fails.

    Attributes:
        remark: remark beside the step in the printed schedule.
        max_pass_wait: maximum estimated time of LLVM's passes for which a call of an executor with threads waits, in
            nanoseconds.
    """

    accepts_buffers = True
    max_pass_wait = 2e8

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
        self._early: Callable[..., int | None] | None = None
        self._optimised: Future[Callable[..., int | None]] | None = None
        # Idle threads of OpenBLAS would spin until the next iteration.
        threads = resources.workers.count
        self.blas_threads = threads if written.largest_call >= MIN_THREADED_WORK else 1
        self._has_threads = threads > 1
        self._sets_threads = (
            written.module.is_calling(blas.PREFIX) and written.largest_call > blas.MAX_SERIAL_WORK
        )
        self._allocates_scratch = not self._sets_threads and written.scratch <= MAX_UNPOOLED_BYTES
        self._constants = tuple(written.constants)

    def __call__(self, *arrays: Any, into: Sequence[Any] | None = None) -> Any:
        """Return the results.

        Args:
            into: buffer of each result, or None for a new one.
        """
        function = self._function or self._function_of_call()
        if function is None:
            return self._interpret(arrays, allocate_results(self.outputs, into))
        is_final = function is self._function
        chunks = UNLIMITED if is_final else self.linker.break_even_chunks(self.module)
        first, last = self._first, self._last
        results = allocate_results(self.outputs, into, arrays[first:last])
        count = last - first
        self._run(
            function, (*arrays[:first], *results[:count], *arrays[last:], *results[count:]), chunks
        )
        return results[0] if len(results) == 1 else tuple(results)

    def _run(
        self, function: Callable[..., int | None], operands: Sequence[Any], chunks: int
    ) -> None:
        """Run a function with scratch memory."""
        size = self.written.scratch
        if self._allocates_scratch:
            scratch = np.empty(size, np.uint8) if size else EMPTY_SCRATCH
            self._run_in(scratch, function, operands, chunks)
        else:
            threads = SCIPYS.several(self.blas_threads) if self._sets_threads else nullcontext()
            with threads, self.memory.scratch([size]) as (scratch,):
                self._run_in(scratch, function, operands, chunks)

    def _run_in(
        self,
        scratch: Any,
        function: Callable[..., int | None],
        operands: Sequence[Any],
        chunks: int,
    ) -> None:
        """Run to completion; a while loop continues in optimised code after some chunks."""
        last = *self._constants, scratch
        status = function(*operands, *last, chunks)
        if status is None:
            status = function(*map(as_contiguous, operands), *last, chunks)
            assert status is not None
        while status == UNFINISHED:
            with suppress(NotCompiledError):  # because baseline code can continue as well
                function = self._optimised_function()
            status = function(*map(as_contiguous, operands), *last, UNLIMITED)

    @property
    def module(self) -> Module:
        """Module of the function."""
        return self.written.module

    def _function_of_call(self) -> Callable[..., int | None] | None:
        """Return the function for this call, or None once LLVM has failed."""
        if self._fallback is None:
            try:
                return self._next_function()
            except NotCompiledError as error:
                self._fallback = self._interpreted()
                self.remark = f"interpreted: {error.text()}"
        return None

    def _interpret(self, arrays: Sequence[Any], results: Sequence[Any]) -> Any:
        """Run the interpreter's function, copy its results to arrays and return these."""
        assert self._fallback is not None
        values = self._fallback(*arrays)
        for y, value in zip(results, (values,) if len(results) == 1 else values, strict=True):
            np.copyto(y, value)
        return results[0] if len(results) == 1 else tuple(results)

    def _next_function(self) -> Callable[..., int | None]:
        """Return a function for this call, before optimised code is ready.

        If LLVM's passes take long, they run in a thread during the second call and later ones.
        """
        early = self._early
        if early is None:
            work = self.written.work
            function = self.linker.baseline_function(self.kind, self.module, work)
            function = function or self._optimised_function()
            is_long = (
                function is not self._function and pass_time(self.module) >= self.max_pass_wait
            )
            self._early = function if is_long and self._has_threads else None
            return function
        if self._optimised is None:
            self._optimised = Future(partial(self.linker.function, self.kind, self.module))
        return self._optimised_function() if self._optimised.done() else early

    def _optimised_function(self) -> Callable[..., int | None]:
        """Return the function of optimised code, and keep it for later calls."""
        optimised = self._optimised
        function = (
            self.linker.function(self.kind, self.module)
            if optimised is None
            else optimised.result()
        )
        self._function = function
        self.written = self.written._replace(module=self.module.printed())
        return function
