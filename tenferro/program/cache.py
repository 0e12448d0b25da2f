"""`BoundedCache`: the class of all caches, with an owner, a bound, statistics, and a clear method.

`ExtensionCaches` are the stores of it that extensions may fill, owned by an executor, a compiler or an
`AdContext`.

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
    """Counts of a cache since it was created or cleared."""

    hits: int
    misses: int
    evictions: int
    entries: int
    capacity: int
    nbytes: int = 0


_ABSENT: Any = object()
AT_HAND = 64
"""The largest number of entries at hand."""


class BoundedCache(Generic[Value]):
    """A least-recently-used cache; safe from many threads.

    Args:
        capacity: the largest number of entries.
        max_bytes: their largest total size, by the function `size`; the newest entry is kept, however large
            it is.

    Attributes:
        at_hand: recent entries, by keys that are quick to look up; emptied whenever the cache drops an entry.

    Of several threads that miss on one key at once, one computes and the others wait for it.

    >>> cache = BoundedCache(capacity=1)
    >>> cache.get("a", lambda: 1), cache.get("a", lambda: 2), cache.get("b", lambda: 3)
    (1, 1, 3)
    >>> cache.stats()
    CacheStats(hits=1, misses=2, evictions=1, entries=1, capacity=1, nbytes=0)

    Raises:
        InvalidConfigError: a capacity below 1.
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
            raise InvalidConfigError(f"a cache's capacity is at least 1, got {capacity}")
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
        """The entry of `key`, created now if there is none."""
        with self._lock:
            cached = self._entries.get(key, _ABSENT)
            if cached is not _ABSENT:
                self._hits += 1
                self._entries.move_to_end(key)
                return cached  # pyright: ignore[reportReturnType]  # because it is no absent one
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
                self._sizes[key] = self._size(value)
                self._nbytes += self._sizes[key]
                while self._is_over():
                    dropped, _ = self._entries.popitem(last=False)
                    # It has no size in a child that was forked between the two lines above.
                    self._nbytes -= self._sizes.pop(dropped, 0)
                    self._evictions += 1
                    self.at_hand.clear()
            return value

    def _is_over(self) -> bool:
        count = len(self._entries)
        too_large = self.max_bytes is not None and self._nbytes > self.max_bytes
        return count > self.capacity or (too_large and count > 1)

    def find(self, key: Hashable) -> Value | None:
        """The entry of `key` if it is cached, without an update of its age; None if there is none."""
        cached = self._entries.get(key)
        self._hits += cached is not None
        return cached

    def count_hit(self) -> None:
        """Count a hit in the table of entries at hand."""
        self._hits += 1

    def keep_at_hand(self, key: int, entry: Any) -> None:
        """Put an entry into the table of entries at hand."""
        if len(self.at_hand) >= AT_HAND:
            self.at_hand.clear()
        self.at_hand[key] = entry

    def entries(self) -> list[Value]:
        """The cached values, least recently used first."""
        return [value for _, value in self.items()]

    def items(self) -> list[tuple[Any, Value]]:
        """The keys and cached values, least recently used first."""
        with self._lock:
            return list(self._entries.items())

    def clear(self) -> None:
        """Drop every entry and reset the counts."""
        with self._lock:
            self._entries.clear()
            self._sizes.clear()
            self.at_hand.clear()
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
    """The key of one store of an extension: its family and the store's name."""

    family_id: str
    name: str


class ExtensionCaches:
    """The stores that extensions keep plans in, owned by one executor, compiler or context; each is a bounded LRU.

    Args:
        capacity: the largest number of entries of a store, and of stores; least recently used are dropped first.
        max_bytes: the largest total size of a store's entries; the newest entry is kept.
        owner: the owner of the stores. For a runtime it is the executor that runs it.

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
        """The executor, compiler or context that owns the stores; None if it is gone, or was not registered."""
        return None if self._owner is None else self._owner()

    def store(self, key: ExtensionCacheKey) -> BoundedCache[Any]:
        """The store of that name, created empty when there is none."""
        return self._stores.get(
            key, lambda: BoundedCache(self.capacity, self.max_bytes, bytes_held_by)
        )

    def stats(self) -> dict[ExtensionCacheKey, CacheStats]:
        """Hits, misses, evictions, entries, capacity and bytes of each store."""
        return {key: store.stats() for key, store in self._stores.items()}

    @property
    def retained_bytes(self) -> int:
        """Bytes that all entries hold now: of arrays, in containers and in objects that entries refer to."""
        return sum(
            bytes_held_by(entry) for _, store in self._stores.items() for entry in store.entries()
        )

    def clear(self) -> None:
        """Empty every store."""
        for _, store in self._stores.items():
            store.clear()

    def forget(self, family_id: str) -> None:
        """Empty the stores of one family."""
        for key, store in self._stores.items():
            if key.family_id == family_id:
                store.clear()

    def __len__(self) -> int:
        return sum(len(store) for _, store in self._stores.items())


COUNTED = 100_000
"""Objects that one entry is followed into."""


def bytes_held_by(value: Any) -> int:
    """The bytes of an object and of the objects that it refers to, each counted once; arrays by their elements.

    An object with `nbytes` counts as that many bytes, and a program as its `constant_bytes`.
    Modules, classes and functions are not counted.

    >>> import numpy as np
    >>> bytes_held_by({"plan": (np.zeros(1000), [np.zeros(10)])}) > 8080
    True
    """
    total, seen, remaining = 0, set[int](), [value]
    while remaining and len(seen) < COUNTED:
        one = remaining.pop()
        if id(one) in seen or isinstance(one, type | FunctionType | ModuleType):
            continue
        seen.add(id(one))
        told = getattr(one, "nbytes", None)
        if isinstance(told, int):
            total += told
            continue
        total += sys.getsizeof(one)
        constants = getattr(one, "constant_bytes", None)
        if isinstance(constants, int):
            total += constants
            continue
        if isinstance(one, Mapping):
            remaining += [*one, *one.values()]
        elif isinstance(one, tuple | list | set | frozenset):
            remaining += one
        else:
            remaining += getattr(one, "__dict__", {}).values()
            names = [name for cls in type(one).__mro__ for name in _slots(cls)]
            remaining += [getattr(one, name) for name in names if hasattr(one, name)]
    return total


def _slots(cls: type[Any]) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
