"""Narrow dtypes in StableHLO.

Constants in text, bytecode and artifacts must be read by both readers, and run by XLA.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
import xla_peer
from lowering.mlir_bindings import MlirDiagnosticError
from lowering.syntax import read_module
from lowering.types import element_type
from tenferro.errors import UnsupportedError
from tenferro.types import DType, TensorSpec

NARROW = [dtype for dtype in DType if dtype.is_narrow]


def every_value(dtype: DType) -> Any:
    numbers = np.arange(1 << dtype.bits, dtype=np.uint8)
    return numbers.view(dtype.dtype) if dtype.is_float else numbers.astype(dtype.dtype)


def constants() -> list[Any]:
    """Return constants of each narrow dtype.

    They are a list, a splat, a scalar, and an array of all values, which is written as bytes.
    """
    arrays: list[Any] = []
    for dtype in NARROW:
        values = every_value(dtype)
        some = [
            values[:4],
            values[-3:],
            values[1],
            np.full((2, 3), values[-1]),
            np.resize(values, 64),
        ]
        arrays += [np.array(v) for v in some]
    return arrays


def bits(x: Any) -> Any:
    x = np.asarray(x)
    return x.view(np.uint8) & ((1 << DType.of(x.dtype).bits) - 1)


def test_constants_come_back_with_their_bits() -> None:
    arrays = constants()
    program = tnf.compile(lambda p: [tnf.where(p, x, x) for x in arrays], TensorSpec((), "bool"))
    module = lowering.lower_to_stablehlo(program)
    module.verify()
    for form in (module.text, module.bytecode(), module.portable_artifact()):
        tree = read_module(form)
        read = [
            np.asarray(op.attributes["value"])
            for op in tree.operations()
            if op.name == "stablehlo.constant"
        ]
        wanted = {(x.dtype.name, x.shape, bits(x).tobytes()) for x in arrays}
        assert wanted <= {
            (x.dtype.name, x.shape, bits(x).tobytes())
            for x in read
            if x.dtype.itemsize == 1 and x.dtype != bool
        }
        imported = lowering.import_stablehlo(form, trusted=True)
        for x, y in zip(arrays, imported.run(np.array(True)), strict=True):
            assert DType.of(np.asarray(y).dtype) is DType.of(x.dtype)
            np.testing.assert_array_equal(bits(y), bits(x))


def test_literals_are_checked_against_the_width() -> None:
    text = "func.func @main() -> tensor<2xi4> {{ %0 = stablehlo.constant dense<[1, {}]> : tensor<2xi4> return %0 : tensor<2xi4> }}"
    tree = read_module(
        text.format("-8").replace("> return", ">\n return").replace("xi4> }", "xi4>\n}")
    )
    (constant,) = [op for op in tree.operations() if op.name == "stablehlo.constant"]
    np.testing.assert_array_equal(np.asarray(constant.attributes["value"]).astype(int), [1, -8])
    with pytest.raises(MlirDiagnosticError, match="out of range"):
        read_module(
            text.format("16").replace("> return", ">\n return").replace("xi4> }", "xi4>\n}")
        )


OPERATIONS = """
func.func @main(%x: tensor<3x2x{0}>, %y: tensor<3x2x{0}>) -> (tensor<3x2x{0}>, tensor<2x3xi1>, tensor<2x{0}>, tensor<3x3xf32>) {{
  %0 = stablehlo.multiply %x, %y : tensor<3x2x{0}>
  %1 = stablehlo.transpose %x, dims = [1, 0] : (tensor<3x2x{0}>) -> tensor<2x3x{0}>
  %2 = stablehlo.transpose %y, dims = [1, 0] : (tensor<3x2x{0}>) -> tensor<2x3x{0}>
  %3 = stablehlo.compare LT, %1, %2 : (tensor<2x3x{0}>, tensor<2x3x{0}>) -> tensor<2x3xi1>
  %c = stablehlo.constant dense<{1}> : tensor<{0}>
  %4 = stablehlo.reduce(%x init: %c) applies stablehlo.maximum across dimensions = [0]
    : (tensor<3x2x{0}>, tensor<{0}>) -> tensor<2x{0}>
  %5 = stablehlo.convert %x : (tensor<3x2x{0}>) -> tensor<3x2xf32>
  %6 = stablehlo.convert %2 : (tensor<2x3x{0}>) -> tensor<2x3xf32>
  %7 = stablehlo.dot_general %5, %6, contracting_dims = [1] x [0] : (tensor<3x2xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>
  return %0, %3, %4, %7 : tensor<3x2x{0}>, tensor<2x3xi1>, tensor<2x{0}>, tensor<3x3xf32>
}}
"""


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_operations_are_read_and_run(dtype: DType) -> None:
    text = OPERATIONS.format(element_type(dtype), "1.0" if dtype.is_float else "1")
    read_module(text)
    program = lowering.import_stablehlo(text, trusted=True)
    finite = every_value(dtype).astype(float)
    finite = finite[np.isfinite(finite) & (np.abs(finite) < 100) & (np.abs(finite) > 1e-3)]
    rng = np.random.default_rng(3)
    a, b = rng.choice(finite, (3, 2)), rng.choice(finite, (3, 2))
    x, y = a.astype(dtype.dtype), b.astype(dtype.dtype)
    product, less, largest, dot = program.run(x, y)
    np.testing.assert_array_equal(
        product.view(np.uint8),
        np.asarray(tnf.astype(a * b if dtype.is_float else (a * b).astype(int), dtype)).view(
            np.uint8
        ),
    )
    np.testing.assert_array_equal(less, (a < b).T)
    np.testing.assert_array_equal(np.asarray(largest).astype(float), np.maximum(a.max(axis=0), 1))
    np.testing.assert_allclose(dot, a @ b.T, rtol=1e-5)
    assert lowering.lower_to_stablehlo(program).text.count(f"x{element_type(dtype)}>") > 4


@pytest.mark.parametrize("name", ["int4", "uint4", "float8_e4m3fn", "float8_e5m2"])
def test_xla_agrees_on_every_pair(name: str) -> None:
    values = every_value(DType.of(name))
    x, y = (np.ascontiguousarray(v) for v in np.broadcast_arrays(values[:, None], values[None, :]))

    def f(x: Any, y: Any) -> Any:
        return (
            x + y,
            x - y,
            x * y,
            tnf.maximum(x, y),
            x < y,
            tnf.astype(x, "float32"),
            tnf.astype(x, "int32"),
        )

    program = tnf.compile(f, x, y)
    for native, xla in zip(
        program.run(x, y), xla_peer.XlaExecutor("cpu").run(program, x, y), strict=True
    ):
        np.testing.assert_array_equal(
            np.asarray(native).astype(float), np.asarray(xla).astype(float)
        )


def test_what_xla_cannot_run_is_refused_by_name() -> None:
    specs = [TensorSpec((2, 2), "int2")] * 2
    program = tnf.compile(lambda x, y: tnf.concatenate([x, y]), *specs)
    with pytest.raises(UnsupportedError, match=r"Concatenate: i2\[2,2\] on cpu"):
        lowering.lower_to_stablehlo(program, platform="cpu")
    specs = [TensorSpec((2, 2), "float4_e2m1fn")] * 2
    with pytest.raises(UnsupportedError, match=r"DotGeneral: f4e2m1fn\[2,2\] on cpu"):
        lowering.lower_to_stablehlo(tnf.compile(tnf.matmul, *specs), platform="cpu")
    program = tnf.compile(lambda x: x + x, TensorSpec((2,), "float6_e2m3fn"))
    with pytest.raises(UnsupportedError, match="float6_e2m3fn on cpu: XLA has no f6E2M3FN"):
        xla_peer.XlaExecutor("cpu").compile(program)
    assert "f6E2M3FN" in lowering.lower_to_stablehlo(program).text
    assert not tnf.capabilities("Add", "float6_e3m2fn", "cpu")
    assert not tnf.capabilities("Sort", "int2", "cpu")


def test_the_peers_are_compared_in_narrow_dtypes() -> None:
    x = np.array([1, 3, -2]).astype(DType.I4.dtype)
    y = np.array([1, 1.5, -2]).astype(DType.F8E4M3FN.dtype)
    for array in (x, y):
        report = xla_peer.check_parity(lambda x: x * x + x, array)
        assert report.ok, str(report)


def rank(dtype: DType, word: int) -> int:
    """Return an element's position in the total order, from its bits.

    The bits are a sign and a magnitude. If the dtype has a single NaN, it is below all numbers.
    """
    sign = 1 << (dtype.bits - 1)
    if dtype.kind == "u" or dtype is DType.F8E8M0FNU:
        return word
    if dtype.is_integer:
        return word - 2 * (word & sign)
    if word == sign and dtype.value.endswith("fnuz"):
        return -sign - 1
    return -1 - (word - sign) if word & sign else word


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_every_value_is_sorted(dtype: DType, direction: str) -> None:
    """Sorted floats must be in the total order, and the largest elements of an array must be in this order, too."""
    kind = element_type(dtype)
    values = np.random.default_rng(5).permutation(every_value(dtype).view(np.uint8)).view(dtype.dtype)  # fmt: skip
    tensor = f"tensor<{len(values)}x{kind}>"
    order = ", TOTALORDER" if dtype.is_float else ""
    text = f"""func.func @main(%x: {tensor}) -> ({tensor}, tensor<3x{kind}>) {{
      %y = "stablehlo.sort"(%x) <{{dimension = 0 : i64, is_stable = true}}> ({{ ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>):
        %c = stablehlo.compare {direction}, %a, %b{order} : (tensor<{kind}>, tensor<{kind}>) -> tensor<i1>
        stablehlo.return %c : tensor<i1> }}) : ({tensor}) -> {tensor}
      %top:2 = chlo.top_k(%x, k = 3) : {tensor} -> (tensor<3x{kind}>, tensor<3xi32>)
      return %y, %top#0 : {tensor}, tensor<3x{kind}>
    }}"""
    wanted = sorted(bits(values).tolist(), key=lambda word: rank(dtype, word))
    y, top = lowering.import_stablehlo(text, trusted=True).run(values)
    assert bits(y).tolist() == (wanted if direction == "LT" else wanted[::-1])
    assert bits(top).tolist() == wanted[:-4:-1]


def test_narrow_integers_count_and_index_in_loops() -> None:
    """A loop must be able to count from -8 to 7 in 4 bits, and to read its input at a 4-bit index."""
    program = lowering.import_stablehlo("""func.func @main(%x: tensor<8xf32>) -> tensor<f32> {
      %first = stablehlo.constant dense<-8> : tensor<i4> %one = stablehlo.constant dense<1> : tensor<i4>
      %last = stablehlo.constant dense<7> : tensor<i4> %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %r:2 = stablehlo.while(%i = %first, %a = %zero) : tensor<i4>, tensor<f32> cond {
        %c = stablehlo.compare LT, %i, %last : (tensor<i4>, tensor<i4>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %d = stablehlo.dynamic_slice %x, %i, sizes = [1] : (tensor<8xf32>, tensor<i4>) -> tensor<1xf32>
        %e = stablehlo.reshape %d : (tensor<1xf32>) -> tensor<f32>
        %b = stablehlo.add %a, %e : tensor<f32>
        %j = stablehlo.add %i, %one : tensor<i4>
        stablehlo.return %j, %b : tensor<i4>, tensor<f32>
      }
      return %r#1 : tensor<f32>
    }""")
    x = np.arange(1, 9, dtype="f4")
    starts = np.clip(np.arange(-8, 7), 0, 7)  # an out-of-bounds start of a slice is clamped
    np.testing.assert_array_equal(program.run(x), x[starts].sum())


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e5m2"])
def test_narrow_matrices_are_factorised_in_float32(name: str) -> None:
    dtype = DType.of(name)
    x = np.array([[4, 2, 1], [2, 5, 3], [1, 3, 6]], "f8").astype(dtype.dtype)
    tensor = f"tensor<3x3x{element_type(dtype)}>"
    program = lowering.import_stablehlo(
        f"func.func @main(%x: {tensor}) -> {tensor} {{ %y = stablehlo.cholesky %x, lower = true : {tensor} return %y : {tensor} }}"
    )
    factor = np.linalg.cholesky(x.astype("f8")).astype(dtype.dtype)
    np.testing.assert_array_equal(program.run(x).astype("f8"), factor.astype("f8"))


def test_random_bits_of_narrow_types() -> None:
    """An element of n bits must have the n lowest bits of the uint8 element. No integer has 6 bits: an error."""
    text = """func.func @main(%s: tensor<2xui64>) -> tensor<2x3xKIND> {
      %t, %y = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2x3xKIND>)
      return %y : tensor<2x3xKIND>
    }"""
    state = np.array([1, 2], "u8")
    octets = lowering.import_stablehlo(text.replace("KIND", "ui8")).run(state)
    for kind, bits in (("i2", 2), ("ui4", 4), ("f4E2M1FN", 4), ("f8E5M2", 8)):
        y = lowering.import_stablehlo(text.replace("KIND", kind)).run(state)
        mask = (1 << bits) - 1
        np.testing.assert_array_equal(y.view("u1") & mask, octets & mask)
    with pytest.raises(UnsupportedError, match="elements of 6 bits"):
        lowering.import_stablehlo(text.replace("KIND", "f6E2M3FN"))


@pytest.mark.parametrize("kind", ["i2", "ui2", "i4", "ui4"])
def test_derivatives_of_gathers_at_narrow_indices(kind: str) -> None:
    text = f"""func.func @main(%x: tensor<4x3xf64>, %i: tensor<2x{kind}>) -> tensor<2x3xf64> {{
      %y = "stablehlo.gather"(%x, %i) {{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}}
        : (tensor<4x3xf64>, tensor<2x{kind}>) -> tensor<2x3xf64>
      return %y : tensor<2x3xf64>
    }}"""
    program = lowering.import_stablehlo(text)
    x = np.arange(12.0).reshape(4, 3)
    indices = np.array([1, 0]).astype(program.input_specs[1].dtype.dtype)
    slope = tnf.grad(lambda x: tnf.sum(program(x, indices) ** 2))(x)
    np.testing.assert_array_equal(slope, [*(2 * x[:2]), [0] * 3, [0] * 3])
    batch = tnf.vmap(program)(np.stack([x, -x]), np.stack([indices, indices[::-1]]))
    np.testing.assert_array_equal(batch, [x[[1, 0]], -x[[0, 1]]])
