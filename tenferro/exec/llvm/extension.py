"""LLVM code of extension ops, which are not compiled."""

from tenferro.exec.llvm.rows import Rows, not_compiled
from tenferro.ops.extension import Extension

__all__ = ["ROWS"]

ROWS: Rows = {Extension: not_compiled("extensions are not compiled")}
