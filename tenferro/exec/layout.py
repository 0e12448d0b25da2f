"""Layouts of arrays in memory: their strides, and the order of their axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tenferro.types import TensorSpec

__all__ = [
    "Axes",
    "Layout",
    "arranged",
    "by_stride",
    "common_axes",
    "dense",
    "in_memory",
    "layout_of",
    "row_major",
    "strided",
]

Axes: TypeAlias = tuple[int, ...]
"""Order of the axes of an array in memory: the axis with the largest stride first."""


class Layout(NamedTuple):
    """Shape of an array, and its strides in elements; the stride along an axis of extent 1 is 0."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def repeats(self) -> bool:
        """Whether elements along an axis share one memory location, as in a broadcast view."""
        return any([n > 1 and not step for n, step in zip(self.shape, self.strides, strict=True)])

    def transposed(self, perm: Sequence[int]) -> Layout:
        """Return the layout of a view of the array whose axis i is axis `perm[i]` of the array."""
        return Layout(
            tuple([self.shape[axis] for axis in perm]), tuple([self.strides[axis] for axis in perm])
        )

    def reshaped(self, shape: tuple[int, ...]) -> Layout:
        """Return the layout of a column-major reshape of the array.

        If only axes of extent 1 are added or removed, the reshape is a view. Otherwise it is a column-major copy.
        """
        long = [pair for pair in zip(self.shape, self.strides, strict=True) if pair[0] != 1]
        if [n for n, _ in long] != [n for n in shape if n != 1]:
            return dense(shape, range(len(shape))[::-1])
        strides = iter([step for _, step in long])
        return Layout(shape, tuple([0 if n == 1 else next(strides) for n in shape]))

    def broadcast(self, shape: tuple[int, ...], dims: Sequence[int]) -> Layout:
        """Return the layout of a broadcast view of the array, whose axis i becomes axis `dims[i]` of the view."""
        strides = [0] * len(shape)
        for axis, step in zip(dims, self.strides, strict=True):
            strides[axis] = step
        return Layout(shape, tuple(strides))

    def merges(self, count: int) -> bool:
        """Return whether the first `count` axes can be viewed as one axis with one stride."""
        pairs = list(zip(self.shape, self.strides, strict=True))[:count]
        long = [pair for pair in pairs if pair[0] > 1]
        return all([outer == n * inner for (_, outer), (n, inner) in pairwise(long)])

    def outline(self, itemsize: int) -> Any:
        """Return an array with the shape and strides of the layout; its elements must not be accessed."""
        strides = [step * itemsize for step in self.strides]
        return np.lib.stride_tricks.as_strided(
            np.empty(1, f"V{itemsize}"), self.shape, strides, writeable=False
        )


def by_stride(strides: Sequence[int]) -> Axes:
    """Return the axes sorted by the absolute value of their strides, largest first; the sort is stable.

    >>> by_stride((8, -96, 8))
    (1, 0, 2)
    """
    return tuple(sorted(range(len(strides)), key=lambda axis: -abs(strides[axis])))


def dense(shape: tuple[int, ...], axes: Iterable[int]) -> Layout:
    """Return the contiguous layout of a shape, with axes in this order in memory, slowest first.

    >>> dense((2, 3), (1, 0))
    Layout(shape=(2, 3), strides=(1, 2))
    """
    strides, step = [0] * len(shape), 1
    for axis in reversed(tuple(axes)):
        strides[axis] = step if shape[axis] > 1 else 0
        step *= shape[axis]
    return Layout(shape, tuple(strides))


def strided(shape: tuple[int, ...], strides: Sequence[int]) -> Layout:
    """Return the layout with these strides in elements; strides along axes of extent 1 become 0."""
    return Layout(
        shape, tuple([step if n > 1 else 0 for n, step in zip(shape, strides, strict=True)])
    )


def row_major(shape: tuple[int, ...]) -> Layout:
    """Return the row-major layout of a shape."""
    return dense(shape, range(len(shape)))


def layout_of(x: Any) -> Layout | None:
    """Return the layout of an array; None if one of its strides is not a multiple of the element size.

    >>> layout_of(np.zeros((2, 1, 3)).T)
    Layout(shape=(3, 1, 2), strides=(1, 0, 3))
    """
    strides: list[int] = []
    for n, step in zip(x.shape, x.strides, strict=True):
        elements, rest = divmod(step, x.itemsize)
        if rest and n > 1:
            return None
        strides.append(elements if n > 1 else 0)
    return Layout(x.shape, tuple(strides))


def arranged(x: Any, layout: Layout) -> Any:
    """Return the array if it has this layout, else a copy with this layout.

    Along an axis whose stride in `layout` is 0, all elements of the array must be equal.
    """
    if layout_of(x) == layout:
        return x
    steps = list(zip(layout.shape, layout.strides, strict=True))
    count = 1 + sum([(n - 1) * abs(step) for n, step in steps])
    first = -sum([(n - 1) * step for n, step in steps if step < 0])
    strides = [step * x.itemsize for step in layout.strides]
    memory = np.empty(count * x.itemsize, np.uint8)
    y = np.ndarray(x.shape, x.dtype, memory, first * x.itemsize, strides)
    distinct = tuple([slice(None) if step else slice(1) for step in layout.strides])
    y[distinct] = x[distinct]
    return y


def in_memory(spec: TensorSpec, axes: Axes) -> tuple[tuple[int, ...], Any, Axes]:
    """Return the shape, dtype and permutation for `np.empty(shape, dtype).transpose(perm)`, an array of this type.

    Args:
        axes: the order of the array's axes in memory.

    >>> in_memory(TensorSpec.parse("f64[2,3,4]"), (1, 2, 0))
    ((3, 4, 2), dtype('float64'), (2, 0, 1))
    """
    inverse = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    return tuple([spec.shape[axis] for axis in axes]), spec.dtype.dtype, inverse


def common_axes(layouts: Iterable[Layout], rank: int) -> Axes:
    """Return the most frequent memory order of the first `rank` axes; in case of a tie, row-major.

    Vectors, empty arrays and arrays with fewer axes are not counted, nor are broadcast arrays, because they occupy
    little memory.
    """
    rows = tuple(range(rank))
    counts: dict[Axes, int] = {rows: 0}
    for each in layouts:
        is_vector = sum([n > 1 for n in each.shape]) < 2
        if len(each.shape) < rank or each.repeats or is_vector or not prod(each.shape):
            continue
        axes = rows if each == row_major(each.shape) else by_stride(each.strides[:rank])
        counts[axes] = counts.get(axes, 0) + 1
    return max(counts, key=lambda axes: counts[axes])
