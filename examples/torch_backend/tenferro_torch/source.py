"""Kernels of the ops without operands: constants and iota."""

from __future__ import annotations

import torch

from tenferro.ops.source import Constant, Iota, ShapeOf
from tenferro_torch.memory import DTYPES, upload

__all__ = ["ROWS"]


def iota(op: Iota) -> torch.Tensor:
    """Return the index of each element along the axis; the other axes are broadcast without copying."""
    line = torch.arange(op.shape[op.axis]).to(DTYPES[op.dtype])
    others = [1] * len(op.shape)
    others[op.axis] = -1
    return line.reshape(others).expand(op.shape)


ROWS = {
    Constant: lambda op: upload(op.array),
    Iota: iota,
    ShapeOf: lambda op, x: torch.tensor(x.shape[op.axis]),
}
