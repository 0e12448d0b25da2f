"""`LoopCompiler`: compiles the steps of one executor, and caches the functions.

`tenferro.exec.llvm`, which writes the LLVM IR, is imported when the first function is compiled.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from tenferro.exec.attempts import CompileLog

if TYPE_CHECKING:
    from tenferro.compile_cache import CompileCache
    from tenferro.exec.llvm.link import Linker
    from tenferro.exec.llvm.sums_of_products import CompiledSums
    from tenferro.exec.llvm.transposing_copy import TransposingCopies

__all__ = ["LoopCompiler"]


class LoopCompiler:
    """Compiler of loops, fused groups and blocks of steps, with a cache of the compiled functions.

    Args:
        always: whether to compile also loops with too few iterations to gain from compilation.
        cache: the folder with machine code of earlier processes, or None.
        block_gain: the number of NumPy calls that a compiled block must save in each run; None disables blocks.
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
        from tenferro.exec.llvm.link import Linker  # not imported by processes that compile nothing

        return Linker(cache=self._cache, log=self.log)

    @cached_property
    def transposer(self) -> TransposingCopies:
        """Compiled functions that copy an array with transposed axes."""
        from tenferro.exec.llvm.transposing_copy import TransposingCopies  # imported when needed

        return TransposingCopies(self.linker)

    @cached_property
    def sums(self) -> CompiledSums:
        """Compiled matrix products and convolutions."""
        from tenferro.exec.llvm.sums_of_products import CompiledSums  # imported when needed

        return CompiledSums(self.linker, self.always)

    def cache_clear(self) -> None:
        """Drop every function that no schedule refers to."""
        for name in ("transposer", "sums"):
            if name in self.__dict__:  # otherwise nothing was compiled
                getattr(self, name).functions.clear()
        if "linker" in self.__dict__:
            self.linker.cache_clear()
