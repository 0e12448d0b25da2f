"""Pool of memory for intermediate values, results and scratch memory.

If large blocks were freed after each run, the operating system would unmap and map them again, and the page faults
would take longer than writing the values. Therefore the pool caches large blocks, up to a capacity.
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

__all__ = ["Pool", "PoolStats", "is_pooled"]


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Statistics of a pool since it was created or cleared.

    Attributes:
        reused, new: the numbers of allocations of cached blocks, and of new blocks.
        held: the number of bytes in the cache.
        capacity: the maximum number of bytes in the cache.
    """

    reused: int
    new: int
    held: int
    capacity: int


class Pool:
    """Cache of memory blocks.

    Args:
        capacity: the maximum number of cached bytes; the oldest blocks are freed first. It does not limit allocations.

    Raises:
        InvalidConfigError: the capacity is negative.

    >>> pool = Pool(1 << 20)
    >>> block = pool.acquire(1000)
    >>> pool.release(block)
    >>> pool.acquire(600) is block, pool.stats()
    (True, PoolStats(reused=1, new=1, held=0, capacity=1048576))
    """

    def __init__(self, capacity: int) -> None:
        if isinstance(capacity, bool) or capacity < 0:
            raise InvalidConfigError(
                f"a pool's capacity must be at least 0 bytes, got {capacity!r}"
            )
        self.capacity = capacity
        self._renew_lock()
        call_in_child(self._renew_lock)
        self._cached: list[Any] = []
        self._returned: deque[Any] = deque()
        self._allocations: dict[int, _Allocation] = {}
        self._reused = self._new = 0

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, size: int) -> Any:
        """Return a block of `size` to about `2 * size` bytes, aligned to a cache line."""
        size = rounded(size)
        with self._lock:
            self._reclaim()
            fitting = [i for i, block in enumerate(self._cached) if size <= block.size <= 2 * size]
            if fitting:
                self._reused += 1
                return self._cached.pop(min(fitting, key=lambda i: (self._cached[i].size, -i)))
            self._new += 1
        return aligned_bytes(size)

    def release(self, block: Any) -> None:
        """Return a block to the cache; nothing else may refer to it."""
        with self._lock:
            self._returned.append(block)
            self._reclaim()

    def allocate(self, size: int) -> Any:
        """Return an array of `size` bytes, whose block is released when the array and all of its views are deleted."""
        block = self.acquire(size)
        # The base is a memoryview, because a block as the base would be the base of views, too, and views would not
        # keep the array alive.
        array = np.frombuffer(memoryview(block)[:size], np.uint8)
        allocation = _Allocation(array, self._on_free)
        allocation.block = block
        self._allocations[id(allocation)] = allocation
        return array

    @contextmanager
    def scratch(self, sizes: Sequence[int]) -> Generator[list[Any]]:
        """Yield arrays of these sizes in bytes, and release them at the end of the `with` statement."""
        ends = list(accumulate(map(rounded, sizes), initial=0))
        block = self.acquire(ends[-1])
        try:
            yield [block[start : start + size] for start, size in zip(ends, sizes, strict=False)]
        finally:
            self.release(block)

    def clear(self) -> None:
        """Free the cached blocks, and set the statistics to zero."""
        with self._lock:
            self._reclaim()
            self._cached.clear()
            self._reused = self._new = 0

    def stats(self) -> PoolStats:
        """Return the statistics since the pool was created or cleared."""
        with self._lock:
            self._reclaim()
            return PoolStats(self._reused, self._new, self._held(), self.capacity)

    def _on_free(self, allocation: _Allocation) -> None:
        """Return the block of a deleted array to the cache.

        The garbage collector may call the method while this thread has the lock, so it never waits for the lock.
        """
        del self._allocations[id(allocation)]
        self._returned.append(allocation.block)
        if self._lock.acquire(blocking=False):
            self._reclaim()
            self._lock.release()

    def _reclaim(self) -> None:
        """Move released blocks to the cache, and free the oldest blocks above the capacity."""
        while self._returned:
            self._cached.append(self._returned.popleft())
        while self._held() > self.capacity:
            del self._cached[0]

    def _held(self) -> int:
        return sum([block.size for block in self._cached])


def is_pooled(array: Any) -> bool:
    """Return whether `Pool.allocate` returned this array, which then owns its memory.

    >>> is_pooled(Pool(0).allocate(64)), is_pooled(np.zeros(64, np.uint8))
    (True, False)
    """
    return any([type(reference) is _Allocation for reference in weakref.getweakrefs(array)])


class _Allocation(weakref.ref[Any]):
    """Weak reference to an array that `Pool.allocate` has returned, with the block that contains it."""

    __slots__ = ("block",)

    block: Any
