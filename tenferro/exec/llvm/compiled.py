"""A text of LLVM as a function of arrays: linked when it is first called, and interpreted where LLVM fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any

import numpy as np

from tenferro.blas import SCIPYS
from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import blas
from tenferro.exec.llvm.fallback import Fallback, Interpreted
from tenferro.exec.llvm.first_call import passes
from tenferro.exec.llvm.host import HostCalls
from tenferro.exec.llvm.link import Linker, OfArrays
from tenferro.exec.llvm.loop_text import LoopText
from tenferro.exec.llvm.places import dense, results_in
from tenferro.exec.llvm.python_calls import UNFINISHED, WHOLE
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.threads import Ahead
from tenferro.types import TensorSpec

__all__ = ["CompiledFunction"]

LITTLE = 1 << 16
"""Maximum number of bytes of scratch that are allocated anew for each call, which is faster than the pool."""
SLOW = 2e8
"""Estimated nanoseconds of LLVM's passes from which calls do not wait for them, where the executor has several threads."""
SHARED_CALL = 400_000
"""Multiplications of a product from which OpenBLAS shares it between its threads."""
NO_SCRATCH = np.empty(0, np.uint8)


class CompiledFunction:
    """Machine code as a function of its operands, which gives results in memory of their own.

    Args:
        kind: what it is, as the log counts it.
        written: the text.
        outputs: the types of the results.
        carried: the operands whose values are the first ones of the first results, such as a loop's carry.
        interpreted: gives the interpreter's function, which runs where LLVM fails.

    Attributes:
        following: the function that is called after this one, which is compiled while this one runs for the first time.
    """

    takes_places = True

    @property
    def longest_wait(self) -> float:
        """Estimated nanoseconds of LLVM's passes up to which a call waits for them."""
        return SLOW

    def __init__(
        self,
        kind: str,
        written: LoopText,
        outputs: Sequence[TensorSpec],
        carried: slice,
        host: HostCalls,
        linker: Linker,
        interpreted: Interpreted,
    ) -> None:
        resources: Resources = host.kernels.resources
        self.kind, self.written, self.linker, self.host = kind, written, linker, host
        self.outputs, self.memory = tuple(outputs), resources.memory
        self.fallback = Fallback(interpreted, self.outputs, "compiled")
        self.following: CompiledFunction | None = None
        self._first, self._last = carried.start, carried.stop
        self._function: Callable[..., int | None] | None = None
        self._ahead: Ahead[Callable[..., int | None]] | None = None
        self._early: Callable[..., int | None] | None = None
        self._optimised: Ahead[Callable[..., int | None]] | None = None
        is_shared = written.largest_call >= SHARED_CALL
        # Threads that small products do not need would wait for the next iteration by spinning.
        threads = resources.workers.count
        self.blas_threads = threads if is_shared else 1
        self._has_threads = threads > 1
        self._calls_blas = blas.PREFIX in self.text
        self._needs_little = not self._calls_blas and written.scratch <= LITTLE
        self._constants = tuple(written.constants)

    def __call__(self, *arrays: Any, into: Sequence[Any] | None = None) -> Any:
        """Return the results.

        Args:
            into: for each result the bytes that it is written to, or None for memory of its own.
        """
        function = self._function or self.fallback.unless_failed(self._next_function)
        if function is None:
            return self.fallback.run(arrays, into)
        parts = WHOLE if function is self._function else self.linker.parts(self.text)
        if self.following is not None:
            following, self.following = self.following, None
            following.compile_ahead()
        first, last = self._first, self._last
        results = results_in(self.outputs, into, arrays[first:last])
        count = last - first
        self._run(
            function, (*arrays[:first], *results[:count], *arrays[last:], *results[count:]), parts
        )
        return results[0] if len(results) == 1 else tuple(results)

    def _run(
        self, function: Callable[..., int | None], operands: Sequence[Any], parts: int
    ) -> None:
        """Run with scratch memory."""
        size = self.written.scratch
        if self._needs_little:
            self._run_in(
                np.empty(size, np.uint8) if size else NO_SCRATCH, function, operands, parts
            )
        else:
            with self._blas(), self.memory.scratch([size]) as (scratch,):
                self._run_in(scratch, function, operands, parts)

    def _run_in(
        self,
        scratch: Any,
        function: Callable[..., int | None],
        operands: Sequence[Any],
        parts: int,
    ) -> None:
        """Run to the end, with another function from where the first one has done its parts."""
        beside = *self._constants, scratch, self.host.address
        status = function(*operands, *beside, parts)
        if status is None:
            status = function(*map(dense, operands), *beside, parts)
            assert status is not None
        while status == UNFINISHED:
            with suppress(NotCompiledError):  # because the first one can go on as well
                function = self._last_function()
            status = function(*map(dense, operands), *beside, WHOLE)

    @property
    def text(self) -> str:
        """The text for LLVM."""
        return self.written.text

    @property
    def remark(self) -> str:
        """The remark beside the step."""
        return self.fallback.remark

    def _blas(self) -> AbstractContextManager[None]:
        return SCIPYS.several(self.blas_threads) if self._calls_blas else nullcontext()

    def compile_ahead(self) -> None:
        """Compile the first call's code in a thread, where the executor has several."""
        if self._has_threads and self._function is None and self._ahead is None:
            self._ahead = Ahead(self._compiled)

    def _next_function(self) -> Callable[..., int | None]:
        """Return a function for this call, until there is the one that is kept.

        Of a text for which LLVM's passes take long, these run beside the second call and the following ones.
        """
        early = self._early
        if early is None:
            ahead, self._ahead = self._ahead, None
            function = self._compiled() if ahead is None else ahead.value()
            is_long = function is not self._function and passes(self.text) >= self.longest_wait
            self._early = function if is_long and self._has_threads else None
            return function
        if self._optimised is None:
            self._optimised = Ahead(partial(self.linker.function, self.kind, self.text, OfArrays()))
        return self._last_function() if self._optimised.is_there() else early

    def _compiled(self) -> Callable[..., int | None]:
        """Return a function for one call, where that pays, or the one that is kept."""
        work = self.written.work
        function = self.linker.function_for_one_call(self.kind, self.text, work, OfArrays())
        return function or self._last_function()

    def _last_function(self) -> Callable[..., int | None]:
        """Return the function that is kept."""
        optimised = self._optimised
        function = (
            self.linker.function(self.kind, self.text, OfArrays())
            if optimised is None
            else optimised.value()
        )
        self._function = function
        return function
