"""Kernels of the source family."""

from __future__ import annotations

import numpy as np

from tenferro.exec.kernels.kernel import Array, Kernel, KernelRows
from tenferro.ops.source import Constant, Iota, ShapeOf

__all__ = ["ROWS"]


def iota(op: Iota) -> Array:
    """Return an array whose elements are their own indices along `op.axis`, as a broadcast view."""
    line = np.arange(op.shape[op.axis], dtype=np.int64).astype(op.dtype.dtype)
    others = [1] * len(op.shape)
    others[op.axis] = -1
    return np.broadcast_to(line.reshape(others), op.shape)


ROWS: KernelRows = {
    Constant: Kernel(lambda op: op.array, view=True),
    Iota: Kernel(iota, view=True),
    ShapeOf: Kernel(lambda op, x: np.array(x.shape[op.axis], np.int64)),
}
