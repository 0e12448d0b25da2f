"""JAX functions as arguments of tenferro.

JAX must trace them, or an error must name the function to call.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import tenferro as tnf
import xla_peer
from xla_peer.cli import app
from xla_peer.tracing import traced

X = np.linspace(-2, 2, 6, dtype="float32").reshape(2, 3)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ufunc": jnp.sin,
    "operators first": lambda x: jnp.exp(x * 2 + 1),
    "custom_jvp": jax.nn.relu,
    "jit": jax.jit(lambda x: x + 1),
    "lax": lambda x: jax.lax.add(x, x),
    "asarray": lambda x: jnp.asarray(x) * 2,
    "grad": jax.grad(lambda x: jnp.sum(x**3)),
    "vmap": jax.vmap(lambda x: x * 2),
    "scan": lambda x: jax.lax.scan(lambda c, a: (c + a, c), jnp.zeros(3), x),
    "cond": lambda x: jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x),
    "where": lambda x: jnp.where(x > 0, x, 0),
    "einsum": lambda x: jnp.einsum("ij->i", x),
    "tree": lambda x: jax.tree.map(jnp.sin, {"a": x}),
    "native": xla_peer.native(lambda x: jnp.cos(x)),
    "jit of tenferro": tnf.jit(lambda x: x + 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_traced_by_jax(name: str) -> None:
    f = FUNCTIONS[name]
    expected = f(X) if name != "native" else np.cos(X)
    assert jax.tree.all(
        jax.tree.map(lambda x, y: np.allclose(x, y, 1e-5), traced(f, X).run(X), expected)
    )


def loss(x: Any) -> Any:
    return jnp.sum(jnp.tanh(x) * jax.nn.softplus(x))


def test_judges_take_them() -> None:
    assert xla_peer.check_parity(loss, X, grad=True, interpreter=False).ok
    assert xla_peer.check_parity(loss, X, against=jax.jit(loss), interpreter=False).ok
    assert xla_peer.check_parity(xla_peer.native(loss), X, interpreter=False).ok
    assert xla_peer.digits(loss, X, grad=True).name
    assert xla_peer.error_bound(jnp.tanh, X).is_finite
    assert xla_peer.judge(jnp.exp, [X], [np.exp(X)], [np.exp(X)], interpreter=False).ok
    artifact = xla_peer.export(loss, X, gradient=True)
    np.testing.assert_allclose(artifact.run(X), loss(X), rtol=1e-5)


MODEL = """
import jax
import jax.numpy as jnp

def f(x):
    return jnp.sum(jnp.sin(x) ** 2)

g = jax.jit(f)
"""


@pytest.mark.parametrize("command", ["run", "parity", "grad", "digits", "inspect"])
@pytest.mark.parametrize("name", ["f", "g"])
def test_commands_take_them(tmp_path: Path, command: str, name: str) -> None:
    file = tmp_path / "model.py"
    file.write_text(MODEL)
    result = CliRunner().invoke(app, [command, f"{file}:{name}", "x=3xf32"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    "call",
    [tnf.grad(loss), tnf.jit(loss), tnf.vmap(jnp.sin), tnf.jacfwd(loss), tnf.value_and_grad(loss)],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore")
def test_transforms_name_what_to_call(call: Any) -> None:
    with pytest.raises(TypeError) as caught:
        call(X)
    assert any("xla_peer.from_jax(f, *arguments)" in note for note in caught.value.__notes__)


def test_other_errors_have_no_such_note() -> None:
    def fails(x: Any) -> Any:
        return x + "a"

    with pytest.raises(TypeError) as caught:
        tnf.grad(fails)(X)
    assert not any("from_jax" in note for note in getattr(caught.value, "__notes__", ()))

    def concrete(x: Any) -> Any:
        return np.asarray(x)

    with pytest.raises(tnf.errors.ConcretizationError) as refused:
        traced(concrete, X)
    assert not any("from_jax" in note for note in getattr(refused.value, "__notes__", ()))


def test_lines_are_the_users() -> None:
    """Reports, printed programs and errors must name the user's line in the JAX function, and not a line inside JAX."""

    def f(x: Any) -> Any:
        y = jax.nn.relu(x)
        return jax.lax.scan(lambda c, row: (jnp.sin(c) * row, c), y[0], y)

    here = Path(__file__).name
    program = xla_peer.from_jax(f, X)
    lines = [str(step.source) for step in program.instructions if step.source is not None]
    assert any(here in line for line in lines)
    first = (
        f.__code__.co_firstlineno
    )  # the lines of relu, which jax lowers as a function of its own, are those of f
    numbers = {step.source.line for step in program.instructions if step.source is not None}
    assert numbers <= {first + 1, first + 2}
    assert not any("<stablehlo>" in line for line in lines)
    assert "<stablehlo>" not in str(xla_peer.native(f).lower(X))
    with pytest.raises(tnf.errors.UnsupportedError, match=rf"{here}:\d+"):
        xla_peer.from_jax(lambda x: jax.lax.rng_uniform(0.0, 1.0, x.shape), X)
