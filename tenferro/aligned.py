"""Memory aligned to cache lines, which XLA shares without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ALIGNMENT", "aligned_bytes", "rounded"]

ALIGNMENT = 64
"""Bytes: a line of the cache."""


def rounded(size: int) -> int:
    """Round up to the next multiple of the alignment.

    >>> rounded(1), rounded(64)
    (64, 64)
    """
    return -(-size // ALIGNMENT) * ALIGNMENT


def aligned_bytes(size: int) -> Any:
    """Allocate uninitialised bytes, aligned."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]
