"""`BoundedCache`: the class of all caches. Each cache has a bound, statistics, and a method that empties it.

`ExtensionCaches` are the caches of extensions. An executor, a compiler or an `AdContext` owns them.

Source: docs/specification/caches.md.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, Generic, TypeVar

from tenferro.errors import InvalidConfigError
from tenferro.forks import call_in_child

__all__ = ["BoundedCache", "CacheStats", "ExtensionCacheKey", "ExtensionCaches"]

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Counts of a cache since it was created, or since it was last emptied."""

    hits: int
    misses: int
    evictions: int
    entries: int
    capacity: int
    nbytes: int = 0


_ABSENT: Any = object()
MAX_AT_HAND = 64
"""Maximum number of entries in `BoundedCache.at_hand`."""


class BoundedCache(Generic[Value]):
    """Least-recently-used cache that several threads may use at once.

    Args:
        capacity: the maximum number of entries.
        max_bytes: the maximum total size of the entries in bytes, measured by the function `size`. The newest entry is
            cached even if it is larger.

    Attributes:
        at_hand: recently used entries, by keys that can be looked up faster. It is emptied when the cache drops an
            entry.

    If several threads look up the same missing key at once, one thread computes the entry and the others wait.

    >>> cache = BoundedCache(capacity=1)
    >>> cache.get("a", lambda: 1), cache.get("a", lambda: 2), cache.get("b", lambda: 3)
    (1, 1, 3)
    >>> cache.stats()
    CacheStats(hits=1, misses=2, evictions=1, entries=1, capacity=1, nbytes=0)

    Raises:
        InvalidConfigError: the capacity is below 1.
    """

    __slots__ = (
        "__weakref__",
        "_entries",
        "_evictions",
        "_hits",
        "_lock",
        "_making",
        "_misses",
        "_nbytes",
        "_size",
        "_sizes",
        "at_hand",
        "capacity",
        "max_bytes",
    )  # fmt: skip

    def __init__(
        self,
        capacity: int = 256,
        max_bytes: int | None = None,
        size: Callable[[Value], int] = lambda value: 0,
    ) -> None:
        if capacity < 1:
            raise InvalidConfigError(f"a cache's capacity must be at least 1, got {capacity}")
        self.capacity = capacity
        self.max_bytes = max_bytes
        self._size = size
        self._nbytes = 0
        self._sizes: dict[Hashable, int] = {}
        self._entries: OrderedDict[Hashable, Value] = OrderedDict()
        self._renew_locks()
        call_in_child(self._renew_locks)
        self.at_hand: dict[int, Any] = {}
        self._hits = self._misses = self._evictions = 0

    def _renew_locks(self) -> None:
        self._lock = threading.Lock()
        self._making: dict[Hashable, threading.RLock] = {}

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the entry of `key`. If it is missing, call `make` and cache the result."""
        with self._lock:
            cached = self._entries.get(key, _ABSENT)
            if cached is not _ABSENT:
                self._hits += 1
                self._entries.move_to_end(key)
                return cached  # pyright: ignore[reportReturnType]  # because `_ABSENT` was excluded
            making = self._making.setdefault(key, threading.RLock())
        with making:
            with self._lock:
                if key in self._entries:  # another thread has computed it meanwhile
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
                self._sizes[key] = self._size(value)
                self._nbytes += self._sizes[key]
                while self._exceeds_limits():
                    dropped, _ = self._entries.popitem(last=False)
                    # A process forked between storing an entry and storing its size has no size for the entry's key.
                    self._nbytes -= self._sizes.pop(dropped, 0)
                    self._evictions += 1
                    self.at_hand.clear()
            return value

    def _exceeds_limits(self) -> bool:
        count = len(self._entries)
        too_large = self.max_bytes is not None and self._nbytes > self.max_bytes
        return count > self.capacity or (too_large and count > 1)

    def find(self, key: Hashable) -> Value | None:
        """Return the entry of `key`, or None. The lookup does not change which entry is dropped next."""
        cached = self._entries.get(key)
        self._hits += cached is not None
        return cached

    def count_hit(self) -> None:
        """Count a lookup that found its entry in `at_hand`."""
        self._hits += 1

    def keep_at_hand(self, key: int, entry: Any) -> None:
        """Add an entry to `at_hand`, for faster lookups by `key`."""
        if len(self.at_hand) >= MAX_AT_HAND:
            self.at_hand.clear()
        self.at_hand[key] = entry

    def entries(self) -> list[Value]:
        """Return the cached values, least recently used first."""
        return [value for _, value in self.items()]

    def items(self) -> list[tuple[Any, Value]]:
        """Return the keys and cached values, least recently used first."""
        with self._lock:
            return list(self._entries.items())

    def clear(self) -> None:
        """Remove all entries, and set all counts to zero."""
        with self._lock:
            self._entries.clear()
            self._sizes.clear()
            self.at_hand.clear()
            self._nbytes = 0
            self._hits = self._misses = self._evictions = 0

    def stats(self) -> CacheStats:
        """Return hits, misses, evictions, entries, capacity and bytes."""
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
    """Key that identifies one cache of an extension family: the family's id, and the name of the cache."""

    family_id: str
    name: str


class ExtensionCaches:
    """Bounded caches, called stores, of the plans of extensions; one executor, compiler or context owns them.

    Args:
        capacity: the maximum number of stores, and of entries in each store. A store or entry above that number
            replaces the least recently used one.
        max_bytes: the maximum total size of the entries of one store, in bytes. The newest entry is cached even if it
            is larger.
        owner: the executor, compiler or context that owns the stores. For a runtime, it is the executor that calls the
            runtime.

    >>> caches = ExtensionCaches()
    >>> plans = caches.store(ExtensionCacheKey("example.fft.v1", "plans"))
    >>> plans.get(8, lambda: "plan for 8"), plans.capacity, len(caches)
    ('plan for 8', 256, 1)
    """

    def __init__(self, capacity: int = 256, *, max_bytes: int = 1 << 28, owner: Any = None) -> None:
        self.capacity = capacity
        self.max_bytes = max_bytes
        self._owner = None if owner is None else weakref.ref(owner)
        self._stores: BoundedCache[BoundedCache[Any]] = BoundedCache(capacity)

    @property
    def owner(self) -> Any:
        """The executor, compiler or context that owns the stores; None if it was deleted, or was never set."""
        return None if self._owner is None else self._owner()

    def store(self, key: ExtensionCacheKey) -> BoundedCache[Any]:
        """Return the store with the key `key`, which is created if it does not exist."""
        return self._stores.get(
            key, lambda: BoundedCache(self.capacity, self.max_bytes, bytes_held_by)
        )

    def stats(self) -> dict[ExtensionCacheKey, CacheStats]:
        """Return, for each store, its hits, misses, evictions, entries, capacity and bytes."""
        return {key: store.stats() for key, store in self._stores.items()}

    @property
    def retained_bytes(self) -> int:
        """Total size of all entries in bytes, including arrays in containers and in objects that entries refer to."""
        return sum(
            bytes_held_by(entry) for _, store in self._stores.items() for entry in store.entries()
        )

    def clear(self) -> None:
        """Remove all entries of all stores."""
        for _, store in self._stores.items():
            store.clear()

    def forget(self, family_id: str) -> None:
        """Remove all entries of the stores of one family."""
        for key, store in self._stores.items():
            if key.family_id == family_id:
                store.clear()

    def __len__(self) -> int:
        return sum(len(store) for _, store in self._stores.items())


MAX_COUNTED_OBJECTS = 100_000
"""Maximum number of objects that `bytes_held_by` visits."""


def bytes_held_by(value: Any) -> int:
    """Return the total size in bytes of an object and of all objects that it refers to. Each object is counted once.

    An object with an attribute `nbytes` counts as that many bytes, and a program as its `constant_bytes`. Modules,
    classes and functions are not counted.

    >>> import numpy as np
    >>> bytes_held_by({"plan": (np.zeros(1000), [np.zeros(10)])}) > 8080
    True
    """
    total, seen, remaining = 0, set[int](), [value]
    while remaining and len(seen) < MAX_COUNTED_OBJECTS:
        item = remaining.pop()
        if id(item) in seen or isinstance(item, type | FunctionType | ModuleType):
            continue
        seen.add(id(item))
        nbytes = getattr(item, "nbytes", None)
        if isinstance(nbytes, int):
            total += nbytes
            continue
        total += sys.getsizeof(item)
        constant_bytes = getattr(item, "constant_bytes", None)
        if isinstance(constant_bytes, int):
            total += constant_bytes
            continue
        if isinstance(item, Mapping):
            remaining += [*item, *item.values()]
        elif isinstance(item, tuple | list | set | frozenset):
            remaining += item
        else:
            remaining += getattr(item, "__dict__", {}).values()
            names = [name for cls in type(item).__mro__ for name in _slots(cls)]
            remaining += [getattr(item, name) for name in names if hasattr(item, name)]
    return total


def _slots(cls: type[Any]) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
