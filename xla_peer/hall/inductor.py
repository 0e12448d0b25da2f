"""Reports on PyTorch's compiler, Inductor, on CPUs."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenferro as tnf
from xla_peer.hall.report import Report, f32, i8, i32, main

__all__ = ["INDUCTOR"]

TINY = 2.0**-124
SIGNAL = np.sin(np.arange(35.0, dtype=np.float32).reshape(5, 7) * 3).astype(np.float32)
SERIES = np.arange(130.0, dtype=np.float32).reshape(65, 2)
SQUARE = np.arange(25.0, dtype=np.float32).reshape(5, 5)

WRAPPED_SUM = main(
    "%x: tensor<3xui8>",
    "tensor<3xi16>",
    """
  %0 = stablehlo.add %x, %x : tensor<3xui8>
  %1 = stablehlo.convert %0 : (tensor<3xui8>) -> tensor<3xi16>
  return %1 : tensor<3xi16>
""",
)
DISTRIBUTED = main(
    "%c: tensor<2xi8>, %x: tensor<2xi8>, %y: tensor<2xi8>",
    "tensor<2xi32>",
    """
  %0 = stablehlo.multiply %c, %x : tensor<2xi8>
  %1 = stablehlo.multiply %0, %y : tensor<2xi8>
  %2 = stablehlo.add %0, %1 : tensor<2xi8>
  %3 = stablehlo.convert %2 : (tensor<2xi8>) -> tensor<2xi32>
  return %3 : tensor<2xi32>
""",
)
ASSOCIATED = main(
    "%x: tensor<3xi8>, %y: tensor<3xi8>, %z: tensor<3xi8>",
    "tensor<3xi32>",
    """
  %0 = stablehlo.multiply %y, %z : tensor<3xi8>
  %1 = stablehlo.multiply %x, %0 : tensor<3xi8>
  %2 = stablehlo.convert %1 : (tensor<3xi8>) -> tensor<3xi32>
  return %2 : tensor<3xi32>
""",
)
SHIFTED = main(
    "%x: tensor<4xi32>, %y: tensor<4xi32>",
    "tensor<4xi32>",
    """
  %0 = stablehlo.shift_left %x, %y : tensor<4xi32>
  return %0 : tensor<4xi32>
""",
)


def doubled(y: Any, at: Any) -> Any:
    """Double the rows of `y` at the indices `at`; a row whose index occurs several times is doubled only once."""
    chosen = tnf.any(at[:, None] == tnf.arange(2), axis=0)
    return tnf.where(chosen[:, None], y + y, y)


def halved_sum(source: Any) -> Any:
    """Add twice `source` to an array of zeros, and halve the sum."""
    return tnf.at(0 * source)[np.array([0])].add(2 * source) / 2


def two_outputs(x: Any) -> Any:
    """Sum every 43rd row, and take the maximum of a row and the negated sums."""
    rows = x[::43]
    return tnf.concatenate([tnf.sum(rows, axis=0), tnf.maximum(x[:1], -rows)[1]])


def normalised(x: Any, scale: Any) -> Any:
    """Divide exponentials by their sum, for each item of the batch."""
    e = tnf.exp(-x * scale[:, None, None])
    return e / tnf.sum(e, axis=(1, 2), keepdims=True)


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    """Compute a rotary embedding, which exchanges two halves and negates one."""
    return x * cos + tnf.concatenate([-x[:, 2:], x[:, :2]], axis=1) * sin


EMBEDDED = np.arange(1.0, 13, dtype=np.float32).reshape(3, 4)

INDUCTOR = tuple(report._replace(compiler="PyTorch's Inductor") for report in (
    Report("pytorch/pytorch 105264", "a uint8 sum is computed in int16 and does not wrap around",
           WRAPPED_SUM, (np.array([128, 1, 200], np.uint8),), np.array([0, 2, 144], np.int16)),
    Report("pytorch/pytorch 109105", "c x + c x y of int8 does not wrap around",
           DISTRIBUTED, (i8(6, 3), i8(5, 2), i8(4, 1)), i32(-106, 12)),
    Report("pytorch/pytorch 113143", "x (y z) of int8 does not wrap around",
           ASSOCIATED, (i8(12, 3, -11), i8(4, 2, 4), i8(4, 1, 4)), i32(-64, 6, 80)),
    Report("pytorch/pytorch 143566", "a shift by the bit width or more does not give 0",
           SHIFTED, (i32(1, 2, 3, -1), i32(32, 33, 1, 40)), i32(0, 0, 6, 0)),
    Report("pytorch/pytorch 183901", "products of int64 wrap around at 32 bits",
           lambda factor: tnf.arange(9) * factor, (np.array([1500000000]),),
           np.arange(9) * 1500000000),
    Report("pytorch/pytorch 108963", "a scaled sum that is added to zeros is lost",
           halved_sum, (f32(0.625),), f32(0.625)),
    Report("pytorch/pytorch 94778", "an indexed addition adds a row to all rows",
           lambda x, y: x.at[np.arange(5)].add(y), (SQUARE, f32(1, 2, 3, 4, 5)),
           SQUARE + f32(1, 2, 3, 4, 5)),
    Report("pytorch/pytorch 138908", "rows with a repeated index are doubled twice",
           doubled, (f32(1, 2, 3, 4).reshape(2, 2), i32(0, 0)), f32(2, 4, 3, 4).reshape(2, 2)),
    Report("pytorch/pytorch 126848", "a subnormal product is flushed to 0",
           lambda x: x * np.float32(TINY), (f32(0.1875),), f32(0.1875 * TINY), rounding=True),
    Report("pytorch/pytorch 113015", "a maximum depends on the order of the outputs",
           two_outputs, (SERIES,), f32(86, 88, 0, 1)),
    Report("pytorch/pytorch 159154", "a local buffer of the wrong size is overwritten",
           normalised, (np.zeros((5, 32, 32), np.float32), np.ones(5, np.float32)),
           np.full((5, 32, 32), 2.0**-10, np.float32)),
    Report("pytorch/pytorch 93784", "a maximum propagates NaN from one operand only",
           tnf.maximum, (f32(np.nan, 1, 2), f32(0, np.nan, 3)), f32(np.nan, np.nan, 3)),
    Report("pytorch/pytorch 15338", "clamp of NaN returns a bound",
           main("%x: tensor<3xf32>", "tensor<3xf32>", """
  %low = stablehlo.constant dense<0.0> : tensor<3xf32>
  %high = stablehlo.constant dense<1.0> : tensor<3xf32>
  %0 = stablehlo.clamp %low, %x, %high : tensor<3xf32>
  return %0 : tensor<3xf32>
"""), (f32(np.nan, 2, 0.5),), f32(np.nan, 1, 0.5)),
    Report("pytorch/pytorch 118266", "argmax does not return the index of NaN",
           tnf.argmax, (f32(1, np.nan, 4.5),), np.int64(1)),
    Report("pytorch/pytorch 183082", "argmax ignores a transposition",
           lambda x: tnf.argmax(tnf.transpose(x + 1)), (SIGNAL,), np.argmax(SIGNAL.T)),
    Report("pytorch/pytorch 100466", "x (x >= 0) is NaN",
           lambda x: x * (x >= 0), (np.linspace(-2, 2, 17, dtype=np.float32),),
           np.maximum(np.linspace(-2, 2, 17, dtype=np.float32), 0)),
    Report("pytorch/pytorch 159239", "the halves of a rotary embedding are wrong",
           rotated, (EMBEDDED, np.float32(2), np.float32(3)),
           2 * EMBEDDED + 3 * np.concatenate([-EMBEDDED[:, 2:], EMBEDDED[:, :2]], 1)),
))  # fmt: skip
"""Reports on PyTorch's Inductor."""
