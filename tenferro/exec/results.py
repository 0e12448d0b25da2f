"""Memory of results, used again once nobody holds them.

What is allocated and freed in each run goes back to the operating system, and its pages come anew: a fault
for every few thousand bytes takes longer than to write them. So a large result lies in memory that the executor
gets back when the last array that looks at it dies, and gives to a result of the same size.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Any

import numpy as np

from tenferro.aligned import aligned_bytes, rounded
from tenferro.exec.memory import ArenaStats, checked_capacity

__all__ = ["ResultMemory", "is_lent"]


class ResultMemory:
    """Pieces of memory of results that have died.

    Args:
        capacity: the most bytes that wait; what is too much is let go, the oldest first.

    >>> memory = ResultMemory(1 << 20)
    >>> x = np.ndarray((3,), "float64", memory.take(24))
    >>> memory.stats().held
    0
    >>> view = x[1:]
    >>> del x
    >>> memory.stats().held
    0
    >>> del view
    >>> memory.stats().held
    64
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = checked_capacity("result memory", capacity)
        self._lock = threading.Lock()
        self._back: deque[memoryview] = deque()
        self._free: list[memoryview] = []
        self._lent: dict[int, _Lent] = {}
        self._reused = self._made = 0

    def take(self, size: int) -> Any:
        """So many bytes, as an array; they come back when it and all arrays that are made over it have died."""
        size = rounded(size)
        with self._lock:
            self._settle()
            for index in range(len(self._free) - 1, -1, -1):
                if len(self._free[index]) == size:
                    piece = self._free.pop(index)
                    self._reused += 1
                    break
            else:
                piece = memoryview(aligned_bytes(size))
                self._made += 1
        # Over what is no array itself: NumPy names the last array on the way to the memory as the base of what
        # is made over it, and keeps that one alive.
        lent = np.frombuffer(piece, np.uint8)
        note = _Lent(lent, self._come_back)
        note.piece = piece
        self._lent[id(note)] = note
        return lent

    def _come_back(self, note: _Lent) -> None:
        """Anything may be under way when an array dies, in this thread too."""
        del self._lent[id(note)]
        self._back.append(note.piece)
        if self._lock.acquire(blocking=False):
            self._settle()
            self._lock.release()

    def _settle(self) -> None:
        """Keep what has come back, as far as there is room."""
        while self._back:
            self._free.append(self._back.popleft())
        while self._held() > self.capacity:
            del self._free[0]

    def _held(self) -> int:
        return sum(map(len, self._free))

    def clear(self) -> None:
        """Let go of what waits."""
        with self._lock:
            self._settle()
            self._free.clear()
            self._reused = self._made = 0

    def stats(self) -> ArenaStats:
        """What the results have done: pieces taken again and made, bytes that wait."""
        with self._lock:
            self._settle()
            return ArenaStats(self._reused, self._made, self._held(), self.capacity)


def is_lent(array: Any) -> bool:
    """Whether a `ResultMemory` has lent this array: whoever holds it alone, holds its memory alone.

    >>> is_lent(ResultMemory(0).take(64)), is_lent(np.zeros(64, np.uint8))
    (True, False)
    """
    return any([type(reference) is _Lent for reference in weakref.getweakrefs(array)])


class _Lent(weakref.ref[Any]):
    """Notes which piece of memory an array looks at."""

    __slots__ = ("piece",)

    piece: memoryview
