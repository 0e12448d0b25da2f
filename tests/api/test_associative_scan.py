"""`associative_scan` must agree with JAX.

Natively it makes one pass over the elements, and through XLA its depth is logarithmic.
"""

from __future__ import annotations

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tenferro as tnf
from lowering import lower_to_stablehlo
from tenferro import GraphExecutor
from tenferro.errors import DTypeError, ShapeError
from tenferro.exec.llvm.link import is_installed
from xla_peer import XlaExecutor, check_parity

jax.config.update("jax_enable_x64", True)

MATRICES = np.random.default_rng(0).standard_normal((2, 7, 3, 3)) * 0.7
EXECUTORS = {
    "interpreted": GraphExecutor(compiled=False),
    "xla": XlaExecutor("cpu", notices=False),
} | ({"compiled": GraphExecutor(compiled=True)} if is_installed() else {})


def product(a: Any, b: Any) -> Any:
    return a @ b


def losses(reverse: bool) -> tuple[Any, Any]:
    """Return two equal losses of products of matrices, one written with tenferro and one with JAX."""

    def ours(x: Any) -> Any:
        return tnf.sum(tnf.sin(tnf.associative_scan(product, x, reverse, 1)))

    def theirs(x: Any) -> Any:
        return jnp.sum(jnp.sin(jax.lax.associative_scan(product, x, reverse, 1)))

    return ours, theirs


@pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
@pytest.mark.parametrize("reverse", [False, True])
def test_products_in_order_are_those_by_hand(executor: Any, reverse: bool) -> None:
    expected = np.empty_like(MATRICES)
    total = np.eye(3)
    for t in range(7)[:: -1 if reverse else 1]:
        total = total @ MATRICES[:, t]
        expected[:, t] = total
    f = tnf.jit(lambda x: tnf.associative_scan(product, x, reverse, 1), executor=executor)
    np.testing.assert_allclose(f(MATRICES), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        jax.lax.associative_scan(product, MATRICES, reverse, 1), expected, rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
def test_gradients_are_jaxs(executor: Any) -> None:
    ours, theirs = losses(reverse=True)
    gradient = tnf.jit(tnf.grad(ours), executor=executor)(MATRICES)
    np.testing.assert_allclose(gradient, jax.grad(theirs)(MATRICES), rtol=1e-12, atol=1e-12)


def test_second_derivatives_are_differences_and_batches_jaxs() -> None:
    ours, _ = losses(reverse=False)
    x, v = MATRICES[:1, :4], MATRICES[1:, :4]
    assert_close = np.testing.assert_allclose
    gradient = tnf.jit(tnf.grad(ours))
    expected = (gradient(x + 1e-5 * v) - gradient(x - 1e-5 * v)) / 2e-5
    assert_close(tnf.jvp(gradient, (x,), (v,))[1], expected, rtol=1e-7, atol=1e-8)
    batches = tnf.vmap(lambda x: tnf.associative_scan(product, x))(MATRICES)
    assert_close(batches, jax.lax.associative_scan(product, MATRICES, axis=1), rtol=1e-12)


def test_trees_and_closures() -> None:
    a, b = np.random.default_rng(1).uniform(0.5, 1.0, (2, 9))

    def combine(first: Any, second: Any) -> Any:
        return {"a": first["a"] * second["a"], "b": second["a"] * first["b"] + second["b"]}

    def states(rate: Any) -> Any:
        return tnf.associative_scan(combine, {"a": a * rate, "b": b + 0 * rate})["b"]

    x, expected = 0.0, []
    for k in range(9):
        x = 0.9 * a[k] * x + b[k]
        expected.append(x)
    np.testing.assert_allclose(tnf.jit(states)(0.9), expected, rtol=1e-13)
    slope = tnf.grad(lambda rate: states(rate)[-1])(0.9)
    step = tnf.jit(states)(0.9 + 1e-20j)[-1].imag / 1e-20
    np.testing.assert_allclose(slope, step, rtol=1e-12)


def names_of(program: Any) -> list[str]:
    return [line for line in str(program).splitlines() if not line.startswith(" ")]


def test_natively_one_compiled_scan_and_no_loop_in_the_text() -> None:
    if "compiled" not in EXECUTORS:
        pytest.skip("llvmlite is not installed")
    program = tnf.compile(tnf.grad(losses(reverse=False)[0]), MATRICES)
    native = str(EXECUTORS["compiled"].compile(program))
    # The three scans are those of the values, of the values with residuals, and of the backward pass.
    assert native.count("Scan(") == 3
    assert "Alternatives" not in native
    assert "stablehlo.while" not in lower_to_stablehlo(program).plain_text
    # Without `compiled=True`, the loop is too short to compile: compiling takes longer than it saves. The schedule
    # then has a tree of ops on many elements.
    assert "Scan(" not in str(GraphExecutor().compile(program))


def test_the_text_grows_with_the_logarithm() -> None:
    def lines(n: int) -> int:
        program = tnf.compile(lambda x: tnf.associative_scan(product, x), np.ones((n, 2, 2)))
        return lower_to_stablehlo(program).plain_text.count("stablehlo.dot_general")

    assert [lines(n) for n in (2, 4, 8, 16, 32)] == [1, 3, 5, 7, 9]


def test_parity_and_files() -> None:
    program = tnf.compile(losses(reverse=True)[0], MATRICES)
    check_parity(program, MATRICES)
    again = pickle.loads(pickle.dumps(program))
    assert GraphExecutor().run(again, MATRICES) == GraphExecutor().run(program, MATRICES)


def test_a_function_that_changes_types_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"associative_scan: fn gives elems.* f64.* it takes i64"):
        tnf.associative_scan(lambda a, b: a / b, np.arange(1, 5))
    with pytest.raises(ShapeError, match=r"associative_scan: fn gives elems.* f64.* it takes f64"):
        tnf.associative_scan(lambda a, b: tnf.sum(a) + 0 * b[:1], np.ones(4))
