"""Rules for sums of tensors that are zero outside some slices along an axis, called boxes.

A sum of boxes is rewritten as their concatenation. Adding a pad to another adds +0.0 to the elements of each box, which
only changes -0.0 to 0.0. So a sum of pads that do not overlap equals the concatenation of the boxes plus 0.0, which is
a single elementwise operation. (x + 0.0) + y equals (x + y) + 0.0, because a sum is -0.0 only if all its terms are
-0.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tenferro.graph import SourceLine
from tenferro.ops.elementwise import Add
from tenferro.ops.structural import Concatenate, Pad
from tenferro.passes.clean_up import filled, first_of
from tenferro.passes.pieces.concatenations import concatenate
from tenferro.passes.pieces.facts import are_static, is_zero, repeated, scalar_zero, shape_of
from tenferro.program.rewrite import Producers, Values

__all__ = ["SUM", "plus_zero", "sum_with_zero"]


@dataclass(frozen=True)
class Pieces:
    """Tensor that is zero outside some boxes, which are slices along an axis.

    Attributes:
        axis: the axis along which the boxes follow each other.
        extent: the extent of the tensor along `axis`.
        boxes: for each box, its value and its first position along `axis`, sorted by position.
    """

    axis: int
    extent: int
    boxes: tuple[tuple[int, int], ...]


def pieces_of(producers: Producers, value: int) -> Pieces | None:
    """Return the boxes of a pad with +0 along one axis, or of a concatenation with zeros; None for any other value."""
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
    """Rewrite a sum of boxes that do not overlap as a concatenation plus 0.0."""
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
                repeated(producers, scalar_zero(producers, inputs[0], source), extents, source)
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


def nested_sum_of_pieces(
    producers: Producers, op: Add, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Rewrite (x + a) + b, for boxes a and b that do not overlap, as x plus the concatenation of a and b, plus 0.0."""
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
    """Rewrite a sum of two pads with +0 and equal edges as the pad of the sum of their operands."""
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
    """Emit x + 0.0. Return x itself if x has integers, or is already a sum with 0.0."""
    spec = producers.types[x]
    if not spec.dtype.is_inexact or without_zero(producers, x) is not None:
        return x
    (zeros,) = filled(producers, np.zeros((), spec.dtype.dtype), x, source)
    return producers.apply(Add(), (x, zeros), source)[0]


def without_zero(producers: Producers, value: int) -> int | None:
    """Return x if `value` is computed as x + 0.0; None if it is computed in another way."""
    node = producers.of(value, Add)
    if node is None or not producers.types[value].dtype.is_inexact:
        return None
    return next(
        (x for x, term in (node.inputs, node.inputs[::-1]) if is_zero(producers, term)), None
    )


SUM = first_of(sum_of_equal_pads, sum_of_pieces, nested_sum_of_pieces)


def sum_with_zero(
    producers: Producers, op: Add, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Rewrite (x + 0.0) + y as (x + y) + 0.0, and x + 0.0 + 0.0 as x + 0.0."""
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
