"""Rewrite pads of one operand as slices of one wide pad."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from math import prod

from tenferro.graph import SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops.structural import Pad
from tenferro.passes.pieces.facts import Shape, Span, are_static, slice_of
from tenferro.program import GraphProgram
from tenferro.program.rewrite import Producers, Values, emit_again

__all__ = ["widen_pads"]


def widen_pads(program: GraphProgram) -> GraphProgram:
    """Return the program with pads of one operand rewritten as slices of one wide pad.

    The pads are rewritten only if the wide pad has fewer elements than all these pads together.
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
    """Return the smallest pad from which each of `pads` can be sliced.

    Return None if that pad has at least as many elements as all of `pads` together.
    """
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
    """Replace a pad by a slice of the wide pad."""
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
