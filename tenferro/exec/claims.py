"""Sets of address ranges, by which results that share memory are detected."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tenferro.exec.copying import Dense

__all__ = ["Claims", "own"]

FEW = 16
"""Arrays that are compared one by one, which is cheaper than to look up where they lie."""


class Claims:
    """Memory that arrays take.

    >>> x = np.zeros(4)
    >>> claims = Claims([x])
    >>> claims.has(x[1:]), claims.has(np.zeros(4))
    (True, False)
    """

    def __init__(self, arrays: Iterable[Any]) -> None:
        self._few: list[Any] = list(arrays)
        # Disjoint stretches of addresses, in order.
        self._starts: list[int] = []
        self._ends: list[int] = []
        if len(self._few) > FEW:
            self._sort()

    def has(self, array: Any) -> bool:
        """Whether the array lies, in part at least, in memory that is taken."""
        if any([np.may_share_memory(array, member) for member in self._few]):
            return True
        if not self._starts or not array.size:
            return False
        start, end = np.lib.array_utils.byte_bounds(array)
        before = bisect_left(self._starts, end) - 1
        return before >= 0 and self._ends[before] > start

    def add(self, array: Any) -> None:
        """Take the memory of an array."""
        self._few.append(array)
        if len(self._few) > FEW:
            self._sort()

    def _sort(self) -> None:
        few, self._few = self._few, []
        ranges = [np.lib.array_utils.byte_bounds(x) for x in few if x.size]
        for start, end in ranges if self._starts else sorted(ranges):
            # What it touches becomes one stretch with it.
            first = bisect_left(self._ends, start)
            last = bisect_right(self._starts, end)
            if first < last:
                start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
            self._starts[first:last] = [start]
            self._ends[first:last] = [end]


def own(outputs: Sequence[Any], beside: Sequence[Any], dense: Dense | None = None) -> list[Any]:
    """Arrays as a caller wants them: each in memory that is not another's or of those beside.

    What is so already is given as it is; what is read-only, as constants are, is copied.

    Args:
        dense: makes arrays dense in an order; None leaves them in theirs.

    Raises:
        MemoryError: with the number of the output that does not fit.
    """
    owned: list[Any] = []
    claims = Claims(beside)
    for number, output in enumerate(outputs):
        array = np.asarray(output)
        flags = array.flags
        try:
            if dense is not None and not flags[dense.order]:
                array = dense(array)
            elif not flags.writeable or claims.has(array):
                array = np.array(array, order="K" if dense is None else dense.order, copy=True)
            else:
                claims.add(array)  # no other output lies in a copy
        except MemoryError as error:
            raise MemoryError(number, str(error)) from error
        owned.append(array)
    return owned
