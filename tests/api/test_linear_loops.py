"""Linear maps that are loops or conditionals.

Only their linear carries may be transposed, not their counters and predicates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from xla_peer import XlaExecutor

WEIGHTS = np.arange(1.0, 10.0).reshape(3, 3)
V = np.linspace(1.0, 2.0, 3)


def unread_counter(x: Any, w: Any) -> Any:
    def body(carry: Any, row: Any) -> Any:
        i, y = carry
        return (i + 1, y * 2 + row * x), y

    return tnf.scan(body, (np.int32(0), tnf.zeros(3)), w)[0][1]


def counter(x: Any, w: Any) -> Any:
    def body(carry: Any, row: Any) -> Any:
        i, y = carry
        return (i + 1, y * 2 + row * x * tnf.astype(i, "float64")), y

    return tnf.scan(body, (np.int32(0), tnf.zeros(3)), w)[0][1]


def constant_carry(x: Any, w: Any) -> Any:
    """Scan with an integer carry that changes in the first iteration only: from 0 to 3."""

    def body(carry: Any, row: Any) -> Any:
        i, y = carry
        return (np.int32(3), y * 2 + row * x * tnf.astype(i, "float64")), y

    return tnf.scan(body, (np.int32(0), tnf.zeros(3)), w)[0][1]


def float_counter(x: Any, w: Any) -> Any:
    def body(carry: Any, row: Any) -> Any:
        i, y = carry
        return (i * 0.5 + 1, y * 2 + row * x * i), y

    return tnf.scan(body, (np.float64(0), tnf.zeros(3)), w)[0][1]


def carries_of_each_other(x: Any, w: Any) -> Any:
    """Scan with two counters, one of which sums the values of the other.

    The stacked slices are results of the linear map, too.
    """

    def body(carry: Any, row: Any) -> Any:
        i, j, y = carry
        return (i + 1.0, j + i, y * j + row @ x), y * i

    (_, _, y), slices = tnf.scan(body, (1.0, 0.5, tnf.zeros(3)), w)
    return y + 0.5 * slices[2] + x


def backward(x: Any, w: Any) -> Any:
    def body(carry: Any, row: Any) -> Any:
        i, y = carry
        return (i + 1.0, y + row * x * i), y

    return tnf.scan(body, (2.0, tnf.zeros(3)), w, reverse=True)[0][1]


def counted(x: Any, w: Any) -> Any:
    body = lambda i, y: y * 2 + w[0] * x * tnf.astype(i, "float64")
    return tnf.fori_loop(0, 3, body, tnf.zeros(3))


def while_counted(x: Any, w: Any) -> Any:
    body = lambda c: (c[0] + 1, c[1] * 2 + w[0] * x)
    return tnf.while_loop(lambda c: c[0] < 3, body, (np.int32(0), tnf.zeros(3)))[1]


def choice(x: Any, w: Any) -> Any:
    return tnf.cond(tnf.sum(w) > 3, lambda x: w[0] * x, lambda x: w @ x, x)


MAPS = [
    unread_counter, counter, constant_carry, float_counter, carries_of_each_other, backward, counted, choice,
]  # fmt: skip
Map = Callable[[Any, Any], Any]


def matrix_of(fn: Map, w: Any) -> Any:
    return np.stack([np.asarray(fn(one, w)) for one in np.eye(3)], 1)


@pytest.mark.parametrize("fn", [*MAPS, while_counted])
def test_tangents_that_are_loops_are_transposed(fn: Map) -> None:
    """A custom rule may compute its tangent by a loop. Reverse mode must be able to transpose this loop."""

    @tnf.custom_jvp
    def value(x: Any) -> Any:
        return fn(x, WEIGHTS)

    @value.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return fn(primals[0], WEIGHTS), fn(tangents[0], WEIGHTS)

    wanted = matrix_of(fn, WEIGHTS).T @ V
    loss = lambda x: tnf.sum(V * value(x))
    program = tnf.compile(tnf.grad(loss), np.ones(3))
    for gradient in (
        tnf.grad(loss)(np.ones(3)),
        program.run(np.ones(3)),
        XlaExecutor().run(program, np.ones(3)),
    ):
        np.testing.assert_allclose(gradient, wanted, rtol=1e-13)


@pytest.mark.parametrize("fn", MAPS)
def test_systems_of_loops(fn: Map) -> None:
    """The gradient of a linear solve must transpose its `matvec`, here a loop.

    The transposition must not evaluate the loop's linear carries, which have no values.
    """

    def loss(b: Any, w: Any) -> Any:
        direct = lambda matvec, b: tnf.linalg.solve(tnf.jacfwd(matvec)(b), b)
        return tnf.sum(V * tnf.custom_linear_solve(lambda x: fn(x, w), b, direct, direct))

    b = np.array([1.0, -2.0, 0.5])
    b_bar, w_bar = tnf.grad(loss, (0, 1))(b, WEIGHTS)
    matrix = matrix_of(fn, WEIGHTS)
    np.testing.assert_allclose(b_bar, np.linalg.solve(matrix.T, V), rtol=1e-11)
    step = 1e-6
    for place in np.ndindex(3, 3):
        moved = step * (np.arange(9).reshape(3, 3) == place[0] * 3 + place[1])
        ends = [V @ np.linalg.solve(matrix_of(fn, WEIGHTS + sign * moved), b) for sign in (1, -1)]
        np.testing.assert_allclose(
            w_bar[place], (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-8
        )


def test_a_rule_inside_a_counting_loop_is_refused() -> None:
    """A custom rule in the body of a linear loop must raise an error.

    Transposition reduces the loop to its linear carry, and would lose the rule.
    """

    @tnf.custom_jvp
    def doubled(x: Any) -> Any:
        return 2.0 * x

    doubled.defjvp(lambda primals, tangents: (2.0 * primals[0], 20.0 * tangents[0]))

    def marked(x: Any) -> Any:
        body = lambda i, y: y * 2 + doubled(x) * tnf.astype(i, "float64")
        return tnf.fori_loop(0, 3, body, tnf.zeros(3))

    def loss(b: Any) -> Any:
        direct = lambda matvec, b: b / 8.0
        turned = lambda vecmat, b: vecmat(b)
        return tnf.sum(V * tnf.custom_linear_solve(marked, b, direct, turned))

    with pytest.raises(
        errors.InvalidConfigError, match="its Scan holds a function with a derivative of its own"
    ):
        tnf.grad(loss)(np.ones(3))


def test_a_loop_that_is_not_linear_is_refused() -> None:
    def product(x: Any) -> Any:
        return tnf.scan(lambda y, row: (y * x + row, y), tnf.zeros(3), WEIGHTS)[0]

    solve = lambda _, b: b
    with pytest.raises(errors.InvalidConfigError, match="product is not linear"):
        tnf.grad(lambda b: tnf.sum(tnf.custom_linear_solve(product, b, solve, solve)))(np.ones(3))
