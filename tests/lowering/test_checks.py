"""Checks, probes and other operations of StableHLO's own tests, read without MLIR."""

from __future__ import annotations

import numpy as np
import pytest

import lowering
from lowering.syntax import read_module
from tenferro.errors import InvalidConfigError, UnsupportedError

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
         "and at 1 other"),
    ],
)  # fmt: skip
def test_checks_that_do_not_hold(check: str, message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        read(check)


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
    """As in NumPy, or with the axes of the operand of lower rank, by definition in NumPy."""
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
