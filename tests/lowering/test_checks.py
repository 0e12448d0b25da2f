"""Checks, probes and other operations of StableHLO's own tests must be read without MLIR."""

from __future__ import annotations

import numpy as np
import pytest

import lowering
from lowering.syntax import read_module
from tenferro.errors import InvalidConfigError, TenferroError, UnsupportedError

HEAD = """
  %a = stablehlo.constant dense<[1.0, 2.0, 0x7FC00000]> : tensor<3xf32>
  %b = stablehlo.constant dense<[1.0, 2.000001, 0x7FC00000]> : tensor<3xf32>
  %i = stablehlo.constant dense<[3, 4]> : tensor<2xi4>
"""


def read(body: str, arguments: str = "") -> object:
    return lowering.import_stablehlo(
        f"func.func @main({arguments}) {{{HEAD}{body}\n  func.return\n}}"
    )


@pytest.mark.parametrize(
    "check",
    [
        "check.expect_eq %a, %a : tensor<3xf32>",
        "check.expect_eq_const %i, dense<[3, 4]> : tensor<2xi4>",
        "check.expect_almost_eq %a, %b : tensor<3xf32>",
        "check.expect_almost_eq %a, %b, tolerance = 0.1 : tensor<3xf32>",
        "check.expect_almost_eq_const %a, dense<[1.0, 2.05, 0x7FC00000]> : tensor<3xf32> {tolerance = 0.1 : f64}",
        "check.expect_almost_eq_const %a, dense<[1.0, 2.05, 0x7FC00000]> : tensor<3xf32>, tolerance = 0.1",
        "check.expect_close %a, %b, max_ulp_difference = 9 : tensor<3xf32>, tensor<3xf32>",
        '"check.expect_eq_const"(%i) <{value = dense<[3, 4]> : tensor<2xi4>}> : (tensor<2xi4>) -> ()',
    ],
)
def test_checks_that_hold(check: str) -> None:
    read_module(f"func.func @main() {{{HEAD}{check}\n  func.return\n}}")
    read(check)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ("check.expect_eq %a, %b : tensor<3xf32>", r"expect_eq does not hold at \[1\]: 2.0 and 2.00000"),
        ("check.expect_eq_const %i, dense<[3, 5]> : tensor<2xi4>", r"at \[1\]: 4 and 5"),
        ("check.expect_almost_eq %a, %b, tolerance = 1.0e-9 : tensor<3xf32>", "does not hold"),
        ("check.expect_close %a, %b : tensor<3xf32>, tensor<3xf32>", "does not hold"),
        ("check.expect_close %a, %a, max_ulp_difference = 3, min_ulp_difference = 1 : tensor<3xf32>, tensor<3xf32>",
         "and at 2 other"),
    ],
)  # fmt: skip
def test_checks_that_do_not_hold(check: str, message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        read(check)


@pytest.mark.parametrize(
    ("kind", "x", "y", "distance"),
    [("f4E2M1FN", -0.5, 1.0, 3), ("f6E2M3FN", -0.125, 0.25, 3), ("f8E4M3FN", -1.0, -1.25, 2), ("f8E8M0FNU", 0.5, 8.0, 4)],
)  # fmt: skip
def test_units_in_the_last_place_of_narrow_floats(
    kind: str, x: float, y: float, distance: int
) -> None:
    text = f"""func.func @main() {{ %a = stablehlo.constant dense<{x}> : tensor<{kind}>
      %b = stablehlo.constant dense<{y}> : tensor<{kind}>
      check.expect_close %a, %b, max_ulp_difference = {{}} : tensor<{kind}>, tensor<{kind}>
      return }}"""
    lowering.import_stablehlo(text.replace("{}", str(distance)))
    with pytest.raises(InvalidConfigError, match="does not hold"):
        lowering.import_stablehlo(text.replace("{}", str(distance - 1)))


def test_a_check_of_arguments_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="depend on arguments"):
        read("check.expect_eq %x, %a : tensor<3xf32>", "%x: tensor<3xf32>")


def test_probes_are_their_operands() -> None:
    program = lowering.import_stablehlo("""
    func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = interpreter.probe %x, probe_id = "probe/0" : tensor<3xf32>
      %1 = stablehlo.add %0, %0 : tensor<3xf32>
      return %1 : tensor<3xf32>
    }""")
    np.testing.assert_array_equal(program.run(np.arange(3, dtype="f4")), [0, 2, 4])


def test_constants_like_an_operand() -> None:
    program = lowering.import_stablehlo("""
    func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = "chlo.constant_like"(%x) <{value = 1.5 : f32}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
      %1 = stablehlo.add %0, %x : tensor<2x3xf32>
      return %1 : tensor<2x3xf32>
    }""")
    np.testing.assert_array_equal(program.run(np.ones((2, 3), "f4")), np.full((2, 3), 2.5))


def test_a_manual_computation_is_its_body_on_every_device() -> None:
    text = """
    module {{
    sdy.mesh @mesh = <["x"={0}]>
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{"x"}}]>] out_shardings=[<@mesh, [{{"x"}}]>] manual_axes={{"x"}} (%p: tensor<{1}xf32>) {{
        %1 = stablehlo.negate %p : tensor<{1}xf32>
        sdy.return %1 : tensor<{1}xf32>
      }} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}
    }}"""
    x = np.arange(4, dtype="f4")
    for devices in (1, 2):
        program = lowering.import_stablehlo(text.format(devices, 4 // devices))
        np.testing.assert_array_equal(program.run(x), -x)
        with pytest.raises(TenferroError, match="shape"):
            lowering.import_stablehlo(text.format(devices, 8 // devices))


def test_a_total_order_of_narrow_floats() -> None:
    for name in ("f8E4M3FN", "f6E2M3FN", "f4E2M1FN"):
        kind = f"tensor<4x{name}>"
        text = f"func.func @main() {{\n%x = stablehlo.constant dense<[0.0, -0.0, 2.0, -2.0]> : {kind}\n%y = stablehlo.negate %x : {kind}\n%0 = stablehlo.compare LT, %y, %x, TOTALORDER : ({kind}, {kind}) -> tensor<4xi1>\ncheck.expect_eq_const %0, dense<[true, false, true, false]> : tensor<4xi1>\nfunc.return\n}}"
        lowering.import_stablehlo(text)


@pytest.mark.parametrize(
    ("lhs", "rhs", "dimensions"),
    [
        ((3, 1), (2,), None),
        ((2, 3), (), None),
        ((2, 3), (2,), (0,)),
        ((1, 1), (3, 4), None),
        ((2,), (2, 3), (0,)),
        ((2,), (2,), None),
    ],
)
def test_operations_that_broadcast(
    lhs: tuple[int, ...], rhs: tuple[int, ...], dimensions: tuple[int, ...] | None
) -> None:
    """CHLO's broadcasting must equal NumPy's.

    `dimensions` maps the axes of the operand of lower rank to those of the other operand.
    """
    x, y = (np.random.default_rng(i).normal(size=s).astype("f4") for i, s in enumerate((lhs, rhs)))
    a, b = x, y
    if dimensions is not None:
        a = x[:, None] if x.ndim < y.ndim else x
        b = y[:, None] if y.ndim < x.ndim else y
    expected = np.subtract(a, b)
    types = ["tensor<" + "".join(f"{n}x" for n in s) for s in (lhs, rhs, expected.shape)]
    attribute = (
        "" if dimensions is None else f" {{broadcast_dimensions = array<i64: {dimensions[0]}>}}"
    )
    text = f"""
    func.func @main(%x: {types[0]}f32>, %y: {types[1]}f32>) -> ({types[2]}f32>, {types[2]}i1>) {{
      %0 = chlo.broadcast_subtract %x, %y{attribute} : ({types[0]}f32>, {types[1]}f32>) -> {types[2]}f32>
      %1 = "chlo.broadcast_compare"(%x, %y) <{{comparison_direction = #chlo<comparison_direction LT>}}>{attribute} : ({types[0]}f32>, {types[1]}f32>) -> {types[2]}i1>
      return %0, %1 : {types[2]}f32>, {types[2]}i1>
    }}"""
    difference, less = lowering.import_stablehlo(text).run(x, y)
    np.testing.assert_array_equal(difference, expected)
    np.testing.assert_array_equal(less, a < b)


def test_probes_and_checks_in_loops() -> None:
    """A probe in a loop must write a file in each iteration.

    The file has the number of the iteration, as in the reference interpreter.
    """
    text = """func.func @main(%x: tensor<i64>) -> tensor<i64> {
      %zero = stablehlo.constant dense<0> : tensor<i64>
      %one = stablehlo.constant dense<1> : tensor<i64>
      %two = stablehlo.constant dense<2> : tensor<i64>
      %four = stablehlo.constant dense<4> : tensor<i64>
      %r:3 = stablehlo.while(%i = %zero, %a = %one, %s = %x) : tensor<i64>, tensor<i64>, tensor<i64>
      cond {
        %c = stablehlo.compare LT, %i, %two : (tensor<i64>, tensor<i64>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %b = stablehlo.multiply %a, %two : tensor<i64>
        %p = interpreter.probe %b, probe_id = "p" : tensor<i64>
        %j = stablehlo.add %i, %one : tensor<i64>
        %t = stablehlo.add %s, %p : tensor<i64>
        stablehlo.return %j, %p, %t : tensor<i64>, tensor<i64>, tensor<i64>
      }
      check.expect_serialized_eq %two, probe_id = "p", iter = 0 : tensor<i64>
      check.expect_serialized_eq %four, probe_id = "p", iter = 1 : tensor<i64>
      return %r#2 : tensor<i64>
    }"""
    assert lowering.import_stablehlo(text).run(np.int64(5)) == 11
    with pytest.raises(InvalidConfigError, match="expect_serialized_eq does not hold"):
        lowering.import_stablehlo(text.replace("eq %four", "eq %two"))
    endless = text.replace("LT, %i, %two", "GE, %i, %zero")
    with pytest.raises(UnsupportedError, match="at most 400 iterations"):
        lowering.import_stablehlo(endless)
    with pytest.raises(UnsupportedError, match=r"is in a loop|depend on arguments"):
        lowering.import_stablehlo(text.replace("LT, %i, %two", "LT, %i, %x"))


def test_what_probes_have_seen() -> None:
    text = """
      func.func @main() {
        %a = stablehlo.constant dense<[2, 5]> : tensor<2xi32>
        %b = stablehlo.negate %a : tensor<2xi32>
        %0 = interpreter.probe %a, probe_id = "p" : tensor<2xi32>
        %1 = interpreter.probe %b, probe_id = "p" : tensor<2xi32>
        check.expect_serialized_eq %0, probe_id = "p" : tensor<2xi32>
        check.expect_serialized_eq %b, probe_id = "p", iter = 1 : tensor<2xi32>
        return
      }"""
    lowering.import_stablehlo(text)
    with pytest.raises(InvalidConfigError, match=r"does not hold: \[-2 -5\] and \[2 5\]"):
        lowering.import_stablehlo(text.replace("iter = 1", "iter = 0"))
    with pytest.raises(InvalidConfigError, match="there is no probe 'q'"):
        lowering.import_stablehlo(text.replace('eq %0, probe_id = "p"', 'eq %0, probe_id = "q"'))
    with pytest.raises(UnsupportedError, match="is in a loop"):
        lowering.import_stablehlo(text.replace("iter = 1", "iter = 2"))


WEAK = ([np.nan, -0.0, 1.0, np.inf, np.inf, 3.0], [-np.nan, 0.0, 2.0, np.inf, np.nan, -3.0])


@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
def test_the_weak_order_has_one_nan_above_all_numbers_and_one_zero(direction: str) -> None:
    places = [[2e308 if np.isnan(x) else min(x, 1e308) for x in side] for side in WEAK]
    compared = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal,
                "GT": np.greater, "GE": np.greater_equal}[direction]  # fmt: skip
    kind = "tensor<6xf64>"
    text = f"func.func @main(%x: {kind}, %y: {kind}) -> tensor<6xi1> {{\n%0 = stablehlo.compare {direction}, %x, %y, WEAKORDER : ({kind}, {kind}) -> tensor<6xi1>\nreturn %0 : tensor<6xi1>\n}}"
    found = lowering.import_stablehlo(text).run(*map(np.array, WEAK))
    np.testing.assert_array_equal(found, compared(*map(np.array, places)))


@pytest.mark.parametrize("dialect", ["stablehlo", "chlo"])
def test_squares_of_complex_numbers_beyond_the_range_of_their_parts(dialect: str) -> None:
    kind = "tensor<3xcomplex<f64>>"
    types = kind if dialect == "stablehlo" else f"{kind} -> {kind}"
    text = f"func.func @main(%x: {kind}) -> {kind} {{\n%0 = {dialect}.square %x : {types}\nreturn %0 : {kind}\n}}"
    x = np.array([3 + 4j, complex(1e200, 1e200), complex(1e200, 2e200)])
    wanted = [-7 + 24j, complex(0, np.inf), complex(-np.inf, np.inf)]
    np.testing.assert_array_equal(lowering.import_stablehlo(text).run(x), wanted)


def test_a_convolution_whose_padding_is_an_operand() -> None:
    kinds = "tensor<1x5x1xi32>, tensor<3x1x1xi32>"
    labels = "dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f]"
    counts = "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
    head = "func.func @main(%x: tensor<1x5x1xi32>, %w: tensor<3x1x1xi32>) -> tensor<1x3x1xi32> {\n%p = stablehlo.constant dense<[[1, 1]]> : tensor<1x2xi64>\n"
    tail = "-> tensor<1x3x1xi32>\nreturn %y : tensor<1x3x1xi32>\n}"
    dynamic = f"{head}%y = stablehlo.dynamic_conv(%x, %w, %p) {labels}, window = {{stride = [2]}} {counts} : ({kinds}, tensor<1x2xi64>) {tail}"
    static = f"{head}%y = stablehlo.convolution(%x, %w) {labels}, window = {{stride = [2], pad = [[1, 1]]}} {counts} : ({kinds}) {tail}"
    assert str(lowering.import_stablehlo(dynamic)) == str(lowering.import_stablehlo(static))


def test_checks_and_constants_as_iree_writes_them() -> None:
    text = """
      func.func @rows() {
        %a = util.unfoldable_constant dense<[[01, 02], [08, 09]]> : tensor<2x2xi32>
        %b = flow.tensor.dynamic_constant dense<[[1, 2], [8, 9]]> : tensor<2x2xi32> -> tensor<?x2xi32>
        %c = util.unfoldable_constant dense<[0.5, 2.0]> : tensor<2xf32>
        check.expect_eq(%a, %a) : tensor<2x2xi32>
        check.expect_eq(%a, %b) : tensor<2x2xi32>, tensor<?x2xi32>
        check.expect_eq_const(%a, dense<[[1, 2], [8, 9]]> : tensor<2x2xi32>) : tensor<2x2xi32>
        check.expect_almost_eq(%c, %c) : tensor<2xf32>
        check.expect_almost_eq_const(%c, dense<[0.5, 2.05]> : tensor<2xf32>, 1.0e-1) : tensor<2xf32>
        return
      }"""
    lowering.import_stablehlo(text, function="rows")
    for right, wrong in (
        (
            "dense<[[1, 2], [8, 9]]> : tensor<2x2xi32>)",
            "dense<[[1, 2], [8, 7]]> : tensor<2x2xi32>)",
        ),
        ("1.0e-1", "1.0e-3"),
    ):
        with pytest.raises(InvalidConfigError, match="does not hold"):
            lowering.import_stablehlo(text.replace(right, wrong), function="rows")


def test_infinities_and_nans_are_the_farthest_from_all_others() -> None:
    kind, farthest = "tensor<4xf64>", (1 << 64) - 1
    text = f"""
      func.func @main() {{
        %x = stablehlo.constant dense<[0x7FF0000000000000, 0x7FF0000000000000, 1.0, 0x7FF8000000000000]> : {kind}
        %y = stablehlo.constant dense<[0xFFF0000000000000, 0x7FF8000000000000, 0x7FF0000000000000, 2.0]> : {kind}
        check.expect_close %x, %y, max_ulp_difference = {farthest}, min_ulp_difference = {farthest} : {kind}, {kind}
        "check.expect_close"(%x, %x) {{max_ulp_difference = 0 : ui64}} : ({kind}, {kind}) -> ()
        return
      }}"""
    lowering.import_stablehlo(text)
    with pytest.raises(InvalidConfigError, match="does not hold"):
        lowering.import_stablehlo(
            text.replace(
                f"max_ulp_difference = {farthest}, min_ulp_difference = {farthest}",
                "max_ulp_difference = 9",
            )
        )


def test_constants_like_a_tensor_of_another_element_type() -> None:
    text = """
      func.func @main(%x: tensor<2x3xi64>) -> tensor<2x3xf32> {
        %0 = "chlo.constant_like"(%x) {value = 2.5 : f32} : (tensor<2x3xi64>) -> tensor<2x3xf32>
        return %0 : tensor<2x3xf32>
      }"""
    y = lowering.import_stablehlo(text).run(np.zeros((2, 3), "i8"))
    np.testing.assert_array_equal(y, np.full((2, 3), 2.5, "f4"))
    with pytest.raises(TenferroError):
        lowering.import_stablehlo(text.replace("xf32>", "xi32>"))
    number = "#complex.number<:f32 1.5, -2.0e-1> : complex<f32>"
    text = text.replace("2.5 : f32", number).replace("xf32>", "xcomplex<f32>>")
    y = lowering.import_stablehlo(text).run(np.zeros((2, 3), "i8"))
    np.testing.assert_array_equal(y, np.full((2, 3), 1.5 - 0.2j, "c8"))
