"""LLVM lowerings of the dynamic ops, none of which is compiled."""

from tenferro.exec.llvm.rows import Rows, not_compiled
from tenferro.ops.dynamic import DynamicTruncate, PadToMatch

__all__ = ["ROWS"]

_NOT_COMPILED = not_compiled("extents that the data decide are not compiled")
ROWS: Rows = {DynamicTruncate: _NOT_COMPILED, PadToMatch: _NOT_COMPILED}
