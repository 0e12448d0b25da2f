"""Kernels of the source family."""

from __future__ import annotations

import numpy as np

from tenferro.exec.kernels.kernel import Array, KernelRows, OfOp
from tenferro.ops.source import Constant, Iota, ShapeOf

__all__ = ["ROWS"]


def iota(op: Iota) -> Array:
    """Count once along the axis, then repeat without copying."""
    line = np.arange(op.shape[op.axis], dtype=np.int64).astype(op.dtype.dtype)
    others = [1] * len(op.shape)
    others[op.axis] = -1
    return np.broadcast_to(line.reshape(others), op.shape)


ROWS: KernelRows = {
    Constant: OfOp(lambda op: op.array, view=True),
    Iota: OfOp(iota, view=True),
    ShapeOf: OfOp(lambda op, x: np.array(x.shape[op.axis], np.int64)),
}
