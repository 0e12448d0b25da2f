"""Kernels of the dynamic family."""

from __future__ import annotations

import numpy as np

from tenferro.errors import ShapeError
from tenferro.exec.kernels.elementwise import round_away
from tenferro.exec.kernels.kernel import Array, Kernel, KernelRows
from tenferro.exec.kernels.structural import pad
from tenferro.ops.dynamic import DynamicTruncate, PadToMatch

__all__ = ["ROWS"]


def dynamic_truncate(op: DynamicTruncate, x: Array, size: Array) -> Array:
    """Return a view of the first `size` elements along an axis; `size` is rounded, and 0 if it is not finite."""
    extent = x.shape[op.axis]
    if size.dtype.kind in "iu":
        count = int(size)
    else:
        count = int(round_away(size)) if np.isfinite(size) else 0
    window = [slice(None)] * x.ndim
    window[op.axis] = slice(0, min(max(count, 0), extent))
    return x[tuple(window)]


def pad_to_match(op: PadToMatch, x: Array, reference: Array) -> Array:
    """Pad x with zeros at the end of `op.axis` to the extent of `reference`; raise `ShapeError` if x is longer."""
    missing = reference.shape[op.axis] - x.shape[op.axis]
    if missing < 0:
        raise ShapeError(
            f"PadToMatch: axis {op.axis} of x has {x.shape[op.axis]} elements, "
            f"the reference {reference.shape[op.axis]}; x is never cut"
        )
    if not missing:
        return x
    none = (0,) * x.ndim
    high = tuple(missing if axis == op.axis else 0 for axis in range(x.ndim))
    return pad(x, np.zeros((), x.dtype), none, high, none)


ROWS: KernelRows = {
    DynamicTruncate: Kernel(dynamic_truncate, view=True),
    PadToMatch: Kernel(pad_to_match, view=True),
}
