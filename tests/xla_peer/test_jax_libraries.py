"""Functions from libraries for JAX must run natively and agree with `jax.jit`.

Libraries that are not installed are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xla_peer import native

KEY = jax.random.key(0)
Case = tuple[Callable[..., Any], tuple[Any, ...], float]
"""A function, its arguments, and the tolerance.

The tolerance is relative to the largest element, or to 1 if all elements are smaller.
"""


def equinox_cases() -> Iterator[tuple[str, Case]]:
    import equinox as eqx

    mlp, gru = eqx.nn.MLP(3, 2, 16, 2, key=KEY), eqx.nn.GRUCell(3, 8, key=KEY)
    attention = eqx.nn.MultiheadAttention(4, 16, key=KEY)
    arrays, rest = eqx.partition(mlp, eqx.is_array)

    def loss(arrays: Any) -> Any:
        return jnp.mean(jax.vmap(eqx.combine(arrays, rest))(jnp.ones((5, 3))) ** 2)

    def last(xs: Any) -> Any:
        step = jax.lax.scan(lambda state, x: (gru(x, state), None), jnp.zeros(8), xs)
        return jnp.sum(step[0])

    def checked(x: Any) -> Any:
        return jnp.sqrt(eqx.error_if(x, x < 0, "negative"))

    yield "perceptron", (jax.value_and_grad(loss), (arrays,), 1e-5)
    yield "recurrent cell", (jax.grad(last), (jnp.ones((20, 3)),), 1e-5)
    yield "attention", (lambda x: attention(x, x, x), (jax.random.normal(KEY, (6, 16)),), 1e-5)
    yield "runtime check", (checked, (jnp.float32(4),), 0)


def diffrax_cases() -> Iterator[tuple[str, Case]]:
    import diffrax as dfx

    def field(t: Any, y: Any, a: Any) -> Any:
        return jnp.stack([y[1], a * (1 - y[0] ** 2) * y[1] - y[0]])

    def solved(solver: Any, a: Any) -> Any:
        steps = dfx.PIDController(rtol=1e-5, atol=1e-6)
        times = dfx.SaveAt(ts=jnp.linspace(0, 3, 7))
        start = jnp.array([2.0, 0.0])
        return dfx.diffeqsolve(
            dfx.ODETerm(field),
            solver,
            0,
            3,
            0.01,
            start,
            a,
            saveat=times,
            stepsize_controller=steps,
        ).ys

    def noisy(a: Any) -> Any:
        path = dfx.VirtualBrownianTree(0.0, 1.0, 1e-3, (), KEY)
        noise = dfx.ControlTerm(lambda t, y, a: 0.3, path)
        terms = dfx.MultiTerm(dfx.ODETerm(lambda t, y, a: -a * y), noise)
        return dfx.diffeqsolve(terms, dfx.EulerHeun(), 0, 1, 0.01, 1.0, a).ys

    for solver in (dfx.Tsit5(), dfx.Kvaerno5()):
        name = type(solver).__name__

        def values(a: Any, solver: Any = solver) -> Any:
            return solved(solver, a)

        def total(a: Any, solver: Any = solver) -> Any:
            return jnp.sum(solved(solver, a))

        yield name, (values, (1.5,), 1e-3)
        yield f"{name}, gradient", (jax.grad(total), (1.5,), 1e-2)
    yield "stochastic", (noisy, (1.0,), 1e-5)


def optimistix_cases() -> Iterator[tuple[str, Case]]:
    import optimistix as optx

    start = jnp.array([-1.2, 1.0])

    def root(a: Any) -> Any:
        def residuals(y: Any, a: Any) -> Any:
            return jnp.array([y[0] ** 2 + y[1] - a, y[1] - y[0]])

        return optx.root_find(residuals, optx.Newton(1e-6, 1e-6), jnp.ones(2), a).value

    def squares(a: Any) -> Any:
        def residuals(y: Any, a: Any) -> Any:
            return jnp.stack([10 * (y[1] - y[0] ** 2), a - y[0]])

        return optx.least_squares(residuals, optx.LevenbergMarquardt(1e-6, 1e-6), start, a).value

    yield "Newton", (root, (3.0,), 1e-5)
    yield "Newton, derivative", (jax.jacfwd(root), (3.0,), 1e-5)
    yield "Levenberg-Marquardt", (squares, (1.0,), 1e-3)


def lineax_cases() -> Iterator[tuple[str, Case]]:
    import lineax as lx

    a = jnp.eye(4) * 3 + 0.3 * jax.random.normal(KEY, (4, 4))
    for solver in (lx.LU(), lx.QR(), lx.SVD(), lx.GMRES(1e-5, 1e-5)):

        def total(a: Any, solver: Any = solver) -> Any:
            return jnp.sum(lx.linear_solve(lx.MatrixLinearOperator(a), jnp.ones(4), solver).value)

        yield type(solver).__name__, (jax.value_and_grad(total), (a,), 1e-5)


def flax_cases() -> Iterator[tuple[str, Case]]:
    from flax import linen, nnx

    recurrent = linen.RNN(linen.LSTMCell(8))
    xs = jnp.ones((2, 5, 3))
    variables = recurrent.init(KEY, xs)
    layers = nnx.Linear(4, 8, rngs=nnx.Rngs(0)), nnx.Dropout(0.5, rngs=nnx.Rngs(1))
    graph, state = nnx.split(nnx.Sequential(*layers))

    def total(variables: Any) -> Any:
        return jnp.sum(recurrent.apply(variables, xs) ** 2)

    def after(state: Any, x: Any) -> Any:
        model = nnx.merge(graph, state)
        return jnp.sum(model(x) ** 2), nnx.state(model)

    yield "linen, LSTM", (jax.grad(total), (variables,), 1e-5)
    yield "nnx, dropout", (after, (state, jnp.ones((3, 4))), 1e-5)


def blackjax_cases() -> Iterator[tuple[str, Case]]:
    import blackjax

    def density(x: Any) -> Any:
        return -0.5 * jnp.sum(x**2) - jnp.sum(x**4) / 10

    kernel = blackjax.nuts(density, 0.3, jnp.ones(2))
    state = kernel.init(jnp.zeros(2))

    def chain(key: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            state, _ = kernel.step(key, state)
            return state, state.position

        return jax.lax.scan(step, state, jax.random.split(key, 30))[1]

    yield "no-U-turn sampler", (chain, (KEY,), 1e-2)


def numpyro_cases() -> Iterator[tuple[str, Case]]:
    import numpyro.distributions as dist

    for distribution in (
        dist.Gamma(2.0, 1.0),
        dist.LKJCholesky(3, 2.0),
        dist.BetaBinomial(2.0, 3.0, 10),
    ):

        def sampled(key: Any, distribution: Any = distribution) -> Any:
            x = distribution.sample(key, (5,))
            return x, distribution.log_prob(x)

        yield type(distribution).__name__, (sampled, (KEY,), 1e-5)


CASES = {
    "equinox": equinox_cases,
    "diffrax": diffrax_cases,
    "optimistix": optimistix_cases,
    "lineax": lineax_cases,
    "flax": flax_cases,
    "blackjax": blackjax_cases,
    "numpyro": numpyro_cases,
}


@pytest.mark.parametrize("library", CASES)
def test_functions_of_the_library_are_as_under_jit(library: str) -> None:
    pytest.importorskip(library)
    for name, (function, arguments, allowed) in CASES[library]():
        expected, tree = jax.tree.flatten(jax.jit(function)(*arguments))
        results, native_tree = jax.tree.flatten(native(function)(*arguments))
        assert native_tree == tree, name
        for x, y in zip(results, expected, strict=True):
            if jnp.issubdtype(y.dtype, jax.dtypes.prng_key):
                assert (jax.random.key_data(x) == jax.random.key_data(y)).all(), name
                continue
            assert (x.shape, x.dtype) == (y.shape, y.dtype), name
            y = np.asarray(y)
            scale = max(1.0, float(np.max(np.abs(y), initial=0)))
            np.testing.assert_allclose(x, y, rtol=0, atol=allowed * scale, err_msg=name)
