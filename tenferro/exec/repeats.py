"""Stretches of a program that read alike: a loop that was written out is one stretch again and again.

What a generated function says of a stretch depends on its ops, on which of its values are the same, on where
they die and on what is known of their types, but not on the numbers of slots. To compare that, as arrays,
costs much less than to write it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain
from typing import Any

import numpy as np

__all__ = ["Repeats"]

Array = np.ndarray[Any, Any]


class Repeats:
    """What stretches are compared by.

    Args:
        words: for each unit what it is, its slots apart; that says how many it reads.
        functions: what each unit calls.
        reads, makes: its slots.
        last_read: for each slot the last unit that reads it: past the end for what leaves the program,
            less than none for what nothing reads.
        marks: for each slot what is known of it.
    """

    def __init__(
        self,
        words: Sequence[Hashable],
        functions: Sequence[Any],
        reads: Sequence[Sequence[int]],
        makes: Sequence[Sequence[int]],
        last_read: Sequence[int],
        marks: Sequence[Hashable],
    ) -> None:
        self.words, self.functions = _numbered(words), np.array([id(f) for f in functions])
        numbers = [len(r) + len(m) for r, m in zip(reads, makes, strict=True)]
        self.ends = np.cumsum([0, *numbers])
        each = chain.from_iterable(zip(reads, makes, strict=True))
        self.slots = np.fromiter(chain.from_iterable(each), np.int64, self.ends[-1])
        reader = np.repeat(np.arange(len(numbers)), numbers)
        self.last = np.array(last_read)[self.slots]
        # How far away a slot is read last is the same wherever the stretch lies.
        self.left = np.where(self.last < 0, -1, self.last - reader)
        self.marks = _numbered(marks)[self.slots]

    def key(self, start: int, stop: int) -> Hashable:
        """Of the units from `start` to `stop`: equal for stretches that read alike."""
        a, b = self.ends[start], self.ends[stop]
        leaves = self.last[a:b] >= stop
        parts = (
            self.words[start:stop],
            _pattern(self.functions[start:stop]),
            np.unique(self.slots[a:b], return_inverse=True)[1],
            np.where(leaves, 0, self.left[a:b]),
            leaves,
            self.marks[a:b],
        )
        return tuple([part.tobytes() for part in parts])


def _numbered(values: Sequence[Hashable]) -> Array:
    """Equal ones by the same number."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values])


def _pattern(values: Array) -> Array:
    """Which ones are the same, by numbers in the order in which they come first."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]
