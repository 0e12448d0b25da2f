"""Properties of values that several rules read: extents, spans of slices, broadcast scalars and zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tenferro.dims import is_static
from tenferro.graph import SourceLine
from tenferro.ops.source import Constant
from tenferro.ops.structural import BroadcastInDim, Slice
from tenferro.passes.clean_up import is_splat_of, splat
from tenferro.program.rewrite import Producers

__all__ = [
    "Shape",
    "Span",
    "are_static",
    "is_zero",
    "number_in",
    "repeated",
    "scalar_of",
    "scalar_zero",
    "shape_of",
    "slice_of",
    "spans_of",
]

Shape = tuple[int, ...]


def shape_of(producers: Producers, value: int) -> Shape | None:
    """Return the shape of a value; None if an extent is symbolic."""
    spec = producers.types[value]
    return spec.shape if spec.is_static else None


def are_static(*bounds: Sequence[Any]) -> bool:
    """Return whether all elements of all sequences in `bounds` are numbers, not symbols."""
    return all([is_static(bound) for side in bounds for bound in side])


class Span(NamedTuple):
    """The `length` positions `start`, `start + stride`, .. along an axis."""

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
        """Compose two spans: return the positions that this span selects among the positions of `inner`."""
        start = inner.start + self.start * inner.stride if self.length else inner.start
        return Span(start, self.length, self.stride * inner.stride)


def spans_of(producers: Producers, op: Slice, x: int) -> list[Span] | None:
    """Return the span of a slice along each axis; None if an extent is symbolic."""
    if shape_of(producers, x) is None or not are_static(op.starts, op.limits):
        return None
    return [
        Span(start, -(-(limit - start) // stride), stride)
        for start, limit, stride in zip(op.starts, op.limits, op.strides, strict=True)
    ]


def slice_of(producers: Producers, x: int, spans: Sequence[Span], source: SourceLine | None) -> int:
    """Emit the slice of x that selects `spans`, one span per axis. Return x itself if they select all of x."""
    if producers.types[x].shape == tuple([s.length for s in spans]):
        return x
    # A span of one element has no stride. Writing 1 makes equal slices equal ops.
    strides = tuple([s.stride if s.length > 1 else 1 for s in spans])
    op = Slice(tuple([s.start for s in spans]), tuple([s.limit for s in spans]), strides)
    return producers.apply(op, (x,), source)[0]


def repeated(producers: Producers, scalar: int, shape: Shape, source: SourceLine | None) -> int:
    """Emit `scalar`, broadcast to `shape`."""
    return producers.apply(BroadcastInDim(shape, ()), (scalar,), source)[0] if shape else scalar


def scalar_of(producers: Producers, value: int) -> int | None:
    """Return the scalar that `value` repeats as a broadcast; None if `value` is not a broadcast scalar."""
    node = producers.of(value, BroadcastInDim)
    if node is None or producers.types[node.inputs[0]].rank:
        return None
    return node.inputs[0]


def number_in(producers: Producers, value: int, source: SourceLine | None) -> int | None:
    """Return a scalar equal to all elements of `value`, emitting it if necessary; None if elements may differ."""
    scalar, number = scalar_of(producers, value), splat(producers, value)
    if scalar is not None or number is None:
        return scalar
    return producers.apply(Constant.of(np.asarray(number)), (), source)[0]


def is_zero(producers: Producers, value: int) -> bool:
    """Return whether all elements of a value are +0."""
    return is_splat_of(producers, value, 0)


def scalar_zero(producers: Producers, x: int, source: SourceLine | None) -> int:
    """Emit the scalar zero of x's dtype."""
    return producers.apply(Constant.of(np.zeros((), producers.types[x].dtype.dtype)), (), source)[0]
