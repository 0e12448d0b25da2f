"""Sums of padded arrays must become concatenations, with the same bits and the same signs of zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.ops.structural import Concatenate, Pad
from tenferro.passes.join_padded_sums import MIN_TERMS, join_padded_sums
from tenferro.types import TensorSpec

SHAPES = [(5,), (12, 2), (2, 9), (3, 4), (3, 2, 2)]
VALUES = [-0.0, 0.0, 1.5, -1.5, 1e300, -1e300, np.inf, np.nan]


def drawn(seed: int) -> tuple[tnf.GraphProgram, list[Any], Any]:
    """Return a sum of randomly padded arrays as a program, its arguments, and NumPy's result."""
    rng = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    axis = int(rng.integers(len(shape)))
    are_elements = len(shape) > 1 and seed % 3 == 0
    count = int(rng.integers(MIN_TERMS, 3 * MIN_TERMS))
    boxes: list[tuple[slice, ...]] = []
    for _ in range(count):
        box = [slice(0, n) for n in shape]
        for each in range(len(shape)) if are_elements else [axis]:
            start = int(rng.integers(shape[each]))
            size = 1 if are_elements else int(rng.integers(1, min(3, shape[each] - start) + 1))
            box[each] = slice(start, start + size)
        boxes.append(tuple(box))
    has_base = bool(rng.integers(2))
    parts = [rng.choice(VALUES, np.empty(shape)[box].shape) for box in boxes]
    arguments = [*parts, rng.choice(VALUES, shape)] if has_base else parts

    def function(*xs: Any) -> Any:
        total: Any = xs[count] if has_base else None
        for x, box in zip(xs, boxes, strict=False):
            edges = [(b.start, n - b.stop) for b, n in zip(box, shape, strict=True)]
            padded = tnf.pad(x, edges)
            if total is None:
                total = padded
            else:
                total = total + padded if rng.integers(2) else padded + total
        return total

    total = arguments[-1] if has_base else None
    for part, box in zip(parts, boxes, strict=True):
        padded = np.zeros(shape)
        padded[box] = part
        with np.errstate(all="ignore"):
            total = padded if total is None else total + padded
    return (
        tnf.compile(function, *[TensorSpec(x.shape, "float64") for x in arguments]),
        arguments,
        total,
    )


def test_sums_have_the_bits_of_numpy() -> None:
    executor = tnf.GraphExecutor(compiled=False, segmented=False, passes=())
    joined = 0
    for seed in range(120):
        program, arguments, expected = drawn(seed)
        again = join_padded_sums(program)
        joined += again is not program
        y = executor.run(again, *arguments)
        np.testing.assert_array_equal(y, expected)
        is_number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(y)[is_number], np.signbit(expected)[is_number])
    assert joined > 30


def test_terms_that_are_read_elsewhere_or_are_few_stay() -> None:
    def read_again(xs: Any) -> Any:
        pads = [tnf.pad(x, (i, len(xs) - 1 - i)) for i, x in enumerate(xs)]
        return sum(pads[1:], pads[0]), pads

    leaves = [np.ones(1)] * MIN_TERMS
    program = tnf.compile(read_again, leaves)
    assert join_padded_sums(program) is program
    few = tnf.compile(lambda xs: read_again(xs)[0], leaves[1:])
    assert join_padded_sums(few) is few
    one = tnf.compile(lambda x: sum([tnf.pad(x * i, (1, 1)) for i in range(9)]), np.ones(1))
    assert join_padded_sums(one) is one


def test_the_work_is_linear_in_the_number_of_terms() -> None:
    def total(xs: Any) -> Any:
        pads = [tnf.pad(x, ((i, len(xs) - 1 - i), (0, 0))) for i, x in enumerate(xs)]
        return sum(pads[1:], pads[0])

    program = join_padded_sums(tnf.compile(total, [np.ones((1, 2))] * 200))
    kinds = [type(step.op) for step in program.instructions]
    assert kinds.count(Concatenate) == 1
    assert Pad not in kinds
    assert len(kinds) < 10
