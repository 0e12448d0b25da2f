"""Products of matrix views, by one call of BLAS, or by a call for each block of a large product.

The executor's threads share the blocks, and each calls single-threaded BLAS. If a block of an operand has to be copied,
the thread that multiplies it copies it, so that it is in the thread's cache. Neither the blocks nor the bits of the
result depend on the number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any

import numpy as np

from tenferro import costs
from tenferro.exec.kernels.kernel import Array
from tenferro.exec.kernels.matrix_view import Axes, MatrixView
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.sum_of_products import ONE_IMAGE, SumCompiler, SumOfProducts
from tenferro.exec.runtime.threads import SERIAL, Workers, even_ranges
from tenferro.types import DType

__all__ = ["AxisGroups", "Product", "address", "block_count", "estimated_work", "matmul", "scratch", "workers_for"]  # fmt: skip

MIN_BLOCK_EXTENT = 128
"""Minimum number of rows, columns or terms of a block; for each block, BLAS packs the whole unsplit operand."""
MIN_PARALLEL_WORK = 1 << 24
"""Minimum number of multiplications of a product in two blocks; twice as many blocks need four times the work."""
MAX_BLOCKS = min(16, os.cpu_count() or 1)
"""Maximum number of blocks; for 1,024 rows, eight blocks take 1.15 times as long as two blocks."""
COPY_COST = 32
"""Estimated cost of copying an element, in multiplications."""
MATVEC_COST = 8
"""Estimated cost of one matrix element in a matrix-vector product, in multiplications."""
MAX_PARTIAL_ELEMENTS = costs.SMALL // 4
"""Maximum number of elements of a result that is computed as the sum of one partial result per block."""
MIN_POOLED_BYTES = costs.FRESH
"""Minimum size in bytes of copies that are stored in memory of the pool."""


@dataclass(frozen=True)
class AxisGroups:
    """Axes of the operands of a contraction by their role, in the order in which they are merged.

    Attributes:
        batch, terms: the batch axes and the contracted axes of `lhs` and `rhs`.
        rows: the free axes of `lhs`.
        columns: the free axes of `rhs`.
    """

    batch: tuple[Axes, Axes]
    rows: Axes
    columns: Axes
    terms: tuple[Axes, Axes]

    def left(self, lhs: Array) -> MatrixView:
        """Return `lhs` as matrices [batch.., rows, terms]."""
        return MatrixView(lhs, self.batch[0], self.rows, self.terms[0])

    def right(self, rhs: Array) -> MatrixView:
        """Return `rhs` as matrices [batch.., terms, columns]."""
        return MatrixView(rhs, self.batch[1], self.terms[1], self.columns)


def address(x: Array) -> int:
    """Return the address of the first element."""
    return x.__array_interface__["data"][0]


def matmul(
    a: Array, b: Array, out: Array, is_column_major: bool, sums: SumCompiler | None = None
) -> Array:
    """Write the product to `out` by compiled code or BLAS, and return `out`."""
    if is_column_major:
        a, b, target = b.swapaxes(-1, -2), a.swapaxes(-1, -2), out.swapaxes(-1, -2)
    else:
        target = out
    if sums is None or not _write_product(sums, a, b, target):
        np.matmul(a, b, out=target)
    return out


def _write_product(sums: SumCompiler, a: Array, b: Array, out: Array) -> bool:
    """Write a row-major product by compiled code, and return True; return False if it is not compiled."""
    size, (rows, columns), terms = out.itemsize, out.shape[-2:], a.shape[-1]
    # Either the columns of b are contiguous, or the terms of a and of b.
    is_contiguous = size in (b.strides[-1], max(a.strides[-1], b.strides[-2]))
    if out.dtype not in (np.float32, np.float64) or rows < 2 or not is_contiguous:
        return False
    a_steps, b_steps, y_steps = ([step // size for step in x.strides] for x in (a, b, out))
    is_batched = out.ndim > 2
    product = SumOfProducts(
        DType.of(out.dtype),
        (0, 0),
        (1, a_steps[-3], b_steps[-3], y_steps[-3]) if is_batched else ONE_IMAGE,
        (rows, a_steps[-2], y_steps[-2]),
        (columns, b_steps[-1], y_steps[-1]),
        ((terms, a_steps[-1], b_steps[-2]),),
    )
    compiled = sums(product, out.size * terms)
    if compiled is None:
        return False
    function, tasks = compiled
    tasks *= out.shape[-3] if is_batched else 1
    for index in np.ndindex(out.shape[:-3]):
        function(address(a[index]), address(b[index]), address(out[index]), 0, tasks)
    return True


def block_count(multiplications: int, copied: int = 0) -> int:
    """Return the number of blocks of a product with this many multiplications and copied elements."""
    work = multiplications and multiplications + COPY_COST * copied
    magnitude = (work // MIN_PARALLEL_WORK).bit_length()
    return min(MAX_BLOCKS, 1 << max(magnitude // 2, 1)) if magnitude else 1


def estimated_work(rows: int, columns: int, terms: int) -> int:
    """Return the estimated cost of a product, in multiplications of a matrix-matrix product."""
    return rows * columns * terms * (MATVEC_COST if 1 in (rows, columns) else 1)


def workers_for(resources: Resources, multiplications: int, copied: int = 0) -> Workers:
    """Return the executor's threads if the work is large enough for several blocks, else the calling thread."""
    return resources.workers if block_count(multiplications, copied) > 1 else SERIAL


def _result(shape: Sequence[int], dtype: Any, is_column_major: bool, into: Any) -> Array:
    """Return an uninitialised array [.., rows, columns], in the buffer `into` if it is not None."""
    if not is_column_major:
        return np.ndarray(shape, dtype, into)
    return np.ndarray((*shape[:-2], *shape[:-3:-1]), dtype, into).swapaxes(-1, -2)


def scratch(resources: Resources, sizes: Sequence[int]) -> AbstractContextManager[Sequence[Any]]:
    """Return a context manager that yields buffers of these sizes from the pool; for a small total, a None for each."""
    if sum(sizes) < MIN_POOLED_BYTES:
        return nullcontext([None] * len(sizes))
    return resources.memory.scratch(sizes)


class _Operand:
    """Operand of a product, as one array of matrices, or as blocks along an axis.

    Attributes:
        axis: the axis along which the operand is split; None if it is not split.
        views: the function that views a block as matrices, by the block's extent along the axis.
        shared_bytes, block_bytes: the sizes of a copy of the whole operand and of a block; 0 without a copy.
    """

    def __init__(
        self,
        view: Callable[[Array], MatrixView],
        x: Array,
        axis: int | None,
        cuts: Sequence[tuple[int, int]],
    ) -> None:
        self.axis = axis
        ranges = [(0, 1)] if axis is None else cuts
        self.views = {stop - start: view(self._part(x, start, stop)) for start, stop in ranges}
        size = max([view.copy_bytes for view in self.views.values()])
        self.shared_bytes, self.block_bytes = (size, 0) if axis is None else (0, size)

    def whole(self, x: Array, memory: Any, resources: Resources) -> Array | None:
        """Return the whole operand as matrices; None if it is split."""
        return self.block(x, (0, 1), memory, resources) if self.axis is None else None

    def block(self, x: Array, cut: tuple[int, int], memory: Any, resources: Resources) -> Array:
        """Return the block from `cut[0]` to `cut[1]` as matrices."""
        start, stop = cut
        return self.views[stop - start].copied(self._part(x, start, stop), memory, resources)

    def _part(self, x: Array, start: int, stop: int) -> Array:
        return x if self.axis is None else x[(*[slice(None)] * self.axis, slice(start, stop))]


class Product:
    """Function that computes a product by one call of BLAS, or by one call per block.

    Operands with strides that BLAS does not support are copied. A large product is split along its first batch axis, or
    along the longest of rows, columns and terms.

    Args:
        is_column_major: whether the result is column-major; by default, if both operands are.
        max_copy_bytes: maximum size in bytes of the copy of a block.

    Attributes:
        kind: the split axis: "batch", "rows", "columns" or "terms"; "" if there is only one block.
        thread_resources: the resources for a thread's copy of a block.
        cuts: the start and the end of each block along the split axis of the operands.
        axis: the split axis of the result; None if each block is a partial sum.
        step: the number of elements along the split axis of the result per element along that of an operand.
    """

    def __init__(
        self,
        groups: AxisGroups,
        lhs: Array,
        rhs: Array,
        resources: Resources,
        is_column_major: bool | None = None,
        max_copy_bytes: float = inf,
    ) -> None:
        left, right = groups.left(lhs), groups.right(rhs)
        if is_column_major is None:
            is_column_major = left.is_column_major and right.is_column_major
        self.is_column_major, self.resources = is_column_major, resources
        self.thread_resources = replace(resources, workers=SERIAL)
        self.shape = (*left.shape[:-1], right.shape[-1])
        self.kind, axes, count = self._split(
            groups, lhs, rhs, [left.copy_bytes, right.copy_bytes], max_copy_bytes
        )
        first, second = (
            next((axis for axis in group if x.shape[axis] > 1), None)
            for group, x in zip(axes, (lhs, rhs), strict=True)
        )
        extent = 1 if first is None else lhs.shape[first]
        extent = extent if second is None else rhs.shape[second]
        self.cuts = even_ranges(extent, min(count, extent))
        self.left = _Operand(groups.left, lhs, first, self.cuts)
        self.right = _Operand(groups.right, rhs, second, self.cuts)
        self.axis = {"rows": -2, "columns": -1}.get(self.kind)
        if self.kind == "batch":
            self.axis = groups.batch[0].index(self.left.axis)
        self.step = 1 if self.axis is None else self.shape[self.axis] // extent

    def _split(
        self, groups: AxisGroups, lhs: Array, rhs: Array, copied: Sequence[int], max_bytes: float
    ) -> tuple[str, tuple[Axes, Axes], int]:
        """Return `kind`, the axes of `lhs` and of `rhs` along one of which they are split, and the number of blocks.

        Args:
            copied: the sizes in bytes of the copies of both operands.
            max_bytes: maximum size in bytes of the copy of a block.
        """
        *batches, m, n = self.shape
        k, batch = prod([lhs.shape[axis] for axis in groups.terms[0]]), prod(batches)
        one: tuple[str, tuple[Axes, Axes], int] = "", ((), ()), 1
        if lhs is rhs and groups.terms[0] == groups.terms[1] and not groups.batch[0]:
            return one  # BLAS computes only half of a product of a matrix and its own transpose
        count = block_count(batch * estimated_work(m, n, k), sum(copied) // lhs.itemsize)
        count = max(count, int(max(copied) // max_bytes))
        if count < 2:
            return one
        if batch > 1:
            return "batch", groups.batch, count
        if k > max(m, n) and m * n <= MAX_PARTIAL_ELEMENTS:
            kind, axes, extent = "terms", groups.terms, k
        elif m >= n:
            kind, axes, extent = "rows", (groups.rows, ()), m
        else:
            kind, axes, extent = "columns", ((), groups.columns), n
        is_long = extent >= 2 * MIN_BLOCK_EXTENT
        return (kind, axes, min(count, extent // MIN_BLOCK_EXTENT)) if is_long else one

    def __call__(self, lhs: Array, rhs: Array, into: Any) -> Array:
        """Return the product [batch.., rows, columns], in the buffer `into` if it is not None."""
        left, right, is_column_major = self.left, self.right, self.is_column_major
        with scratch(self.resources, (left.shared_bytes, right.shared_bytes)) as memory:
            a = left.whole(lhs, memory[0], self.resources)
            b = right.whole(rhs, memory[1], self.resources)
            out = _result(self.shape, lhs.dtype, is_column_major, into)
            if a is not None and b is not None:
                return matmul(a, b, out, is_column_major, self.resources.sums)
            sums = self.kind == "terms"
            shares = (len(self.cuts), *self.shape)
            parts = _result(shares, lhs.dtype, is_column_major, None) if sums else out

            def work(first: int, last: int) -> None:
                with scratch(self.resources, (left.block_bytes, right.block_bytes)) as memory:
                    for number in range(first, last):
                        part, resources = self.cuts[number], self.thread_resources
                        x = left.block(lhs, part, memory[0], resources) if a is None else a
                        y = right.block(rhs, part, memory[1], resources) if b is None else b
                        target = self._target(parts, number)
                        matmul(x, y, target, is_column_major, self.resources.sums)

            self.resources.workers.parallel_for(work, len(self.cuts))
        return np.add.reduce(parts, axis=0, dtype=parts.dtype, out=out) if sums else out

    def _target(self, parts: Array, number: int) -> Array:
        """Return the array for the result of a block: a slice of the whole result, or a partial sum."""
        if self.axis is None:
            return parts[number]
        start, stop = self.cuts[number]
        index = [slice(None)] * parts.ndim
        index[self.axis] = slice(self.step * start, self.step * stop)
        return parts[tuple(index)]
