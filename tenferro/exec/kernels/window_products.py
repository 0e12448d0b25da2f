"""Sums over windows as products of matrices, block by block.

What is copied of a block of windows stays in cache until it is multiplied, by the thread that copied it. Blocks are
the same for any number of threads, and so are the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np

from tenferro.exec.kernels.kernel import Array
from tenferro.exec.kernels.matrix_product import PIECE, multiplied, scratch, workers_for
from tenferro.exec.kernels.matrix_view import Axes, is_readable, step_of
from tenferro.exec.kernels.sums_of_products import DirectSums
from tenferro.exec.kernels.windows import Window, padded, windows_of
from tenferro.exec.runtime.resources import Resources

__all__ = ["products", "scattered"]

BLOCK_BYTES = 1 << 20
"""Of windows that are copied at once."""
SHARES = 4
"""Blocks are a multiple of this many, where there are more than one, so that threads have as much work."""
LARGEST_SUM = 1 << 16
"""Elements of a result that may be the sum of products of blocks of terms."""
MOST_SUMS = 16
"""Blocks of terms whose sums have memory of their own."""
EITHER_WAY = 1 << 20
"""Multiplications from which each element of a product has the same bits, whichever rows are beside it and also
where the transpose is made: BLAS has kernels of their own for smaller products, and for vectors."""
FEW_COLUMNS = 4
"""Terms for each column of a product from which on it is better turned afterwards than made column-major."""
Block = tuple[slice, ...]
"""Of the slowest of some axes."""


def products(
    window: Window,
    x: Array,
    w: Array,
    out: Array,
    resources: Resources,
    direct: DirectSums | None = None,
) -> None:
    """Write out [n, o, p..] of x [n, c, s..] and kernels [o, c, k..], directly where there is a way."""
    if not out.size:
        return
    if not x.size or not w.size:
        out[...] = 0
        return
    if direct is not None and direct.write(window, x, w, out):
        return
    factors = _Factors(window, x, w, out.shape[2:], resources)
    is_small = factors.rows * out.shape[1] <= LARGEST_SUM or factors.rows < 2 * PIECE
    if is_small and factors.terms > max(factors.rows, out.shape[1], PIECE):
        _over_terms(factors, out)
    else:
        _over_rows(factors, out)


class _Factors:
    """Windows [n, c, p.., k..] as a matrix of places (n, p..) and terms (c, k..), axes in order of memory.

    Attributes:
        shape: of the windows.
        places, taps: the axes of each, the slowest first.
        rows, terms: how many.
        is_places_first: whether a copy has places beside each other.
    """

    def __init__(
        self, window: Window, x: Array, w: Array, counts: Sequence[int], resources: Resources
    ) -> None:
        spatial, steps = len(counts), x.strides[2:]
        self.window, self.x, self.w, self.resources = window, x, w, resources
        self.spatial = spatial
        self.shape = (*x.shape[:2], *counts, *w.shape[2:])
        strides = (
            *x.strides[:2],
            *[a * b for a, b in zip(steps, window.strides, strict=True)],
            *[a * b for a, b in zip(steps, window.rhs_dilation, strict=True)],
        )

        def by_stride(axis: int) -> int:
            return -abs(strides[axis])

        self.places = tuple(sorted((0, *range(2, 2 + spatial)), key=by_stride))
        self.taps = tuple(sorted((1, *range(2 + spatial, 2 + 2 * spatial)), key=by_stride))
        self.rows, self.terms = (
            prod([self.shape[axis] for axis in axes]) for axes in (self.places, self.taps)
        )
        self.is_places_first = _is_nearer(self.shape, strides, self.places, self.taps)
        # Of the kernels: axis 1 is the channel as in windows, and the kernel's own follow.
        self.kernel_axes = tuple([axis if axis == 1 else axis - spatial for axis in self.taps])
        work = self.rows * self.terms * w.shape[0]
        self.workers = workers_for(resources, work, self.rows * self.terms)

    def cuts(self, axes: Axes, beside: int) -> list[Block]:
        """Blocks of these axes, for elements with a number of others beside each."""
        most = max(PIECE, BLOCK_BYTES // (beside * self.x.itemsize))
        return _blocks([self.shape[axis] for axis in axes], most)

    def rooms(self, axes: Axes, blocks: Sequence[Block], beside: int) -> tuple[int, int]:
        """Bytes for the padded input and for the copied windows of any of these blocks."""
        largest = list(self.shape)
        for axis, parts in zip(axes, zip(*blocks, strict=True), strict=False):
            largest[axis] = max([part.stop - part.start for part in parts])
        windows = prod([largest[axis] for axis in axes]) * beside
        n, c, *sizes = largest
        counts, taps = sizes[: self.spatial], sizes[self.spatial :]
        around = n * c
        for p, k, stride, dilation in zip(
            counts, taps, self.window.strides, self.window.rhs_dilation, strict=True
        ):
            around *= (p - 1) * stride + (k - 1) * dilation + 1
        is_padded = any([edge > 0 for pair in self.window.padding for edge in pair])
        return around * self.x.itemsize * is_padded, windows * self.x.itemsize

    def left(self, axes: Axes, block: Block, places: Axes, memory: Sequence[Any]) -> Array:
        """The windows of a block as [places, terms]."""
        parts = [slice(0, n) for n in self.shape]
        for axis, part in zip(axes, block, strict=False):
            parts[axis] = part
        spatial = self.spatial
        counts, taps = parts[2 : 2 + spatial], parts[2 + spatial :]
        window = self.window.cut(self.x.shape[2:], counts, taps)
        x = padded(window, self.x[parts[0], parts[1]], memory[0])
        windows = windows_of(window, x, [part.stop - part.start for part in taps])
        return matrix_of(windows, places, self.taps, self.is_places_first, memory[1])

    def right(self, part: Array, into: Any) -> Array:
        """Kernels as [terms, outputs]."""
        axes = self.kernel_axes
        return matrix_of(part, axes, (0,), abs(part.strides[0]) > abs(part.strides[axes[-1]]), into)


def _is_nearer(shape: Axes, strides: Axes, places: Axes, taps: Axes) -> bool:
    """Whether a copy of windows is best made along places: they are nearer to each other, or have longer rows."""
    position, tap = (
        next((axis for axis in reversed(axes) if shape[axis] > 1), None) for axes in (places, taps)
    )
    if position is None or tap is None:
        return tap is None
    if min(position, tap) > 1:
        return shape[position] >= shape[tap]
    return abs(strides[position]) < abs(strides[tap])


def matrix_of(x: Array, rows: Axes, columns: Axes, is_turned: bool, into: Any) -> Array:
    """A matrix of these groups of axes: a view that BLAS reads, or a copy in these bytes, column-major if turned."""
    down, across = step_of(x, rows), step_of(x, columns)
    m, n = (prod([x.shape[axis] for axis in axes]) for axes in (rows, columns))
    if down is not None and across is not None and is_readable((down, across), (m, n), x.itemsize):
        return x.transpose(*rows, *columns).reshape(m, n)
    order = (*columns, *rows) if is_turned else (*rows, *columns)
    source = x.transpose(order)
    copy = np.ndarray(source.shape, x.dtype, into)
    np.copyto(copy, source)
    return copy.reshape(n, m).T if is_turned else copy.reshape(m, n)


def _blocks(extents: Sequence[int], most: int) -> list[Block]:
    """Cuts of the slowest of these axes into blocks of no more elements, or of one along the fastest axis."""
    inner = prod(extents)
    for axis, extent in enumerate(extents):
        inner //= extent
        if inner <= most or axis == len(extents) - 1:
            count = -(-extent // max(1, most // max(1, inner)))
            if count > 1:
                count = min(extent, -(-count // SHARES) * SHARES)
            ends = [extent * i // count for i in range(count + 1)]
            each = [[slice(i, i + 1) for i in range(outer)] for outer in extents[:axis]]
            return [*product(*each, [slice(i, j) for i, j in pairwise(ends)])]
    return [()]


def _cut(x: Array, axes: Axes, block: Block) -> Array:
    """The part of x in a block of its axes."""
    index: list[Any] = [slice(None)] * x.ndim
    for axis, part in zip(axes, block, strict=False):
        index[axis] = part
    return x[tuple(index)]


def _over_rows(factors: _Factors, out: Array) -> None:
    """Blocks of places, each times the kernels; in the order in which the result lies."""
    outputs = out.shape[1]
    places = tuple(sorted(factors.places, key=lambda axis: -out.strides[axis]))
    blocks = factors.cuts(places, factors.terms)
    smallest = factors.rows // len(blocks) // 2 * factors.terms * outputs
    if factors.is_places_first or smallest < EITHER_WAY:
        places = factors.places
        blocks = factors.cuts(places, factors.terms)
    rooms = factors.rooms(places, blocks, factors.terms)
    rooms = *rooms, rooms[1] // factors.terms * outputs
    with scratch(factors.resources, (factors.w.nbytes,)) as (room,):
        kernels = factors.right(factors.w, room)

        def work(number: int) -> None:
            block = blocks[number]
            with scratch(factors.resources, rooms) as memory:
                left = factors.left(places, block, places, memory)
                _multiply(left, kernels, _cut(out, places, block), places, memory[2])

        factors.workers.deal(work, len(blocks))


def _multiply(left: Array, right: Array, out: Array, places: Axes, memory: Any) -> None:
    """Write left [places, terms] times right [terms, outputs] to out [n, o, p..]."""
    down, across = step_of(out, places), out.strides[1]
    shape = left.shape[0], right.shape[1]
    if down is not None and is_readable((down, across), shape, out.itemsize):
        turned = down < across
        is_slow = left.strides[0] > left.strides[1] and left.shape[1] > FEW_COLUMNS * shape[1]
        if not turned or (not is_slow and _goes_either_way(left, right)):
            target = out.transpose(*places, 1).reshape(shape, copy=False)
            multiplied(left, right, target, turned)
            return
    y = np.matmul(left, right, out=np.ndarray(shape, out.dtype, memory))
    target = out.transpose(*places, 1)
    target[...] = y.reshape(target.shape)


def _goes_either_way(left: Array, right: Array) -> bool:
    """Whether the product has the same bits as its transpose has."""
    return min(len(left), right.shape[1]) > 1 and left.size * right.shape[1] >= EITHER_WAY


def _over_terms(factors: _Factors, out: Array) -> None:
    """Blocks of terms, each by itself, and the sum of these products."""
    rows, outputs, size = factors.rows, out.shape[1], out.itemsize
    blocks = factors.cuts(factors.taps, rows + outputs)
    rooms = factors.rooms(factors.taps, blocks, rows)
    rooms = *rooms, rooms[1] // rows * outputs, rows * outputs * size
    count = min(len(blocks), MOST_SUMS)
    runs = [blocks[i:j] for i, j in pairwise([len(blocks) * i // count for i in range(count + 1)])]
    with scratch(factors.resources, (count * rows * outputs * size,)) as (room,):
        sums = np.ndarray((count, rows, outputs), out.dtype, room)

        def work(first: int, last: int) -> None:
            with scratch(factors.resources, rooms) as memory:
                for total, run in zip(sums[first:last], runs[first:last], strict=True):
                    for number, block in enumerate(run):
                        left = factors.left(factors.taps, block, factors.places, memory)
                        part = _cut(factors.w, factors.kernel_axes, block)
                        right = factors.right(part, memory[2])
                        if number:
                            y = np.ndarray(total.shape, total.dtype, memory[3])
                            np.add(total, np.matmul(left, right, out=y), out=total)
                        else:
                            np.matmul(left, right, out=total)

        factors.workers.share(work, count)
        target = out.transpose(*factors.places, 1)
        parts = sums.reshape(count, *target.shape)
        target[...] = parts[0] if count == 1 else np.add.reduce(parts, axis=0, dtype=out.dtype)


def scattered(window: Window, x: Array, w: Array, out: Array, resources: Resources) -> None:
    """Write out [n, o, p..] of x [n, c, s..] and kernels [o, c, k..] for windows that move by one.

    Each element of x times the kernels at once, and the sum of what meets at each place, which is at
    p = s lhs_dilation + low - k rhs_dilation. Places are apart by their remainders modulo lhs_dilation meanwhile.
    """
    sizes, extents, steps, size = w.shape[2:], x.shape[2:], window.lhs_dilation, x.itemsize
    taps = [*product(*map(range, sizes))]
    lows = [low for low, _ in window.padding]
    # Quotient and remainder of the place that element 0 of x meets by each tap.
    meets = [
        [
            divmod(low - k * dilation, d)
            for low, k, dilation, d in zip(lows, tap, window.rhs_dilation, steps, strict=True)
        ]
        for tap in taps
    ]
    quotients = [-(-n // d) for n, d in zip(out.shape[2:], steps, strict=True)]
    each = len(w) * len(taps) * prod(extents[1:])
    most = max(1, 2 * BLOCK_BYTES // (each * size))
    blocks = [block for (block,) in _blocks(quotients[:1], most)]
    runs = [*product(range(len(x)), blocks)]
    tallest = max([block.stop - block.start for block in blocks])
    before, after = (bound(meet[0][0] for meet in meets) for bound in (max, min))
    planes = (*steps, len(w), tallest, *quotients[1:])
    rooms = (tallest + before - after) * each * size, prod(planes) * size
    kernels = matrix_of(w, (*range(2, w.ndim), 0), (1,), False, None)

    def work(first: int, last: int) -> None:
        with scratch(resources, rooms) as memory:
            total = np.ndarray(planes, out.dtype, memory[1])
            for n, block in runs[first:last]:
                low, high = max(0, block.start - before), min(extents[0], block.stop - after)
                rows = x[n, :, low : max(low, high)]
                part = matrix_of(rows, (0,), (*range(1, x.ndim - 1),), False, None)
                y = np.ndarray((len(kernels), part.shape[1]), out.dtype, memory[0])
                np.matmul(kernels, part, out=y)
                terms = y.reshape(len(taps), len(w), *rows.shape[1:])
                _add_what_meets(total, terms, meets, low - block.start)
                for phase in product(*map(range, steps)):
                    begin, end = (steps[0] * edge for edge in (block.start, block.stop))
                    target = out[n, :, begin:end]
                    target = target[(slice(None), *map(slice, phase, [None] * len(phase), steps))]
                    target[...] = total[phase][(slice(None), *map(slice, target.shape[1:]))]

    workers_for(resources, x.size * len(taps) * len(w)).share(work, len(runs))


def _add_what_meets(
    total: Array, terms: Array, meets: Sequence[Sequence[tuple[int, int]]], ahead: int
) -> None:
    """Write into total [r.., o, q..] the sums of terms [k, o, s..], s at q by quotient and remainder of each tap.

    Args:
        ahead: the first s along the first axis, counted from the first q.
    """
    total.fill(0)
    rank = len(meets[0])
    for term, meet in zip(terms, meets, strict=True):
        source, target = [slice(None)], [slice(None)]
        for axis, (quotient, _) in enumerate(meet):
            shift = quotient + (0 if axis else ahead)
            extent, places = term.shape[1 + axis], total.shape[rank + 1 + axis]
            low, high = max(0, -shift), min(extent, places - shift)
            source.append(slice(low, max(low, high)))
            target.append(slice(low + shift, max(low, high) + shift))
        total[tuple([remainder for _, remainder in meet])][tuple(target)] += term[tuple(source)]
