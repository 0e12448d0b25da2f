"""Kernels of the elementwise family."""

from __future__ import annotations

import numpy as np

from tenferro.exec.kernels.kernel import Array, KernelRows, unary
from tenferro.ops.elementwise import Add, Convert, Multiply, Negate
from tenferro.types import DType

__all__ = ["ROWS"]


def convert(op: Convert, x: Array) -> Array:
    """NumPy's cast where it has StableHLO's meaning, the saturating one from float to integer."""
    to, dtype = op.to, DType.of(x.dtype)
    if dtype.is_complex and not to.is_complex and not to.is_bool:
        x, dtype = x.real, dtype.real
    if dtype.is_float and to.is_integer:
        return saturate(x, to)
    return x.astype(to.dtype)


def saturate(x: Array, to: DType) -> Array:
    """Truncate towards zero, clamp to the integer's range, NaN to 0.

    The bounds are compared as powers of two, which every float dtype holds or rounds to infinity.
    """
    info = np.iinfo(to.dtype)
    wide = x.astype(np.float64)
    above = wide >= np.float64(info.max) if info.bits == 64 else wide > info.max
    below = wide < info.min
    kept = np.where(above | below | np.isnan(wide), 0, wide).astype(to.dtype)
    return np.where(above, to.dtype.type(info.max), np.where(below, to.dtype.type(info.min), kept))


ROWS: KernelRows = {
    Add: unary(np.add),
    Multiply: unary(np.multiply),
    Negate: unary(np.negative),
    Convert: convert,
}
