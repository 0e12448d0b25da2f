"""Native execution of Threefry: in place, on parts of the words that fit into the cache of a core."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.ext.random.families import GROUPS, PARITY, ROTATIONS
from tenferro.extension import ExtensionCaches, ExtensionRuntime

__all__ = ["ThreefryRuntime"]

PIECE = 16384
"""Number of words in a block; each block passes through all rounds in three buffers of 64 KiB."""


class ThreefryRuntime(ExtensionRuntime):
    """Runtime of Threefry. It computes with NumPy operations on arrays of words."""

    order = "K"

    def __init__(self, family_id: str) -> None:
        self.family_id = family_id

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """Copy the two arrays of words to row-major order, and run the rounds on the copies."""
        key, x0, x1 = inputs
        y0, y1 = np.array(x0, order="C"), np.array(x1, order="C")
        count = math.prod(key.shape[:-1])
        rows = (count, y0.size // count if count else 0)
        words = [np.ascontiguousarray(key[..., i]).reshape(count, 1) for i in (0, 1)]
        keys = [*words, words[0] ^ words[1] ^ np.uint32(PARITY)]
        _mix(y0.reshape(rows), y1.reshape(rows), keys)
        return y0, y1

    def compiles_expansion(self, op: Any) -> bool:
        """Return True, because integers have no rounding errors, so that expansion and `execute` agree bitwise."""
        return True


def _mix(x0: Any, x1: Any, keys: Sequence[Any]) -> None:
    """Run all rounds on rows of words in place; each row has its own key."""
    count, length = x0.shape
    if not x0.size:
        return
    width = min(length, PIECE)
    height = max(1, PIECE // width)
    scratch = np.empty((min(count, height), width), np.uint32)
    for row in range(0, count, height):
        of_rows = [key[row : row + height] for key in keys]
        for start in range(0, length, width):
            piece = (slice(row, row + height), slice(start, start + width))
            _mix_piece(x0[piece], x1[piece], of_rows, scratch)


def _mix_piece(x0: Any, x1: Any, keys: Sequence[Any], scratch: Any) -> None:
    high = scratch[: x0.shape[0], : x0.shape[1]]
    x0 += keys[0]
    x1 += keys[1]
    for group in range(GROUPS):
        for rotation in ROTATIONS[group % 2]:
            x0 += x1
            np.left_shift(x1, np.uint32(rotation), out=high)
            np.right_shift(x1, np.uint32(32 - rotation), out=x1)
            x1 |= high
            x1 ^= x0
        x0 += keys[(group + 1) % 3]
        x1 += keys[(group + 2) % 3] + np.uint32(group + 1)
