"""The vocabulary: one card per op, one file per family.

`STD_OPS` is closed: every column (kernels, derivative rules, emitters, samples) is total over it.
"""

from tenferro.ops import elementwise, source, structural
from tenferro.ops.column import Column
from tenferro.ops.op import StdTensorOp

__all__ = ["STD_OPS", "Column", "StdTensorOp"]

STD_OPS: tuple[type[StdTensorOp], ...] = (
    *source.CARDS,
    *elementwise.CARDS,
    *structural.CARDS,
)
"""Every op of the vocabulary, in the order of the catalogue."""
