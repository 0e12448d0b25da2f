"""Memory aligned to cache lines, which XLA uses without copying it."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ALIGNMENT", "aligned_bytes", "rounded"]

ALIGNMENT = 64
"""Alignment of arrays in bytes, which is the size of a cache line."""


def rounded(size: int) -> int:
    """Round a number of bytes up to a multiple of `ALIGNMENT`.

    >>> rounded(1), rounded(64)
    (64, 64)
    """
    return -(-size // ALIGNMENT) * ALIGNMENT


def aligned_bytes(size: int) -> Any:
    """Allocate uninitialised bytes at an address that is a multiple of `ALIGNMENT`."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]
