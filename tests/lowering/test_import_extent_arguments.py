"""Integer arguments that determine shapes, as in modules exported in 2023, and data-dependent extents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
import xla_peer
from tenferro import errors

S = tnf.TensorSpec


@pytest.fixture(params=[True, False], ids=["MLIR", "our reader"])
def read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call `import_stablehlo` with each of the two readers."""
    monkeypatch.setattr("lowering.importing.is_jaxlib_installed", lambda: request.param)
    return lowering.import_stablehlo


def function(arguments: str, result: str, body: str) -> str:
    return f"func.func @main({arguments}) -> {result} {{ {body} return %y : {result} }}"


def vector(name: str, *scalars: str) -> str:
    """Write a vector %name of i32 scalars."""
    parts = [f"{scalar}_{name}" for scalar in scalars]
    lines = [
        f"{part} = stablehlo.reshape {scalar} : (tensor<i32>) -> tensor<1xi32> "
        for part, scalar in zip(parts, scalars, strict=True)
    ]
    types = ", ".join(["tensor<1xi32>"] * len(parts))
    whole = f"%{name} = stablehlo.concatenate {', '.join(parts)}, dim = 0 : ({types}) -> tensor<{len(parts)}xi32> "
    return "".join(lines) + whole


NUMBERS = (
    "%c1 = stablehlo.constant dense<1> : tensor<i32> %c2 = stablehlo.constant dense<2> : tensor<i32> "
    "%c4 = stablehlo.constant dense<4> : tensor<i32> "
)
N32 = NUMBERS + "%n = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32> "


def test_an_extent_that_is_an_argument(read: Any) -> None:
    body = (
        N32
        + vector("s", "%c2", "%n", "%c4")
        + "%b = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1, 2] : (tensor<?x4xf32>, tensor<3xi32>) "
        "-> tensor<2x?x4xf32> %y = stablehlo.add %b, %z : tensor<2x?x4xf32>"
    )
    text = function(
        "%arg0: tensor<i64>, %x: tensor<?x4xf32>, %z: tensor<2x?x4xf32>", "tensor<2x?x4xf32>", body
    )
    program = read(text)
    for n in (1, 3, 0):
        x = np.arange(4.0 * n, dtype="f4").reshape(n, 4)
        z = np.ones((2, n, 4), "f4")
        for number in (n, np.int64(n), np.array(n), np.int32(n)):
            np.testing.assert_array_equal(program.run(number, x, z), x + z)
    with pytest.raises(errors.GuardError, match="got 3 and 4"):
        program.run(4, np.ones((3, 4), "f4"), np.ones((2, 3, 4), "f4"))
    with pytest.raises(errors.ShapeError, match="an extent is at least 0, got -1"):
        program.run(-1, x, z)
    with pytest.raises(errors.TenferroError, match="expected bool"):
        program.run(1.5, x, z)


def test_arrays_of_one_shape_and_different_extents(read: Any) -> None:
    """Programs are cached by the shapes of their arguments, and equal shapes may come with different extents."""
    body = (
        N32
        + vector("s", "%n")
        + "%y = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>"
    )
    program = read(function("%arg0: tensor<i64>", "tensor<?xf32>", body))
    executor = xla_peer.XlaExecutor("cpu")
    for n in (3, 5, 3, 0):
        wanted = np.arange(n, dtype="f4")
        np.testing.assert_array_equal(program.run(np.array(n)), wanted)
        np.testing.assert_array_equal(executor.run(program, np.array(n)), wanted)
    assert xla_peer.check_parity(program, 4).ok


def test_the_elements_of_an_extent_are_data_too(read: Any) -> None:
    body = (
        N32
        + vector("s", "%n")
        + "%i = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xi32> "
        "%b = stablehlo.dynamic_broadcast_in_dim %n, %s, dims = [] : (tensor<i32>, tensor<1xi32>) -> tensor<?xi32> "
        "%y = stablehlo.subtract %b, %i : tensor<?xi32>"
    )
    program = read(function("%arg0: tensor<i64>", "tensor<?xi32>", body))
    np.testing.assert_array_equal(program.run(4), [4, 3, 2, 1])


def test_only_arguments_that_decide_extents_are_extents(read: Any) -> None:
    body = (
        "%s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32> "
        "%y = stablehlo.dynamic_broadcast_in_dim %k, %s, dims = [] : (tensor<i32>, tensor<1xi32>) -> tensor<?xi32>"
    )
    program = read(function("%k: tensor<i32>, %n: tensor<i32>", "tensor<?xi32>", body))
    kept, extent = program.input_specs
    assert str(kept) == "i32[]"
    assert extent.dtype is tnf.DType.Bool
    np.testing.assert_array_equal(program.run(np.int32(-7), 2), [-7, -7])


def test_an_argument_that_is_a_whole_shape(read: Any) -> None:
    body = (
        "%y = stablehlo.dynamic_reshape %x, %s : (tensor<?xf32>, tensor<2xi64>) -> tensor<?x?xf32>"
    )
    program = read(function("%s: tensor<2xi64>, %x: tensor<?xf32>", "tensor<?x?xf32>", body))
    x = np.arange(6, dtype="f4")
    for shape in ((2, 3), (3, 2), (1, 6)):
        np.testing.assert_array_equal(program.run(np.array(shape), x), x.reshape(shape))
    with pytest.raises(errors.GuardError, match="number of elements"):
        program.run(np.array([2, 2]), x)


def test_extents_by_name_and_by_number(read: Any) -> None:
    body = (
        "%s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32> "
        "%b = stablehlo.dynamic_broadcast_in_dim %c, %s, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32> "
        "%y = stablehlo.multiply %b, %x : tensor<?xf32>"
    )
    text = function("%n: tensor<i32>, %c: tensor<f32>, %x: tensor<?xf32>", "tensor<?xf32>", body)
    scalar = S((), "f4")
    shared = read(text, ["n", scalar, S(("n",), "f4")])
    assert str(shared.output_specs[0]) == "f32[n]"
    assert not shared.guards
    slope = tnf.compile(
        tnf.grad(lambda n, c, x: tnf.sum(shared.run(n, c, x)), argnums=1), *shared.input_specs
    )
    assert slope.run(3, np.float32(2), np.arange(3, dtype="f4")) == 3
    fixed = read(text, [3, scalar, S((3,), "f4")])
    np.testing.assert_array_equal(fixed.run(3, np.float32(2), np.ones(3, "f4")), [2, 2, 2])
    with pytest.raises(errors.ShapeError, match="axis 0 must have extent 3, got 4"):
        fixed.run(4, np.float32(2), np.ones(3, "f4"))


def test_a_program_with_an_extent_inside_a_trace(read: Any) -> None:
    body = (
        "%s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32> "
        "%y = stablehlo.dynamic_broadcast_in_dim %c, %s, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>"
    )
    program = read(function("%n: tensor<i32>, %c: tensor<f32>", "tensor<?xf32>", body))
    assert tnf.grad(lambda c: tnf.sum(program(4, c)))(np.float32(1.0)) == 4
    again = lowering.import_stablehlo(lowering.lower_to_stablehlo(program, symbolic=True))
    np.testing.assert_array_equal(again.run(2, np.float32(3)), [3, 3])


def floor_division(name: str, lhs: str, rhs: str) -> str:
    """Write JAX's floor division of extents: a quotient rounded towards zero, minus one if it is too large."""
    q, r, s, t, c, d, e, f = [f"%{name}_{letter}" for letter in "qrstcdef"]
    pair = "SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>"
    return (
        f"{q} = stablehlo.divide {lhs}, {rhs} : tensor<i32> {r} = stablehlo.remainder {lhs}, {rhs} : tensor<i32> "
        f"{s} = stablehlo.sign {lhs} : tensor<i32> {t} = stablehlo.sign {rhs} : tensor<i32> "
        f"{c} = stablehlo.compare NE, {s}, {t}, {pair} {d} = stablehlo.compare NE, {r}, %zero, {pair} "
        f"{e} = stablehlo.and {c}, {d} : tensor<i1> {f} = stablehlo.subtract {q}, %c1 : tensor<i32> "
        f"%{name} = stablehlo.select {e}, {f}, {q} : tensor<i1>, tensor<i32> "
    )


def test_a_convolution_whose_padding_an_argument_decides(read: Any) -> None:
    """Padding "SAME" for a stride of 2, with the extent as an argument: low = p // 2 for p = -n mod 2 + 2."""
    body = (
        N32 + "%zero = stablehlo.constant dense<0> : tensor<i32> "
        "%m = stablehlo.negate %n : tensor<i32> "
        + floor_division("h", "%m", "%c2")
        + "%g = stablehlo.multiply %h, %c2 : tensor<i32> %o = stablehlo.subtract %m, %g : tensor<i32> "
        "%p = stablehlo.add %o, %c2 : tensor<i32> "
        + floor_division("low", "%p", "%c2")
        + "%high = stablehlo.subtract %p, %low : tensor<i32> "
        + vector("v", "%low", "%high")
        + "%pad = stablehlo.reshape %v : (tensor<2xi32>) -> tensor<1x2xi32> "
        '%y = "stablehlo.dynamic_conv"(%x, %w, %pad) {batch_group_count = 1 : i64, feature_group_count = 1 : i64, '
        "dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, window_strides = array<i64: 2>} "
        ": (tensor<1x?x2xf32>, tensor<4x2x3xf32>, tensor<1x2xi32>) -> tensor<1x?x3xf32>"
    )
    arguments = "%arg0: tensor<i64>, %x: tensor<1x?x2xf32>, %w: tensor<4x2x3xf32>"
    program = read(function(arguments, "tensor<1x?x3xf32>", body))
    rng = np.random.default_rng(7)
    w = rng.standard_normal((4, 2, 3)).astype("f4")
    for n in (3, 4, 7):
        x = rng.standard_normal((1, n, 2)).astype("f4")
        total = -n % 2 + 2
        padded = np.pad(x, ((0, 0), (total // 2, total - total // 2), (0, 0)))
        starts = range(0, padded.shape[1] - 3, 2)
        wanted = [[np.einsum("kf,kfo->o", padded[0, i : i + 4], w) for i in starts]]
        np.testing.assert_allclose(program.run(n, x, w), wanted, rtol=1e-5, atol=1e-5)


def test_text_whose_lists_are_tensors(read: Any) -> None:
    """Before 2024, lists of axes were written as tensors, which MLIR no longer accepts."""
    body = (
        N32
        + vector("s", "%n")
        + "%y = stablehlo.dynamic_broadcast_in_dim %c, %s, dims = [] {known_expanding_dimensions = dense<> : "
        "tensor<0xi64>} : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>"
    )
    program = read(function("%arg0: tensor<i64>, %c: tensor<f32>", "tensor<?xf32>", body))
    np.testing.assert_array_equal(program.run(2, np.float32(5)), [5, 5])


def test_a_gather_and_padding_of_sizes_that_are_arguments(read: Any) -> None:
    body = (
        N32
        + "%zero = stablehlo.constant dense<0> : tensor<i32> "
        + vector("sizes", "%n", "%c1")
        + '%g = "stablehlo.dynamic_gather"(%x, %i, %sizes) {dimension_numbers = #stablehlo.gather<offset_dims = [0], '
        "collapsed_slice_dims = [1], start_index_map = [1]>, indices_are_sorted = true} : "
        "(tensor<?x4xf32>, tensor<1xi32>, tensor<2xi32>) -> tensor<?xf32> "
        + vector("low", "%n")
        + vector("high", "%c1")
        + vector("none", "%zero")
        + "%y = stablehlo.dynamic_pad %g, %c, %low, %high, %none : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, "
        "tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>"
    )
    arguments = "%arg0: tensor<i64>, %x: tensor<?x4xf32>, %i: tensor<1xi32>, %c: tensor<f32>"
    program = read(function(arguments, "tensor<?xf32>", body))
    for n in (1, 3):
        x = np.arange(4.0 * n, dtype="f4").reshape(n, 4)
        y = program.run(n, x, np.array([2], "i4"), np.float32(9))
        np.testing.assert_array_equal(y, [9.0] * n + x[:, 2].tolist() + [9.0])


# ---- data-dependent extents --------------------------------------------------------------------


def test_a_size_that_data_set(read: Any) -> None:
    """`set_dimension_size` keeps the first elements; `get_dimension_size` returns their number."""
    body = (
        "%s = stablehlo.convert %f : (tensor<f32>) -> tensor<i32> "
        "%z = stablehlo.set_dimension_size %x, %s, dim = 0 : (tensor<4x2xf32>, tensor<i32>) "
        "-> tensor<?x2xf32, #stablehlo.bounds<4, ?>> "
        "%n = stablehlo.get_dimension_size %z, dim = 0 : (tensor<?x2xf32, #stablehlo.bounds<4, ?>>) -> tensor<i32> "
        "%c = stablehlo.constant dense<0.0> : tensor<f32> "
        "%t = stablehlo.reduce(%z init: %c) applies stablehlo.add across dimensions = [0, 1] "
        ": (tensor<?x2xf32, #stablehlo.bounds<4, ?>>, tensor<f32>) -> tensor<f32> "
        "%m = stablehlo.convert %n : (tensor<i32>) -> tensor<f32> %y = stablehlo.divide %t, %m : tensor<f32>"
    )
    program = read(function("%f: tensor<f32>, %x: tensor<4x2xf32>", "tensor<f32>", body))
    x = np.arange(8, dtype="f4").reshape(4, 2)
    for n in (1, 3, 4):
        assert program.run(np.float32(n), x) == x[:n].sum() / n
    assert (
        tnf.grad(lambda x: program.run(np.float32(2), x))(x).tolist()
        == [[0.5] * 2] * 2 + [[0.0] * 2] * 2
    )
    with pytest.raises(errors.NonStaticShapeError, match="DynamicTruncate: axis 0 of output 0"):
        lowering.lower_to_stablehlo(program)


def test_an_argument_with_a_bound(read: Any) -> None:
    kind = "tensor<?xf32, #stablehlo.bounds<3>>"
    program = read(function(f"%x: {kind}", kind, f"%y = stablehlo.add %x, %x : {kind}"))
    np.testing.assert_array_equal(program.run(np.ones(2, "f4")), [2, 2])
    with pytest.raises(
        errors.GuardError, match="the module declares a bound needs 3 >= x0_0, got 3 and 4"
    ):
        program.run(np.ones(4, "f4"))
    with pytest.raises(errors.ShapeError, match="is declared as"):
        read(function(f"%x: {kind}", kind, f"%y = stablehlo.add %x, %x : {kind}"), [S((4,), "f4")])


@pytest.mark.parametrize("stride", [1, 2])
def test_a_slice_whose_bounds_data_decide(read: Any, stride: int) -> None:
    body = (
        "%i = stablehlo.convert %f : (tensor<2xf32>) -> tensor<2xi32> "
        "%a = stablehlo.slice %i [0:1] : (tensor<2xi32>) -> tensor<1xi32> "
        "%b = stablehlo.slice %i [1:2] : (tensor<2xi32>) -> tensor<1xi32> "
        f"%s = stablehlo.constant dense<{stride}> : tensor<1xi32> "
        "%y = stablehlo.real_dynamic_slice %x, %a, %b, %s : "
        "(tensor<7xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>"
    )
    program = read(function("%f: tensor<2xf32>, %x: tensor<7xf32>", "tensor<?xf32>", body))
    x = np.arange(7, dtype="f4")
    for start, limit in ((0, 7), (2, 5), (3, 3), (5, 7), (7, 7)):
        bounds = np.array([start, limit], "f4")
        np.testing.assert_array_equal(program.run(bounds, x), x[start:limit:stride])


def test_numbers_for_open_extents_beside_an_integer_that_is_data(read: Any) -> None:
    """The integer could determine an extent but does not, and calls with concrete shapes need no specs."""
    body = (
        "%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32> "
        "%m = stablehlo.subtract %n, %k : tensor<i32> "
        "%f = stablehlo.convert %m : (tensor<i32>) -> tensor<f32> "
        "%s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32> "
        "%b = stablehlo.dynamic_broadcast_in_dim %f, %s, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32> "
        "%y = stablehlo.add %b, %x : tensor<?xf32>"
    )
    text = function("%k: tensor<i32>, %x: tensor<?xf32>", "tensor<?xf32>", body)
    program = read(text, [S((), "i4"), S((3,), "f4")])
    assert program.is_static
    assert [str(spec) for spec in program.input_specs] == ["i32[]", "f32[3]"]
    np.testing.assert_array_equal(program.run(np.int32(5), np.ones(3, "f4")), [-1, -1, -1])


def test_empty_flags_are_no_extents() -> None:
    """An argument of the module may have the type that extents have inside a program."""
    program = lowering.import_stablehlo(
        """func.func @main(%x: tensor<2x2x0xi1>) -> tensor<2x2x0xi1> {
          %y = stablehlo.not %x : tensor<2x2x0xi1>
          return %y : tensor<2x2x0xi1>
        }"""
    )
    assert program.origin is not None
    assert program.run(np.zeros((2, 2, 0), np.bool_)).shape == (2, 2, 0)
    text = """func.func @main(%n: tensor<i64>) -> tensor<?xf32> {
      %x = stablehlo.constant dense<1.0> : tensor<f32>
      %0 = stablehlo.reshape %n : (tensor<i64>) -> tensor<1xi64>
      %1 = stablehlo.dynamic_broadcast_in_dim %x, %0, dims = [] : (tensor<f32>, tensor<1xi64>) -> tensor<?xf32>
      return %1 : tensor<?xf32>
    }"""
    assert lowering.import_stablehlo(text).origin is None
