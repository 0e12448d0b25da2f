"""Reports on IREE's compiler for CPUs."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenferro as tnf
from xla_peer.hall.report import Report, f32, i32, main

__all__ = ["IREE"]

CACHE = (np.arange(57 * 2 * 8) % 97).astype(np.float16).reshape(57, 2, 8)
TABLE = np.arange(10.0 * 20, dtype=np.float32).reshape(10, 20)
ROWS = ((np.arange(35, dtype=np.int64) * 7) % 10).reshape(35, 1)
FRAMES = np.arange(5.0 * 6 * 3, dtype=np.float32).reshape(5, 6, 3)
STATE = np.arange(2.0 * 5 * 3, dtype=np.float32).reshape(2, 5, 3)
UPDATE = -np.arange(1.0, 7, dtype=np.float32).reshape(2, 1, 3)
BITS = np.array([[True, False, False], [False, False, False]])
OTHER_BITS = np.array([[True, False], [True, True], [False, True]])


def gradient_of_a_cumulative_sum(x: Any, w: Any) -> Any:
    """Compute the gradient of Σ w cumsum(x): the suffix sums of w."""
    return tnf.grad(lambda x: tnf.sum(w * tnf.cumsum(x)))(x)


def there_and_back(x: Any) -> Any:
    """Reverse the elements by a sort, and restore their order by another sort."""
    order = tnf.argsort(-tnf.arange(4))
    return x[order][tnf.argsort(order)]


def written_column(x: Any, y: Any) -> Any:
    """Replace the slice of `x` at index 3 of axis 1 by `y`."""
    return tnf.concatenate([x[:, :3], y, x[:, 4:]], axis=1)


SCATTER = main(
    "%x: tensor<2x5x3xf32>, %at: tensor<1x1xi32>, %y: tensor<2x1x3xf32>",
    "tensor<2x5x3xf32>",
    """
  %0 = "stablehlo.scatter"(%x, %at, %y) <{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 2], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>}> ({
  ^bb0(%old: tensor<f32>, %new: tensor<f32>):
    stablehlo.return %new : tensor<f32>
  }) : (tensor<2x5x3xf32>, tensor<1x1xi32>, tensor<2x1x3xf32>) -> tensor<2x5x3xf32>
  return %0 : tensor<2x5x3xf32>
""",
)
UNSIGNED_SCATTER = main(
    "%x: tensor<4xui8>, %at: tensor<3x1xi32>, %y: tensor<3xui8>",
    "tensor<4xui8>",
    """
  %0 = "stablehlo.scatter"(%x, %at, %y) <{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%old: tensor<ui8>, %new: tensor<ui8>):
    %larger = stablehlo.maximum %old, %new : tensor<ui8>
    stablehlo.return %larger : tensor<ui8>
  }) : (tensor<4xui8>, tensor<3x1xi32>, tensor<3xui8>) -> tensor<4xui8>
  return %0 : tensor<4xui8>
""",
)
ORDER_OF_ONE = main(
    "%x: tensor<3x1xi32>",
    "tensor<3x1xi32>",
    """
  %0 = stablehlo.iota dim = 1 : tensor<3x1xi32>
  %1:2 = "stablehlo.sort"(%x, %0) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
    %2 = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  }) : (tensor<3x1xi32>, tensor<3x1xi32>) -> (tensor<3x1xi32>, tensor<3x1xi32>)
  return %1#1 : tensor<3x1xi32>
""",
)
ORDER_OF_BITS = main(
    "%x: tensor<5xi1>",
    "tensor<5xi32>",
    """
  %0 = stablehlo.iota dim = 0 : tensor<5xi32>
  %1:2 = "stablehlo.sort"(%x, %0) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<i1>, %b: tensor<i1>, %c: tensor<i32>, %d: tensor<i32>):
    %2 = stablehlo.compare LT, %a, %b, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  }) : (tensor<5xi1>, tensor<5xi32>) -> (tensor<5xi1>, tensor<5xi32>)
  return %1#1 : tensor<5xi32>
""",
)
PRODUCT_OF_BITS = main(
    "%x: tensor<2x3xi1>, %y: tensor<3x2xi1>",
    "tensor<2x2xi1>",
    """
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<2x3xi1>, tensor<3x2xi1>) -> tensor<2x2xi1>
  return %0 : tensor<2x2xi1>
""",
)


def rectified(x: Any, y: Any) -> Any:
    """Multiply matrices, reshape the product, add a constant, and replace negative elements by 0."""
    return tnf.maximum(tnf.reshape(x @ y, (2, 4, 8)) + np.float32(0.75), np.float32(0))


IREE = tuple(report._replace(compiler="IREE") for report in (
    Report("iree-org/iree 23381", "the gradient of a cumulative sum is nearly all zeros",
           gradient_of_a_cumulative_sum, (f32(1, 2, 3, 4, 5), f32(1, 2, 4, 8, 16)), f32(31, 30, 28, 24, 16)),
    Report("iree-org/iree 19749", "rows of a strided slice are gathered as if it were contiguous",
           lambda x, at: x[:, 1][at], (CACHE, np.array([3, 50])), CACHE[[3, 50], 1]),
    Report("iree-org/iree 18273", "64-bit indices of a gather are truncated to 32 bits",
           lambda x, at: x[at], (TABLE, ROWS), TABLE[ROWS]),
    Report("iree-org/iree 24665", "a sort is bufferized over a value that is still used",
           there_and_back, (np.arange(4, dtype=np.float16),), np.arange(4, dtype=np.float16)),
    Report("iree-org/iree 24082", "a scatter along another axis than the first is wrong",
           SCATTER, (STATE, np.array([[3]], np.int32), UPDATE),
           np.concatenate([STATE[:, :3], UPDATE, STATE[:, 4:]], axis=1)),
    Report("iree-org/iree 14354", "a scatter compares unsigned integers as signed",
           UNSIGNED_SCATTER,
           (np.array([1, 200, 3, 100], np.uint8), np.array([[0], [1], [3]], np.int32),
            np.array([255, 5, 128], np.uint8)),
           np.array([255, 200, 3, 128], np.uint8)),
    Report("iree-org/iree 13728", "an argsort along an axis of extent 1 does not compile",
           ORDER_OF_ONE, (np.array([[5], [7], [2]], np.int32),), np.zeros((3, 1), np.int32)),
    Report("iree-org/iree 14115", "a sort of booleans does not compile",
           ORDER_OF_BITS, (np.array([True, False, True, False, False]),), i32(1, 3, 4, 0, 2)),
    Report("iree-org/iree 23637", "a reversed slice contains values from outside of its operand",
           lambda x: tnf.flip(x[:, 4:6], axis=1), (FRAMES,), FRAMES[:, 5:3:-1]),
    Report("iree-org/iree 24503", "NaN is lost in a maximum reduction",
           lambda x: tnf.max(x, axis=1), (np.array([[np.nan, 1], [2, np.nan], [3, 4]], np.float32),),
           f32(np.nan, np.nan, 4)),
    Report("iree-org/iree 7622", "a product of booleans ends the compiler",
           PRODUCT_OF_BITS, (BITS, OTHER_BITS), np.array([[True, False], [False, False]])),
    Report("iree-org/iree 9493", "products plus a constant, then a maximum, are all NaN",
           rectified, (np.full((8, 16), 2, np.float32), np.full((16, 8), 0.5, np.float32)),
           np.full((2, 4, 8), 16.75, np.float32)),
    Report("iree-org/iree 10691", "nanmean of columns is infinite",
           lambda x: tnf.nanmean(x, axis=0),
           (np.array([[5, np.nan, 7, np.nan], [5, 6, np.nan, 8]], np.float32),), f32(5, 6, 7, 8)),
))  # fmt: skip
"""Reports on IREE."""
