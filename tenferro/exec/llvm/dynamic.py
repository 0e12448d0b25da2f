"""Rows of the dynamic family."""

from tenferro.exec.llvm.rows import Rows, not_compiled
from tenferro.ops.dynamic import DynamicTruncate, PadToMatch

__all__ = ["ROWS"]

_OPEN = not_compiled("extents that the data decide are not compiled")
ROWS: Rows = {DynamicTruncate: _OPEN, PadToMatch: _OPEN}
