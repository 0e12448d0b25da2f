"""`BoundedCache`: the one cache there is. It has an owner, a bound, statistics, and a clear method.

`ExtensionCaches` are the stores of it that extensions may fill, owned by an executor, a compiler or an
`AdContext`.

Source: seed 003, "Cache Ownership".
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tenferro.errors import InvalidConfigError

__all__ = ["BoundedCache", "CacheStats", "ExtensionCacheKey", "ExtensionCaches"]

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache has done since it was made or cleared."""

    hits: int
    misses: int
    evictions: int
    entries: int
    capacity: int
    nbytes: int = 0


_ABSENT: Any = object()


class BoundedCache(Generic[Value]):
    """Least recently used goes first; safe from many threads.

    Args:
        capacity: entries that are kept.
        max_bytes: what they may hold together, as `size` tells of each; the last one made is kept, however
            large it is.

    Of several threads that miss on one key at once, one computes and the others wait for it.

    >>> cache = BoundedCache(capacity=1)
    >>> cache.get("a", lambda: 1), cache.get("a", lambda: 2), cache.get("b", lambda: 3)
    (1, 1, 3)
    >>> cache.stats()
    CacheStats(hits=1, misses=2, evictions=1, entries=1, capacity=1, nbytes=0)

    Raises:
        InvalidConfigError: a capacity below 1.
    """

    __slots__ = ("_entries", "_evictions", "_hits", "_lock", "_making", "_misses", "_nbytes",
                 "_size", "capacity", "max_bytes")  # fmt: skip

    def __init__(
        self,
        capacity: int = 256,
        max_bytes: int | None = None,
        size: Callable[[Value], int] = lambda value: 0,
    ) -> None:
        if capacity < 1:
            raise InvalidConfigError(f"a cache's capacity is at least 1, got {capacity}")
        self.capacity = capacity
        self.max_bytes = max_bytes
        self._size = size
        self._nbytes = 0
        self._entries: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()
        self._making: dict[Hashable, threading.RLock] = {}
        self._hits = self._misses = self._evictions = 0

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The entry of `key`, made now if there is none."""
        with self._lock:
            found = self._entries.get(key, _ABSENT)
            if found is not _ABSENT:
                self._hits += 1
                self._entries.move_to_end(key)
                return found  # pyright: ignore[reportReturnType]  # because it is no absent one
            making = self._making.setdefault(key, threading.RLock())
        with making:
            with self._lock:
                if key in self._entries:  # because another thread has made it meanwhile
                    self._hits += 1
                    return self._entries[key]
                self._misses += 1
            try:
                value = make()
            except BaseException:
                with self._lock:
                    self._making.pop(key, None)
                raise
            with self._lock:
                self._making.pop(key, None)
                self._entries[key] = value
                self._nbytes += self._size(value)
                while self._is_over():
                    _, dropped = self._entries.popitem(last=False)
                    self._nbytes -= self._size(dropped)
                    self._evictions += 1
            return value

    def _is_over(self) -> bool:
        count = len(self._entries)
        too_large = self.max_bytes is not None and self._nbytes > self.max_bytes
        return count > self.capacity or (too_large and count > 1)

    def find(self, key: Hashable) -> Value | None:
        """The entry of `key` as it is at hand: None if there is none, and its age stays."""
        found = self._entries.get(key)
        self._hits += found is not None
        return found

    def count_hit(self) -> None:
        """Count a hit of an owner who had the entry at hand."""
        self._hits += 1

    @property
    def evictions(self) -> int:
        """How many entries have been dropped for want of room."""
        return self._evictions

    def entries(self) -> list[Value]:
        """What is kept now, least recently used first."""
        with self._lock:
            return list(self._entries.values())

    def clear(self) -> None:
        """Drop every entry and start counting anew."""
        with self._lock:
            self._entries.clear()
            self._nbytes = 0
            self._hits = self._misses = self._evictions = 0

    def stats(self) -> CacheStats:
        """Hits, misses, evictions, entries, capacity, bytes."""
        with self._lock:
            return CacheStats(
                self._hits,
                self._misses,
                self._evictions,
                len(self._entries),
                self.capacity,
                self._nbytes,
            )

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(frozen=True, slots=True)
class ExtensionCacheKey:
    """Names one store of an extension: the family it belongs to, and what it holds."""

    family_id: str
    name: str


class ExtensionCaches:
    """The stores that extensions keep plans in, owned by one executor, compiler or context; each is a bounded LRU.

    >>> caches = ExtensionCaches()
    >>> plans = caches.store(ExtensionCacheKey("example.fft.v1", "plans"))
    >>> plans.get(8, lambda: "plan for 8"), plans.capacity, len(caches)
    ('plan for 8', 256, 1)
    """

    def __init__(self, capacity: int = 256) -> None:
        self.capacity = capacity
        self._stores: dict[ExtensionCacheKey, BoundedCache[Any]] = {}

    def store(self, key: ExtensionCacheKey) -> BoundedCache[Any]:
        """The store of that name, made empty when there is none."""
        return self._stores.setdefault(key, BoundedCache(self.capacity))

    def stats(self) -> dict[ExtensionCacheKey, CacheStats]:
        """Hits, misses, evictions, entries and capacity of each store."""
        return {key: store.stats() for key, store in self._stores.items()}

    @property
    def retained_bytes(self) -> int:
        """Bytes of the arrays that all entries hold."""
        return sum(
            getattr(entry, "nbytes", 0)
            for store in self._stores.values()
            for entry in store.entries()
        )

    def clear(self) -> None:
        """Empty every store."""
        for store in self._stores.values():
            store.clear()

    def forget(self, family_id: str) -> None:
        """Empty the stores of one family."""
        for key, store in self._stores.items():
            if key.family_id == family_id:
                store.clear()

    def __len__(self) -> int:
        return sum(len(store) for store in self._stores.values())
