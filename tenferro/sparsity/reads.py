"""Table of sparsity: for each op, the elements of an operand that an element of a result reads.

`tenferro.sparsity.propagation` handles ops with sub-programs, and extensions. For an op that moves elements, the kernel
of the op is run on the numbers of the operand's elements, and the result shows which element moved where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from tenferro.errors import UnsupportedError
from tenferro.exec.kernels import KERNELS
from tenferro.ops import STD_OPS, Column, StdTensorOp
from tenferro.ops import analytic as an
from tenferro.ops import contraction as co
from tenferro.ops import control as cf
from tenferro.ops import dynamic as dy
from tenferro.ops import elementwise as el
from tenferro.ops import indexing as ix
from tenferro.ops import reduction as re
from tenferro.ops import source as so
from tenferro.ops import structural as st
from tenferro.sparsity.relations import SAME, Groups, Matrix, Moves, Relation
from tenferro.types import TensorSpec

__all__ = ["READS", "Operands", "independent_slices", "run_kernel"]

MAX_PAIRS = 1 << 25
"""Maximum number of pairs of a result element and an operand element that are listed for a product with a constant."""


@dataclass(frozen=True)
class Operands:
    """Types and constant values of an instruction's operands, from which its sparsity is derived.

    Attributes:
        types: the types of the operands.
        known: for each operand, its array if it depends on no input; None for other operands.
        results: the types of the results.
    """

    types: Sequence[TensorSpec]
    known: Sequence[np.ndarray[Any, Any] | None]
    results: Sequence[TensorSpec]

    def shape(self, position: int) -> tuple[int, ...]:
        """Return the shape of an operand."""
        return tuple(self.types[position].shape)


Relations: TypeAlias = Sequence[Relation | None]
Reads: TypeAlias = Callable[[Any, Operands, int], Relations]
"""Function of an op, its operands, and the position of one operand. It returns a relation or None for each result."""


# ---- by running the op on numbers ------------------------------------------------------------------


def run_kernel(op: StdTensorOp, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Run the kernel of an op, and return its results as a list of arrays."""
    with np.errstate(all="ignore"):
        results: Any = KERNELS.cell(op)(op, *arrays)
    return [np.asarray(y) for y in (results if isinstance(results, tuple) else (results,))]


def _numbers(shape: Sequence[int]) -> np.ndarray[Any, Any]:
    return np.arange(prod(shape)).reshape(shape)


def moved(op: StdTensorOp, x: Operands, position: int) -> Relations:
    """Run the op on the numbers of an operand's elements. Each result then shows which elements it copies.

    Other operands are passed unchanged if they are known integers or bools, and are replaced by zeros if not.
    """
    arrays: list[Any] = []
    for other, (spec, value) in enumerate(zip(x.types, x.known, strict=True)):
        if other == position:
            arrays.append(_numbers(x.shape(other)) + 1)
        elif value is not None and not spec.dtype.is_inexact:
            arrays.append(value)
        else:
            arrays.append(np.zeros(x.shape(other), np.int64))
    sources = [np.ravel(y).astype(np.int64) - 1 for y in run_kernel(op, arrays)]
    return [Moves(source) if source.size and source.max() >= 0 else None for source in sources]


# ---- elementwise -----------------------------------------------------------------------------------


def same(op: StdTensorOp, x: Operands, position: int) -> Relations:
    """Relate each element of the result to the element of the operand at the same position."""
    return (SAME,)


def _bitcast(op: el.BitcastConvert, x: Operands, position: int) -> Relations:
    return (None,)  # it has no derivative


def _product(op: el.Multiply, x: Operands, position: int) -> Relations:
    factor = x.known[1 - position]
    if factor is None or np.count_nonzero(factor) == factor.size:
        return (SAME,)
    flat = np.ravel(factor) != 0
    return (Moves(np.where(flat, np.arange(flat.size), -1)) if flat.any() else None,)


def _selection(op: el.Select, x: Operands, position: int) -> Relations:
    return (SAME,) if x.known[0] is None else moved(op, x, position)


# ---- reductions ------------------------------------------------------------------------------------


def _slices_along(shape: Sequence[int], axes: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return, for each element, the number of the slice along `axes` that contains the element."""
    kept = [1 if axis in axes else n for axis, n in enumerate(shape)]
    return np.broadcast_to(_numbers(kept), shape)


def _reduction(op: Any, x: Operands, position: int) -> Relations:
    members = np.ravel(_slices_along(x.shape(0), op.axes))
    return (Groups(None, members, int(x.results[0].size)),)


def _prefix(op: Any, x: Operands, position: int) -> Relations:
    shape = x.shape(0)
    lines = np.moveaxis(_numbers(shape), op.axis, -1).reshape(-1, shape[op.axis])
    later, earlier = np.tril_indices(shape[op.axis])
    if op.reverse:
        later, earlier = earlier, later
    return (
        Matrix(np.ravel(lines[:, later]), np.ravel(lines[:, earlier]), (lines.size, lines.size)),
    )


def _sort(op: re.Sort, x: Operands, position: int) -> Relations:
    members = np.ravel(_slices_along(x.shape(position), (op.axis,)))
    lines = Groups(members, members, members.size)
    return [lines if result == position else None for result in range(op.count)]


def _top(op: re.TopK, x: Operands, position: int) -> Relations:
    shape = x.shape(0)
    lines = prod(shape[:-1])
    index, members = np.repeat(np.arange(lines), op.k), np.repeat(np.arange(lines), shape[-1])
    return Groups(index, members, lines), None


def nothing(op: StdTensorOp, x: Operands, position: int) -> Relations:
    """Relate no elements, because the results have no derivative."""
    return [None] * len(x.results)


# ---- contractions ----------------------------------------------------------------------------------


def _dot(op: co.DotGeneral, x: Operands, position: int) -> Relations:
    lhs, rhs = _numbers(x.shape(0)), _numbers(x.shape(1))
    batch = prod([x.shape(0)[axis] for axis in op.lhs_batch])
    terms = prod([x.shape(0)[axis] for axis in op.lhs_contracting])
    left = lhs.transpose(*op.lhs_batch, *op.lhs_free(lhs.ndim), *op.lhs_contracting)
    right = rhs.transpose(*op.rhs_batch, *op.rhs_free(rhs.ndim), *op.rhs_contracting)
    rows = prod([lhs.shape[axis] for axis in op.lhs_free(lhs.ndim)])
    columns = prod([rhs.shape[axis] for axis in op.rhs_free(rhs.ndim)])
    # Numbers of elements: [b, i, c] for this operand, [b, j, c] for the other operand, and [b, i, j] for the result.
    mine = (left.reshape(batch, rows, terms), right.reshape(batch, columns, terms))[position]
    theirs = (right.reshape(batch, columns, terms), left.reshape(batch, rows, terms))[position]
    results = _numbers((batch, rows, columns))
    if position:
        results = results.transpose(0, 2, 1)
    size, other = int(x.results[0].size), x.known[1 - position]
    if other is not None:
        b, j, c = np.nonzero(np.ravel(other)[theirs])
        if b.size < theirs.size and b.size * mine.shape[1] <= MAX_PAIRS:
            return (Matrix(np.ravel(results[b, :, j]), np.ravel(mine[b, :, c]), (size, mine.size)),)
    groups = batch * mine.shape[1]
    members = np.empty(mine.size, np.int64)
    members[np.ravel(mine)] = np.repeat(np.arange(groups), terms)
    index = np.empty(size, np.int64)
    index[np.ravel(results)] = np.repeat(np.arange(groups), results.shape[2])
    return (Groups(index, members, groups),)


def _convolution(op: co.Convolution, x: Operands, position: int) -> Relations:
    operand = _numbers(x.shape(0)) + 1
    operand = operand.transpose(op.input_batch, op.input_feature, *op.input_spatial)
    kernel = _numbers(x.shape(1)).transpose(
        op.kernel_output_feature, op.kernel_input_feature, *op.kernel_spatial
    )
    results = _numbers(tuple(x.results[0].shape))
    results = results.transpose(op.output_batch, op.output_feature, *op.output_spatial)
    windows, sizes = results.shape[2:], kernel.shape[2:]
    none = (0,) * 2
    pad = st.Pad(
        none + tuple([low for low, _ in op.padding]),
        none + tuple([high for _, high in op.padding]),
        none + tuple([n - 1 for n in op.lhs_dilation]),
    )
    (padded,) = run_kernel(pad, [operand, np.zeros((), np.int64)])
    outputs = kernel.shape[0]
    feature_groups, batch_groups = op.feature_group_count, op.batch_group_count
    group = np.arange(outputs) // (outputs // max(feature_groups, batch_groups))
    inputs = np.arange(kernel.shape[1])
    # Output feature o of batch element n reads the features `features[o, i]` of the batch element `batches[n, o]`.
    features = np.broadcast_to(inputs, (outputs, inputs.size))
    if feature_groups > 1:
        features = group[:, None] * inputs.size + inputs
    batches = np.broadcast_to(np.arange(results.shape[0])[:, None], results.shape[:2])
    if batch_groups > 1:
        batches = group * results.shape[0] + batches
    other = x.known[1 - position]
    rows: list[np.ndarray[Any, Any]] = []
    columns: list[np.ndarray[Any, Any]] = []
    for place in np.ndindex(*sizes):
        tap = tuple([
            size - 1 - k if flipped else k
            for k, size, flipped in zip(place, sizes, op.window_reversal, strict=True)
        ])  # fmt: skip
        window = tuple([
            slice(k * step, k * step + (n - 1) * stride + 1, stride) if n else slice(0)
            for k, step, n, stride in zip(place, op.rhs_dilation, windows, op.window_strides, strict=True)
        ])  # fmt: skip
        shifted = padded[(slice(None), slice(None), *window)]
        read = shifted[batches[:, :, None], features[None]]  # [n, o, i, windows]
        weights = kernel[(slice(None), slice(None), *tap)]  # [o, i]
        shape = read.shape
        weight = np.broadcast_to(weights.reshape(1, *weights.shape, *[1] * len(windows)), shape)
        where = np.broadcast_to(results[:, :, None], shape)
        used = read > 0
        if other is not None:
            values = np.ravel(other)
            used &= (values[read - 1] if position else values[weight]) != 0
        rows.append(where[used])
        columns.append((weight if position else read - 1)[used])
    if not rows:
        return (None,)
    size = int(x.results[0].size)
    return (Matrix(np.concatenate(rows), np.concatenate(columns), (size, x.types[position].size)),)


# ---- reads and writes at positions that are data ------------------------------------------------------


def _labels(shape: Sequence[int], free: Sequence[int]) -> tuple[np.ndarray[Any, Any], int]:
    """Number the elements so that elements that differ only in their position along `free` axes have the same number.

    Also return how many numbers there are.
    """
    kept = [1 if axis in free and n else n for axis, n in enumerate(shape)]
    return np.broadcast_to(_numbers(kept), shape), prod(kept)


def _gather(op: ix.GatherRule, x: Operands, position: int) -> Relations:
    if position:
        return (None,)
    if x.known[1] is not None:
        return moved(op, x, position)
    sizes = op.resolved("slice_sizes", (x.shape(0), x.shape(1)))
    free = [axis for axis in op.start_index_map if sizes[axis] != x.shape(0)[axis]]
    labels, count = _labels(x.shape(0), free)
    (read,) = run_kernel(op, [labels, np.zeros(x.shape(1), np.int64)])
    return (Groups(np.ravel(read), np.ravel(labels), count),)


def _scatter(op: ix.Scatter, x: Operands, position: int) -> Relations:
    operand, indices, updates = x.types
    if position == 1:
        return (None,)
    if op.combiner == "set" and x.known[1] is not None:
        return moved(op, x, position)
    if position == 0:
        return (SAME,)
    dropped = {*op.inserted_window_dims, *op.input_batching_dims}
    windows = iter(sorted(op.update_window_dims))
    sizes = tuple([
        1 if axis in dropped else updates.shape[next(windows)] for axis in range(operand.rank)
    ])  # fmt: skip
    gather = ix.Gather(
        tuple(sorted(op.update_window_dims)),
        op.inserted_window_dims,
        op.input_batching_dims,
        op.scatter_indices_batching_dims,
        op.scatter_dims_to_operand_dims,
        op.index_vector_dim,
        sizes,
    )
    if not updates.size or not operand.size:
        return (None,)
    # A gather with the same dimension numbers reads the element of the operand into which each update is written.
    reading = Operands((operand, indices), (None, x.known[1]), (updates,))
    (relation,) = _gather(gather, reading, 0)
    if isinstance(relation, Groups):
        return (Groups(relation.members, relation.index, relation.count),)  # pyright: ignore[reportArgumentType]  # because it has an index
    if not isinstance(relation, Moves):
        return (None,)
    fits = _windows_that_fit(op, x, sizes)
    return (Matrix(relation.index[fits], np.flatnonzero(fits), (operand.size, updates.size)),)


def _windows_that_fit(op: ix.Scatter, x: Operands, sizes: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return, for each update, whether its window is in bounds.

    A scatter ignores updates whose window is not in bounds.
    """
    starts: Any = x.known[1]
    if op.index_vector_dim == starts.ndim:
        starts = starts[..., None]
    starts = np.moveaxis(starts, op.index_vector_dim, -1).astype(np.int64)
    axes = list(op.scatter_dims_to_operand_dims)
    room = np.array([x.shape(0)[axis] - sizes[axis] for axis in axes], np.int64)
    fits = ((starts >= 0) & (starts <= room)).all(-1)
    fits = np.expand_dims(fits, tuple(sorted(op.update_window_dims)))
    return np.ravel(np.broadcast_to(fits, x.shape(2)))


def _dynamic_slice(op: ix.DynamicSlice, x: Operands, position: int) -> Relations:
    if position:
        return (None,)
    sizes = op.resolved("sizes", (x.shape(0),))
    free = [
        axis
        for axis, (size, n) in enumerate(zip(sizes, x.shape(0), strict=True))
        if size != n and x.known[1 + axis] is None
    ]
    labels, count = _labels(x.shape(0), free)
    (read,) = run_kernel(op, [labels, *_starts(x.known[1:])])
    return (Groups(np.ravel(read), np.ravel(labels), count),)


def _starts(known: Sequence[Any]) -> list[Any]:
    return [np.zeros((), np.int64) if start is None else start for start in known]


def _dynamic_update(op: ix.DynamicUpdateSlice, x: Operands, position: int) -> Relations:
    if position > 1:
        return (None,)
    shape, window = x.shape(0), x.shape(1)
    free = [
        axis
        for axis, (size, n) in enumerate(zip(window, shape, strict=True))
        if size != n and x.known[2 + axis] is None
    ]
    if not free:
        return moved(op, x, position)
    if position == 0:
        return (SAME,)
    labels, count = _labels(window, free)
    along = [shape[axis] if axis in free else n for axis, n in enumerate(window)]
    edge = labels[
        tuple([slice(0, 1) if axis in free else slice(None) for axis in range(len(shape))])
    ]
    everywhere = np.broadcast_to(edge, along) + 1
    written = ix.DynamicUpdateSlice(op.rank)
    (read,) = run_kernel(written, [np.zeros(shape, np.int64), everywhere, *_starts(x.known[2:])])
    groups = np.where(np.ravel(read) > 0, np.ravel(read) - 1, count)  # group `count` has no members
    return (Groups(groups, np.ravel(labels), count + 1),)


def _truncation(op: dy.DynamicTruncate, x: Operands, position: int) -> Relations:
    raise UnsupportedError(
        f"sparsity: {op} gives an extent that depends on the data, and a pattern needs fixed ones; mask with where"
    )


def independent_slices(
    types: Sequence[TensorSpec], result: TensorSpec, position: int, axes: int
) -> Relation:
    """Relate each slice of the result along the first `axes` axes to the operand's whole slice with the same index."""
    count = prod(result.shape[:axes])
    index = np.repeat(np.arange(count), result.size // count if count else 0)
    size = types[position].size
    return Groups(index, np.repeat(np.arange(count), size // count if count else 0), count)


READS: Column[Reads] = Column(
    "sparsity",
    "tenferro/sparsity/reads.py",
    set(STD_OPS) - set(cf.CARDS),
    dict.fromkeys(so.CARDS, nothing),
    {
        **dict.fromkeys(el.CARDS, same),
        el.Multiply: _product,
        el.Select: _selection,
        el.BitcastConvert: _bitcast,
    },
    dict.fromkeys(an.CARDS, same),
    dict.fromkeys(st.CARDS, moved),
    {
        re.ReduceSum: _reduction,
        re.ReduceProd: _reduction,
        re.ReduceMax: _reduction,
        re.ReduceMin: _reduction,
        re.ReduceAnd: nothing,
        re.ReduceOr: nothing,
        re.ArgMax: nothing,
        re.ArgMin: nothing,
        re.CumSum: _prefix,
        re.CumProd: _prefix,
        re.CumMax: _prefix,
        re.CumMin: _prefix,
        re.Sort: _sort,
        re.TopK: _top,
        co.DotGeneral: _dot,
        co.Convolution: _convolution,
        ix.Gather: _gather,
        ix.GatherDynamicSliceSizes: _gather,
        ix.Scatter: _scatter,
        ix.DynamicSlice: _dynamic_slice,
        ix.DynamicUpdateSlice: _dynamic_update,
        dy.DynamicTruncate: _truncation,
        dy.PadToMatch: moved,
    },
)
