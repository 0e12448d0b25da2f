"""`check_finite` must name the first op whose result is not finite, and the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors

CHECKED = tnf.GraphExecutor(check_finite=True)


def test_the_first_op_is_named_with_its_line() -> None:
    program = tnf.compile(lambda x: tnf.sum(tnf.log(x) * 0.0), np.ones(3))
    x = np.array([1.0, 0.0, 2.0])
    with pytest.raises(
        errors.NonFiniteError, match=r"(?s)Log: made -inf at \[1\] of 0\.0; 1 of 3.*test_check"
    ):
        CHECKED.run(program, x)
    assert np.isnan(program.run(x))
    np.testing.assert_array_equal(CHECKED.run(program, np.ones(3)), 0.0)


def test_in_gradients_too() -> None:
    gradient = tnf.compile(tnf.grad(lambda x: tnf.sum(tnf.sqrt(x))), np.ones(2))
    with pytest.raises(
        errors.NonFiniteError, match=r"(?s)inf.*test_check_finite.*derivative of Sqrt"
    ):
        CHECKED.run(gradient, np.array([4.0, 0.0]))


def test_what_comes_in_is_no_fault_of_an_op() -> None:
    program = tnf.compile(lambda x: tnf.exp(x) + 1, np.ones(2))
    found = CHECKED.run(program, np.array([-np.inf, np.nan]))
    assert found[0] == 1.0
    assert np.isnan(found[1])
    with pytest.raises(errors.NonFiniteError, match="Subtract: made nan"):
        CHECKED.run(tnf.compile(lambda x: x - x, np.ones(2)), np.array([np.inf, 1.0]))


X = np.array([1.0, 2.0, 3.0])
Q = np.ones((1, 2, 3, 4))


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (tnf.nn.softmax, X), (tnf.nn.log_softmax, X), (tnf.nn.logsumexp, X), (tnf.nanmax, X), (tnf.nanmin, X),
        (tnf.cumulative_sum, X), (tnf.lax.cummax, X), (tnf.lax.cumlogsumexp, X),
        (lambda x: tnf.hypot(x, x), X), (lambda x: tnf.max(x, initial=-np.inf), X),
        (lambda x: tnf.nn.dot_product_attention(x, x, x, is_causal=True), Q),
        (tnf.grad(lambda x: tnf.sum(tnf.logaddexp(x, 2 * x))), X),
        (tnf.grad(lambda x: tnf.sum(tnf.atan2(x, 2 * x))), X),
        (tnf.grad(lambda x: tnf.sum(tnf.nn.softmax(x) * X)), X),
        (lambda x: tnf.scan(lambda c, e: (tnf.maximum(c, e), c), -np.inf, x)[0], X),
    ],
)  # fmt: skip
def test_constants_of_finite_functions_may_be_infinite(function: Any, x: Any) -> None:
    program = tnf.compile(function, x)
    np.testing.assert_allclose(CHECKED.run(program, x), program.run(x), rtol=1e-12)


def test_constants_are_no_fault_of_an_op() -> None:
    def f(x: Any) -> Any:
        return tnf.where(x > 2, x, np.inf), x + np.array([np.nan, 0, 0]), np.array([-np.inf])

    large, holed, constant = CHECKED.run(tnf.compile(f, X), X)
    np.testing.assert_array_equal(large, [np.inf, np.inf, 3.0])
    np.testing.assert_array_equal(holed, [np.nan, 2.0, 3.0])
    assert constant == -np.inf


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tnf.scan(lambda c, e: (tnf.where(e > 2, e, np.inf), c), 0.0, x)[1],
        lambda x: tnf.cond(x[0] > 0, lambda x: tnf.maximum(x, np.inf), lambda x: x, x),
        lambda x: tnf.switch(1, [lambda x: x, lambda x: tnf.maximum(x, np.inf)], x),
        lambda x: tnf.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, tnf.where(c[1] > 0, np.inf, c[1])), (0, x)
        )[1],
    ],
)
def test_loops_and_choices_make_nothing_by_themselves(function: Any) -> None:
    assert np.isposinf(CHECKED.run(tnf.compile(function, X), X)).any()


def test_what_is_made_of_constants_is_made() -> None:
    zeros = tnf.compile(lambda x: tnf.log(tnf.zeros_like(x)) + x, X)
    with pytest.raises(errors.NonFiniteError, match="Log: made -inf"):
        CHECKED.run(zeros, X)
    infinities = tnf.compile(lambda x: tnf.zeros_like(x) * np.inf, X)
    with pytest.raises(errors.NonFiniteError, match="Multiply: made nan"):
        CHECKED.run(infinities, X)


def test_every_kind_of_number() -> None:
    for dtype in ("float16", "bfloat16", "float32", "complex128"):
        x = np.array([0.0, 1.0]).astype(tnf.DType.of(dtype).dtype)
        program = tnf.compile(lambda x: (x * 2) / x, x)
        with pytest.raises(errors.NonFiniteError, match="Divide: made"):
            CHECKED.run(program, x)
    ints = np.array([1, 0])
    assert CHECKED.run(tnf.compile(lambda x: x * 2, ints), ints)[0] == 2
