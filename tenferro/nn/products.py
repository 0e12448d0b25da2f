"""Products of matrices with scaled elements: each block of elements has one scale.

Source: jax.nn for names and signatures.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.api.elementwise import multiply
from tenferro.api.promotion import convert
from tenferro.api.sets import repeat
from tenferro.dims import is_static
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import NonStaticShapeError, ShapeError
from tenferro.lax.products import dot_general
from tenferro.types import ArrayLike, DType, DTypeLike

__all__ = ["scaled_matmul"]


def scaled_matmul(
    lhs: ArrayLike,
    rhs: ArrayLike,
    lhs_scales: ArrayLike,
    rhs_scales: ArrayLike,
    preferred_element_type: DTypeLike = np.float32,
) -> Any:
    """Return y[b, m, n] = sum over k of L[b, m, k] R[b, n, k], where L and R are lhs and rhs times their scales.

    Products and sums are computed in float32 at least.

    Args:
        lhs: a tensor (b, m, k), of any float or integer dtype, such as `tnf.float8_e4m3fn`.
        rhs: a tensor (b, n, k).
        lhs_scales, rhs_scales: the scales. Their last axis has one number for each of several equally large blocks of
            k.
        preferred_element_type: the result's dtype.

    Raises:
        ShapeError, NonStaticShapeError: the shapes do not fit, or the extent k is symbolic.

    >>> import numpy as np
    >>> half = np.full((1, 1, 1), 0.5)
    >>> scaled_matmul(np.array([[[1, 2, 3]]]), np.array([[[4, 5, 6]]]), half, half)
    array([[[8.]]], dtype=float32)

    Source: jax.nn.scaled_matmul.
    """
    dtype = DType.of(preferred_element_type)
    work = DType.F64 if dtype is DType.F64 else DType.F32
    x = _scaled(as_operand(lhs), as_operand(lhs_scales), work)
    y = _scaled(as_operand(rhs), as_operand(rhs_scales), work)
    return convert(dot_general(x, y, (((2,), (2,)), ((0,), (0,)))), dtype)


def _scaled(x: Any, scales: Any, dtype: DType) -> Any:
    if len(x.shape) != 3 or len(scales.shape) != 3 or tuple(x.shape[:2]) != tuple(scales.shape[:2]):
        raise ShapeError(
            f"nn.scaled_matmul: operands and scales must be (b, m, k) and (b, m, blocks), got {spec_of(x)} and {spec_of(scales)}"
        )
    extent, blocks = x.shape[2], scales.shape[2]
    if not is_static(extent) or not is_static(blocks):
        raise NonStaticShapeError(
            f"nn.scaled_matmul: needs a known extent of blocks, got {spec_of(x)}"
        )
    if not blocks or extent % blocks:
        raise ShapeError(
            f"nn.scaled_matmul: {blocks} blocks do not divide the extent {extent} of {spec_of(x)}"
        )
    return multiply(convert(x, dtype), repeat(convert(scales, dtype), extent // blocks, axis=2))
