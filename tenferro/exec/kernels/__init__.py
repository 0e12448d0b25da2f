"""Kernels: the NumPy implementation of each op."""

from tenferro.exec.kernels import (
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
from tenferro.exec.kernels.kernel import Kernel, bind_kernel
from tenferro.ops import ALL_OPS, Column

__all__ = ["KERNELS", "Kernel", "bind_kernel"]

KERNELS: Column[Kernel] = Column(
    "kernel",
    "tenferro/exec/kernels",
    ALL_OPS,
    source.ROWS,
    elementwise.ROWS,
    analytic.ROWS,
    analytic.UFUNCS,
    structural.ROWS,
    reduction.ROWS,
    contraction.ROWS,
    indexing.ROWS,
    dynamic.ROWS,
    control.ROWS,
    extension.ROWS,
)
