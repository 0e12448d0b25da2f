"""Ops and dtypes that PyTorch's CPU kernels do not compute, with reasons."""

from __future__ import annotations

from tenferro import DType
from tenferro.ops import StdTensorOp
from tenferro.ops.elementwise import Remainder
from tenferro.ops.reduction import Sort

__all__ = ["refusal"]

UNSIGNED = (DType.U16, DType.U32, DType.U64)


def refusal(op: type[StdTensorOp], dtype: DType) -> str | None:
    """Return why an op is not computed on a dtype; None if it is computed."""
    if dtype in UNSIGNED:
        return "PyTorch computes no unsigned integers wider than 8 bits; convert to a signed dtype"
    if op is Sort and dtype.is_complex:
        return "PyTorch sorts no complex numbers; sort by a real key"
    if op is Remainder and dtype.is_float:
        return "PyTorch's fmod is wrong where the quotient has more digits than the dtype"
    return None
