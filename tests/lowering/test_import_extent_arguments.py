"""Extents that integer arguments determine, as in modules that were exported in 2023, and data-dependent extents."""

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
    """Return `import_stablehlo`, once with MLIR's reader and once with tenferro's reader."""
    monkeypatch.setattr("lowering.importing.is_jaxlib_installed", lambda: request.param)
    return lowering.import_stablehlo


def function(arguments: str, result: str, body: str) -> str:
    return f"func.func @main({arguments}) -> {result} {{ {body} return %y : {result} }}"


def vector(name: str, *scalars: str) -> str:
    """Return text that defines %`name` as the vector of the given i32 scalars."""
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
    with pytest.raises(errors.ShapeError, match="an extent must be at least 0, got -1"):
        program.run(-1, x, z)
    with pytest.raises(errors.TenferroError, match="expected bool"):
        program.run(1.5, x, z)


def test_arrays_of_one_shape_and_different_extents(read: Any) -> None:
    """The extent of the result is data.

    An executable in a cache by argument shapes must not be used for another extent.
    """
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
    """Return the text that JAX writes for a floor division of extents.

    It is a quotient rounded towards zero, from which 1 is subtracted if it is too large.
    """
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
    """Padding "SAME" of a convolution with stride 2 must be right if it depends on an argument, the extent n.

    The total padding is p = -n mod 2 + 2, of which p // 2 is at the low end.
    """
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
    """Text from before 2024 must be read, although MLIR no longer accepts it.

    It writes lists of axes as tensors.
    """
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


def test_padding_between_elements_that_is_an_argument(read: Any) -> None:
    """#dynamic_pad (C4): an extent n becomes low + n + max(n - 1, 0) * interior + high.

    Here all amounts are arguments.
    """
    kind, amounts = "tensor<?x4xf32>", ", ".join(["tensor<2xi64>"] * 3)
    body = f"%y = stablehlo.dynamic_pad %x, %c, %l, %h, %i : ({kind}, tensor<f32>, {amounts}) -> tensor<?x?xf32>"
    arguments = (
        f"%x: {kind}, %c: tensor<f32>, %l: tensor<2xi64>, %h: tensor<2xi64>, %i: tensor<2xi64>"
    )
    program = read(function(arguments, "tensor<?x?xf32>", body))
    for n in (0, 1, 3):
        x = np.arange(1.0, 4.0 * n + 1, dtype="f4").reshape(n, 4)
        for low, high, between in (((0, 2), (1, 0), (0, 0)), ((1, 0), (0, 0), (2, 3))):
            rows = low[0] + n + max(n - 1, 0) * between[0] + high[0]
            wanted = np.full((rows, low[1] + 4 + 3 * between[1] + high[1]), 9.0, "f4")
            inside = wanted[low[0] : rows - high[0], low[1] : wanted.shape[1] - high[1]]
            inside[:: between[0] + 1, :: between[1] + 1] = x
            y = program.run(x, np.float32(9), *map(np.array, (low, high, between)))
            np.testing.assert_array_equal(y, wanted)


def test_strides_that_are_arguments(read: Any) -> None:
    """#real_dynamic_slice: here the start, the limit and the stride are all arguments."""
    kind, bounds = "tensor<?x7xf32>", ", ".join(["tensor<2xi64>"] * 3)
    body = (
        f"%y = stablehlo.real_dynamic_slice %x, %a, %b, %s : ({kind}, {bounds}) -> tensor<?x?xf32>"
    )
    arguments = f"%x: {kind}, %a: tensor<2xi64>, %b: tensor<2xi64>, %s: tensor<2xi64>"
    program = read(function(arguments, "tensor<?x?xf32>", body))
    x = np.arange(35, dtype="f4").reshape(5, 7)
    for start, limit in (((0, 0), (5, 7)), ((1, 2), (4, 3)), ((2, 2), (2, 6))):
        for stride in ((1, 1), (2, 3), (7, 2)):
            rows, columns = map(slice, start, limit, stride)
            y = program.run(x, *map(np.array, (start, limit, stride)))
            np.testing.assert_array_equal(y, x[rows, columns])
    with pytest.raises(errors.GuardError, match="a stride of real_dynamic_slice is at least 1"):
        program.run(x, np.array([0, 0]), np.array([5, 7]), np.array([0, 1]))


def test_sizes_and_edges_that_a_result_decides(read: Any) -> None:
    """The slice sizes of #dynamic_gather must be 1 along collapsed axes (C8).

    Along all other axes, they must be the extents of the result (C13).
    """
    numbers = (
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1"
    )
    body = (
        f'%y = "stablehlo.dynamic_gather"(%x, %i, %s) {{dimension_numbers = #stablehlo.gather<{numbers}>}} : '
        "(tensor<4x5xf32>, tensor<3x1xi64>, tensor<2xi64>) -> tensor<3x2xf32>"
    )
    arguments = "%x: tensor<4x5xf32>, %i: tensor<3x1xi64>, %s: tensor<2xi64>"
    program = read(function(arguments, "tensor<3x2xf32>", body))
    x, i = np.arange(20, dtype="f4").reshape(4, 5), np.array([[3], [0], [9]])
    np.testing.assert_array_equal(program.run(x, i, np.array([1, 2])), x[[3, 0, 3], :2])
    with pytest.raises(errors.GuardError, match="the slice's size of axis 1"):
        program.run(x, i, np.array([1, 3]))
    body = (
        '%y = "stablehlo.dynamic_conv"(%x, %w, %p) {batch_group_count = 1 : i64, feature_group_count = 1 : i64, '
        "dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, lhs_dilation = array<i64: 2>} "
        ": (tensor<1x4x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi32>) -> tensor<1x8x1xf32>"
    )
    arguments = "%x: tensor<1x4x1xf32>, %w: tensor<2x1x1xf32>, %p: tensor<1x2xi32>"
    program = read(function(arguments, "tensor<1x8x1xf32>", body))
    x, w = np.array([1.0, 2, 3, 4], "f4"), np.array([10.0, 1], "f4")
    y = program.run(x.reshape(1, 4, 1), w.reshape(2, 1, 1), np.array([[2, 0]]))
    np.testing.assert_array_equal(y.ravel(), [0, 1, 10, 2, 20, 3, 30, 4])


def test_shapes_that_broadcast_when_the_program_runs(read: Any) -> None:
    """CHLO's operations must broadcast like NumPy's when the program runs.

    An extent of 1 fits any other extent, even 0.
    """
    kinds = "(tensor<?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>"
    body = f"%y = chlo.broadcast_subtract %a, %b : {kinds}"
    program = read(function("%a: tensor<?xf32>, %b: tensor<?x?xf32>", "tensor<?x?xf32>", body))
    for n, shape in ((3, (2, 3)), (1, (2, 3)), (3, (2, 1)), (0, (2, 1)), (1, (2, 0)), (1, (1, 1))):
        a, b = np.arange(n, dtype="f4"), np.arange(np.prod(shape), dtype="f4").reshape(shape)
        np.testing.assert_array_equal(program.run(a, b), a - b)
    with pytest.raises(errors.GuardError, match="is 1 or"):
        program.run(np.ones(2, "f4"), np.ones((2, 3), "f4"))
    body = (
        "%y = chlo.broadcast_select %p, %a, %b : (tensor<2xi1>, tensor<?x1xf32>, tensor<?x?xf32>) "
        "-> tensor<?x2xf32>"
    )
    arguments = "%p: tensor<2xi1>, %a: tensor<?x1xf32>, %b: tensor<?x?xf32>"
    program = read(function(arguments, "tensor<?x2xf32>", body))
    p, a, b = np.array([True, False]), np.ones((3, 1), "f4"), np.full((1, 2), 2.0, "f4")
    np.testing.assert_array_equal(program.run(p, a, b), [[1, 2]] * 3)


def test_open_extents_of_transforms_and_repetitions(read: Any) -> None:
    """#fft (C3) to (C5): an axis with an open extent must have the declared length. A guard must check this."""
    body = "%y = stablehlo.fft %x, type = RFFT, length = [6] : (tensor<?x?xf32>) -> tensor<?x4xcomplex<f32>>"
    program = read(function("%x: tensor<?x?xf32>", "tensor<?x4xcomplex<f32>>", body))
    x = np.arange(12, dtype="f4").reshape(2, 6) ** 2
    np.testing.assert_allclose(program.run(x), np.fft.rfft(x), 1e-6)
    with pytest.raises(errors.GuardError, match="axis 1 of the operand has the length"):
        program.run(x[:, :5])
    body = "%y = stablehlo.fft %x, type = IRFFT, length = [6] : (tensor<?xcomplex<f64>>) -> tensor<6xf64>"
    program = read(function("%x: tensor<?xcomplex<f64>>", "tensor<6xf64>", body))
    z = np.fft.rfft(x[0].astype("f8"))
    np.testing.assert_allclose(program.run(z), x[0], 1e-12, 1e-12)
    body = "%y = stablehlo.broadcast %x, sizes = [2, 1] : (tensor<?xf32>) -> tensor<2x1x?xf32>"
    program = read(function("%x: tensor<?xf32>", "tensor<2x1x?xf32>", body))
    np.testing.assert_array_equal(program.run(x[0]), np.broadcast_to(x[0], (2, 1, 6)))


# ---- data-dependent extents --------------------------------------------------------------------


def test_a_size_that_data_set(read: Any) -> None:
    """`set_dimension_size` must keep the first elements of an axis, and `get_dimension_size` return their number."""
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


ROWS, TABLE = (
    "tensor<?x1xf64, #stablehlo.bounds<10, ?>>",
    "tensor<?x6xf64, #stablehlo.bounds<10, ?>>",
)


def test_shapes_of_results_with_bounds(read: Any) -> None:
    """A broadcast must keep a bounded extent.

    The bound of a reshape's result must be the number of elements, divided by the other extents.
    """
    blocks = "tensor<3x?x2xf64, #stablehlo.bounds<?, 10, ?>>"
    body = (
        f"%a = stablehlo.broadcast_in_dim %x, dims = [0, 1] : ({ROWS}) -> {TABLE} "
        f"%b = stablehlo.reshape %a : ({TABLE}) -> {blocks} %y = stablehlo.add %b, %b : {blocks}"
    )
    program = read(function(f"%x: {ROWS}", blocks, body))
    x = np.arange(4.0).reshape(4, 1)
    wanted = 2 * np.broadcast_to(x, (4, 6)).reshape(3, 4, 2)
    np.testing.assert_array_equal(program.run(x), wanted)


TWO = "tensor<?x2xf32, #stablehlo.bounds<3, ?>>"
BOUNDED = {
    "(C3) slice: limits": ("stablehlo.slice %x [0:4, 0:2] : ({}) -> tensor<?x2xf32>", "0:4", "0:3"),
    "(C4) pad: extents": ("stablehlo.pad %x, %c, low = [-4, 0], high = [0, 0], interior = [0, 0] : ({}, tensor<f32>) -> tensor<?x2xf32>", "-4", "-3"),
    "(C1) add: shapes": ("stablehlo.add %x, %z : ({}, tensor<4x2xf32>) -> tensor<?x2xf32>", "%z : ({}, tensor<4x2xf32>)", "%w : ({}, tensor<3x2xf32>)"),
}  # fmt: skip


@pytest.mark.parametrize("constraint", BOUNDED)
def test_constraints_on_extents_with_bounds(read: Any, constraint: str) -> None:
    """A constraint that no extent within the bound can satisfy must raise an error on import."""
    text, broken, kept = BOUNDED[constraint]
    arguments = f"%x: {TWO}, %c: tensor<f32>, %z: tensor<4x2xf32>, %w: tensor<3x2xf32>"
    for operation, is_kept in ((text.replace(broken, kept, 1), True), (text, False)):
        result = operation.rsplit("-> ", 1)[1]
        module = function(arguments, result, f"%y = {operation.format(TWO)}")
        if is_kept:
            read(module)
        else:
            with pytest.raises(errors.TenferroError, match="malformed"):
                read(module)


def test_regions_of_operations_on_extents_with_bounds(read: Any) -> None:
    body = (
        '%y:2 = "stablehlo.sort"(%x, %x) <{dimension = 0 : i64}> ({ '
        "^bb0(%a: tensor<f32>, %b: tensor<f32>, %d: tensor<f32>, %e: tensor<f32>): "
        "%t = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1> "
        f"stablehlo.return %t : tensor<i1> }}) : ({TWO}, {TWO}) -> ({TWO}, {TWO})"
    )
    text = f"func.func @main(%x: {TWO}) -> {TWO} {{ {body} return %y#0 : {TWO} }}"
    x = np.array([[1, 5], [3, 2]], "f4")
    np.testing.assert_array_equal(read(text).run(x), [[3, 5], [1, 2]])
    body = (
        "%y:2 = chlo.top_k(%x, k = 1) : "
        + f"{TWO} -> (tensor<?x1xf32, #stablehlo.bounds<3, ?>>, tensor<?x1xi32>)"
    )
    text = (
        f"func.func @main(%x: {TWO}) -> tensor<?x1xi32> {{ {body} return %y#1 : tensor<?x1xi32> }}"
    )
    np.testing.assert_array_equal(read(text).run(x), [[1], [0]])


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


def test_a_slice_of_data_of_an_axis_that_may_be_empty(read: Any) -> None:
    body = (
        "%i = stablehlo.convert %f : (tensor<1xf32>) -> tensor<1xi32> %o = stablehlo.constant dense<1> : tensor<1xi32> "
        "%y = stablehlo.real_dynamic_slice %x, %i, %i, %o : "
        "(tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>"
    )
    program = read(function("%f: tensor<1xf32>, %x: tensor<?xf32>", "tensor<?xf32>", body))
    for n in (0, 3):
        assert program.run(np.zeros(1, "f4"), np.ones(n, "f4")).shape == (0,)


COUNT = (
    "%none = stablehlo.constant dense<0> : tensor<i32> %two = stablehlo.constant dense<2.0> : tensor<6xf32> "
    "%t = stablehlo.compare GT, %x, %two : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xi1> "
    "%o = stablehlo.convert %t : (tensor<6xi1>) -> tensor<6xi32> "
    "%s = stablehlo.reduce(%o init: %none) applies stablehlo.add across dimensions = [0] "
    ": (tensor<6xi32>, tensor<i32>) -> tensor<i32> %n = stablehlo.reshape %s : (tensor<i32>) -> tensor<1xi32> "
)
"""Text that defines %n as the number of elements of %x above 2; it is at most the number of elements."""
X6 = np.array([5, 1, 3, 2, 9, 0], "f4")


def test_iota_whose_size_data_decide(read: Any) -> None:
    """#dynamic_iota: element i along the axis is i."""
    body = COUNT + "%y = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>"
    program = read(function("%x: tensor<6xf32>", "tensor<?xf32>", body))
    for x in (X6, X6 - 9, X6 + 9):
        np.testing.assert_array_equal(program.run(x), np.arange((x > 2).sum()))
    with pytest.raises(errors.NonStaticShapeError, match="run it natively"):
        lowering.lower_to_stablehlo(program)
    body = (
        "%i = stablehlo.convert %f : (tensor<f32>) -> tensor<i32> "
        "%n = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32> "
        "%y = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>"
    )
    text = function("%f: tensor<f32>", "tensor<?xf32>", body)
    with pytest.raises(errors.UnsupportedError, match=r"declare one as #stablehlo\.bounds"):
        read(text)
    program = read(text.replace("tensor<?xf32>", "tensor<?xf32, #stablehlo.bounds<5>>"))
    np.testing.assert_array_equal(program.run(np.float32(4)), [0, 1, 2, 3])


def test_a_broadcast_whose_size_data_decide(read: Any) -> None:
    """#dynamic_broadcast_in_dim: c is broadcast to n elements, so the gradient of their sum of squares is 2 n c."""
    body = (
        COUNT
        + "%b = stablehlo.dynamic_broadcast_in_dim %c, %n, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32> "
        "%q = stablehlo.multiply %b, %b : tensor<?xf32> %z = stablehlo.constant dense<0.0> : tensor<f32> "
        "%y = stablehlo.reduce(%q init: %z) applies stablehlo.add across dimensions = [0] "
        ": (tensor<?xf32>, tensor<f32>) -> tensor<f32>"
    )
    program = read(function("%x: tensor<6xf32>, %c: tensor<f32>", "tensor<f32>", body))
    assert program.run(X6, np.float32(7)) == 3 * 49
    assert tnf.grad(lambda c: program.run(X6, c))(np.float32(7)) == 2 * 3 * 7
    body = (
        COUNT
        + "%four = stablehlo.constant dense<4> : tensor<1xi32> %m = stablehlo.concatenate %n, %four, dim = 0 "
        ": (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32> "
        "%y = stablehlo.dynamic_broadcast_in_dim %w, %m, dims = [0, 1] : (tensor<?x1xf32>, tensor<2xi32>) "
        "-> tensor<?x?xf32>"
    )
    program = read(function("%x: tensor<6xf32>, %w: tensor<?x1xf32>", "tensor<?x?xf32>", body))
    for w in (X6[:3, None], X6[4:5, None]):  # the extent that depends on %x, or 1
        np.testing.assert_array_equal(program.run(X6, w), np.broadcast_to(w, (3, 4)))
        np.testing.assert_array_equal(
            tnf.grad(lambda w: tnf.sum(program.run(X6, w)))(w), np.full(w.shape, 12 / len(w))
        )


def test_sizes_of_data_that_the_declared_type_decides(read: Any) -> None:
    """If a shape operand is data, the declared shape of the result must be used, as by #dynamic_reshape (C2)."""
    x = np.arange(6, dtype="f4")
    head = "%i = stablehlo.convert %f : (tensor<2xf32>) -> tensor<2xi32> "
    shape = "(tensor<{}xf32>, tensor<2xi32>) -> tensor<{}xf32>"
    for body, wanted, size in (
        ("dynamic_broadcast_in_dim %x, %i, dims = [1] : " + shape.format(6, "2x6"), np.broadcast_to(x, (2, 6)), "2x6"),
        ("dynamic_reshape %x, %i : " + shape.format(6, "2x3"), x.reshape(2, 3), "2x3"),
        ("dynamic_reshape %x, %i : " + shape.format(6, "?x2"), x.reshape(3, 2), "?x2"),
        ("dynamic_iota %i, dim = 1 : (tensor<2xi32>) -> tensor<2x3xf32>", np.arange(6).reshape(2, 3) % 3, "2x3"),
    ):  # fmt: skip
        text = function(
            "%f: tensor<2xf32>, %x: tensor<6xf32>",
            f"tensor<{size}xf32>",
            f"{head}%y = stablehlo.{body}",
        )
        y = read(text).run(np.array(wanted.shape, "f4"), x)
        np.testing.assert_array_equal(y, wanted)
    numbers = (
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1"
    )
    body = (
        head + "%p = stablehlo.constant dense<[[0], [3]]> : tensor<2x1xi32> "
        f'%y = "stablehlo.dynamic_gather"(%x, %p, %i) {{dimension_numbers = #stablehlo.gather<{numbers}>}} '
        ": (tensor<4x5xf32>, tensor<2x1xi32>, tensor<2xi32>) -> tensor<2x2xf32>"
    )
    table = np.arange(20, dtype="f4").reshape(4, 5)
    text = function("%f: tensor<2xf32>, %x: tensor<4x5xf32>", "tensor<2x2xf32>", body)
    np.testing.assert_array_equal(read(text).run(np.array([1, 2], "f4"), table), table[[0, 3], :2])


@pytest.mark.parametrize("result", ["?x?", "9x7"])
def test_edges_that_data_decide(read: Any, result: str) -> None:
    """#dynamic_pad (C4) and #real_dynamic_slice must be right for amounts that are data, with any declared shape."""
    body = (
        "%a = stablehlo.convert %f : (tensor<3x2xf32>) -> tensor<3x2xi8> "
        + "".join([
            f"%b{k} = stablehlo.slice %a [{k}:{k + 1}, 0:2] : (tensor<3x2xi8>) -> tensor<1x2xi8> "
            f"%v{k} = stablehlo.reshape %b{k} : (tensor<1x2xi8>) -> tensor<2xi8> "
            for k in range(3)
        ])
        + "%y = stablehlo.{} : ({}, tensor<2xi8>, tensor<2xi8>, tensor<2xi8>) -> tensor<{}xf32>"
    )  # fmt: skip
    kind = f"tensor<{result}xf32>"
    pad = body.format("dynamic_pad %x, %c, %v0, %v1, %v2", "tensor<3x4xf32>, tensor<f32>", result)
    program = read(function("%f: tensor<3x2xf32>, %x: tensor<3x4xf32>, %c: tensor<f32>", kind, pad))
    x = np.arange(1.0, 13, dtype="f4").reshape(3, 4)
    amounts = np.array([[1, -1], [3, 1], [1, 1]], "f4")
    wanted = np.full((9, 7), 8.0, "f4")
    wanted[1:6:2, 1:6:2] = x[:, 1:]
    np.testing.assert_array_equal(program.run(amounts, x, np.float32(8)), wanted)
    slope = tnf.grad(lambda x: tnf.sum(program.run(amounts, x, np.float32(8)) ** 2))(x)
    np.testing.assert_array_equal(slope, 2 * x * [0, 1, 1, 1])
    cut = body.format("real_dynamic_slice %x, %v0, %v1, %v2", "tensor<12x20xf32>", result)
    program = read(function("%f: tensor<3x2xf32>, %x: tensor<12x20xf32>", kind, cut))
    x = np.arange(240, dtype="f4").reshape(12, 20)
    edges = np.array([[2, 1], [11, 20], [1, 3]], "f4")
    np.testing.assert_array_equal(program.run(edges, x), x[2:11, 1:20:3])


BT = "tensor<?x3xf32, #stablehlo.bounds<4, ?>>"
ON_BOUNDS = {
    "broadcast_in_dim": (
        f"stablehlo.broadcast_in_dim %b, dims = [0, 1] : ({BT}) -> tensor<?x3x2xf32, #stablehlo.bounds<4, ?, ?>>",
        lambda b: np.repeat(b[:, :, None], 2, 2),
    ),
    "broadcasts of a scalar": (
        f"chlo.broadcast_subtract %c, %b : (tensor<f32>, {BT}) -> {BT}",
        lambda b: 5 - b,
    ),
    "broadcasts of a row": (
        f"chlo.broadcast_subtract %b, %r : ({BT}, tensor<1x3xf32>) -> {BT}",
        lambda b: b - [1, 2, 3],
    ),
    "pad": (
        f"stablehlo.pad %b, %c, low = [1, 0], high = [2, -1], interior = [1, 0] : ({BT}, tensor<f32>) -> tensor<?x2xf32, #stablehlo.bounds<10, ?>>",
        lambda b: np.pad(np.insert(b[:, :2], range(1, len(b)), 5, 0), ((1, 2), (0, 0)), constant_values=5),
    ),
    "slice": (
        f"stablehlo.slice %b [1:2, 0:3:2] : ({BT}) -> tensor<1x2xf32>",
        lambda b: b[1:2, ::2],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ON_BOUNDS)
def test_operations_on_an_axis_that_data_set(read: Any, name: str) -> None:
    operation, define = ON_BOUNDS[name]
    declared = operation.rsplit("-> ", 1)[1]
    result = declared.partition(",")[0].removesuffix(">") + ">"
    body = (
        f"%b = stablehlo.set_dimension_size %x, %k, dim = 0 : (tensor<4x3xf32>, tensor<i32>) -> {BT} "
        f"%z = {operation} %y = stablehlo.convert %z : ({declared}) -> {result}"
    )
    arguments = "%x: tensor<4x3xf32>, %k: tensor<i32>, %c: tensor<f32>, %r: tensor<1x3xf32>"
    program = read(function(arguments, result, body))
    x, row = np.arange(12, dtype="f4").reshape(4, 3), np.array([[1, 2, 3]], "f4")
    for k in (2, 4):
        y = program.run(x, np.int32(k), np.float32(5), row)
        np.testing.assert_array_equal(y, define(x[:k]))


def test_numbers_for_open_extents_beside_an_integer_that_is_data(read: Any) -> None:
    """An integer argument that is data, not an extent, must need no entry in `specs`.

    Calls with concrete shapes must work.
    """
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
    """An empty bool argument must remain an argument.

    Within a program, extents have such a type, too, and must not be confused with it.
    """
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
