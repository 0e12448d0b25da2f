"""Kernels of the structural family: views where strides allow, copies where they do not."""

from __future__ import annotations

import numpy as np

from tenferro.exec.kernels.kernel import Array, KernelRows
from tenferro.ops.structural import BroadcastInDim, Reshape, Transpose

__all__ = ["ROWS"]


def broadcast_in_dim(op: BroadcastInDim, x: Array) -> Array:
    """Put x's axes in output order, with extents of 1 between, and let NumPy repeat."""
    shape = op.resolved("shape", (x.shape,))
    order = sorted(range(x.ndim), key=op.dims.__getitem__)
    aligned = [1] * len(shape)
    for axis in order:
        aligned[op.dims[axis]] = x.shape[axis]
    return np.broadcast_to(x.transpose(order).reshape(aligned), shape)


ROWS: KernelRows = {
    Transpose: lambda op, x: x.transpose(op.perm),
    Reshape: lambda op, x: x.reshape(op.resolved("shape", (x.shape,)), order="F"),
    BroadcastInDim: broadcast_in_dim,
}
