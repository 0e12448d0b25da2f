"""A loop that is printed as Python must have the interpreter's bits, and must not change the caller's arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf

RNG = np.random.default_rng(11)
X, Y = RNG.standard_normal((2, 7))
A = RNG.standard_normal((5, 6))
BY_STEPS = tnf.GraphExecutor("K", compiled=False, segmented=False)
PRINTED = tnf.GraphExecutor("K", compiled=False)
Case = tuple[Callable[..., Any], tuple[Any, ...]]


def int32(value: int) -> Any:
    return np.array(value, np.int32)


def set_and_read_before(x: Any) -> Any:
    """Set an element of the carry, and then read the carry as it was before."""
    return tnf.fori_loop(0, 6, lambda i, c: c.at[i].set(c[i + 1] * 2.0) + 0.0 * c, x)


def history(x: Any) -> Any:
    def turn(c: Any, i: Any) -> Any:
        new = c.at[i].add(1.5)
        return new, (c[i], new[i], c)

    return tnf.scan(turn, x, tnf.arange(7))


def swapped(x: Any, y: Any) -> Any:
    return tnf.fori_loop(0, 5, lambda i, c: (c[1].at[i].set(c[0][i]), c[0]), (x, y))


def same_twice(x: Any) -> Any:
    return tnf.fori_loop(
        0, 4, lambda i, c: (c[0].at[i].set(9.0), c[1].at[i + 1].set(c[0][i])), (x, x)
    )


def nested(a: Any) -> Any:
    def row(i: Any, a: Any) -> Any:
        return tnf.fori_loop(0, 6, lambda j, a: a.at[i, j].set(a[i, j - 1] + a[i - 1, j]), a)

    return tnf.fori_loop(1, 5, row, a)


def triangle(a: Any) -> Any:
    """Run an inner loop whose number of iterations is the counter of the outer loop."""
    return tnf.fori_loop(
        0, 5, lambda i, a: tnf.fori_loop(0, i, lambda j, a: a.at[i, j].add(a[j, i]), a), a
    )


def wraps(x: Any) -> Any:
    """Carry an int32 counter that must wrap, because its product exceeds the range of int32."""
    step = lambda c: (c[0] * int32(100_003) + int32(7), c[1] + x[c[0] % 7])
    return tnf.fori_loop(0, 9, lambda _, c: step(c), (int32(2_000_000_000), x[0]))


def small_counter(x: Any) -> Any:
    return tnf.fori_loop(
        0,
        300,
        lambda _, c: (c[0] + np.uint8(3), c[1] + c[0]),
        (np.array(250, "u1"), np.array(0, "u1")),
    )


def beyond(x: Any) -> Any:
    """Use start indices that are out of bounds: large ones are clamped, and negative ones count from the end."""

    def turn(i: Any, c: Any) -> Any:
        window = tnf.lax.dynamic_slice(c, (i * 3 - 4,), (3,))
        return tnf.lax.dynamic_update_slice(c, window + 1.0, (5 - i * 4,))

    return tnf.fori_loop(0, 6, turn, x)


def until(x: Any) -> Any:
    return tnf.while_loop(
        lambda c: tnf.logical_and(c[0] < 20, c[1][c[0] % 7] < 3.0),
        lambda c: (c[0] + 1, c[1].at[c[0] % 7].add(0.75)),
        (0, x),
    )


def chosen(x: Any) -> Any:
    return tnf.fori_loop(
        0,
        7,
        lambda i, c: tnf.cond(
            c[i] > 0, lambda c: c.at[i].set(-c[i]), lambda c: c.at[0].add(1.0), c
        ),
        x,
    )


def repeated(x: Any) -> Any:
    """Carry an array and a broadcast view of the same array."""
    turn = lambda c, _: ((c[0] + 1.0, tnf.broadcast_to(c[0], (2, 7))), tnf.sum(tnf.exp(c[1])))
    return tnf.scan(turn, (x, tnf.stack([x, x])), None, length=3)


def diagonals(a: Any) -> Any:
    """Carry an array and its diagonal. NumPy returns the diagonal as a view that must not be written."""
    turn = lambda c, _: ((c[0] + 1.0, tnf.linalg.diagonal(c[0])), tnf.sum(tnf.exp(c[1])))
    return tnf.scan(turn, (a, a[0]), None, length=3)


CASES: dict[str, Case] = {
    "set, and read what was there": (set_and_read_before, (X,)),
    "what was stacked stays": (history, (X,)),
    "two that change places": (swapped, (X, Y)),
    "one value in two carries": (same_twice, (X,)),
    "nested": (nested, (A,)),
    "a length that counts": (triangle, (A[:, :5],)),
    "integers that wrap": (wraps, (X,)),
    "eight bits": (small_counter, (X,)),
    "starts beyond the ends": (beyond, (X,)),
    "until a value": (until, (X,)),
    "a choice in each turn": (chosen, (X,)),
    "a carry that repeats another": (repeated, (X,)),
    "a carry that is another's diagonal": (diagonals, (A[:5, :5],)),
    "no turns": (lambda x: tnf.fori_loop(3, 3, lambda i, c: c.at[i].set(0.0), x), (X,)),
    "single numbers": (lambda x: tnf.fori_loop(0, 5, lambda i, c: c * x[i] - i, 1.5), (X,)),
    "not numbers": (lambda x: tnf.fori_loop(0, 5, lambda i, c: c.at[i].set(tnf.maximum(c[i], c[i + 1])), x),
                    (np.array([np.nan, 1.0, -0.0, 0.0, np.inf, -np.inf, np.nan]),)),
    "a fortran array": (nested, (np.asfortranarray(A),)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_the_bits_of_the_steps(name: str) -> None:
    function, arrays = CASES[name]
    program = tnf.compile(function, *arrays)
    before = [x.copy() for x in arrays]
    expected = tnf.tree.leaves(BY_STEPS.run(program, *arrays))
    kept: list[Any] = []
    for _ in range(3):
        results = tnf.tree.leaves(PRINTED.run(program, *arrays))
        kept.append(results)
        assert len(results) == len(expected)
    for results in kept:  # a later run must not have overwritten these results
        for y, exact in zip(results, expected, strict=True):
            assert np.asarray(y).dtype == np.asarray(exact).dtype
            assert np.ascontiguousarray(y).tobytes() == np.ascontiguousarray(exact).tobytes()
    for x, unchanged in zip(arrays, before, strict=True):
        assert x.tobytes() == unchanged.tobytes()
