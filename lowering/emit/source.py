"""Emitters of the source family."""

from __future__ import annotations

from lowering.emit.emitter import EmitterRows
from lowering.inference import result_type
from tenferro.ops.source import Constant, Iota, ShapeOf

__all__ = ["ROWS"]


ROWS: EmitterRows = {
    Constant: lambda op, w: w.constant(op.array),
    Iota: lambda op, w: w.iota(result_type(op).shape, op.axis, op.dtype),
    ShapeOf: lambda op, w, x: w.extent(x.shape[op.axis]),
}
