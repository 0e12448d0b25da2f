"""Products of matrix views: one BLAS call, or blocks that the executor's threads share, each with
single-threaded BLAS.

The thread that copies a block of an operand multiplies it next, while the block is in its cache. Neither the
blocks nor the bits of the result depend on the number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, prod
from typing import Any

import numpy as np

from tenferro import costs
from tenferro.exec.kernels.kernel import Array
from tenferro.exec.kernels.matrix_view import Axes, MatrixView
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.threads import SERIAL, Workers
from tenferro.exec.runtime.transposition import LINE

__all__ = ["AxisGroups", "BlockedProduct", "SingleProduct", "block_count", "estimated_work", "matmul", "scratch", "workers_for"]  # fmt: skip

MIN_BLOCK_EXTENT = 128
"""Minimum number of rows, columns or terms of a block; for each block BLAS packs the other operand again."""
MIN_PARALLEL_WORK = 1 << 24
"""Minimum number of multiplications for two blocks; four times the work doubles the number of blocks.

Threads wait for each other between calls, so larger products also use larger blocks."""
MAX_BLOCKS = min(16, os.cpu_count() or 1)
"""Maximum number of blocks, because BLAS packs the shared operand again for each block.

Eight blocks of 1,024 rows take 1.15 times as long as two."""
BLOCK_ALIGNMENT = LINE // 4
"""Divisor of the rows or columns per block, which aligns blocks of column-major results to cache lines."""
MIN_BATCH, MAX_MATRIX_ELEMENTS = 256, 64
"""Minimum batch size and maximum elements per matrix for which einsum is faster than one BLAS call per vector."""
COPY_COST = 32
"""Estimated cost of copying an element, in multiplications."""
MATVEC_COST = 8
"""Estimated cost of one matrix element in a matrix-vector product, in multiplications."""
MAX_PARTIAL_ELEMENTS = costs.SMALL // 4
"""Maximum number of elements of a result that is the sum of one partial result per block."""
MIN_POOLED_BYTES = costs.FRESH
"""Minimum size in bytes of copies that use memory of the pool."""


@dataclass(frozen=True)
class AxisGroups:
    """Axes of two operands by their role in a contraction; each group is in the order in which it is merged.

    Attributes:
        batch, terms: axes of lhs and of rhs.
        rows, columns: the free axes of lhs, and of rhs.
    """

    batch: tuple[Axes, Axes]
    rows: Axes
    columns: Axes
    terms: tuple[Axes, Axes]

    def left(self, lhs: Array) -> MatrixView:
        """Return lhs as (batch.., rows, terms)."""
        return MatrixView(lhs, self.batch[0], self.rows, self.terms[0])

    def right(self, rhs: Array) -> MatrixView:
        """Return rhs as (batch.., terms, columns)."""
        return MatrixView(rhs, self.batch[1], self.terms[1], self.columns)


def matmul(a: Array, b: Array, out: Array | None, is_column_major: bool) -> Array:
    """Return the product by BLAS, column-major if requested.

    For large batches of small matrix-vector products, einsum is faster than one BLAS call per matrix.
    """
    if is_batched_matvec(a.shape, b.shape) and a.strides[-1] == b.strides[-2] == a.itemsize:
        y = np.einsum("...ij,...j->...i", a, b[..., 0], out=None if out is None else out[..., 0])
        return y[..., None]
    if not is_column_major:
        return np.matmul(a, b, out=out)
    out = None if out is None else out.swapaxes(-1, -2)
    return np.matmul(b.swapaxes(-1, -2), a.swapaxes(-1, -2), out=out).swapaxes(-1, -2)


def is_batched_matvec(a: Sequence[int], b: Sequence[int]) -> bool:
    """Return whether a product is a large batch of small matrix-vector products."""
    return b[-1] == 1 and prod(a[:-2]) >= MIN_BATCH and prod(a[-2:]) <= MAX_MATRIX_ELEMENTS


def block_count(multiplications: int, copied: int = 0) -> int:
    """Return the number of blocks for this many multiplications and copied elements."""
    work = multiplications and multiplications + COPY_COST * copied
    magnitude = (work // MIN_PARALLEL_WORK).bit_length()
    return min(MAX_BLOCKS, 1 << max(magnitude // 2, 1)) if magnitude else 1


def estimated_work(rows: int, columns: int, terms: int) -> int:
    """Return the estimated cost of a product, in multiplications; matrix-vector products are bound by memory."""
    return rows * columns * terms * (MATVEC_COST if 1 in (rows, columns) else 1)


def workers_for(resources: Resources, multiplications: int, copied: int = 0) -> Workers:
    """Return the threads for this many multiplications and copied elements."""
    return resources.workers if block_count(multiplications, copied) > 1 else SERIAL


def _result(shape: Sequence[int], dtype: Any, is_column_major: bool, into: Any) -> Array:
    """Return an uninitialised array (.., rows, columns) in this buffer or in new memory."""
    if not is_column_major:
        return np.ndarray(shape, dtype, into)
    return np.ndarray((*shape[:-2], *shape[:-3:-1]), dtype, into).swapaxes(-1, -2)


def scratch(resources: Resources, sizes: Sequence[int]) -> AbstractContextManager[Sequence[Any]]:
    """Borrow buffers for copies from the pool; yield None for small copies."""
    if sum(sizes) < MIN_POOLED_BYTES:
        return nullcontext([None] * len(sizes))
    return resources.memory.scratch(sizes)


class SingleProduct:
    """Product by one call of BLAS; operands that BLAS cannot read are copied."""

    def __init__(
        self, left: MatrixView, right: MatrixView, is_column_major: bool, resources: Resources
    ) -> None:
        self.left, self.right, self.resources = left, right, resources
        self.is_column_major = is_column_major
        self.shape = (*left.shape[:-1], right.shape[-1])

    def __call__(self, lhs: Array, rhs: Array, into: Any) -> Array:
        """Return the product as (batch.., rows, columns)."""
        with scratch(self.resources, (self.left.copy_bytes, self.right.copy_bytes)) as memory:
            a = self.left.copied(lhs, memory[0], self.resources)
            b = self.right.copied(rhs, memory[1], self.resources)
            is_column_major = self.is_column_major
            out = None if into is None else _result(self.shape, lhs.dtype, is_column_major, into)
            return matmul(a, b, out, is_column_major)


class BlockedProduct:
    """Product split along its first batch axis, or along the longest of rows, columns and terms.

    Attributes:
        axes: the split axis of lhs and of rhs; None for an operand that is not split.
        thread_resources: the resources of a thread that copies blocks.
    """

    @classmethod
    def plan(
        cls,
        groups: AxisGroups,
        lhs: Array,
        rhs: Array,
        single: SingleProduct,
        block_bytes: float = inf,
    ) -> BlockedProduct | None:
        """Return a product in blocks; None if one call is faster, and makes no copy of more than `block_bytes`."""
        *batches, m, n = single.shape
        k, batch = single.left.shape[-1], prod(batches)
        copied = sum([
            x.size for x, view in ((lhs, single.left), (rhs, single.right)) if view.copy_bytes
        ])  # fmt: skip
        count = block_count(batch * estimated_work(m, n, k), copied)
        count = max(count, int(max(single.left.copy_bytes, single.right.copy_bytes) // block_bytes))
        if count < 2:
            return None
        if batch > 1:
            return cls(groups, lhs, rhs, single, groups.batch, "batch", count)
        if k > max(m, n) and m * n <= MAX_PARTIAL_ELEMENTS:
            kind, axes, extent = "terms", groups.terms, k
        elif n == 1 or (m > 1 and _cuts_rows(m, n, single.is_column_major)):
            kind, axes, extent = "rows", (groups.rows, ()), m
        else:
            kind, axes, extent = "columns", ((), groups.columns), n
        if extent < 2 * MIN_BLOCK_EXTENT:
            return None
        return cls(groups, lhs, rhs, single, axes, kind, min(count, extent // MIN_BLOCK_EXTENT))

    def __init__(
        self,
        groups: AxisGroups,
        lhs: Array,
        rhs: Array,
        single: SingleProduct,
        axes: tuple[Axes, Axes],
        kind: str,
        count: int,
    ) -> None:
        self.kind, self.shape = kind, single.shape
        self.is_column_major, self.resources = single.is_column_major, single.resources
        self.thread_resources = replace(single.resources, workers=SERIAL)
        self.axes = first = [
            next((axis for axis in group if x.shape[axis] > 1), None)
            for group, x in zip(axes, (lhs, rhs), strict=True)
        ]
        (extent,) = {x.shape[a] for a, x in zip(first, (lhs, rhs), strict=True) if a is not None}
        self.cuts = [*pairwise(_block_ends(extent, min(count, extent)))]
        # Views of a block of each split operand, or of the whole operand, by the extent of the block.
        self.lefts = {j - i: groups.left(_part(lhs, first[0], i, j)) for i, j in self.cuts}
        self.rights = {j - i: groups.right(_part(rhs, first[1], i, j)) for i, j in self.cuts}
        # The split axis of the result; None where each block is a partial sum.
        self.axis: int | None = {"rows": -2, "columns": -1}.get(kind)
        if kind == "batch":
            self.axis = groups.batch[0].index(first[0])
        self.step = 1 if self.axis is None else self.shape[self.axis] // extent
        # Sizes of scratch buffers: for the operand that is not split, and for a block of each split operand.
        left, right = (
            max(view.copy_bytes for view in views.values()) for views in (self.lefts, self.rights)
        )
        self.scratch_sizes = (
            left if first[0] is None else right if first[1] is None else 0,
            0 if first[0] is None else left,
            0 if first[1] is None else right,
        )

    def __call__(self, lhs: Array, rhs: Array, into: Any) -> Array:
        """Return the product as (batch.., rows, columns)."""
        out = _result(self.shape, lhs.dtype, self.is_column_major, into)
        sums = self.kind == "terms"
        shares = (len(self.cuts), *self.shape) if sums else ()
        parts = _result(shares, lhs.dtype, self.is_column_major, None) if sums else out

        sides = (*zip(self.axes, (self.lefts, self.rights), (lhs, rhs), strict=True),)
        with scratch(self.resources, self.scratch_sizes[:1]) as (shared,):
            a, b = (
                next(iter(views.values())).copied(x, shared, self.resources)
                if axis is None
                else None
                for axis, views, x in sides
            )

            def block_of(side: int, i: int, j: int, memory: Any) -> Array:
                axis, views, x = sides[side]
                return views[j - i].copied(_part(x, axis, i, j), memory, self.thread_resources)

            def work(first: int, last: int) -> None:
                with scratch(self.resources, self.scratch_sizes[1:]) as memory:
                    for number in range(first, last):
                        i, j = self.cuts[number]
                        x = block_of(0, i, j, memory[0]) if a is None else a
                        y = block_of(1, i, j, memory[1]) if b is None else b
                        matmul(x, y, self._target(parts, number), self.is_column_major)

            self.resources.workers.parallel_for(work, len(self.cuts))
        return np.add.reduce(parts, axis=0, dtype=parts.dtype, out=out) if sums else out

    def _target(self, parts: Array, number: int) -> Array:
        """Return the part of the result, or the partial sum, of a block."""
        if self.axis is None:
            return parts[number]
        start, stop = self.cuts[number]
        index = [slice(None)] * parts.ndim
        index[self.axis] = slice(self.step * start, self.step * stop)
        return parts[tuple(index)]


def _block_ends(extent: int, count: int) -> list[int]:
    align = BLOCK_ALIGNMENT if extent >= 2 * BLOCK_ALIGNMENT * count else 1
    return [*[extent * i // count // align * align for i in range(count)], extent]


def _cuts_rows(m: int, n: int, is_column_major: bool) -> bool:
    """Return whether a product is split along rows. Blocks that are contiguous in the result are fastest to write."""
    slow, fast = (n, m) if is_column_major else (m, n)
    return (slow >= min(fast, MAX_BLOCKS * MIN_BLOCK_EXTENT)) != is_column_major


def _part(x: Array, axis: int | None, start: int, stop: int) -> Array:
    return x if axis is None else x[(*[slice(None)] * axis, slice(start, stop))]
