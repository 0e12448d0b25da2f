"""Bounded loops must stop when their condition fails.

They must have the bits and the number of iterations of a while loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import optree
import pytest

import tenferro as tnf
from tenferro import passes
from tenferro.ops.control import ControlOp, Scan, While

NATIVE = tnf.GraphExecutor()
INTERPRETED = tnf.GraphExecutor(compiled=False)
UNTOUCHED = tnf.GraphExecutor(passes=(), compiled=False)


def root(steps: int) -> Any:
    """Return a function that computes square roots by Newton's method, and counts the iterations."""

    def more(state: Any) -> Any:
        x, _, a = state
        return tnf.max(tnf.abs(x * x - a)) > 1e-12

    def step(state: Any) -> Any:
        x, count, a = state
        return 0.5 * (x + a / x), count + 1, a

    return lambda a: tnf.while_loop(more, step, (tnf.ones_like(a), 0, a), max_steps=steps)


def kinds(program: Any) -> list[type]:
    return [type(i.op) for i in program.instructions if isinstance(i.op, ControlOp)]


A = np.array([2.0, 9.0, 0.5])


@pytest.mark.parametrize("executor", [NATIVE, INTERPRETED], ids=["native", "interpreted"])
def test_a_bound_of_a_thousand_million_iterations_runs_those_of_the_loop(executor: Any) -> None:
    compiled: Any = tnf.jit(root(10**9), executor=executor)
    x, count, _ = compiled(A)
    np.testing.assert_allclose(x, np.sqrt(A), rtol=1e-14)
    assert count == 6


@pytest.mark.parametrize("steps", [1, 5, 6, 7, 40])
def test_values_and_gradients_are_those_of_the_scan(steps: int) -> None:
    program = tnf.compile(root(steps), A)
    loss = tnf.grad(lambda a: tnf.sum(root(steps)(a)[0] ** 3))
    gradient = tnf.compile(loss, A)
    assert kinds(passes.stop_early(program)) == [While]
    assert kinds(passes.stop_early(gradient)) == [While, Scan]
    for each in (program, gradient):
        expected = UNTOUCHED.run(each, A)
        for executor in (NATIVE, INTERPRETED):
            results = executor.run(each, A)
            leaves, wanted = optree.tree_leaves(results), optree.tree_leaves(expected)
            for y, want in zip(leaves, wanted, strict=True):
                np.testing.assert_allclose(y, want, rtol=1e-15)
    assert np.isnan(UNTOUCHED.run(gradient, A)).all() == (steps < 6)


def test_rows_after_the_end_are_those_of_the_first_idle_iteration() -> None:
    def f(x: Any) -> Any:
        def body(x: Any, _: Any) -> Any:
            goes_on = x < 50.0
            return tnf.cond(goes_on, lambda x: x * x, lambda x: x, x), (x, goes_on, x * 2)

        return tnf.scan(body, x, length=6)

    program = tnf.compile(f, 2.0)
    assert kinds(passes.stop_early(program)) == [While]
    last, (xs, flags, doubles) = NATIVE.run(program, 2.0)
    assert last == 256.0
    np.testing.assert_array_equal(xs, [2.0, 4.0, 16.0, 256.0, 256.0, 256.0])
    np.testing.assert_array_equal(flags, [True] * 3 + [False] * 3)
    np.testing.assert_array_equal(doubles, 2 * xs)


UNCHANGED = {
    "a carry that moves on beside it": lambda c, _: (
        (tnf.cond(c[0] < 9.0, lambda x: x * 2, lambda x: x, c[0]), c[1] + 1),
        None,
    ),
    "a branch that changes it": lambda c, _: (
        (tnf.cond(c[0] < 9.0, lambda x: x * 2, lambda x: x + 1, c[0]), c[1]),
        None,
    ),
    "a branch that swaps": lambda c, _: (
        tnf.cond(c[0] < 9.0, lambda c: (c[0] * 2, c[1]), lambda c: (c[1], c[0]), c),
        None,
    ),
    "two conditionals": lambda c, _: (
        (
            tnf.cond(c[0] < 9.0, lambda x: x * 2, lambda x: x, c[0]),
            tnf.cond(c[1] < 3.0, lambda x: x + 1, lambda x: x, c[1]),
        ),
        None,
    ),
}


@pytest.mark.parametrize("body", UNCHANGED.values(), ids=UNCHANGED)
def test_other_scans_stay(body: Any) -> None:
    program = tnf.compile(lambda x, y: tnf.scan(body, (x, y), length=7)[0], 1.5, 0.5)
    assert passes.stop_early(program) is program
    np.testing.assert_array_equal(NATIVE.run(program, 1.5, 0.5), UNTOUCHED.run(program, 1.5, 0.5))


def test_slices_may_start_it_again() -> None:
    body = lambda c, x: (tnf.cond(x > 0, lambda c: c + x, lambda c: c, c), None)
    program = tnf.compile(lambda xs: tnf.scan(body, 0.0, xs)[0], np.ones(4))
    assert passes.stop_early(program) is program
    assert NATIVE.run(program, np.array([1.0, -1.0, 2.0, -3.0])) == 3.0
