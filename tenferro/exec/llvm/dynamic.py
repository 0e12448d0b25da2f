"""LLVM code of the dynamic ops, which are not compiled."""

from tenferro.exec.llvm.rows import Rows, not_compiled
from tenferro.ops.dynamic import DynamicTruncate, PadToMatch

__all__ = ["ROWS"]

_NOT_COMPILED = not_compiled("extents that the data decide are not compiled")
ROWS: Rows = {DynamicTruncate: _NOT_COMPILED, PadToMatch: _NOT_COMPILED}
