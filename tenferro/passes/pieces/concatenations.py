"""Rules for pads and concatenations."""

from __future__ import annotations

from math import prod
from typing import Any

from tenferro.graph import SourceLine
from tenferro.ops.structural import Concatenate, Pad, Slice
from tenferro.passes.clean_up import is_splat_of, splat
from tenferro.passes.pieces.facts import (
    Span,
    are_static,
    repeated,
    scalar_of,
    shape_of,
    slice_of,
    spans_of,
)
from tenferro.program.rewrite import Producers, Values

__all__ = ["concatenate", "pad"]


def pad(producers: Producers, op: Pad, inputs: Values, source: SourceLine | None) -> Values | None:
    """Simplify a pad.

    A pad that adds and removes nothing is dropped. A pad that only removes elements becomes a slice. If the operand is
    a broadcast of the padding value, the pad becomes a broadcast. A pad of a pad becomes one pad.
    """
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
    """Replace nested concatenations by one, remove empty operands, and merge adjacent slices of one tensor."""
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
    """Return one value for two operands that are adjacent slices of one tensor or repeat one scalar; else None."""
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
