"""Collectives over the named axes of vmap must equal JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.errors import InvalidConfigError, UnsupportedError

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=(3, 5, 4))

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "softmax": lambda n, lax, x: n.exp(x) / lax.psum(n.exp(x).sum(), "i"),
    "normalized": lambda n, lax, x: (
        (x - lax.pmean(x, "i")) / n.sqrt(lax.pmean((x - lax.pmean(x, "i")) ** 2, "i"))
    ),
    "extrema": lambda n, lax, x: {"max": lax.pmax(x * x, "i"), "min": lax.pmin([x, -x], "i")},
    "gather": lambda n, lax, x: lax.all_gather(x, "i", axis=1) * lax.axis_index("i"),
    "tiled": lambda n, lax, x: lax.all_gather(x, "i", axis=0, tiled=True),
    "all_to_all": lambda n, lax, x: lax.all_to_all(n.outer(x[:3], x), "i", 0, 1),
    "all_to_all-back": lambda n, lax, x: lax.all_to_all(n.outer(x, x[:3]), "i", 1, 0),
    "all_to_all-tiled": lambda n, lax, x: lax.all_to_all(
        n.outer(x, n.concatenate([x[:3], x[1:]]))
        if n is not tnf
        else n.outer(x, n.concat([x[:3], x[1:]])),
        "i",
        1,
        0,
        tiled=True,
    ),
    "pswapaxes": lambda n, lax, x: lax.pswapaxes(x[1:], "i", 0),
    "scatter": lambda n, lax, x: lax.psum_scatter(n.outer(x, x[:3]), "i", scatter_dimension=1),
    "scatter-tiled": lambda n, lax, x: lax.psum_scatter(n.outer(x[:3], x), "i", tiled=True),
    "permute": lambda n, lax, x: lax.ppermute([x, 2 * x], "i", [(2, 0), (0, 1), (1, 2)]),
    "shuffle": lambda n, lax, x: lax.pshuffle(x, "i", [1, 2, 0]),
    "broadcast": lambda n, lax, x: x - lax.pbroadcast(x, "i", 1),
    "constants": lambda n, lax, x: x * lax.psum(2, "i") + lax.axis_size("i"),
}


@pytest.fixture(scope="module")
def jax() -> Any:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    return jax


def agree(jax: Any, fn: Callable[..., Any], x: Any, **options: Any) -> None:
    wanted = jax.vmap(lambda x: fn(jax.numpy, jax.lax, x), axis_name="i", **options)(x)
    mapped = tnf.vmap(lambda x: fn(tnf, tnf.lax, x), axis_name="i", **options)
    for result in (mapped(x), tnf.jit(mapped)(x)):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), result, wanted)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_against_jax(name: str, jax: Any) -> None:
    agree(jax, FUNCTIONS[name], X)


def test_slices_that_nothing_is_sent_to_are_zero() -> None:
    sent = tnf.vmap(lambda x: tnf.lax.ppermute(x, "i", [(2, 0)]), axis_name="i")(X)
    np.testing.assert_array_equal(sent, [X[2], 0 * X[0], 0 * X[0]])
    with pytest.raises(InvalidConfigError, match="different sources"):
        tnf.vmap(lambda x: tnf.lax.ppermute(x, "i", [(2, 0), (2, 1)]), axis_name="i")(X)


def test_nested_maps(jax: Any) -> None:
    def fn(n: Any, lax: Any, y: Any) -> Any:
        vmap = tnf.vmap if n is tnf else jax.vmap

        def inner(z: Any) -> Any:
            total = lax.psum(z, "j") * lax.psum(z, ("i", "j")) - lax.psum(z * z, "i")
            return total + lax.axis_index("j") * lax.axis_index("i") + lax.all_gather(z, "i").sum()

        return vmap(inner, axis_name="j")(y)

    agree(jax, fn, Y)


def test_derivatives_around_and_inside(jax: Any) -> None:
    def loss(n: Any, lax: Any, vmap: Any, x: Any) -> Any:
        fn = lambda z: n.exp(z) / lax.psum(n.exp(z).sum(), "i")  # a softmax over the named axis
        return n.sum(vmap(fn, axis_name="i")(x) ** 2)

    wanted = jax.grad(lambda x: loss(jax.numpy, jax.lax, jax.vmap, x))(X)
    np.testing.assert_allclose(
        tnf.grad(lambda x: loss(tnf, tnf.lax, tnf.vmap, x))(X), wanted, rtol=1e-12
    )

    def mean_gradient(n: Any, lax: Any, x: Any) -> Any:
        grad = tnf.grad if n is tnf else jax.grad
        return lax.pmean(grad(lambda z: n.sum(n.sin(z) ** 2))(x), "i")

    agree(jax, mean_gradient, X)


def test_checkpoints_and_custom_rules_see_the_batch() -> None:
    def shares(z: Any) -> Any:
        return tnf.exp(z) / tnf.lax.psum(tnf.exp(z).sum(), "i")

    def loss(fn: Any, x: Any) -> Any:
        return tnf.sum(tnf.vmap(fn, axis_name="i")(x) ** 2)

    plain = tnf.grad(lambda x: loss(shares, x))(X)
    recomputed = tnf.grad(lambda x: loss(tnf.checkpoint(shares), x))(X)
    np.testing.assert_allclose(recomputed, plain, rtol=1e-12)


def test_a_result_that_all_slices_share_has_no_axis() -> None:
    total = tnf.vmap(lambda x: tnf.lax.psum(x, "i"), axis_name="i", out_axes=None)(X)
    np.testing.assert_allclose(total, X.sum(0), rtol=1e-14)


def test_refusals() -> None:
    psum = tnf.lax.psum
    with pytest.raises(InvalidConfigError, match="is under way; there is none with a name"):
        tnf.vmap(lambda x: psum(x, "i"))(X)
    with pytest.raises(InvalidConfigError, match=r"'k'.*there are 'i'"):
        tnf.vmap(lambda x: psum(x, "k"), axis_name="i")(X)
    with pytest.raises(InvalidConfigError, match="that of an outer vmap"):
        tnf.vmap(tnf.vmap(lambda x: x, axis_name="i"), axis_name="i")(X)
    with pytest.raises(UnsupportedError, match="around a derivative"):
        tnf.vmap(lambda x: tnf.grad(lambda z: tnf.sum(z * psum(z, "i")))(x), axis_name="i")(X)
    with pytest.raises(UnsupportedError, match="around a loop"):
        tnf.vmap(lambda x: tnf.fori_loop(0, 3, lambda _, c: psum(c, "i"), x), axis_name="i")(X)
    with pytest.raises(UnsupportedError, match="axis_index_groups"):
        tnf.vmap(lambda x: psum(x, "i", axis_index_groups=[[0]]), axis_name="i")(X)  # pyright: ignore[reportArgumentType]  # because it raises
