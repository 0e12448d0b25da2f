"""Imported programs must follow the StableHLO specification, even where its implementations differ from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
import xla_peer
from lowering import importing
from tenferro import errors

X = np.array([1.0, 2.0, 4.0, 8.0, 16.0], "f4")


def windows(body: str, dims: int, options: str) -> str:
    """Return the text of a reduction over windows of five numbers. The initial value is an argument."""
    return f"""func.func @main(%x: tensor<5xf32>, %c: tensor<f32>) -> tensor<?xf32> {{
  %y = "stablehlo.reduce_window"(%x, %c) <{{window_dimensions = array<i64: {dims}>, {options}}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      {body}
      stablehlo.return %r : tensor<f32>
  }}) : (tensor<5xf32>, tensor<f32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}}"""


def by_text(x: np.ndarray, c: float, dims: int, low: int, high: int, base: int, step: int) -> list:
    """Compute a window reduction as the specification of reduce_window says.

    "padded_input = pad(input, init_value, ..)", then "reduce(window, init_value, ..)" of each window.
    """
    spread = np.full((len(x) - 1) * base + 1, c, "f4")
    spread[::base] = x
    padded = np.concatenate([np.full(low, c, "f4"), spread, np.full(high, c, "f4")])
    reach = (dims - 1) * step + 1
    starts = range(len(padded) - reach + 1)
    return [c + padded[i : i + reach : step].sum(dtype="f4") for i in starts]


CASES = {
    "padded": ("padding = dense<[[1, 1]]> : tensor<1x2xi64>", 2, (1, 1, 1, 1)),
    "dilated operand": ("base_dilations = array<i64: 2>", 3, (0, 0, 2, 1)),
    "dilated and padded window": (
        "window_dilations = array<i64: 2>, padding = dense<[[2, 1]]> : tensor<1x2xi64>",
        3,
        (2, 1, 1, 2),
    ),
}
REGIONS = {
    "addition": "%r = stablehlo.add %a, %b : tensor<f32>",
    "a region of several operations": (
        "%n = stablehlo.negate %b : tensor<f32> %r = stablehlo.subtract %a, %n : tensor<f32>"
    ),
}


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("name", CASES)
def test_windows_with_an_initial_value_that_is_no_identity(name: str, region: str) -> None:
    """Padding must have the initial value, and the reduction of each window must begin with it, once.

    #reduce: the tree that reduces has the elements "in ascending lexicographic order .., interspersed with an
    implementation-defined amount of init_values". The reference interpreter uses one initial value for each window.
    XLA adds it only once to each result.
    """
    options, dims, edges = CASES[name]
    program = lowering.import_stablehlo(windows(REGIONS[region], dims, options))
    wanted = by_text(X, 3.0, dims, *edges)
    np.testing.assert_array_equal(program.run(X, np.float32(3)), wanted)
    # The results depend linearly on the initial value. The gradient of their sum must therefore count how often it
    # was added.
    slope = tnf.grad(lambda c: tnf.sum(program.run(X, c)))(np.float32(3))
    count = sum(by_text(np.zeros(5, "f4"), 1.0, dims, *edges))
    assert slope == count


GATHER = """func.func @main(%x: tensor<5xf32>, %i: tensor<3x1xi32>) -> tensor<3xf32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
    start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}>
    : (tensor<5xf32>, tensor<3x1xi32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}"""
SCATTER = """func.func @main(%x: tensor<5xf32>, %i: tensor<3x1xi32>, %u: tensor<3xf32>) -> tensor<5xf32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %r = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %r : tensor<f32>
  }) : (tensor<5xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<5xf32>
  return %y : tensor<5xf32>
}"""
INDICES = np.array([[-12], [1], [7]], "i4")


def read_again(text: str, *arrays: np.ndarray) -> np.ndarray:
    """Run a module, and return its result.

    The program is lowered and imported again, and must then have the same bits.
    """
    program = lowering.import_stablehlo(text)
    result = program.run(*arrays)
    again = lowering.import_stablehlo(str(lowering.lower_to_stablehlo(program))).run(*arrays)
    assert again.dtype == result.dtype
    assert again.tobytes() == result.tobytes()
    return result


@pytest.mark.parametrize(
    ("lhs", "rhs", "result", "numbers", "wanted"),
    [
        ("i4", "i4", "i8", (6, 6), 72),
        ("ui2", "ui2", "ui4", (2, 2), 8),
        ("f8E4M3FN", "f8E5M2", "f8E3M4", (112, 0.03125), 7),
        ("f4E2M1FN", "f4E2M1FN", "f8E5M2", (6, 6), 64),
        ("bf16", "bf16", "f16", (1.0234375, 1.0234375), 2.095703125),
    ],
)
def test_a_product_is_rounded_once_to_a_result_of_as_many_bits(
    lhs: str, rhs: str, result: str, numbers: tuple[float, float], wanted: float
) -> None:
    """#dot_general: if the result type has at least as many bits, operands are promoted to it.

    The result must be rounded only once.
    """
    types = f"(tensor<2x{lhs}>, tensor<2x{rhs}>) -> tensor<{result}>"
    text = f"""func.func @main(%x: tensor<2x{lhs}>, %y: tensor<2x{rhs}>) -> tensor<{result}> {{
      %z = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : {types}
      return %z : tensor<{result}>
    }}"""
    program = lowering.import_stablehlo(text)
    pairs = zip(numbers, program.input_specs, strict=True)
    x, y = (np.full(2, number).astype(spec.dtype.dtype) for number, spec in pairs)
    assert float(read_again(text, x, y)) == wanted


@pytest.mark.parametrize(
    ("source", "target"),
    [("2xbf16", "2x4xi4"), ("2x4xi2", "2xui8"), ("3x2xui2", "3xi4"), ("2xi4", "2x2xui2")],
)
def test_bits_of_less_than_a_byte(source: str, target: str) -> None:
    """#bitcast_convert: along the new axis, the elements must be the bits from the lowest to the highest."""
    text = f"""func.func @main(%x: tensor<{source}>) -> tensor<{target}> {{
      %y = stablehlo.bitcast_convert %x : (tensor<{source}>) -> tensor<{target}>
      return %y : tensor<{target}>
    }}"""
    (spec,) = lowering.import_stablehlo(text).input_specs
    x = (
        (np.arange(spec.size) * 3 % 4)
        .reshape(spec.shape)
        .astype(np.int16 if spec.dtype.bits == 16 else spec.dtype.dtype)
    )
    y = read_again(text, x.view(spec.dtype.dtype))

    def bits(values: np.ndarray, kind: str) -> list[str]:
        width = int(kind.rsplit("x", 1)[1].lstrip("uibf"))
        raw = values.view(np.int16) if width == 16 else values
        return [
            bit
            for value in raw.ravel().astype(int)
            for bit in f"{value % 2**width:0{width}b}"[::-1]
        ]

    assert bits(x, source) == bits(y, target)


@pytest.mark.parametrize(
    ("kind", "other"),
    [("i32", "UNSIGNED"), ("ui8", "SIGNED"), ("i1", "SIGNED"), ("i4", "UNSIGNED")],
)
def test_integers_have_an_order_by_their_own_sign(kind: str, other: str) -> None:
    """#compare (C3): for LE, signed integers must not be compared as UNSIGNED, nor unsigned ones as SIGNED.

    EQ and NE allow both.
    """
    own = "SIGNED" if other == "UNSIGNED" else "UNSIGNED"
    text = f"""func.func @main(%x: tensor<2x{kind}>) -> tensor<2xi1> {{
      %y = stablehlo.compare LE, %x, %x, {other} : (tensor<2x{kind}>, tensor<2x{kind}>) -> tensor<2xi1>
      return %y : tensor<2xi1>
    }}"""
    lowering.import_stablehlo(text.replace(other, own))
    lowering.import_stablehlo(text.replace("LE", "NE"))
    with pytest.raises(errors.UnsupportedError, match=f"LE, {other} of .*{own}"):
        lowering.import_stablehlo(text)


def test_no_window_fits_and_nothing_is_scattered(monkeypatch: pytest.MonkeyPatch) -> None:
    """#select_and_scatter (C11): no window of 8 elements fits into 5, so the result must consist of init_value."""
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: False)
    text = with_operation(
        SPREAD.replace("tensor<1xf32>", "tensor<0xf32>").replace("array<i64: 5>", "array<i64: 8>")
    )
    text = text.replace("%w: tensor<1xf32>", "%w: tensor<0xf32>")
    program = lowering.import_stablehlo(text)
    arrays = [np.zeros(spec.shape, spec.dtype.dtype) for spec in program.input_specs[:-1]]
    arrays[2] = np.float32(3)
    np.testing.assert_array_equal(program.run(*arrays, np.zeros(0, "f4")), np.full(5, 3, "f4"))


def test_gathers_out_of_bounds_and_their_adjoint() -> None:
    """#gather: "full_start_index .. clamp(0, start_index, shape(operand) - slice_sizes)".

    So x[-12] must read x[0], and its cotangent must be added to that of x[0]. JAX's gradient drops this cotangent,
    because it is a scatter.
    """
    program = lowering.import_stablehlo(GATHER)
    np.testing.assert_array_equal(program.run(X, INDICES), X[[0, 1, 4]])
    weights = np.array([3.0, 5.0, 7.0], "f4")
    slope = tnf.grad(lambda x: tnf.sum(program.run(x, INDICES) * weights))(X)
    np.testing.assert_array_equal(slope, [3, 5, 0, 0, 7])


def test_scatters_out_of_bounds_and_their_adjoint() -> None:
    """#scatter: an update counts only if "result_index is in bounds for shape(results)".

    Other updates must be dropped.
    """
    program = lowering.import_stablehlo(SCATTER)
    updates = np.array([3.0, 5.0, 7.0], "f4")
    np.testing.assert_array_equal(
        program.run(X, INDICES, updates), X + np.array([0, 5, 0, 0, 0], "f4")
    )
    weights = np.arange(1.0, 6.0, dtype="f4")
    slope = tnf.grad(lambda u: tnf.sum(program.run(X, INDICES, u) * weights))(updates)
    np.testing.assert_array_equal(slope, [0, 2, 0])


WINDOWS_OF_A_SCATTER = """func.func @main(%x: tensor<4x5x2xf32>, %i: tensor<3x2xKIND>, %u: tensor<3x2x3xf32>)
  -> tensor<4x5x2xf32> {
  %y = "stablehlo.scatter"(%x, %i, %u) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      BODY
      stablehlo.return %r : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [2],
    scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 1>}
    : (tensor<4x5x2xf32>, tensor<3x2xKIND>, tensor<3x2x3xf32>) -> tensor<4x5x2xf32>
  return %y : tensor<4x5x2xf32>
}"""


@pytest.mark.parametrize("kind", ["i8", "i32", "ui8", "ui64"])
@pytest.mark.parametrize(
    ("body", "combine"),
    [
        ("%r = stablehlo.add %a, %b : tensor<f32>", lambda a, b: a + b),
        (
            "%s = stablehlo.multiply %a, %a : tensor<f32> %r = stablehlo.subtract %s, %b : tensor<f32>",
            lambda a, b: a * a - b,
        ),
    ],
    ids=["sum", "other region"],
)
def test_windows_of_scatters_partly_out_of_bounds(body: str, combine: Any, kind: str) -> None:
    """#scatter: for each element of the updates, "if result_index is in bounds", so a window can be used partly.

    XLA ignores such a window as a whole; so does the program with `drops_windows`.
    """
    text = WINDOWS_OF_A_SCATTER.replace("BODY", body).replace("KIND", kind)
    program = lowering.import_stablehlo(text)
    dropping = lowering.import_stablehlo(text, drops_windows=True)
    rng = np.random.default_rng(1)
    x, updates = rng.integers(-4, 5, (4, 5, 2)), rng.integers(-4, 5, (3, 2, 3))
    dtype = program.input_specs[1].dtype.dtype
    corners = [[3, 3], [-1, 1], [4, -2], [127, 127], [0, 0], [-3, 2]]
    for starts in (corners[:3], corners[3:], corners[1:4]):
        indices = np.array(starts).astype(dtype)
        wanted, whole = x.copy(), x.copy()
        for k, (column, row) in enumerate(indices.tolist()):
            is_whole = 0 <= row <= 4 - 2 and 0 <= column <= 5 - 3
            for i in range(2):
                for j in range(3):
                    at = row + i, column + j, 0
                    if 0 <= at[0] < 4 and 0 <= at[1] < 5:
                        wanted[at] = combine(wanted[at], updates[k, i, j])
                        whole[at] = combine(whole[at], updates[k, i, j]) if is_whole else whole[at]
        arguments = x.astype("f4"), indices, updates.astype("f4")
        np.testing.assert_array_equal(program.run(*arguments), wanted)
        np.testing.assert_array_equal(dropping.run(*arguments), whole)


def test_derivatives_of_windows_partly_out_of_bounds() -> None:
    text = """func.func @main(%x: tensor<3xf32>, %i: tensor<1xi32>, %u: tensor<2xf32>) -> tensor<3xf32> {
      %y = "stablehlo.scatter"(%x, %i, %u) ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %r = stablehlo.divide %b, %a : tensor<f32>
          stablehlo.return %r : tensor<f32>
      }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 0>}
        : (tensor<3xf32>, tensor<1xi32>, tensor<2xf32>) -> tensor<3xf32>
      return %y : tensor<3xf32>
    }"""
    program = lowering.import_stablehlo(text)
    x, index, updates = np.array([1, 2, 4], "f4"), np.array([2], "i4"), np.array([8, 7], "f4")
    np.testing.assert_array_equal(program.run(x, index, updates), [1, 2, 2])
    slope = tnf.grad(lambda u: tnf.sum(program.run(x, index, u)))(updates)
    np.testing.assert_array_equal(slope, [0.25, 0])


@pytest.mark.parametrize(
    ("size", "error"), [(1, None), (0, None), (2, "dynamic_iota")], ids=["some", "none", "huge"]
)
def test_sizes_that_are_minima_of_data(size: int, error: str | None) -> None:
    """The minimum of no elements must be the initial value. The value 2^31 - 1 is no useful bound: an error."""
    kind, initial = ("ui8", 300) if error is None else ("i32", 2147483647)
    text = f"""func.func @main(%x: tensor<3x{kind}>, %k: tensor<i32>) -> tensor<?xi32> {{
      %some = stablehlo.set_dimension_size %x, %k, dim = 0
        : (tensor<3x{kind}>, tensor<i32>) -> tensor<?x{kind}, #stablehlo.bounds<3>>
      %wide = stablehlo.convert %some
        : (tensor<?x{kind}, #stablehlo.bounds<3>>) -> tensor<?xi32, #stablehlo.bounds<3>>
      %first = stablehlo.constant dense<{initial}> : tensor<i32>
      %least = stablehlo.reduce(%wide init: %first) applies stablehlo.minimum across dimensions = [0]
        : (tensor<?xi32, #stablehlo.bounds<3>>, tensor<i32>) -> tensor<i32>
      %sizes = stablehlo.reshape %least : (tensor<i32>) -> tensor<1xi32>
      %y = stablehlo.dynamic_iota %sizes, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
      return %y : tensor<?xi32>
    }}"""
    if error is not None:
        with pytest.raises(tnf.errors.TenferroError, match=error):
            lowering.import_stablehlo(text)
        return
    x = np.array([5, 9, 7], "u1")
    expected = 5 if size else 300
    y = lowering.import_stablehlo(text).run(x, np.array(size, "i4"))
    np.testing.assert_array_equal(y, np.arange(expected))


def test_slices_without_elements_that_a_gather_would_read() -> None:
    """#gather: a start may be clamped to the extent of an axis, where no element is, if the slice has size 0."""
    text = """func.func @main(%x: tensor<5x3xf32>, %i: tensor<2x1xi32>) -> tensor<2x3xf32> {
      %y = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 0, 3>}
        : (tensor<5x3xf32>, tensor<2x1xi32>) -> tensor<2x3xf32>
      return %y : tensor<2x3xf32>
    }"""
    with pytest.raises(errors.InvalidConfigError, match="give the axes"):
        lowering.import_stablehlo(text)


def bounds(extent: int) -> str:
    return f"tensor<?xf64, #stablehlo.bounds<{extent}>>"


def cut_to_a_size(name: str, extent: int, size: str) -> str:
    """Return the text of a value `name`: the first elements of `%<name>_all`, as many as `size` says."""
    whole = f"tensor<{extent}xf64>"
    return f"""
      %{name}_size = stablehlo.convert {size} : (tensor<f64>) -> tensor<i32>
      %{name} = stablehlo.set_dimension_size %{name}_all, %{name}_size, dim = 0
        : ({whole}, tensor<i32>) -> {bounds(extent)}"""


@pytest.mark.parametrize("extent", [4, 3, 2])
@pytest.mark.parametrize("is_open", [True, False])
def test_two_axes_of_which_data_set_the_sizes_are_broadcast(extent: int, is_open: bool) -> None:
    """CHLO's broadcasts repeat an axis with one element, also if its size is known only when the program runs."""
    kind = bounds(extent) if is_open else f"tensor<{extent}xf64>"
    result = bounds(4) if is_open else kind
    text = f"""func.func @main(%a_all: tensor<4xf64>, %b_all: tensor<{extent}xf64>, %n: tensor<f64>,
        %m: tensor<f64>) -> {result} {{
      {cut_to_a_size("a", 4, "%n")} {cut_to_a_size("b", extent, "%m")}
      %y = chlo.broadcast_multiply %a, {"%b" if is_open else "%b_all"} : ({bounds(4)}, {kind}) -> {result}
      return %y : {result}
    }}"""
    program = lowering.import_stablehlo(text)
    a, b = np.arange(1.0, 5.0), np.arange(5.0, 5.0 + extent)
    for n in range(5):
        for m in range(extent + 1) if is_open else [extent]:
            sizes = float(n), float(m)
            if n != m and 1 not in (n, m):
                with pytest.raises(errors.ShapeError, match="must have the same shape"):
                    program.run(a, b, *sizes)
                continue
            np.testing.assert_array_equal(program.run(a, b, *sizes), a[:n] * b[:m])
            slopes = tnf.grad(lambda a, b, s=sizes: tnf.sum(program(a, b, *s)), (0, 1))(a, b)
            a_bar, b_bar = (np.zeros_like(x) for x in (a, b))
            a_bar[:n] = b[:m] if n == m else b[:m].sum() if n == 1 else b[0]
            b_bar[:m] = a[:n] if n == m else a[:n].sum() if m == 1 else a[0]
            if 0 not in (n, m):
                np.testing.assert_array_equal(slopes[0], a_bar)
                np.testing.assert_array_equal(slopes[1], b_bar)


@pytest.mark.parametrize("operation", ["stablehlo.multiply", "dynamic_broadcast_in_dim"])
def test_sizes_that_must_agree_when_the_program_runs(operation: str) -> None:
    """#multiply (C1): the shapes are equal. #dynamic_broadcast_in_dim (C5): the size is 1, or that of the result."""
    apply = f"stablehlo.multiply %a, %b : {bounds(4)}"
    if operation != "stablehlo.multiply":
        apply = f"""stablehlo.dynamic_broadcast_in_dim %a, %sizes, dims = [0]
          : ({bounds(4)}, tensor<1xi32>) -> {bounds(4)}"""
    text = f"""func.func @main(%a_all: tensor<4xf64>, %n: tensor<f64>, %m: tensor<f64>) -> {bounds(4)} {{
      %b_all = stablehlo.constant dense<1.0> : tensor<4xf64>
      {cut_to_a_size("a", 4, "%n")} {cut_to_a_size("b", 4, "%m")}
      %sizes = stablehlo.reshape %b_size : (tensor<i32>) -> tensor<1xi32>
      %y = {apply}
      return %y : {bounds(4)}
    }}"""
    program, a = lowering.import_stablehlo(text), np.arange(1.0, 5.0)
    np.testing.assert_array_equal(program.run(a, 3.0, 3.0), a[:3])
    if operation != "stablehlo.multiply":
        np.testing.assert_array_equal(program.run(a, 1.0, 3.0), [1, 1, 1])
    for n, m in [(2, 3), (3, 2), (0, 3)] + [(1, 3), (3, 1)] * (operation == "stablehlo.multiply"):
        with pytest.raises(errors.ShapeError, match="must have the same shape"):
            program.run(a, float(n), float(m))


def test_scatters_within_bounds_have_no_margins() -> None:
    """JAX clips the indices of `vmap(dynamic_update_slice)`, so that each window is within bounds."""
    clipped = """%l = stablehlo.constant dense<0> : tensor<3x2xi32> %h = stablehlo.constant dense<2> : tensor<3x2xi32>
      %c = stablehlo.clamp %l, %i, %h : tensor<3x2xi32> %y ="""
    text = WINDOWS_OF_A_SCATTER.replace("BODY", "%r = stablehlo.add %a, %b : tensor<f32>")
    text = (
        text.replace("KIND", "i32")
        .replace("%y =", clipped, 1)
        .replace("(%x, %i, %u) (", "(%x, %c, %u) (")
    )
    assert "Pad" not in str(lowering.import_stablehlo(text))


@pytest.mark.parametrize("kind", ["i4", "i8", "i16", "i32", "i64", "ui4", "ui8", "ui32", "ui64"])
def test_integers_divided_by_zero(kind: str) -> None:
    """#divide, #remainder: the results of x / 0 and min / -1 are implementation-defined, and must be those of XLA."""
    bits = int(kind.lstrip("ui"))
    low, high = (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    ones = high if kind[0] == "u" else -1
    pairs = [(5, 0), (low, 0), (high, 0), (low, ones), (high, 2)]
    wanted = {"divide": [ones, ones, ones, low, high // 2], "remainder": [5, low, high, 0, 1]}
    x, y = (", ".join(map(str, numbers)) for numbers in zip(*pairs, strict=True))
    for name, numbers in wanted.items():
        text = f"""func.func @main(%z: tensor<5x{kind}>) -> tensor<5x{kind}> {{
          %x = stablehlo.constant dense<[{x}]> : tensor<5x{kind}>
          %y = stablehlo.constant dense<[{y}]> : tensor<5x{kind}>
          %s = stablehlo.subtract %z, %z : tensor<5x{kind}>
          %b = stablehlo.add %y, %s : tensor<5x{kind}>
          %r = stablehlo.{name} %x, %b : tensor<5x{kind}>
          return %r : tensor<5x{kind}>
        }}"""
        program = lowering.import_stablehlo(text)
        zeros = np.zeros(5, program.input_specs[0].dtype.dtype)
        assert program.run(zeros).astype(object).tolist() == numbers
        assert xla_peer.XlaExecutor().run(program, zeros).astype(object).tolist() == numbers


PAIR = "^bb0(%p: tensor<f32>, %q: tensor<f32>):"
ADD = "%s = stablehlo.add %p, %q : tensor<f32>"
SUM = f"({{ {PAIR} {ADD} stablehlo.return %s : tensor<f32> }})"
TRUE = "%t = stablehlo.constant dense<true> : tensor<i1>"
DECIDE = f"({{ {PAIR} {TRUE} stablehlo.return %t : tensor<i1> }}, {{ {PAIR} {ADD} stablehlo.return %s : tensor<f32> }})"
SPREAD = f'"stablehlo.select_and_scatter"(%x, %w, %c) {DECIDE} {{window_dimensions = array<i64: 5>}} : (tensor<5xf32>, tensor<1xf32>, tensor<f32>) -> tensor<5xf32>'
WINDOWS = f'"stablehlo.reduce_window"(%x, %c) <{{window_dimensions = array<i64: 2>}}> {SUM} : (tensor<5xf32>, tensor<f32>) -> tensor<4xf32>'
SCATTERED = f'"stablehlo.scatter"(%x, %k, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> {SUM} : (tensor<5xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<5xf32>'
SORTED = '"stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %t = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1> stablehlo.return %t : tensor<i1> }) : (tensor<5xf32>) -> tensor<5xf32>'
MAPPED = f'"stablehlo.map"(%x, %x) <{{dimensions = array<i64: 0>}}> {SUM} : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>'
NORMED = '"stablehlo.batch_norm_inference"(%m, %w, %w, %w, %w) <{epsilon = 0.5 : f32, feature_index = 1 : i64}> : (tensor<5x1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<5x1xf32>'
REDUCED = f'"stablehlo.all_reduce"(%x) <{{replica_groups = dense<[[0]]> : tensor<1x1xi64>}}> {SUM} : (tensor<5xf32>) -> tensor<5xf32>'
GATHERED = '"stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>}> : (tensor<5xf32>) -> tensor<5xf32>'
SPLIT = f'"stablehlo.reduce_scatter"(%x) <{{scatter_dimension = 0 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>}}> {SUM} : (tensor<5xf32>) -> tensor<5xf32>'
SWAPPED = '"stablehlo.all_to_all"(%x) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 1 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>}> : (tensor<5xf32>) -> tensor<5xf32>'
MOVED = '"stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>}> : (tensor<5xf32>) -> tensor<5xf32>'
CHOSEN = '"stablehlo.case"(%i) ({ stablehlo.return %x : tensor<5xf32> }, { stablehlo.return %x : tensor<5xf32> }) : (tensor<i32>) -> tensor<5xf32>'
LOOPED = '"stablehlo.while"(%x) ({ ^bb0(%p: tensor<5xf32>): stablehlo.return %b : tensor<i1> }, { ^bb0(%p: tensor<5xf32>): stablehlo.return %p : tensor<5xf32> }) : (tensor<5xf32>) -> tensor<5xf32>'
CONVOLVED = "stablehlo.convolution(%f, %g) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x5x1xf32>, tensor<3x1x2xf32>) -> tensor<1x3x2xf32>"
MULTIPLIED = '"stablehlo.dot_general"(%x, %x) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>], algorithm = #stablehlo.dot_algorithm<lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3, allow_imprecise_accumulation = false>}> : (tensor<5xf32>, tensor<5xf32>) -> tensor<f32>'
SCANNED = "chlo.scan (%m) inits (%w) dimension = 0 attributes {scan_dim_size = 5 : i64} { ^bb0(%p: tensor<1xf32>, %q: tensor<1xf32>): %s = stablehlo.add %q, %q : tensor<1xf32> stablehlo.return %s, %s : tensor<1xf32>, tensor<1xf32> } : (tensor<5x1xf32>, tensor<1xf32>) -> (tensor<5x1xf32>, tensor<1xf32>)"
OTHER = "%h = stablehlo.convert %p : (tensor<f32>) -> tensor<i32>"
BROKEN: dict[str, tuple[str, str, str]] = {
    "(C8) select_and_scatter: strides": (SPREAD, "window_dimensions = array<i64: 5>", "window_dimensions = array<i64: 5>, window_strides = array<i64: 5, 5>"),
    "(C9) select_and_scatter: selection's type": (SPREAD, f"{TRUE} stablehlo.return %t : tensor<i1>", f"{ADD} stablehlo.return %s : tensor<f32>"),
    "(C10) select_and_scatter: region's type": (SPREAD, f"{ADD} stablehlo.return %s : tensor<f32>", f"{OTHER} stablehlo.return %h : tensor<i32>"),
    "(C4) reduce_window: one extent an axis": (WINDOWS, "array<i64: 2>}", "array<i64: 2>, window_strides = array<i64: 1, 1>}"),
    "(C9) reduce_window: positive dilations": (WINDOWS, "array<i64: 2>}", "array<i64: 2>, window_dilations = array<i64: 0>}"),
    "(C12) reduce_window: pairs of padding": (WINDOWS, "array<i64: 2>}", "array<i64: 2>, padding = dense<0> : tensor<2x2xi64>}"),
    "(C13) reduce_window: region's type": (WINDOWS, f"{ADD} stablehlo.return %s : tensor<f32>", f"{OTHER} stablehlo.return %h : tensor<i32>"),
    "(C23) scatter: region's type": (SCATTERED, f"{ADD} stablehlo.return %s : tensor<f32>", f"{OTHER} stablehlo.return %h : tensor<i32>"),
    "(I6) scatter: a bool": (SCATTERED, "index_vector_dim = 1>", "index_vector_dim = 1>, unique_indices = 1 : i64"),
    "(C4) sort: dimension": (SORTED, "dimension = 0", "dimension = 1"),
    "(C5) sort: comparator's type": (SORTED, "stablehlo.return %t : tensor<i1>", "stablehlo.return %p : tensor<f32>"),
    "(I3) sort: a bool": (SORTED, "is_stable = true", "is_stable = 1 : i64"),
    "(C3) map: all dimensions": (MAPPED, "array<i64: 0>", "array<i64: 1>"),
    "(C4) map: arguments": (MAPPED.replace(ADD, "%s = stablehlo.negate %p : tensor<f32>"), "%q: tensor<f32>", "%q: tensor<i32>"),
    "(C4) map: one result": (MAPPED, "stablehlo.return %s : tensor<f32>", "stablehlo.return %s, %s : tensor<f32>, tensor<f32>"),
    "(C1) batch_norm_inference: feature_index": (NORMED, "feature_index = 1", "feature_index = 2"),
    "(C3) batch_norm_inference: features": (NORMED, "feature_index = 1", "feature_index = 0"),
    "(I6) batch_norm_inference: a float": (NORMED, "0.5 : f32", "1 : i64"),
    "(I2) all_reduce: rank of groups": (REDUCED, "dense<[[0]]> : tensor<1x1xi64>", "dense<[0]> : tensor<1xi64>"),
    "(C1) all_reduce: a device twice": (REDUCED, "dense<[[0]]> : tensor<1x1xi64>", "dense<[[0], [0]]> : tensor<2x1xi64>"),
    "(C3) all_reduce: a device missing": (REDUCED, "dense<[[0]]> : tensor<1x1xi64>", "dense<[[1]]> : tensor<1x1xi64>"),
    "(C5) all_reduce: region's type": (REDUCED, f"{ADD} stablehlo.return %s : tensor<f32>", f"{OTHER} stablehlo.return %h : tensor<i32>"),
    "(C1) all_gather: axis": (GATHERED, "all_gather_dim = 0", "all_gather_dim = 2147483648"),
    "(C1) reduce_scatter: axis": (SPLIT, "scatter_dimension = 0", "scatter_dimension = -1"),
    "(C1) all_to_all: axis": (SWAPPED, "split_dimension = 0", "split_dimension = -1"),
    "(C3) all_to_all: axis": (SWAPPED, "concat_dimension = 0", "concat_dimension = 1"),
    "(C1) collective_permute: pairs": (MOVED, "dense<[[0, 0]]> : tensor<1x2xi64>", "dense<[[0, 0, 0]]> : tensor<1x3xi64>"),
    "(C3) collective_permute: a target twice": (MOVED, "dense<[[0, 0]]> : tensor<1x2xi64>", "dense<[[0, 0], [0, 0]]> : tensor<2x2xi64>"),
    "(C4) collective_permute: below 0": (MOVED, "dense<[[0, 0]]> : tensor<1x2xi64>", "dense<[[0, -1]]> : tensor<1x2xi64>"),
    "(C1) case: a branch": (CHOSEN, "({ stablehlo.return %x : tensor<5xf32> }, { stablehlo.return %x : tensor<5xf32> })", ""),
    "(C2) case: results": (CHOSEN, "{ stablehlo.return %x : tensor<5xf32> })", "{ stablehlo.return %x, %x : tensor<5xf32>, tensor<5xf32> })"),
    "(C1) while: a condition": (LOOPED, "stablehlo.return %b : tensor<i1>", "stablehlo.return %i : tensor<i32>"),
    "(C27) convolution: element types": (CONVOLVED, "tensor<3x1x2xf32>)", "tensor<3x1x2xf64>)"),
    "convolution: a label after each comma": (CONVOLVED, "[b, 0, f]x", "[b, 0, f,]x"),
    "convolution: labels": (CONVOLVED, "[b, 0, f]x", "[]x"),
    "(C2) compare: element types": ("stablehlo.compare LT, %x, %x : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xi1>", "%x, %x : (tensor<5xf32>, tensor<5xf32>)", "%x, %n : (tensor<5xf32>, tensor<5xui32>)"),
    "(C1) get_dimension_size: int32": ("stablehlo.get_dimension_size %x, dim = 0 : (tensor<5xf32>) -> tensor<i32>", "-> tensor<i32>", "-> tensor<f32>"),
    "(O1) partition_id: unsigned": ("stablehlo.partition_id : tensor<ui32>", "tensor<ui32>", "tensor<i32>"),
    "(C1) optimization_barrier: types": ('"stablehlo.optimization_barrier"(%x) : (tensor<5xf32>) -> tensor<5xf32>', "-> tensor<5xf32>", "-> tensor<?xf32>"),
    "broadcast: shape": ('"stablehlo.broadcast"(%x) <{broadcast_sizes = array<i64: 3>}> : (tensor<5xf32>) -> tensor<3x5xf32>', "array<i64: 3>", "array<i64: 4>"),
    "(C7) dynamic_broadcast_in_dim: hints": ('"stablehlo.dynamic_broadcast_in_dim"(%x, %d) <{broadcast_dimensions = array<i64: 0>, known_expanding_dimensions = array<i64>, known_nonexpanding_dimensions = array<i64: 0>}> : (tensor<5xf32>, tensor<1xi64>) -> tensor<5xf32>', "known_expanding_dimensions = array<i64>", "known_expanding_dimensions = array<i64: 0>"),
    "chlo.broadcast_add: shape": ("chlo.broadcast_add %x, %m : (tensor<5xf32>, tensor<5x1xf32>) -> tensor<5x5xf32>", "-> tensor<5x5xf32>", "-> tensor<1x5x5xf32>"),
    "chlo.top_k: at most the axis": ('"chlo.top_k"(%x) <{k = 2 : i64}> : (tensor<5xf32>) -> (tensor<2xf32>, tensor<2xi32>)', "k = 2", "k = 6"),
    "chlo.is_inf: floats": ("chlo.is_inf %x : tensor<5xf32> -> tensor<5xi1>", "%x : tensor<5xf32>", "%n : tensor<5xui32>"),
    "chlo.zeta: one type": ("chlo.zeta %x, %x : tensor<5xf32>, tensor<5xf32> -> tensor<5xf32>", "%x, %x : tensor<5xf32>, tensor<5xf32>", "%x, %c : tensor<5xf32>, tensor<f32>"),
    "(C4) reduce: dimensions": (f'"stablehlo.reduce"(%x, %c) <{{dimensions = array<i64: 0>}}> {SUM} : (tensor<5xf32>, tensor<f32>) -> tensor<f32>', "(%x, %c) <{dimensions = array<i64: 0>}>", "(%x, %c) <{dimensions = array<i64: 1>}>"),
    "(C5) dynamic_broadcast_in_dim: extents": ('"stablehlo.dynamic_broadcast_in_dim"(%x, %d) <{broadcast_dimensions = array<i64: 0>}> : (tensor<5xf32>, tensor<1xi64>) -> tensor<5xf32>', "-> tensor<5xf32>", "-> tensor<6xf32>"),
    "(C8) scatter: order": (SCATTERED, "scatter_dims_to_operand_dims = [0]", "input_batching_dims = [0, 0], scatter_dims_to_operand_dims = [0]"),
    "(C6) reduce: scalars": (f'"stablehlo.reduce"(%m, %c) <{{dimensions = array<i64: 0>}}> {SUM} : (tensor<5x1xf32>, tensor<f32>) -> tensor<1xf32>', f'"stablehlo.reduce"(%m, %c) <{{dimensions = array<i64: 0>}}> {SUM} : (tensor<5x1xf32>, tensor<f32>)', f'"stablehlo.reduce"(%m, %w) <{{dimensions = array<i64: 0>}}> {SUM.replace("tensor<f32>", "tensor<1xf32>")} : (tensor<5x1xf32>, tensor<1xf32>)'),
    "(I6) select_and_scatter: 64 bits": (SPREAD, "array<i64: 5>}", "array<i64: 5>, padding = dense<0> : tensor<1x2xui8>}"),
    "(I2) dynamic_iota: a vector": ("stablehlo.dynamic_iota %d, dim = 0 : (tensor<1xi64>) -> tensor<?xf32>", "%d, dim = 0 : (tensor<1xi64>)", "%i, dim = 0 : (tensor<i32>)"),
    "(I3) dynamic_pad: one type": ("stablehlo.dynamic_pad %x, %c, %d, %d, %d : (tensor<5xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32>", "%d, %d, %d : (tensor<5xf32>, tensor<f32>, tensor<1xi64>", "%v, %d, %d : (tensor<5xf32>, tensor<f32>, tensor<1xi32>"),
    "(C11) select_and_scatter: sources": (SPREAD, "array<i64: 5>}", "array<i64: 4>}"),
    "chlo.broadcast_add: open rank": ("chlo.broadcast_add %o, %o : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>", "-> tensor<?xf32>", "-> tensor<?x3xf32>"),
    "chlo.mulhi: integers": ("chlo.mulhi %n, %n : tensor<5xui32>, tensor<5xui32> -> tensor<5xui32>", "%n, %n : tensor<5xui32>, tensor<5xui32> -> tensor<5xui32>", "%b, %b : tensor<i1>, tensor<i1> -> tensor<i1>"),
    "chlo.scan: size": (SCANNED, "scan_dim_size = 5", "scan_dim_size = 4"),
    "chlo.scan: axis": (SCANNED, "dimension = 0", "dimension = 2"),
    "chlo.scan: slices": (SCANNED, "%p: tensor<1xf32>", "%p: tensor<5xf32>"),
    "chlo.scan: arguments": (SCANNED, "%q: tensor<1xf32>)", "%q: tensor<1xf32>, %t: tensor<1xf32>)"),
    "dynamic_slice: a comma": ("stablehlo.dynamic_slice %x, %i, sizes = [2] : (tensor<5xf32>, tensor<i32>) -> tensor<2xf32>", "%i, sizes", "%i sizes"),
    "concatenate: a comma": ("stablehlo.concatenate %x, %w, dim = 0 : (tensor<5xf32>, tensor<1xf32>) -> tensor<6xf32>", "%w, dim", "%w dim"),
    "dot_general: a known attribute": (MULTIPLIED, "#stablehlo<precision DEFAULT>", "#stablehlo<preciion DEFAULT>"),
    "dot_general: precision beside an algorithm": (MULTIPLIED, "[#stablehlo<precision DEFAULT>, ", "[#stablehlo<precision HIGH>, "),
    "(I10) dot_general: a sum that hardware has": (MULTIPLIED, "accumulation_type = f32", "accumulation_type = bf16"),
    "(I13) dot_general: a count that hardware has": (MULTIPLIED, "num_primitive_operations = 3", "num_primitive_operations = 6"),
    "(I14) dot_general: a precise sum": (MULTIPLIED, "allow_imprecise_accumulation = false", "allow_imprecise_accumulation = true"),
    "convolution: integers of 64 bits": (CONVOLVED, "batch_group_count = 1 : i64", "batch_group_count = 1 : i32"),
    "(I1) abs: signed": ("stablehlo.abs %x : tensor<5xf32>", "%x : tensor<5xf32>", "%n : tensor<5xui32>"),
    "(I1) imag: complex or float": ("stablehlo.imag %x : tensor<5xf32>", "%x : tensor<5xf32>", "%n : tensor<5xui32>"),
}  # fmt: skip
ARGUMENTS = (
    "%x: tensor<5xf32>, %w: tensor<1xf32>, %c: tensor<f32>, %k: tensor<3x1xi32>, %u: tensor<3xf32>, "
    "%m: tensor<5x1xf32>, %i: tensor<i32>, %b: tensor<i1>, %n: tensor<5xui32>, %f: tensor<1x5x1xf32>, "
    "%g: tensor<3x1x2xf32>, %d: tensor<1xi64>, %v: tensor<1xi32>, %o: tensor<?xf32>"
)


def with_operation(text: str) -> str:
    result = text.rsplit("->", 1)[-1].rsplit(" : ", 1)[-1].strip()
    arguments = (
        ARGUMENTS.replace("%g: tensor<3x1x2xf32>", "%g: tensor<3x1x2xf64>")
        if "x2xf64" in text
        else ARGUMENTS
    )
    count = 1 + result.count(", ")
    names = ", ".join([f"%y#{place}" for place in range(count)]) if count > 1 else "%y"
    bare = result.strip("()")
    return f"func.func @main({arguments}) -> {result} {{\n  %y{f':{count}' if count > 1 else ''} = {text}\n  return {names} : {bare}\n}}"


@pytest.mark.parametrize("with_mlir", [False, True])
@pytest.mark.parametrize("constraint", BROKEN)
def test_broken_constraints(
    constraint: str, with_mlir: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operation that violates one of its constraints must raise an error, with and without MLIR."""
    if with_mlir:
        pytest.importorskip("jaxlib")
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: with_mlir)
    text, kept, broken = BROKEN[constraint]
    lowering.import_stablehlo(with_operation(text), trusted=True)
    assert kept in text
    with pytest.raises(errors.TenferroError):
        lowering.import_stablehlo(with_operation(text.replace(kept, broken, 1)), trusted=True)


CALLED = "func.func private @f(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"
CALLS = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { %y = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32> return %y : tensor<4xf32> }"
TUPLE = "func.func @main(%t: tuple<tensor<2xf32>, tensor<i32>>) -> tensor<2xf32> { %y = stablehlo.get_tuple_element %t[0] : (tuple<tensor<2xf32>, tensor<i32>>) -> tensor<2xf32> return %y : tensor<2xf32> }"
SHARDS = (
    'sdy.mesh @mesh = <["x"=2]> '
    "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> "
    '{ %y = sdy.sharding_constraint %x <@mesh, [{"x"}]> : tensor<4xf32> return %y : tensor<4xf32> }'
)
NORMALIZED = (
    "!T = tensor<1xf32>\nfunc.func @main(%x: !T) -> !T { "
    '%y = "stablehlo.batch_norm_inference"(%x, %x, %x, %x, %x) <{epsilon = 0.5 : f32, feature_index = 0 : i64}> '
    ": (!T, !T, !T, !T, !T) -> !T return %y : !T }"
)
WINDOWED = (
    "!W = tensor<2x1x1xf32>\nfunc.func @main(%x: tensor<1x4x1xf32>, %w: !W) -> tensor<1x?x1xf32> { "
    "%y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} "
    "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} "
    ": (tensor<1x4x1xf32>, !W) -> tensor<1x?x1xf32> return %y : tensor<1x?x1xf32> }"
)
MODULES = {
    "windows of a convolution without elements": (WINDOWED, "tensor<2x", "tensor<0x"),
    "a normalisation of complex numbers": (NORMALIZED, "tensor<1xf32>", "tensor<1xcomplex<f32>>"),
    "a tuple's element": (TUPLE, "%t[0]", "%t[2]"),
    "a tuple's element below 0": (TUPLE, "%t[0]", "%t[-1]"),
    "a tuple's element of another type": (TUPLE, "%t[0]", "%t[1]"),
    "a call's operands": (f"{CALLED} {CALLS}", "(%x: tensor<4xf32>) -> tensor<4xf32> { %y = call @f(%x) : (tensor<4xf32>)", "(%x: tensor<?xf32>) -> tensor<4xf32> { %y = call @f(%x) : (tensor<?xf32>)"),
    "a mesh's axes": (SHARDS, '"x"=2', '"x"=0'),
    "a sharding's names": (SHARDS, '[{"x"}]', "[{x}]"),
    "a sharding's mesh": (SHARDS, "<@mesh,", "<@meshes,"),
    "a sharding's axes": (SHARDS, '[{"x"}]', '[{"x"}, {}]'),
}  # fmt: skip


@pytest.mark.parametrize("with_mlir", [False, True])
@pytest.mark.parametrize("part", MODULES)
def test_broken_modules(part: str, with_mlir: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if with_mlir:
        pytest.importorskip("jaxlib")
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: with_mlir)
    text, kept, broken = MODULES[part]
    assert kept in text
    lowering.import_stablehlo(text)
    with pytest.raises(errors.TenferroError, match="malformed"):
        lowering.import_stablehlo(text.replace(kept, broken, 1))
