"""Rules for dynamic slices and updates, gathers and scatters whose indices are constants."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tenferro.graph import SourceLine
from tenferro.ops.indexing import DynamicSlice, DynamicUpdateSlice, Gather, Scatter
from tenferro.ops.source import Constant
from tenferro.ops.structural import BroadcastInDim, Pad, Reshape, Reverse, Transpose
from tenferro.passes.clean_up import constant_elements, splat
from tenferro.passes.pieces.facts import (
    Shape,
    Span,
    are_static,
    is_zero,
    number_in,
    scalar_zero,
    shape_of,
    slice_of,
)
from tenferro.passes.pieces.sums import plus_zero
from tenferro.program.rewrite import Producers, Values

__all__ = [
    "dynamic_slice",
    "dynamic_update_slice",
    "gather_of_rows",
    "gather_of_window",
    "scatter_of_rows",
    "scatter_of_window",
    "window_of",
]

MAX_INDICES = 1 << 12
"""Maximum number of constant indices for which a gather or scatter is rewritten."""


def window_of(
    producers: Producers, x: int, starts: Sequence[int], sizes: Sequence[Any]
) -> list[Span] | None:
    """Return the spans of a window, moved inside x as the op does; None if a start is not a constant."""
    numbers = [splat(producers, start) for start in starts]
    if any([number is None for number in numbers]):
        return None
    return fitted(producers, x, list(map(int, numbers)), sizes)


def fitted(
    producers: Producers, x: int, starts: Sequence[int], sizes: Sequence[Any]
) -> list[Span] | None:
    """Return the spans of a window, moved inside x as the op does; None if an extent is symbolic."""
    shape = shape_of(producers, x)
    if shape is None or not are_static(sizes):
        return None
    return [
        Span(min(max(start, 0), extent - size), size)
        for start, extent, size in zip(starts, shape, sizes, strict=True)
    ]


def dynamic_slice(
    producers: Producers, op: DynamicSlice, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Rewrite a dynamic slice with constant starts as a slice."""
    x, *starts = inputs
    spans = window_of(producers, x, starts, op.sizes)
    return None if spans is None else (slice_of(producers, x, spans, source),)


def dynamic_update_slice(
    producers: Producers, op: DynamicUpdateSlice, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Simplify a dynamic update whose starts are constants.

    If it replaces the whole operand, the result is `update`. If the operand is a broadcast scalar, the result is a pad
    of `update`. If the operand is an update of the same window, that earlier update is removed.
    """
    x, update, *starts = inputs
    spans = window_of(producers, x, starts, producers.types[update].shape)
    if spans is None:
        return None
    shape = producers.types[x].shape
    if producers.types[update].shape == shape:
        return (update,)
    fill = number_in(producers, x, source)
    if fill is not None:
        low = tuple([s.start for s in spans])
        high = tuple([extent - s.limit for s, extent in zip(spans, shape, strict=True)])
        return producers.apply(Pad(low, high, (0,) * len(low)), (update, fill), source)
    inner = producers.of(x, DynamicUpdateSlice)
    if inner is None or inner.inputs[2:] != tuple(starts):
        return None
    if producers.types[inner.inputs[1]] != producers.types[update]:
        return None
    return producers.apply(op, (inner.inputs[0], update, *starts), source)


def gather_of_window(
    producers: Producers, op: Gather, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Rewrite a gather of one window at constant indices as a slice."""
    x, indices = inputs
    spec = producers.types[indices]
    if op.index_vector_dim or spec.rank > 1 or op.operand_batching_dims:
        return None
    numbers = constant_elements(producers, indices, MAX_INDICES)
    if numbers is None:
        return None
    starts = dict(zip(op.start_index_map, numbers.ravel().tolist(), strict=True))
    firsts = [starts.get(axis, 0) for axis in range(producers.types[x].rank)]
    spans = fitted(producers, x, firsts, op.slice_sizes)
    if spans is None:
        return None
    window = slice_of(producers, x, spans, source)
    if not op.collapsed_slice_dims:
        return (window,)
    extents = [s.length for axis, s in enumerate(spans) if axis not in op.collapsed_slice_dims]
    return producers.apply(Reshape(tuple(extents)), (window,), source)


class Rows(NamedTuple):
    """Slices along one axis of a tensor, called rows, which are gathered or scattered at a constant vector of indices.

    Attributes:
        axis: the axis of the tensor along which the rows are selected.
        position: the axis of the gathered tensor along which the rows are stacked.
        indices: the positions of the rows along `axis`.
    """

    axis: int
    position: int
    indices: list[int]

    @property
    def step(self) -> int | None:
        """The difference of adjacent indices if all differences are equal; otherwise None."""
        steps = {b - a for a, b in pairwise(self.indices)}
        return steps.pop() if len(steps) == 1 else None

    def perm(self, rank: int, inverse: bool = False) -> tuple[int, ...]:
        """Return the permutation from the axes of the tensor to the axes of the gathered rows, or its inverse."""
        axes = [axis for axis in range(rank) if axis != (self.position if inverse else self.axis)]
        axes.insert(*(self.axis, self.position) if inverse else (self.position, self.axis))
        return tuple(axes)


def rows_of(
    producers: Producers,
    indices: int,
    vector_axis: int,
    dropped: Shape,
    axes: Shape,
    batching: Shape,
    windows: Shape,
    rank: int,
) -> Rows | None:
    """Return the rows that a gather or scatter accesses; None unless they are whole slices at constant indices."""
    spec = producers.types[indices]
    if len(axes) != 1 or dropped != axes or batching or len(windows) != rank - 1:
        return None
    if spec.rank - (vector_axis < spec.rank) != 1:
        return None
    numbers = constant_elements(producers, indices, MAX_INDICES)
    if numbers is None or numbers.size < 2:
        return None
    (position,) = set(range(rank)) - set(windows)
    return Rows(axes[0], position, numbers.ravel().tolist())


def transposed(
    producers: Producers, x: int, perm: tuple[int, ...], source: SourceLine | None
) -> int:
    """Emit a transpose of x; return x itself if `perm` is the identity."""
    if perm == tuple(range(len(perm))):
        return x
    return producers.apply(Transpose(perm), (x,), source)[0]


def gather_of_rows(
    producers: Producers, op: Gather, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Replace a gather of equidistant rows by a slice with a stride, a reversed slice, or a broadcast."""
    x, indices = inputs
    shape = shape_of(producers, x)
    if shape is None or not are_static(op.slice_sizes):
        return None
    rows = rows_of(
        producers, indices, op.index_vector_dim, op.collapsed_slice_dims, op.start_index_map,
        op.operand_batching_dims, op.offset_dims, len(shape),
    )  # fmt: skip
    whole = [size == (1 if axis in op.collapsed_slice_dims else shape[axis])
             for axis, size in enumerate(op.slice_sizes)]  # fmt: skip
    if rows is None or not all(whole):
        return None
    last = shape[rows.axis] - 1
    rows = rows._replace(indices=[min(max(index, 0), last) for index in rows.indices])
    if rows.step is None:
        return None
    spans = [Span(0, extent) for extent in shape]
    count, first, step = len(rows.indices), min(rows.indices), abs(rows.step)
    spans[rows.axis] = Span(first, count, step) if step else Span(first, 1)
    part = slice_of(producers, x, spans, source)
    if rows.step < 0:
        (part,) = producers.apply(Reverse((rows.axis,)), (part,), source)
    if not step:
        repeat = tuple([count if axis == rows.axis else n for axis, n in enumerate(shape)])
        (part,) = producers.apply(BroadcastInDim(repeat, tuple(range(len(shape)))), (part,), source)
    return (transposed(producers, part, rows.perm(len(shape)), source),)


def scatter_of_rows(
    producers: Producers, op: Scatter, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Replace a scatter that adds equidistant rows to zeros by a pad with interior padding, reversed if necessary."""
    x, indices, updates = inputs
    shape, written = shape_of(producers, x), shape_of(producers, updates)
    if op.combiner != "add" or shape is None or written is None or not is_zero(producers, x):
        return None
    rows = rows_of(
        producers, indices, op.index_vector_dim, op.inserted_window_dims,
        op.scatter_dims_to_operand_dims, op.input_batching_dims, op.update_window_dims, len(shape),
    )  # fmt: skip
    if rows is None or not rows.step or not prod(written):
        return None
    if min(rows.indices) < 0 or max(rows.indices) >= shape[rows.axis]:
        return None
    whole = [extent for axis, extent in enumerate(shape) if axis != rows.axis]
    if [written[axis] for axis in sorted(op.update_window_dims)] != whole:
        return None
    part = transposed(producers, updates, rows.perm(len(shape), inverse=True), source)
    if rows.step < 0:
        (part,) = producers.apply(Reverse((rows.axis,)), (part,), source)
    low, high, interior = ([0] * len(shape) for _ in range(3))
    low[rows.axis] = min(rows.indices)
    high[rows.axis] = shape[rows.axis] - 1 - max(rows.indices)
    interior[rows.axis] = abs(rows.step) - 1
    fill = scalar_zero(producers, x, source)
    (y,) = producers.apply(Pad(tuple(low), tuple(high), tuple(interior)), (part, fill), source)
    return (plus_zero(producers, y, source),)


def scatter_of_window(
    producers: Producers, op: Scatter, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Replace a scatter that sets one window at constant indices by a dynamic update.

    A scatter whose window is out of bounds is removed, because it writes nothing.
    """
    x, indices, updates = inputs
    spec, shape, written = (
        producers.types[indices],
        shape_of(producers, x),
        shape_of(producers, updates),
    )
    if op.combiner != "set" or op.index_vector_dim or spec.rank > 1 or op.input_batching_dims:
        return None
    numbers = constant_elements(producers, indices, MAX_INDICES)
    if numbers is None or shape is None or written is None:
        return None
    starts = dict(zip(op.scatter_dims_to_operand_dims, numbers.ravel().tolist(), strict=True))
    extents = iter(written)
    sizes = [1 if axis in op.inserted_window_dims else next(extents) for axis in range(len(shape))]
    for axis, start in starts.items():
        if not 0 <= start <= shape[axis] - sizes[axis]:
            return (x,)
    if op.inserted_window_dims:
        (updates,) = producers.apply(Reshape(tuple(sizes)), (updates,), source)
    firsts = [
        producers.apply(Constant.of(np.asarray(starts.get(axis, 0), np.int64)), (), source)[0]
        for axis in range(len(shape))
    ]
    return producers.apply(DynamicUpdateSlice(len(shape)), (x, updates, *firsts), source)
