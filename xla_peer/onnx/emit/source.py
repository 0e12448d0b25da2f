"""ONNX nodes of constants, iotas and extents."""

from __future__ import annotations

from tenferro.ops.source import Constant, Iota, ShapeOf
from tenferro.types import DType, TensorSpec
from xla_peer.onnx.emit.elementwise import Rows
from xla_peer.onnx.writer import Value, Writer

__all__ = ["ROWS"]


def constant(op: Constant, w: Writer) -> Value:
    """Write an initializer."""
    return w.constant(op.array)


def iota(op: Iota, w: Writer) -> Value:
    """Write a Range along the axis, expanded along the other axes."""
    shape = w.specs[0].shape
    n = op.shape[op.axis]
    scalar = TensorSpec.of((), DType.I64)
    end = w.op("Squeeze", w.extent(n), spec=scalar)
    line = w.op(
        "Range",
        w.number(0, DType.I64),
        end,
        w.number(1, DType.I64),
        spec=TensorSpec.of((n,), DType.I64),
    )
    line = w.cast(line, op.dtype)
    aligned = [n if axis == op.axis else 1 for axis in range(len(shape))]
    return w.expand(w.reshape(line, aligned), shape)


def shape_of(op: ShapeOf, w: Writer, x: Value) -> Value:
    """Write the extent of an axis as a scalar."""
    return w.op("Squeeze", w.extent_of(x, op.axis), spec=w.specs[0])


ROWS: Rows = {Constant: constant, Iota: iota, ShapeOf: shape_of}
