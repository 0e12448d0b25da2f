"""A program may contain a step of an optax optimizer."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tenferro as tnf
import xla_peer

OPTIMIZER = optax.chain(
    optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(0.1, 50))
)
X = np.linspace(-1.0, 1.0, 24).reshape(12, 2)
Y = X @ np.array([1.5, -0.5]) + 0.25


def start() -> Any:
    return {"w": np.zeros(2), "b": np.zeros(())}


def loss(p: Any, namespace: Any) -> Any:
    return namespace.mean((X @ p["w"] + p["b"] - Y) ** 2)


@pytest.mark.parametrize("executor", [None, xla_peer.XlaExecutor()], ids=["native", "PJRT"])
def test_optax_trains_by_import(executor: Any) -> None:
    params = start()
    with jax.enable_x64(True):
        state = jax.tree.map(np.asarray, OPTIMIZER.init(params))
        update = xla_peer.from_jax(OPTIMIZER.update, params, state, params)

    def step(params: Any, state: Any) -> Any:
        value, grads = tnf.value_and_grad(lambda p: loss(p, tnf))(params)
        updates, state = update(grads, state, params)
        return tnf.optim.apply_updates(params, updates), state, value

    jitted = tnf.jit(step) if executor is None else tnf.jit(step, executor=executor)
    structure = tnf.tree.structure(state)
    for _ in range(60):
        params, state, value = jitted(params, state)
    assert jitted.cache_stats().misses == 1
    assert tnf.tree.structure(state) == structure
    assert value < 1e-3
    expected = trained_by_jax()
    tnf.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=1e-6), params, expected)


def trained_by_jax() -> Any:
    with jax.enable_x64(True):
        params: Any = jax.tree.map(jnp.asarray, start())

        @jax.jit
        def step(params: Any, state: Any) -> Any:
            grads = jax.grad(lambda p: loss(p, jnp))(params)
            updates, state = OPTIMIZER.update(grads, state, params)
            return optax.apply_updates(params, updates), state

        state = OPTIMIZER.init(params)
        for _ in range(60):
            params, state = step(params, state)
        return jax.tree.map(np.asarray, params)
