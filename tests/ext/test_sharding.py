"""Without devices, `with_sharding_constraint` must be an identity.

Derivatives, batches and loops must keep the constraint. Programs of several devices are tested in
`tests/xla_peer/sharded.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
from lowering import Partitioning, PartitionSpec
from tenferro import errors
from tenferro.lax import with_sharding_constraint

P = PartitionSpec
MESH = (("x", 4), ("y", 2))


def text_of(function: Callable[..., Any], *arrays: Any) -> str:
    """Lower a function for a mesh of devices, and return the text of the module.

    Inputs and outputs are not sharded.
    """
    program = tnf.compile(function, *arrays)
    whole = [(P(),) * len(specs) for specs in (program.input_specs, program.output_specs)]
    module = lowering.lower_to_stablehlo(program, partitioning=Partitioning(MESH, *whole))
    module.verify()
    return module.text


def constraints_of(function: Callable[..., Any], *arrays: Any) -> list[str]:
    """Return the axes that each sharding constraint in a function's lowered module names."""
    text = text_of(function, *arrays)
    return re.findall(r"sdy\.sharding_constraint %\S+ <@mesh, \[(.*)\]> :", text)


def cube(x: Any) -> Any:
    """Compute x^3, with a sharding constraint on x^2."""
    return with_sharding_constraint(x * x, P("x", P.UNCONSTRAINED)) * x


X = np.arange(24.0).reshape(8, 3)


def test_a_constraint_is_an_identity() -> None:
    tree = {"a": X, "b": (X[0], np.arange(4))}
    specs = {"a": P("x"), "b": (None, P(("x", "y")))}
    program = tnf.compile(lambda tree: with_sharding_constraint(tree, specs), tree)
    for result in (program.run(tree), with_sharding_constraint(tree, specs)):
        np.testing.assert_array_equal(result["a"], X)
        np.testing.assert_array_equal(result["b"][1], np.arange(4))
    assert "ShardingConstraint" in str(program)
    assert "ShardingConstraint" not in str(tnf.GraphExecutor().compile(tnf.compile(cube, X), X))
    assert "sdy" not in lowering.lower_to_stablehlo(program).text


def test_derivatives_batches_and_loops_are_constrained() -> None:
    closed, batched = '{"x"}, {?}', '{?}, {"x"}, {?}'
    assert constraints_of(cube, X) == [closed]
    assert constraints_of(lambda x, t: tnf.jvp(cube, (x,), (t,)), X, X) == [closed] * 2
    assert constraints_of(tnf.vmap(cube), np.stack([X, X])) == [batched]
    assert constraints_of(tnf.vmap(tnf.vmap(cube), 1, 1), np.ones((2, 5, 8, 3))) == [
        "{?}, " + batched
    ]

    def loss(x: Any) -> Any:
        return tnf.sum(cube(x))

    assert constraints_of(tnf.grad(loss), X) == [closed] * 2
    assert constraints_of(tnf.vmap(tnf.grad(loss)), np.stack([X, X])) == [batched] * 2
    np.testing.assert_allclose(tnf.grad(loss)(X), 3 * X**2, rtol=1e-14)
    assert tnf.check_grads(cube, (X,), order=2)

    def loop(x: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            return with_sharding_constraint(carry * carry, P(None, "y")), None

        x = tnf.scan(step, x, None, length=2)[0]
        return tnf.sum(
            tnf.cond(x[0, 0] > 0, lambda x: with_sharding_constraint(x, P("y")) * 2.0, tnf.exp, x)
        )

    y = np.full((4, 2), 1.1)
    assert constraints_of(loop, y) == ['{}, {"y"}', '{"y"}, {}']
    assert sorted(constraints_of(tnf.grad(loop), y)) == sorted(['{}, {"y"}'] * 2 + ['{"y"}, {}'])
    np.testing.assert_allclose(tnf.grad(loop)(y), 8 * y**3, rtol=1e-13)


def test_constraints_are_read_from_a_module() -> None:
    program = lowering.import_stablehlo(text_of(tnf.grad(lambda x: tnf.sum(cube(x))), X))
    assert constraints_of(program.run, X) == ['{"x"}, {?}'] * 2
    np.testing.assert_allclose(program.run(X), 3 * X**2, rtol=1e-14)


@pytest.mark.parametrize(
    "sharding",
    [
        '<@m, [{"x", ?}, {}]>', '<@m, [{"x":(1)2}, {}]>', '<@m, [{"x"}p1, {}]>', '<mesh<["x"=4]>, [{"x"}, {}]>',
        '<@m, [{}, {}], replicated={"x"}>', "<@none, [{}, {}]>",
    ],
)  # fmt: skip
def test_other_constraints_are_read_as_identities(sharding: str) -> None:
    """Constraints that no `PartitionSpec` can describe must be imported as identities."""
    text = f"""module {{
  sdy.mesh @m = <["x"=4]>
  sdy.mesh @none = <[]>
  func.func @main(%x: tensor<8x3xf64>) -> tensor<8x3xf64> {{
    %y = sdy.sharding_constraint %x {sharding} : tensor<8x3xf64>
    return %y : tensor<8x3xf64>
  }}
}}"""
    program = lowering.import_stablehlo(text)
    assert not program.instructions
    np.testing.assert_array_equal(program.run(X), X)


@pytest.mark.parametrize(
    ("error", "words", "spec"),
    [
        (errors.ShapeError, "3 entries for shape", P(None, None, "x")),
        (errors.InvalidConfigError, "PartitionSpecs of xla_peer, got 'x' of builtins", "x"),
        (errors.ArityError, "not a prefix", (P(), P())),
        (errors.InvalidConfigError, "no 'z'", P("z")),
        (errors.ShapeError, "axis 1 of extent 3 cannot be cut into 2", P(None, "y")),
    ],
)
def test_constraints_that_do_not_fit(error: Any, words: str, spec: Any) -> None:
    with pytest.raises(error, match=words):
        text_of(lambda x: with_sharding_constraint(x, spec), X)


def test_arguments_are_not_unconstrained() -> None:
    spec = P(P.UNCONSTRAINED, "x")
    assert repr(spec) == "PartitionSpec(PartitionSpec.UNCONSTRAINED, 'x')"
    assert spec != P(None, "x")
    program = tnf.compile(lambda x: x * 2, X)
    with pytest.raises(errors.InvalidConfigError, match="axis 0 is unconstrained"):
        lowering.lower_to_stablehlo(program, partitioning=Partitioning(MESH, (spec,), (P(),)))
