"""Functions with data-dependent sizes, `r_` and `c_`, and the signatures of transformed functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors

M = np.array([[0.0, 3.0, 0.0], [5.0, 0.0, 7.0]])
V, W = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])

SIZED: list[Callable[[Any, Any], Any]] = [
    *[
        lambda n, x, size=size, fill=fill: n.nonzero(x, size=size, fill_value=fill)
        for size in (0, 2, 3, 8)
        for fill in (None, -1, (7, 9))
    ],
    *[lambda n, x, size=size: n.argwhere(x, size=size, fill_value=-1) for size in (2, 8)],
    *[lambda n, x, size=size: n.flatnonzero(x, size=size, fill_value=6) for size in (2, 8)],
    lambda n, x: n.argwhere(x[0, 0], size=2),
    lambda n, x: n.where(x, size=4, fill_value=-1),
]


@pytest.mark.parametrize("call", SIZED)
def test_nonzero_of_a_size_is_jaxs(call: Callable[[Any, Any], Any]) -> None:
    wanted = jax.tree.leaves(jax.jit(lambda x: call(jnp, x))(M))
    for result in (call(tnf, M), tnf.jit(lambda x: call(tnf, x))(M)):
        for y, expected in zip(jax.tree.leaves(result), wanted, strict=True):
            assert y.dtype == np.int64
            np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("name", ["nonzero", "argwhere", "flatnonzero", "where"])
def test_a_trace_asks_for_the_size(name: str) -> None:
    with pytest.raises(errors.DataDependentShapeError, match="give size="):
        tnf.jit(getattr(tnf, name))(M)


def test_sizes_and_fills_that_do_not_fit() -> None:
    with pytest.raises(errors.InvalidConfigError, match="a size of at least 0"):
        tnf.nonzero(M, size=-1)
    with pytest.raises(errors.InvalidConfigError, match="for each of 2 axes"):
        tnf.nonzero(M, size=1, fill_value=(1, 2, 3))
    with pytest.raises(errors.InvalidConfigError, match="no meaning without size"):
        tnf.nonzero(M, fill_value=3)
    with pytest.raises(errors.InvalidConfigError, match="no meaning with x and y"):
        tnf.where(M, M, 0, size=3)


JOINED: list[Callable[[Any, Any], Any]] = [
    lambda n, x: n.r_[x, 1, 2.5, x],
    lambda n, x: n.r_[1:4, x, 0:1:3j],
    lambda n, x: n.r_[x, x[0]],
    lambda n, x: n.r_["0,2", x, x],
    lambda n, x: n.r_["1,2,0", x, x],
    lambda n, x: n.r_["-1", M, M],
    lambda n, x: n.r_["0,2,0", x, 9],
    lambda n, x: n.r_["0,3,1", x, x],
    lambda n, x: n.r_[x.astype("f4"), 1.5],
    lambda n, x: n.c_[x, W],
    lambda n, x: n.c_[M.T, x, 1:4],
    lambda n, x: n.c_[x[0], 2.0],
    lambda n, x: n.r_[x],
]


@pytest.mark.parametrize("call", JOINED)
def test_joining_by_indices_is_numpys(call: Callable[[Any, Any], Any]) -> None:
    wanted = call(np, V)
    for result in (call(tnf, V), tnf.jit(lambda x: call(tnf, x))(V)):
        assert result.dtype == wanted.dtype
        np.testing.assert_array_equal(result, wanted)


def test_gradients_of_what_is_joined() -> None:
    slope = tnf.grad(lambda x: tnf.sum(tnf.c_[x, W] * M.T) + tnf.sum(tnf.r_[x, 1.0] ** 2))(V)
    np.testing.assert_array_equal(slope, M[0] + 2 * V)


def test_what_cannot_be_joined() -> None:
    with pytest.raises(errors.InvalidConfigError, match=r"tnf.r_: a directive must be .* got 'r'"):
        tnf.r_["r", V]


def test_histograms_and_quantiles_have_gradients() -> None:
    edges = np.array([0.0, 1.5, 4.0])
    slope = tnf.grad(
        lambda w: tnf.sum(tnf.histogram(V, edges, weights=w)[0] * np.array([2.0, 5.0]))
    )
    np.testing.assert_array_equal(slope(W), [2, 5, 5])
    median = tnf.grad(lambda x: tnf.nanmedian(x))(np.array([3.0, np.nan, 1.0, 2.0, 7.0]))
    np.testing.assert_array_equal(median, [0.5, 0, 0, 0.5, 0])
    heavy = tnf.grad(lambda x: tnf.quantile(x, 0.4, method="inverted_cdf", weights=W))(V)
    np.testing.assert_array_equal(heavy, [0, 1, 0])
    np.testing.assert_array_equal(tnf.grad(lambda x: tnf.unwrap(x)[2])(5 * V), [0, 0, 1])


def test_partitions_are_refused_as_numpys() -> None:
    with pytest.raises(errors.OutOfBoundsError, match="kth 3 is outside an axis of 3 elements"):
        tnf.partition(V, 3)
    with pytest.raises(errors.InvalidConfigError, match='kind must be "introselect"'):
        tnf.argpartition(V, 1, kind="quick")


def test_imaginary_parts_of_a_trace_decide_nothing() -> None:
    assert tnf.real_if_close(np.array([1 + 1e-15j])).dtype == np.float64
    assert tnf.real_if_close(np.array([1 + 1e-3j])).dtype == np.complex128
    with pytest.raises(errors.DataDependentShapeError, match=r"use real\(x\)"):
        tnf.jit(tnf.real_if_close)(np.array([1j]))


def user_function(x: Any, scale: float = 2.0) -> Any:
    """Return x times scale. The tests transform this function, and compare the signature of the result with its own."""
    return x * scale


@pytest.mark.parametrize(
    "transform", [tnf.jit, tnf.checkpoint, tnf.custom_jvp, tnf.custom_vjp, tnf.grad, tnf.value_and_grad, tnf.vmap,
                  tnf.jacfwd, tnf.jacrev, tnf.hessian], ids=lambda f: f.__name__,
)  # fmt: skip
def test_transforms_keep_name_and_signature(transform: Any) -> None:
    transformed = transform(user_function)
    assert inspect.signature(transformed) == inspect.signature(user_function)
    assert transformed.__name__ == "user_function"
    assert inspect.unwrap(transformed) is user_function


@pytest.mark.parametrize(
    ("name", "operands"), [("add", (V, W)), ("exp", (V,)), ("maximum", (V, W)), ("logaddexp", (V, W)), ("pow", (V, W)),
                           ("negative", (V,)), ("divide", (V, W)), ("sin", (V,)), ("logical_not", (V,))],
)  # fmt: skip
def test_out_by_place_is_refused_by_name(name: str, operands: Any) -> None:
    with pytest.raises(errors.UnsupportedError, match=f"{name}: the argument out="):
        getattr(tnf, name)(*operands, np.zeros(3))
