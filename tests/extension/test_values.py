"""Rules and expansions of extensions may call tenferro's functions on the values that they receive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.extension import (
    ExtensionAdRule,
    ExtensionOp,
    ExtensionRuleSet,
    HostReferenceRuntime,
    apply,
    extension_family,
)
from tenferro.extension.algebra import apply_one
from tenferro.extension.ops import Add
from tenferro.program import GraphProgram, expand_extensions

X = np.array([[0.5, 1.5, 2.5], [3.5, 4.5, 0.25]], "float32")

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": tnf.exp,
    "a number on either side": lambda x: tnf.divide(1, tnf.add(x, 2.0)),
    "where": lambda x: tnf.where(tnf.greater(x, 1.0), x, 0.0),
    "an array that broadcasts": lambda x: tnf.multiply(x, np.arange(3, dtype="float32")),
    "promotion": lambda x: tnf.add(x, np.arange(3)),
    "sum": lambda x: tnf.sum(x, axis=0, keepdims=True),
    "matmul": lambda x: tnf.matmul(x, tnf.matrix_transpose(x)),
    "reshape": lambda x: tnf.reshape(x, (3, 2)),
    "stack": lambda x: tnf.stack([x, x]),
    "sort": tnf.sort,
    "softmax": tnf.nn.softmax,
    "einsum": lambda x: tnf.einsum("ij,kj->ik", x, x),
    "norm": lambda x: tnf.linalg.norm(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_write_what_they_write_into_a_trace(name: str) -> None:
    function = FUNCTIONS[name]
    builder = tnf.GraphBuilder()
    y = function(builder.value(builder.input(X.shape, X.dtype)))
    written = GraphProgram.from_graph(builder.graph, [y.handle])
    expected = tnf.compile(function, X)
    assert ops_of(written) == ops_of(expected)
    np.testing.assert_array_equal(written.run(X)[0], expected.run(X))


def ops_of(program: Any) -> list[Any]:
    return [(i.op, i.inputs, i.outputs) for i in program.instructions]


@extension_family("tenferro-tests", "soft_threshold", version=1)
@dataclass(frozen=True)
class SoftThreshold(ExtensionOp):
    """sign(x) max(|x| - 1, 0)."""

    as_numbers: bool = False

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        return [np.sign(inputs[0]) * np.maximum(np.abs(inputs[0]) - 1, 0)]

    def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
        x = builder.value(inputs[0])
        y = tnf.sign(x) * tnf.maximum(tnf.abs(x) - 1, 0)
        return y.handle if self.as_numbers else y


class SoftThresholdRule(ExtensionAdRule):
    """Rule of `SoftThreshold`. The derivative is 1 where |x| > 1, and 0 elsewhere."""

    family_id = SoftThreshold.family_id

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return tnf.where(tnf.abs(primals[0]) > 1, tangents[0], 0)


@pytest.mark.parametrize("as_numbers", [False, True])
def test_an_expansion_of_values(as_numbers: bool) -> None:
    x = np.array([-2.5, -0.5, 0.5, 3.0], "float32")
    program = expand_extensions(tnf.compile(lambda x: apply(SoftThreshold(as_numbers), x), x))
    np.testing.assert_array_equal(program.run(x), np.array([-1.5, 0.0, 0.0, 2.0], "float32"))


def test_a_rule_of_functions_to_second_order() -> None:
    context = tnf.AdContext(ExtensionRuleSet([SoftThresholdRule()]))
    x = np.array([-2.5, -0.5, 0.5, 3.0])
    gradient = tnf.grad(lambda x: tnf.sum(apply(SoftThreshold(), x) ** 2), context=context)
    executor = tnf.GraphExecutor(runtimes=[HostReferenceRuntime(SoftThreshold.family_id)])
    first = executor.run(tnf.compile(gradient, x), x)
    np.testing.assert_array_equal(first, [-3.0, 0.0, 0.0, 4.0])
    second = tnf.compile(
        tnf.hessian(lambda x: tnf.sum(apply(SoftThreshold(), x) ** 2), context=context), x
    )
    np.testing.assert_array_equal(executor.run(second, x), np.diag([2.0, 0.0, 0.0, 2.0]))


def test_a_value_of_another_graph_is_refused() -> None:
    here, there = tnf.GraphBuilder(), tnf.GraphBuilder()
    x, y = (builder.value(builder.input((2,), "float64")) for builder in (here, there))
    with pytest.raises(errors.InvalidConfigError, match="two graphs"):
        tnf.add(x, y)
    with pytest.raises(errors.InvalidConfigError, match="two graphs"):
        x * y


def test_a_tensor_of_the_surroundings_is_refused() -> None:
    builder = tnf.GraphBuilder()
    x = builder.value(builder.input((2,), "float64"))
    with pytest.raises(errors.InvalidConfigError, match="does not belong"):
        tnf.compile(lambda y: tnf.add(x, y), np.ones(2))
    with pytest.raises(errors.InvalidConfigError, match="which a trace does not know"):
        tnf.compile(lambda y: tnf.add(y, x), np.ones(2))


def test_the_builder_takes_numbers_of_values() -> None:
    builder = tnf.GraphBuilder()
    x = builder.input((2,), "float64")
    assert builder.emit(Add(), x, x) == builder.apply_one(Add(), x, x)
    assert builder.emit_all(Add(), x, x) == builder.apply(Add(), x, x)
    value = builder.value(x)
    assert apply_one(Add(), value, value).handle == builder.apply_one(Add(), x, x)
    with pytest.raises(errors.InvalidConfigError, match="is not a value of this graph"):
        builder.apply_one(Add(), value, x)
