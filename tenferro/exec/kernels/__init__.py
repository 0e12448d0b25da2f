"""The kernel column: what each op does to NumPy arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np

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
from tenferro.exec.kernels.kernel import Kernel, bound
from tenferro.ops import ALL_OPS, Column, StdTensorOp

__all__ = ["KERNELS", "Kernel", "bound", "into_a_buffer", "is_elementwise", "may_view"]

KERNELS: Column[Kernel] = Column(
    "kernel",
    "tenferro/exec/kernels",
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


def may_view(op: StdTensorOp) -> bool:
    """Whether the kernel may give a view of an operand, or memory that is not to be written."""
    return KERNELS[type(op)].may_view(op)


def is_elementwise(op: StdTensorOp) -> bool:
    """Whether each element of the result is made of the operands' elements in its place."""
    return KERNELS[type(op)].elementwise


def into_a_buffer(op: StdTensorOp, function: Callable[..., Any]) -> Callable[..., Any] | None:
    """What writes into `out` what a function that the kernel bound gives; None if nothing does."""
    return function if isinstance(function, np.ufunc) else KERNELS[type(op)].into.get(function)
