"""Reports on TVM."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenferro as tnf
from xla_peer.hall.report import Report, f32, i32, main

__all__ = ["TVM"]

LARGE = 2**53 + 1
FEATURES = f32(1, -2, 3, -4, 5, -6).reshape(1, 3, 2)

DIVISION = main(
    "%x: tensor<4xi32>, %y: tensor<4xi32>",
    "(tensor<8xi32>)",
    """
  %0 = stablehlo.divide %x, %y : tensor<4xi32>
  %1 = stablehlo.remainder %x, %y : tensor<4xi32>
  %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<4xi32>, tensor<4xi32>) -> tensor<8xi32>
  return %2 : tensor<8xi32>
""",
)
LARGE_DIVISION = main(
    "%x: tensor<2xi64>",
    "tensor<2xi64>",
    f"""
  %0 = stablehlo.constant dense<[{LARGE}, {LARGE}]> : tensor<2xi64>
  %1 = stablehlo.constant dense<[1, 3]> : tensor<2xi64>
  %2 = stablehlo.divide %0, %1 : tensor<2xi64>
  %3 = stablehlo.add %2, %x : tensor<2xi64>
  return %3 : tensor<2xi64>
""",
)
REMAINDER_OF_CONSTANTS = main(
    "%x: tensor<i32>",
    "tensor<i32>",
    """
  %0 = stablehlo.constant dense<7> : tensor<i32>
  %1 = stablehlo.constant dense<3> : tensor<i32>
  %2 = stablehlo.remainder %0, %1 : tensor<i32>
  %3 = stablehlo.add %2, %x : tensor<i32>
  return %3 : tensor<i32>
""",
)
SIMPLIFIED = main(
    "%x: tensor<3xi32>",
    "tensor<3xi32>",
    """
  %0 = stablehlo.constant dense<48> : tensor<3xi32>
  %1 = stablehlo.constant dense<241> : tensor<3xi32>
  %2 = stablehlo.constant dense<16> : tensor<3xi32>
  %3 = stablehlo.multiply %0, %x : tensor<3xi32>
  %4 = stablehlo.add %1, %3 : tensor<3xi32>
  %5 = stablehlo.divide %4, %2 : tensor<3xi32>
  return %5 : tensor<3xi32>
""",
)
TWO_CONDITIONALS = main(
    "%b: tensor<i1>",
    "tensor<2xi32>",
    """
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %0 = "stablehlo.if"(%b) ({
    stablehlo.return %zero : tensor<1xi32>
  }, {
    stablehlo.return %one : tensor<1xi32>
  }) : (tensor<i1>) -> tensor<1xi32>
  %1 = "stablehlo.if"(%b) ({
    stablehlo.return %one : tensor<1xi32>
  }, {
    stablehlo.return %zero : tensor<1xi32>
  }) : (tensor<i1>) -> tensor<1xi32>
  %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  return %2 : tensor<2xi32>
""",
)


def scaled_after(x: Any, w: Any, scale: Any) -> Any:
    """Multiply matrices, replace negative elements by 0, and scale the result.

    A compiler must not scale before the replacement, because a factor may be negative.
    """
    return tnf.maximum(x @ w, np.float32(0)) * scale


TVM = tuple(report._replace(compiler="TVM") for report in (
    Report("apache/tvm 20281", "int64 constants are divided as float64",
           LARGE_DIVISION, (np.zeros(2, np.int64),), np.array([LARGE, LARGE // 3])),
    Report("apache/tvm 18684", "a quotient rounded up is one too large",
           lambda n: (n + np.int32(9)) // np.int32(10), (i32(24, 20, 21),), i32(3, 2, 3)),
    Report("dmlc/HalideIR 53", "negative integers are divided with Halide's rounding",
           DIVISION, (i32(-7, 7, -7, 7), i32(2, -2, -2, 2)), i32(-3, -3, 3, 3, -1, 1, -1, 1)),
    Report("apache/tvm 2486", "a remainder of constants is folded to their product",
           REMAINDER_OF_CONSTANTS, (np.int32(0),), np.int32(1)),
    Report("apache/tvm 2308", "(241 + 48 x) / 16 is simplified to 15 + 3 x",
           SIMPLIFIED, (i32(-10, -1, 2),), i32(-14, 12, 21)),
    Report("apache/tvm 4997", "two conditionals on one predicate share a register",
           TWO_CONDITIONALS, (np.bool_(False),), i32(1, 0)),
    Report("apache/tvm 18598", "slopes of a parametric rectifier are applied along the wrong axis",
           lambda x, slope: tnf.where(x < 0, slope[:, None] * x, x), (FEATURES, f32(2, 3, 4)),
           f32(1, -4, 3, -12, 5, -24).reshape(1, 3, 2)),
    Report("tile-ai/tilelang 2638", "x 0 is folded to 0, although x may be infinite or NaN",
           lambda x: x * np.float32(0), (f32(np.inf, 2, np.nan),), f32(np.nan, 0, np.nan)),
    Report("apache/tvm 16211", "a factor is moved before a rectifier although it may be negative",
           scaled_after, (f32(1, 2, -3, 1).reshape(2, 2), f32(1, -1, 2, 1).reshape(2, 2), f32(-1, 2)),
           f32(-5, 2, 0, 8).reshape(2, 2)),
))  # fmt: skip
"""Reports on TVM."""
