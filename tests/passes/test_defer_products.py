"""Products that a scan accumulates must become one product after the scan.

This applies if the sum is large and has no other use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.control import Scan
from tenferro.passes import defer_products
from tenferro.program import GraphProgram

RNG = np.random.default_rng(3)
TURNS = 5
UNTOUCHED = tnf.GraphExecutor(passes=(), compiled=False)
U, V = RNG.standard_normal((2, TURNS, 70))
ZERO = np.zeros((70, 70))
A, B = RNG.standard_normal((2, TURNS, 3, 2, 80))
BATCHED = RNG.standard_normal((3, 80, 80))

Case = tuple[Callable[..., Any], tuple[Any, ...], int]


def scanned(body: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return lambda init, *xs: tnf.scan(body, init, xs, **options)


def outer(u: Any, v: Any) -> Any:
    return tnf.einsum("i,j->ij", u, v)


def batched(a: Any, b: Any) -> Any:
    return tnf.einsum("bki,bkj->bij", a, b)


def outer_of_squares(c: Any, x: Any) -> Any:
    return c + outer(x[0] * x[0], x[1]), x[0] * x[0]


def two_terms(c: Any, x: Any) -> Any:
    u, v = x
    return (tnf.sin(u)[:, None] + c) + outer(u + v, v), None


def two_products(c: Any, x: Any) -> Any:
    u, v = x
    return c + (outer(u + v, v) + outer(v, tnf.cos(u))), u


def of_the_carry(c: Any, x: Any) -> Any:
    total, u = c
    return (total + outer(u, x[1]), tnf.tanh(u + x[0])), u


def behind_another(c: Any, x: Any) -> Any:
    u, total = c
    return (tnf.tanh(u + x[0]), tnf.sin(u)[:, None] + total + outer(u, x[1])), u


DEFERRED: dict[str, Case] = {
    "with another term, of another carry in front": (
        lambda total, u, v: tnf.scan(behind_another, (u[0], total), (u, v)),
        (ZERO + 2.0, U, V),
        1,
    ),
    "what the loop takes": (scanned(lambda c, x: (c + outer(*x), None)), (ZERO, U, V), 1),
    "backwards": (
        scanned(lambda c, x: (outer(*x) + c, x[0] + 1.0), reverse=True),
        (ZERO + 1.0, U, V),
        1,
    ),
    "what it stacks": (scanned(outer_of_squares), (ZERO, U, V), 1),
    "with another term": (scanned(two_terms), (ZERO, U, V), 1),
    "two products": (scanned(two_products), (ZERO, U, V), 2),
    "of another carry": (
        lambda total, u, v: tnf.scan(of_the_carry, (total, u[0]), (u, v)),
        (ZERO, U, V),
        1,
    ),
    "with batch axes and terms": (
        scanned(lambda c, x: (c + batched(*x), None)),
        (BATCHED, A, B),
        1,
    ),
    "complex numbers": (
        scanned(lambda c, x: (c + outer(tnf.conj(x[0]), x[1]), None)),
        (ZERO + 1j, U + 1j * V, V - 2j * U),
        1,
    ),
    "no iterations": (scanned(lambda c, x: (c + outer(*x), None)), (ZERO + 1.0, U[:0], V[:0]), 1),
}

KEPT: dict[str, Case] = {
    "a sum that is read": (
        scanned(lambda c, x: (c + outer(*x), c[0, 0])),
        (ZERO, U, V),
        0,
    ),
    "a total that is stacked": (
        lambda init, u, v: tnf.scan(lambda c, x: ((y := c + outer(*x)), y), init, (u, v)),
        (ZERO, U, V),
        0,
    ),
    "a sum that is scaled": (
        scanned(lambda c, x: (0.5 * c + outer(*x), None)),
        (ZERO, U, V),
        0,
    ),
    "twice the carry": (scanned(lambda c, x: (c + c + outer(*x), None)), (ZERO, U, V), 0),
    "a product that is stacked": (
        lambda init, u, v: tnf.scan(lambda c, x: (c + (p := outer(*x)), p), init, (u, v)),
        (ZERO, U, V),
        0,
    ),
    "of a constant": (
        lambda init, u, v: tnf.scan(lambda c, x: (c + outer(v[0], x), None), init, u),
        (ZERO, U, V),
        0,
    ),
    "halves, which are rounded in each iteration": (
        scanned(lambda c, x: (c + outer(*x), None)),
        (ZERO.astype("f2"), U.astype("f2"), V.astype("f2")),
        0,
    ),
    "a small sum": (
        scanned(lambda c, x: (c + outer(*x), None)),
        (ZERO[:50, :50], U[:, :50], V[:, :50]),
        0,
    ),
    "operands as large as the sum": (
        scanned(lambda c, x: (c + x[0].T @ x[1], None)),
        (ZERO, RNG.standard_normal((TURNS, 50, 70)), RNG.standard_normal((TURNS, 50, 70))),
        0,
    ),
    "stacks that are much larger": (
        lambda c, u: tnf.scan(lambda c, i: (c + outer(u + i, u - i), None), c, tnf.arange(2000.0)),
        (ZERO, U[0]),
        0,
    ),
}  # fmt: skip


def scans_of(program: GraphProgram) -> list[Scan]:
    return [step.op for step in program.instructions if isinstance(step.op, Scan)]


def products_inside(program: GraphProgram) -> int:
    """Return the number of matrix products in the bodies of a program's scans; 0 if there is no scan."""
    steps = [step for scan in scans_of(program) for step in scan.body.program.instructions]
    return sum([isinstance(step.op, DotGeneral) for step in steps])


@pytest.mark.parametrize("name", [*DEFERRED, *KEPT])
def test_sums_are_the_same(name: str) -> None:
    function, arrays, products = (DEFERRED | KEPT)[name]
    program = tnf.compile(function, *arrays)
    after = defer_products(program)
    assert (after is program) is (not products)
    behind = [step for step in after.instructions if isinstance(step.op, DotGeneral)]
    assert len(behind) == products
    assert products_inside(after) == products_inside(program) - products
    expected = tnf.tree.leaves(UNTOUCHED.run(program, *arrays))
    for y, exact in zip(tnf.tree.leaves(UNTOUCHED.run(after, *arrays)), expected, strict=True):
        assert y.shape == exact.shape
        assert y.dtype == exact.dtype
        np.testing.assert_allclose(y, exact, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("rows", "columns", "terms", "length", "is_deferred"),
    [
        (64, 64, 1, 5, True), (64, 63, 1, 5, False), (32, 128, 1, 5, True),
        (64, 64, 16, 5, True), (64, 64, 17, 5, False),
        (64, 64, 1, 256, True), (64, 64, 1, 257, False), (64, 64, 2, 128, True), (64, 64, 2, 129, False),
    ],
)  # fmt: skip
def test_sizes_of_deferred_sums(
    rows: int, columns: int, terms: int, length: int, is_deferred: bool
) -> None:
    """A sum must be deferred if it is large enough.

    It must have 4096 elements, twice as many as its operands in an iteration, and an eighth of those of the stacked
    operands.
    """

    def body(c: Any, i: Any) -> Any:
        u, v = tnf.full((terms, rows), i), tnf.full((terms, columns), i)
        return c + tnf.sin(u).T @ tnf.cos(v), None

    program = tnf.compile(
        lambda c: tnf.scan(body, c, tnf.arange(float(length)))[0], np.zeros((rows, columns))
    )
    assert (defer_products(program) is not program) == is_deferred


@pytest.mark.parametrize("read_again", [False, True])
def test_transposed_products_are_deferred_unless_they_are_read_again(read_again: bool) -> None:
    def body(c: Any, x: Any) -> Any:
        y = outer(x[0], x[1])
        return c + y.T, (y[0] if read_again else x[0])

    program = tnf.compile(lambda c, u, v: tnf.scan(body, c, (u, v)), ZERO, U, V)
    after = defer_products(program)
    assert products_inside(after) == int(read_again)
    expected = sum([np.outer(v, u) for u, v in zip(U, V, strict=True)])
    total = UNTOUCHED.run(after, ZERO, U, V)[0]
    np.testing.assert_allclose(total, expected, rtol=1e-13, atol=1e-13)


def test_a_carry_that_only_takes_products_leaves_the_loop() -> None:
    function, arrays, _ = DEFERRED["of another carry"]
    program = tnf.compile(function, *arrays)
    (before,), (after,) = scans_of(program), scans_of(defer_products(program))
    assert (before.num_carry, after.num_carry) == (2, 1)


def test_gradients_by_a_matrix_in_a_loop_are_one_product() -> None:
    matrix = RNG.standard_normal((70, 70)) / 10

    def loss(a: Any) -> Any:
        return tnf.sum(tnf.fori_loop(0, 6, lambda _, x: tnf.sin(a @ x), tnf.ones(70)) ** 2)

    program = tnf.compile(tnf.grad(loss), matrix)
    assert [scan.num_carry for scan in scans_of(defer_products(program))] == [1, 1]
    expected = UNTOUCHED.run(program, matrix)
    for compiled in ("auto", False):
        y = tnf.GraphExecutor(compiled=compiled).run(program, matrix)
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-13)
