"""Emitters of the source family."""

from __future__ import annotations

from lowering.emit.emitter import EmitterRows
from lowering.writer import Value, Writer
from tenferro.ops.source import Constant, Iota, ShapeOf
from tenferro.types import DType

__all__ = ["ROWS"]


def iota(op: Iota, w: Writer) -> Value:
    """stablehlo.iota dim = axis."""
    return w.op(f"iota dim = {op.axis}")


ROWS: EmitterRows = {
    Constant: lambda op, w: w.constant(op.array),
    Iota: iota,
    ShapeOf: lambda op, w, x: w.scalar(x.shape[op.axis], DType.I64),
}
