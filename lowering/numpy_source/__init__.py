"""Programs as Python source that needs only NumPy: writers of the code of each op, and functions that NumPy lacks."""

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
"""The function that writes the Python code of each op."""
