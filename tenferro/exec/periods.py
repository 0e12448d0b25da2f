"""Periods: cuts of a long sequence of steps, which make the parts of a repetitive program equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["cuts", "exact_period"]


def cuts(kinds: Sequence[Any], short: int, long: int) -> Iterator[tuple[int, int]]:
    """Give the start and the end of each part: some periods where the sequence repeats itself, else a long part.

    Args:
        kinds: one for each step; parts of equal kinds read alike.
        short: the maximum length of a part that repeats itself.
        long: the maximum length of another part.

    >>> list(cuts("ababababab", 4, 6)), list(cuts("abcdefghij", 4, 6))
    ([(0, 4), (4, 8), (8, 10)], [(0, 6), (6, 10)])
    """
    start = 0
    while start < len(kinds):
        period = exact_period(kinds[start : start + min(2 * short, long)])
        length = min(short, long) if 2 * period <= short else long
        stop = min(start + length - length % period, len(kinds))
        yield start, stop
        start = stop


def exact_period(kinds: Sequence[Any]) -> int:
    """Return the smallest period of a sequence, by the prefix function.

    Source: Knuth, Morris and Pratt, "Fast pattern matching in strings", 1977.

    >>> exact_period("abcabca"), exact_period("abcd")
    (3, 4)
    """
    borders = [0]
    for kind in kinds[1:]:
        length = borders[-1]
        while length and kinds[length] != kind:
            length = borders[length - 1]
        borders.append(length + (kinds[length] == kind))
    return len(kinds) - borders[-1]
