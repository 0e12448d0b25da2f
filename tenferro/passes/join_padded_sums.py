"""Rewrite sums of many pads as sums of few concatenations.

Law: the bits of results do not change.

The derivative of a Python loop that reads `x[t]` is a sum of pads, one padded row for each t. Rows that do not
overlap become operands of one concatenation. If rows overlap, the first row at a position becomes part of a first
concatenation, the second row at that position becomes part of a second concatenation, and so on. Each concatenation is
called a layer, and the sum is the sum of the layers. The zeros of the pads change a sum only where it is -0.0, which
becomes 0.0. One addition of 0.0 at the end has the same effect.

The pass takes time proportional to the number of terms. If the rule for two terms in `tenferro.passes.pieces.sums` were
applied repeatedly instead, it would write one concatenation per term.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tenferro.dims import is_static
from tenferro.graph import Graph, Instruction
from tenferro.ops.elementwise import Add
from tenferro.ops.source import Constant
from tenferro.ops.structural import BroadcastInDim, Concatenate, Pad, Reshape
from tenferro.program import GraphProgram, makers
from tenferro.program.rewrite import fresh_arena, written_again

__all__ = ["join_padded_sums"]

MIN_TERMS = 8
"""Minimum number of pads in a sum for the sum to be rewritten."""
MAX_PLACES = 1 << 20
"""Maximum number of positions along the padded axes."""


@dataclass(frozen=True)
class _Sum:
    """Sum of pads, which a chain of additions computes.

    Attributes:
        base: the slot of another value, which is also a term of the sum; None if all terms are pads.
        pads: the slots of the pads, in order.
        sums: the slots of the partial sums. The last partial sum is the result.
    """

    base: int | None
    pads: list[int]
    sums: list[int]


@dataclass(frozen=True)
class _Layout:
    """Arrangement of the padded operands of a sum in concatenations.

    Attributes:
        axis: the axis along which the operands are concatenated.
        full: the shape of the sum.
        shape: the shape of a concatenation. It is the shape of the sum in which the padded axes are merged.
        layers: for each concatenation, a list of pairs sorted by position: the first position of a pad's operand, and
            the slot of the pad.
    """

    axis: int
    full: tuple[int, ...]
    shape: tuple[int, ...]
    layers: list[list[tuple[int, int]]]


def join_padded_sums(program: GraphProgram) -> GraphProgram:
    """Return the program with sums of many pads rewritten as concatenations."""
    maker_of = makers(program.instructions)
    layouts: dict[int, tuple[_Sum, _Layout]] = {}
    dropped: set[int] = set()
    pieces: dict[int, tuple[int, ...]] = {}  # the shape of each piece
    for total in _sums(program, maker_of):
        layout = _layout(program, maker_of, total)
        if layout is None:
            continue
        layouts[total.sums[-1]] = total, layout
        dropped.update(total.sums[:-1])
        for slot in total.pads:
            at = layout.axis
            extent = program.types[maker_of[slot].inputs[0]].shape[at]
            pieces[slot] = (*layout.shape[:at], extent, *layout.shape[at + 1 :])
    if not layouts:
        return program
    graph, values = fresh_arena(program)
    for step in program.instructions:
        result = step.outputs[0]
        inputs = tuple([values[slot] for slot in step.inputs])
        if result in dropped:
            continue
        if result in pieces:
            piece, shape = inputs[0], pieces[result]
            if graph.types[piece].shape != shape:
                (piece,) = graph.add(Reshape(shape), (piece,), step.source)
            values[result] = piece
        elif result in layouts:
            values[result] = _written(graph, values, step, *layouts[result])
        else:
            for slot, value in zip(
                step.outputs, graph.add(step.op, inputs, step.source), strict=True
            ):
                values[slot] = value
    return written_again(program, graph, values)


def _sums(program: GraphProgram, maker_of: dict[int, Instruction]) -> list[_Sum]:
    """Return the longest sums of pads with +0. Only the next addition may read a term or a partial sum."""
    reads = Counter(program.output_slots)
    for step in program.instructions:
        reads.update(step.inputs)
    sums: dict[int, _Sum] = {}
    for step in program.instructions:
        if type(step.op) is not Add:
            continue
        first, second = step.inputs
        if not _is_term(program, maker_of, reads, second):
            first, second = second, first
        if not _is_term(program, maker_of, reads, second):
            continue
        before = sums.get(first)
        if before is not None and reads[first] == 1:
            del sums[first]
        elif _is_term(program, maker_of, reads, first):
            before = _Sum(None, [first], [])
        else:
            before = _Sum(first, [], [])
        before.pads.append(second)
        before.sums.append(step.outputs[0])
        sums[step.outputs[0]] = before
    return [total for total in sums.values() if len(total.pads) >= MIN_TERMS]


def _is_term(
    program: GraphProgram, maker_of: dict[int, Instruction], reads: Counter[int], slot: int
) -> bool:
    """Return whether `slot` is a pad with +0 and without negative or interior padding, and is read only once."""
    step = maker_of.get(slot)
    if step is None or type(step.op) is not Pad or reads[slot] != 1:
        return False
    edges = (*step.op.low, *step.op.high)
    if not all(map(is_static, edges)) or min(edges, default=0) < 0 or any(step.op.interior):
        return False
    if not all([program.types[value].is_static for value in (slot, step.inputs[0])]):
        return False
    fill = maker_of.get(step.inputs[1])
    if fill is None or type(fill.op) is not Constant:
        return False
    return not any(fill.op.array.tobytes())


def _layout(program: GraphProgram, maker_of: dict[int, Instruction], total: _Sum) -> _Layout | None:
    """Return the layout of the padded operands of a sum; None if too many concatenations would be needed."""
    full = program.types[total.sums[-1]].shape
    ops: list[Any] = [maker_of[slot].op for slot in total.pads]
    edges = np.array([(op.low, op.high) for op in ops])
    padded = np.flatnonzero(edges.any(axis=(0, 1))).tolist()
    if not padded:
        return None
    axis, end = padded[0], padded[-1] + 1
    # Reshape merges axes in column-major order. Therefore a padded operand may have any extent along the first merged
    # axis, but must have extent 1 along the others.
    operands = [program.types[maker_of[slot].inputs[0]].shape for slot in total.pads]
    if any([extent != 1 for operand in operands for extent in operand[axis + 1 : end]]):
        return None
    places = prod(full[axis:end])
    if places > MAX_PLACES:
        return None
    layers: list[list[tuple[int, int]]] = []
    height = np.zeros(places, np.int64)
    for slot, op, operand in zip(total.pads, ops, operands, strict=True):
        start = int(np.ravel_multi_index(op.low[axis:end], full[axis:end], order="F"))
        stop = start + operand[axis]
        layer = int(height[start:stop].max(initial=0))
        height[start:stop] = layer + 1
        if layer == len(layers):
            layers.append([])
        layers[layer].append((start, slot))
    # If most terms overlap, the pads contain few zeros, so that concatenations would save nothing.
    if 2 * len(layers) > len(total.pads):
        return None
    for each in layers:
        each.sort()
    return _Layout(axis, full, (*full[:axis], places, *full[end:]), layers)


def _written(
    graph: Graph, values: Sequence[int], step: Instruction, total: _Sum, layout: _Layout
) -> int:
    """Emit the concatenations and their sum. For floats, also emit the addition of +0.0."""
    spec = graph.types[values[total.pads[0]]]
    number = np.zeros((), spec.dtype.dtype)

    def add(op: Any, *inputs: int) -> int:
        return graph.add(op, inputs, step.source)[0]

    def zeros(shape: tuple[int, ...]) -> int:
        return add(BroadcastInDim(shape, ()), add(Constant.of(number)))

    axis, shape = layout.axis, layout.shape
    result = None if total.base is None else values[total.base]
    for layer in layout.layers:
        parts: list[int] = []
        position = 0
        for start, slot in [*layer, (shape[axis], None)]:
            if start > position:
                parts.append(zeros((*shape[:axis], start - position, *shape[axis + 1 :])))
            if slot is not None:
                parts.append(values[slot])
                position = start + graph.types[values[slot]].shape[axis]
        joined = parts[0] if len(parts) == 1 else add(Concatenate(axis, len(parts)), *parts)
        if graph.types[joined].shape != layout.full:
            joined = add(Reshape(layout.full), joined)
        result = joined if result is None else add(Add(), result, joined)
    assert result is not None
    return add(Add(), result, zeros(layout.full)) if spec.dtype.is_inexact else result
