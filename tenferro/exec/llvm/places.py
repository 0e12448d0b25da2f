"""Memory of the operands and results of compiled loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.types import TensorSpec

__all__ = ["dense", "results_in"]


def dense(x: Any) -> Any:
    """The array itself, if compiled code can read it, or a copy: row-major, without gaps, aligned, and of no subclass."""
    return np.require(x, requirements=("C", "A", "E"))


def results_in(
    specs: Sequence[TensorSpec], places: Sequence[Any] | None, inits: Sequence[Any] = ()
) -> list[Any]:
    """Row-major arrays of these types.

    Args:
        places: for each the bytes that it lies in, or None for memory of its own.
        inits: the values of the first ones.
    """
    if not places:
        results = [
            x.copy() if type(x) is np.ndarray else np.array(x, spec.dtype.dtype)
            for x, spec in zip(inits, specs, strict=False)
        ]
        results += [np.empty(spec.shape, spec.dtype.dtype) for spec in specs[len(inits) :]]
        return results
    results = [
        np.empty(spec.shape, spec.dtype.dtype)
        if memory is None
        else np.ndarray(spec.shape, spec.dtype.dtype, memory)
        for spec, memory in zip(specs, places, strict=True)
    ]
    for y, x in zip(results, inits, strict=False):
        np.copyto(y, x)
    return results
