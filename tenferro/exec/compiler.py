"""`LoopCompiler`: machine code of one executor. LLVM's texts are written by `tenferro.exec.llvm`, which is imported when
something is first to be compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from tenferro.exec.attempts import CompileLog, NotCompiledError
from tenferro.ops.control import Scan, While
from tenferro.types import TensorSpec

if TYPE_CHECKING:
    from tenferro.compile_cache import CompileCache
    from tenferro.exec.llvm.compiled import CompiledFunction, Interpreted
    from tenferro.exec.llvm.link import Linker
    from tenferro.exec.llvm.strip_mining import Prepare
    from tenferro.exec.llvm.transposing_copy import TransposingCopies
    from tenferro.exec.schedule import KernelTable

__all__ = ["LoopCompiler"]


class LoopCompiler:
    """Compiler of loops, with a cache of their functions.

    Args:
        always: compile loops of few iterations too, although that saves no time.
        block_gain: calls of NumPy that a compiled block has to save in each run; None for no blocks.
        cache: machine code of earlier processes on disk.
        log: the record of attempts.
    """

    def __init__(
        self,
        always: bool = False,
        cache: CompileCache | None = None,
        log: CompileLog | None = None,
        block_gain: float | None = None,
    ) -> None:
        self.always, self.block_gain = always, block_gain
        self.log = CompileLog() if log is None else log
        self._cache = cache

    @cached_property
    def linker(self) -> Linker:
        """The linked functions."""
        from tenferro.exec.llvm.link import Linker  # because most processes compile nothing

        return Linker(cache=self._cache, log=self.log)

    @cached_property
    def transposer(self) -> TransposingCopies:
        """Compiled transposing copies."""
        from tenferro.exec.llvm.transposing_copy import TransposingCopies  # imported when needed

        return TransposingCopies(self.linker)

    def loop(
        self,
        op: Scan | While,
        inputs: Sequence[TensorSpec],
        prepare: Prepare,
        kernels: KernelTable,
        interpreted: Interpreted,
    ) -> CompiledFunction:
        """Return the loop as a function of its operands; see `compiled_loop`.

        Raises:
            NotCompiledError: it cannot be compiled, or compiling saves no time.
        """
        from tenferro.exec.llvm.loop import (  # because not all have loops
            compiled_loop,
            require_gain,
        )

        with self.log.attempt("loop"):
            require_gain(op, kernels, self.always)
        return compiled_loop(op, inputs, prepare, kernels, self.linker, interpreted)

    def pays(self, op: Scan | While, kernels: KernelTable) -> bool:
        """Return whether the loop is worth compiling, by its estimated cost."""
        from tenferro.exec.llvm.loop import require_gain  # because not all have loops

        with suppress(NotCompiledError), self.log.attempt("estimate of a loop"):
            require_gain(op, kernels, self.always)
            return True
        return False

    def cache_clear(self) -> None:
        """Drop every function that no schedule refers to."""
        for name in ("linker", "transposer"):
            if name in self.__dict__:  # or nothing was compiled
                getattr(self, name).cache_clear()
