"""Readers of reshapes, broadcasts, slices and similar operations, and of constants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from lowering.module_tree import Operation
from lowering.read import bounded, total_order
from lowering.read.dynamic import gathered_pad
from lowering.read.reader import Reader, ReadRows
from tenferro.dims import DimExpr, is_exact, is_static, product
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.ops import structural as st
from tenferro.ops.elementwise import Convert
from tenferro.ops.reduction import TopK
from tenferro.ops.source import Iota
from tenferro.types import TensorSpec

__all__ = ["ROWS"]

_COMPLEX = re.compile(r"#complex\.number<:\w+ ([-+.\deE]+), ?([-+.\deE]+)>")


def constant(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    value = operation.attributes["value"]
    if value is None or isinstance(value, str):
        raise UnsupportedError(f"a constant of type {operation.types[0]}")
    return r.constant(value)


def iota(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    spec = operation.spec
    return r.apply_one(Iota(spec.shape, operation.attributes["iota_dimension"], spec.dtype))


def transpose(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    return r.transpose(operands[0], operation.attributes["permutation"])


def reshape(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read a reshape.

    If the module declares one extent of the result as `?`, the extent is the number of elements divided by the other
    extents.
    """
    (x,) = operands
    shape = list(operation.spec.shape)
    if not r.spec(x).is_exact:
        reshaped = bounded.reshape(r, x, shape)
        if reshaped is None:
            raise UnsupportedError(
                f"stablehlo.reshape: the sizes of {operation.spec} depend on data, and the number of elements does not "
                "determine them; reshape to one such size at a time"
            )
        return reshaped
    opened = [axis for axis, extent in enumerate(shape) if not is_static(extent)]
    if len(opened) == 1:
        (axis,) = opened
        rest = product([extent for extent in shape if is_static(extent)])
        shape[axis] = product(r.spec(x).shape) // rest if rest else 0
    return r.reshape(x, tuple(shape))


def broadcast_in_dim(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read a broadcast; if an extent of the result is not a number, it is the extent of the operand's axis."""
    shape: list[Any] = list(operation.spec.shape)
    dims = tuple(operation.attributes["broadcast_dimensions"])
    for number, (axis, extent) in enumerate(zip(dims, r.spec(operands[0]).shape, strict=True)):
        if not is_static(shape[axis]):
            shape[axis] = extent if is_exact(extent) else DimExpr.input_axis(0, number)
    return r.apply_one(st.BroadcastInDim(tuple(shape), dims), operands[0])


def broadcast(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    sizes, extents = tuple(operation.attributes["broadcast_sizes"]), r.spec(operands[0]).shape
    shape = (*sizes, *extents)
    dims = tuple(range(len(sizes), len(shape)))
    return r.apply_one(st.BroadcastInDim(shape, dims), operands[0])


def slice_(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    a = operation.attributes
    op = st.Slice(tuple(a["start_indices"]), tuple(a["limit_indices"]), tuple(a["strides"]))
    first = (
        _first_of_sorted(r, op, operands[0]) if op.starts else None
    )  # a tensor of rank 0 cannot be sorted
    if first is not None:
        return first
    x, sizes = bounded.padded_to_bounds(r, operands[0])
    # A slice of the whole axis has the size of the axis, as its type with a bound says.
    whole = {
        axis: size
        for axis, size in sizes.items()
        if (op.starts[axis], op.limits[axis], op.strides[axis]) == (0, r.spec(x).shape[axis], 1)
    }
    return bounded.truncated(r, r.apply_one(op, x), whole)


def _first_of_sorted(r: Reader, op: st.Slice, x: int) -> int | None:
    """Read a slice of the first k results of a `TopK` as a `TopK` with this k; return None for any other slice.

    JAX writes such a slice after a descending sort with indices, which is read as a `TopK`.
    """
    producer = r.builder.made_by(x)
    if producer is None:
        return None
    card, inputs = producer
    if isinstance(card, TopK):
        return _first_of_top(r, op, x, card, inputs)
    moves = isinstance(card, Convert) or card == total_order.along_last(len(r.spec(x).shape))
    first = _first_of_sorted(r, op, inputs[-1]) if moves else None
    return None if first is None else r.apply_one(card, *inputs[:-1], first)


def _first_of_top(r: Reader, op: st.Slice, x: int, top: TopK, inputs: Sequence[int]) -> int | None:
    *lead, extent = r.spec(x).shape
    k = op.limits[-1]
    is_first = not any(op.starts) and set(op.strides) == {1} and list(op.limits[:-1]) == lead
    if not is_first or k == extent:
        return None
    # The builder returns the existing results if an equal op is applied again to equal operands. So x is one of the
    # results of `apply`, and `index` finds out which.
    output = r.apply(top, *inputs).index(x)
    return r.apply(TopK(k), *inputs)[output]


def pad(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    a = operation.attributes
    sides = (a["edge_padding_low"], a["edge_padding_high"], a["interior_padding"])
    if not r.spec(operands[0]).is_exact:
        amounts = [r.constant(np.array(side, np.int64)) for side in sides]
        return gathered_pad(r, operation, [*operands, *amounts])
    return r.apply_one(st.Pad(*map(tuple, sides)), *operands)


def concatenate(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    return r.apply_one(st.Concatenate(operation.attributes["dimension"], len(operands)), *operands)


def reverse(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    axes = tuple(operation.attributes["dimensions"])
    return r.apply_one(st.Reverse(axes), operands[0]) if axes else operands[0]


def barrier(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    return r.apply(st.OptimizationBarrier(len(operands)), *operands) if operands else ()


def constant_like(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read `chlo.constant_like`: a tensor with the shape of the operand, whose elements all equal one number."""
    attribute = operation.attributes["value"]
    parts = _COMPLEX.match(attribute) if isinstance(attribute, str) else None
    value = np.asarray(attribute if parts is None else complex(float(parts[1]), float(parts[2])))
    if value.dtype.kind not in "biufc":
        raise UnsupportedError(f"chlo.constant_like: a value {attribute}")
    if value.size != 1:
        raise InvalidConfigError(
            f"chlo.constant_like: its value must be one number, got {value.shape}"
        )
    spec = r.spec(operands[0])
    dtype = operation.spec.dtype
    return r.full(value.reshape(()).astype(dtype.dtype), TensorSpec.of(spec.shape, dtype))


ROWS: ReadRows = {
    "chlo.constant_like": bounded.at_bounds(constant_like),
    "stablehlo.broadcast": broadcast,
    "stablehlo.broadcast_in_dim": broadcast_in_dim,
    "stablehlo.concatenate": concatenate,
    "flow.tensor.dynamic_constant": constant,
    "stablehlo.constant": constant,
    "util.unfoldable_constant": constant,
    "arith.constant": constant,
    "chlo.constant": constant,
    "stablehlo.iota": iota,
    "stablehlo.optimization_barrier": barrier,
    "stablehlo.pad": pad,
    "stablehlo.reshape": reshape,
    "stablehlo.reverse": reverse,
    "stablehlo.slice": slice_,
    "stablehlo.transpose": transpose,
}
