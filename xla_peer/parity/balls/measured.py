"""Rounding errors of native results, computed in higher precision.

Two right results differ by at most the error of the first plus the error of the second. For another implementation,
only a bound on the error is known. But the actual error of the native result can be computed, so the radii become
smaller. The errors of elementwise sums and products are computed by error-free transformations. For sums of many terms,
the operands are split into slices of so few bits that sums of their products are exact.

Sources: T. J. Dekker, A floating-point technique for extending the available precision, Numerische Mathematik 18, 1971;
K. Ozaki, T. Ogita, S. Oishi, S. M. Rump, Error-free transformations of matrix multiplication, Numerical Algorithms 59, 2012.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.ops import StdTensorOp
from xla_peer.parity.balls.operands import EPSILON, Operands, outward, wide

__all__ = ["error_of_product", "error_of_quotient", "error_of_sum", "error_of_terms"]

SPLITTER = 2.0**27 + 1.0
SAFE = 2.0**300
"""Limit L: numbers between 1 / L and L are split and multiplied without overflow or underflow."""
SLICES = 3
BITS = np.finfo(np.float64).nmant + 1


def error_of_sum(values: Sequence[Any], result: Any) -> Any:
    """Return |x + y - result| for real numbers in float64; NaN where the sum overflows."""
    x, y = values
    total = x + y
    rest = total - x
    left = (x - (total - rest)) + (y - rest)  # the exact rounding error of `total`
    return np.abs((total - result) + left)


def error_of_product(values: Sequence[Any], result: Any) -> Any:
    """Return |x y - result| for real numbers in float64; NaN where a partial product might overflow or underflow."""
    x, y = values
    product, left = _product(x, y)
    return np.where((x == 0) | (y == 0), 0.0, np.abs((product - result) + left))


def error_of_quotient(values: Sequence[Any], result: Any) -> Any:
    """Return |x / y - result|, computed from the remainder x - result * y."""
    x, y = values
    product, left = _product(result, y)
    return np.where((x == 0) & (y != 0), 0.0, np.abs((x - product) - left) / np.abs(y))


def _product(x: Any, y: Any) -> tuple[Any, Any]:
    """Compute the rounded product of x and y, and its exact error, or NaN where it might overflow or underflow."""
    product = x * y
    (a, b), (c, d) = _halves(x), _halves(y)
    left = b * d - (((product - a * c) - b * c) - a * d)
    sizes = [np.abs(z) for z in (x, y, product)]
    is_safe = np.logical_and.reduce([(z < SAFE) & (z > 1.0 / SAFE) for z in sizes])
    return product, np.where(is_safe, left, np.nan)


def _halves(x: Any) -> tuple[Any, Any]:
    scaled = SPLITTER * x
    high = scaled - (scaled - x)
    return high, x - high


def error_of_terms(operands: Operands, op: StdTensorOp, terms: float) -> Any:
    """Bound the distance of the native result from the exact sum or contraction; infinity if no bound is known.

    Args:
        op: the op in float64.
        terms: the largest number of terms of an element.
    """
    (result,) = operands.results
    unknown = np.full(result.shape, np.inf)
    values = [wide(x) for x in operands.values]
    if operands.is_complex or not values or not all(x.size for x in values):
        return unknown
    largest = [float(np.max(np.abs(x))) for x in values]
    if not all(size == 0.0 or 1.0 / SAFE < size < SAFE for size in largest):
        return unknown
    bits = int(BITS - math.ceil(math.log2(max(terms, 1.0)))) // len(values)
    if bits < BITS // (SLICES * len(values)):
        return unknown
    slices = [_slices(x, size, bits) for x, size in zip(values, largest, strict=True)]
    parts = [operands.run(op, x) for x in slices[0]] if len(slices) == 1 else [
        operands.run(op, slices[0][order - second], slices[1][second])
        for order in range(SLICES)
        for second in range(order + 1)
    ]  # fmt: skip
    error, sizes = parts[0] - wide(result), np.abs(parts[0] - wide(result))
    for part in parts[1:]:
        error, sizes = error + part, sizes + np.abs(part)
    # `rest` bounds the omitted terms: the remainders after the last slice, and the products of small slices.
    rest = len(parts) * terms * math.prod(largest) * 2.0 ** (2 - bits * SLICES)
    return outward(np.abs(error) + 4.0 * len(parts) * EPSILON * sizes + rest)


def _slices(x: Any, largest: float, bits: int) -> list[Any]:
    """Split x into `SLICES` arrays with few bits: multiples of p 2^-bits, p 2^(-2 bits), and so on.

    Here p is a power of two that is at least `largest`, the largest |x|.
    """
    unit = 2.0 ** math.ceil(math.log2(largest)) if largest else 1.0
    parts: list[Any] = []
    for _ in range(SLICES):
        unit *= 2.0**-bits
        parts.append(np.round(x / unit) * unit)
        x = x - parts[-1]
    return parts
