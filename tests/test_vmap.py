"""`vmap` must equal a loop over slices, for all transforms and control flow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 3))
Y = RNG.standard_normal((4, 3, 2))


def norm_of(p: Any, x: Any) -> Any:
    return {"s": tnf.sum(tnf.exp(x) * p["w"]), "m": tnf.max(x) + p["b"]}


def test_as_a_loop() -> None:
    p = {"w": RNG.standard_normal((4, 3)), "b": np.float64(2.0)}
    mapped = tnf.vmap(norm_of, in_axes=({"w": 0, "b": None}, 0))
    found = mapped(p, X)
    for i in range(4):
        expected = norm_of({"w": p["w"][i], "b": 2.0}, X[i])
        np.testing.assert_allclose(found["s"][i], expected["s"])
        np.testing.assert_allclose(found["m"][i], expected["m"])
    assert mapped(p, X)["s"].shape == (4,)
    assert mapped.cache_stats().misses == 1


@pytest.mark.parametrize("in_axis", [0, 1, -1])
@pytest.mark.parametrize("out_axis", [0, 1, -1])
def test_axes(in_axis: int, out_axis: int) -> None:
    found = tnf.vmap(lambda x: tnf.cumulative_sum(x * 2), in_axis, out_axis)(X)
    slices = np.moveaxis(X, in_axis, 0)
    expected = np.moveaxis(np.stack([np.cumsum(s * 2) for s in slices]), 0, out_axis)
    np.testing.assert_allclose(found, expected)


def test_nested_differentiated_and_traced() -> None:
    pairwise = tnf.vmap(tnf.vmap(lambda x, y: tnf.sum((x - y) ** 2), (None, 0)), (0, None))
    expected = ((X[:, None] - X[None]) ** 2).sum(-1)
    np.testing.assert_allclose(pairwise(X, X), expected)
    np.testing.assert_allclose(tnf.jit(pairwise)(X, X), expected)
    per_row = tnf.vmap(tnf.grad(lambda x: tnf.sum(x**3)))
    np.testing.assert_allclose(per_row(X), 3 * X**2)
    through = tnf.grad(lambda x: tnf.sum(tnf.vmap(lambda r: tnf.sum(r) ** 2)(x)))
    np.testing.assert_allclose(through(X), np.repeat(2 * X.sum(1)[:, None], 3, 1))
    np.testing.assert_allclose(
        tnf.vmap(tnf.linalg.inv)(Y[:, :2] @ Y[:, :2].swapaxes(1, 2)),
        np.linalg.inv(Y[:, :2] @ Y[:, :2].swapaxes(1, 2)),
    )


def test_what_a_function_closes_over() -> None:
    def f(x: Any, index: Any) -> Any:
        return tnf.vmap(lambda i: tnf.take(x, i, axis=0))(index)

    index = np.array([2, 0, 3])
    np.testing.assert_array_equal(tnf.jit(f)(X, index), X[index])
    np.testing.assert_array_equal(f(X, index), X[index])


def test_symbolic_batches() -> None:
    program = tnf.compile(tnf.vmap(lambda x: x / tnf.sum(x)), tnf.TensorSpec(("n", 3), "f8"))
    np.testing.assert_allclose(program.run(X), X / X.sum(1, keepdims=True))


def test_results_that_depend_on_no_slice() -> None:
    a, b = tnf.vmap(lambda x: (1.0, tnf.ones(2)))(X)
    assert a.shape == (4,)
    assert b.shape == (4, 2)


def test_results_that_all_slices_share() -> None:
    w = np.arange(3.0)
    assert tnf.vmap(lambda x: 1.0, out_axes=None)(X) == 1.0
    row, shared = tnf.vmap(lambda x, w: (x * w, w + 1), (0, None), (1, None))(X, w)
    np.testing.assert_array_equal(row, (X * w).T)
    np.testing.assert_array_equal(shared, w + 1)
    traced = tnf.jit(
        lambda x, w: tnf.vmap(lambda x: {"x": x, "w": 2 * w}, 0, {"x": 0, "w": None})(x)
    )
    np.testing.assert_array_equal(traced(X, w)["w"], 2 * w)
    slope = tnf.grad(lambda w: tnf.sum(tnf.vmap(lambda x: w * w, out_axes=None)(X)))
    np.testing.assert_array_equal(slope(w), 2 * w)
    with pytest.raises(errors.InvalidConfigError, match=r"result \['x'\] .* None"):
        tnf.vmap(lambda x: {"x": x}, out_axes=None)(X)


def test_the_size_of_the_batch() -> None:
    assert tnf.vmap(lambda x: x[0], axis_size=4)(X).shape == (4,)
    repeated = tnf.vmap(lambda x: 2 * x, None, axis_size=5)(X)
    np.testing.assert_array_equal(repeated, np.stack([2 * X] * 5))
    assert tnf.vmap(lambda: tnf.ones(2), axis_size=3)().shape == (3, 2)
    assert tnf.vmap(lambda x: x, None, None, axis_size=3)(X).shape == X.shape
    with pytest.raises(errors.ShapeError, match="axis_size"):
        tnf.vmap(lambda x: x, axis_size=3)(X)
    with pytest.raises(errors.InvalidConfigError, match="axis_size"):
        tnf.vmap(lambda x: x, axis_size="many")


@pytest.mark.parametrize(
    ("in_axes", "args", "error"),
    [
        (0, (X, Y[:3]), errors.ShapeError),
        ((0,), (X, X), errors.ArityError),
        (None, (X, X), errors.InvalidConfigError),
        ((5, 0), (X, X), errors.ShapeError),
        ((0, "x"), (X, X), errors.InvalidConfigError),
        ((True, 0), (X, X), errors.InvalidConfigError),
        (0, (np.float64(1.0), X), errors.ShapeError),
    ],
)
def test_what_does_not_fit(in_axes: Any, args: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        tnf.vmap(lambda *xs: xs, in_axes)(*args)


def test_what_the_function_closes_over_is_that_of_the_call() -> None:
    x, scale, weights = np.array([1.0, -2.0]), 2.0, np.ones(2)
    mapped = tnf.vmap(lambda x: x * scale * weights)
    assert mapped(x[None]).tolist() == [[2.0, -4.0]]
    scale = 3.0
    assert mapped(x[None]).tolist() == [[3.0, -6.0]]
    weights[0] = 4.0
    assert mapped(x[None]).tolist() == [[12.0, -6.0]]
    for scale in (0.0, -0.0):
        assert np.signbit(mapped(np.ones((1, 2)))).tolist() == [[scale.hex() == "-0x0.0p+0"] * 2]


@tnf.custom_jvp
def sine(x: Any) -> Any:
    return tnf.sin(x)


@sine.defjvp
def sine_jvp(primals: Any, tangents: Any) -> Any:
    return sine(*primals), 100.0 * tangents[0]


def test_gradients_of_tracked_tensors_keep_to_marks_inside() -> None:
    x = np.array([1.0, 2.0, 3.0])
    for fn, slope in ((lambda x: x * tnf.stop_gradient(x), x), (sine, np.full(3, 100.0))):
        variable = tnf.EagerRuntime().variable(x)
        tnf.sum(tnf.vmap(fn)(variable)).backward()
        assert variable.grad is not None
        np.testing.assert_array_equal(variable.grad, slope)


def test_variables_that_the_function_closes_over_get_a_gradient() -> None:
    weights = tnf.EagerRuntime().variable(np.ones(3))
    tnf.sum(tnf.vmap(lambda row: row * weights)(np.full((2, 3), 5.0))).backward()
    assert weights.grad is not None
    np.testing.assert_array_equal(weights.grad, [10.0, 10.0, 10.0])
