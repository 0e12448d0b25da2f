"""ONNX nodes that move elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowering.numpy_source.functions import padded
from tenferro.dims import is_exact
from tenferro.errors import UnsupportedError
from tenferro.ops import structural as ops
from tenferro.types import DType, TensorSpec
from xla_peer.onnx.decomposition import written
from xla_peer.onnx.emit.elementwise import Rows, where
from xla_peer.onnx.writer import Value, Writer

__all__ = ["ROWS", "sliced"]


def reshape(op: ops.Reshape, w: Writer, x: Value) -> Value:
    """Write Reshape between two transposes: the op reshapes in column-major order, and ONNX in row-major order."""
    shape = w.specs[0].shape
    reverse = range(x.rank)[::-1]
    turned = w.reshape(w.transpose(x, reverse), shape[::-1])
    return w.transpose(turned, range(len(shape))[::-1])


def broadcast_in_dim(op: ops.BroadcastInDim, w: Writer, x: Value) -> Value:
    """Write a transpose, a reshape that adds axes, and an expansion."""
    shape = w.specs[0].shape
    order = sorted(range(x.rank), key=op.dims.__getitem__)
    extents = x.spec.shape
    aligned: list[Any] = [1] * len(shape)
    for axis in order:
        aligned[op.dims[axis]] = extents[axis]
    return w.expand(w.reshape(w.transpose(x, order), aligned), shape)


def sliced(w: Writer, x: Value, starts: Any, limits: Any, strides: Any, spec: TensorSpec) -> Value:
    """Write a Slice along all axes, and return its result."""
    axes = w.integers(*range(x.rank))
    return w.op(
        "Slice",
        x,
        w.shape(starts, (x,)),
        w.shape(limits, (x,)),
        axes,
        w.integers(*strides),
        spec=spec,
    )


def slice_(op: ops.Slice, w: Writer, x: Value) -> Value:
    """Write a Slice node; a scalar has no axis to slice, and is unchanged."""
    return (
        sliced(w, x, op.starts, op.limits, op.strides, w.specs[0])
        if x.rank
        else w.op("Identity", x)
    )


def pad(op: ops.Pad, w: Writer, x: Value, value: Value) -> Value:
    """Emit Pad. For interior or negative padding, which ONNX's Pad lacks, write slices, concatenations and reshapes."""
    spec = w.specs[0]
    edges = [*op.low, *op.high]
    if not x.rank:
        return w.op("Identity", x)
    if not all(isinstance(n, int) for n in edges):
        raise UnsupportedError("to_onnx writes edges that are numbers")
    if not any(op.interior) and all(n >= 0 for n in edges):
        return w.op("Pad", x, w.integers(*edges), value, spec=spec)
    if not all(map(is_exact, x.spec.shape)) or not x.spec.is_static:
        raise UnsupportedError(
            "to_onnx writes interior and negative padding of extents that are numbers"
        )
    (y,) = written(w, lambda x, value: padded(x, value, op.low, op.high, op.interior), x, value)
    return y


def concatenate(op: ops.Concatenate, w: Writer, *xs: Value) -> Value:
    """Write a Concat node, without operands that have no elements."""
    full = [x for x in xs if x.spec.shape[op.axis] != 0] or [*xs]
    return w.op("Concat", *full, spec=w.specs[0], axis=op.axis)


def reverse(op: ops.Reverse, w: Writer, x: Value) -> Value:
    """Write a slice with steps of -1."""
    if not op.axes:
        return w.op("Identity", x)
    count = len(op.axes)
    starts, ends = w.integers(*[-1] * count), w.integers(*[-(2**62)] * count)
    return w.op("Slice", x, starts, ends, w.integers(*op.axes), w.integers(*[-1] * count))


def extract_diag(op: ops.ExtractDiag, w: Writer, x: Value) -> Value:
    """Emit GatherND at the index pairs (i, i) of the two axes."""
    n, spec = x.spec.shape[op.axis_a], w.specs[0]
    if not isinstance(n, int):
        raise UnsupportedError("to_onnx writes diagonals of extents that are numbers")
    rest = [axis for axis in range(x.rank) if axis not in (op.axis_a, op.axis_b)]
    pairs = w.constant(np.repeat(np.arange(n)[:, None], 2, axis=1))
    moved = w.transpose(x, (op.axis_a, op.axis_b, *rest))
    inner = TensorSpec.of((n, *[x.spec.shape[axis] for axis in rest]), x.dtype)
    diagonal = w.op("GatherND", moved, pairs, spec=inner)
    place = op.axis_a - (op.axis_b < op.axis_a)
    order = list(range(1, inner.rank))
    order.insert(place, 0)
    return Value(w.transpose(diagonal, order).name, spec)


def embed_diag(op: ops.EmbedDiag, w: Writer, x: Value) -> Value:
    """Write a selection of the operand on the diagonal, and of zero elsewhere."""
    spec = w.specs[0]
    n = spec.shape[op.axis_a]
    if not isinstance(n, int):
        raise UnsupportedError("to_onnx writes diagonals of extents that are numbers")
    places: list[int] = [1] * spec.rank
    places[op.axis_a] = places[op.axis_b] = n
    mask = w.constant(np.eye(n, dtype=bool).reshape(places))
    shape = list(x.spec.shape)
    shape.insert(op.axis_b, 1)
    return where(w, mask, w.reshape(x, shape), w.number(0, x.dtype), spec.shape)


def triangle(upper: int) -> Any:
    """Return a function that writes Trilu, for the upper triangle if `upper` is 1, else for the lower triangle."""
    return lambda op, w, x: w.op("Trilu", x, w.number(op.k, DType.I64), upper=upper)


def barrier(op: Any, w: Writer, *xs: Value) -> list[Value]:
    """Emit Identity for each operand, because ONNX has no optimization barrier."""
    return [w.op("Identity", x) for x in xs]


ROWS: Rows = {
    ops.Transpose: lambda op, w, x: w.transpose(x, op.perm),
    ops.Reshape: reshape,
    ops.BroadcastInDim: broadcast_in_dim,
    ops.Slice: slice_,
    ops.Pad: pad,
    ops.Concatenate: concatenate,
    ops.Reverse: reverse,
    ops.ExtractDiag: extract_diag,
    ops.EmbedDiag: embed_diag,
    ops.Tril: triangle(0),
    ops.Triu: triangle(1),
    ops.OptimizationBarrier: barrier,
}
