"""Operations with regions, names and attributes must be printed as text that MLIR can read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
from lowering.operations import Dense, Integer, Integers, Literal
from tenferro import errors
from tenferro.extension import ExtensionOp, apply, extension_family
from tenferro.types import DType, TensorSpec
from xla_peer import XlaExecutor

SCALAR = TensorSpec((), "float64")


@extension_family("tenferro-tests", "printed", version=1)
class Printed(ExtensionOp):
    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]


def program_of(rule: Callable[..., Any], *shape: int) -> Any:
    lowering.register_extension_lowering(Printed.family_id, rule, replace=True)
    return tnf.compile(lambda x: apply(Printed(), x), TensorSpec(shape, "float64"))


def lowered(rule: Callable[..., Any], *shape: int) -> str:
    module = lowering.lower_to_stablehlo(program_of(rule, *shape))
    module.verify()
    return str(module)


def doubled_sum(op: Any, w: Any, x: Any) -> Any:
    """Return a reduction of x. Its region reads a value `two`, which no other operation uses."""
    two = w.op("add", w.scalar(1, x.dtype), w.scalar(1, x.dtype))

    def combine(inner: Any, a: Any, b: Any) -> Any:
        return inner.op("add", a, inner.op("multiply", b, two))

    body = w.region({"a": SCALAR, "b": SCALAR}, combine)
    operands, dimensions = (x, w.scalar(0, x.dtype)), {"dimensions": Integers([0])}
    total = w.operation("stablehlo.reduce", operands, [SCALAR], dimensions, [body])[0]
    return w.op("add", x, w.broadcast(total, x.shape, ()))


def test_a_region_uses_values_of_its_surroundings() -> None:
    text = lowered(doubled_sum, 1)
    (two,) = re.findall(r"(%\d+) = stablehlo.add %0, %0", text)
    assert re.search(rf"stablehlo.multiply %b, {two} : tensor<f64>", text)
    # Depending on its order, XLA combines 0 and x to x + 2 * 0 or to 0 + 2 * x. Both are correct.
    (y,) = XlaExecutor("cpu").run(program_of(doubled_sum, 1), np.array([3.0]))
    assert y in (6.0, 9.0)


def test_regions_stand_in_regions() -> None:
    """Regions must be allowed inside regions.

    One branch returns a value from outside, and the other reuses a name from outside.
    """

    def rule(op: Any, w: Any, x: Any) -> Any:
        two = w.op("add", w.scalar(1, x.dtype), w.scalar(1, x.dtype))

        def combine(inner: Any, a: Any, b: Any) -> Any:
            branches = [
                inner.region({}, lambda w: two),
                inner.region({}, lambda w: w.op("negate", a).called("a")),
            ]
            is_less = inner.compare("LT", a, b)
            return inner.operation("stablehlo.if", (is_less,), [SCALAR], regions=branches)

        body = w.region({"a": SCALAR, "b": SCALAR}, combine)
        operands, dimensions = (x, w.scalar(0, x.dtype)), {"dimensions": Integers([0])}
        total = w.operation("stablehlo.reduce", operands, [SCALAR], dimensions, [body])[0]
        return w.broadcast(total, x.shape, ())

    text = lowered(rule, 2)
    (two,) = re.findall(r"(%\d+) = stablehlo.add %0, %0", text)
    assert f"stablehlo.return {two} : tensor<f64>" in text
    assert "%a_0 = stablehlo.negate %a" in text


def test_functions_that_a_region_calls_are_in_the_module() -> None:
    def rule(op: Any, w: Any, x: Any) -> Any:
        return w.while_loop(
            "halve",
            lambda inner, y: inner.compare("GT", y, inner.full(1, y.spec)),
            lambda inner, y: [inner.op("multiply", y, inner.full(0.5, y.spec))],
            x,
        )

    text = lowered(rule)
    assert "func.func private @halve_while_0(%arg0: tensor<f64>) -> (tensor<i1>)" in text
    assert "func.func private @halve_do_0(%arg0: tensor<f64>) -> (tensor<f64>)" in text
    assert XlaExecutor("cpu").run(program_of(rule), np.float64(5.0)) == 0.625


def test_names_that_are_given_twice_are_made_unique() -> None:
    def combine(inner: Any, a: Any, b: Any) -> Any:
        sums = [inner.op("add", a, b).called("a") for _ in range(2)]
        return inner.op("multiply", *sums)

    def rule(op: Any, w: Any, x: Any) -> Any:
        body = w.region({"a": SCALAR, "b": SCALAR}, combine)
        operands, dimensions = (x, w.scalar(0, x.dtype)), {"dimensions": Integers([0])}
        total = w.operation("stablehlo.reduce", operands, [SCALAR], dimensions, [body])[0]
        return w.op("add", x.called("x"), w.broadcast(total, x.shape, ()).called("x"))

    text = lowered(rule, 2)
    assert "%a_0 = stablehlo.add %a, %b" in text
    assert "%a_1 = stablehlo.add %a, %b" in text
    assert "stablehlo.add %x, %x_0" in text


def test_one_operation_that_combines_its_operands_in_turn_is_no_short_form() -> None:
    """The short form `applies` means exactly `op %a, %b`.

    A region that computes `op %b, %b` must therefore not be printed in this form.
    """

    def rule(op: Any, w: Any, x: Any) -> Any:
        body = w.region({"a": SCALAR, "b": SCALAR}, lambda inner, a, b: inner.op("add", b, b))
        operands, dimensions = (x, w.scalar(0, x.dtype)), {"dimensions": Integers([0])}
        total = w.operation("stablehlo.reduce", operands, [SCALAR], dimensions, [body])[0]
        return w.broadcast(total, x.shape, ())

    text = lowered(rule, 2)
    assert "applies" not in text
    assert "stablehlo.add %b, %b" in text


def test_attributes_of_each_kind() -> None:
    given = {
        "b": True,
        "i": 3,
        "f": 0.1,
        "s": 'say "\u00e9"',
        "l": [1, [2.0], {}],
        "d": {"k": Integer(1, "ui8")},
        "a": Integers([]),
        "t": Dense([(1, 2), (3, 4)], "i64"),
        "w": Literal("unit"),
    }

    def rule(op: Any, w: Any, x: Any) -> Any:
        called = {"call_target_name": "f", "api_version": Integer(4, "i32")}
        return w.op("custom_call", x, result=x.spec, **called, **given)

    text = lowered(rule, 2)
    assert (
        'b = true, i = 3 : i64, f = 0.1 : f64, s = "say \\22\\C3\\A9\\22", l = [1 : i64, [2.0 : f64], {}], '
        "d = {k = 1 : ui8}, a = array<i64>, t = dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>, w = unit}"
    ) in text


def of_another_writer(op: Any, w: Any, x: Any) -> Any:
    return w.op("add", x, w.inner([x.spec]).arguments[0])


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (
            lambda op, w, x: w.op("custom_call", x, result=x.spec, call_target_name="f", o=object),
            r"stablehlo\.custom_call: <class 'object'> is not an attribute; lowering\.operations",
        ),
        (
            lambda op, w, x: w.convert(
                w.op("compare", x, x, result=TensorSpec(x.shape, "bool")), DType.F64
            ),
            r"stablehlo\.compare: its attribute comparison_direction is missing",
        ),
        (
            of_another_writer,
            r"stablehlo\.add: an operand of type f64\[2\] is no value of this function",
        ),
    ],
)
def test_what_cannot_be_printed_is_told(rule: Any, words: str) -> None:
    with pytest.raises(errors.InvalidConfigError, match=words) as caught:
        lowered(rule, 2)
    assert "test_printer.py" in str(caught.value)
