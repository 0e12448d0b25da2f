"""Emitters of the source family."""

from __future__ import annotations

from lowering.emit.emitter import EmitterRows
from tenferro.ops.source import Constant, Iota, ShapeOf

__all__ = ["ROWS"]


ROWS: EmitterRows = {
    Constant: lambda op, w: w.constant(op.array),
    Iota: lambda op, w: w.iota(w.result.shape, op.axis, op.dtype),
    ShapeOf: lambda op, w, x: w.extent(x.shape[op.axis]),
}
