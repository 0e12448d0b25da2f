"""Derivative rules of extensions.

Their results must be checked against the declared types, and they may compute with `Value`.
"""

from __future__ import annotations

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
from tenferro.extension.algebra import convert, reduce_sum, select, zeros

X = np.array([-2.0, 0.0, 3.0])


@extension_family("tenferro-tests", "ruled", version=1)
@dataclass(frozen=True)
class Ruled(ExtensionOp):
    """y = 2 x."""

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        return [2.0 * inputs[0]]


class Rule(ExtensionAdRule):
    family_id = Ruled.family_id

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return builder.apply(op, tangents[0])

    def transpose_rule(self, op: Any, builder: Any, inputs: Any, linear: Any, bars: Any) -> Any:
        return builder.apply(op, bars[0])

    def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        return builder.apply(op, inputs[0])


def f(x: Any) -> Any:
    return apply(Ruled(), x)


def context(**rules: Any) -> tnf.AdContext:
    rule = type("Changed", (Rule,), rules)()
    return tnf.AdContext(ExtensionRuleSet([rule]))


WRONG = [
    (lambda x: reduce_sum(x, (0,)), errors.ShapeError, r"f64\[3\], got f64\[\]"),
    (lambda x: convert(x, tnf.DType.F32), errors.DTypeError, r"f64\[3\], got f32\[3\]"),
    (lambda x: np.ones(3), errors.InvalidConfigError, "must be a Value"),
    (lambda x: (x, x), errors.InvalidConfigError, "gives 2 values, expected 1"),
]


@pytest.mark.parametrize(("change", "kind", "words"), WRONG)
def test_a_tangent_of_another_type_is_refused(change: Any, kind: Any, words: str) -> None:
    def linearize(self: Any, op: Any, b: Any, xs: Any, ys: Any, dots: Any) -> Any:
        return change(dots[0])

    with pytest.raises(kind, match=rf"{Ruled.family_id}.*linearize of .*{words}") as caught:
        tnf.compile(lambda x, v: tnf.jvp(f, (x,), (v,), context=context(linearize=linearize)), X, X)
    assert "test_rules.py" in str(caught.value)


@pytest.mark.parametrize(("change", "kind", "words"), WRONG)
def test_a_cotangent_of_another_type_is_refused(change: Any, kind: Any, words: str) -> None:
    def transpose_rule(self: Any, op: Any, b: Any, xs: Any, linear: Any, bars: Any) -> Any:
        return change(bars[0])

    loss = tnf.grad(lambda x: tnf.sum(f(x)), context=context(transpose_rule=transpose_rule))
    with pytest.raises(kind, match=rf"{Ruled.family_id}.*transpose_rule of .*{words}") as caught:
        tnf.compile(loss, X)
    assert "test_rules.py" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (lambda x: reduce_sum(x, (0,)), errors.ShapeError, r"f64\[3,3\], got f64\[3\]"),
        (lambda x: convert(x, tnf.DType.F32), errors.DTypeError, r"f64\[3,3\], got f32\[3,3\]"),
        (lambda x: None, errors.InvalidConfigError, "must be a Value made in this call, got None"),
        (lambda x: (x, x), errors.InvalidConfigError, r"gives 2 values, expected 1\n"),
    ],
)
def test_a_batch_of_another_type_is_refused(change: Any, kind: Any, words: str) -> None:
    def batch_rule(self: Any, op: Any, b: Any, xs: Any, batched: Any) -> Any:
        return change(xs[0])

    made = tnf.jacfwd(f, context=context(batch_rule=batch_rule))
    with pytest.raises(kind, match=rf"(?s){Ruled.family_id}.*batch_rule of .*{words}"):
        tnf.compile(made, X)


def test_extents_that_cannot_be_compared_yet_become_guards() -> None:
    @dataclass(frozen=True)
    class Beside(Ruled):
        input_count: int = 2  # pyright: ignore[reportIncompatibleVariableOverride]  # this op has two

    def linearize(self: Any, op: Any, b: Any, xs: Any, ys: Any, dots: Any) -> Any:
        return dots[1]

    changed = context(linearize=linearize)

    def tangent(x: Any, z: Any) -> Any:
        return tnf.jvp(lambda x, z: apply(Beside(), x, z), (x, z), (x, z), context=changed)[1]

    made = tnf.compile(tangent, tnf.TensorSpec(("n",), "f8"), tnf.TensorSpec(("m",), "f8"))
    np.testing.assert_array_equal(EXECUTOR.run(made, X, 2.0 * X), 2.0 * X)
    with pytest.raises(errors.GuardError, match="linearize"):
        EXECUTOR.run(made, X, np.ones(2))


EXECUTOR = tnf.GraphExecutor(runtimes=[HostReferenceRuntime(Ruled.family_id)])


@pytest.mark.parametrize(
    ("compared", "expected"),
    [
        (lambda x: x == 0, X == 0),
        (lambda x: x != 0, X != 0),
        (lambda x: x < 0.0, X < 0),
        (lambda x: x <= 0, X <= 0),
        (lambda x: x > 0, X > 0),
        (lambda x: 0 >= x, X <= 0),  # noqa: SIM300  # tests the reflected comparison
        (lambda x: x == x, X == X),
        (lambda x: np.float64(0) < x, X > 0),
    ],
)
def test_values_are_compared_element_by_element(compared: Any, expected: Any) -> None:
    def linearize(self: Any, op: Any, b: Any, xs: Any, ys: Any, dots: Any) -> Any:
        return select(compared(xs[0]), dots[0], zeros(dots[0]))

    made = tnf.compile(
        lambda x, v: tnf.jvp(f, (x,), (v,), context=context(linearize=linearize))[1], X, X
    )
    np.testing.assert_array_equal(EXECUTOR.run(made, X, np.ones(3)), expected.astype(float))


@pytest.mark.parametrize(
    ("misuse", "kind", "words"),
    [
        (lambda x: (x != 0) and x, errors.ConcretizationError, r"tenferro\.where"),
        (lambda x: np.asarray(x), errors.DTypeError, "no elements while a rule is applied"),
        (lambda x: tnf.add([x, x], 1.0), errors.DTypeError, r"tenferro\.stack"),
        (lambda x: tnf.nonzero(x), errors.DataDependentShapeError, "not known in a rule"),
        (lambda x: np.exp(x), errors.InvalidConfigError, "failed: TypeError: .* ufuncs"),
        (lambda x: np.ones(3) * x, errors.DTypeError, "lift"),
        (lambda x: x * 1j, errors.DTypeError, "cannot represent"),
        (lambda x: convert(x, tnf.DType.I32) * 0.5, errors.DTypeError, "cannot represent"),
        (lambda x: x + None, errors.DTypeError, "expected a Value or a number"),
        (lambda x: {x: x}[x], errors.InvalidConfigError, "failed: TypeError: unhashable"),
    ],
)
def test_what_a_value_is_not(misuse: Any, kind: Any, words: str) -> None:
    def linearize(self: Any, op: Any, b: Any, xs: Any, ys: Any, dots: Any) -> Any:
        return misuse(dots[0])

    with pytest.raises(kind, match=words):
        tnf.compile(lambda x, v: tnf.jvp(f, (x,), (v,), context=context(linearize=linearize)), X, X)


def test_a_value_is_not_none() -> None:
    def linearize(self: Any, op: Any, b: Any, xs: Any, ys: Any, dots: Any) -> Any:
        assert (dots[0] == None) is False  # noqa: E711  # rules may be written so
        assert None not in dots
        return dots[0]

    tnf.compile(lambda x, v: tnf.jvp(f, (x,), (v,), context=context(linearize=linearize)), X, X)
