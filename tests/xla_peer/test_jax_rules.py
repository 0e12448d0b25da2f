"""Imported programs must use the custom derivatives of JAX functions.

Their derivatives then equal JAX's.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
import pytest

import tenferro as tnf
from tenferro.errors import ADRuleUnsupportedError
from xla_peer import from_jax, native, to_jax


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@jax.custom_vjp
def clipped(x: Any) -> Any:
    """Return x.

    The custom derivative clips the cotangent to [-1, 1] and multiplies it by x.
    """
    return x * 1.0


clipped.defvjp(lambda x: (clipped(x), x), lambda x, bar: (jnp.clip(bar, -1, 1) * x,))


@jax.custom_jvp
def odd(x: Any, y: Any) -> Any:
    """Return x y.

    The custom tangent differs from the product rule, so that a test fails if it is ignored.
    """
    return x * y


@odd.defjvp
def _odd_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (x_dot, y_dot) = primals, tangents
    return odd(x, y), 3 * y * x_dot + jnp.sin(x) * y_dot


def solved(a: Any, b: Any) -> Any:
    def inverse(matrix: Any) -> Callable[..., Any]:
        return lambda _, b: jnp.linalg.solve(matrix, b)

    return jax.lax.custom_linear_solve(lambda x: a @ x, b, inverse(a), inverse(a.T))


def root(a: Any) -> Any:
    def newton(f: Any, x: Any) -> Any:
        return jax.lax.fori_loop(0, 30, lambda _, x: x - f(x) / (2 * x), x)

    return jax.lax.custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))


A = np.array([[2.0, 0.5], [1.0, 4.0]])
B = np.array([1.0, 2.0])
ROOTS = np.array([1 + 2j, 2 - 1j])

FUNCTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "relu at 0": (lambda x: jnp.sum(jax.nn.relu(x) ** 2 + jax.nn.relu(x)), np.array([-1.0, 0, 2])),
    "stop_gradient": (lambda x: jnp.sum(jax.lax.stop_gradient(x) * x**2), B),
    "custom_jvp": (lambda x: odd(x, 2 * x) ** 2, 0.7),
    "custom_jvp with a number": (lambda x: odd(2.0, x), 0.7),
    "custom_jvp in a scan": (
        lambda x: jax.lax.scan(lambda c, a: (odd(c, a), c), jnp.float64(1), x)[0],
        np.array([0.5, 2, 3]),
    ),
    "custom_jvp in a cond": (lambda x: jax.lax.cond(x > 0, odd, jnp.add, x, x), 2.0),
    "custom_jvp in a switch of a scan": (
        lambda x: jax.lax.fori_loop(
            0, 3, lambda i, c: jax.lax.switch(i % 2, [lambda c: odd(c, x), jnp.sin], c), x
        ),
        0.7,
    ),
    "custom_jvp under jit and vmap": (
        lambda x: jnp.sum(jax.jit(jax.vmap(lambda x: odd(x, x * x)))(x)),
        B,
    ),
    "linear solve in b": (lambda b: jnp.sum(solved(A, b) ** 2), B),
    "linear solve in a": (lambda a: jnp.sum(solved(a, B) ** 2), A),
    "root": (lambda a: root(a) ** 2 * a, 2.0),
    "ldexp": (lambda x: jnp.ldexp(x, 3) ** 2, 1.5),
    "frexp": (lambda x: jnp.frexp(x)[0] ** 2, 3.0),
    "xlogy at 0": (lambda x: jsp.xlogy(x, 2.0), 0.0),
    "xlog1py at 0": (lambda x: jsp.xlog1py(x, 2.0), 0.0),
    "expi": (jsp.expi, 1.3),
    "expi below 0": (jsp.expi, -1.3),
    "expn": (lambda x: jsp.expn(2, x), 1.3),
    "gammainc in x": (lambda x: jsp.gammainc(2.0, x), 1.3),
    "gammainc in a": (lambda a: jsp.gammainc(a, 1.3), 2.0),
    "gammainc at 0": (lambda x: jsp.gammainc(1.0, x), 0.0),
    "gammaincc": (lambda a: jsp.gammaincc(a, 1.3), 2.0),
    "beta": (lambda x: jsp.beta(x, 2.0), 1.5),
    "betainc": (lambda x: jsp.betainc(1.5, 2.0, x), 0.3),
    "hyp2f1": (lambda x: jsp.hyp2f1(0.5, 1.0, 1.5, x), 0.3),
    "hyp1f1": (lambda x: jsp.hyp1f1(0.5, 1.5, x), 0.3),
    "complex logsumexp": (lambda x: jnp.abs(jsp.logsumexp(x * ROOTS)) ** 2, 0.7),
    "logsumexp": (jsp.logsumexp, B),
    "softmax": (lambda x: jax.nn.softmax(x)[0], B),
    "i0e at 0": (jsp.i0e, 0.0),
    "i1 at 0": (lambda x: jnp.sum(jsp.i1(x)), np.array([0.0, 1e-20, 1.3])),
    "i1e far from 0": (lambda x: jnp.sum(jsp.i1e(x)), np.array([-1e10, 1e10, np.inf])),
    "logistic": (
        lambda x: jnp.sum(jax.nn.sigmoid(x) * jnp.arange(1.0, 6)),
        np.array([-np.inf, -800, -1, 0, 800]),
    ),
    "logistic in a scan": (
        lambda x: jax.lax.scan(lambda c, a: (jax.nn.silu(c * a), c), jnp.float64(2), x)[0],
        np.array([0.5, -800, 3]),
    ),
    "reciprocal of a cube": (lambda x: jnp.sum(x**-3), np.array([0.0, 1e-200, -2, 3e150, -np.inf])),
    "sinc at 0": (jnp.sinc, 0.0),
    "entr at 0": (jsp.entr, 0.0),
    "logaddexp": (lambda x: jnp.logaddexp(x, x), -np.inf),
    "sample of gamma": (lambda a: jax.random.gamma(jax.random.key(0), a), 1.5),
}
"""Functions with custom derivatives, and their arguments. Forward mode supports all of them."""

PULLBACKS: dict[str, tuple[Callable[..., Any], Any]] = {
    "custom_vjp": (lambda x: jnp.sum(5 * clipped(x) ** 2), np.array([0.05, 2.0])),
    "custom_vjp in a scan": (
        lambda x: jax.lax.scan(lambda c, a: (clipped(c * a), c), jnp.float64(1), x)[0],
        np.array([0.5, 2, 3]),
    ),
    "custom_vjp in a cond": (lambda x: jax.lax.cond(x > 0, clipped, jnp.negative, x), 2.0),
    "custom_vjp under vmap": (lambda x: jnp.sum(jax.vmap(clipped)(x) * x), B),
    "both": (lambda x: odd(clipped(x), jax.nn.relu(x)), 0.7),
}
ALL = {**FUNCTIONS, **PULLBACKS}


def alike(actual: Any, expected: Any, rtol: float = 1e-9) -> None:
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_gradients(name: str) -> None:
    f, x = ALL[name]
    alike(tnf.grad(from_jax(f, x).run)(x), jax.grad(f)(x))


def test_a_logistic_function_of_symbolic_extents_and_from_a_pickle() -> None:
    x = FUNCTIONS["logistic"][1]
    for spec in (x, tnf.TensorSpec(("n",), "float64")):
        program = from_jax(lambda x: jnp.sum(jax.nn.sigmoid(x)), spec)
        for each in (program, pickle.loads(pickle.dumps(program))):
            alike(tnf.grad(each.run)(x), jax.grad(lambda x: jnp.sum(jax.nn.sigmoid(x)))(x))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents(name: str) -> None:
    f, x = FUNCTIONS[name]
    dot = np.ones_like(x) * 0.5
    y, y_dot = tnf.jvp(from_jax(f, x).run, (x,), (dot,))
    expected, expected_dot = jax.jvp(f, (jnp.asarray(x),), (dot,))
    alike(y, expected)
    alike(y_dot, expected_dot)


SECOND = (
    "relu at 0", "stop_gradient", "custom_jvp", "linear solve in b", "linear solve in a",
    "root", "ldexp", "logistic", "reciprocal of a cube", "xlogy at 0", "expi", "gammainc in x", "complex logsumexp", "custom_vjp", "both",
)  # fmt: skip


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name: str) -> None:
    f, x = ALL[name]
    program = from_jax(f, x)
    expected = jax.grad(lambda x: jnp.sum(jax.grad(f)(x)))(x)
    alike(tnf.grad(lambda x: tnf.sum(tnf.grad(program.run)(x)))(x), expected)


def test_second_derivatives_in_a_scan_are_those_of_its_steps() -> None:
    def unrolled(x: Any) -> Any:
        carry: Any = jnp.float64(1)
        for a in x:
            carry = odd(carry, a)
        return carry

    f, x = FUNCTIONS["custom_jvp in a scan"]
    program = from_jax(f, x)
    # The reference is the gradient of the unrolled loop. JAX's gradient of a scan ignores the custom rule in its
    # forward pass.
    expected = jax.grad(lambda x: jnp.sum(jax.grad(unrolled)(x)))(x)
    alike(tnf.grad(lambda x: tnf.sum(tnf.grad(program.run)(x)))(x), expected)


@pytest.mark.parametrize("name", ["custom_jvp", "custom_vjp", "root", "relu at 0"])
def test_a_compiled_derivative_keeps_the_rules(name: str) -> None:
    f, x = ALL[name]
    gradient = tnf.compile(tnf.grad(from_jax(f, x).run), x)
    expected = jax.grad(lambda x: jnp.sum(jax.grad(f)(x)))(x)
    alike(tnf.grad(lambda x: tnf.sum(gradient.run(x)))(x), expected)
    alike(tnf.jit(tnf.grad(from_jax(f, x).run))(x), jax.grad(f)(x))


@pytest.mark.parametrize("name", ["custom_jvp", "stop_gradient", "linear solve in b"])
def test_inside_jax(name: str) -> None:
    f, x = ALL[name]
    function = to_jax(from_jax(f, x))
    alike(jax.grad(function)(x), jax.grad(f)(x))
    xs = np.stack([x, 2 * np.asarray(x)])
    alike(jax.vmap(jax.grad(function))(xs), jax.vmap(jax.grad(f))(xs))
    total = jax.grad(lambda xs: jnp.sum(jax.vmap(function)(xs)))
    alike(total(xs), jax.vmap(jax.grad(f))(xs))
    hessian = jax.hessian(lambda x: jnp.sum(function(x)))(x)
    alike(hessian, jax.hessian(lambda x: jnp.sum(f(x)))(x))


def test_inside_jax_a_pullback_is_refused_by_name() -> None:
    f, x = PULLBACKS["custom_vjp"]
    with pytest.raises(ADRuleUnsupportedError, match="custom_vjp clipped"):
        jax.grad(to_jax(from_jax(f, x)))(x)


@pytest.mark.parametrize("name", ["custom_jvp", "custom_vjp", "stop_gradient", "linear solve in b"])
def test_vmapped_and_eager(name: str) -> None:
    f, x = ALL[name]
    program = from_jax(f, x)
    xs = np.stack([x, 2 * np.asarray(x)])
    alike(tnf.vmap(tnf.grad(program.run))(xs), jax.vmap(jax.grad(f))(xs))
    runtime = tnf.EagerRuntime()
    variable = runtime.variable(np.asarray(x))
    program.run(variable).backward()
    alike(variable.grad, jax.grad(f)(x))
    alike(tnf.grad(native(f))(x), jax.grad(f)(x))


def test_a_complex_pullback_is_in_tenferro_s_convention() -> None:
    @jax.custom_vjp
    def scaled(z: Any) -> Any:
        return z * (1 + 2j)

    scaled.defvjp(lambda z: (scaled(z), None), lambda _, bar: (bar * (1 + 2j),))

    def f(z: Any) -> Any:
        return jnp.sum(jnp.abs(scaled(z)) ** 2)

    z = np.array([0.5 - 1j, 2j])
    alike(tnf.grad(from_jax(f, z).run)(z), 2 * 5 * z)
    alike(tnf.grad(from_jax(f, z).run)(z), np.conj(jax.grad(f)(z)))


def test_values_are_not_touched() -> None:
    f, x = FUNCTIONS["custom_jvp in a scan"]
    program = from_jax(f, x)
    assert program.marked is not None
    alike(program.run(x), f(x))
    assert not any("custom" in instruction.op.name for instruction in program.instructions)
    assert from_jax(jnp.sin, x).marked is None
    assert program.specialize({}).marked is program.marked


def test_forward_mode_of_a_pullback_is_refused_by_name() -> None:
    program = from_jax(lambda x: clipped(x) + jax.nn.relu(x), 1.0)
    with pytest.raises(ADRuleUnsupportedError, match="custom_vjp clipped: JAX states its pullback"):
        tnf.jvp(program.run, (1.0,), (1.0,))


def test_a_linear_solve_without_its_transpose_is_refused_by_name() -> None:
    def f(b: Any) -> Any:
        return jnp.sum(
            jax.lax.custom_linear_solve(lambda x: A @ x, b, lambda _, b: jnp.linalg.solve(A, b))
        )

    program = from_jax(f, B)
    alike(tnf.jvp(program.run, (B,), (B,))[1], np.linalg.solve(A, B).sum())
    with pytest.raises(ADRuleUnsupportedError, match="custom_linear_solve"):
        tnf.grad(program.run)(B)


def test_symbols_are_refused_by_name() -> None:
    program = from_jax(lambda x: jnp.sum(odd(x, x)), tnf.TensorSpec(("n",), "float64"))
    alike(program.run(B), (B * B).sum())
    with pytest.raises(
        ADRuleUnsupportedError, match=r"custom_jvp odd: .*import it without symbols"
    ):
        tnf.grad(program.run)(B)


def test_a_pickled_program_runs_and_refuses_by_name() -> None:
    program = pickle.loads(pickle.dumps(from_jax(lambda x: odd(x, x) + x, 1.0)))
    alike(program.run(3.0), 12.0)
    with pytest.raises(ADRuleUnsupportedError, match=r"custom_jvp odd: .* pickled"):
        tnf.grad(program.run)(1.0)


def test_derivatives_are_traced_once() -> None:
    calls: list[int] = []

    @jax.custom_jvp
    def counted(x: Any) -> Any:
        return x * 2

    @counted.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        calls.append(1)
        return counted(*primals), 5 * tangents[0]

    gradient = tnf.grad(from_jax(counted, 1.0).run)
    assert [float(gradient(x)) for x in (1.0, 2.0, 3.0)] == [5, 5, 5]
    assert len(calls) == 1
