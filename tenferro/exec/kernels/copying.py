"""Transposing copies, in strips or tiles that a cache holds.

NumPy traverses a copy in the order of the result. If the source has another layout, each element that is read loads a
cache line, which large arrays evict before its next element is read. In strips or tiles each line is loaded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from math import inf, prod
from typing import Any, Literal, TypeAlias

import numpy as np

from tenferro import costs
from tenferro.exec.layout import Axes, by_stride, row_major
from tenferro.exec.runtime.resources import SERIAL_RESOURCES, Resources
from tenferro.exec.runtime.threads import SERIAL, Workers
from tenferro.exec.runtime.transposition import LINE, transposition_of

__all__ = ["Copy", "Dense", "fastest_axis", "has_planned_order"]

MIN_BLOCKED_BYTES = 8 * costs.CACHE
"""Minimum number of bytes for strips and tiles; caches hold smaller arrays."""
MIN_PARALLEL_BYTES = 8 * costs.CACHE
"""Minimum number of bytes of a copy that threads share."""
MIN_STREAMED_BYTES = 4 * costs.CACHE
"""Minimum number of bytes of a result for which compiled copies bypass the caches and run on several threads.

Smaller results take less time than waking a thread."""
MAX_CACHED_LINES = 1024
"""Maximum number of cache lines, and of pages, that stay cached until their next element is read."""
STRIP_ELEMENTS = 128
"""Number of elements along the result's fastest axis per strip."""
ALIASING_STRIDE = 1 << 11
"""Stride in bytes whose multiples map to the same few cache sets."""
MIN_TILED_BYTES = costs.CACHE // 4
"""Minimum number of bytes of a copy that is compiled, or goes through a scratch tile if strides alias.

Compiling takes as long as about fifty copies by NumPy, the break-even of fused groups."""
TILE_ELEMENTS = 128
"""Number of elements along each side of a tile."""
MAX_ITEM_BYTES = 64
"""Maximum number of bytes of a run, contiguous in both arrays, that is copied as one element."""
MIN_RUN_ELEMENTS = 16
"""Minimum extent of an axis that counts as a run."""
MIN_CALL_ELEMENTS = 1024
"""Minimum number of elements of a strip."""
Order: TypeAlias = Literal["C", "F"]
Tile = tuple[dict[int, int], dict[int, int]]
"""Extent per axis of the rows and of the columns of a tile, each slowest first."""
MAX_PLANS = 8
"""Maximum number of copies that a `Dense` caches; results of a program have few layouts."""
LayoutKey = tuple[tuple[int, ...], tuple[int, ...], int]
"""Shape, strides, and bytes of an element."""
Walk = Callable[[Any, Any, Workers], None]
"""Function that writes its second argument into the first, on some threads."""


class Dense:
    """Conversion of arrays to "C" or "F" order in new memory.

    The copy of a large array is planned once per layout.
    """

    def __init__(self, order: Order, resources: Resources = SERIAL_RESOURCES) -> None:
        self.order: Order = order
        self.resources = resources
        self._copies: dict[LayoutKey, Copy] = {}

    def __call__(self, x: Any) -> Any:
        """Return a copy of the array in this order."""
        if x.nbytes < MIN_TILED_BYTES:
            return np.array(x, order=self.order, copy=True)
        memory = self.resources.memory.allocate(x.nbytes)
        out = np.ndarray(x.shape, x.dtype, memory, order=self.order)
        self._copy_of(x)(out, x, self.resources)
        return out

    def _copy_of(self, x: Any) -> Copy:
        layout = x.shape, x.strides, x.itemsize
        copy = self._copies.get(layout)
        if copy is None:
            if len(self._copies) >= MAX_PLANS:
                self._copies.clear()
            out = np.empty(x.shape, x.dtype, order=self.order)
            copy = self._copies[layout] = Copy(out, x)
        return copy


def has_planned_order(x: Any) -> bool:
    """Return whether row-major copies of such arrays have an order other than NumPy's, which would be bound by memory."""
    if x.nbytes < MIN_TILED_BYTES:
        return False
    out = row_major(x.shape).outline(x.itemsize)
    return Copy(out, x).walk is not _copy_in_order


class Copy:
    """Copy between arrays of given shapes, strides and dtype."""

    def __init__(self, out: Any, x: Any, is_streamed: bool | None = None) -> None:
        """Choose the order of traversal from the strides.

        Args:
            is_streamed: stores to `out` bypass the caches where possible; None decides by its size.
        """
        self.perm, self.shape = _merge_axes(x, out)
        self.run = 0
        source, target = self._views(x), self._views(out)
        run = self.shape[-1] * x.itemsize if len(self.shape) > 1 else MAX_ITEM_BYTES + 1
        if run <= MAX_ITEM_BYTES and source.strides[-1] == target.strides[-1] == x.itemsize:
            self.run = run
            source, target = self._views(x), self._views(out)
        self.walk = _plan_walk(target, source)
        streams = x.nbytes >= MIN_STREAMED_BYTES if is_streamed is None else is_streamed
        self.transposition = (
            transposition_of(target, source, streams) if x.nbytes >= MIN_TILED_BYTES else None
        )

    def __call__(self, out: Any, x: Any, resources: Resources = SERIAL_RESOURCES) -> None:
        """Write x into `out`."""
        target, source = self._views(out), self._views(x)
        transposer, is_aligned = resources.transposer, out.ctypes.data % LINE == 0
        compiled = None
        if transposer is not None and self.transposition is not None and is_aligned:
            compiled = transposer().function(self.transposition)
        if compiled:
            function, tasks = compiled
            pointers = source.ctypes.data, target.ctypes.data
            workers = resources.workers if x.nbytes >= MIN_STREAMED_BYTES else SERIAL
            workers.parallel_for(partial(function, *pointers), tasks)
        else:
            self.walk(target, source, resources.workers)

    def _views(self, x: Any) -> Any:
        """Return the array with axes in the order of the result, slowest first, and merged where both arrays allow.

        A short run that is contiguous in both arrays is viewed as one element.
        """
        x = x.transpose(self.perm).reshape(self.shape, copy=False)
        return x.view(f"V{self.run}")[..., 0] if self.run else x


def _plan_walk(target: Any, source: Any) -> Walk:
    if not source.ndim or not source.size:
        return _copy_in_order
    fast, slow = fastest_axis(target), fastest_axis(source)
    nbytes = source.size * source.itemsize
    tile = choose_tile(target, source) if nbytes >= MIN_TILED_BYTES else None
    if tile and has_set_conflicts(source, tile):
        return _plan_tiles(target, source, tile)
    between = prod(source.shape[slow + 1 :])
    height, width = source.shape[slow], source.shape[fast]
    stays_cached = between <= MAX_CACHED_LINES and width >= MIN_RUN_ELEMENTS
    if nbytes < MIN_BLOCKED_BYTES or stays_cached:
        return _copy_in_order
    is_large_strip = height * min(width, STRIP_ELEMENTS) >= MIN_CALL_ELEMENTS
    if min(height, width) >= MIN_RUN_ELEMENTS and is_large_strip:
        return _plan_strips(source, fast, slow)
    return _plan_tiles(target, source, tile) if tile else _copy_in_order


def has_set_conflicts(source: Any, tile: Tile) -> bool:
    """Return whether the lines that are read for a run of the result evict each other from the cache."""
    rows, _ = tile
    far = [n for axis, n in rows.items() if source.strides[axis] % ALIASING_STRIDE == 0]
    return prod(far) >= MIN_RUN_ELEMENTS


def _copy_in_order(target: Any, source: Any, workers: Workers) -> None:
    """Copy in the order of the result, and split its slowest axis among threads."""
    if source.nbytes < MIN_PARALLEL_BYTES:
        np.copyto(target, source)
        return

    def work(first: int, last: int) -> None:
        np.copyto(target[first:last], source[first:last])

    workers.parallel_for(work, source.shape[0])


def fastest_axis(x: Any) -> int:
    """Return the axis with the smallest stride."""
    return min(range(x.ndim), key=lambda axis: abs(x.strides[axis]) or inf, default=0)


def _merge_axes(x: Any, out: Any) -> tuple[list[int], list[int]]:
    """Merge the axes that are contiguous in both arrays; return axes and extents, the slowest of `out` first."""
    order = list(by_stride(out.strides))
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


def _plan_strips(source: Any, fast: int, slow: int) -> Walk:
    """Return a copy that swaps two long axes in strips of the result's fastest axis, for each index of the other axes."""
    others = [axis for axis in range(source.ndim) if axis not in (slow, fast)]
    order = (*others, slow, fast)
    shape = [source.shape[axis] for axis in order]
    steps = [*[1] * len(others), shape[-2], STRIP_ELEMENTS]
    return partial(_copy_blocks, order, list(_blocks(shape, steps)))


def _copy_blocks(
    order: Axes, blocks: Sequence[Any], target: Any, source: Any, workers: Workers
) -> None:
    source, target = source.transpose(order), target.transpose(order)

    def work(first: int, last: int) -> None:
        for index in blocks[first:last]:
            target[index] = source[index]

    (workers if source.nbytes >= MIN_PARALLEL_BYTES else SERIAL).parallel_for(work, len(blocks))


def _plan_tiles(target: Any, source: Any, tile: Tile) -> Walk:
    """Return a copy through padded scratch tiles: rows are runs of the source, columns runs of the result."""
    rows, columns = tile
    outer = [axis for axis in range(source.ndim) if axis not in {*rows, *columns}]
    order = (*outer, *rows, *columns)
    extents = dict.fromkeys(outer, 1) | rows | columns
    # Several small tiles are copied at once.
    count = TILE_ELEMENTS * TILE_ELEMENTS // prod(extents.values())
    for axis in reversed(outer):
        extents[axis] = max(1, min(source.shape[axis], count))
        count //= source.shape[axis]
    blocks = list(
        _blocks([source.shape[axis] for axis in order], [extents[axis] for axis in order])
    )
    split = len(outer) + len(rows)
    height, width = prod(extents[axis] for axis in order[:split]), prod(columns.values())

    def walk(target: Any, source: Any, workers: Workers) -> None:
        source, target = source.transpose(order), target.transpose(order)

        def work(first: int, last: int) -> None:
            scratch = np.empty((height, width + LINE // source.itemsize), source.dtype)
            for index in blocks[first:last]:
                part = source[index]
                block = scratch[: prod(part.shape[:split]), : prod(part.shape[split:])]
                block = block.reshape(part.shape)
                block[...] = part
                target[index] = block

        (workers if source.nbytes >= MIN_PARALLEL_BYTES else SERIAL).parallel_for(work, len(blocks))

    return walk


def choose_tile(target: Any, source: Any) -> Tile | None:
    """Return a tile of the fastest axes of the result and of the source's other fastest axes.

    None if the two share axes, so that one side of the tile would be short.
    """
    candidates = (
        list(range(target.ndim)),
        [*by_stride(source.strides)],
    )
    tile: Tile = ({}, {})
    sizes = [1, 1]
    while open_ := [side for side in (0, 1) if candidates[side] and sizes[side] < TILE_ELEMENTS]:
        side = min(open_, key=lambda side: sizes[side])
        axis = candidates[side].pop()
        if axis in tile[1 - side]:
            candidates[side].clear()
            continue
        parts = -(-source.shape[axis] * sizes[side] // TILE_ELEMENTS)
        if parts > 1:
            candidates[side].clear()
        tile[side][axis] = -(-source.shape[axis] // parts)
        sizes[side] *= tile[side][axis]
    if min(sizes) < TILE_ELEMENTS // 4:
        return None
    rows, columns = ({axis: side[axis] for axis in reversed(side)} for side in tile)
    return rows, columns


def _blocks(shape: Sequence[int], steps: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    slices = [
        [slice(start, min(start + step, n)) for start in range(0, n, step)]
        for n, step in zip(shape, steps, strict=True)
    ]
    return product(*slices)
