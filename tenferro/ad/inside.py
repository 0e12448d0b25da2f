"""Sub-programs linearised, transposed and batched, for the rules of control flow.

A linearised sub-program comes in two: one that computes what it did and what its tangent needs, and one
that is linear, and takes that. Nothing linear is computed twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tenferro.ad.algebra import Value, zeros
from tenferro.ad.batch import batch_some
from tenferro.ad.graph_emitter import GraphEmitter
from tenferro.ad.linearize import linearize
from tenferro.ad.transpose import transpose
from tenferro.graph import Graph
from tenferro.ops import ALL_OPS, elementwise, structural
from tenferro.ops.indexing import DynamicSlice, Gather
from tenferro.program import Subprogram, dependents, needed
from tenferro.types import TensorSpec

__all__ = [
    "Batched",
    "Linearized",
    "TransposedTurn",
    "batched",
    "cheapest",
    "linearized",
    "residuals",
    "transposed",
    "transposed_turn",
]


def residuals(
    graph: Graph, computed: Iterable[int], linear: Iterable[int], results: Iterable[int]
) -> list[int]:
    """The values that a linear part takes from the rest, in the order in which it takes them.

    Args:
        computed: where what is worth keeping begins; what depends on none of it, such as a constant, is
            made again.
        linear: where the linear part begins.
        results: what is made of it.
    """
    rest = dependents(graph.instructions, computed) - dependents(graph.instructions, linear)
    results = list(results)
    linear_part = needed(graph.instructions, results, available=rest).values()
    operands = [value for node in linear_part for value in node.inputs]
    return [value for value in dict.fromkeys([*operands, *results]) if value in rest]


REMADE = frozenset(
    [
        *[op for op in ALL_OPS if op.__module__ in (elementwise.__name__, structural.__name__)],
        Gather,
        DynamicSlice,
    ]
) - {structural.OptimizationBarrier}
"""Ops that cost no more than to write what they give and to read it again.

A barrier is none of them: it may hold several values, and what it holds is not to be moved.
"""


def cheapest(
    graph: Graph, saved: Sequence[int], varying: Iterable[int], free: Iterable[int]
) -> list[int]:
    """Values of which saved ones can be made again, where that takes fewer bytes.

    From the last to the first, a value gives way to the operands of its op, if the op is one of `REMADE` and they
    take fewer bytes than it does. A mask made of a counter, or a row that is repeated, is not kept then.

    Args:
        varying: where what is worth keeping begins, as `computed` of `residuals`.
        free: values that are there anyway.
    """
    varies = dependents(graph.instructions, varying)
    at_hand = set(free)
    chosen = dict.fromkeys(saved)
    for node in reversed(graph.instructions):
        if type(node.op) not in REMADE:
            continue
        (value,) = node.outputs
        if value not in chosen or value in at_hand:
            continue
        operands = [x for x in dict.fromkeys(node.inputs) if x in varies and x not in chosen]
        sizes = [_bytes(graph.types[x]) for x in (value, *operands) if x not in at_hand]
        if None not in sizes and sum(filter(None, sizes[1:])) < (sizes[0] or 0):
            del chosen[value]
            chosen.update(dict.fromkeys(operands))
    return list(chosen)


def _bytes(spec: TensorSpec) -> int | None:
    return spec.nbytes if spec.is_static else None


@dataclass(frozen=True)
class Linearized:
    """A sub-program and its tangent in one graph.

    Attributes:
        inputs, outputs: of the sub-program.
        dots: tangents of inputs, None of those that are not active.
        y_dots: tangents of outputs, None where zero.
    """

    emitter: GraphEmitter
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dots: tuple[int | None, ...]
    y_dots: tuple[int | None, ...]

    @property
    def graph(self) -> Graph:
        """Where both are."""
        return self.emitter.graph

    def filled(self, index: int) -> int:
        """The tangent of an output, zeros where there is none."""
        y_dot = self.y_dots[index]
        return zeros(Value(self.emitter, self.outputs[index])).handle if y_dot is None else y_dot


def linearized(part: Subprogram, active: Sequence[bool], surroundings: GraphEmitter) -> Linearized:
    """The sub-program with the tangents that active inputs bring.

    Raises:
        ADRuleUnsupportedError: an active op without a rule.
    """
    graph = Graph()
    emitter = surroundings.inner(graph)
    inputs = [graph.add_input(spec) for spec in part.input_specs]
    dots = [
        graph.add_stand_in(spec) if is_active else None
        for spec, is_active in zip(part.input_specs, active, strict=True)
    ]
    outputs = part.emit(graph, inputs)
    tangents = {x: dot for x, dot in zip(inputs, dots, strict=True) if dot is not None}
    y_dots = linearize(emitter, 0, outputs, tangents, surroundings.mode)
    return Linearized(emitter, tuple(inputs), tuple(outputs), tuple(dots), tuple(y_dots))


def transposed(
    part: Subprogram, linear: Sequence[bool], asked: Sequence[bool], surroundings: GraphEmitter
) -> tuple[GraphEmitter, list[int], list[int], list[int | None]]:
    """A linear sub-program backward: emitter, known inputs, cotangents in, cotangents of linear inputs.

    Args:
        linear: which inputs it is linear in.
        asked: which outputs have a cotangent.

    Raises:
        ADRuleUnsupportedError: an op in it without a transpose.
    """
    graph = Graph()
    emitter = surroundings.inner(graph)
    inputs = [
        graph.add_stand_in(spec) if is_linear else graph.add_input(spec)
        for spec, is_linear in zip(part.input_specs, linear, strict=True)
    ]
    outputs = part.emit(graph, inputs)
    nonlinear = [x for x, is_linear in zip(inputs, linear, strict=True) if not is_linear]
    unknown = [x for x, is_linear in zip(inputs, linear, strict=True) if is_linear]
    y_bars = [
        graph.add_input(spec) for spec, is_asked in zip(part.output_specs, asked, strict=True)
        if is_asked
    ]  # fmt: skip
    pulled = [y for y, is_asked in zip(outputs, asked, strict=True) if is_asked]
    pairs = [(y, bar) for y, bar in zip(pulled, y_bars, strict=True)]
    return emitter, nonlinear, y_bars, transpose(emitter, 0, unknown, pairs)


@dataclass(frozen=True)
class TransposedTurn:
    """The body of a linear loop backward.

    Attributes:
        moving: the numbers of the carry with a cotangent in some turn: those that were asked for, and those behind
            them. Zeros for the others would be NaN where a slope is infinite.
        summed: the numbers of the constants with a cotangent.
        nonlinear, bars, sums: known inputs, cotangents of the moving carry and the other outputs that were asked for, and
            the sums of the constants' cotangents so far.
        carry, totals: the cotangents of the moving carry before the turn, and the sums with the turn's.
        x_bars: by number of an input its cotangent, where it has one.
    """

    emitter: GraphEmitter
    moving: tuple[int, ...]
    summed: tuple[int, ...]
    nonlinear: list[int]
    bars: list[int]
    sums: list[int]
    carry: list[int]
    totals: list[int]
    x_bars: dict[int, int]


def transposed_turn(
    body: Subprogram,
    num_consts: int,
    num_carry: int,
    linear: Sequence[bool],
    asked: Sequence[bool],
    surroundings: GraphEmitter,
) -> TransposedTurn:
    """The body backward for the asked outputs, at the fixed point over the carry.

    Raises:
        ADRuleUnsupportedError: an op in it without a transpose.
    """
    n, m, specs = num_consts, num_carry, body.input_specs
    has_bar = tuple(asked)
    places = [i for i, is_linear in enumerate(linear) if is_linear]
    while True:
        emitter, nonlinear, bars, pulled = transposed(body, linear, has_bar, surroundings)
        x_bars = {i: bar for i, bar in zip(places, pulled, strict=True) if bar is not None}
        grown = (*[has_bar[i] or n + i in x_bars for i in range(m)], *has_bar[m:])
        if grown == has_bar:
            break
        has_bar = grown
    moving = tuple([i for i in range(m) if has_bar[i]])
    summed = tuple([i for i in range(n) if i in x_bars])
    sums = [emitter.graph.add_input(specs[i]) for i in summed]
    carry = [x_bars[i] if i in x_bars else emitter.zeros(specs[i]) for i in [n + i for i in moving]]
    totals = [
        (Value(emitter, total) + Value(emitter, x_bars[i])).handle
        for total, i in zip(sums, summed, strict=True)
    ]
    return TransposedTurn(emitter, moving, summed, nonlinear, bars, sums, carry, totals, x_bars)


@dataclass(frozen=True)
class Batched:
    """A batched sub-program, and the mask of outputs that have the leading axis."""

    part: Subprogram
    outputs: tuple[bool, ...]


def batched(
    part: Subprogram,
    mask: Sequence[bool],
    size: object,
    wanted: Sequence[bool],
    surroundings: GraphEmitter,
) -> Batched:
    """The sub-program of `size` slices at once, for inputs of which some have a leading axis.

    Args:
        wanted: the outputs that must have it, whether they depend on such an input or not.

    Raises:
        ADRuleUnsupportedError, UnsupportedError: an op without a batch rule for such operands.
    """
    graph = Graph()
    emitter = surroundings.inner(graph)
    inputs = [graph.add_input(spec) for spec in part.input_specs]
    outputs = part.emit(graph, inputs)
    leading = [
        graph.add_input(TensorSpec.of((size, *spec.shape), spec.dtype)) if has else x
        for x, spec, has in zip(inputs, part.input_specs, mask, strict=True)
    ]
    leading_of = {x: new for x, new in zip(inputs, leading, strict=True) if x != new}
    results, has = batch_some(emitter, 0, leading_of, outputs, size, wanted)
    return Batched(Subprogram.of(graph, leading, results), tuple(has))
