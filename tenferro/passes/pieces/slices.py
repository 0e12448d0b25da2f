"""Rules for slices of slices, pads, concatenations, broadcasts and updates."""

from __future__ import annotations

from typing import Any

from tenferro.graph import SourceLine
from tenferro.ops.indexing import DynamicUpdateSlice
from tenferro.ops.structural import BroadcastInDim, Concatenate, Pad, Slice
from tenferro.passes.pieces.facts import (
    Shape,
    Span,
    are_static,
    repeated,
    shape_of,
    slice_of,
    spans_of,
)
from tenferro.passes.pieces.windows import window_of
from tenferro.program.rewrite import Producers, Values

__all__ = [
    "slice_of_concatenation",
    "slice_of_pad",
    "slice_of_repeated",
    "slice_of_slice",
    "slice_of_update",
]


def slice_of_slice(
    producers: Producers, op: Slice, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Replace a slice of a slice by one slice."""
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
    """Rewrite a slice of a pad as a slice of the operand, or as a broadcast of the padding value."""
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
    """Replace a slice of a concatenation by a slice of one operand, if it selects only elements of that operand."""
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
    """Replace a slice of a broadcast by a smaller broadcast, if only axes along which elements repeat are cut."""
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
    """Simplify a slice of a dynamic update.

    A slice inside the window is a slice of the update. A slice outside the window is a slice of the operand.
    """
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
