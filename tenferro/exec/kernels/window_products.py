"""Sums over windows as matrix products, block by block.

A copied block of windows stays in cache until the thread that copied it has multiplied it. Neither the blocks nor the
bits of results depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tenferro import costs
from tenferro.exec.kernels.kernel import Array
from tenferro.exec.kernels.matrix_product import MIN_BLOCK_EXTENT, scratch, workers_for
from tenferro.exec.kernels.matrix_view import Axes, is_blas_layout, merged_stride, merged_strides
from tenferro.exec.kernels.sums_of_products import DirectSums
from tenferro.exec.kernels.windows import Window, padded, window_view
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.threads import even_ranges

__all__ = ["multiply_windows", "scatter_products"]

BLOCK_BYTES = 2 * costs.CACHE
"""Size of a block of copied windows, in bytes."""
BLOCK_MULTIPLE = 4
"""Divisor of the number of blocks if there are several, which balances the load of threads."""
Block = tuple[slice, ...]
"""Slices of the slowest axes."""


def multiply_windows(
    window: Window,
    x: Array,
    w: Array,
    out: Array,
    resources: Resources,
    direct: DirectSums | None = None,
) -> None:
    """Write out [n, o, p..] from x [n, c, s..] and kernels [o, c, k..], by compiled sums if possible."""
    if not out.size:
        return
    if not x.size or not w.size:
        out[...] = 0
        return
    if direct is not None and direct.write(window, x, w, out):
        return
    _multiply_by_rows(_Operands(window, x, w, out.shape[2:], resources), out)


class _Operands:
    """Windows [n, c, p.., k..] as a matrix of positions (n, p..) and terms (c, k..), with axes in order of memory.

    Attributes:
        shape: of the windows.
        positions, taps: the axes of each, the slowest first.
        rows, terms: the number of positions and of terms.
        copies_positions_first: whether a copy is column-major.
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

        self.positions = tuple(sorted((0, *range(2, 2 + spatial)), key=by_stride))
        self.taps = tuple(sorted((1, *range(2 + spatial, 2 + 2 * spatial)), key=by_stride))
        self.rows, self.terms = (
            prod([self.shape[axis] for axis in axes]) for axes in (self.positions, self.taps)
        )
        self.copies_positions_first = _copies_positions_first(
            self.shape, strides, self.positions, self.taps
        )
        # Axes of the kernels: axis 1 is the channel, as in the windows; the spatial axes follow.
        self.kernel_axes = tuple([axis if axis == 1 else axis - spatial for axis in self.taps])
        work = self.rows * self.terms * w.shape[0]
        self.workers = workers_for(resources, work, self.rows * self.terms)

    def split(self) -> list[Block]:
        """Split the positions into blocks."""
        most = max(MIN_BLOCK_EXTENT, BLOCK_BYTES // (self.terms * self.x.itemsize))
        return _blocks([self.shape[axis] for axis in self.positions], most)

    def scratch_sizes(self, blocks: Sequence[Block]) -> tuple[int, int]:
        """Return the sizes in bytes of the padded input and of the copied windows of the largest block."""
        largest = list(self.shape)
        for axis, parts in zip(self.positions, zip(*blocks, strict=True), strict=False):
            largest[axis] = max([part.stop - part.start for part in parts])
        n, c, *sizes = largest
        counts, taps = sizes[: self.spatial], sizes[self.spatial :]
        elements = n * c
        for p, k, stride, dilation in zip(
            counts, taps, self.window.strides, self.window.rhs_dilation, strict=True
        ):
            elements *= (p - 1) * stride + (k - 1) * dilation + 1
        is_padded = any([edge > 0 for pair in self.window.padding for edge in pair])
        return elements * self.x.itemsize * is_padded, prod(largest) * self.x.itemsize

    def left(self, block: Block, memory: Sequence[Any]) -> Array:
        """Return the windows of a block as [positions, terms]."""
        parts = [slice(0, n) for n in self.shape[: 2 + self.spatial]]
        for axis, part in zip(self.positions, block, strict=False):
            parts[axis] = part
        taps = self.shape[2 + self.spatial :]
        window = self.window.cut(self.x.shape[2:], parts[2:], taps)
        x = padded(window, self.x[parts[0]], memory[0])
        windows = window_view(window, x, taps)
        return as_matrix(windows, self.positions, self.taps, self.copies_positions_first, memory[1])

    def right(self, into: Any) -> Array:
        """Return the kernels as [terms, outputs]."""
        w, axes = self.w, self.kernel_axes
        return as_matrix(w, axes, (0,), abs(w.strides[0]) > abs(w.strides[axes[-1]]), into)


def _copies_positions_first(shape: Axes, strides: Axes, positions: Axes, taps: Axes) -> bool:
    """Return whether to copy windows along positions: these have the smaller stride, or the longer rows."""
    position, tap = (
        next((axis for axis in reversed(axes) if shape[axis] > 1), None)
        for axes in (positions, taps)
    )
    if position is None or tap is None:
        return tap is None
    if min(position, tap) > 1:
        return shape[position] >= shape[tap]
    return abs(strides[position]) < abs(strides[tap])


def as_matrix(x: Array, rows: Axes, columns: Axes, is_column_major: bool, into: Any) -> Array:
    """Return a matrix whose rows and columns are these groups of axes.

    It is a view if BLAS can read it, else a copy in this buffer, row-major or column-major as requested.
    """
    m, n = (prod([x.shape[axis] for axis in axes]) for axes in (rows, columns))
    strides = merged_strides(x, rows, columns)
    if strides is not None and is_blas_layout(strides, (m, n), x.itemsize):
        return x.transpose(*rows, *columns).reshape(m, n)
    order = (*columns, *rows) if is_column_major else (*rows, *columns)
    source = x.transpose(order)
    copy = np.ndarray(source.shape, x.dtype, into)
    np.copyto(copy, source)
    return copy.reshape(n, m).T if is_column_major else copy.reshape(m, n)


def _blocks(extents: Sequence[int], most: int) -> list[Block]:
    """Split the slowest of these axes into blocks of at most `most` elements; a block has at least one."""
    inner = prod(extents)
    for axis, extent in enumerate(extents):
        inner //= extent
        if inner <= most or axis == len(extents) - 1:
            count = -(-extent // max(1, most // max(1, inner)))
            if count > 1:
                count = min(extent, -(-count // BLOCK_MULTIPLE) * BLOCK_MULTIPLE)
            outer = [[slice(i, i + 1) for i in range(n)] for n in extents[:axis]]
            return [*product(*outer, [slice(i, j) for i, j in even_ranges(extent, count)])]
    return [()]


def _slice(x: Array, axes: Axes, block: Block) -> Array:
    index: list[Any] = [slice(None)] * x.ndim
    for axis, part in zip(axes, block, strict=False):
        index[axis] = part
    return x[tuple(index)]


def _multiply_by_rows(operands: _Operands, out: Array) -> None:
    """Multiply blocks of positions by the kernels."""
    positions = operands.positions
    blocks = operands.split()
    scratch_sizes = operands.scratch_sizes(blocks)
    scratch_sizes = *scratch_sizes, scratch_sizes[1] // operands.terms * out.shape[1]
    with scratch(operands.resources, (operands.w.nbytes,)) as (memory,):
        kernels = operands.right(memory)

        def work(number: int) -> None:
            block = blocks[number]
            with scratch(operands.resources, scratch_sizes) as parts:
                left = operands.left(block, parts)
                _multiply(left, kernels, _slice(out, positions, block), positions, parts[2])

        operands.workers.for_each(work, len(blocks))


def _multiply(left: Array, right: Array, out: Array, positions: Axes, memory: Any) -> None:
    """Write left [positions, terms] times right [terms, outputs] to out [n, o, p..]."""
    down, across = merged_stride(out, positions), out.strides[1]
    shape, target = (left.shape[0], right.shape[1]), out.transpose(*positions, 1)
    if down is not None and across <= down and is_blas_layout((down, across), shape, out.itemsize):
        np.matmul(left, right, out=target.reshape(shape, copy=False))
        return
    y = np.matmul(left, right, out=np.ndarray(shape, out.dtype, memory))
    target[...] = y.reshape(target.shape)


def scatter_products(window: Window, x: Array, w: Array, out: Array, resources: Resources) -> None:
    """Write out [n, o, p..] from x [n, c, s..] and kernels [o, c, k..] for windows of stride 1.

    Each element of x is multiplied by all kernels, and products are summed per position
    p = s lhs_dilation + low - k rhs_dilation. Until the end, positions with the same remainder modulo lhs_dilation
    are stored together.
    """
    sizes, extents, steps, size = w.shape[2:], x.shape[2:], window.lhs_dilation, x.itemsize
    taps = [*product(*map(range, sizes))]
    lows = [low for low, _ in window.padding]
    # Quotient and remainder of the position to which element 0 of x contributes, for each tap.
    offsets = [
        [
            divmod(low - k * dilation, d)
            for low, k, dilation, d in zip(lows, tap, window.rhs_dilation, steps, strict=True)
        ]
        for tap in taps
    ]
    quotients = [-(-n // d) for n, d in zip(out.shape[2:], steps, strict=True)]
    row_elements = len(w) * len(taps) * prod(extents[1:])
    most = max(1, 2 * BLOCK_BYTES // (row_elements * size))
    blocks = [block for (block,) in _blocks(quotients[:1], most)]
    runs = [*product(range(len(x)), blocks)]
    tallest = max([block.stop - block.start for block in blocks])
    before, after = (bound(offset[0][0] for offset in offsets) for bound in (max, min))
    phases = (*steps, len(w), tallest, *quotients[1:])
    scratch_sizes = (tallest + before - after) * row_elements * size, prod(phases) * size
    kernels = as_matrix(w, (*range(2, w.ndim), 0), (1,), False, None)

    def work(first: int, last: int) -> None:
        with scratch(resources, scratch_sizes) as memory:
            total = np.ndarray(phases, out.dtype, memory[1])
            for n, block in runs[first:last]:
                low, high = max(0, block.start - before), min(extents[0], block.stop - after)
                rows = x[n, :, low : max(low, high)]
                part = as_matrix(rows, (0,), (*range(1, x.ndim - 1),), False, None)
                y = np.ndarray((len(kernels), part.shape[1]), out.dtype, memory[0])
                np.matmul(kernels, part, out=y)
                terms = y.reshape(len(taps), len(w), *rows.shape[1:])
                _accumulate_taps(total, terms, offsets, low - block.start)
                for phase in product(*map(range, steps)):
                    begin, end = (steps[0] * edge for edge in (block.start, block.stop))
                    target = out[n, :, begin:end]
                    target = target[(slice(None), *map(slice, phase, [None] * len(phase), steps))]
                    target[...] = total[phase][(slice(None), *map(slice, target.shape[1:]))]

    workers_for(resources, x.size * len(taps) * len(w)).parallel_for(work, len(runs))


def _accumulate_taps(
    total: Array, terms: Array, offsets: Sequence[Sequence[tuple[int, int]]], ahead: int
) -> None:
    """Sum terms [k, o, s..] into total [r.., o, q..]; the quotient of each tap is the offset of s from q.

    Args:
        ahead: the first s along the first axis, relative to the first q.
    """
    total.fill(0)
    rank = len(offsets[0])
    for term, offset in zip(terms, offsets, strict=True):
        source, target = [slice(None)], [slice(None)]
        for axis, (quotient, _) in enumerate(offset):
            shift = quotient + (0 if axis else ahead)
            extent, positions = term.shape[1 + axis], total.shape[rank + 1 + axis]
            low, high = max(0, -shift), min(extent, positions - shift)
            source.append(slice(low, max(low, high)))
            target.append(slice(low + shift, max(low, high) + shift))
        total[tuple([remainder for _, remainder in offset])][tuple(target)] += term[tuple(source)]
