"""The kernel of groups: values in the middle stay in cache, tile by tile, and are never whole arrays.

Threads work on tiles of their own; a ufunc releases Python's lock. What a row becomes does not depend on tiles
or threads. A reduction over rows is the reduction of each tile's, in the order of the tiles, whose size the
shapes alone decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any, Literal, Protocol

import numpy as np

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.copying import MIN_STREAMED_BYTES, Dense
from tenferro.exec.planned import Fused
from tenferro.exec.runner import Runner
from tenferro.exec.runtime.numpy_state import BUFFER_ELEMENTS, buffer_size, numpy_state
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.threads import MIN_PARALLEL_MICROSECONDS, SERIAL
from tenferro.exec.runtime.transposition import TransposedRows, transposed_rows
from tenferro.ops.analytic import CARDS as FUNCTIONS
from tenferro.ops.reduction import Reduction

__all__ = ["FusedFunction", "cost_of"]

TILE_BYTES = 1 << 20
"""Of one array's tile, at most: below, the calls cost more than the work, the more so on threads, which wait
for each other between calls."""
ROW_TILE_BYTES = 1 << 21
"""The same where rows stay whole: sums, and what repeats along a row, gain less from a near cache."""
REDUCED_TILE_BYTES = 1 << 23
"""The same of a single reduction, which reads each number once, and whose threads wait for each other between tiles."""
ALONE_TILE_BYTES = 1 << 19
"""The same where one thread does it all."""
CACHE_BYTES = 3 << 19
"""Of all the tiles that are worked on at once."""
LARGE = 1 << 17
"""Elements from which tiles are those of values that threads share."""
ELEMENTS = 1500
"""Of arithmetic, per microsecond of the interpreter."""
CALLS = 150
"""The same of functions."""
COMPILED = 0.2
"""Of the interpreter's time, what compiled code takes."""
WALKS = 8
"""Kept for one group: programs are run on arrays of one layout, nearly always."""
Strides = tuple[tuple[int, ...], ...]


class Machine(Protocol):
    """Compiled code for groups."""

    def function(
        self, arrays: Sequence[Any], lead: int, aliases: tuple[tuple[int, int], ...]
    ) -> tuple[Callable[..., Any], int, bool]:
        """The function of pointers to arrays, shares and scratch, and of rows from where to where, for arrays that
        lie in memory as these do; bytes of scratch; and whether it is for one run.

        Args:
            aliases: results that update operands in place, with these operands.
        """
        ...


def cost_of(op: Fused) -> float:
    """Microseconds that the interpreter needs for a group, by one thread and by estimate."""
    cost = 0.0
    for member in op.members:
        size = member.output_types[0].size
        if isinstance(member.op, Reduction):
            size = max(size, prod(op.shape))
        cost += size / (CALLS if type(member.op) in FUNCTIONS else ELEMENTS)
    return cost


class FusedFunction:
    """A group as a function of whole arrays.

    Args:
        machine: compiled code, in place of calls of NumPy tile by tile.
        columns: how it gives results by columns, once they are worth the code that turns them.
    """

    accepts_buffers = True

    def __init__(
        self,
        op: Fused,
        resources: Resources,
        machine: Machine | None = None,
        columns: TransposedRows | None = None,
    ) -> None:
        self.op, self.resources, self.machine, self.columns = op, resources, machine, columns
        self.remark = "compiled" if machine else ""
        self._moved = 0
        self._bodies = {lead: Runner(body) for lead, body in op.tiles.items()}
        self._walks: dict[Strides, Callable[..., Any]] = {}
        self._rows = Dense("C", resources)

    def with_order(self, order: Literal["F", "C"], numbers: Sequence[int]) -> FusedFunction:
        """The same with some results in an order, as far as it costs less than a copy."""
        op = self.op
        is_turned = (
            order == "F" and self.machine is not None and self.resources.transposer is not None
        )
        columns = transposed_rows(op.results, numbers) if is_turned and not op.totals else None
        if columns is None or columns.nbytes < MIN_STREAMED_BYTES:
            return self
        return FusedFunction(op, self.resources, self.machine, columns)

    def __call__(self, *arrays: Any, into: Sequence[Any] | None = None) -> Any:
        """The results, then the totals.

        Args:
            into: for each result the bytes that it is written to, the operand that it is written over if they lie
                alike, or None for memory of its own. Of one group it is always the same.
        """
        strides = tuple([x.strides for x in arrays])
        walk = self._walks.get(strides)
        if walk is None:
            if len(self._walks) >= WALKS:
                self._walks.clear()
            walk, is_for_one_run = self._walk(arrays, into or ())
            if not is_for_one_run:
                self._walks[strides] = walk
        return walk(arrays, into)

    def _walk(self, arrays: Sequence[Any], into: Sequence[Any]) -> tuple[Callable[..., Any], bool]:
        """The function of arrays that lie in memory as these do, and whether it is for one run."""
        op, layout = self.op, self._layout(arrays)
        extents = layout.shape(op.shape)
        rows, step = extents[0], self._tile_rows(arrays, extents, prod(extents) < LARGE)
        outs = [(spec.shape, spec.dtype.dtype) for spec in op.results]
        shares = [((-(-rows // step), *spec.shape), spec.dtype.dtype) for spec in op.totals]
        buffers = [((step, *layout.shape(spec.shape)[1:]), spec.dtype.dtype) for spec in op.scratch]
        sizes = [prod(shape) * dtype.itemsize for shape, dtype in buffers]
        elements = buffer_size(extents[-1])
        body, folds = self._bodies[layout.lead], op.folds
        workers, scratch = self.resources.workers, self.resources.memory.scratch
        code: Callable[..., Any] | None = None
        is_for_one_run = False
        # Compiled code takes strips of such operands, but where the order of elements is that of sums.
        is_cut = self.machine is not None and layout.order == "C" and not op.totals
        across = [] if is_cut else [n for n, x in enumerate(arrays) if self._lies_across(layout, x)]

        def views_of(arrays: Sequence[Any]) -> list[Any]:
            views = list(map(layout.view, arrays))
            for n in across:
                views[n] = self._rows(views[n])
            return views

        empties = [layout.empty(shape, dtype, None) for shape, dtype in outs]
        # By number of a result that of the operand that it is for, and is written over where both lie alike and each
        # row is computed once: where results are turned, the last rows are computed together with some before them.
        under = {n: k for n, y in enumerate(into) for k, x in enumerate(arrays) if x is y}
        over = {
            n: k
            for n, k in under.items()
            if self.columns is None and k not in across and empties[n].strides == arrays[k].strides
        }
        # Along rows of column-major arrays compiled code would take its steps from line to line of the cache.
        if self.machine is not None and layout.order == "C" and all(map(_has_whole_steps, arrays)):
            views, pairs = views_of([*arrays, *empties]), tuple(over.items())
            try:
                code, scratch_bytes, is_for_one_run = self.machine.function(
                    views, layout.lead, pairs
                )
            except NotCompiledError as error:
                self.machine, self.remark = None, f"interpreted: {error.text()}"
                return self._walk(arrays, into)
            sizes = [max(1, scratch_bytes)]

        cost = cost_of(op) * op.widest / 8 * (COMPILED if code else 1.0)
        is_alone = cost < MIN_PARALLEL_MICROSECONDS
        has_columns = code is not None and layout.merged == 1 and not layout.perm
        columns = self.columns if has_columns else None
        turning: Callable[..., Any] | None = None

        def walk(arrays: Sequence[Any], into: Sequence[Any] | None) -> Any:
            nonlocal turning
            if columns and not turning:
                turning = self._turning(columns, code, len(arrays), len(outs))
            turned = columns.numbers if columns and turning else ()
            written = list[Any]()
            for n, (shape, dtype) in enumerate(outs):
                memory = into[n] if into else None
                if n in over:
                    written.append(memory)
                    continue
                if n in under:
                    memory = self.resources.memory.allocate(prod(shape) * dtype.itemsize)
                empty = self._column_major if n in turned else layout.empty
                written.append(empty(shape, dtype, memory))
            totals = [np.empty(shape, dtype) for shape, dtype in shares]
            views = views_of([*arrays, *written])

            def work(start: int, stop: int) -> None:
                with scratch(sizes) if sizes else nullcontext([]) as pieces:
                    tiles = [
                        np.ndarray(shape, dtype, piece, order=layout.order)
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

            def turn(
                turning: Callable[..., Any], sizes: Sequence[int], start: int, stop: int
            ) -> None:
                with scratch(sizes) as pieces:
                    turning(*[x.ctypes.data for x in (*views, *pieces)], start, stop)

            def quiet(start: int, stop: int) -> None:
                with numpy_state(elements):
                    work(start, stop)

            # Whoever runs the program has seen to all of NumPy's state but the buffers.
            is_quiet = is_alone and elements == BUFFER_ELEMENTS
            task = partial(run, code) if code else work if is_quiet else quiet
            height = step
            if columns and turning:
                task, height = partial(turn, turning, [*sizes, *columns.sizes]), columns.height
            (SERIAL if is_alone else workers).parallel_for(task, rows, height)
            combined = [fold(share) for fold, share in zip(folds, totals, strict=True)]
            results = [*written, *combined]
            return results[0] if len(results) == 1 else results

        return walk, is_for_one_run

    def _lies_across(self, layout: Layout, x: Any) -> bool:
        """Whether an operand is sooner read from a copy in the order of the walk: NumPy would read a line of the cache
        for each element.
        """
        view = layout.view(x)
        if layout.order != "C" or view.ndim < 2 or not all(view.strides):
            return False
        return self._rows.has_planned_order(view)

    def _turning(
        self, columns: TransposedRows, code: Any, operands: int, results: int
    ) -> Callable[..., Any] | None:
        """The function that turns rows, once as much has been copied as is worth compiling it."""
        transposer = self.resources.transposer
        self._moved += columns.nbytes
        if transposer is None or self._moved < transposer.min_bytes:
            return None
        return transposer.row_function(columns, code, operands, results)

    def _column_major(self, shape: tuple[int, ...], dtype: Any, memory: Any) -> Any:
        if memory is None:
            memory = self.resources.memory.allocate(prod(shape) * dtype.itemsize)
        return np.ndarray(shape, dtype, memory, order="F")

    def _tile_rows(self, arrays: Sequence[Any], extents: tuple[int, ...], is_alone: bool) -> int:
        """How many rows a tile has."""
        op = self.op
        written = sum([2 * spec.size > prod(op.shape) for spec in op.results])
        at_once = len([x for x in arrays if all(x.strides)]) + written + len(op.scratch)
        if is_alone:
            size = ALONE_TILE_BYTES
        elif len(op.members) == 1 and not written:
            size = REDUCED_TILE_BYTES
        elif op.lead < len(op.shape) or not (written or op.scratch):
            size = ROW_TILE_BYTES
        else:
            size = min(TILE_BYTES, max(TILE_BYTES // 2, CACHE_BYTES // at_once))
        return max(1, size // (op.widest * max(prod(extents[1:]), 1)))

    def _layout(self, arrays: Sequence[Any]) -> Layout:
        """How the arrays are walked: by memory where they agree, else along their leading axis."""
        lead, rank = self.op.lead, len(self.op.shape)
        perm = common_order(arrays, rank)
        is_rows = perm == tuple(range(rank))
        if lead < rank and not is_rows and perm == tuple(range(rank))[::-1]:
            return Layout(lead, order="F")
        layout = Layout(lead, () if is_rows or lead < rank else perm)
        merged = replace(layout, lead=1, merged=lead)
        return merged if all([merged.fits(x) for x in arrays]) else layout


def _has_whole_steps(x: Any) -> bool:
    """Whether elements lie whole elements apart, as those of a field of records may not."""
    return not any([step % x.itemsize for step in x.strides])


def common_order(arrays: Sequence[Any], rank: int) -> tuple[int, ...]:
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


@dataclass(frozen=True)
class Layout:
    """How arrays are seen: tiled along the first axis of their views, which share their memory.

    Attributes:
        lead: how many leading axes the views have.
        perm: the order of axes, slowest first, where it is another than the arrays'.
        merged: the number of leading ones, in that order, that are one axis of the views.
        order: of results and scratch in memory.
    """

    lead: int
    perm: tuple[int, ...] = ()
    merged: int = 1
    order: Any = "C"

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Of the view of an array of this shape."""
        shape = tuple([shape[axis] for axis in self.perm]) or shape
        return (prod(shape[: self.merged]), *shape[self.merged :])

    def fits(self, x: Any) -> bool:
        """Whether the axes that are to be one step as one."""
        x = x.transpose(self.perm) if self.perm else x
        long = [
            each for each in zip(x.shape[: self.merged], x.strides, strict=False) if each[0] > 1
        ]
        return all([outer == n * inner for (_, outer), (n, inner) in pairwise(long)])

    def view(self, x: Any) -> Any:
        """Of an array."""
        x = x.transpose(self.perm) if self.perm else x
        return x.reshape((-1, *x.shape[self.merged :]), copy=False) if self.merged != 1 else x

    def empty(self, shape: tuple[int, ...], dtype: Any, memory: Any) -> Any:
        """A new array with a view in order, in these bytes or in memory of its own."""
        if not self.perm:
            return np.ndarray(shape, dtype, memory, order=self.order)
        inverse = sorted(range(len(shape)), key=self.perm.__getitem__)
        return np.ndarray([shape[axis] for axis in self.perm], dtype, memory).transpose(inverse)
