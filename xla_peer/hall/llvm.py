"""Reports on LLVM's optimizer, as programs for compilers that use LLVM."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenferro as tnf
from xla_peer.hall.report import Report, f32, i8, i32, main

__all__ = ["LLVM"]

POWER_REMAINDER = main(
    "%a: tensor<3xi8>, %b: tensor<3xi8>",
    "tensor<3xi8>",
    """
  %one = stablehlo.constant dense<1> : tensor<3xi8>
  %zero = stablehlo.constant dense<0> : tensor<3xi8>
  %0 = stablehlo.compare LT, %b, %zero, SIGNED : (tensor<3xi8>, tensor<3xi8>) -> tensor<3xi1>
  %1 = stablehlo.shift_left %one, %a : tensor<3xi8>
  %2 = stablehlo.remainder %one, %1 : tensor<3xi8>
  %3 = stablehlo.add %2, %1 : tensor<3xi8>
  %4 = stablehlo.select %0, %3, %2 : tensor<3xi1>, tensor<3xi8>
  return %4 : tensor<3xi8>
""",
)
NEXT_IS_LARGER = main(
    "%x: tensor<3xi8>",
    "tensor<3xi1>",
    """
  %one = stablehlo.constant dense<1> : tensor<3xi8>
  %0 = stablehlo.add %x, %one : tensor<3xi8>
  %1 = stablehlo.compare GT, %0, %x, SIGNED : (tensor<3xi8>, tensor<3xi8>) -> tensor<3xi1>
  return %1 : tensor<3xi1>
""",
)
NEXT_POWER = main(
    "%x: tensor<4xui32>",
    "tensor<4xui32>",
    """
  %one = stablehlo.constant dense<1> : tensor<4xui32>
  %bits = stablehlo.constant dense<32> : tensor<4xui32>
  %last = stablehlo.constant dense<4294967294> : tensor<4xui32>
  %0 = stablehlo.subtract %last, %x : tensor<4xui32>
  %1 = stablehlo.count_leading_zeros %0 : tensor<4xui32>
  %2 = stablehlo.subtract %bits, %1 : tensor<4xui32>
  %3 = stablehlo.shift_left %one, %2 : tensor<4xui32>
  %4 = stablehlo.compare LT, %x, %last, UNSIGNED : (tensor<4xui32>, tensor<4xui32>) -> tensor<4xi1>
  %5 = stablehlo.select %4, %3, %one : tensor<4xi1>, tensor<4xui32>
  return %5 : tensor<4xui32>
""",
)
BIT_OR_BIT = main(
    "%x: tensor<4xi32>, %n: tensor<4xi32>",
    "tensor<4xi32>",
    """
  %one = stablehlo.constant dense<1> : tensor<4xi32>
  %zero = stablehlo.constant dense<0> : tensor<4xi32>
  %0 = stablehlo.and %x, %one : tensor<4xi32>
  %1 = stablehlo.compare EQ, %0, %zero, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
  %2 = stablehlo.shift_right_logical %x, %n : tensor<4xi32>
  %3 = stablehlo.and %2, %one : tensor<4xi32>
  %4 = stablehlo.select %1, %3, %one : tensor<4xi1>, tensor<4xi32>
  return %4 : tensor<4xi32>
""",
)


LESS_ONE = main(
    "%x: tensor<8xui8>",
    "tensor<ui16>",
    """
  %one = stablehlo.constant dense<1> : tensor<8xui8>
  %zero = stablehlo.constant dense<0> : tensor<ui16>
  %0 = stablehlo.subtract %x, %one : tensor<8xui8>
  %1 = stablehlo.convert %0 : (tensor<8xui8>) -> tensor<8xui16>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.or across dimensions = [0] : (tensor<8xui16>, tensor<ui16>) -> tensor<ui16>
  return %2 : tensor<ui16>
""",
)


def one_difference_three_products(x: Any) -> Any:
    """Return x0 - 0, 5 x1, 2 x2 and 3 x3."""
    return tnf.stack(
        [x[0] - np.int16(0), x[1] * np.int16(5), x[2] * np.int16(2), x[3] * np.int16(3)]
    )


def product_and_shift(x: Any) -> Any:
    """Return 3 x0, and x1 shifted by 7 bits."""
    return tnf.stack([x[0] * np.int8(3), tnf.left_shift(x[1], np.int8(7))])


def distance(x: Any, y: Any) -> Any:
    """Return -(x - y) if x > -1, and -(y - x) otherwise."""
    return -tnf.where(x > -1, x - y, y - x)


def is_positive_infinity(x: Any, y: Any) -> Any:
    """Return whether copysign(x, y) is positive infinity; false for NaN."""
    return tnf.logical_and(x == x, tnf.logical_not(tnf.copysign(x, y) < np.inf))


def shifted_products(factor: Any) -> Any:
    """Sum the products of 0 to 20 and `factor`, shifted right by 29 bits and narrowed to int16."""
    shifted = tnf.right_shift(tnf.arange(21) * tnf.astype(factor, "int64"), 29)
    return tnf.sum(tnf.astype(tnf.astype(shifted, "int16"), "int64"))


LLVM = tuple(report._replace(compiler="LLVM") for report in (
    Report("llvm/llvm-project 89516", "a conditional addition of the modulus to a remainder is wrong",
           POWER_REMAINDER, (i8(0, 3, 1), i8(-1, 1, -5)), i8(1, 1, 3)),
    Report("llvm/llvm-project 30980", "x + 1 > x is folded to true although x + 1 may wrap around",
           NEXT_IS_LARGER, (i8(127, 5, -128),), np.array([False, True, True])),
    Report("llvm/llvm-project 91691", "a select that guards against an oversized shift is removed",
           NEXT_POWER, (np.array([2**32 - 1, 2**32 - 4, 0, 2**32 - 2], np.uint32),),
           np.array([1, 4, 0, 1], np.uint32)),
    Report("llvm/llvm-project 47012", "two bit tests are merged with an oversized shift",
           BIT_OR_BIT, (i32(1, 2, 4, 6), i32(40, 1, 1, 2)), i32(1, 1, 0, 1)),
    Report("llvm/llvm-project 115454", "a negated difference is computed as the reversed one, which overflows",
           distance, (i32(13, -5, 0), i32(0, 2, 7)), i32(-13, -7, 7)),
    Report("llvm/llvm-project 136650", "two comparisons of copysign(x, y) are merged into a wrong one",
           is_positive_infinity, (f32(np.nan, np.inf, np.inf, 1), f32(1, 1, -1, 1)),
           np.array([False, True, False, False])),
    Report("llvm/llvm-project 75995", "uint8 differences do not wrap around before they are widened",
           LESS_ONE, (np.arange(0, 256, 32, dtype=np.uint8),), np.uint16(255)),
    Report("llvm/llvm-project 180456", "a difference among products is a product with 0",
           one_difference_three_products, (np.array([7, 1, 2, 3], np.int16),), np.array([7, 5, 4, 9], np.int16)),
    Report("llvm/llvm-project 218844", "a sum of shifted products ignores that they are negative",
           shifted_products, (np.int8(-102),), np.int64(-20)),
    Report("llvm/llvm-project 210093", "a shift becomes a product with a negative number",
           product_and_shift, (i8(5, 1),), i8(15, -128)),
))  # fmt: skip
"""Reports on LLVM."""
