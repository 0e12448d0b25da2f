"""Memory of the results of compiled loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np

from tenferro.types import TensorSpec

__all__ = ["results_in"]


def results_in(specs: Sequence[TensorSpec], places: Sequence[Any] | None) -> list[Any]:
    """Row-major arrays of these types.

    Args:
        places: for each the bytes that it lies in, or None for memory of its own.
    """
    return [
        np.empty(spec.shape, spec.dtype.dtype)
        if memory is None
        else np.ndarray(spec.shape, spec.dtype.dtype, memory)
        for spec, memory in zip(specs, places or repeat(None), strict=False)
    ]
