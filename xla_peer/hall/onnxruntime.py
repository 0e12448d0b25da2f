"""Reports on ONNX Runtime's graph optimizations and CPU kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenferro as tnf
from xla_peer.hall.report import Report, f32, i32, main

__all__ = ["ONNXRUNTIME"]

LEFT = np.array([[238, 115, 94], [245, 111, 102], [158, 225, 48]], np.uint8)
RIGHT = np.array([[25, 36, 125], [42, -123, 76], [-81, -86, 35]], np.int8)
SQUARE = np.arange(9.0, dtype=np.float32).reshape(3, 3)
WIDE = np.arange(12.0, dtype=np.float32).reshape(3, 4)
WEIGHTS = np.arange(20.0, dtype=np.float32).reshape(4, 5)
LEAST = np.iinfo(np.int32).min

REMAINDER = main(
    "%x: tensor<3xi32>, %y: tensor<3xi32>",
    "tensor<3xi32>",
    """
  %0 = stablehlo.remainder %x, %y : tensor<3xi32>
  return %0 : tensor<3xi32>
""",
)


def shifted_product(x: Any, y: Any) -> Any:
    """Multiply integers after subtracting their zero points."""
    return (x.astype("int32") - 42) @ (y.astype("int32") + 26)


def clipped(x: Any) -> Any:
    """Clip numbers to bounds, then replace NaN, which clipping does not change, by 0."""
    y = tnf.clip(x, -10, 10)
    return tnf.where(tnf.isnan(y), 0 * tnf.ones_like(y), y)


def exclusive_sums(x: Any) -> Any:
    """Compute exclusive cumulative sums of the rows."""
    return tnf.cumsum(x, axis=0) - x


ONNXRUNTIME = tuple(report._replace(compiler="ONNX Runtime") for report in (
    Report("microsoft/onnxruntime 7524", "an integer product with zero points saturates",
           shifted_product, (LEFT, RIGHT),
           (LEFT.astype(np.int32) - 42) @ (RIGHT.astype(np.int32) + 26)),
    Report("microsoft/onnxruntime 32228", "an identity permutation is fused as a transposition",
           lambda x, y, b: tnf.transpose(x, (0, 1)) @ y + b, (SQUARE, SQUARE + 1, f32(1, 2, 3)),
           SQUARE @ (SQUARE + 1) + f32(1, 2, 3)),
    Report("microsoft/onnxruntime 32418", "an identity permutation of non-square weights is rejected",
           lambda x, w, b: x @ tnf.transpose(w, (0, 1)) + b, (WIDE, WEIGHTS, f32(1, 2, 3, 4, 5)),
           WIDE @ WEIGHTS + f32(1, 2, 3, 4, 5)),
    Report("microsoft/onnxruntime 19984", "minimum and maximum lose NaN",
           lambda x, y: tnf.minimum(x, y) + tnf.maximum(x, y), (f32(np.nan, 1, 2), f32(0, np.nan, 3)),
           f32(np.nan, np.nan, 5)),
    Report("microsoft/onnxruntime 13165", "an exclusive sum along an axis of extent 1 is rejected",
           exclusive_sums, (f32(1, 2).reshape(1, 2),), f32(0, 0).reshape(1, 2)),
    Report("microsoft/onnxruntime 32369", "dividing the smallest integer by -1 ends the process",
           REMAINDER, (i32(LEAST, 7, -7), i32(-1, 3, 3)), i32(0, 1, -1), rounding=True),
    Report("onnx/onnx 6003", "clipping NaN returns a bound",
           clipped, (f32(np.nan, -20, 3),), f32(0, -10, 3)),
))  # fmt: skip
"""Reports on ONNX Runtime."""
