"""Quantised types must follow the formulas of the specification, in all forms of operations.

The expected values are computed in NumPy and in exact fractions.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import lowering
from lowering.mlir_bindings import MlirDiagnosticError
from lowering.read.quantized import quantized_type
from lowering.syntax import read_module
from tenferro.errors import InvalidConfigError, UnsupportedError


def dequantize(q: Any, scale: Any, zero: Any = 0, dtype: Any = np.float32) -> Any:
    return (np.asarray(q).astype(np.int64) - zero).astype(dtype) * np.asarray(scale, dtype)


def quantize(
    x: Any,
    scale: Any,
    zero: Any = 0,
    bounds: tuple[int, int] = (-128, 127),
    dtype: Any = np.float32,
) -> Any:
    moved = np.asarray(x, dtype) / np.asarray(scale, dtype) + np.asarray(zero, dtype)
    return np.rint(np.clip(moved, *bounds)).astype(int)


def program(body: str, arguments: str, result: str) -> Any:
    return lowering.import_stablehlo(f"func.func @main({arguments}) -> {result} {{\n{body}\n}}")


I8 = "!quant.uniform<i8:f32, 2.500000e-01:3>"
OTHER = "!quant.uniform<u8<0:200>:f32, 0.1:17>"
EVERY_I8 = np.arange(-128, 128, dtype=np.int8)


def test_every_number_is_dequantised_and_quantised() -> None:
    q = program(
        f"%0 = stablehlo.uniform_dequantize %x : (tensor<256x{I8}>) -> tensor<256xf32>\nreturn %0 : tensor<256xf32>",
        f"%x: tensor<256x{I8}>", "tensor<256xf32>",
    )  # fmt: skip
    exact = [float((Fraction(int(n)) - 3) * Fraction(1, 4)) for n in EVERY_I8]
    np.testing.assert_array_equal(q.run(EVERY_I8), np.array(exact, "f4"))
    x = np.array(
        [-1e9, -32.9, -0.125, -0.0, 0.124, 0.125, 0.126, 0.375, 5.5, 31.1, np.inf, -np.inf], "f4"
    )
    y = program(
        f"%0 = stablehlo.uniform_quantize %x : (tensor<12xf32>) -> tensor<12x{I8}>\nreturn %0 : tensor<12x{I8}>",
        "%x: tensor<12xf32>", f"tensor<12x{I8}>",
    ).run(x)  # fmt: skip
    assert y.dtype == np.int8
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, quantize(x, 0.25, 3))


@pytest.mark.parametrize(
    ("spelling", "other"),
    [
        ("i8<-128:127>:f32, 0.5:10", "i8:f32, 5.000000e-01:10"),
        ("u8<0:255>:f32,0.5:0", "u8:f32, 0.5"),
        ("i8:f32:0, {0.5:1,1.0e-5}", "i8:f32:0, {5.0E-1:1, 1.000000e-05:0}"),
    ],
)
def test_equal_types_have_several_texts(spelling: str, other: str) -> None:
    """The same type may be written in several ways.

    A value with a type of the first text must be accepted where the second text is declared.
    """
    x = np.array([1.0, -2.5], "f4") if "u8" not in spelling else np.array([1.0, 2.5], "f4")
    x = np.array([1.0, 1e-5], "f4") if "{" in spelling else x
    first, second = (f"tensor<2x!quant.uniform<{text}>>" for text in (spelling, other))
    y = program(
        f"%0 = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> {first}\n"
        f"%1 = stablehlo.uniform_dequantize %0 : ({second}) -> tensor<2xf32>\nreturn %1 : tensor<2xf32>",
        "%x: tensor<2xf32>", "tensor<2xf32>",
    ).run(x)  # fmt: skip
    np.testing.assert_array_equal(y, x)
    with pytest.raises(MlirDiagnosticError, match="as one of type"):
        program(
            f"%0 = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> {first}\n"
            f"%1 = stablehlo.uniform_dequantize %0 : ({second.replace('8:', '8<1:9>:')}) -> tensor<2xf32>\n"
            "return %1 : tensor<2xf32>",
            "%x: tensor<2xf32>", "tensor<2xf32>",
        )  # fmt: skip


def test_requantisation_changes_scale_and_storage() -> None:
    run = program(
        f"%0 = stablehlo.uniform_quantize %x : (tensor<256x{I8}>) -> tensor<256x{OTHER}>\nreturn %0 : tensor<256x{OTHER}>",
        f"%x: tensor<256x{I8}>", f"tensor<256x{OTHER}>",
    )  # fmt: skip
    y = run.run(EVERY_I8)
    assert y.dtype == np.uint8
    np.testing.assert_array_equal(
        y, quantize(dequantize(EVERY_I8, 0.25, 3), np.float32(0.1), 17, (0, 200))
    )


@pytest.mark.parametrize(
    ("name", "ufunc"),
    [
        ("add", np.add),
        ("multiply", np.multiply),
        ("maximum", np.maximum),
        ("subtract", np.subtract),
    ],
)
def test_arithmetic_of_every_pair(name: str, ufunc: Any) -> None:
    """Arithmetic on three different quantised types must be right for all pairs of 8-bit codes."""
    a, b = (
        np.ascontiguousarray(v)
        for v in np.broadcast_arrays(EVERY_I8[:, None], np.arange(201, dtype=np.uint8)[None])
    )
    out = "!quant.uniform<i8:f32, 0.5:-4>"
    kinds = [f"tensor<256x201x{element}>" for element in (I8, OTHER, out)]
    run = program(
        f'%0 = "stablehlo.{name}"(%x, %y) : ({kinds[0]}, {kinds[1]}) -> {kinds[2]}\nreturn %0 : {kinds[2]}',
        f"%x: {kinds[0]}, %y: {kinds[1]}", kinds[2],
    )  # fmt: skip
    expected = quantize(ufunc(dequantize(a, 0.25, 3), dequantize(b, 0.1, 17)), 0.5, -4)
    np.testing.assert_array_equal(run.run(a, b), expected)


def test_unary_operations_and_comparisons() -> None:
    body = f"""
    %0 = stablehlo.tanh %x : tensor<256x{I8}>
    %1 = stablehlo.compare LT, %x, %0 : (tensor<256x{I8}>, tensor<256x{I8}>) -> tensor<256xi1>
    %2 = stablehlo.abs %x : tensor<256x{I8}>
    return %0, %1, %2 : tensor<256x{I8}>, tensor<256xi1>, tensor<256x{I8}>"""
    run = program(
        body, f"%x: tensor<256x{I8}>", f"(tensor<256x{I8}>, tensor<256xi1>, tensor<256x{I8}>)"
    )
    tanh, less, magnitude = run.run(EVERY_I8)
    x = dequantize(EVERY_I8, 0.25, 3)
    np.testing.assert_array_equal(tanh, quantize(np.tanh(x.astype(float)), 0.25, 3))
    np.testing.assert_array_equal(less, x < dequantize(tanh, 0.25, 3))
    np.testing.assert_array_equal(magnitude, quantize(np.abs(x), 0.25, 3))


def test_dot_general_per_axis_with_a_wide_result() -> None:
    rng = np.random.default_rng(1)
    x, w = (
        rng.integers(-128, 128, (3, 5)).astype(np.int8),
        rng.integers(-127, 128, (5, 4)).astype(np.int8),
    )
    scales = np.array([0.5, 0.25, 0.125, 1.0], "f4")
    weights = "tensor<5x4x!quant.uniform<i8<-127:127>:f32:1, {0.5, 0.25, 0.125, 1.0}>>"
    wide = "tensor<3x4x!quant.uniform<i32:f32:1, {0.125, 6.25e-02, 3.125e-02, 0.25}>>"
    body = f"""
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<3x5x{I8}>, {weights}) -> {wide}
    %1 = stablehlo.uniform_quantize %0 : ({wide}) -> tensor<3x4x!quant.uniform<i8:f32, 2.0>>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<3x4x!quant.uniform<i8:f32, 2.0>>) -> tensor<4x3x!quant.uniform<i8:f32, 2.0>>
    return %0, %2 : {wide}, tensor<4x3x!quant.uniform<i8:f32, 2.0>>"""
    run = program(
        body,
        f"%x: tensor<3x5x{I8}>, %w: {weights}",
        f"({wide}, tensor<4x3x!quant.uniform<i8:f32, 2.0>>)",
    )
    sums, moved = run.run(x, w)
    assert sums.dtype == np.int32
    exact = (x.astype(int) - 3) @ w.astype(int)
    np.testing.assert_array_equal(sums, exact)
    np.testing.assert_array_equal(moved, quantize(exact * 0.25 * scales, 2.0).T)


def test_hybrid_products_stay_floats() -> None:
    """If one operand is a float and the other one is quantised, the quantised operand must be dequantised first."""
    x, w = np.array([[1.5, -2.0]], "f4"), np.array([[3], [-5]], np.int8)
    kind = f"tensor<2x1x{I8}>"
    run = program(
        f"%0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, {kind}) -> tensor<1x1xf32>\n"
        "return %0 : tensor<1x1xf32>", f"%x: tensor<1x2xf32>, %w: {kind}", "tensor<1x1xf32>",
    )  # fmt: skip
    np.testing.assert_array_equal(run.run(x, w), x @ dequantize(w, 0.25, 3))


def test_convolution_with_filters_per_channel() -> None:
    rng = np.random.default_rng(2)
    x, w = (
        rng.integers(-128, 128, (1, 5, 6, 2)).astype(np.int8),
        rng.integers(-127, 128, (3, 2, 2, 3)).astype(np.int8),
    )
    scales = [0.5, 0.25, 2.0]
    filters = "tensor<3x2x2x3x!quant.uniform<i8<-127:127>:f32:3, {0.5, 0.25, 2.0}>>"
    out = "tensor<1x3x5x3x!quant.uniform<i8:f32, 1.280000e+02:-1>>"
    body = f"""
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{stride = [1, 1]}}
      {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : (tensor<1x5x6x2x{I8}>, {filters}) -> {out}
    return %0 : {out}"""
    y = program(body, f"%x: tensor<1x5x6x2x{I8}>, %w: {filters}", out).run(x, w)
    moved = x.astype(int) - 3
    exact = np.zeros((1, 3, 5, 3))
    for p in range(3):
        for r in range(5):
            exact[0, p, r] = (
                np.tensordot(moved[0, p : p + 3, r : r + 2], w.astype(int), 3) * 0.25 * scales
            )
    np.testing.assert_array_equal(y, quantize(exact, 128.0, -1))


def test_elements_move_as_they_are_stored() -> None:
    kind = f"tensor<2x3x{I8}>"
    body = f"""
    %c = stablehlo.constant() <{{value = dense<[[1, -2, 3], [-4, 5, -128]]> : tensor<2x3xi8>}}> : () -> {kind}
    %0 = stablehlo.concatenate %x, %c, dim = 0 : ({kind}, {kind}) -> tensor<4x3x{I8}>
    %1 = stablehlo.slice %0 [1:3, 0:3:2] : (tensor<4x3x{I8}>) -> tensor<2x2x{I8}>
    %2 = stablehlo.bitcast_convert %1 : (tensor<2x2x{I8}>) -> tensor<2x2xi8>
    return %2 : tensor<2x2xi8>"""
    x = np.array([[7, 8, 9], [10, 11, 12]], np.int8)
    generic = body.replace("stablehlo.constant()", '"stablehlo.constant"()')
    np.testing.assert_array_equal(
        program(generic, f"%x: {kind}", "tensor<2x2xi8>").run(x), [[10, 12], [1, 3]]
    )


def test_regions_compute_on_expressed_numbers() -> None:
    kind = "!quant.uniform<i8:f32, 0.5>"
    body = f"""
    %c = "stablehlo.constant"() <{{value = dense<0> : tensor<i8>}}> : () -> tensor<{kind}>
    %0 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [1]
      : (tensor<2x3x{kind}>, tensor<{kind}>) -> tensor<2x{kind}>
    %1 = stablehlo.while(%i = %0) : tensor<2x{kind}>
    cond {{
      %t = stablehlo.constant dense<false> : tensor<i1>
      stablehlo.return %t : tensor<i1>
    }} do {{
      %n = stablehlo.negate %i : tensor<2x{kind}>
      stablehlo.return %n : tensor<2x{kind}>
    }}
    return %1 : tensor<2x{kind}>"""
    run = program(body, f"%x: tensor<2x3x{kind}>", f"tensor<2x{kind}>")
    x = np.array([[1, 2, 3], [-4, 5, -6]], np.int8)
    np.testing.assert_array_equal(run.run(x), x.sum(axis=1))


def test_functions_have_stored_arguments_and_are_lowered_again() -> None:
    text = f"""
    func.func @main(%x: tensor<3x{I8}>) -> tensor<3x{I8}> {{
      %0 = func.call @double(%x) : (tensor<3x{I8}>) -> tensor<3x{I8}>
      return %0 : tensor<3x{I8}>
    }}
    func.func private @double(%x: tensor<3x{I8}>) -> tensor<3x{I8}> {{
      %0 = stablehlo.add %x, %x : tensor<3x{I8}>
      return %0 : tensor<3x{I8}>
    }}"""
    run = lowering.import_stablehlo(text)
    x = np.array([3, 4, -100], np.int8)
    expected = quantize(2 * dequantize(x, 0.25, 3), 0.25, 3)
    np.testing.assert_array_equal(run.run(x), expected)
    again = lowering.import_stablehlo(lowering.lower_to_stablehlo(run).text, trusted=True)
    np.testing.assert_array_equal(again.run(x), expected)


def test_storage_of_four_bits_and_other_expressed_types() -> None:
    for text, dtype, wide in (("i4:f32", ml_dtypes.int4, np.float32), ("u4:f64", ml_dtypes.uint4, np.float64),
                              ("i8:f16", np.int8, np.float16), ("i16:bf16", np.int16, ml_dtypes.bfloat16)):  # fmt: skip
        kind = f"tensor<4x!quant.uniform<{text}, 0.5:1>>"
        run = program(
            f"%0 = stablehlo.add %x, %x : {kind}\nreturn %0 : {kind}", f"%x: {kind}", kind
        )
        x = np.array([0, 1, 3, 7]).astype(dtype)
        limits = ml_dtypes.iinfo(dtype)
        values = 2 * dequantize(x.astype(int), 0.5, 1, wide)
        expected = quantize(values, 0.5, 1, (int(limits.min), int(limits.max)), wide)
        np.testing.assert_array_equal(np.asarray(run.run(x)).astype(int), expected)


def test_bytecode_keeps_every_digit_of_a_scale() -> None:
    pytest.importorskip("jaxlib")
    from lowering.mlir_bindings import context, jaxlib_modules

    scale = 0.1234567890123
    kind = f"tensor<3x!quant.uniform<i8:f32, {scale!r}:3>>"
    text = f"func.func @main(%x: {kind}) -> tensor<3xf32> {{\n%0 = stablehlo.uniform_dequantize %x : ({kind}) -> tensor<3xf32>\nreturn %0 : tensor<3xf32>\n}}"
    stablehlo = jaxlib_modules()[5]
    with context():
        data = stablehlo.serialize_portable_artifact_str(text, "1.0.0")
    x = np.array([-128, 3, 127], np.int8)
    np.testing.assert_array_equal(
        lowering.import_stablehlo(data, trusted=True).run(x), dequantize(x, scale, 3)
    )


def test_what_is_malformed_or_unknown_is_refused() -> None:
    for text, error in (
        ("!quant.uniform<i8:f32:{0:2}, {0.5, 0.25}>", UnsupportedError),
        ("!quant.calibrated<f32<-1.0:1.0>>", UnsupportedError),
        ("!quant.uniform<i8:f32, 0.0>", InvalidConfigError),
        ("!quant.uniform<i8:f32, 0.5:200>", InvalidConfigError),
        ("!quant.uniform<i4<-9:7>:f32, 0.5>", InvalidConfigError),
        ("!quant.uniform<i7:f32, 0.5>", UnsupportedError),
    ):
        with pytest.raises(error):
            quantized_type(text)
    kind = "tensor<3x2x!quant.uniform<i8:f32:1, {0.5, 0.25, 0.5}>>"
    with pytest.raises(InvalidConfigError, match="3 scales for axis 1"):
        program(f"return %x : {kind}", f"%x: {kind}", kind)
    kind = f"tensor<2x{I8}>"
    with pytest.raises(InvalidConfigError, match="its result is of a quantised type"):
        program(
            f'%0 = "stablehlo.uniform_dequantize"(%x) : ({kind}) -> {kind}\nreturn %0 : {kind}',
            f"%x: {kind}",
            kind,
        )


def test_values_between_have_names() -> None:
    from lowering.importing import import_values

    text = f"func.func @main(%x: tensor<3x{I8}>) -> tensor<3x{I8}> {{\n%a = stablehlo.add %x, %x : tensor<3x{I8}>\n%b = stablehlo.negate %a : tensor<3x{I8}>\nreturn %b : tensor<3x{I8}>\n}}"
    assert [op.name for op in read_module(text).operations()][:2] == [
        "stablehlo.add",
        "stablehlo.negate",
    ]
    run, values = import_values(text)
    assert [value.name for value in values] == ["%a", "%b"]
    np.testing.assert_array_equal(
        run.run(np.zeros(3, np.int8))[0], quantize(dequantize([0] * 3, 0.25, 3) * 2, 0.25, 3)
    )


ALONG = "!quant.uniform<i8:f32:0, {0.5:1, 0.25:2}>"
TURNED = "!quant.uniform<i8:f32:1, {0.5:1, 0.25:2}>"
SCALED = "!quant.uniform<i8:f32, 5.000000e-01:3>"
DOT = "contracting_dims = [1] x [0]"


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        ("(I1) add: per tensor", f"stablehlo.add %a, %a : tensor<2x2x{ALONG}>"),
        ("(I1) slice: per tensor", f"stablehlo.slice %a [0:2, 0:1] : (tensor<2x2x{ALONG}>) -> tensor<2x1x{ALONG}>"),
        ("(C1) add: storage", f"stablehlo.add %x, %x : (tensor<2x2x{I8}>, tensor<2x2x{I8}>) -> tensor<2x2x{OTHER}>"),
        ("(C1) reverse: one type", f"stablehlo.reverse %x, dims = [0] : (tensor<2x2x{I8}>) -> tensor<2x2x{SCALED}>"),
        ("(C1) reshape: scales", f"stablehlo.reshape %x : (tensor<2x2x{I8}>) -> tensor<4x{SCALED}>"),
        ("(C1) transpose: scales", f"stablehlo.transpose %x, dims = [1, 0] : (tensor<2x2x{I8}>) -> tensor<2x2x{SCALED}>"),
        ("(C2) transpose: a permutation", f"stablehlo.transpose %a, dims = [1, 7] : (tensor<2x2x{ALONG}>) -> tensor<2x2x{ALONG}>"),
        ("(C4) transpose: axis", f"stablehlo.transpose %a, dims = [1, 0] : (tensor<2x2x{ALONG}>) -> tensor<2x2x{ALONG}>"),
        ("(C6) broadcast_in_dim: axis", f"stablehlo.broadcast_in_dim %a, dims = [1, 2] : (tensor<2x2x{ALONG}>) -> tensor<2x2x2x{ALONG}>"),
        ("(C15) dot_general: left side", f"stablehlo.dot_general %a, %x, {DOT} : (tensor<2x2x{ALONG}>, tensor<2x2x{I8}>) -> tensor<2x2x{I8}>"),
        ("(C14) dot_general: both sides", f"stablehlo.dot_general %x, %f, {DOT} : (tensor<2x2x{I8}>, tensor<2x2xf32>) -> tensor<2x2xf32>"),
        ("(C2) uniform_dequantize", f"stablehlo.uniform_dequantize %x : (tensor<2x2x{I8}>) -> tensor<2x2xf64>"),
        ("(I1) uniform_dequantize", "stablehlo.uniform_dequantize %f : (tensor<2x2xf32>) -> tensor<2x2xf32>"),
    ],
)  # fmt: skip
def test_broken_constraints_on_quantised_types(constraint: str, text: str) -> None:
    result = text.rsplit("->", 1)[-1].rsplit(" : ", 1)[-1].strip()
    arguments = f"%a: tensor<2x2x{ALONG}>, %x: tensor<2x2x{I8}>, %f: tensor<2x2xf32>"
    with pytest.raises((InvalidConfigError, MlirDiagnosticError)):
        program(f"%y = {text}\nreturn %y : {result}", arguments, result)


def test_scales_along_an_axis_that_moves() -> None:
    body = f"""
      %t = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x2x{ALONG}>) -> tensor<2x2x{TURNED}>
      %y = stablehlo.uniform_dequantize %t : (tensor<2x2x{TURNED}>) -> tensor<2x2xf32>
      return %y : tensor<2x2xf32>"""
    q = np.array([[3, 5], [7, 11]], "i1")
    found = program(body, f"%a: tensor<2x2x{ALONG}>", "tensor<2x2xf32>").run(q)
    np.testing.assert_array_equal(found, [[1, 1.25], [2, 2.25]])


def test_a_sort_of_quantised_elements() -> None:
    body = f"""
      %y = "stablehlo.sort"(%x) <{{dimension = 0 : i64}}> ({{
        ^bb0(%p: tensor<{I8}>, %q: tensor<{I8}>):
          %0 = stablehlo.compare LT, %p, %q : (tensor<{I8}>, tensor<{I8}>) -> tensor<i1>
          stablehlo.return %0 : tensor<i1>
      }}) : (tensor<3x{I8}>) -> tensor<3x{I8}>
      return %y : tensor<3x{I8}>"""
    found = program(body, f"%x: tensor<3x{I8}>", f"tensor<3x{I8}>").run(np.array([7, -9, 2], "i1"))
    np.testing.assert_array_equal(found, [-9, 2, 7])
