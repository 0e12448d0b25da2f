"""Memory of values in the middle of a program: planned when it is compiled, kept between runs.

A large array that is freed goes back to the operating system, and the next one costs a page fault for every
few thousand bytes. So values that never leave the program get places in one piece of memory by the span of
instructions over which they are needed, and the executor keeps the piece.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tenferro.aligned import aligned_bytes, rounded
from tenferro.errors import InvalidConfigError
from tenferro.program.memory_plan import Block, MemoryPlan

__all__ = ["Arena", "ArenaStats", "checked_capacity", "plan_memory"]

FEW = 512
"""Blocks that are placed by size, which packs them best; more are placed in the order of the program."""


def plan_memory(wanted: Iterable[Block]) -> MemoryPlan:
    """Offsets for blocks; those that are needed at the same time do not overlap."""
    blocks = sorted(wanted, key=lambda block: (block.first, block.slot))
    placed = _in_order(blocks)
    if len(blocks) <= FEW:
        placed = min(placed, _by_size(blocks), key=_size)
    return MemoryPlan(tuple(placed), _size(placed), _bound(blocks))


def _size(blocks: list[Block]) -> int:
    return max([block.offset + _room(block) for block in blocks], default=0)


def _room(block: Block) -> int:
    return rounded(block.size)


def _bound(blocks: list[Block]) -> int:
    """The most that lives at once."""
    change: dict[int, int] = {}
    for block in blocks:
        change[block.first] = change.get(block.first, 0) + _room(block)
        change[block.last + 1] = change.get(block.last + 1, 0) - _room(block)
    most = alive = 0
    for when in sorted(change):
        alive += change[when]
        most = max(most, alive)
    return most


def _placed(block: Block, offset: int) -> Block:
    return Block(block.slot, block.size, block.first, block.last, offset)


def _in_order(blocks: list[Block]) -> list[Block]:
    """Each into the tightest gap that is free when it begins."""
    gaps: list[tuple[int, int]] = []  # (offset, end), sorted, apart from each other
    ends: list[tuple[int, int, int]] = []  # (last, offset, end) of what lives
    found: list[Block] = []
    top = 0
    for block in blocks:
        while ends and ends[0][0] < block.first:
            _, offset, end = ends.pop(0)
            _free(gaps, offset, end)
        room = _room(block)
        fitting = [gap for gap in gaps if gap[1] - gap[0] >= room]
        if fitting:
            offset, end = min(fitting, key=lambda gap: gap[1] - gap[0])
            gaps.remove((offset, end))
            if end > offset + room:
                insort(gaps, (offset + room, end))
        else:
            offset = top
            if gaps and gaps[-1][1] == top:
                offset = gaps.pop()[0]
            top = offset + room
        insort(ends, (block.last, offset, offset + room))
        found.append(_placed(block, offset))
    return found


def _free(gaps: list[tuple[int, int]], offset: int, end: int) -> None:
    """Give a place back, as one with the gaps beside it."""
    where = bisect_left(gaps, (offset, end))
    if where < len(gaps) and gaps[where][0] == end:
        end = gaps.pop(where)[1]
    if where and gaps[where - 1][1] == offset:
        offset = gaps.pop(where - 1)[0]
    insort(gaps, (offset, end))


def _by_size(blocks: list[Block]) -> list[Block]:
    """The largest first, each as low as those that live beside it allow."""
    found: list[Block] = []
    for block in sorted(blocks, key=lambda block: -block.size):
        offset = 0
        beside = [b for b in found if b.first <= block.last and block.first <= b.last]
        for other in sorted(beside, key=lambda b: b.offset):
            if other.offset - offset >= _room(block):
                break
            offset = max(offset, other.offset + _room(other))
        found.append(_placed(block, offset))
    return sorted(found, key=lambda block: (block.first, block.slot))


@dataclass(frozen=True, slots=True)
class ArenaStats:
    """What an arena has done since it was made or cleared.

    Attributes:
        reused, made: pieces that were handed out again, and for the first time.
        held: bytes that wait for the next run.
        capacity: the most that may wait.
    """

    reused: int
    made: int
    held: int
    capacity: int


def checked_capacity(owner: str, capacity: int) -> int:
    """How many bytes may wait.

    Raises:
        InvalidConfigError: fewer than none.
    """
    if isinstance(capacity, bool) or capacity < 0:
        raise InvalidConfigError(f"{owner}'s capacity is at least 0 bytes, got {capacity!r}")
    return capacity


class Arena:
    """Pieces of memory that wait for the next run; one for each run that goes on at the same time.

    Args:
        capacity: the most bytes that wait. A program that needs more gets them for one run.

    >>> arena = Arena(1 << 20)
    >>> piece = arena.take(1000)
    >>> arena.give(piece)
    >>> arena.take(500) is piece, arena.stats()
    (True, ArenaStats(reused=1, made=1, held=0, capacity=1048576))
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = checked_capacity("an arena", capacity)
        self._lock = threading.Lock()
        self._free: list[Any] = []
        self._reused = self._made = 0

    def take(self, size: int) -> Any:
        """An array of at least so many bytes, aligned to a line of the cache."""
        with self._lock:
            fitting = [piece for piece in self._free if piece.size >= size]
            if fitting:
                piece = min(fitting, key=len)
                self._free = [other for other in self._free if other is not piece]
                self._reused += 1
                return piece
            self._made += 1
        return aligned_bytes(size)

    def give(self, piece: Any) -> None:
        """Back, once nothing looks at it any more; smaller pieces go first where all are too many."""
        with self._lock:
            self._free = sorted([*self._free, piece], key=len)
            while sum(map(len, self._free)) > self.capacity:
                del self._free[0]

    def clear(self) -> None:
        """Let go of what waits."""
        with self._lock:
            self._free.clear()
            self._reused = self._made = 0

    def stats(self) -> ArenaStats:
        """What the arena has done."""
        with self._lock:
            return ArenaStats(self._reused, self._made, sum(map(len, self._free)), self.capacity)
