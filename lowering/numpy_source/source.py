"""Constants and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowering.numpy_source.expression import Code, Expression, Rows, call
from lowering.numpy_source.structural import spread
from tenferro.ops.source import Constant, Iota, ShapeOf

if TYPE_CHECKING:
    from lowering.numpy_source.writer import Writer

__all__ = ["ROWS"]


def constant(op: Constant, w: Writer) -> Code:
    """Write a number, a list, or an array beside the file."""
    return w.array(op.array)


def iota(op: Iota, w: Writer) -> Code:
    """Write NumPy's arange, broadcast along all other axes."""
    n = w.extent(op.shape[op.axis])
    dtype = w.dtype(op.dtype)
    line = call("np.arange", n, dtype=dtype)
    if op.dtype.is_complex or op.dtype.itemsize < 4:
        line = Code(
            f"np.arange({n}).astype({dtype})"
        )  # because NumPy counts in the dtype, and overflows
    if len(op.shape) == 1:
        return line
    aligned = spread(line, [op.axis], len(op.shape))
    return Code(call("np.broadcast_to", aligned.text, w.shape(op.shape)).text, aligned=aligned)


def shape_of(op: ShapeOf, w: Writer, x: Expression) -> Code:
    """Write an extent, as an int64."""
    extent = x.spec.shape[op.axis]
    try:
        text = w.extent(extent)
    except Exception:  # because an extent that depends on the data can only be read from the array
        text = f"{w.named(x)}.shape[{op.axis}]"
    return call("np.int64", text)


ROWS: Rows = {Constant: constant, Iota: iota, ShapeOf: shape_of}
"""Cells of the source family."""
