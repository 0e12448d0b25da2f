"""Reports on XLA, also through JAX and TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenferro as tnf
from xla_peer.hall.report import Report, f32, i8, i32, main

__all__ = ["XLA"]


def absolute_where_negative(base: Any) -> Any:
    """Square integers, and take the absolute value where the square wrapped around to a negative number."""
    product = base * base
    return tnf.where(product < 0, tnf.abs(product), product)


def rolled_row(x: Any) -> Any:
    """Roll the first row of a matrix by 5 elements, and leave the second row as it is."""
    row = x[0]
    return tnf.stack([tnf.concatenate([row[-5:], row[:-5]]), x[1]])


def masked_scores(mask: Any, scores: Any) -> Any:
    """Add a large negative number where `mask` is 0, and subtract the maximum."""
    shifted = scores + -1e30 * (1.0 - mask)
    return shifted - tnf.max(shifted)


def scaled_difference(x: Any, s: Any) -> Any:
    """Compute (x (1 + s))^2 - x^2, which is 0 for s = 0."""
    y = x * (1.0 + s)
    return y * y - x * x


CLAMP = """func.func public @main(%low: tensor<1xf32>, %x: tensor<1xf32>, %high: tensor<1xf32>) -> tensor<1xf32> {
  %0 = stablehlo.clamp %low, %x, %high : tensor<1xf32>
  return %0 : tensor<1xf32>
}
"""
SQUARED_ROWS = """func.func public @main(%x: tensor<16385x3xf64>) -> tensor<16385xf64> {
  %identity = stablehlo.constant dense<[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]> : tensor<3x3xf64>
  %0 = stablehlo.dot_general %identity, %x, contracting_dims = [1] x [1] : (tensor<3x3xf64>, tensor<16385x3xf64>) -> tensor<3x16385xf64>
  %1 = stablehlo.multiply %0, %0 : tensor<3x16385xf64>
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<3x16385xf64>, tensor<f64>) -> tensor<16385xf64>
  return %2 : tensor<16385xf64>
}
"""
INTEGERS = np.arange(16385.0)
ROWS = np.arange(200.0, dtype=np.float32).reshape(2, 100)
IMAGE = np.linspace(0, 1, 131 * 111 * 3, dtype=np.float32).reshape(131, 111, 3)
BLOCK = np.arange(96.0).reshape(8, 4, 3)
FOUR_AXES = main(
    "%x: tensor<1x1x6x6x2x2xf64>, %w: tensor<1x1x3x3x1x1xf64>",
    "tensor<1x1x4x4x2x2xf64>",
    """
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1, 2, 3]x[o, i, 0, 1, 2, 3]->[b, f, 0, 1, 2, 3], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x6x6x2x2xf64>, tensor<1x1x3x3x1x1xf64>) -> tensor<1x1x4x4x2x2xf64>
  return %0 : tensor<1x1x4x4x2x2xf64>
""",
)
FOLDED = main(
    "%x: tensor<3xf32>",
    "tensor<3xf32>",
    """
  %0 = stablehlo.constant dense<[1.0, -3.0, 0x7FC00000]> : tensor<3xf32>
  %1 = stablehlo.constant dense<[2.0, -2.0, 1.0]> : tensor<3xf32>
  %2 = stablehlo.minimum %0, %1 : tensor<3xf32>
  %3 = stablehlo.add %2, %x : tensor<3xf32>
  return %3 : tensor<3xf32>
""",
)
SHIFTED_ROWS = main(
    "%x: tensor<4x1x1xi32>",
    "tensor<1x4x1xi32>",
    """
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %ones = stablehlo.constant dense<1> : tensor<4x1x1xi32>
  %0 = stablehlo.add %x, %ones : tensor<4x1x1xi32>
  %1 = stablehlo.slice %0 [0:3, 0:1, 0:1] : (tensor<4x1x1xi32>) -> tensor<3x1x1xi32>
  %2 = stablehlo.dynamic_update_slice %0, %1, %one, %zero, %zero : (tensor<4x1x1xi32>, tensor<3x1x1xi32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x1x1xi32>
  %3 = stablehlo.reshape %2 : (tensor<4x1x1xi32>) -> tensor<1x4x1xi32>
  return %3 : tensor<1x4x1xi32>
""",
)
CROPPED_WINDOW = main(
    "%x: tensor<1x2xi32>",
    "tensor<1x1xi32>",
    """
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.pad %x, %zero, low = [0, -1], high = [0, 0], interior = [1, 0] : (tensor<1x2xi32>, tensor<i32>) -> tensor<1x1xi32>
  %1 = "stablehlo.reduce_window"(%0, %zero) <{window_dimensions = array<i64: 1, 2>, padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %2 = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %2 : tensor<i32>
  }) : (tensor<1x1xi32>, tensor<i32>) -> tensor<1x1xi32>
  return %1 : tensor<1x1xi32>
""",
)
CROPPING_WINDOW = main(
    "%x: tensor<8x4xf32>",
    "tensor<7x4xf32>",
    """
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 1, 1>, padding = dense<[[-1, 0], [0, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<8x4xf32>, tensor<f32>) -> tensor<7x4xf32>
  return %0 : tensor<7x4xf32>
""",
)
DILATED_WINDOW = main(
    "%x: tensor<64x128xf32>",
    "tensor<32x255xf32>",
    """
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %low) <{window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 2, 1>, base_dilations = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<64x128xf32>, tensor<f32>) -> tensor<32x255xf32>
  return %0 : tensor<32x255xf32>
""",
)
WITHOUT_INDICES = main(
    "%x: tensor<1xi32>, %at: tensor<3x0xi32>, %y: tensor<3x1xi32>",
    "tensor<1xi32>",
    """
  %0 = "stablehlo.scatter"(%x, %at, %y) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %1 = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %1 : tensor<i32>
  }) : (tensor<1xi32>, tensor<3x0xi32>, tensor<3x1xi32>) -> tensor<1xi32>
  return %0 : tensor<1xi32>
""",
)
TWO_SCATTERED = main(
    "%x: tensor<2xf32>, %y: tensor<2xf32>",
    "tensor<3xf32>",
    """
  %zero = stablehlo.constant dense<0.0> : tensor<3xf32>
  %at = stablehlo.constant dense<[[0], [1]]> : tensor<2x1xi32>
  %0:2 = "stablehlo.scatter"(%zero, %zero, %at, %x, %y) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
    stablehlo.return %c, %d : tensor<f32>, tensor<f32>
  }) : (tensor<3xf32>, tensor<3xf32>, tensor<2x1xi32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return %0#1 : tensor<3xf32>
""",
)
STEP_OF_TWO = main(
    "%x: tensor<i32>",
    "tensor<i32>",
    """
  %start = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.while(%i = %start) : tensor<i32>
    cond {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %one, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %two = stablehlo.constant dense<2> : tensor<i32>
      %1 = stablehlo.add %i, %two : tensor<i32>
      stablehlo.return %1 : tensor<i32>
    }
  %2 = stablehlo.add %0, %x : tensor<i32>
  return %2 : tensor<i32>
""",
)
ANGLE_OF_FALSE = main(
    "%x: tensor<5xi32>",
    "tensor<5xf32>",
    """
  %zero = stablehlo.constant dense<0> : tensor<5xi32>
  %0 = stablehlo.compare NE, %x, %zero, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
  %1 = stablehlo.compare NE, %x, %zero, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
  %2 = stablehlo.xor %0, %1 : tensor<5xi1>
  %3 = stablehlo.convert %2 : (tensor<5xi1>) -> tensor<5xf32>
  %4 = stablehlo.atan2 %3, %3 : tensor<5xf32>
  return %4 : tensor<5xf32>
""",
)
WRAPPED_IOTA = main(
    "%x: tensor<129xi8>",
    "tensor<129xi1>",
    """
  %0 = stablehlo.iota dim = 0 : tensor<129xi8>
  %1 = stablehlo.compare LT, %0, %x, SIGNED : (tensor<129xi8>, tensor<129xi8>) -> tensor<129xi1>
  return %1 : tensor<129xi1>
""",
)
ROW_OF_BITS = i8(1, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0)
GRID = np.arange(8192, dtype=np.float32).reshape(64, 128)
DIGITS = np.array([3, 1, 2, 0, 5, 4, 9, 8, 7, 6])
LARGEST = float(np.finfo(np.float32).max)


def dilated_maxima(x: Any) -> Any:
    """Return the maxima of pairs of rows, with a column of minus infinity between two columns."""
    maxima = np.maximum(x[::2], x[1::2])
    wide = np.full((maxima.shape[0], 2 * maxima.shape[1] - 1), -np.inf, x.dtype)
    wide[:, ::2] = maxima
    return wide


def sum_of_products(*shape: int) -> str:
    """Write a module that multiplies `y` by `x`, and sums the products over axis 2.

    `y` has the shape `shape`, and `x` the first three extents of it.
    """
    first, both, results = (
        f"tensor<{'x'.join(map(str, extents))}xf32>"
        for extents in (shape[:3], shape, shape[:2] + shape[3:])
    )
    return f"""func.func public @main(%x: {first}, %y: {both}) -> {results} {{
  %0 = stablehlo.broadcast_in_dim %x, dims = [0, 1, 2] : ({first}) -> {both}
  %1 = stablehlo.multiply %0, %y : {both}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [2] : ({both}, tensor<f32>) -> {results}
  return %2 : {results}
}}
"""


def ones(*shape: int) -> Any:
    """Create a float32 array of ones."""
    return np.ones(shape, np.float32)


XLA = (
    Report("tensorflow/tensorflow 118178", "abs of an int8 square is removed although the square may wrap around",
           absolute_where_negative, (i8(12, 7, 20, 15, 11),), i8(112, 49, 112, 31, 121)),
    Report("tensorflow/tensorflow 117142", "abs of an int8 square is removed, with other numbers",
           absolute_where_negative, (i8(5, 13, 22, 26, 0, 8),), i8(25, 87, 28, 92, 0, 64)),
    Report("tensorflow/tensorflow 123169", "exp(x) exp(y) is computed as exp(x + y), although exp(x) overflows",
           lambda x, y: tnf.exp(x) * tnf.exp(y), (f32(100), f32(-200)), f32(np.nan)),
    Report("jax-ml/jax 38099", "log(exp(x)) is computed as x, although exp(x) overflows",
           lambda x: tnf.log(tnf.exp(x)), (f32(89),), f32(np.inf)),
    Report("jax-ml/jax 38100", "log2(exp2(x)) is computed as x, although exp2(x) overflows",
           lambda x: tnf.log(tnf.exp(x * 0.6931471805599453)) / 0.6931471805599453,
           (f32(129),), f32(np.inf)),
    Report("jax-ml/jax 37919", "sqrt(abs(x x)) is computed as abs(x), although x x overflows",
           lambda x: tnf.sqrt(tnf.abs(x * x)), (f32(LARGEST),), f32(np.inf)),
    Report("openxla/xla 42732", "sqrt(x x) is computed as abs(x), although x x underflows to 0",
           lambda x: tnf.sqrt(x * x), (f32(1e-30),), f32(0)),
    Report("tensorflow/tensorflow 57744", "log(x^y) is computed as y log(x), although x^y overflows",
           lambda x, y: tnf.log(tnf.power(x, y)), (f32(10), f32(40)), f32(np.inf)),
    Report("openxla/xla 41579", "a x + b x is computed with one unrounded product",
           lambda a, b, x: a * x + b * x, (f32(1e20), f32(-1e20), f32(1e10)), f32(0), rounding=True),
    Report("jax-ml/jax 26147", "x x - x x is computed with one unrounded product",
           scaled_difference, (f32(0.1), f32(0)), f32(0), rounding=True),
    Report("jax-ml/jax 6566", "a sum with a masking term of -0 is reassociated, and scores are lost",
           masked_scores, (np.float32(1), f32(0.75, 0.5)), f32(0, -0.25)),
    Report("jax-ml/jax 8022", "x - (x + y) + y is reassociated to 0",
           lambda x, y: x - (x + y) + y, (f32(1e30), f32(1)), f32(1)),
    Report("jax-ml/jax 10129", "a row is rolled in place and read after it was overwritten",
           rolled_row, (ROWS,), np.stack([np.roll(ROWS[0], 5), ROWS[1]])),
    Report("jax-ml/jax 7229", "adding a number to an image of odd extents is wrong",
           lambda image, delta: image + delta, (IMAGE, np.float32(0.25)), IMAGE + np.float32(0.25)),
    Report("tensorflow/tensorflow 102043", "a quotient of an int32 sum ignores that the sum wraps around",
           lambda x: tnf.sum(x, dtype="int32") // 4,
           (np.array([2**30, 2**30, 2**30, 1], np.int32),), np.int32(-268435456)),
    Report("r-xla/anvl 545", "clamp with a NaN as the lower bound",
           CLAMP, (f32(np.nan), f32(0), f32(1)), f32(np.nan)),
    Report("jax-ml/jax 39103", "sums of three squares are wrong in the last of many rows",
           SQUARED_ROWS, (np.stack([INTEGERS, 0 * INTEGERS, 0 * INTEGERS], 1),), INTEGERS**2),
    Report("jax-ml/jax 39257", "a sum of products of eight axes ends the process",
           sum_of_products(3, 2, 2, 5, 5, 5, 5, 5), (ones(3, 2, 2), ones(3, 2, 2, 5, 5, 5, 5, 5)),
           2 * ones(3, 2, 5, 5, 5, 5, 5)),
    Report("jax-ml/jax 39257", "a sum of products of eight axes is wrong, with other extents",
           sum_of_products(1, 1, 6, 9, 9, 9, 9, 9), (ones(1, 1, 6), ones(1, 1, 6, 9, 9, 9, 9, 9)),
           6 * ones(1, 1, 9, 9, 9, 9, 9)),
    Report("openxla/xla 48186", "exp(x) / exp(y) is computed as exp(x - y), although both overflow",
           lambda x, y: tnf.exp(x) / tnf.exp(y), (f32(100), f32(99)), f32(np.nan)),
    Report("openxla/xla 48186", "x / exp(y) is computed as x exp(-y), although exp(y) overflows",
           lambda x, y: x / tnf.exp(y), (f32(1e38), f32(100)), f32(0)),
    Report("openxla/xla 48186", "exp(x)^y is computed as exp(x y), although exp(x) overflows",
           lambda x, y: tnf.power(tnf.exp(x), y), (f32(100), f32(0.5)), f32(np.inf)),
    Report("openxla/xla 49174", "the maximum of a negative number and its square root is not NaN",
           lambda x: tnf.maximum(x, tnf.sqrt(x)), (f32(1.5, -0.0625, 4),), f32(1.5, np.nan, 4)),
    Report("openxla/xla 44942", "sums along a rotated array end the process",
           lambda x: tnf.cumsum(tnf.rot90(x)), (BLOCK,), np.cumsum(np.rot90(BLOCK))),
    Report("openxla/xla 32635", "a convolution with four spatial axes ends the compiler",
           FOUR_AXES, (np.ones((1, 1, 6, 6, 2, 2)), np.ones((1, 1, 3, 3, 1, 1))),
           np.full((1, 1, 4, 4, 2, 2), 9.0)),
    Report("tensorflow/tensorflow 125978", "the mean of two large int32 is negative, because their sum wraps around",
           lambda x: tnf.sum(x, axis=1, dtype="int32") // np.int32(2),
           (np.array([[2**31 - 1, 2**31 - 1]], np.int32),), np.array([-1], np.int32)),
    Report("jax-ml/jax 29537", "exp(NaN x) is a subnormal number",
           lambda x: tnf.exp(x * np.nan), (np.array([0.123]),), np.array([np.nan])),
    Report("jax-ml/jax 39336", "a factor is applied to a product but not to the added term",
           lambda a, x, b, y: a * (y @ tnf.transpose(x) + b),
           (np.float32(2), ROWS[:, :5], f32(100, 200), ROWS[:, 5:10]),
           2 * (ROWS[:, 5:10] @ ROWS[:, :5].T + f32(100, 200))),
    Report("jax-ml/jax 13271", "an array of 2^n elements is rolled in the wrong direction",
           lambda x: tnf.roll(x, -1), (np.arange(8),), np.roll(np.arange(8), -1)),
    Report("openxla/xla 49176", "an update that is a slice of its operand is read after it was overwritten",
           SHIFTED_ROWS, (np.arange(4, dtype=np.int32).reshape(4, 1, 1),),
           np.array([[[1], [1], [2], [3]]], np.int32)),
    Report("jax-ml/jax 7461", "an update of all rows but the first is read after it was overwritten",
           lambda x: tnf.at(x)[1:].set(1 + x[:-1]), (np.zeros(8, np.float32),), f32(0, 1, 1, 1, 1, 1, 1, 1)),
    Report("openxla/xla 48715", "a window sum with padding contains a cropped element",
           CROPPED_WINDOW, (np.array([[669, -763]], np.int32),), np.array([[-763]], np.int32)),
    Report("openxla/xla 48719", "windows of one element with negative padding end the compiler",
           CROPPING_WINDOW, (GRID[:8, :4],), GRID[1:8, :4]),
    Report("openxla/xla 48714", "the dilation of the operand is dropped in a large window maximum",
           DILATED_WINDOW, (GRID,), dilated_maxima(GRID)),
    Report("openxla/xla 48716", "a scatter without indices adds only the last update",
           WITHOUT_INDICES, (np.array([10], np.int32), np.zeros((3, 0), np.int32),
                             np.array([[1], [2], [4]], np.int32)), np.array([17], np.int32)),
    Report("openxla/xla 29362", "the second result of a scatter is that of the first",
           TWO_SCATTERED, (f32(1, 2), f32(3, 4)), f32(3, 4, 0)),
    Report("openxla/xla 44705", "the angle of false xor false is NaN",
           ANGLE_OF_FALSE, (np.arange(5, dtype=np.int32),), f32(0, 0, 0, 0, 0)),
    Report("tensorflow/tensorflow 123067", "a loop that steps beyond its bound is removed",
           STEP_OF_TWO, (np.int32(0),), np.int32(2)),
    Report("jax-ml/jax 34096", "the inverse of a permutation ends the compiler",
           lambda x: x[tnf.argsort(x)][tnf.argsort(tnf.argsort(x))], (DIGITS,), DIGITS),
    Report("jax-ml/jax 40412", "sums along the fourth of seven axes end the process",
           lambda x, y: tnf.sum(x * y, axis=3), (ones(3, 1, 2, 2, 8, 8, 8), ones(3, 1, 2, 2, 8, 8, 8)),
           2 * ones(3, 1, 2, 8, 8, 8)),
    Report("openxla/xla 46628", "the absolute value of the least int8 counts as not negative, although it is",
           lambda x: tnf.abs(x) < 0, (i8(-128, -1, 5),), np.array([True, False, False])),
    Report("openxla/xla 46628", "an iota of int8 counts as not negative, although it wraps around",
           WRAPPED_IOTA, (np.zeros(129, np.int8),), np.arange(129) == 128),
    Report("openxla/xla 9431", "two equal rows of int8 are not equal, on GPUs",
           lambda x: tnf.all(x == np.stack([ROW_OF_BITS, ROW_OF_BITS]), axis=-1), (ROW_OF_BITS,),
           np.array([True, True])),
    Report("openxla/stablehlo 2633", "a bitwise and with 1 is replaced by its other operand",
           lambda x: tnf.bitwise_and(x, np.int32(1)), (i32(6, 7),), i32(0, 1),
           compiler="StableHLO's passes"),
    Report("openxla/stablehlo 2887", "the minimum of constants is folded to the maximum",
           FOLDED, (f32(0, 0, 0),), f32(1, -3, np.nan), compiler="StableHLO's passes"),
)  # fmt: skip
