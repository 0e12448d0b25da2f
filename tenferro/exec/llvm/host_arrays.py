"""NumPy arrays of operands and results of compiled functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.types import TensorSpec

__all__ = ["allocate_results", "as_contiguous"]


def as_contiguous(x: Any) -> Any:
    """Return an array as a row-major, aligned array of no subclass, copied if necessary."""
    return np.require(x, requirements=("C", "A", "E"))


def allocate_results(
    specs: Sequence[TensorSpec], buffers: Sequence[Any] | None, inits: Sequence[Any] = ()
) -> list[Any]:
    """Return row-major arrays of these types.

    Args:
        buffers: buffer of each array, or None for a new one.
        inits: initial values of the first arrays.
    """
    if not buffers:
        results = [
            x.copy() if type(x) is np.ndarray else np.array(x, spec.dtype.dtype)
            for x, spec in zip(inits, specs, strict=False)
        ]
        results += [np.empty(spec.shape, spec.dtype.dtype) for spec in specs[len(inits) :]]
        return results
    results = [
        np.empty(spec.shape, spec.dtype.dtype)
        if buffer is None
        else np.ndarray(spec.shape, spec.dtype.dtype, buffer)
        for spec, buffer in zip(specs, buffers, strict=True)
    ]
    for y, x in zip(results, inits, strict=False):
        np.copyto(y, x)
    return results
