"""Python code of ops without tensor operands: constants, index arrays and extents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowering.numpy_source.expression import Code, Expression, Rows, call
from lowering.numpy_source.structural import spread
from tenferro.ops.source import Constant, Iota, ShapeOf
from tenferro.types import DType

if TYPE_CHECKING:
    from lowering.numpy_source.writer import Writer

__all__ = ["ROWS"]


def constant(op: Constant, w: Writer) -> Code:
    """Write a number, a list, or a reference to an array in the file of constants."""
    return w.array(op.array)


def iota(op: Iota, w: Writer) -> Code:
    """Write `np.arange`, broadcast along all axes but `op.axis`."""
    n = w.extent(op.shape[op.axis])
    dtype = w.dtype(op.dtype)
    line = call("np.arange", n, dtype=None if op.dtype is DType.I64 else dtype)
    if op.dtype.is_complex or op.dtype.itemsize < 4:
        line = Code(
            f"np.arange({n}).astype({dtype})"
        )  # np.arange with a narrow dtype would overflow
    if len(op.shape) == 1:
        return line
    aligned = spread(line, [op.axis], len(op.shape))
    text = call("np.broadcast_to", aligned.text, w.shape(op.shape)).text
    ones = (1,) * (len(op.shape) - op.axis - 1)
    return Code(text, aligned=aligned, aligned_shape=(op.shape[op.axis], *ones))


def shape_of(op: ShapeOf, w: Writer, x: Expression) -> Code:
    """Write the extent of an axis, as an int64 scalar."""
    extent = x.spec.shape[op.axis]
    try:
        text = w.extent(extent)
    except (
        Exception
    ):  # a data-dependent extent has no formula; it is the extent of the array at run time
        text = f"{w.named(x)}.shape[{op.axis}]"
    return call("np.int64", text)


ROWS: Rows = {Constant: constant, Iota: iota, ShapeOf: shape_of}
"""Functions that write the Python code of an op, by op class."""
