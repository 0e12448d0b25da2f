"""Memory that is used again: of values in the middle of programs, of results that died, and scratch.

What is allocated and freed in each run goes back to the operating system, and its pages are mapped again: a fault for
every few thousand bytes takes longer than to write them. So large pieces are kept, up to a bound, and all who
need some take them from one pool.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from tenferro.aligned import aligned_bytes, rounded
from tenferro.errors import InvalidConfigError
from tenferro.forks import call_in_child

__all__ = ["Pool", "PoolStats", "is_lent"]


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Counts of a pool since it was created or cleared.

    Attributes:
        reused, new: pieces that were handed out again, and for the first time.
        held: bytes that wait.
        capacity: the most that may wait.
    """

    reused: int
    new: int
    held: int
    capacity: int


class Pool:
    """Pieces of memory that wait to be used again.

    Args:
        capacity: the most bytes that wait; the oldest go first. Who needs more gets it for that once.

    Raises:
        InvalidConfigError: fewer than none.

    >>> pool = Pool(1 << 20)
    >>> piece = pool.take(1000)
    >>> pool.give(piece)
    >>> pool.take(600) is piece, pool.stats()
    (True, PoolStats(reused=1, new=1, held=0, capacity=1048576))
    """

    def __init__(self, capacity: int) -> None:
        if isinstance(capacity, bool) or capacity < 0:
            raise InvalidConfigError(f"a pool's capacity is at least 0 bytes, got {capacity!r}")
        self.capacity = capacity
        self._renew_lock()
        call_in_child(self._renew_lock)
        self._free: list[Any] = []
        self._back: deque[Any] = deque()
        self._lent: dict[int, _Lent] = {}
        self._reused = self._new = 0

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def take(self, size: int) -> Any:
        """An array of at least `size` bytes, and less than twice that, aligned to a line of the cache."""
        size = rounded(size)
        with self._lock:
            self._settle()
            fitting = [i for i, piece in enumerate(self._free) if size <= piece.size <= 2 * size]
            if fitting:
                self._reused += 1
                return self._free.pop(min(fitting, key=lambda i: (self._free[i].size, -i)))
            self._new += 1
        return aligned_bytes(size)

    def give(self, piece: Any) -> None:
        """Back, once nothing looks at it any more."""
        with self._lock:
            self._back.append(piece)
            self._settle()

    def lend(self, size: int) -> Any:
        """So many bytes, as an array; they come back when it and all arrays that are made over it have died."""
        piece = self.take(size)
        # Over what is no array itself: NumPy names the last array on the way to the memory as the base of what
        # is made over it, and keeps that one alive.
        lent = np.frombuffer(memoryview(piece)[:size], np.uint8)
        note = _Lent(lent, self._come_back)
        note.piece = piece
        self._lent[id(note)] = note
        return lent

    @contextmanager
    def scratch(self, sizes: Sequence[int]) -> Generator[list[Any]]:
        """Arrays of these sizes in bytes, for the length of the context."""
        ends = list(accumulate(map(rounded, sizes), initial=0))
        piece = self.take(ends[-1])
        try:
            yield [piece[start : start + size] for start, size in zip(ends, sizes, strict=False)]
        finally:
            self.give(piece)

    def clear(self) -> None:
        """Free the idle pieces."""
        with self._lock:
            self._settle()
            self._free.clear()
            self._reused = self._new = 0

    def stats(self) -> PoolStats:
        """Counts of pieces and bytes."""
        with self._lock:
            self._settle()
            return PoolStats(self._reused, self._new, self._held(), self.capacity)

    def _come_back(self, note: _Lent) -> None:
        """Anything may be under way when an array dies, in this thread too."""
        del self._lent[id(note)]
        self._back.append(note.piece)
        if self._lock.acquire(blocking=False):
            self._settle()
            self._lock.release()

    def _settle(self) -> None:
        """Keep the pieces that came back, as far as the capacity allows."""
        while self._back:
            self._free.append(self._back.popleft())
        while self._held() > self.capacity:
            del self._free[0]

    def _held(self) -> int:
        return sum([piece.size for piece in self._free])


def is_lent(array: Any) -> bool:
    """Whether a pool has lent this array: whoever holds it alone, holds its memory alone.

    >>> is_lent(Pool(0).lend(64)), is_lent(np.zeros(64, np.uint8))
    (True, False)
    """
    return any([type(reference) is _Lent for reference in weakref.getweakrefs(array)])


class _Lent(weakref.ref[Any]):
    """Notes which piece of memory an array looks at."""

    __slots__ = ("piece",)

    piece: Any
