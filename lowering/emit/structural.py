"""Emitters of the structural family."""

from __future__ import annotations

from lowering.emit.emitter import EmitterRows
from lowering.writer import Value, Writer
from tenferro.ops.structural import BroadcastInDim, Reshape, Transpose

__all__ = ["ROWS"]


def reshape(op: Reshape, w: Writer, x: Value) -> Value:
    """Column-major by way of row-major: reverse the axes, reshape, reverse back."""
    reversed_x = w.transpose(x, range(x.rank)[::-1])
    reversed_y = w.reshape(reversed_x, w.result.shape[::-1])
    return w.transpose(reversed_y, range(reversed_y.rank)[::-1])


ROWS: EmitterRows = {
    Transpose: lambda op, w, x: w.transpose(x, op.perm),
    Reshape: reshape,
    BroadcastInDim: lambda op, w, x: w.broadcast(x, w.result.shape, op.dims),
}
