"""Programs called inside JAX.

The results of jit, jvp, grad, vmap and their compositions must equal those of JAX functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors
from tenferro.ext.linalg import families

jax = pytest.importorskip("jax")
jnp = jax.numpy

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4))
W = RNG.standard_normal((4, 2))


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


def layer(lib: Any) -> Any:
    def fn(p: Any, x: Any) -> Any:
        y = lib.tanh(x @ p["w"]) * p["s"]
        return {"loss": lib.sum(y * y), "best": lib.argmax(y, axis=0), "y": y}

    return fn


P = {"w": W, "s": np.float64(1.5)}
OURS = xla_peer.to_jax(tnf.compile(layer(tnf), P, X))
THEIRS = layer(jnp)


def close(found: Any, expected: Any, rtol: float = 1e-12) -> None:
    flat, tree = jax.tree.flatten(found)
    other, other_tree = jax.tree.flatten(expected)
    assert tree == other_tree
    for a, b in zip(flat, other, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-13)


def test_values_eager_and_jitted() -> None:
    close(OURS(P, X), THEIRS(P, X))
    close(jax.jit(OURS)(P, X), THEIRS(P, X))
    close(jax.jit(lambda x: OURS(P, x * 2)["y"] + 1)(X), THEIRS(P, X * 2)["y"] + 1)


@pytest.mark.parametrize("transform", ["grad", "jit_grad", "jacfwd", "jacrev", "hessian"])
def test_derivatives(transform: str) -> None:
    def transformed(fn: Any) -> Any:
        def loss(p: Any, x: Any) -> Any:
            return fn(p, jnp.sin(x))["loss"] ** 2

        if transform == "jit_grad":
            return jax.jit(jax.grad(loss, (0, 1)))
        if transform == "hessian":
            return jax.jit(jax.hessian(loss))
        return getattr(jax, transform)(loss, (0, 1))

    close(transformed(OURS)(P, X), transformed(THEIRS)(P, X), 1e-11)


def test_forward_mode_and_integers() -> None:
    dots = jax.tree.map(np.ones_like, (P, X))
    y, y_dot = jax.jvp(OURS, (P, X), dots)
    expected, expected_dot = jax.jvp(THEIRS, (P, X), dots)
    close(y, expected)
    close({k: y_dot[k] for k in ("loss", "y")}, {k: expected_dot[k] for k in ("loss", "y")})
    assert y_dot["best"].dtype == jax.dtypes.float0


def test_third_order() -> None:
    ours = xla_peer.to_jax(tnf.compile(lambda x: tnf.sin(x) * x, tnf.TensorSpec((), "f8")))
    third = jax.grad(jax.grad(jax.grad(ours)))(0.7)
    expected = jax.grad(jax.grad(jax.grad(lambda x: jnp.sin(x) * x)))(0.7)
    close(third, expected)


def test_vmap() -> None:
    xs = RNG.standard_normal((5, 3, 4))
    close(jax.vmap(OURS, (None, 0))(P, xs), jax.vmap(THEIRS, (None, 0))(P, xs))
    moved = np.moveaxis(xs, 0, 2)
    close(jax.vmap(OURS, (None, 2))(P, moved), jax.vmap(THEIRS, (None, 2))(P, moved))
    per_sample = jax.jit(jax.vmap(jax.grad(lambda p, x: OURS(p, x)["loss"]), (None, 0)))
    expected = jax.vmap(jax.grad(lambda p, x: THEIRS(p, x)["loss"]), (None, 0))
    close(per_sample(P, xs), expected(P, xs))


class Unbatched(tnf.ExtensionAdRule):
    """Derivative rules of QR, with a batch rule that raises an error."""

    family_id = families.Qr.family_id

    def batch_rule(self, *arguments: Any) -> Any:
        raise errors.ADRuleUnsupportedError("no batches")


def test_vmap_without_a_batch_rule_goes_slice_by_slice() -> None:
    context = tnf.AdContext(tnf.ExtensionRuleSet([Unbatched()]))
    program = tnf.compile(tnf.linalg.qr, X)
    with pytest.raises(errors.UnsupportedError, match="no batches"):
        tnf.vmap(program, context=context)(np.stack([X, X]))
    ours = xla_peer.to_jax(program, context=context)
    xs = np.stack([X, 2 * X, X[::-1]])
    close(jax.vmap(lambda x: ours(x).R)(xs), np.stack([tnf.linalg.qr(x).R for x in xs]))


def test_gradients_are_jaxs_conjugated_ours() -> None:
    z = np.array([1 + 2j, -0.5 + 0.3j])

    def loss(lib: Any) -> Any:
        return lambda z: lib.sum(lib.abs(lib.exp(z) * z) ** 2) + lib.sum(lib.imag(z * z * 1j))

    ours = xla_peer.to_jax(tnf.compile(loss(tnf), z))
    close(jax.grad(ours)(z), jax.grad(loss(jnp))(z))
    np.testing.assert_allclose(jax.grad(ours)(z), np.conj(tnf.grad(loss(tnf))(z)), rtol=1e-12)
    holomorphic = xla_peer.to_jax(tnf.compile(lambda z: tnf.exp(z) * z, tnf.TensorSpec((), "c16")))
    close(
        jax.grad(holomorphic, holomorphic=True)(z[0]),
        jax.grad(lambda z: jnp.exp(z) * z, holomorphic=True)(z[0]),
    )


def test_linear_algebra() -> None:
    a = RNG.standard_normal((4, 4))
    a = a @ a.T + 4 * np.eye(4)
    b = RNG.standard_normal(4)

    def quadratic(lib: Any) -> Any:
        return lambda a, b: b @ lib.linalg.solve(a, b) + lib.sum(lib.linalg.cholesky(a))

    ours = xla_peer.to_jax(tnf.compile(quadratic(tnf), a, b))
    symmetric = lambda g: g + np.swapaxes(g, -1, -2)  # the rest is not determined
    found, expected = (jax.jit(jax.grad(fn, (0, 1)))(a, b) for fn in (ours, quadratic(jnp)))
    close(symmetric(found[0]), symmetric(expected[0]), 1e-10)
    close(found[1], expected[1], 1e-10)
    batch = np.stack([a, 2 * a])
    close(jax.vmap(ours, (0, None))(batch, b), jax.vmap(quadratic(jnp), (0, None))(batch, b), 1e-10)


def test_symbols_take_each_shape() -> None:
    ours = xla_peer.to_jax(tnf.compile(lambda x: tnf.mean(x), tnf.TensorSpec(("n",), "f8")))
    for n in (2, 5, 2):
        close(jax.jit(ours)(np.arange(float(n))), jnp.mean(jnp.arange(float(n))))


def test_it_is_fused_with_what_is_around() -> None:
    text = jax.jit(lambda x: jnp.exp(OURS(P, x * 2)["y"]) * 3).lower(X).compile().as_text()
    assert " call(" not in text
    text = (
        jax.jit(lambda x: xla_peer.to_jax(tnf.compile(tnf.sin, X))(x * 2) + 1)
        .lower(X)
        .compile()
        .as_text()
    )
    assert text.count(" fusion(") <= 1


def test_nothing_is_compiled_twice() -> None:
    gradient = jax.grad(lambda x: OURS(P, x)["loss"])
    gradient(X)
    before = OURS.cache_stats().misses
    gradient(X + 1)
    assert OURS.cache_stats().misses == before
    assert OURS.cache_stats().entries > 0
    OURS.cache_clear()
    assert OURS.cache_stats().entries == 0


def test_what_does_not_fit() -> None:
    with pytest.raises(errors.ArityError):
        OURS(X, P)
    with pytest.raises(errors.DTypeError, match="x: expected f64"):
        OURS(P, X.astype("f4"))
    with pytest.raises(errors.ShapeError, match="x: axis 0"):
        OURS(P, X[:2])
    with pytest.raises(errors.InvalidConfigError, match="expected a program"):
        xla_peer.to_jax(lambda x: x)


def test_narrow_jax_says_what_to_set() -> None:
    context = (
        jax.enable_x64(False) if hasattr(jax, "enable_x64") else jax.experimental.disable_x64()
    )
    with context, pytest.raises(errors.DTypeError, match="jax_enable_x64"):
        OURS(P, X)


def test_a_function_called_on_tracers_names_to_jax() -> None:
    with pytest.raises(errors.BackendFailureError, match=r"Tracer is a tracer.*xla_peer\.to_jax"):
        jax.jit(lambda x: tnf.sin(x))(np.ones(3, "float32"))
