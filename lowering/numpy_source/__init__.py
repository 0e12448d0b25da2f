"""Conversion of programs to Python source that needs only NumPy.

For each op, a function writes the op's Python code. The code may call functions that NumPy lacks, which the generated
file then includes.
"""

from lowering.numpy_source import (
    analytic,
    contraction,
    control,
    dynamic,
    elementwise,
    extension,
    indexing,
    reduction,
    source,
    structural,
)
from lowering.numpy_source.expression import Cell
from tenferro.ops import ALL_OPS, Column

__all__ = ["CELLS"]

CELLS: Column[Cell] = Column(
    "numpy source",
    "lowering/numpy_source",
    ALL_OPS,
    source.ROWS,
    elementwise.ROWS,
    analytic.ROWS,
    structural.ROWS,
    reduction.ROWS,
    contraction.ROWS,
    indexing.ROWS,
    dynamic.ROWS,
    control.ROWS,
    extension.ROWS,
)
"""Functions that write the Python code of an op, by op class."""
