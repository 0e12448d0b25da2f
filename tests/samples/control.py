"""Samples of loops and conditionals with small bodies.

The same loops in Python compute the results. All numbers are small integers, so that every dtype represents them
exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenferro.graph import GraphBuilder
from tenferro.ops import control as ops
from tenferro.ops.elementwise import Add, And, Compare, Multiply, Not, Or, Xor
from tenferro.ops.structural import Reshape, Slice
from tenferro.program import Subprogram
from tenferro.types import DType
from tests.samples.sample import COMMON, Array, OpSample, SampleRows

Write = Callable[..., Sequence[int]]


def part(write: Write, *arrays: Array) -> Subprogram:
    """Return the sub-program that `write` builds, for inputs with the types of these arrays."""
    builder = GraphBuilder()
    inputs = [builder.input(x.shape, x.dtype) for x in arrays]
    return Subprogram.of(builder.graph, inputs, write(builder, *inputs))


def small(shape: tuple[int, ...], dtype: DType, seed: int) -> Array:
    """Return random integers from 0 to 2.

    Complex dtypes also have an imaginary part, and for bool the result has random bools.
    """
    generator = np.random.default_rng([seed, *shape])
    values = generator.integers(0, 3, shape)
    if dtype.is_bool:
        return np.asarray(values % 2 == 1)
    if dtype.is_complex:
        return np.asarray(values + 1j * generator.integers(-1, 2, shape)).astype(dtype.dtype)
    return np.asarray(values).astype(dtype.dtype)


def plus(dtype: DType) -> Any:
    return Xor() if dtype.is_bool else Add()


def times(dtype: DType) -> Any:
    return And() if dtype.is_bool else Multiply()


def added(a: Array, b: Array) -> Array:
    return np.asarray(a ^ b if a.dtype == bool else a + b).astype(a.dtype)


def multiplied(a: Array, b: Array) -> Array:
    return np.asarray(a & b if a.dtype == bool else a * b).astype(a.dtype)


# ---- scan ------------------------------------------------------------------------------------------


def recurrence(dtype: DType) -> Write:
    """Return the body of a scan that computes h' = h + c x and stacks h x."""

    def write(b: GraphBuilder, c: int, h: int, x: int) -> Sequence[int]:
        after = b.apply_one(plus(dtype), h, b.apply_one(times(dtype), c, x))
        return [after, b.apply_one(times(dtype), h, x)]

    return write


def scanned(dtype: DType, length: int, reverse: bool, shape: tuple[int, ...]) -> OpSample:
    c, h = small(shape, dtype, 1), small(shape, dtype, 2)
    xs = small((length, *shape), dtype, 3)
    op = ops.Scan(part(recurrence(dtype), c, h, c), length, 1, 1, reverse)
    carry, ys = h, np.zeros((length, *shape), dtype.dtype)
    for t in reversed(range(length)) if reverse else range(length):
        ys[t] = multiplied(carry, xs[t])
        carry = added(carry, multiplied(c, xs[t]))
    label = f"{dtype.short}-{length}-{'down' if reverse else 'up'}-{len(shape)}"
    return OpSample(op, (c, h, xs), (carry, ys), label=label)


def powers(dtype: DType) -> OpSample:
    """Return a sample of a scan that computes h' = c h. It has no scanned inputs and no stacked outputs."""
    c, h = small((3,), dtype, 4), small((3,), dtype, 5)

    def write(b: GraphBuilder, c: int, h: int) -> Sequence[int]:
        return [b.apply_one(times(dtype), c, h)]

    carry = h
    for _ in range(3):
        carry = multiplied(c, carry)
    op = ops.Scan(part(write, c, h), 3, 1, 1)
    return OpSample(op, (c, h), (carry,), label=f"{dtype.short}-powers")


def mapped(dtype: DType) -> OpSample:
    """Return a sample of a scan without a carry. It stacks x x and x."""
    xs = small((4, 2), dtype, 6)

    def write(b: GraphBuilder, x: int) -> Sequence[int]:
        return [b.apply_one(times(dtype), x, x), x]

    op = ops.Scan(part(write, xs[0]), 4, 0, 0)
    return OpSample(op, (xs,), (multiplied(xs, xs), xs), label=f"{dtype.short}-map")


def scans() -> list[OpSample]:
    found: list[OpSample] = []
    for dtype in COMMON:
        found += [scanned(dtype, 4, reverse, (2,)) for reverse in (False, True)]
        found += [scanned(dtype, length, False, ()) for length in (0, 1, 3)]
        found += [scanned(dtype, 2, False, (3, 2)), powers(dtype), mapped(dtype)]
    return found


# ---- while -----------------------------------------------------------------------------------------


def counted(dtype: DType, iterations: int) -> OpSample:
    """Return a sample of a while loop that computes x' = x + c while i < `iterations`."""
    c, x, i = small((2, 3), dtype, 7), small((2, 3), dtype, 8), np.zeros((), np.int32)

    def goes_on(b: GraphBuilder, c: int, x: int, i: int) -> Sequence[int]:
        return [b.apply_one(Compare("LT"), i, b.constant(np.int32(iterations)))]

    def body(b: GraphBuilder, c: int, x: int, i: int) -> Sequence[int]:
        return [b.apply_one(plus(dtype), x, c), b.apply_one(Add(), i, b.constant(np.int32(1)))]

    result = x
    for _ in range(iterations):
        result = added(result, c)
    inputs = (c, x, i)
    op = ops.While(part(goes_on, *inputs), part(body, *inputs), 1)
    expected = (result, np.asarray(iterations, np.int32))
    return OpSample(op, inputs, expected, label=f"{dtype.short}-{iterations}-turns")


def whiles() -> list[OpSample]:
    return [counted(dtype, iterations) for dtype in COMMON for iterations in (0, 1, 5)]


# ---- cond --------------------------------------------------------------------------------------------


def doubled(dtype: DType) -> Write:
    def write(b: GraphBuilder, x: int, y: int) -> Sequence[int]:
        return [b.apply_one(plus(dtype), x, y), x]

    return write


def crossed(dtype: DType) -> Write:
    def write(b: GraphBuilder, x: int, y: int) -> Sequence[int]:
        return [b.apply_one(times(dtype), x, y), y]

    return write


def constant(dtype: DType) -> Write:
    def write(b: GraphBuilder, x: int, y: int) -> Sequence[int]:
        return [b.constant(np.ones((2, 3), dtype.dtype)), b.apply_one(plus(dtype), y, y)]

    return write


def chosen(dtype: DType, index: Any) -> OpSample:
    x, y = small((2, 3), dtype, 9), small((2, 3), dtype, 10)
    writers = [doubled(dtype), crossed(dtype), constant(dtype)]
    results = [(added(x, y), x), (multiplied(x, y), y), (np.ones((2, 3), dtype.dtype), added(y, y))]
    if index.dtype == bool:
        writers, results = writers[:2], results[:2]
    number = int(index)
    number = number if 0 <= number < len(writers) else len(writers) - 1
    op = ops.Cond(tuple(part(write, x, y) for write in writers))
    return OpSample(op, (index, x, y), results[number], label=f"{dtype.short}-{index}")


def negated(flag: bool) -> OpSample:
    """Return a sample of a conditional whose operands are scalars."""
    x = np.asarray(True)

    def yes(b: GraphBuilder, x: int) -> Sequence[int]:
        return [b.apply_one(Not(), x)]

    def no(b: GraphBuilder, x: int) -> Sequence[int]:
        return [b.apply_one(Or(), x, x)]

    op = ops.Cond((part(no, x), part(yes, x)))
    return OpSample(op, (np.asarray(flag), x), (np.asarray(not flag),), label=f"rank0-{flag}")


def conds() -> list[OpSample]:
    flags = [np.asarray(flag) for flag in (False, True)]
    numbers = [np.asarray(number, np.int32) for number in (0, 1, 2, 7, -3)]
    found = [chosen(dtype, index) for dtype in COMMON for index in (*flags, *numbers)]
    return found + [negated(flag) for flag in (False, True)]


def added_up(dtype: DType) -> OpSample:
    """Return a sample of an op with two alternatives.

    Both add three rows to `start`: the first by a scan, and the second all at once.
    """
    x = small((3, 2), dtype, 6)
    row = x[0]

    def step(b: GraphBuilder, total: int, row: int) -> Sequence[int]:
        return [b.apply_one(plus(dtype), total, row)]

    def sequential(b: GraphBuilder, start: int, x: int) -> Sequence[int]:
        return b.apply(ops.Scan(part(step, row, row), 3, 0, 1), start, x)

    def parallel(b: GraphBuilder, start: int, x: int) -> Sequence[int]:
        rows = [
            b.apply_one(Reshape((2,)), b.apply_one(Slice((t, 0), (t + 1, 2), (1, 1)), x))
            for t in range(3)
        ]
        first = b.apply_one(plus(dtype), start, rows[0])
        return [b.apply_one(plus(dtype), first, b.apply_one(plus(dtype), rows[1], rows[2]))]

    start = small((2,), dtype, 7)
    op = ops.Alternatives(part(sequential, start, x), part(parallel, start, x))
    total = start
    for t in range(3):
        total = added(total, x[t])
    return OpSample(op, (start, x), (total,), label=dtype.short)


ROWS: SampleRows = {
    ops.Alternatives: [added_up(dtype) for dtype in COMMON],
    ops.Cond: conds(),
    ops.While: whiles(),
    ops.Scan: scans(),
}

__all__ = ["ROWS", "part", "small"]
