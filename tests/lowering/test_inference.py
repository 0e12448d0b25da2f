"""The types of emitted operations must equal those of the op's rule.

An emitter either states a type, or it is inferred.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import lowering
import tenferro as tnf
from lowering.emit import EMITTERS
from tenferro import errors
from tenferro.extension import ExtensionOp, apply, extension_family
from tenferro.graph import GraphBuilder
from tenferro.ops.analytic import Sin
from tenferro.ops.elementwise import Add, Minimum
from tenferro.program import GraphProgram
from tenferro.types import DType, TensorSpec

X = TensorSpec((2,), "float32")


@extension_family("tenferro-tests", "typed", version=1)
class Typed(ExtensionOp):
    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]


def text_of(rule: Callable[..., Any], spec: TensorSpec = X) -> str:
    lowering.register_extension_lowering(Typed.family_id, rule, replace=True)
    module = lowering.lower_to_stablehlo(tnf.compile(lambda x: apply(Typed(), x), spec))
    module.verify()
    return str(module)


def test_a_type_is_that_of_the_operands_and_not_of_the_op() -> None:
    def rule(op: Any, w: Any, x: Any) -> Any:
        wide = w.convert(x, DType.F32)
        finite = w.op("is_finite", wide)
        return w.convert(w.select(finite, w.op("power", wide, wide), wide), x.dtype)

    text = text_of(rule, TensorSpec((2,), "bfloat16"))
    assert "stablehlo.is_finite %0 : (tensor<2xf32>) -> tensor<2xi1>" in text
    assert "stablehlo.power %0, %0 : tensor<2xf32>" in text


def test_symbols_that_a_guard_makes_equal_are_one_extent() -> None:
    builder = GraphBuilder()
    x, y, z = (builder.input((extent,), DType.I32) for extent in ("n", "m", 3))
    (total,) = builder.apply(Add(), x, y)
    (least,) = builder.apply(Minimum(), total, z)
    program = GraphProgram.from_graph(builder.graph, [least])
    module = lowering.lower_to_stablehlo(program, symbolic=True)
    module.verify()
    shown = str(module)
    assert "stablehlo.add %arg0, %arg1 : (tensor<?xi32>, tensor<?xi32>) -> tensor<?xi32>" in shown
    assert re.search(
        r"minimum %\d+, %arg2 : \(tensor<\?xi32>, tensor<3xi32>\) -> tensor<3xi32>", shown
    )


def test_parts_of_complex_numbers_are_real() -> None:
    def rule(op: Any, w: Any, x: Any) -> Any:
        return w.op("complex", w.op("abs", x), w.op("add", w.op("real", x), w.op("imag", x)))

    text = text_of(rule, TensorSpec((2,), "complex128"))
    assert "stablehlo.abs %arg0 : (tensor<2xcomplex<f64>>) -> tensor<2xf64>" in text


@pytest.mark.parametrize(
    ("rule", "kind", "words"),
    [
        (
            lambda op, w, x: w.op("add", x, w.convert(x, DType.F16)),
            errors.DTypeError,
            r"stablehlo\.add: x0 and x1 must have the same dtype, got f32\[2\] and f16\[2\]",
        ),
        (
            lambda op, w, x: w.op("add", x, w.scalar(1, x.dtype)),
            errors.ShapeError,
            r"stablehlo\.add: x0 and x1 must have the same shape, got f32\[2\] and f32\[\]",
        ),
        (
            lambda op, w, x: w.op("concatenate", x, x, dim=0),
            errors.InvalidConfigError,
            r"stablehlo\.concatenate: .* do not determine its type; give result=",
        ),
        (
            lambda op, w, x: w.op("sine", x, result=TensorSpec((2,), "float64")),
            errors.InvalidConfigError,
            r"stablehlo\.sine: its type on \(f32\[2\]\) is f32\[2\], got result=f64\[2\]",
        ),
    ],
)
def test_types_that_are_refused(rule: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        text_of(rule)
    assert "test_inference.py" in str(caught.value)


def test_an_emitter_of_another_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {**EMITTERS, Sin: lambda op, w, x: w.op("is_finite", x)}
    monkeypatch.setattr("lowering.lower.EMITTERS", wrong)
    program = tnf.compile(tnf.sin, X)
    words = r"Sin: its emitter gives \(bool\[2\]\), the op's own rule declares \(f32\[2\]\)"
    with pytest.raises(errors.BackendFailureError, match=words):
        lowering.lower_to_stablehlo(program)
