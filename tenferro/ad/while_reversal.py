"""Reverse mode of loops with a dynamic trip count. States are recomputed from a bounded number of checkpoints.

A first loop counts the iterations. A second loop stores every n-th state in a buffer of `rows` states, where the stride
n is constant. The backward pass recomputes the states between two stored states, called a segment, into a second
buffer. If a segment has more than `rows` states, only every m-th of its states is stored. For up to rows^2 iterations,
the body runs three times per iteration, and its transpose once. For k rows^2 iterations, the body runs about k / 2 more
times per iteration. The memory does not grow with the trip count.

Source: Griewank and Walther, "Evaluating Derivatives", 2008, section 12.2 (multilevel checkpointing).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from tenferro.ad.algebra import Value, apply, apply_one, compare, full, lead, scalar, select, zeros
from tenferro.ad.graph_emitter import GraphEmitter
from tenferro.ad.rule import Tangents, Values
from tenferro.ad.subprograms import transposed_body
from tenferro.errors import ADRuleUnsupportedError
from tenferro.graph import Graph
from tenferro.ops.control import While
from tenferro.ops.elementwise import Divide
from tenferro.ops.indexing import Gather, Scatter
from tenferro.program import Subprogram, dependents
from tenferro.types import DType, TensorSpec

__all__ = ["transposed_while"]

MAX_ROWS, MIN_ROWS = 1024, 16
"""Maximum and minimum number of states in a buffer; 1024 states suffice for a loop of 1024^2 iterations."""
BUFFER_BYTES = 1 << 25
"""Maximum size of a buffer with more than `MIN_ROWS` states, in bytes."""


def transposed_while(
    op: While, inputs: Values, linear: tuple[bool, ...], y_bars: Tangents
) -> Tangents:
    """Emit the cotangents of a while loop: those of the initial carry, and the sums of the constants' cotangents.

    Raises:
        ADRuleUnsupportedError: the condition depends on linear operands.
    """
    n = op.num_consts
    mask = _linear_inputs(op, linear)
    if any([mask[i] for i in op.cond.reads([0])]):
        raise ADRuleUnsupportedError(
            "While: has no transpose, because cond depends on a carry in which the loop is linear; "
            "differentiate the function instead of transposing it, or put the loop into custom_linear_solve"
        )
    nonlinear = [x for x, is_linear in zip(inputs, mask, strict=True) if not is_linear]
    n_nonlinear = mask[:n].count(False)
    has_bar = [
        is_linear and bar is not None for is_linear, bar in zip(mask[n:], y_bars, strict=True)
    ]
    loop = _Loop.of(op, mask, has_bar, inputs[0].emitter)
    bars = [zeros(inputs[i]) if (bar := y_bars[i - n]) is None else bar for i in loop.moving]
    sums = [zeros(inputs[i]) for i in loop.summed]
    results = loop.backward(nonlinear[:n_nonlinear], nonlinear[n_nonlinear:], bars, sums)
    x_bars: list[Value | None] = [None] * len(inputs)
    for i, x_bar in zip([*loop.moving, *loop.summed], results, strict=True):
        x_bars[i] = x_bar if linear[i] else None
    return x_bars


def _linear_inputs(op: While, linear: Sequence[bool]) -> list[bool]:
    """Return a mask of the body's linear inputs. The linear carries are found by iterating to a fixed point."""
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
    """A loop split into a nonlinear and a linear part.

    Attributes:
        condition: the program of the loop's condition. Its inputs are the nonlinear constants and the nonlinear state.
        body: the program that computes the next nonlinear state. Its inputs are those of `condition`.
        pull: the transposed body. Its inputs are the nonlinear constants and state, the cotangents of the moving
            carries, and the sums of the constants' cotangents. It returns the cotangents before the iteration, and the
            new sums.
        moving: the positions of linear carries that have a cotangent in some iteration.
        summed: the positions of linear constants that have a cotangent.
        rows: the number of states in a buffer.
    """

    condition: Subprogram
    body: Subprogram
    pull: Subprogram
    moving: tuple[int, ...]
    summed: tuple[int, ...]
    rows: int

    @classmethod
    def of(
        cls, op: While, mask: Sequence[bool], asked: Sequence[bool], surroundings: GraphEmitter
    ) -> _Loop:
        """Split a loop into its parts.

        The masks `mask` and `asked` flag linear inputs, and outputs that have cotangents.
        """
        n, m = op.num_consts, len(asked)
        back = transposed_body(op.body, n, m, mask, asked, surroundings)
        pull = Subprogram.of(
            back.emitter.graph,
            [*back.nonlinear, *back.bars, *back.sums],
            [*back.carry, *back.totals],
        )
        moving = tuple([n + i for i in back.moving])
        state = [i for i in range(len(mask) - n) if not mask[n + i]]
        specs = [op.body.input_specs[n + i] for i in state]
        condition, body = (
            _nonlinear_part(part, mask, outputs)
            for part, outputs in ((op.cond, [0]), (op.body, state))
        )
        return cls(condition, body, pull, moving, back.summed, _buffer_rows(specs))

    def backward(
        self,
        consts: Sequence[Value],
        start: Sequence[Value],
        bars: Sequence[Value],
        sums: Sequence[Value],
    ) -> Values:
        """Emit the cotangents of the initial carry, and the sums of the constants' cotangents."""
        trip_count = self._trip_count(consts, start)
        stride = _stride(trip_count, self.rows)
        states = self._states(consts, start, trip_count, stride)
        n = len(consts)

        def segment(fixed: Values, carry: Values) -> list[Value]:
            trip_count, stride, consts, coarse = (
                fixed[0],
                fixed[1],
                fixed[2 : 2 + n],
                fixed[2 + n :],
            )
            number, *cotangents = carry
            first = number * stride
            length = _minimum(stride, trip_count - first)
            fine = _stride(length, self.rows)
            inner = self._states(consts, _rows_at(coarse, number), length, fine)
            *cotangents, _ = self._pull_back(consts, inner, fine, length, cotangents)
            return [number - 1, *cotangents]

        last = _ceil_divide(trip_count, stride) - 1
        return _while(
            [trip_count, stride, *consts, *states],
            [last, *bars, *sums],
            lambda fixed, carry: [compare(carry[0], "GE", 0)],
            segment,
        )[1:]

    def _pull_back(
        self,
        consts: Sequence[Value],
        states: Sequence[Value],
        stride: Value,
        length: Value,
        cotangents: Sequence[Value],
    ) -> list[Value]:
        """Emit the transposes of the iterations of one segment. The last result is the iteration before the segment."""
        n = len(consts)

        def body(fixed: Values, carry: Values) -> list[Value]:
            stride, consts, states = fixed[0], fixed[1 : 1 + n], fixed[1 + n :]
            *cotangents, number = carry
            row = apply_one(Divide(), number, stride)
            state = self._advance(consts, _rows_at(states, row), number - row * stride)
            return [*_run(self.pull, [*consts, *state, *cotangents]), number - 1]

        return list(
            _while(
                [stride, *consts, *states],
                [*cotangents, length - 1],
                lambda fixed, carry: [compare(carry[-1], "GE", 0)],
                body,
            )
        )

    def _trip_count(self, consts: Sequence[Value], start: Sequence[Value]) -> Value:
        """Emit a loop that counts the iterations."""
        zero = scalar([*consts, *start][0], 0, DType.I64)
        return _while(
            consts,
            [zero, *start],
            lambda fixed, carry: _run(self.condition, [*fixed, *carry[1:]]),
            lambda fixed, carry: [carry[0] + 1, *_run(self.body, [*fixed, *carry[1:]])],
        )[0]

    def _advance(self, consts: Sequence[Value], state: Sequence[Value], count: Value) -> Values:
        """Emit the state that `state` becomes after `count` iterations."""
        return _while(
            consts,
            [count, *state],
            lambda fixed, carry: [compare(carry[0], "GT", 0)],
            lambda fixed, carry: [carry[0] - 1, *_run(self.body, [*fixed, *carry[1:]])],
        )[1:]

    def _states(
        self, consts: Sequence[Value], start: Sequence[Value], trip_count: Value, stride: Value
    ) -> list[Value]:
        """Emit buffers that contain every `stride`-th of the `trip_count` states, beginning with the first."""
        m = len(start)

        def body(fixed: Values, carry: Values) -> list[Value]:
            trip_count, stride, consts = fixed[0], fixed[1], fixed[2:]
            number, state, buffers = carry[0], carry[1 : 1 + m], carry[1 + m :]
            written = [_set_row(b, x, number) for b, x in zip(buffers, state, strict=True)]
            left = _minimum(stride, trip_count - number * stride)
            return [number + 1, *self._advance(consts, state, left), *written]

        def condition(fixed: Values, carry: Values) -> list[Value]:
            return [compare(carry[0] * fixed[1], "LT", fixed[0])]

        empty = [lead(full(x, False if x.dtype.is_bool else 0), self.rows) for x in start]
        zero = scalar(trip_count, 0, DType.I64)
        results = _while([trip_count, stride, *consts], [zero, *start, *empty], condition, body)
        return list(results[1 + m :])


def _nonlinear_part(part: Subprogram, mask: Sequence[bool], outputs: Sequence[int]) -> Subprogram:
    """Return the sub-program that computes `outputs` from the nonlinear inputs; `outputs` depend on no linear input."""
    graph = Graph()
    inputs = [
        graph.add_stand_in(spec) if is_linear else graph.add_input(spec)
        for spec, is_linear in zip(part.input_specs, mask, strict=True)
    ]
    results = part.emit(graph, inputs)
    nonlinear = [x for x, is_linear in zip(inputs, mask, strict=True) if not is_linear]
    return Subprogram.of(graph, nonlinear, [results[i] for i in outputs])


def _buffer_rows(specs: Sequence[TensorSpec]) -> int:
    """Return the number of states for which a buffer has space, from the bytes of one state."""
    if not all([spec.is_static for spec in specs]):
        return MIN_ROWS
    size = max(sum([spec.nbytes for spec in specs]), 1)
    return min(max(BUFFER_BYTES // size, MIN_ROWS), MAX_ROWS)


Write = Callable[[Values, Values], Sequence[Value]]
"""Function that emits the condition or the body of a loop.

Its arguments are the constants and the carry of the loop.
"""


def _while(
    consts: Sequence[Value], carry: Sequence[Value], condition: Write, body: Write
) -> Values:
    """Emit a while loop; return its last carry."""
    operands = [*consts, *carry]
    n = len(consts)
    parts: list[Subprogram] = []
    for write in (condition, body):
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


def _minimum(x: Value, y: Value) -> Value:
    return select(compare(x, "LT", y), x, y)


def _ceil_divide(x: Value, y: Any) -> Value:
    """Emit x / y rounded up to an integer."""
    y = scalar(x, y) if isinstance(y, int) else y
    return apply_one(Divide(), x + (y - 1), y)


def _stride(trip_count: Value, rows: int) -> Value:
    """Emit the smallest stride, at least 1, with which at most `rows` of the `trip_count` states are stored."""
    stride = _ceil_divide(trip_count, rows)
    return select(compare(stride, "LT", 1), full(stride, 1), stride)


def _set_row(buffer: Value, x: Value, row: Value) -> Value:
    """Emit a copy of the buffer in which x replaces the row with number `row`."""
    op = Scatter(tuple(range(x.rank)), (0,), (), (), (0,), 0, "set", unique_indices=True)
    return apply_one(op, buffer, row, x)


def _rows_at(buffers: Sequence[Value], row: Value) -> list[Value]:
    """Emit the row with number `row` of each buffer."""
    return [
        apply_one(
            Gather(tuple(range(b.rank - 1)), (0,), (), (), (0,), 0, (1, *b.shape[1:])), b, row
        )
        for b in buffers
    ]
