"""Random compositions of functions have the derivatives that JAX computes, natively and through PJRT."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

import tenferro as tnf
from xla_peer import XlaExecutor

jax = pytest.importorskip("jax")
jnp = jax.numpy

# Steps of the random compositions. Each maps a 3 x 4 array to another 3 x 4 array. The argument `n` is tenferro or
# jax.numpy.
REAL_STEPS: dict[str, Any] = {
    "tanh": lambda n, x: n.tanh(x),
    "sin": lambda n, x: n.sin(x) * x,
    "softplus": lambda n, x: n.logaddexp(x, n.zeros_like(x)),
    "sqrt": lambda n, x: n.sqrt(x * x + 1.0),
    "log1p": lambda n, x: n.log1p(n.abs(x)),
    "maximum": lambda n, x: n.maximum(x, 0.3 * x),
    "where": lambda n, x: n.where(x > 0.1, x * x, n.exp(x)),
    "clip": lambda n, x: n.clip(x, -1.5, 1.5),
    "matmul": lambda n, x: n.tanh(x @ n.matrix_transpose(x)) @ x,
    "sum": lambda n, x: x - n.sum(x, axis=0, keepdims=True) / 3.0,
    "max": lambda n, x: x / (1.0 + n.max(n.abs(x), axis=1, keepdims=True)),
    "prod": lambda n, x: x * n.prod(1.0 + 0.1 * x, axis=0, keepdims=True),
    "cumsum": lambda n, x: 0.3 * n.cumulative_sum(x, axis=1),
    "sort": lambda n, x: n.sort(x, axis=1) * 0.5,
    "index": lambda n, x: n.concat([x[1:], x[:1]], axis=0) * x[:, ::-1],
    "take": lambda n, x: n.take(x, np.array([2, 0, 0]), axis=0),
    "reshape": lambda n, x: n.reshape(n.permute_dims(x, (1, 0)), (3, 4)) + x,
    "einsum": lambda n, x: n.einsum("ij,kj,kl->il", x, x, x) * 0.1,
    "var": lambda n, x: x / n.sqrt(1.0 + n.var(x, axis=1, keepdims=True)),
    "atan2": lambda n, x: n.atan2(x, 1.0 + x * x),
    "power": lambda n, x: (1.0 + x * x) ** 0.7,
    "tril": lambda n, x: n.tril(x) + 0.5 * n.triu(x, k=1),
}
COMPLEX_STEPS: dict[str, Any] = {
    "sin": lambda n, z: n.sin(0.3 * z),
    "exp": lambda n, z: n.exp(0.2 * z) - 1.0,
    "conj": lambda n, z: z * n.conj(z) * 0.3 + z,
    "abs": lambda n, z: z * (1.0 / (1.0 + n.abs(z))),
    "parts": lambda n, z: n.real(z) + 0.7j * n.imag(z) * n.real(z),
    "divide": lambda n, z: z / (2.0 + 0.5j + 0.1 * z * z),
    "matmul": lambda n, z: z @ n.matrix_transpose(n.conj(z)) @ z * 0.1,
    "prod": lambda n, z: z * n.prod(1.0 + 0.1 * z, axis=0, keepdims=True),
    "log": lambda n, z: n.log(3.0 + 0.2 * z),
    "sqrt": lambda n, z: n.sqrt(3.0 + 0.2 * z),
    "index": lambda n, z: n.concat([z[1:], z[:1]], axis=0) * z[:, ::-1],
    "cumprod": lambda n, z: 0.5 * n.cumulative_prod(0.5 + 0.2 * z, axis=1),
}

QUIET = settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
XLA = XlaExecutor("cpu", optimization_level=0)


def composed(namespace: Any, steps: list[Any]) -> Any:
    def loss(x: Any) -> Any:
        for step in steps:
            x = step(namespace, x)
        return namespace.sum(namespace.real(x * namespace.conj(x))) * 0.5 + namespace.real(x[0, 1])

    return loss


def compare(steps: list[Any], x: Any) -> None:
    with jax.enable_x64(True):
        expected = np.conj(jax.grad(composed(jnp, steps))(x))
        direction = np.cos(np.arange(12.0)).reshape(3, 4).astype(x.dtype)
        gradient = jax.grad(composed(jnp, steps))
        second = np.conj(jax.jvp(gradient, (x,), (direction,))[1])
        neighbours = [np.conj(gradient(x + step * direction)) for step in (1e-9, -1e-9)]
    # Skip points near a kink, such as that of |x - mean(x)|. There, rounding decides which one-sided derivative a
    # library returns, and both are correct.
    assume(all(np.allclose(near, expected, rtol=1e-5, atol=1e-5) for near in neighbours))
    program = tnf.compile(
        lambda x, v: tnf.jvp(tnf.grad(composed(tnf, steps)), (x,), (v,)), x, direction
    )
    scale = 1 + np.max(np.abs(expected))
    scale_2 = 1 + np.max(np.abs(second))
    for first_order, second_order in (program.run(x, direction), XLA.run(program, x, direction)):
        assert np.max(np.abs(first_order - expected)) < 1e-11 * scale
        assert np.max(np.abs(second_order - second)) < 1e-10 * scale_2


def tensors(real: bool) -> Any:
    parts = st.lists(st.floats(-1.9, 1.9), min_size=12, max_size=12)
    if real:
        return parts.map(lambda v: apart(np.array(v)).reshape(3, 4))
    return st.tuples(parts, parts).map(
        lambda p: (apart(np.array(p[0])) + 1j * apart(np.array(p[1]))).reshape(3, 4)
    )


def apart(values: Any) -> Any:
    """Perturb the values so that no two are equal.

    At ties, for example in a maximum, libraries may choose different derivatives.
    """
    return values + 0.0137 * np.sqrt(np.arange(1, values.size + 1))


@QUIET
@given(st.lists(st.sampled_from(sorted(REAL_STEPS)), min_size=1, max_size=4), tensors(True))
def test_real_compositions(names: list[str], x: Any) -> None:
    compare([REAL_STEPS[name] for name in names], x)


@QUIET
@given(st.lists(st.sampled_from(sorted(COMPLEX_STEPS)), min_size=1, max_size=3), tensors(False))
def test_complex_compositions(names: list[str], z: Any) -> None:
    compare([COMPLEX_STEPS[name] for name in names], z)


LONG = settings(QUIET, max_examples=60, derandomize=False)


@pytest.mark.sweep
@LONG
@given(st.lists(st.sampled_from(sorted(REAL_STEPS)), min_size=1, max_size=6), tensors(True))
def test_many_real_compositions(names: list[str], x: Any) -> None:
    compare([REAL_STEPS[name] for name in names], x)


@pytest.mark.sweep
@LONG
@given(st.lists(st.sampled_from(sorted(COMPLEX_STEPS)), min_size=1, max_size=4), tensors(False))
def test_many_complex_compositions(names: list[str], z: Any) -> None:
    compare([COMPLEX_STEPS[name] for name in names], z)
