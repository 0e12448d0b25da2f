"""Detection of arrays that share memory, by sorted ranges of addresses."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tenferro.exec.kernels.copying import Dense

__all__ = ["AddressRanges", "copy_aliases"]

MAX_SCANNED = 16
"""Maximum number of arrays that are compared one by one; for more arrays, binary search in sorted ranges is faster."""


class AddressRanges:
    """Set of the address ranges of arrays.

    >>> x = np.zeros(4)
    >>> ranges = AddressRanges([x])
    >>> ranges.overlaps(x[1:]), ranges.overlaps(np.zeros(4))
    (True, False)
    """

    def __init__(self, arrays: Iterable[Any]) -> None:
        self._unsorted: list[Any] = list(arrays)
        # Bounds of disjoint ranges, in ascending order.
        self._starts: list[int] = []
        self._ends: list[int] = []
        if len(self._unsorted) > MAX_SCANNED:
            self._sort()

    def overlaps(self, array: Any) -> bool:
        """Return whether the memory of an array overlaps a range of the set."""
        if any([np.may_share_memory(array, member) for member in self._unsorted]):
            return True
        if not self._starts or not array.size:
            return False
        start, end = np.lib.array_utils.byte_bounds(array)
        before = bisect_left(self._starts, end) - 1
        return before >= 0 and self._ends[before] > start

    def add(self, array: Any) -> None:
        self._unsorted.append(array)
        if len(self._unsorted) > MAX_SCANNED:
            self._sort()

    def _sort(self) -> None:
        unsorted, self._unsorted = self._unsorted, []
        ranges = [np.lib.array_utils.byte_bounds(x) for x in unsorted if x.size]
        for start, end in ranges if self._starts else sorted(ranges):
            # Merge the new range with the ranges that it touches.
            first = bisect_left(self._ends, start)
            last = bisect_right(self._starts, end)
            if first < last:
                start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
            self._starts[first:last] = [start]
            self._ends[first:last] = [end]


def copy_aliases(
    outputs: Sequence[Any], inputs: Sequence[Any], dense: Dense | None = None
) -> list[Any]:
    """Return the outputs as writable arrays that overlap no input and no other output; copy them if necessary.

    Args:
        dense: copies arrays to its memory order; None to keep the order of each array.

    Raises:
        MemoryError: there is not enough memory for a copy; the first argument of the error is the output's index.
    """
    results: list[Any] = []
    ranges = AddressRanges(inputs)
    for number, output in enumerate(outputs):
        array = np.asarray(output)
        flags = array.flags
        try:
            if dense is not None and not flags[dense.order]:
                array = dense(array)
            elif not flags.writeable or ranges.overlaps(array):
                array = np.array(array, order="K" if dense is None else dense.order, copy=True)
            else:
                ranges.add(array)  # copies overlap no other output
        except MemoryError as error:
            raise MemoryError(number, str(error)) from error
        results.append(array)
    return results
