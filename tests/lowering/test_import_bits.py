"""If a module without derivative rules creates floats from the bits of other floats, differentiation must warn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tenferro as tnf
from lowering import import_stablehlo
from tenferro.errors import LostDerivativeWarning

BITS: dict[str, Callable[..., Any]] = {
    "ldexp": lambda x: jnp.sum(jnp.ldexp(x, 3)),
    "frexp": lambda x: jnp.sum(jnp.frexp(x)[0]),
    "scan": lambda x: jax.lax.scan(lambda c, a: (c + jnp.ldexp(a, 1), c), jnp.float32(0), x)[0],
    "cond": lambda x: jax.lax.cond(x[0] > 0, lambda x: jnp.sum(jnp.frexp(x)[0]), jnp.sum, x),
}
OTHERS: dict[str, Callable[..., Any]] = {
    "sine": lambda x: jnp.sum(jnp.sin(x)),
    "sort": lambda x: jnp.sum(jnp.sort(x) * jnp.arange(3.0)),
    "top_k": lambda x: jnp.sum(jax.lax.top_k(x, 2)[0]),
    "random": lambda x: jnp.sum(x * jax.random.normal(jax.random.PRNGKey(0), (3,))),
    "exponent": lambda x: jnp.sum(x * (jax.lax.bitcast_convert_type(x, jnp.int32) >> 23)),
}
X = np.array([0.75, -3.0, 40.0], "float32")


def imported(f: Callable[..., Any]) -> Any:
    return import_stablehlo(jax.jit(f).lower(X).as_text(), trusted=True)


@pytest.mark.parametrize("name", BITS)
def test_a_derivative_warns(name: str) -> None:
    program = imported(BITS[name])
    np.testing.assert_allclose(program.run(X), BITS[name](X), rtol=1e-6)
    with pytest.warns(LostDerivativeWarning, match="made of the bits of a float"):
        tnf.grad(program.run)(X)
    with pytest.warns(LostDerivativeWarning):
        tnf.jvp(program.run, (X,), (X,))


@pytest.mark.parametrize("name", OTHERS)
def test_other_derivatives_do_not(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tnf.grad(imported(OTHERS[name]).run)(X)


def test_from_a_saved_program(tmp_path: Path) -> None:
    program = imported(BITS["ldexp"])
    tnf.save(program, tmp_path / "bits.tnf")
    with pytest.warns(LostDerivativeWarning):
        tnf.grad(tnf.load(tmp_path / "bits.tnf").run)(X)


def test_the_line_is_named() -> None:
    text = """
    func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.bitcast_convert %x : (tensor<f32>) -> tensor<i32>
      %1 = stablehlo.add %0, %0 : tensor<i32>
      %2 = stablehlo.bitcast_convert %1 : (tensor<i32>) -> tensor<f32> loc("model.py":7:1)
      return %2 : tensor<f32>
    }"""
    with pytest.warns(LostDerivativeWarning, match=r"model\.py:7"):
        tnf.grad(import_stablehlo(text).run)(np.float32(1))
