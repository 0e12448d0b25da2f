"""If the indices of a scatter are distinct, its derivatives must need no mask, and save only the indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.ops.control import Scan

X = np.arange(12.0).reshape(3, 4) + 0.5
X_BAR = np.cos(np.arange(12.0)).reshape(3, 4)

INDICES: dict[str, Any] = {
    "a number": 1,
    "a row and a column": (1, 2),
    "a window": (slice(1, 3), slice(0, 2)),
    "steps": (slice(0, 3, 2), slice(1, 4, 2)),
    "backwards": (slice(None, None, -1), 3),
    "nothing": (slice(1, 1), slice(None)),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_cotangents_of_a_write_are_the_cotangent_outside_and_inside(index: Any) -> None:
    u = np.ones(X[index].shape)
    _, pull = tnf.vjp(lambda x, u: x.at[index].set(u), X, u)
    x_bar, u_bar = pull(X_BAR)
    outside = X_BAR.copy()
    outside[index] = 0
    np.testing.assert_array_equal(x_bar, outside)
    np.testing.assert_array_equal(u_bar, X_BAR[index])


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_such_a_write_needs_no_mask(index: Any) -> None:
    def loss(x: Any) -> Any:
        return tnf.sum(x.at[index].set(tnf.sin(x)[index]) ** 2)

    program = tnf.compile(tnf.grad(loss), X)
    assert [i.op.name for i in program.instructions if i.op.name == "Iota"] == []
    expected = 2 * X
    expected[index] = (2 * np.sin(X) * np.cos(X))[index]
    np.testing.assert_allclose(program.run(X), expected, rtol=1e-14)


@pytest.mark.parametrize("i", [-7, -1, 0, 2, 3, 9])
def test_a_window_outside_has_no_derivative(i: int) -> None:
    def written(x: Any, u: Any, i: Any) -> Any:
        dimension_numbers = tnf.lax.ScatterDimensionNumbers(
            update_window_dims=(0,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
        )
        return tnf.lax.scatter(x, i[None], u, dimension_numbers)

    u = np.ones(4)
    _, pull = tnf.vjp(lambda x, u: written(x, u, np.asarray(i)), X, u)
    x_bar, u_bar = pull(X_BAR)
    outside, inside = X_BAR.copy(), np.zeros(4)
    if 0 <= i < 3:
        outside[i], inside = 0, X_BAR[i]
    np.testing.assert_array_equal(x_bar, outside)
    np.testing.assert_array_equal(u_bar, inside)


def test_elements_that_are_written_twice_keep_the_derivative_of_what_stayed() -> None:
    index = np.array([1, 1, 0])
    _, pull = tnf.vjp(lambda x, u: x.at[index].set(u), X[:, 0], np.ones(3))
    x_bar, u_bar = pull(np.array([2.0, 3.0, 5.0]))
    np.testing.assert_array_equal(x_bar, [0, 0, 5])
    np.testing.assert_array_equal(u_bar, [0, 3, 2])


def test_in_a_batch_of_places_and_to_second_order() -> None:
    def loss(x: Any, i: Any) -> Any:
        return tnf.sum(x.at[i].set(x[0] ** 2 * x[2]) ** 2)

    x = np.array([1.5, -0.5, 2.0])
    places = np.array([0, 1, 2])
    got = tnf.vmap(tnf.hessian(loss), in_axes=(None, 0))(x, places)
    for i in places:

        def plain(x: Any, i: int = int(i)) -> Any:
            kept = [x[k] ** 2 for k in range(3) if k != i]
            return kept[0] + kept[1] + (x[0] ** 2 * x[2]) ** 2

        np.testing.assert_allclose(got[i], tnf.hessian(plain)(x), rtol=1e-13)


def test_a_loop_that_writes_rows_stacks_no_mask() -> None:
    def loss(x: Any) -> Any:
        return tnf.sum(tnf.fori_loop(1, 3, lambda i, x: x.at[i].set(tnf.sin(x[i - 1])), x) ** 2)

    program = tnf.compile(tnf.grad(loss), X)
    loops = [i for i in program.instructions if isinstance(i.op, Scan)]
    stacks = [program.types[value] for i in loops for value in i.outputs[i.op.num_carry :]]
    assert [spec for spec in stacks if spec.shape[1:] == X.shape] == []
    a = X[0]
    s = np.sin(a)
    expected = np.zeros((3, 4))
    expected[0] = 2 * a + 2 * s * np.cos(a) + 2 * np.sin(s) * np.cos(s) * np.cos(a)
    np.testing.assert_allclose(program.run(X), expected, rtol=1e-13)
