"""Linearize, transpose and batch sub-programs, for the rules of control flow.

A linearized sub-program is split into two programs. The first computes the outputs and the residuals. The second is
linear in the tangents and reads the residuals.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tenferro.ad.algebra import Value, zeros
from tenferro.ad.batch import batch_some
from tenferro.ad.graph_emitter import GraphEmitter
from tenferro.ad.linearize import linearize
from tenferro.ad.transpose import transpose
from tenferro.facts import Fact, ops_with
from tenferro.graph import Alias, Graph, Instruction, Mark, StopGradient
from tenferro.program import Subprogram, dependents, needed
from tenferro.types import TensorSpec

__all__ = [
    "Batched",
    "Linearized",
    "TransposedBody",
    "batched",
    "cheapest_residuals",
    "linearized",
    "own_effects",
    "pushed",
    "residuals",
    "stored",
    "transposed",
    "transposed_body",
]


def residuals(
    graph: Graph, computed: Iterable[int], linear: Iterable[int], results: Iterable[int]
) -> list[int]:
    """Return the residuals: the values outside the linear part that the linear part reads, in order of their first use.

    Args:
        computed: the values that vary between iterations. Residuals that depend on none of these values, such as
            constants, are recomputed instead of saved.
        linear: the inputs of the linear part.
        results: the outputs of the linear part.
    """
    rest = dependents(graph.instructions, computed) - dependents(graph.instructions, linear)
    results = list(results)
    linear_part = needed(graph.instructions, results, available=rest).values()
    operands = [value for node in linear_part for value in node.inputs]
    return [value for value in dict.fromkeys([*operands, *results]) if value in rest]


def stored(graph: Graph, saved: Sequence[int], results: Iterable[int]) -> list[int]:
    """Return the values that a forward sub-program returns as the residuals.

    If only marks read a residual, and no mark differentiates it, the residual is returned through `StopGradient`: a
    second derivative then needs no derivative of the op that computes it. An example is a factor of a matrix that the
    solver of `custom_linear_solve` uses.

    Args:
        results: the outputs of the linear part, which reads the residuals.
    """
    results = list(results)
    part = needed(graph.instructions, results, available=saved, narrow=_differentiated).values()
    followed = {*results, *[value for node in part for value in node.inputs]}
    return [
        value if value in followed else graph.add(StopGradient((0,)), (value,))[0]
        for value in saved
    ]


def _differentiated(instruction: Instruction, wanted: object) -> Instruction:
    """Restrict a mark to the inputs that it differentiates in forward or reverse mode."""
    op, inputs = instruction.op, instruction.inputs
    if not isinstance(op, Mark):
        return instruction
    positions = {*op.differentiates("forward"), *op.differentiates("reverse")}
    return instruction._replace(inputs=tuple([inputs[i] for i in sorted(positions)]))


REMATERIALIZED_OPS = ops_with(Fact.CHEAP)


def cheapest_residuals(
    graph: Graph, saved: Sequence[int], varying: Iterable[int], free: Iterable[int]
) -> list[int]:
    """Return values that take fewer bytes in total than the residuals `saved`, and from which they can be recomputed.

    The instructions are visited from last to first. A residual is replaced by the operands of its op if the op is one
    of `REMATERIALIZED_OPS` and the operands take fewer bytes. For example, a mask is recomputed from a counter.

    Args:
        varying: the values that vary between iterations, like `computed` of `residuals`.
        free: values that are stored anyway, so that saving them costs nothing.
    """
    varies = dependents(graph.instructions, varying)
    at_hand = set(free)
    chosen = dict.fromkeys(saved)
    for node in reversed(graph.instructions):
        if type(node.op) not in REMATERIALIZED_OPS:
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


@contextmanager
def own_effects(graph: Graph) -> Generator[None]:
    """Remove from the graph the effects, such as checks, that the `with` block adds.

    Otherwise every program of the graph would run these effects. But instructions of the block may depend on
    placeholders, and a program may not need the derivative to which they belong.
    """
    effects, graph.effects = graph.effects, []
    try:
        yield
    finally:
        graph.effects = effects


def pushed(
    emitter: GraphEmitter,
    part: Subprogram,
    consts: Sequence[Value],
    tangents: Sequence[Value | None],
    vector: Sequence[Value],
    mode: Any,
) -> list[Value | None]:
    """Compute the tangents of a function of constants and a vector, for given tangents of the constants.

    The vector has no tangent.
    """
    if all([dot is None for dot in tangents]):
        return [None] * len(part.output_slots)
    graph, source = emitter.graph, emitter.source
    start = len(graph)
    # Differentiate with respect to aliases of the constants, because the vector may depend on the constants themselves.
    fresh = graph.add(Alias(tuple(range(len(consts)))), tuple([x.handle for x in consts]), source)
    dots = {x: dot.handle for x, dot in zip(fresh, tangents, strict=True) if dot is not None}
    with own_effects(graph):
        results = part.emit(graph, [*fresh, *[x.handle for x in vector]], source)
        y_dots = linearize(emitter, start, results, dots, mode)
    emitter.source = source
    return [None if y_dot is None else Value(emitter, y_dot) for y_dot in y_dots]


@dataclass(frozen=True)
class Linearized:
    """A sub-program and its tangent in one graph.

    Attributes:
        inputs, outputs: the values of the sub-program.
        dots: the tangents of the inputs; None for an inactive input.
        y_dots: the tangents of the outputs; None for a zero tangent.
    """

    emitter: GraphEmitter
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dots: tuple[int | None, ...]
    y_dots: tuple[int | None, ...]

    @property
    def graph(self) -> Graph:
        """The graph of the sub-program and its tangent."""
        return self.emitter.graph

    def filled(self, index: int) -> int:
        """Return the tangent of the output at position `index`; zeros if the tangent is None."""
        y_dot = self.y_dots[index]
        return zeros(Value(self.emitter, self.outputs[index])).handle if y_dot is None else y_dot


def linearized(part: Subprogram, active: Sequence[bool], surroundings: GraphEmitter) -> Linearized:
    """Emit a sub-program, with tangents for the inputs that `active` flags, and the tangents of its outputs.

    Raises:
        ADRuleUnsupportedError: an active op has no rule.
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
    """Transpose a linear sub-program.

    Return the emitter, the nonlinear inputs, the inputs for cotangents of outputs, and the cotangents of linear inputs.

    Args:
        linear: mask of the inputs in which the sub-program is linear.
        asked: mask of the outputs that have a cotangent.

    Raises:
        ADRuleUnsupportedError: an op of the sub-program has no transpose.
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
class TransposedBody:
    """Result of transposing the body of a linear loop.

    Attributes:
        moving: the positions of the carries that have a cotangent in some iteration. These are the carries whose
            outputs have cotangents, and carries on which these depend. The other carries get no cotangents, instead of
            zeros: zero times an infinite slope would be NaN.
        summed: the positions of the constants with a cotangent.
        nonlinear: the nonlinear inputs.
        bars: the inputs for the cotangents of the moving carries, and of stacked outputs.
        sums: the inputs for the constants' cotangents, summed over the iterations that the backward loop has processed.
        carry: the outputs of the transposed body: the cotangents of the moving carries.
        totals: the outputs of the transposed body: `sums` plus the cotangents of this iteration.
        x_bars: the cotangents of inputs, by position.
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


def transposed_body(
    body: Subprogram,
    num_consts: int,
    num_carry: int,
    linear: Sequence[bool],
    asked: Sequence[bool],
    surroundings: GraphEmitter,
) -> TransposedBody:
    """Transpose the body of a loop. Find the carries with cotangents as a fixed point, beginning with `asked`.

    Raises:
        ADRuleUnsupportedError: an op of the body has no transpose.
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
    return TransposedBody(emitter, moving, summed, nonlinear, bars, sums, carry, totals, x_bars)


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
    """Batch a sub-program over `size` slices; `mask` selects the inputs that have a leading axis.

    Args:
        wanted: mask of the outputs that must have the leading axis.

    Raises:
        ADRuleUnsupportedError, UnsupportedError: an op has no batch rule for these operands.
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
