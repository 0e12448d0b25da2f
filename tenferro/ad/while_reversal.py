"""Loops of unknown length, backward: states are computed again from a bounded number of stored ones.

The turns are counted first. Then `rows` states at equal distances are kept, in a buffer of fixed extent; going back,
the states from one to the next are kept in a second buffer, at distances again where they do not fit. So a loop
of up to rows^2 turns runs its body three times forward and its transpose once, and a longer one of
k rows^2 turns about k / 2 times more; memory does not grow with the number of turns.

Source: Griewank and Walther, "Evaluating Derivatives", 2008, section 12.2 (multilevel checkpointing).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from tenferro.ad.algebra import Value, apply, apply_one, compare, full, lead, scalar, select, zeros
from tenferro.ad.graph_emitter import GraphEmitter
from tenferro.ad.inside import transposed_turn
from tenferro.ad.rule import Tangents, Values
from tenferro.errors import ADRuleUnsupportedError
from tenferro.graph import Graph
from tenferro.ops.control import While
from tenferro.ops.elementwise import Divide
from tenferro.ops.indexing import Gather, Scatter
from tenferro.program import Subprogram, dependents
from tenferro.types import DType, TensorSpec

__all__ = ["MOST_ROWS", "transposed_while"]

MOST_ROWS, LEAST_ROWS = 1024, 16
"""States in a buffer: loops of 1024^2 turns are computed again once, where states are small."""
BUFFER_BYTES = 1 << 25
"""What a buffer may take, as long as it has `LEAST_ROWS`."""


def transposed_while(
    op: While, inputs: Values, linear: tuple[bool, ...], y_bars: Tangents
) -> Tangents:
    """Cotangents of the linear inputs: the constants' add up, those of the carry go back.

    Raises:
        ADRuleUnsupportedError: a condition that depends on what the loop is linear in.
    """
    n = op.num_consts
    mask = _linear_inputs(op, linear)
    if any([mask[i] for i in op.cond.reads([0])]):
        raise ADRuleUnsupportedError(
            "While: has no transpose, because cond depends on what the loop is linear in; differentiate the function "
            "instead of transposing it, or put the loop into custom_linear_solve"
        )
    nonlinear = [x for x, is_linear in zip(inputs, mask, strict=True) if not is_linear]
    n_known = mask[:n].count(False)
    has_bar = [
        is_linear and bar is not None for is_linear, bar in zip(mask[n:], y_bars, strict=True)
    ]
    loop = _Loop.of(op, mask, has_bar, inputs[0].emitter)
    bars = [zeros(inputs[i]) if (bar := y_bars[i - n]) is None else bar for i in loop.moving]
    sums = [zeros(inputs[i]) for i in loop.summed]
    results = loop.backward(nonlinear[:n_known], nonlinear[n_known:], bars, sums)
    x_bars: list[Value | None] = [None] * len(inputs)
    for i, x_bar in zip([*loop.moving, *loop.summed], results, strict=True):
        x_bars[i] = x_bar if linear[i] else None
    return x_bars


def _linear_inputs(op: While, linear: Sequence[bool]) -> list[bool]:
    """The inputs of the body that are linear at the fixed point over the carry."""
    mask, n = list(linear), op.num_consts
    while True:
        depends = dependents(op.body.instructions, compress(op.body.input_slots, mask))
        carry = [
            was or slot in depends for was, slot in zip(mask[n:], op.body.output_slots, strict=True)
        ]
        if carry == mask[n:]:
            return mask
        mask[n:] = carry


@dataclass(frozen=True)
class _Loop:
    """A loop cut into a nonlinear and a linear part.

    Attributes:
        test: whether it goes on, from known constants and state.
        turn: the next state.
        pull: from constants, state, cotangents of the moving carry and sums of the linear constants' to the
            cotangents before the turn and the sums with them.
        moving: the inputs of the linear carry that have a cotangent in some turn.
        summed: the linear constants that have a cotangent.
        rows: states in a buffer.
    """

    test: Subprogram
    turn: Subprogram
    pull: Subprogram
    moving: tuple[int, ...]
    summed: tuple[int, ...]
    rows: int

    @classmethod
    def of(
        cls, op: While, mask: Sequence[bool], asked: Sequence[bool], surroundings: GraphEmitter
    ) -> _Loop:
        """The parts of a loop that is linear in the inputs of `mask`, for the cotangents of the asked outputs."""
        n, m = op.num_consts, len(asked)
        back = transposed_turn(op.body, n, m, mask, asked, surroundings)
        pull = Subprogram.of(
            back.emitter.graph,
            [*back.nonlinear, *back.bars, *back.sums],
            [*back.carry, *back.totals],
        )
        moving = tuple([n + i for i in back.moving])
        state = [i for i in range(len(mask) - n) if not mask[n + i]]
        specs = [op.body.input_specs[n + i] for i in state]
        test, turn = (
            _known_part(part, mask, outputs) for part, outputs in ((op.cond, [0]), (op.body, state))
        )
        return cls(test, turn, pull, moving, back.summed, _rows(specs))

    def backward(
        self,
        consts: Sequence[Value],
        start: Sequence[Value],
        bars: Sequence[Value],
        sums: Sequence[Value],
    ) -> Values:
        """Cotangents of the first carry, and the sums."""
        turns = self._counted(consts, start)
        stride = _distance(turns, self.rows)
        states = self._kept(consts, start, turns, stride)
        n = len(consts)

        def segment(fixed: Values, carry: Values) -> list[Value]:
            turns, stride, consts, coarse = fixed[0], fixed[1], fixed[2 : 2 + n], fixed[2 + n :]
            number, *cotangents = carry
            first = number * stride
            length = _smaller(stride, turns - first)
            fine = _distance(length, self.rows)
            inner = self._kept(consts, _read(coarse, number), length, fine)
            *cotangents, _ = self._pulled(consts, inner, fine, length, cotangents)
            return [number - 1, *cotangents]

        last = _ceiling(turns, stride) - 1
        return _looped(
            [turns, stride, *consts, *states],
            [last, *bars, *sums],
            lambda fixed, carry: [compare(carry[0], "GE", 0)],
            segment,
        )[1:]

    def _pulled(
        self,
        consts: Sequence[Value],
        states: Sequence[Value],
        stride: Value,
        length: Value,
        cotangents: Sequence[Value],
    ) -> list[Value]:
        """Through a segment, from its last turn to its first; the number of the turn before it comes last."""
        n = len(consts)

        def turn(fixed: Values, carry: Values) -> list[Value]:
            stride, consts, states = fixed[0], fixed[1 : 1 + n], fixed[1 + n :]
            *cotangents, number = carry
            row = apply_one(Divide(), number, stride)
            state = self._advanced(consts, _read(states, row), number - row * stride)
            return [*_run(self.pull, [*consts, *state, *cotangents]), number - 1]

        return list(
            _looped(
                [stride, *consts, *states],
                [*cotangents, length - 1],
                lambda fixed, carry: [compare(carry[-1], "GE", 0)],
                turn,
            )
        )

    def _counted(self, consts: Sequence[Value], start: Sequence[Value]) -> Value:
        """The number of turns."""
        zero = scalar([*consts, *start][0], 0, DType.I64)
        return _looped(
            consts,
            [zero, *start],
            lambda fixed, carry: _run(self.test, [*fixed, *carry[1:]]),
            lambda fixed, carry: [carry[0] + 1, *_run(self.turn, [*fixed, *carry[1:]])],
        )[0]

    def _advanced(self, consts: Sequence[Value], state: Sequence[Value], turns: Value) -> Values:
        """The state some turns later."""
        return _looped(
            consts,
            [turns, *state],
            lambda fixed, carry: [compare(carry[0], "GT", 0)],
            lambda fixed, carry: [carry[0] - 1, *_run(self.turn, [*fixed, *carry[1:]])],
        )[1:]

    def _kept(
        self, consts: Sequence[Value], start: Sequence[Value], turns: Value, stride: Value
    ) -> list[Value]:
        """Buffers of every stride-th state before the given number of turns, the first among them."""
        m = len(start)

        def turn(fixed: Values, carry: Values) -> list[Value]:
            turns, stride, consts = fixed[0], fixed[1], fixed[2:]
            number, state, buffers = carry[0], carry[1 : 1 + m], carry[1 + m :]
            written = [_written(b, x, number) for b, x in zip(buffers, state, strict=True)]
            left = _smaller(stride, turns - number * stride)
            return [number + 1, *self._advanced(consts, state, left), *written]

        def goes_on(fixed: Values, carry: Values) -> list[Value]:
            return [compare(carry[0] * fixed[1], "LT", fixed[0])]

        empty = [lead(full(x, False if x.dtype.is_bool else 0), self.rows) for x in start]
        zero = scalar(turns, 0, DType.I64)
        results = _looped([turns, stride, *consts], [zero, *start, *empty], goes_on, turn)
        return list(results[1 + m :])


def _known_part(part: Subprogram, mask: Sequence[bool], outputs: Sequence[int]) -> Subprogram:
    """The outputs that need nothing linear, from the inputs that are not."""
    graph = Graph()
    inputs = [
        graph.add_stand_in(spec) if is_linear else graph.add_input(spec)
        for spec, is_linear in zip(part.input_specs, mask, strict=True)
    ]
    results = part.emit(graph, inputs)
    nonlinear = [x for x, is_linear in zip(inputs, mask, strict=True) if not is_linear]
    return Subprogram.of(graph, nonlinear, [results[i] for i in outputs])


def _rows(specs: Sequence[TensorSpec]) -> int:
    """As many states as a buffer may take."""
    if not all([spec.is_static for spec in specs]):
        return LEAST_ROWS
    size = max(sum([spec.nbytes for spec in specs]), 1)
    return min(max(BUFFER_BYTES // size, LEAST_ROWS), MOST_ROWS)


Write = Callable[[Values, Values], Sequence[Value]]
"""Writes a part of a loop, from what it does not change and its carry."""


def _looped(consts: Sequence[Value], carry: Sequence[Value], test: Write, turn: Write) -> Values:
    """The carry after a loop."""
    operands = [*consts, *carry]
    n = len(consts)
    parts: list[Subprogram] = []
    for write in (test, turn):
        graph = Graph()
        emitter: Any = operands[0].emitter
        inner = emitter.inner(graph)
        handles = [graph.add_input(x.type) for x in operands]
        values = inner.values(handles)
        results = write(values[:n], values[n:])
        parts.append(Subprogram.of(graph, handles, [y.handle for y in results]))
    return apply(While(parts[0], parts[1], n), *operands)


def _run(part: Subprogram, inputs: Sequence[Value]) -> Values:
    emitter: Any = inputs[0].emitter
    return emitter.values(part.emit(emitter.graph, [x.handle for x in inputs]))


def _smaller(x: Value, y: Value) -> Value:
    return select(compare(x, "LT", y), x, y)


def _ceiling(x: Value, y: Any) -> Value:
    """x / y, rounded up."""
    y = scalar(x, y) if isinstance(y, int) else y
    return apply_one(Divide(), x + (y - 1), y)


def _distance(turns: Value, rows: int) -> Value:
    """Of states such that these are enough rows; at least 1."""
    distance = _ceiling(turns, rows)
    return select(compare(distance, "LT", 1), full(distance, 1), distance)


def _written(buffer: Value, x: Value, row: Value) -> Value:
    """The buffer with x in a row."""
    op = Scatter(tuple(range(x.rank)), (0,), (), (), (0,), 0, "set", unique_indices=True)
    return apply_one(op, buffer, row, x)


def _read(buffers: Sequence[Value], row: Value) -> list[Value]:
    """A row of each buffer."""
    return [
        apply_one(
            Gather(tuple(range(b.rank - 1)), (0,), (), (), (0,), 0, (1, *b.shape[1:])), b, row
        )
        for b in buffers
    ]
