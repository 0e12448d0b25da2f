"""Views of a contraction's operands as matrices; operands whose axes cannot be merged are copied."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from tenferro import costs
from tenferro.exec.kernels.copying import Copy, fastest_axis
from tenferro.exec.kernels.kernel import Array
from tenferro.exec.layout import Axes
from tenferro.exec.runtime.resources import SERIAL_RESOURCES, Resources

__all__ = ["Axes", "MatrixView", "is_blas_layout", "mergeable_order", "merged_stride"]

MIN_PLANNED_BYTES = costs.CACHE // 8
"""Minimum size in bytes of a copy that is planned; see `tenferro.exec.kernels.copying.Copy`."""


def mergeable_order(x: Array, axes: Axes) -> Axes:
    """Return the axes in an order in which they can be merged into one axis; unchanged if there is none."""
    if merged_stride(x, axes) is None:
        descending = tuple(sorted(axes, key=lambda axis: -abs(x.strides[axis])))
        if merged_stride(x, descending) is not None:
            return descending
    return axes


def merged_stride(x: Array, axes: Sequence[int]) -> int | None:
    """Return the stride of the axis that results from merging these axes; None if they cannot be merged."""
    long_axes = [axis for axis in axes if x.shape[axis] != 1]
    for outer, inner in pairwise(long_axes):
        if x.strides[outer] != x.strides[inner] * x.shape[inner]:
            return None
    return x.strides[long_axes[-1]] if long_axes else x.itemsize


class MatrixView:
    """Function that views or copies an operand as an array [batch.., rows, columns].

    Attributes:
        shape: the shape of the array.
        perm: the permutation of the operand's axes before the view or copy.
        copy_bytes: the size of the copy; 0 without a copy.
        is_column_major: whether the row axis has a smaller stride than the column axis.
    """

    def __init__(self, x: Array, batch: Axes, rows: Axes, columns: Axes) -> None:
        matrix = [prod([x.shape[axis] for axis in axes]) for axes in (rows, columns)]
        self.shape = (*[x.shape[axis] for axis in batch], *matrix)
        self.copy_bytes = 0
        self.perm = (*batch, *rows, *columns)
        down, across = merged_stride(x, rows), merged_stride(x, columns)
        if (
            down is not None
            and across is not None
            and is_blas_layout((down, across), matrix, x.itemsize)
        ):
            self.is_column_major = down < across
            return
        self.is_column_major = fastest_axis(x) in rows
        self.copy_bytes = x.nbytes
        if self.is_column_major:
            self.perm = (*batch, *columns, *rows)
        x = x.transpose(self.perm)
        self.copy = Copy(np.empty(x.shape, x.dtype), x) if x.nbytes >= MIN_PLANNED_BYTES else None

    def copied(self, x: Array, into: Any, resources: Resources = SERIAL_RESOURCES) -> Array:
        """Return x as matrices; a copy is in the buffer `into` if it is not None."""
        x = x.transpose(self.perm)
        if not self.copy_bytes:
            return x.reshape(self.shape)
        copy = np.ndarray(x.shape, x.dtype, into)
        if self.copy is None:
            np.copyto(copy, x)
        else:
            self.copy(copy, x, resources)
        if not self.is_column_major:
            return copy.reshape(self.shape)
        return copy.reshape((*self.shape[:-2], *self.shape[:-3:-1])).swapaxes(-1, -2)


def is_blas_layout(strides: tuple[int, int], shape: Sequence[int], itemsize: int) -> bool:
    """Return whether BLAS supports these strides: one axis is contiguous, and its rows or columns do not overlap."""
    for near, far in ((0, 1), (1, 0)):
        is_contiguous = strides[near] == itemsize or shape[near] == 1
        if is_contiguous and (shape[far] == 1 or strides[far] >= itemsize * shape[near]):
            return True
    return False
