"""ONNX nodes of reductions, cumulative ops and sorts."""

from __future__ import annotations

from typing import Any

from tenferro.errors import UnsupportedError
from tenferro.ops import reduction as ops
from tenferro.types import DType, TensorSpec
from xla_peer.onnx.emit.elementwise import Rows, where
from xla_peer.onnx.writer import Value, Writer

__all__ = ["ROWS"]


def combined_in(dtype: DType, kind: str = "") -> DType:
    """Return the dtype in which the ONNX operator `kind` combines elements of `dtype`.

    The operators do not support narrow integers, and onnxruntime lacks kernels for unsigned integers. So narrow
    integers are combined in more bits. The cast of the result back wraps, as arithmetic in the dtype does. Products of unsigned
    integers remain unsigned, because onnxruntime does not wrap products that exceed int64.
    """
    if dtype.is_bool or (dtype.kind == "i" and dtype.itemsize < 4):
        return DType.I32
    if dtype.kind == "u" and dtype.itemsize < 8:
        return DType.U32 if "Prod" in kind else DType.I64
    return DType.F32 if dtype is DType.F16 else dtype


def ordered(w: Writer, x: Value) -> Value:
    """Cast x to a dtype that onnxruntime can compare and that preserves the order.

    There is no such dtype for uint64, so uint64 is returned unchanged.
    """
    if x.dtype in (DType.I32, DType.I64, DType.U64, DType.F32, DType.F64):
        return x
    return w.cast(x, DType.F32 if x.dtype.is_float else DType.I64)


def reduced(kind: str) -> Any:
    """Return a function that writes a reduction as the ONNX operator `kind`."""

    def cell(op: Any, w: Writer, x: Value) -> Value:
        spec = w.specs[0]
        if not op.axes:
            return w.op("Identity", x)
        through = combined_in(x.dtype, kind)
        wide = w.cast(x, through)
        y = w.op(
            kind, wide, w.integers(*op.axes), spec=TensorSpec.of(spec.shape, through), keepdims=0
        )
        return w.cast(y, spec.dtype)

    return cell


def logical(kind: str) -> Any:
    """Return a function that writes a reduction of bools by `and` or `or`, as a minimum or maximum of integers."""

    def cell(op: Any, w: Writer, x: Value) -> Value:
        if op.axes and not x.dtype.is_bool:
            raise UnsupportedError("ONNX has no counterpart: it reduces no integers by bits")
        return reduced(kind)(op, w, x)

    return cell


def winner(kind: str) -> Any:
    """Return a function that writes an argmax or argmin as the ONNX operator `kind`."""

    def cell(op: Any, w: Writer, x: Value) -> Value:
        spec = w.specs[0]
        return w.op(kind, ordered(w, x), spec=spec, axis=op.axis, keepdims=0)

    return cell


def cumulative(kind: str) -> Any:
    """Return a function that writes a cumulative sum or product as the ONNX operator `kind`."""

    def cell(op: Any, w: Writer, x: Value) -> Value:
        wide = w.cast(x, combined_in(x.dtype, kind))
        y = w.op(kind, wide, w.number(op.axis, DType.I64), reverse=int(op.reverse))
        return w.cast(y, x.dtype)

    return cell


def running(kind: str) -> Any:
    """Return a function that writes a cumulative maximum or minimum.

    ONNX has no such operator. So for each position along the axis, all elements are reduced, with a mask that excludes
    the elements after the position.
    """

    def cell(op: Any, w: Writer, x: Value) -> Value:
        import numpy as np

        n = x.spec.shape[op.axis]
        if not isinstance(n, int):
            raise UnsupportedError(
                "ONNX has no counterpart: running extremes need an extent that is a number"
            )
        through = combined_in(x.dtype)
        wide = w.cast(x, through)
        outside = ops.least(through) if kind == "ReduceMax" else ops.largest(through)
        mask = np.tri(n, dtype=bool).T if op.reverse else np.tri(n, dtype=bool)
        after = [1] * (x.rank - op.axis - 1)
        shape = [*x.spec.shape[: op.axis], 1, *x.spec.shape[op.axis :]]
        seen = w.constant(mask.reshape([1] * op.axis + [n, n, *after]))
        pairs = TensorSpec.of((*x.spec.shape[: op.axis], n, *x.spec.shape[op.axis :]), through)
        outer = w.number(outside, through)
        chosen = where(w, seen, w.reshape(wide, shape), outer, pairs.shape)
        y = w.op(kind, chosen, w.integers(op.axis + 1), spec=wide.spec, keepdims=0)
        return w.cast(y, x.dtype)

    return cell


def sort(op: ops.Sort, w: Writer, *xs: Value) -> list[Value]:
    """Write a stable sort as TopK with k equal to the extent: TopK keeps the order of equal elements."""
    key = ordered(w, xs[0])
    k = w.extent_of(key, op.axis)
    _, order = w.nodes_of("TopK", [key, k], 2, axis=op.axis, largest=0, sorted=1)
    return [w.op("GatherElements", x, order, axis=op.axis, spec=x.spec) for x in xs]


def top_k(op: ops.TopK, w: Writer, x: Value) -> list[Value]:
    """Emit TopK along the last axis."""
    values, indices = w.specs
    key = ordered(w, x)
    names = w.nodes_of("TopK", [key, w.integers(op.k)], 2, axis=x.rank - 1, largest=1, sorted=1)
    y = w.cast(Value(names[0], TensorSpec.of(values.shape, key.dtype)), x.dtype)
    return [y, Value(names[1], indices)]


ROWS: Rows = {
    ops.ReduceSum: reduced("ReduceSum"),
    ops.ReduceProd: reduced("ReduceProd"),
    ops.ReduceMax: reduced("ReduceMax"),
    ops.ReduceMin: reduced("ReduceMin"),
    ops.ReduceAnd: logical("ReduceMin"),
    ops.ReduceOr: logical("ReduceMax"),
    ops.ArgMax: winner("ArgMax"),
    ops.ArgMin: winner("ArgMin"),
    ops.CumSum: cumulative("CumSum"),
    ops.CumProd: cumulative("CumProd"),
    ops.CumMax: running("ReduceMax"),
    ops.CumMin: running("ReduceMin"),
    ops.Sort: sort,
    ops.TopK: top_k,
}
