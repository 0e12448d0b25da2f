"""The kernel of groups: values in the middle stay in cache, tile by tile, and are never whole arrays.

Threads work on tiles of their own; a ufunc releases Python's lock. What a row becomes does not depend on tiles
or threads. A reduction over rows is the reduction of each tile's, in the order of the tiles, whose size the
shapes alone decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import repeat
from math import prod
from typing import Any, Protocol

import numpy as np

from tenferro.exec.runner import Runner
from tenferro.exec.runtime.numpy_state import BUFFER, buffer_for, numpy_state
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.schedule import Tiles

__all__ = ["TilesFunction"]

TILE_BYTES = 1 << 20
"""Of one array's tile, at most: below, the calls cost more than the work, the more so on threads, which wait
for each other between calls."""
ROW_TILE_BYTES = 1 << 21
"""The same where rows stay whole: sums, and what repeats along a row, gain less from a near cache."""
ALONE_TILE_BYTES = 1 << 19
"""The same where one thread does it all."""
CACHE_BYTES = 3 << 19
"""Of all the tiles that are worked on at once."""
ALONE = 1 << 17
"""Elements below which one thread does it all."""
WALKS = 8
"""Kept for one group: programs are run on arrays of one layout, nearly always."""
Strides = tuple[tuple[int, ...], ...]


class Machine(Protocol):
    """Compiled code for groups."""

    def function(self, arrays: Sequence[Any], lead: int) -> tuple[Callable[..., Any], int]:
        """The function of pointers to arrays, shares and scratch, and of rows from where to where, for arrays that
        lie in memory as these do; and bytes of scratch.
        """
        ...


class TilesFunction:
    """A group as a function of whole arrays.

    Args:
        machine: compiled code, in place of calls of NumPy tile by tile.
    """

    def __init__(self, op: Tiles, resources: Resources, machine: Machine | None = None) -> None:
        self.op, self.resources, self.machine = op, resources, machine
        self._bodies = {lead: Runner(body) for lead, body in op.bodies.items()}
        self._walks: dict[Strides, Callable[..., Any]] = {}

    def __call__(self, *arrays: Any, into: Sequence[Any] | None = None) -> Any:
        """The results, then the totals.

        Args:
            into: for each result the bytes that it is written to, or None for memory of its own.
        """
        strides = tuple([x.strides for x in arrays])
        walk = self._walks.get(strides)
        if walk is None:
            if len(self._walks) >= WALKS:
                self._walks.clear()
            walk = self._walks[strides] = self._walk(arrays)
        return walk(arrays, into)

    def _walk(self, arrays: Sequence[Any]) -> Callable[..., Any]:
        """The function of arrays that lie in memory as these do."""
        op, layout = self.op, self._layout(arrays)
        extents = layout.shape(op.shape)
        rows, is_alone = extents[0], prod(extents) < ALONE
        step = self._tile_rows(arrays, extents, is_alone)
        results = [(spec.shape, spec.dtype.dtype) for spec in op.results]
        shares = [((-(-rows // step), *spec.shape), spec.dtype.dtype) for spec in op.totals]
        buffers = [((step, *layout.shape(spec.shape)[1:]), spec.dtype.dtype) for spec in op.scratch]
        sizes = [prod(shape) * dtype.itemsize for shape, dtype in buffers]
        elements = buffer_for(extents[-1])
        body, folds = self._bodies[layout.lead], op.folds
        workers, scratch = self.resources.workers, self.resources.memory.scratch
        code: Callable[..., Any] | None = None
        # Along rows of column-major arrays compiled code would take its steps from line to line of the cache.
        if self.machine is not None and not isinstance(layout, Columns):
            outs = [layout.view(layout.empty(shape, dtype, None)) for shape, dtype in results]
            every = [*map(layout.view, arrays), *outs]
            code, scratch_bytes = self.machine.function(every, layout.lead)
            sizes = [max(1, scratch_bytes)]

        def walk(arrays: Sequence[Any], into: Sequence[Any] | None) -> Any:
            written = [
                layout.empty(shape, dtype, place)
                for (shape, dtype), place in zip(results, into or repeat(None), strict=False)
            ]
            totals = [np.empty(shape, dtype) for shape, dtype in shares]
            views = [layout.view(x) for x in (*arrays, *written)]

            def work(start: int, stop: int) -> None:
                with scratch(sizes) if sizes else nullcontext([]) as pieces:
                    tiles = [
                        np.ndarray(shape, dtype, piece, order=layout.scratch)
                        for (shape, dtype), piece in zip(buffers, pieces, strict=True)
                    ]
                    for i in range(start, stop, step):
                        j = min(i + step, stop)
                        if j - i < step:
                            tiles = [tile[: j - i] for tile in tiles]
                        body([
                            j - i, *tiles, *[x[i:j] for x in views],
                            *[share[i // step, ...] for share in totals],
                        ])  # fmt: skip

            def run(code: Callable[..., Any], start: int, stop: int) -> None:
                with scratch(sizes) as (piece,):
                    rest = piece.ctypes.data
                    pointers = [x.ctypes.data for x in views]
                    each = step if totals else stop - start
                    for i in range(start, stop, each):
                        parts = [share[i // step :].ctypes.data for share in totals]
                        code(*pointers, *parts, rest, i, min(i + each, stop))

            def quiet(start: int, stop: int) -> None:
                with numpy_state(elements):
                    work(start, stop)

            if code is not None:
                if is_alone:
                    run(code, 0, rows)
                else:
                    workers.share(partial(run, code), rows, step)
            elif is_alone:
                # Whoever runs the program has seen to all but the buffers.
                (work if elements == BUFFER else quiet)(0, rows)
            else:
                workers.share(quiet, rows, step)
            combined = [fold(share) for fold, share in zip(folds, totals, strict=True)]
            found = [*written, *combined]
            return found[0] if len(found) == 1 else found

        return walk

    def _tile_rows(self, arrays: Sequence[Any], extents: tuple[int, ...], is_alone: bool) -> int:
        """How many rows a tile has."""
        op = self.op
        written = sum([2 * spec.size > prod(op.shape) for spec in op.results])
        at_once = len([x for x in arrays if all(x.strides)]) + written + len(op.scratch)
        if is_alone:
            size = ALONE_TILE_BYTES
        elif op.lead < len(op.shape):
            size = ROW_TILE_BYTES
        else:
            size = min(TILE_BYTES, max(TILE_BYTES // 2, CACHE_BYTES // max(1, at_once)))
        return max(1, size // (op.widest * max(prod(extents[1:]), 1)))

    def _layout(self, arrays: Sequence[Any]) -> Layout:
        """How the arrays are walked: by memory where they agree, else along their leading axis."""
        lead, rank = self.op.lead, len(self.op.shape)
        perm = _common_order(arrays, rank)
        is_rows = perm == tuple(range(rank))
        if lead == rank:
            inner = Layout(rank) if is_rows else Permuted(perm)
            flat = Flat(inner)
            return flat if all([flat.fits(x) for x in arrays]) else inner
        if perm == tuple(range(rank))[::-1] and not is_rows:
            return Columns(lead)
        merged = Merged(lead)
        return merged if lead > 1 and all([merged.fits(x) for x in arrays]) else Layout(lead)


def _common_order(arrays: Sequence[Any], rank: int) -> tuple[int, ...]:
    """The order of axes in which most arrays lie in memory, slowest first; rows where none prevails.

    What repeats itself along an axis is small, and has no say.
    """
    rows = tuple(range(rank))
    votes: dict[tuple[int, ...], int] = {rows: 0}
    for x in arrays:
        if x.ndim < rank or not all(x.strides) or (x.flags.c_contiguous and x.flags.f_contiguous):
            continue
        strides = x.strides
        order = (
            rows if x.flags.c_contiguous else tuple(sorted(rows, key=lambda i: -abs(strides[i])))
        )
        votes[order] = votes.get(order, 0) + 1
    return max(votes, key=lambda order: votes[order])


class Layout:
    """Arrays as they are, tiled along the first axis.

    Args:
        lead: how many leading axes the views have.

    Attributes:
        scratch: order of scratch.
    """

    scratch: Any = "C"

    def __init__(self, lead: int) -> None:
        self.lead = lead

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Of the view of an array of this shape."""
        return shape

    def view(self, x: Any) -> Any:
        """Of an array; it shares its memory."""
        return x

    def empty(self, shape: tuple[int, ...], dtype: Any, place: Any) -> Any:
        """A new array whose view lies in order, in these bytes or in memory of its own."""
        return np.ndarray(shape, dtype, place)


class Columns(Layout):
    """Column-major arrays, tiled along the first axis, where rows must stay whole."""

    scratch = "F"

    def empty(self, shape: tuple[int, ...], dtype: Any, place: Any) -> Any:
        return np.ndarray(shape, dtype, place, order="F")


class Permuted(Layout):
    """Arrays whose axes lie in another order, slowest first."""

    def __init__(self, perm: tuple[int, ...]) -> None:
        super().__init__(len(perm))
        self.perm = perm
        self.inverse = sorted(range(len(perm)), key=perm.__getitem__)

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([shape[axis] for axis in self.perm])

    def view(self, x: Any) -> Any:
        return x.transpose(self.perm)

    def empty(self, shape: tuple[int, ...], dtype: Any, place: Any) -> Any:
        return np.ndarray(self.shape(shape), dtype, place).transpose(self.inverse)


class Flat(Layout):
    """Elements one after the other, in the order of memory.

    Args:
        inner: the layout in which they are so.
    """

    def __init__(self, inner: Layout) -> None:
        super().__init__(1)
        self.inner = inner

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (prod(shape),)

    def fits(self, x: Any) -> bool:
        """Whether the elements are so, or all the same one."""
        return self.inner.view(x).flags.c_contiguous or not any(x.strides)

    def view(self, x: Any) -> Any:
        x = self.inner.view(x)
        if x.flags.c_contiguous:
            return x.reshape(-1)
        return np.broadcast_to(x[(0,) * x.ndim], (x.size,))

    def empty(self, shape: tuple[int, ...], dtype: Any, place: Any) -> Any:
        return self.inner.empty(shape, dtype, place)


class Merged(Layout):
    """Row-major arrays with their leading axes as one."""

    def __init__(self, count: int) -> None:
        super().__init__(1)
        self.count = count

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (prod(shape[: self.count]), *shape[self.count :])

    def fits(self, x: Any) -> bool:
        """Whether the leading axes step as one."""
        steps = [*zip(x.strides, x.strides[1:], x.shape[1:], strict=False)]
        return all([outer == inner * n for outer, inner, n in steps[: self.count - 1]])

    def view(self, x: Any) -> Any:
        return x.reshape(self.shape(x.shape))
