"""Emitters of the control family.

Each sub-program, such as the body of a loop, is written as a private function. The region of the operation calls this
function. The region may use values from outside: the constants of a loop, and the tensors that a scan slices. The
private function receives these captured values as its first arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lowering.emission import emit_instructions
from lowering.emit.emitter import EmitterRows
from lowering.emit.indexing import dynamic_slice_at, dynamic_update_at
from lowering.extents import Extents
from lowering.inference import result_types
from lowering.operations import Block
from lowering.writer import Value, Writer
from tenferro.dims import Symbol, is_static
from tenferro.ops.control import Alternatives, Cond, Scan, While
from tenferro.types import DType, TensorSpec

__all__ = ["ROWS"]

Write = Callable[[Writer, Sequence[Value]], Sequence[Value]]
"""Function `write(inner, arguments)` that writes the body of a private function to the writer `inner`.

It returns the values that the private function returns.
"""


class _Regions:
    """Writer of the regions of one operation, such as the condition and the body of a while loop.

    All regions capture the same values. Symbolic extents are captured too: the private function of a region can use
    only its arguments, so it could not compute the extents.
    """

    def __init__(self, w: Writer, captured: Sequence[Value]) -> None:
        self.writer = w
        leaves = [] if w.extents is None else w.extents.symbols
        self.symbols = [leaf for leaf in leaves if isinstance(leaf, Symbol)]
        extents = [] if w.extents is None else [w.extents.leaf(leaf) for leaf in self.symbols]
        self.captured = [*extents, *captured]

    def region(self, name: str, state: Sequence[TensorSpec], write: Write) -> Block:
        """Write one region, whose block arguments have the types `state`.

        `write` receives a new writer and the arguments of the region's private function: the captured values, followed
        by the block arguments.
        """
        w, count = self.writer, len(self.symbols)
        inner = w.inner([*[value.spec for value in self.captured], *state])
        if w.extents is not None:
            extents = dict(zip(self.symbols, inner.arguments, strict=False))
            inner.extents = Extents(inner, extents)
        results = list(write(inner, inner.arguments[count:]))
        symbol = w.define(name, results, inner)
        return w.calling(symbol, state, [value.spec for value in results], self.captured)


def _run(part: Any, w: Writer, inputs: Sequence[Value]) -> list[Value]:
    """Emit the operations of the sub-program `part` inline, and return its outputs."""
    return emit_instructions(part.program.lowering_view(), w, inputs)


def cond(op: Cond, w: Writer, index: Value, *operands: Value) -> tuple[Value, ...]:
    """Emit `stablehlo.if` if the index is a bool, else `stablehlo.case`.

    The first branch of `stablehlo.if` is for true, but the first branch of `Cond` is for false. So the two branches are
    written in reverse order.
    """
    regions = _Regions(w, operands)

    def branch(part: Any) -> Block:
        return regions.region("branch", (), lambda inner, inputs: _run(part, inner, inputs))

    results = result_types(op, (index, *operands))
    name, parts = ("if", op.branches[::-1]) if index.dtype.is_bool else ("case", op.branches)
    branches = [branch(part) for part in parts]
    return w.operation(f"stablehlo.{name}", (index,), results, regions=branches)


def alternatives(op: Alternatives, w: Writer, *operands: Value) -> Sequence[Value]:
    """Emit the sub-program `op.parallel`; the sequential alternative is for native execution only."""
    return _run(op.parallel, w, operands)


def while_(op: While, w: Writer, *inputs: Value) -> tuple[Value, ...]:
    """Emit `stablehlo.while`, whose loop variables are the carry of the op; its constants are captured."""
    consts, carry = inputs[: op.num_consts], inputs[op.num_consts :]
    regions = _Regions(w, consts)
    state = [value.spec for value in carry]
    test = regions.region("while", state, lambda inner, values: _run(op.cond, inner, values))
    body = regions.region("do", state, lambda inner, values: _run(op.body, inner, values))
    return w.operation("stablehlo.while", carry, state, regions=[test, body])


def scan(op: Scan, w: Writer, *inputs: Value) -> tuple[Value, ...]:
    """Emit a scan as `stablehlo.while`, whose loop variables are a counter, the carry and the stacked outputs."""
    n, m, first = op.num_consts, op.num_carry, op.first_xs
    consts, carry, xs = inputs[:n], inputs[n:first], inputs[first:]
    results = result_types(op, inputs)
    stacks = [w.full(0, spec) for spec in results[m:]]
    if op.length == 0:
        return (
            *carry,
            *stacks,
        )  # no loop, because StableHLO rejects slices of the empty stacks in its body
    counter = TensorSpec.of((), _counter_dtype(op.length))
    length = () if is_static(op.length) else (w.extent(op.length),)
    regions = _Regions(w, (*length, *consts, *xs))
    start = [w.scalar(0, counter.dtype), *carry, *stacks]
    state = [counter, *[value.spec for value in carry], *results[m:]]
    n_captured = len(length) + n + len(xs)

    def end(inner: Writer, values: Sequence[Value]) -> Value:
        return values[0] if length else inner.scalar(op.length, counter.dtype)

    def test(inner: Writer, values: Sequence[Value]) -> Sequence[Value]:
        return [inner.compare("LT", values[n_captured], end(inner, values))]

    def iteration(inner: Writer, values: Sequence[Value]) -> Sequence[Value]:
        captured, (i, *rest) = values[len(length) : n_captured], values[n_captured:]
        one = inner.scalar(1, counter.dtype)
        after = inner.op("add", i, one)
        at = i
        if op.reverse:
            at = inner.op("subtract", end(inner, values), after)
        slices = [dynamic_slice_at(inner, x, at) for x in captured[n:]]
        final = _run(op.body, inner, [*captured[:n], *rest[:m], *slices])
        stacked = [
            dynamic_update_at(inner, stack, y, at)
            for stack, y in zip(rest[m:], final[m:], strict=True)
        ]
        return [after, *final[:m], *stacked]

    blocks = [regions.region("while", state, test), regions.region("do", state, iteration)]
    return w.operation("stablehlo.while", start, state, regions=blocks)[1:]


def _counter_dtype(length: Any) -> DType:
    """Return the dtype of a loop's counter: int32, as is usual on accelerators, or int64 if int32 may overflow."""
    return DType.I32 if is_static(length) and length < 1 << 31 else DType.I64


ROWS: EmitterRows = {Alternatives: alternatives, Cond: cond, Scan: scan, While: while_}
