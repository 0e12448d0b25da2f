"""Memory planning: assigns an offset in one buffer to each value; values that are live together do not overlap."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from heapq import heappop, heappush
from itertools import accumulate

from tenferro.aligned import rounded
from tenferro.program.memory_plan import Block, MemoryPlan

__all__ = ["plan_memory"]


def plan_memory(wanted: Iterable[Block]) -> MemoryPlan:
    """Return a plan in which blocks with overlapping live ranges do not overlap in memory.

    In the order in which live ranges begin, each block is placed in the smallest gap that is large enough, or else at
    the end of the buffer.
    """
    gaps: list[tuple[int, int]] = []  # offset and end; disjoint and sorted
    living: list[tuple[int, int, int]] = []  # last step, offset and end; a heap
    blocks: list[Block] = []
    top = 0
    for block in sorted(wanted, key=lambda block: (block.first, block.slot)):
        while living and living[0][0] < block.first:
            _, offset, end = heappop(living)
            _give_back(gaps, offset, end)
        size = rounded(block.size)
        fitting = [gap for gap in gaps if gap[1] - gap[0] >= size]
        if fitting:
            offset, end = min(fitting, key=lambda gap: gap[1] - gap[0])
            gaps.remove((offset, end))
            if end > offset + size:
                insort(gaps, (offset + size, end))
        else:
            offset = gaps.pop()[0] if gaps and gaps[-1][1] == top else top
            top = offset + size
        heappush(living, (block.last, offset, offset + size))
        blocks.append(replace(block, offset=offset))
    return MemoryPlan(tuple(blocks), top, _bound(blocks))


def _give_back(gaps: list[tuple[int, int]], offset: int, end: int) -> None:
    """Add a gap to the list, and merge it with adjacent gaps."""
    where = bisect_left(gaps, (offset, end))
    if where < len(gaps) and gaps[where][0] == end:
        end = gaps.pop(where)[1]
    if where and gaps[where - 1][1] == offset:
        offset = gaps.pop(where - 1)[0]
    insort(gaps, (offset, end))


def _bound(blocks: Iterable[Block]) -> int:
    """Return the maximum over all steps of the total size of the live blocks."""
    changes = Counter[int]()
    for block in blocks:
        changes[block.first] += rounded(block.size)
        changes[block.last + 1] -= rounded(block.size)
    return max(accumulate([changes[when] for when in sorted(changes)]), default=0)
