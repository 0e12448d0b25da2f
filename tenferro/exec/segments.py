"""Segments: runs of instructions that one session executes, cut at hosts and boundaries.

Source: seed 002, sections IV and V.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tenferro.ops import StdTensorOp
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.ops.dynamic import DynamicTruncate, PadToMatch
from tenferro.ops.extension import Extension
from tenferro.ops.source import Constant, ShapeOf

__all__ = ["Category", "Segment", "category_of", "segment_instructions"]


class Category(Enum):
    """Who executes an instruction."""

    SESSION = "session"
    """Backend kernels, grouped: elementwise, structural, reductions, indexing."""
    HOST = "host"
    """Reads or decides shapes; calls no backend kernel."""
    BOUNDARY = "boundary"
    """Alone in its segment: contractions and extensions."""


_HOST = frozenset({Constant, ShapeOf, DynamicTruncate, PadToMatch})
_BOUNDARY = frozenset({DotGeneral, Convolution, Extension})


def category_of(op: StdTensorOp) -> Category:
    """The category of an op."""
    card = type(op)
    if card in _HOST:
        return Category.HOST
    return Category.BOUNDARY if card in _BOUNDARY else Category.SESSION


@dataclass(frozen=True, slots=True)
class Segment:
    """Instructions `start` up to `stop`, all of one category."""

    category: Category
    start: int
    stop: int


def segment_instructions(ops: Sequence[StdTensorOp]) -> tuple[Segment, ...]:
    """Cut where the category changes, and around every boundary op."""
    segments: list[Segment] = []
    for index, op in enumerate(ops):
        category = category_of(op)
        last = segments[-1] if segments else None
        if last is not None and last.category is category and category is not Category.BOUNDARY:
            segments[-1] = Segment(category, last.start, index + 1)
        else:
            segments.append(Segment(category, index, index + 1))
    return tuple(segments)
