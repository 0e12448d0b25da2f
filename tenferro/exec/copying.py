"""Copies into another order of axes, in strips or tiles that a cache holds.

NumPy walks a copy in the order of the result. Where the source lies in another order, each element read
is then a cache line fetched, and for large arrays fetched again for the next element. Walked in strips of
the result, or in tiles that are short runs of both orders, each line is fetched once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from math import inf, prod
from typing import Any, Literal, TypeAlias

import numpy as np

from tenferro.exec.runtime.resources import CALLER, Resources
from tenferro.exec.runtime.threads import ALONE, Workers
from tenferro.exec.runtime.turn import LINE, turn_of

__all__ = ["Copy", "Dense", "fastest_axis"]

SMALLEST = 1 << 22
"""Bytes below which the caches hold both arrays, and any order is as good."""
SHARED = 1 << 22
"""Bytes whose copy is worth sharing among threads."""
STREAMED = 1 << 21
"""Bytes of results that compiled copies write around the caches, which hold no more of them than what is read next;
and share among threads, because a thread takes longer to wake than smaller ones take.
"""
NEAR = 1024
"""Lines of the source that stay in cache, and pages whose addresses do, until their next element is read."""
STRIP = 128
"""Elements of the result's fastest axis that are copied at once."""
COLLIDING = 1 << 11
"""Steps in bytes that are multiples of it lead to the same few places of the cache."""
TURNED = 1 << 17
"""Bytes from which scratch in between pays where the steps collide."""
TILE = 128
"""Elements of the runs of both orders that make a tile."""
LONGEST_ITEM = 64
"""Bytes of a run in both orders that moves as if it were one element."""
SHORT = 16
"""Extent below which an axis is no run by itself."""
PIECE = 1024
"""Elements that are worth a call."""
Order: TypeAlias = Literal["C", "F"]
Axes = tuple[int, ...]
Tile = tuple[dict[int, int], dict[int, int]]
"""How much of which axes makes the runs of the result, and those of the source, each slowest first."""
LAYOUTS = 8
"""Kept by one `Dense`: results of one program have few."""
Layout = tuple[tuple[int, ...], tuple[int, ...], int]
"""Shape, strides and bytes of an element."""
Walk = Callable[[Any, Any, Workers], None]
"""Writes the second array into the first."""


class Dense:
    """New arrays with the elements of others, in "C" or "F" order.

    How a large one is copied is planned once for each layout.
    """

    def __init__(self, order: Order, resources: Resources = CALLER) -> None:
        self.order: Order = order
        self.resources = resources
        self._copies: dict[Layout, Copy] = {}

    def __call__(self, x: Any) -> Any:
        """The array, in memory of its own."""
        if x.nbytes < TURNED:
            return np.array(x, order=self.order, copy=True)
        memory = self.resources.memory
        out = np.ndarray(x.shape, x.dtype, memory.lend(x.nbytes), order=self.order)
        self._copy_of(x)(out, x, self.resources)
        return out

    def is_worth(self, x: Any) -> bool:
        """Whether copies of such arrays are walked in another order than NumPy's, which would wait for memory."""
        return x.nbytes >= TURNED and self._copy_of(x).walk is not _by_numpy

    def _copy_of(self, x: Any) -> Copy:
        layout = x.shape, x.strides, x.itemsize
        copy = self._copies.get(layout)
        if copy is None:
            if len(self._copies) >= LAYOUTS:
                self._copies.clear()
            out = np.empty(x.shape, x.dtype, order=self.order)
            copy = self._copies[layout] = Copy(out, x)
        return copy


class Copy:
    """How arrays of given shapes, strides and dtype are copied."""

    def __init__(self, out: Any, x: Any, is_streamed: bool | None = None) -> None:
        """Choose the order in which the arrays are walked, from their strides.

        Args:
            is_streamed: whether `out` is written around the caches where it can be; None leaves it to its size.
        """
        self.perm, self.shape = _merged(x, out)
        self.run = 0
        source, target = self._views(x), self._views(out)
        run = self.shape[-1] * x.itemsize if len(self.shape) > 1 else LONGEST_ITEM + 1
        if run <= LONGEST_ITEM and source.strides[-1] == target.strides[-1] == x.itemsize:
            self.run = run
            source, target = self._views(x), self._views(out)
        self.walk = _planned(target, source)
        streams = x.nbytes >= STREAMED if is_streamed is None else is_streamed
        self.turn = turn_of(target, source, streams) if x.nbytes >= TURNED else None
        self._moved = 0

    def __call__(self, out: Any, x: Any, resources: Resources = CALLER) -> None:
        """Write x into `out`."""
        target, source = self._views(out), self._views(x)
        self._moved += x.nbytes
        turner, is_whole = resources.turner, out.ctypes.data % LINE == 0
        compiled = None
        if turner is not None and self.turn is not None and is_whole:
            compiled = turner.function(self.turn) if self._moved >= turner.worth else None
        if compiled:
            function, tasks = compiled
            pointers = source.ctypes.data, target.ctypes.data
            workers = resources.workers if x.nbytes >= STREAMED else ALONE
            workers.share(partial(function, *pointers), tasks)
        else:
            self.walk(target, source, resources.workers)

    def _views(self, x: Any) -> Any:
        """In the order of the result, slowest axis first, with axes as one that step as one in both.

        A short run of neighbours that both have in common is one element.
        """
        x = x.transpose(self.perm).reshape(self.shape, copy=False)
        return x.view(f"V{self.run}")[..., 0] if self.run else x


def _planned(target: Any, source: Any) -> Walk:
    if not source.ndim or not source.size:
        return _by_numpy
    fast, slow = fastest_axis(target), fastest_axis(source)
    nbytes = source.size * source.itemsize
    tile = tile_of(target, source) if nbytes >= TURNED else None
    if tile and collides(source, tile):
        return _by_tiles(target, source, tile)
    between = prod(source.shape[slow + 1 :])
    if nbytes < SMALLEST or (between <= NEAR and source.shape[fast] >= SHORT):
        return _by_numpy
    if (
        min(source.shape[fast], source.shape[slow]) >= SHORT
        and source.shape[slow] * min(source.shape[fast], STRIP) >= PIECE
    ):
        return _by_strips(source, fast, slow)
    return _by_tiles(target, source, tile) if tile else _by_numpy


def collides(source: Any, tile: Tile) -> bool:
    """Whether the lines read for a run of the result evict each other from the cache."""
    rows, _ = tile
    far = [n for axis, n in rows.items() if source.strides[axis] % COLLIDING == 0]
    return prod(far) >= SHORT


def _by_numpy(target: Any, source: Any, workers: Workers) -> None:
    """In the order of the result, its slowest axis shared among threads."""
    if source.nbytes < SHARED:
        np.copyto(target, source)
        return

    def work(first: int, last: int) -> None:
        np.copyto(target[first:last], source[first:last])

    workers.share(work, source.shape[0])


def fastest_axis(x: Any) -> int:
    """The axis along which neighbours are nearest."""
    return min(range(x.ndim), key=lambda axis: abs(x.strides[axis]) or inf, default=0)


def _merged(x: Any, out: Any) -> tuple[list[int], list[int]]:
    """An order of axes, slowest of `out` first, and their extents, where axes that step as one in both are one."""
    order = sorted(range(x.ndim), key=lambda axis: -abs(out.strides[axis]))
    shape: list[int] = []
    last = (0, 0)
    for axis in order:
        n, step = x.shape[axis], (x.strides[axis], out.strides[axis])
        if n == 1:
            continue
        if shape and last == (step[0] * n, step[1] * n):
            shape[-1] *= n
        else:
            shape.append(n)
        last = step
    return order, shape


def _by_strips(source: Any, fast: int, slow: int) -> Walk:
    """Swap two long axes, a strip of the result's fastest at a time; the others one by one."""
    order = _with_last(source.ndim, slow, fast)
    *others, _, length = (source.shape[axis] for axis in order)
    places = [
        (*outer, slice(None), slice(start, start + STRIP))
        for outer in product(*map(range, others))
        for start in range(0, length, STRIP)
    ]
    return partial(_in_places, order, places)


def _in_places(
    order: Axes, places: Sequence[Any], target: Any, source: Any, workers: Workers
) -> None:
    source, target = source.transpose(order), target.transpose(order)

    def work(first: int, last: int) -> None:
        for index in places[first:last]:
            target[index] = source[index]

    (workers if source.nbytes >= SHARED else ALONE).share(work, len(places))


def _by_tiles(target: Any, source: Any, tile: Tile) -> Walk:
    """Copy tile by tile through padded scratch: its rows are runs of the source, its columns runs of the result."""
    rows, columns = tile
    outer = [axis for axis in range(source.ndim) if axis not in {*rows, *columns}]
    order = (*outer, *rows, *columns)
    cut = dict.fromkeys(outer, 1) | rows | columns
    # Small tiles are taken several at once.
    several = TILE * TILE // prod(cut.values())
    for axis in reversed(outer):
        cut[axis] = max(1, min(source.shape[axis], several))
        several //= source.shape[axis]
    places = list(_blocks([source.shape[axis] for axis in order], [cut[axis] for axis in order]))
    split = len(outer) + len(rows)
    room = prod(cut[axis] for axis in order[:split]), prod(columns.values())

    def walk(target: Any, source: Any, workers: Workers) -> None:
        source, target = source.transpose(order), target.transpose(order)

        def work(first: int, last: int) -> None:
            scratch = np.empty((room[0], room[1] + LINE // source.itemsize), source.dtype)
            for index in places[first:last]:
                part = source[index]
                block = scratch[: prod(part.shape[:split]), : prod(part.shape[split:])]
                block = block.reshape(part.shape)
                block[...] = part
                target[index] = block

        (workers if source.nbytes >= SHARED else ALONE).share(work, len(places))

    return walk


def tile_of(target: Any, source: Any) -> Tile | None:
    """The fastest axes of the result and, apart from them, those of the source, as far as they make a tile.

    None where they have so much in common that one of them is short.
    """
    left = (
        list(range(target.ndim)),
        sorted(range(source.ndim), key=lambda axis: -abs(source.strides[axis])),
    )
    tile: Tile = ({}, {})
    sizes = [1, 1]
    while open_ := [side for side in (0, 1) if left[side] and sizes[side] < TILE]:
        side = min(open_, key=lambda side: sizes[side])
        axis = left[side].pop()
        if axis in tile[1 - side]:
            left[side].clear()
            continue
        pieces = -(-source.shape[axis] * sizes[side] // TILE)
        if pieces > 1:
            left[side].clear()
        tile[side][axis] = -(-source.shape[axis] // pieces)
        sizes[side] *= tile[side][axis]
    if min(sizes) < TILE // 4:
        return None
    rows, columns = ({axis: side[axis] for axis in reversed(side)} for side in tile)
    return rows, columns


def _with_last(rank: int, *last: int) -> Axes:
    """These axes behind all others."""
    return (*[axis for axis in range(rank) if axis not in last], *last)


def _blocks(shape: Sequence[int], cut: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    lines = [
        [slice(start, min(start + step, n)) for start in range(0, n, step)]
        for n, step in zip(shape, cut, strict=True)
    ]
    return product(*lines)
