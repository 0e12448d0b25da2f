"""Allocation of NumPy arrays whose memory PJRT can use without a copy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from tenferro.aligned import ALIGNMENT, aligned_bytes
from tenferro.errors import BackendFailureError, InvalidConfigError, ShapeError
from tenferro.types import DType

__all__ = ["ALIGNMENT", "empty"]


def empty(
    shape: int | Sequence[int], dtype: Any = "float64", order: Literal["C", "F"] = "C"
) -> np.ndarray[Any, Any]:
    """Allocate an uninitialised NumPy array in memory aligned to 64 bytes.

    PJRT on the CPU uses such an array without a copy, so a device array may share the memory of the NumPy array.
    `XlaExecutor.put` describes what a later write to the NumPy array does.

    Raises:
        ShapeError: an extent is negative.
        InvalidConfigError: the order is neither "C" nor "F".
        BackendFailureError: there is not enough memory.

    >>> empty((2, 3), "float32", "F").flags.f_contiguous
    True
    """
    if order not in ("C", "F"):
        raise InvalidConfigError(f'empty: order must be "C" or "F", got {order!r}')
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(extent < 0 for extent in extents):
        raise ShapeError(f"empty: extents must be at least 0, got {extents}")
    kind = DType.of(dtype).dtype
    size = math.prod(extents) * kind.itemsize
    try:
        memory = aligned_bytes(size)
    except (MemoryError, ValueError) as error:
        raise BackendFailureError(f"empty: {kind}{list(extents)}: {error}") from None
    return memory.view(kind).reshape(extents, order=order)
