"""An operand of a contraction as a matrix: its groups of axes walked with one step each, or a copy that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from operator import methodcaller
from typing import Any

import numpy as np

from tenferro.exec.copying import Copy, fastest_axis
from tenferro.exec.kernels.kernel import Array
from tenferro.exec.runtime.resources import CALLER, Resources

__all__ = ["Axes", "MatrixView", "is_readable", "order_of", "step_of"]

Axes = tuple[int, ...]
SMALLEST = 1 << 16
"""Bytes from which a copy is worth a plan."""


def order_of(x: Array, axes: Axes) -> Axes:
    """The order in which they are one axis, if there is any; else as given."""
    if step_of(x, axes) is None:
        descending = tuple(sorted(axes, key=lambda axis: -abs(x.strides[axis])))
        if step_of(x, descending) is not None:
            return descending
    return axes


def step_of(x: Array, axes: Sequence[int]) -> int | None:
    """The stride of these axes as one; None where they are not."""
    long_axes = [axis for axis in axes if x.shape[axis] != 1]
    for outer, inner in pairwise(long_axes):
        if x.strides[outer] != x.strides[inner] * x.shape[inner]:
            return None
    return x.strides[long_axes[-1]] if long_axes else x.itemsize


class MatrixView:
    """An operand as an array [batch.., rows, columns]: a view of it, or of a copy in the same order.

    Attributes:
        room: bytes of the copy.
        is_column_major: rows are nearer to each other than columns.
    """

    def __init__(self, x: Array, batch: Axes, rows: Axes, columns: Axes) -> None:
        self.shape = (
            *[x.shape[axis] for axis in batch],
            prod(x.shape[axis] for axis in rows),
            prod(x.shape[axis] for axis in columns),
        )
        down, across = step_of(x, rows), step_of(x, columns)
        m, n = self.shape[-2:]
        self.room, self.given = 0, x.shape
        self.perm = (*batch, *rows, *columns)
        if (
            down is not None
            and across is not None
            and is_readable((down, across), (m, n), x.itemsize)
        ):
            self.is_column_major = down < across
            return
        self.is_column_major = fastest_axis(x) in rows
        self.room = x.nbytes
        if self.is_column_major:
            self.perm = (*batch, *columns, *rows)
        x = x.transpose(self.perm)
        self.copy = Copy(np.empty(x.shape, x.dtype), x) if x.nbytes >= SMALLEST else None

    def reader(self) -> Callable[[Array], Array]:
        """The function that gives the matrix, as a view or a small copy."""
        shape, perm = self.shape, self.perm
        in_order = perm == tuple(range(len(perm)))
        if not self.room or not self.is_column_major:
            if in_order and self.given == shape:
                return lambda x: x
            return (
                methodcaller("reshape", shape)
                if in_order
                else lambda x: x.transpose(perm).reshape(shape)
            )
        return lambda x: self.copied(x, None)

    def copied(self, x: Array, piece: Any, resources: Resources = CALLER) -> Array:
        """The matrix, a copy in these bytes."""
        x = x.transpose(self.perm)
        if not self.room:
            return x.reshape(self.shape)
        copy = np.ndarray(x.shape, x.dtype, piece)
        if self.copy is None:
            np.copyto(copy, x)
        else:
            self.copy(copy, x, resources)
        if not self.is_column_major:
            return copy.reshape(self.shape)
        return copy.reshape((*self.shape[:-2], *self.shape[:-3:-1])).swapaxes(-1, -2)


def is_readable(steps: tuple[int, int], shape: tuple[int, int], itemsize: int) -> bool:
    """Whether BLAS reads a matrix with these steps: neighbours along one axis, no overlap along the other."""
    for near, far in ((0, 1), (1, 0)):
        nearest = steps[near] == itemsize or shape[near] == 1
        if nearest and (shape[far] == 1 or steps[far] >= itemsize * shape[near]):
            return True
    return False
