"""Pieces put back together: the result is the same bit for bit, with fewer copies.

Derivatives of slices are pads, those of pads slices, and cotangents of one tensor are added: the gradient of a
stencil is a sum of pads, one per neighbour. Here what moves elements reads them from where they come from, pads of one
operand are slices of a wide one, and pads that do not overlap are a concatenation.

A sum of pads has +0.0 where only one of them lies, and x + 0.0 is x but for -0.0, which it turns into 0.0.
So the sum of pieces is their concatenation plus 0.0, which is one operation by elements for any number of pieces:
(x + 0.0) + y is (x + y) + 0.0, because a sum is -0.0 only where all of its terms are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tenferro.dims import is_static
from tenferro.graph import SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops.elementwise import Add
from tenferro.ops.indexing import DynamicSlice, DynamicUpdateSlice, Gather, Scatter
from tenferro.ops.source import Constant
from tenferro.ops.structural import (
    BroadcastInDim,
    Concatenate,
    Pad,
    Reshape,
    Reverse,
    Slice,
    Transpose,
)
from tenferro.passes.clean_up import elements_of, filled, first_of, is_splat_of, splat
from tenferro.program import GraphProgram
from tenferro.program.rewrite import Producers, Rule, Values, emit_again, rewrite

__all__ = ["join_pieces"]

Shape = tuple[int, ...]

MOST_INDICES = 1 << 12
"""Constant indices that are looked at."""


def join_pieces(program: GraphProgram) -> GraphProgram:
    """The program with data movement joined: pads of one operand become slices of a wide one."""
    return widen_pads(rewrite(program, RULES))


# ---- facts -----------------------------------------------------------------------------------------


def shape_of(producers: Producers, value: int) -> Shape | None:
    """The extents of a value; None where one is not a number."""
    spec = producers.types[value]
    return spec.shape if spec.is_static else None


def are_static(*bounds: Sequence[Any]) -> bool:
    """Whether bounds are numbers."""
    return all([is_static(bound) for side in bounds for bound in side])


class Span(NamedTuple):
    """Positions start, start + stride, .. along an axis, `length` of them."""

    start: int
    length: int
    stride: int = 1

    @property
    def last(self) -> int:
        """The last position."""
        return self.start + (self.length - 1) * self.stride

    @property
    def limit(self) -> int:
        """One past the last position."""
        return self.last + 1 if self.length else self.start

    def through(self, inner: Span) -> Span:
        """These positions of those of `inner`."""
        start = inner.start + self.start * inner.stride if self.length else inner.start
        return Span(start, self.length, self.stride * inner.stride)


def spans_of(producers: Producers, op: Slice, x: int) -> list[Span] | None:
    """The span of a slice along each axis; None where an extent is unknown."""
    if shape_of(producers, x) is None or not are_static(op.starts, op.limits):
        return None
    return [
        Span(start, -(-(limit - start) // stride), stride)
        for start, limit, stride in zip(op.starts, op.limits, op.strides, strict=True)
    ]


def slice_of(producers: Producers, x: int, spans: Sequence[Span], source: SourceLine | None) -> int:
    """The slice of x; x itself where it is all of it."""
    if producers.types[x].shape == tuple([s.length for s in spans]):
        return x
    # The stride of a single element is free: 1 is the name of it.
    strides = tuple([s.stride if s.length > 1 else 1 for s in spans])
    op = Slice(tuple([s.start for s in spans]), tuple([s.limit for s in spans]), strides)
    return producers.apply(op, (x,), source)[0]


def repeated(producers: Producers, scalar: int, shape: Shape, source: SourceLine | None) -> int:
    """A scalar in every place of a shape."""
    return producers.apply(BroadcastInDim(shape, ()), (scalar,), source)[0] if shape else scalar


def scalar_of(producers: Producers, value: int) -> int | None:
    """The scalar that `value` repeats."""
    node = producers.of(value, BroadcastInDim)
    if node is None or producers.types[node.inputs[0]].rank:
        return None
    return node.inputs[0]


def number_in(producers: Producers, value: int, source: SourceLine | None) -> int | None:
    """The scalar that every element of `value` is, as a value; None where they may differ."""
    scalar, number = scalar_of(producers, value), splat(producers, value)
    if scalar is not None or number is None:
        return scalar
    return producers.apply(Constant.of(np.asarray(number)), (), source)[0]


def is_zero(producers: Producers, value: int) -> bool:
    """Whether a value is +0 everywhere."""
    return is_splat_of(producers, value, 0)


def zero_beside(producers: Producers, x: int, source: SourceLine | None) -> int:
    """The scalar zero of x's dtype."""
    return producers.apply(Constant.of(np.zeros((), producers.types[x].dtype.dtype)), (), source)[0]


# ---- slices ----------------------------------------------------------------------------------------


def slice_of_slice(
    producers: Producers, op: Slice, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Positions of positions."""
    inner = producers.of(inputs[0], Slice)
    outer_spans = spans_of(producers, op, inputs[0])
    if inner is None or outer_spans is None:
        return None
    inner_spans = spans_of(producers, inner.op, inner.inputs[0])  # type: ignore[arg-type]
    if inner_spans is None:
        return None
    spans = [s.through(i) for s, i in zip(outer_spans, inner_spans, strict=True)]
    return (slice_of(producers, inner.inputs[0], spans, source),)


def slice_of_pad(
    producers: Producers, op: Slice, inputs: Values, source: SourceLine | None
) -> Values | None:
    """The part inside of the operand is a slice of it, the part outside repeats the padding value."""
    node, spans = producers.of(inputs[0], Pad), spans_of(producers, op, inputs[0])
    if node is None or spans is None:
        return None
    x, fill = node.inputs
    pad: Any = node.op
    shape = shape_of(producers, x)
    if shape is None or not are_static(pad.low):
        return None
    inside: list[Span | None] = []
    for span, low, interior, extent in zip(spans, pad.low, pad.interior, shape, strict=True):
        if not span.length:
            return None
        step = interior + 1
        start, last, stride = span.start - low, span.last - low, span.stride
        if last < 0 or start > (extent - 1) * step or (stride % step == 0 and start % step):
            return (repeated(producers, fill, tuple([s.length for s in spans]), source),)
        within = start >= 0 and last <= (extent - 1) * step
        aligned = start % step == 0 and (span.length == 1 or stride % step == 0)
        inside.append(
            Span(start // step, span.length, max(stride // step, 1)) if within and aligned else None
        )
    if None in inside:
        return None
    return (slice_of(producers, x, [s for s in inside if s is not None], source),)


def slice_of_concatenation(
    producers: Producers, op: Slice, inputs: Values, source: SourceLine | None
) -> Values | None:
    """A window inside of one part is a slice of that part."""
    node, spans = producers.of(inputs[0], Concatenate), spans_of(producers, op, inputs[0])
    if node is None or spans is None:
        return None
    axis: int = node.op.axis  # type: ignore[attr-defined]
    span, start = spans[axis], 0
    for part in node.inputs:
        end = start + producers.types[part].shape[axis]
        if span.length and start <= span.start and span.last < end:
            spans[axis] = span._replace(start=span.start - start)
            return (slice_of(producers, part, spans, source),)
        start = end
    return None


def slice_of_repeated(
    producers: Producers, op: Slice, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Along axes that repeat the operand, it is repeated less often."""
    node, spans = producers.of(inputs[0], BroadcastInDim), spans_of(producers, op, inputs[0])
    if node is None or spans is None:
        return None
    x, repeat = node.inputs[0], node.op
    dims: Shape = repeat.dims  # type: ignore[attr-defined]
    places = dict(zip(dims, producers.types[x].shape, strict=True))
    before = producers.types[inputs[0]].shape
    for axis, (span, extent) in enumerate(zip(spans, before, strict=True)):
        if span.length != extent and places.get(axis, 1) != 1:
            return None
    return producers.apply(BroadcastInDim(tuple([s.length for s in spans]), dims), (x,), source)


def slice_of_update(
    producers: Producers, op: Slice, inputs: Values, source: SourceLine | None
) -> Values | None:
    """The part inside of the window is a slice of the update, the part outside one of the operand."""
    node, spans = producers.of(inputs[0], DynamicUpdateSlice), spans_of(producers, op, inputs[0])
    if node is None or spans is None or not all([s.length for s in spans]):
        return None
    x, update, *starts = node.inputs
    window = window_of(producers, x, starts, producers.types[update].shape)
    if window is None:
        return None
    inside = True
    for span, box in zip(spans, window, strict=True):
        if span.last < box.start or span.start >= box.limit:
            return (slice_of(producers, x, spans, source),)
        inside = inside and box.start <= span.start and span.last < box.limit
    if not inside:
        return None
    moved = [s._replace(start=s.start - box.start) for s, box in zip(spans, window, strict=True)]
    return (slice_of(producers, update, moved, source),)


# ---- windows at constant places ----------------------------------------------------------------------


def window_of(
    producers: Producers, x: int, starts: Sequence[int], sizes: Sequence[Any]
) -> list[Span] | None:
    """The position of a window with constant starts, clamped to where it fits."""
    numbers = [splat(producers, start) for start in starts]
    if any([number is None for number in numbers]):
        return None
    return fitted(producers, x, list(map(int, numbers)), sizes)


def fitted(
    producers: Producers, x: int, starts: Sequence[int], sizes: Sequence[Any]
) -> list[Span] | None:
    """A window of x, moved to where it fits."""
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
    """At a constant place it is a slice."""
    x, *starts = inputs
    spans = window_of(producers, x, starts, op.sizes)
    return None if spans is None else (slice_of(producers, x, spans, source),)


def dynamic_update_slice(
    producers: Producers, op: DynamicUpdateSlice, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Over all of the operand it is the update; over a repeated scalar, a pad of the update; over an update of
    the same window, that is not needed.
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
    """One window at a constant place is a slice."""
    x, indices = inputs
    spec = producers.types[indices]
    if op.index_vector_dim or spec.rank > 1 or op.operand_batching_dims:
        return None
    numbers = elements_of(producers, indices, MOST_INDICES)
    if numbers is None:
        return None
    starts = dict(zip(op.start_index_map, numbers.reshape(-1).tolist(), strict=True))
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
    """Slices along one axis of a tensor, taken or written in the order of a constant vector.

    Attributes:
        axis: of the tensor.
        place: of the axis of the taken slices.
        numbers: which slices, as many as `places`.
    """

    axis: int
    place: int
    numbers: list[int]

    @property
    def step(self) -> int | None:
        """The difference of all neighbours; None where there is none."""
        steps = {b - a for a, b in pairwise(self.numbers)}
        return steps.pop() if len(steps) == 1 else None

    def perm(self, rank: int, inverse: bool = False) -> tuple[int, ...]:
        """From the tensor's order of axes to that of the taken slices."""
        axes = [axis for axis in range(rank) if axis != (self.place if inverse else self.axis)]
        axes.insert(*(self.axis, self.place) if inverse else (self.place, self.axis))
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
    """The slices that a gather or a scatter of whole ones names by a constant vector."""
    spec = producers.types[indices]
    if len(axes) != 1 or dropped != axes or batching or len(windows) != rank - 1:
        return None
    if spec.rank - (vector_axis < spec.rank) != 1:
        return None
    numbers = elements_of(producers, indices, MOST_INDICES)
    if numbers is None or numbers.size < 2:
        return None
    (position,) = set(range(rank)) - set(windows)
    return Rows(axes[0], position, numbers.reshape(-1).tolist())


def turned(producers: Producers, x: int, perm: tuple[int, ...], source: SourceLine | None) -> int:
    """The transpose, x itself where axes stay in order."""
    if perm == tuple(range(len(perm))):
        return x
    return producers.apply(Transpose(perm), (x,), source)[0]


def gather_of_rows(
    producers: Producers, op: Gather, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Slices at constant distances are one slice with a stride, or reversed, or repeated."""
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
    rows = rows._replace(numbers=[min(max(number, 0), last) for number in rows.numbers])
    if rows.step is None:
        return None
    spans = [Span(0, extent) for extent in shape]
    count, first, step = len(rows.numbers), min(rows.numbers), abs(rows.step)
    spans[rows.axis] = Span(first, count, step) if step else Span(first, 1)
    part = slice_of(producers, x, spans, source)
    if rows.step < 0:
        (part,) = producers.apply(Reverse((rows.axis,)), (part,), source)
    if not step:
        repeat = tuple([count if axis == rows.axis else n for axis, n in enumerate(shape)])
        (part,) = producers.apply(BroadcastInDim(repeat, tuple(range(len(shape)))), (part,), source)
    return (turned(producers, part, rows.perm(len(shape)), source),)


def scatter_of_rows(
    producers: Producers, op: Scatter, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Added into zeros at constant distances, slices are a pad with an interior, or a reversed one."""
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
    if min(rows.numbers) < 0 or max(rows.numbers) >= shape[rows.axis]:
        return None
    whole = [extent for axis, extent in enumerate(shape) if axis != rows.axis]
    if [written[axis] for axis in sorted(op.update_window_dims)] != whole:
        return None
    part = turned(producers, updates, rows.perm(len(shape), inverse=True), source)
    if rows.step < 0:
        (part,) = producers.apply(Reverse((rows.axis,)), (part,), source)
    low, high, interior = ([0] * len(shape) for _ in range(3))
    low[rows.axis] = min(rows.numbers)
    high[rows.axis] = shape[rows.axis] - 1 - max(rows.numbers)
    interior[rows.axis] = abs(rows.step) - 1
    fill = zero_beside(producers, x, source)
    (y,) = producers.apply(Pad(tuple(low), tuple(high), tuple(interior)), (part, fill), source)
    return (plus_zero(producers, y, source),)


def scatter_of_window(
    producers: Producers, op: Scatter, inputs: Values, source: SourceLine | None
) -> Values | None:
    """One window that is set at a constant place is a dynamic update of a slice; one that does not fit is none."""
    x, indices, updates = inputs
    spec, shape, written = (
        producers.types[indices],
        shape_of(producers, x),
        shape_of(producers, updates),
    )
    if op.combiner != "set" or op.index_vector_dim or spec.rank > 1 or op.input_batching_dims:
        return None
    numbers = elements_of(producers, indices, MOST_INDICES)
    if numbers is None or shape is None or written is None:
        return None
    starts = dict(zip(op.scatter_dims_to_operand_dims, numbers.reshape(-1).tolist(), strict=True))
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


# ---- pads and concatenations -------------------------------------------------------------------------


def pad(producers: Producers, op: Pad, inputs: Values, source: SourceLine | None) -> Values | None:
    """No edge is none, cut edges alone are a slice; a pad of a pad is one, and one of its own value repeats that."""
    x, fill = inputs
    shape = shape_of(producers, x)
    if shape is None or not are_static(op.low, op.high):
        return None
    plain = not any(op.interior)
    if plain and max((*op.low, *op.high), default=0) <= 0:
        spans = [
            Span(-low, extent + low + high)
            for low, high, extent in zip(op.low, op.high, shape, strict=True)
        ]
        fits = all([span.start <= extent for span, extent in zip(spans, shape, strict=True)])
        return (slice_of(producers, x, spans, source),) if fits else None
    (spec,) = op.infer(*[producers.types[value] for value in inputs])
    number = splat(producers, fill)
    if not prod(shape) or (number is not None and is_splat_of(producers, x, number)):
        return (repeated(producers, fill, spec.shape, source),)
    inner: Any = producers.of(x, Pad)
    if inner is None or not plain or any(inner.op.interior) or inner.inputs[1] != fill:
        return None
    edges = [*zip(inner.op.low, op.low, strict=True), *zip(inner.op.high, op.high, strict=True)]
    if not are_static(inner.op.low, inner.op.high):
        return None
    if any([first < 0 < second for first, second in edges]):
        return None
    sums = [first + second for first, second in edges]
    rank = len(shape)
    joined = Pad(tuple(sums[:rank]), tuple(sums[rank:]), (0,) * rank)
    return producers.apply(joined, (inner.inputs[0], fill), source)


def concatenate(
    producers: Producers, op: Concatenate, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Parts of parts are parts, empty ones are none, neighbours in one operand are one slice of it."""
    if any([shape_of(producers, x) is None for x in inputs]):
        return None
    parts: list[int] = []
    for x in inputs:
        inner: Any = producers.of(x, Concatenate)
        nested = inner.inputs if inner is not None and inner.op.axis == op.axis else (x,)
        for part in nested:
            if not producers.types[part].shape[op.axis]:
                continue
            joined = _neighbours(producers, op.axis, parts[-1], part, source) if parts else None
            if joined is None:
                parts.append(part)
            else:
                parts[-1] = joined
    if tuple(parts) == inputs and len(parts) > 1:
        return None
    if not parts:
        return (inputs[0],)
    if len(parts) == 1:
        return (parts[0],)
    return producers.apply(Concatenate(op.axis, len(parts)), tuple(parts), source)


def _neighbours(
    producers: Producers, axis: int, first: int, second: int, source: SourceLine | None
) -> int | None:
    """Two parts as one: slices that follow each other, or one scalar repeated."""
    shapes = [producers.types[x].shape for x in (first, second)]
    scalar = scalar_of(producers, first)
    if scalar is not None and scalar == scalar_of(producers, second):
        extents = list(shapes[0])
        extents[axis] += shapes[1][axis]
        return repeated(producers, scalar, tuple(extents), source)
    nodes = [producers.of(x, Slice) for x in (first, second)]
    if nodes[0] is None or nodes[1] is None or nodes[0].inputs != nodes[1].inputs:
        return None
    x = nodes[0].inputs[0]
    spans = [spans_of(producers, node.op, x) for node in nodes if node is not None]  # type: ignore[arg-type]
    if spans[0] is None or spans[1] is None:
        return None
    a, b = spans[0][axis], spans[1][axis]
    rest = [s for i, s in enumerate(spans[0]) if i != axis]
    if rest != [s for i, s in enumerate(spans[1]) if i != axis]:
        return None
    if a.stride != 1 or b.stride != 1 or a.limit != b.start:
        return None
    spans[0][axis] = Span(a.start, a.length + b.length)
    return slice_of(producers, x, spans[0], source)


# ---- sums of pieces ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pieces:
    """A tensor that is zero but for some boxes along an axis.

    Attributes:
        boxes: values and where they start, in order.
    """

    axis: int
    extent: int
    boxes: tuple[tuple[int, int], ...]


def pieces_of(producers: Producers, value: int) -> Pieces | None:
    """The pieces of a pad with +0 along one axis, or of a concatenation with zeros."""
    shape = shape_of(producers, value)
    if shape is None:
        return None
    node: Any = producers.of(value, Pad)
    if node is not None:
        low, high = node.op.low, node.op.high
        if any(node.op.interior) or not are_static(low, high) or min(*low, *high) < 0:
            return None
        padded = [axis for axis, edges in enumerate(zip(low, high, strict=True)) if any(edges)]
        if len(padded) != 1 or not is_zero(producers, node.inputs[1]):
            return None
        (axis,) = padded
        return Pieces(axis, shape[axis], ((node.inputs[0], low[axis]),))
    node = producers.of(value, Concatenate)
    if node is None:
        return None
    boxes: list[tuple[int, int]] = []
    start = 0
    for part in node.inputs:
        if not is_zero(producers, part):
            boxes.append((part, start))
        start += producers.types[part].shape[node.op.axis]
    if len(boxes) == len(node.inputs):
        return None
    return Pieces(node.op.axis, start, tuple(boxes))


def sum_of_pieces(
    producers: Producers, op: Add, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Boxes that do not overlap are a concatenation, plus 0.0."""
    first, second = (pieces_of(producers, value) for value in inputs)
    if first is None or second is None or first.axis != second.axis:
        return None
    axis, shape = first.axis, producers.types[inputs[0]].shape
    boxes = sorted([*first.boxes, *second.boxes], key=lambda box: box[1])
    parts: list[int] = []
    position = 0

    def zeros_until(end: int) -> None:
        if end > position:
            extents = tuple([end - position if i == axis else n for i, n in enumerate(shape)])
            parts.append(
                repeated(producers, zero_beside(producers, inputs[0], source), extents, source)
            )

    if any([
        start + producers.types[value].shape[axis] > after
        for (value, start), (_, after) in pairwise(boxes)
    ]):  # fmt: skip
        return None
    for value, start in boxes:
        zeros_until(start)
        parts.append(value)
        position = start + producers.types[value].shape[axis]
    zeros_until(first.extent)
    joined = concatenate(producers, Concatenate(axis, len(parts)), tuple(parts), source)
    if joined is None:
        joined = producers.apply(Concatenate(axis, len(parts)), tuple(parts), source)
    return (plus_zero(producers, joined[0], source),)


def sum_of_pieces_in_turn(
    producers: Producers, op: Add, inputs: Values, source: SourceLine | None
) -> Values | None:
    """(x + a) + b with boxes that do not overlap is x and their concatenation, plus 0.0."""
    for total, second in (inputs, inputs[::-1]):
        node = producers.of(total, Add)
        if node is None:
            continue
        for x, first in (node.inputs, node.inputs[::-1]):
            joined = sum_of_pieces(producers, op, (first, second), source)
            if joined is None:
                continue
            pieces = without_zero(producers, joined[0])
            (y,) = producers.apply(op, (x, joined[0] if pieces is None else pieces), source)
            return (plus_zero(producers, y, source),)
    return None


def sum_of_equal_pads(
    producers: Producers, op: Add, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Pads with +0 by the same edges are the pad of the sum."""
    first, second = (producers.of(value, Pad) for value in inputs)
    if first is None or second is None or first.op != second.op:
        return None
    if producers.types[first.inputs[0]] != producers.types[second.inputs[0]]:
        return None
    fill = first.inputs[1]
    if fill != second.inputs[1] or not is_zero(producers, fill):
        return None
    (total,) = producers.apply(op, (first.inputs[0], second.inputs[0]), source)
    return producers.apply(first.op, (total, fill), source)


def plus_zero(producers: Producers, x: int, source: SourceLine | None) -> int:
    """x + 0.0, which is x where it is an integer, or a sum with zero already."""
    spec = producers.types[x]
    if not spec.dtype.is_inexact or without_zero(producers, x) is not None:
        return x
    (zeros,) = filled(producers, np.zeros((), spec.dtype.dtype), x, source)
    return producers.apply(Add(), (x, zeros), source)[0]


def without_zero(producers: Producers, value: int) -> int | None:
    """The x of x + 0.0."""
    node = producers.of(value, Add)
    if node is None or not producers.types[value].dtype.is_inexact:
        return None
    return next(
        (x for x, term in (node.inputs, node.inputs[::-1]) if is_zero(producers, term)), None
    )


SUM = first_of(sum_of_equal_pads, sum_of_pieces, sum_of_pieces_in_turn)


def sum_with_zero(
    producers: Producers, op: Add, inputs: Values, source: SourceLine | None
) -> Values | None:
    """(x + 0.0) + y is (x + y) + 0.0, and x + 0.0 + 0.0 is x + 0.0."""
    bare = [without_zero(producers, value) for value in inputs]
    if bare == [None, None]:
        return None
    for value, term, x in ((*inputs, bare[0]), (*inputs[::-1], bare[1])):
        if x is not None and is_zero(producers, term):
            return (value,)
    terms = tuple([x if x is not None else y for x, y in zip(bare, inputs, strict=True)])
    total = SUM(producers, op, terms, source)
    if total is None:
        total = producers.apply(op, terms, source)
    return (plus_zero(producers, total[0], source),)


ONCE: Mapping[type[StdTensorOp], Rule] = {
    Slice: first_of(
        slice_of_slice, slice_of_pad, slice_of_concatenation, slice_of_repeated, slice_of_update
    ),
    DynamicSlice: dynamic_slice,
    DynamicUpdateSlice: dynamic_update_slice,
    Gather: first_of(gather_of_window, gather_of_rows),
    Scatter: first_of(scatter_of_window, scatter_of_rows),
    Pad: pad,
    Concatenate: concatenate,
    Add: first_of(sum_with_zero, SUM),
}


def to_the_end(
    producers: Producers, op: StdTensorOp, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Apply the rules of a card, and those of its result: a slice of a slice may be one of a pad."""
    outputs = ONCE[type(op)](producers, op, inputs, source)
    after = outputs
    while after is not None:
        outputs = after
        node = producers.maker(outputs[0])
        rule = None if node is None else ONCE.get(type(node.op))
        after = (
            None if node is None or rule is None else rule(producers, node.op, node.inputs, source)
        )
        if after == outputs:
            break
    return outputs


RULES: Mapping[type[StdTensorOp], Rule] = dict.fromkeys(ONCE, to_the_end)


# ---- wide pads ---------------------------------------------------------------------------------------


def widen_pads(program: GraphProgram) -> GraphProgram:
    """The program with pads of one operand as slices of one that is as wide as the widest of them.

    Only where that has fewer elements than they have together.
    """
    groups: defaultdict[Values, list[Pad]] = defaultdict(list)
    for op, inputs, _, _, _ in program.instructions:
        if isinstance(op, Pad) and _only_grows(op) and program.types[inputs[0]].is_static:
            groups[inputs].append(op)
    widest = {
        inputs: wide
        for inputs, pads in groups.items()
        if len(pads) > 1 and (wide := _widest(pads, program.types[inputs[0]].shape)) is not None
    }
    if not widest:
        return program
    wides: Iterator[Pad | None] = iter([
        widest.get(inputs) if isinstance(op, Pad) and _only_grows(op) else None
        for op, inputs, _, _, _ in program.instructions
    ])  # fmt: skip
    return emit_again(program, partial(_narrowed, wides))


def _only_grows(op: Pad) -> bool:
    return (
        bool(op.low)
        and are_static(op.low, op.high)
        and min(*op.low, *op.high) >= 0
        and not any(op.interior)
    )


def _widest(pads: Sequence[Pad], shape: Shape) -> Pad | None:
    """The pad that all of these are slices of; None where they are smaller together."""
    low = tuple([max(edges) for edges in zip(*[op.low for op in pads], strict=True)])
    high = tuple([max(edges) for edges in zip(*[op.high for op in pads], strict=True)])

    def size(low: Shape, high: Shape) -> int:
        return prod([a + n + b for a, n, b in zip(low, shape, high, strict=True)])

    if size(low, high) >= sum([size(op.low, op.high) for op in pads]):
        return None
    return Pad(low, high, (0,) * len(low))


def _narrowed(
    wides: Iterator[Pad | None],
    producers: Producers,
    op: StdTensorOp,
    inputs: Values,
    source: SourceLine | None,
) -> Values | None:
    """The pad as a slice of the wide one."""
    wide = next(wides)
    if wide is None or not isinstance(op, Pad):
        return None
    (padded,) = producers.apply(wide, inputs, source)
    shape = producers.types[inputs[0]].shape
    spans = [
        Span(most - low, low + extent + high)
        for most, low, extent, high in zip(wide.low, op.low, shape, op.high, strict=True)
    ]
    return (slice_of(producers, padded, spans, source),)
