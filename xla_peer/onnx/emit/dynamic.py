"""ONNX nodes of ops whose extents depend on the data."""

from __future__ import annotations

from tenferro.errors import UnsupportedError
from tenferro.ops.dynamic import DynamicTruncate, PadToMatch
from tenferro.types import DType
from xla_peer.onnx.emit.elementwise import Rows
from xla_peer.onnx.writer import Value, Writer

__all__ = ["ROWS"]


def dynamic_truncate(op: DynamicTruncate, w: Writer, x: Value, size: Value) -> Value:
    """Write a slice from 0 to `size` along the axis; a negative size counts as 0."""
    spec = w.specs[0]
    if not size.dtype.is_integer:
        raise UnsupportedError("ONNX has no counterpart: a size is an integer")
    end = w.op("Max", w.reshape(w.cast(size, DType.I64), (1,)), w.integers(0))
    return w.op("Slice", x, w.integers(0), end, w.integers(op.axis), spec=spec)


def pad_to_match(op: PadToMatch, w: Writer, x: Value, reference: Value) -> Value:
    """Write a padding with zeros at the end of an axis, up to the extent of `reference`."""
    spec = w.specs[0]
    missing = w.op(
        "Sub", w.runtime_extent(reference.name, op.axis), w.runtime_extent(x.name, op.axis)
    )
    pads = (
        [w.integers(0)] * (x.rank + op.axis) + [missing] + [w.integers(0)] * (x.rank - op.axis - 1)
    )
    widths = w.op("Concat", *pads, axis=0)
    return w.op("Pad", x, widths, w.number(0, x.dtype), spec=spec)


ROWS: Rows = {DynamicTruncate: dynamic_truncate, PadToMatch: pad_to_match}
