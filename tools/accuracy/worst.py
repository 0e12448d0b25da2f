"""The arguments with the largest estimated errors so far."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["Worst"]


class Worst:
    """The arguments with the largest estimated errors.

    Each entry has the estimated error, the arguments and the result, in float64.

    Args:
        count: the maximum number of entries.
        each: the maximum number of entries from one call of `add`, so that one bad range does not hide the others.
    """

    def __init__(self, count: int, each: int) -> None:
        self.count, self.each = count, each
        self.least = 0.0
        self.parts: list[np.ndarray] = []
        self.size = 0

    def add(
        self,
        error: np.ndarray,
        xs: Sequence[np.ndarray],
        y: np.ndarray,
        left_out: np.ndarray | None = None,
    ) -> None:
        """Add the arguments whose estimates exceed the smallest estimate so far.

        `left_out` marks arguments that are not added.
        """
        chosen = np.flatnonzero(error > self.least)
        if left_out is not None:
            chosen = chosen[~left_out[chosen]]
        if len(chosen) > self.each:
            chosen = chosen[np.argpartition(-error[chosen], self.each)[: self.each]]
        if not len(chosen):
            return
        columns = [error[chosen], *[x[chosen] for x in xs], y[chosen]]
        with np.errstate(all="ignore"):
            self.parts.append(np.stack([column.astype(np.float64) for column in columns], axis=1))
        self.size += len(chosen)
        if self.size > 2 * self.count:
            entries = self.entries()
            self.parts, self.size, self.least = [entries], len(entries), float(entries[-1, 0])

    def entries(self) -> np.ndarray:
        """Return the distinct entries, one per row, in descending order of the estimate."""
        if not self.parts:
            return np.zeros((0, 3))
        every = np.unique(np.concatenate(self.parts), axis=0)
        return every[::-1][: self.count]
