"""Python code of transposes, reshapes, slices, broadcasts and other ops that move elements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lowering.numpy_source.contraction import dot_general as product
from lowering.numpy_source.expression import Code, Expression, Level, Rows, call, tuple_of
from tenferro.dims import is_exact
from tenferro.ops import structural as ops
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.indexing import DynamicSlice
from tenferro.types import TensorSpec

if TYPE_CHECKING:
    from lowering.numpy_source.writer import Writer

__all__ = ["ROWS", "adds_axis", "reshape", "spread"]


def is_reversal(perm: Sequence[int]) -> bool:
    """Return whether a permutation reverses the axes."""
    return list(perm) == list(range(len(perm)))[::-1]


def transpose(op: ops.Transpose, w: Writer, x: Expression) -> Code:
    """Write `x.T`, `np.swapaxes` or `np.transpose`; return x unchanged if the order of axes does not change."""
    if list(op.perm) == sorted(op.perm):
        return x.code
    inner = x.op
    if isinstance(inner, ops.Reshape) and all(map(is_exact, x.spec.shape)):
        # A column-major reshape is the reversal of a row-major reshape of the reversal of its operand.
        (operand,) = x.operands
        base = untransposed(w, operand)
        if base is None:
            reverse_spec = TensorSpec(operand.spec.shape[::-1], operand.spec.dtype)
            base = Expression(
                Code(f"{operand.at(Level.ATOM)}.T", free=operand.is_name), reverse_spec
            )
        shape = x.spec.shape[::-1]
        reversal = Expression(reshaped(w, base, shape), TensorSpec(shape, x.spec.dtype))
        perm = tuple(len(shape) - 1 - axis for axis in op.perm)
        return transpose(ops.Transpose(perm), w, reversal)
    if isinstance(inner, DotGeneral):
        return product(inner, w, *x.operands, perm=op.perm)
    base = x.at(Level.ATOM)
    if is_reversal(op.perm):
        return Code(f"{base}.T", free=x.is_name)
    *lead, row, column = range(len(op.perm))
    if list(op.perm) == [*lead, column, row]:
        return Code(call("np.swapaxes", x, -1, -2).text, free=x.is_name)
    return Code(call("np.transpose", x, tuple_of(op.perm)).text, free=x.is_name)


def untransposed(w: Writer, x: Expression) -> Expression | None:
    """Return the value whose reversal of axes is x, if x is a transpose or has a rank below 2; else None."""
    if x.spec.rank < 2:
        return x
    inner = x.op
    if not isinstance(inner, ops.Transpose):
        return None
    if is_reversal(inner.perm):
        return x.operands[0]
    code = transpose(ops.Transpose(inner.perm[::-1]), w, x.operands[0])
    return Expression(code, TensorSpec(x.spec.shape[::-1], x.spec.dtype))


def reshaped(w: Writer, x: Expression, shape: Sequence[Any]) -> Code:
    """Return the code of a row-major reshape.

    The code is an index such as `x[:, None]` if the reshape only adds axes of extent 1, or only removes axes that a
    slice has reduced to extent 1. Otherwise the code is `x.reshape(..)`.
    """
    old = list(x.spec.shape)
    if isinstance(x.op, ops.Slice) and all(map(is_exact, old)):
        dropped = _dropped(old, shape)
        if dropped and all(isinstance(x.op.starts[axis], int) for axis in dropped):
            return _index(w, x.op, x.operands[0], dropped)
    if isinstance(x.op, DynamicSlice) and all(map(is_exact, old)):
        code = _taken(w, x, _dropped(old, shape))
        if code is not None:
            return code
    added = _dropped(list(shape), old)
    if added and old:
        return _with_axes(x.code, shape, [axis for axis in range(len(shape)) if axis not in added])
    if len(shape) == 1:
        return Code(f"{x.at(Level.ATOM)}.reshape(-1)")
    return Code(f"{x.at(Level.ATOM)}.reshape({', '.join(map(w.extent, shape)) or '()'})")


def _taken(w: Writer, x: Expression, dropped: Sequence[int]) -> Code | None:
    """Return the code of a slice at computed positions without the axes `dropped`, as calls of `take`.

    Return None unless the slice is whole along all other axes.
    """
    base, *starts = x.operands
    others = [axis for axis in range(x.spec.rank) if axis not in dropped]
    if not dropped or any(x.spec.shape[axis] != base.spec.shape[axis] for axis in others):
        return None
    code = base.code
    for axis in sorted(dropped, reverse=True):
        code = call(w.function("take"), code.text, starts[axis], axis=axis or None)
    return code


def _with_axes(x: Code, shape: Sequence[Any], axes: Sequence[int]) -> Code:
    """Return an index such as `x[:, None]` that adds axes of extent 1; `axes` are the axes of x in the result's shape.

    NumPy adds the leading axes when it broadcasts, so the aligned code omits them.
    """
    whole, least = spread(x, axes, len(shape), 0), spread(x, axes, len(shape))
    text = re.sub(r"(, :)+\]$", "]", whole.text) if whole is not x else whole.text
    is_free = x.free or x.text.isidentifier()
    aligned_shape = tuple(shape[axes[0] :])
    return Code(text, whole.level, least, free=is_free, aligned_shape=aligned_shape)


def _without_trailing(entries: list[str]) -> list[str]:
    """Return the entries of an index without `:` at its end."""
    while len(entries) > 1 and entries[-1] == ":":
        entries = entries[:-1]
    return entries


def _dropped(old: Sequence[Any], new: Sequence[Any]) -> list[int]:
    """Return axes of extent 1 that can be removed from the shape `old` to make the shape `new`; empty if none can."""
    dropped: list[int] = []
    position = 0
    for axis, extent in enumerate(old):
        if position < len(new) and new[position] == extent:
            position += 1
        elif isinstance(extent, int) and extent == 1:
            dropped.append(axis)
        else:
            return []
    return dropped if position == len(new) else []


def _is_reshape(x: Expression) -> bool:
    """Return whether a value is a reshape of its operand, so that the elements have the same order in both."""
    if isinstance(x.op, ops.BroadcastInDim):
        return list(x.op.dims) == sorted(x.op.dims) and bool(
            not x.spec.rank or _dropped(x.spec.shape, x.operands[0].spec.shape)
        )
    return isinstance(x.op, ops.Reshape)


def reshape(op: ops.Reshape, w: Writer, x: Expression) -> Code:
    """Write a column-major reshape: `x.reshape(.., order="F")`, without `order` if row-major order agrees."""
    shape = w.specs[0].shape
    if not all(map(is_exact, shape)):
        shape = op.shape
    if list(shape) == list(x.spec.shape):
        return x.code
    if _is_reshape(x) and all(map(is_exact, x.operands[0].spec.shape)):
        return reshape(op, w, x.operands[0])
    if len(shape) < 2:
        base = untransposed(w, x)
        if base is not None:
            return reshaped(w, base, shape)
    if len(shape) < 2 and x.spec.rank < 2:
        return reshaped(w, x, shape)
    if _dropped(list(shape), x.spec.shape) or _dropped(x.spec.shape, list(shape)):
        return reshaped(w, x, shape)
    base = untransposed(w, x)
    if base is not None and all(map(is_exact, shape)):
        return Code(f"{reshaped(w, base, shape[::-1]).text}.T")
    return Code(f'{x.at(Level.ATOM)}.reshape({w.shape(shape, (x,))}, order="F")')


def spread(x: Code, axes: Sequence[int], rank: int, first: int | None = None) -> Code:
    """Return the code of x with an index that adds axes, so that x broadcasts to an array of rank `rank`.

    Args:
        axes: for each axis of x, the matching axis of the array, in ascending order.
        first: the first axis that the index mentions; by default the first of `axes`.
    """
    if not axes:
        return x
    first = axes[0] if first is None else first
    entries = [":" if axis in axes else "None" for axis in range(first, rank)]
    if "None" not in entries:
        return x
    if len(axes) > 1 and entries[: len(axes)] == [":"] * len(axes):
        entries = ["...", *entries[len(axes) :]]
    base = x.text if x.level >= Level.ATOM else f"({x.text})"
    return Code(f"{base}[{', '.join(entries)}]", free=x.free or x.text.isidentifier())


def broadcast_in_dim(op: ops.BroadcastInDim, w: Writer, x: Expression) -> Code:
    """Write `np.broadcast_to` of the operand, with its axes transposed and axes added as the op requires.

    If only axes of extent 1 are added, write an index such as `x[:, None]` instead.
    """
    order = sorted(range(x.spec.rank), key=op.dims.__getitem__)
    code = x.code
    if order != sorted(order):
        code = Code(call("np.transpose", x, tuple_of(order)).text, free=x.is_name)
    if code.aligned is not None and not order:
        code = code.aligned
    aligned = spread(code, sorted(op.dims), len(op.shape))
    is_trailing = sorted(op.dims) == list(range(len(op.shape) - x.spec.rank, len(op.shape)))
    if code.aligned is not None and is_trailing:
        aligned = code.aligned
    if x.is_name:
        aligned = Code(aligned.text, aligned.level, free=True)
    shape = w.specs[0].shape
    extents = [shape[dim] for dim in op.dims]
    fits = list(x.spec.shape) == extents and all(
        axis in op.dims or (isinstance(n, int) and n == 1) for axis, n in enumerate(shape)
    )
    if fits and order and x.code.number is None:
        return replace(_with_axes(code, shape, sorted(op.dims)), free=x.is_name)
    first = min(op.dims, default=len(shape))
    aligned_shape = tuple(
        x.spec.shape[op.dims.index(axis)] if axis in op.dims else 1
        for axis in range(first, len(shape))
    )
    if code.aligned is not None and is_trailing:
        aligned_shape = code.aligned_shape
    text = call("np.broadcast_to", aligned.text, w.result_shape(op, (x,))).text
    if x.code.number is not None:
        text = w.full(w.result_shape(op, (x,)), x.code.number, x.spec.dtype)
    return Code(text, Level.ATOM, aligned, x.code.number, x.is_name, aligned_shape)


def _index(w: Writer, op: ops.Slice, x: Expression, dropped: Sequence[int] = ()) -> Code:
    entries: list[str] = []
    for axis, (start, limit, step) in enumerate(zip(op.starts, op.limits, op.strides, strict=True)):
        extent = x.spec.shape[axis]
        if axis in dropped:
            from_end = isinstance(extent, int) and extent > 1 and start == extent - 1
            entries.append("-1" if from_end else w.extent(start, (x,)))
            continue
        first = "" if start == 0 else w.extent(start, (x,))
        last = "" if limit == extent else w.extent(limit, (x,))
        entries.append(f"{first}:{last}" + (f":{step}" if step > 1 else ""))
    return Code(f"{x.at(Level.ATOM)}[{', '.join(_without_trailing(entries))}]", free=x.is_name)


def slice_(op: ops.Slice, w: Writer, x: Expression) -> Code:
    """Write an index such as `x[1:3, ::2]`."""
    return _index(w, op, x) if op.starts else x.code


def pad(op: ops.Pad, w: Writer, x: Expression, value: Expression) -> Code:
    """Write `np.pad`; if elements are removed, or inserted between elements, write a call of `padded` instead."""
    edges = [*op.low, *op.high]
    is_plain = not any(op.interior) and all(isinstance(n, int) and n >= 0 for n in edges)
    number = value.code.number
    if is_plain and op.low:
        widths = tuple_of([tuple_of(pair) for pair in zip(op.low, op.high, strict=True)])
        constant = (
            None if number is not None and number.text == "0" else (number or value.code).text
        )
        if number is not None and number.text in ("0.0", "False"):
            constant = None
        return call("np.pad", x, widths, constant_values=constant)
    sides = [w.shape(side, (x, value)) for side in (op.low, op.high)]
    return call(w.function("padded"), x, value, *sides, tuple_of(op.interior))


def adds_axis(x: Expression, axis: int) -> bool:
    """Return whether a value is its operand with an axis of extent 1 added at `axis`."""
    if not _is_reshape(x) or x.spec.shape[axis] != 1:
        return False
    return (*x.spec.shape[:axis], *x.spec.shape[axis + 1 :]) == tuple(x.operands[0].spec.shape)


def _element(w: Writer, x: Expression, axis: int) -> Code | None:
    """Return the code of a reshape or slice without an axis of extent 1; None for other values."""
    if adds_axis(x, axis):
        return x.operands[0].code
    if (
        isinstance(x.op, ops.Slice)
        and x.spec.shape[axis] == 1
        and isinstance(x.op.starts[axis], int)
    ):
        return _index(w, x.op, x.operands[0], [axis])
    return None


def _shift(axis: int, operands: Sequence[Expression]) -> int:
    """Return the shift of elements if the operands are the two parts of an array in exchanged order, else 0."""
    if len(operands) != 2 or operands[0].operands[:1] != operands[1].operands[:1]:
        return 0
    (first, second), spec = [x.op for x in operands], operands[0].spec
    if not isinstance(first, ops.Slice) or not isinstance(second, ops.Slice):
        return 0
    shape, cut = [*operands[0].operands[0].spec.shape], first.starts[axis]
    if not spec.is_static or not operands[1].spec.is_static:
        return 0
    whole = [0] * spec.rank, shape, (1,) * spec.rank
    for op, start, limit in ((first, cut, shape[axis]), (second, 0, cut)):
        starts, limits = [*whole[0]], [*shape]
        starts[axis], limits[axis] = start, limit
        if ([*op.starts], [*op.limits], op.strides) != (starts, limits, whole[2]):
            return 0
    return -cut if 2 * cut <= shape[axis] else shape[axis] - cut


def concatenate(op: ops.Concatenate, w: Writer, *operands: Expression) -> Code:
    """Write `np.concatenate`, or `np.stack` for operands whose extent along the axis is 1."""
    axis = None if op.axis == 0 else op.axis
    elements = [_element(w, x, op.axis) for x in operands]
    texts = [element.text for element in elements if element is not None]
    shift = _shift(op.axis, operands)
    if shift:
        return call("np.roll", operands[0].operands[0], shift, axis=op.axis)
    if len(texts) == len(operands) and any(adds_axis(x, op.axis) for x in operands):
        return call("np.stack", f"[{', '.join(texts)}]", axis=axis)
    return call("np.concatenate", f"[{', '.join(map(str, operands))}]", axis=axis)


def reverse(op: ops.Reverse, w: Writer, x: Expression) -> Code:
    """Write `np.flip`."""
    axes = op.axes[0] if len(op.axes) == 1 else tuple_of(op.axes)
    return Code(call("np.flip", x, axes).text, free=x.is_name)


def extract_diag(op: ops.ExtractDiag, w: Writer, x: Expression) -> Code:
    """Write `np.diagonal`, with `np.moveaxis` if the diagonal is not the last axis of the op's result."""
    axis = op.axis_a - (op.axis_b < op.axis_a)
    axes = (op.axis_a, op.axis_b)
    diagonal = call("np.diagonal", x, *([] if axes == (0, 1) else [0, *axes]))
    if axis == x.spec.rank - 2:
        return diagonal
    return call("np.moveaxis", diagonal.text, -1, axis)


def embed_diag(op: ops.EmbedDiag, w: Writer, x: Expression) -> Code:
    """Write a call of the function `embedded_diagonal`, which the generated file includes."""
    return call(w.function("embedded_diagonal"), x, op.axis_a, op.axis_b)


def triangle(name: str) -> Any:
    """Return the function that writes a call of `np.tril` or `np.triu`."""
    return lambda op, w, x: call(f"np.{name}", x, *([op.k] if op.k else []))


def barrier(op: ops.OptimizationBarrier, w: Writer, *operands: Expression) -> Any:
    """Return the operands, each assigned to a name, so that no expression extends across the barrier."""
    return [
        Code(w.named(x), x.code.level, x.code.aligned, x.code.number, free=True) for x in operands
    ]


ROWS: Rows = {
    ops.Transpose: transpose,
    ops.Reshape: reshape,
    ops.BroadcastInDim: broadcast_in_dim,
    ops.Slice: slice_,
    ops.Pad: pad,
    ops.Concatenate: concatenate,
    ops.Reverse: reverse,
    ops.ExtractDiag: extract_diag,
    ops.EmbedDiag: embed_diag,
    ops.Tril: triangle("tril"),
    ops.Triu: triangle("triu"),
    ops.OptimizationBarrier: barrier,
}
