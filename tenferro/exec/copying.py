"""Copies into another order of axes, in blocks that a cache holds.

NumPy walks a copy in the order of the result. Where the source lies in another order, each element read
is then a cache line fetched, and for large arrays fetched again for the next element. Walked in blocks that
are short runs of both orders, each line is fetched once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, Literal

import numpy as np

from tenferro.exec.workers import Workers, shared

__all__ = ["copy_into", "dense", "fastest_axis"]

SMALLEST = 1 << 22
"""Bytes below which the caches hold both arrays, and any order is as good."""
SHARED = 1 << 20
"""Bytes whose copy is worth sharing among threads."""
NEAR = 1024
"""Lines of the source that stay in cache, and pages whose addresses do, until their next element is read."""
RUN_BYTES = 1024
"""Of the runs that a block is made of, where single axes are too short for one."""
STRIP = 128
"""Elements of the result's fastest axis that are copied at once."""
COLLIDING = 1 << 11
"""Steps in bytes that are multiples of it lead to the same few places of the cache."""
TURNED = 1 << 17
"""Bytes from which scratch in between pays where the steps collide."""
BLOCK = 128
"""Extents of the blocks that go through it."""
LONGEST_ITEM = 64
"""Bytes of a run in both orders that moves as if it were one element."""
SHORT = 16
"""Extent below which an axis is no run by itself."""
PIECE = 1024
"""Elements that are worth a call."""
LONG = 1024
"""Extent above which an axis is walked by itself, however short the other."""
Order = Literal["C", "F"]


def dense(x: Any, order: Order, workers: Workers | None = None, into: Any = None) -> Any:
    """A new array with the elements of x, in "C" or "F" order.

    Args:
        into: bytes to write it to.
    """
    if x.nbytes < TURNED and into is None:
        return np.array(x, order=order, copy=True)
    out = np.ndarray(x.shape, x.dtype, into, order=order)
    copy_into(out, x, workers)
    return out


def copy_into(out: Any, x: Any, workers: Workers | None = None) -> None:
    """Write x into an array of the same shape and dtype that shares no memory with it."""
    source, target = _in_runs(*_merged(x, out))
    fast, slow = fastest_axis(target), fastest_axis(source)
    if x.nbytes >= TURNED and _collides(source, target, fast, slow):
        _by_turned_blocks(target, source, fast, slow, workers)
    elif (
        x.nbytes < SMALLEST
        or source.ndim < 2
        or fast == slow
        or not source.strides[slow]
        or (prod(source.shape[slow + 1 :]) <= NEAR and source.shape[fast] >= SHORT)
    ):
        _by_numpy(target, source, workers)
    elif (
        min(source.shape[fast], source.shape[slow]) >= SHORT
        and source.shape[slow] * min(source.shape[fast], STRIP) >= PIECE
    ):
        _by_strips(target, source, fast, slow, workers)
    elif source.shape[slow] >= LONG:
        _by_lines(target, source, fast, slow)
    elif source.shape[fast] >= LONG or prod(source.shape[slow + 1 :]) <= NEAR:
        _by_numpy(target, source, workers)
    else:
        _by_blocks(target, source)


def _in_runs(source: Any, target: Any) -> tuple[Any, Any]:
    """Both with a short run of neighbours, where they have one in common, as one element."""
    run = target.shape[-1] * target.itemsize if target.ndim > 1 else LONGEST_ITEM + 1
    if run > LONGEST_ITEM or not source.strides[-1] == target.strides[-1] == target.itemsize:
        return source, target
    return source.view(f"V{run}")[..., 0], target.view(f"V{run}")[..., 0]


def _collides(source: Any, target: Any, fast: int, slow: int) -> bool:
    """Whether two long axes change places, and one's neighbours displace each other in the cache."""
    if fast == slow or min(source.shape[fast], source.shape[slow]) < BLOCK // 2:
        return False
    return source.strides[fast] % COLLIDING == 0 or target.strides[slow] % COLLIDING == 0


def _by_numpy(target: Any, source: Any, workers: Workers | None) -> None:
    """In the order of the result, its slowest axis shared among threads."""
    if source.nbytes < SHARED or not source.ndim:
        np.copyto(target, source)
        return

    def work(first: int, last: int) -> None:
        np.copyto(target[first:last], source[first:last])

    shared(workers, work, source.shape[0])


def fastest_axis(x: Any) -> int:
    """The axis along which neighbours are nearest."""
    return min(range(x.ndim), key=lambda axis: abs(x.strides[axis]) or x.nbytes + 1, default=0)


def _merged(x: Any, out: Any) -> tuple[Any, Any]:
    """Both in the order of `out`, slowest axis first, with axes as one that step as one in both."""
    order = sorted(range(x.ndim), key=lambda axis: -abs(out.strides[axis]))
    order = [axis for axis in order if x.shape[axis] != 1]
    shape: list[int] = []
    steps: list[tuple[int, int]] = []
    for axis in order:
        n, step = x.shape[axis], (x.strides[axis], out.strides[axis])
        if shape and steps[-1] == (step[0] * n, step[1] * n):
            shape[-1] *= n
            steps[-1] = step
        else:
            shape.append(n)
            steps.append(step)
    view = np.lib.stride_tricks.as_strided
    return (
        view(x, shape, [step[0] for step in steps], writeable=False),
        view(out, shape, [step[1] for step in steps]),
    )


def _by_strips(target: Any, source: Any, fast: int, slow: int, workers: Workers | None) -> None:
    """Swap two long axes, a strip of the result's fastest at a time; the others one by one."""
    source, target = _with_last(source, target, slow, fast)
    places = [
        (*outer, slice(None), slice(start, start + STRIP))
        for outer in product(*map(range, source.shape[:-2]))
        for start in range(0, source.shape[-1], STRIP)
    ]

    def work(first: int, last: int) -> None:
        for place in places[first:last]:
            target[place] = source[place]

    shared(workers, work, len(places))


def _by_turned_blocks(
    target: Any, source: Any, fast: int, slow: int, workers: Workers | None
) -> None:
    """Swap two long axes, block by block through scratch whose lines do not displace each other."""
    source, target = _with_last(source, target, fast, slow)
    places = [
        (*outer, slice(i, i + BLOCK), slice(j, j + BLOCK))
        for outer in product(*map(range, source.shape[:-2]))
        for i in range(0, source.shape[-2], BLOCK)
        for j in range(0, source.shape[-1], BLOCK)
    ]

    def work(first: int, last: int) -> None:
        scratch = np.empty((BLOCK, BLOCK + max(1, 64 // source.itemsize)), source.dtype)
        for place in places[first:last]:
            part = source[place]
            block = scratch[: part.shape[0], : part.shape[1]]
            block[...] = part
            target[place] = block

    shared(workers if source.nbytes >= SHARED else None, work, len(places))


def _with_last(source: Any, target: Any, *last: int) -> tuple[Any, Any]:
    """Views of both with these axes behind all others."""
    rest = [axis for axis in range(source.ndim) if axis not in last]
    return source.transpose(*rest, *last), target.transpose(*rest, *last)


def _by_lines(target: Any, source: Any, fast: int, slow: int) -> None:
    """A short axis that is fastest in the result: the long one is walked instead, in pieces that stay in cache."""
    source, target = _with_last(source, target, fast, slow)
    places = [
        (*outer, k, slice(start, start + LONG))
        for outer in product(*map(range, source.shape[:-2]))
        for start in range(0, source.shape[-1], LONG)
        for k in range(source.shape[-2])
    ]
    for place in places:
        target[place] = source[place]


def _by_blocks(target: Any, source: Any) -> None:
    """Many short axes: blocks that hold runs of both, turned in scratch that stays in cache."""
    by_target = list(range(target.ndim))
    by_source = sorted(by_target, key=lambda axis: -abs(source.strides[axis]))
    runs = _runs(by_target, by_source, source.shape, max(RUN_BYTES // source.itemsize, 2))
    outer = [axis for axis in by_target if axis not in runs]
    inside = [axis for axis in by_source if axis in runs]
    turned = [axis for axis in by_target if axis in runs]
    source = source.transpose(*outer, *inside)
    target = target.transpose(*outer, *turned)
    perm = [inside.index(axis) for axis in turned]
    cut = [runs[axis] for axis in inside]
    shape = source.shape[len(outer) :]
    orders: dict[tuple[int, ...], Any] = {}
    largest = prod(map(min, shape, cut))
    scratch, result = np.empty(largest, source.dtype), np.empty(largest, source.dtype)
    for index in product(*map(range, source.shape[: len(outer)])):
        for block in _blocks(shape, cut):
            part = source[(*index, *block)]
            order = orders.get(part.shape)
            if order is None:
                order = np.arange(part.size).reshape(part.shape).transpose(perm).ravel()
                orders[part.shape] = order
            scratch[: part.size].reshape(part.shape)[...] = part
            found = result[: part.size]
            np.take(scratch, order, out=found, mode="clip")
            place = (*index, *[block[i] for i in perm])
            target[place] = found.reshape([part.shape[i] for i in perm])


def _runs(
    by_target: Sequence[int], by_source: Sequence[int], shape: Sequence[int], limit: int
) -> dict[int, int]:
    """The fastest axes of both orders, as many as make runs in each, and how much of each a block takes.

    Where the runs have axes in common, further ones are taken until a block is as large as if they had not.
    """
    found: dict[int, int] = {}
    orders = [list(by_target), list(by_source)]
    sizes = [1, 1]
    while any(orders) and (min(sizes) < limit or prod(found.values()) < limit * limit):
        side = 0 if orders[0] and (sizes[0] <= sizes[1] or not orders[1]) else 1
        axis = orders[side].pop()
        if axis not in found:
            wanted = -(-limit // sizes[side])
            found[axis] = shape[axis] if shape[axis] <= 4 else min(shape[axis], max(wanted, 4))
        sizes[side] *= found[axis]
    return found


def _blocks(shape: Sequence[int], cut: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    lines = [
        [slice(start, min(start + step, n)) for start in range(0, n, step)]
        for n, step in zip(shape, cut, strict=True)
    ]
    return product(*lines)
