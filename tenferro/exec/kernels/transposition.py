"""Transposing copies, whose source and result are contiguous along different axes; they write whole cache lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tenferro import costs

__all__ = ["LINE", "Transposition", "transposition_of"]

LINE = costs.CACHE_LINE
"""Size of a cache line, in bytes."""
ITEMSIZES = (1, 2, 4, 8, 16, 32, 64)
"""Supported sizes of an element in bytes, the divisors of a cache line."""
MIN_COLUMNS = 4
"""Minimum number of contiguous elements of the source, unless fewer elements fill a cache line."""
MAX_TABLE_ELEMENTS = 4096
"""Maximum number of elements of a run along several axes, whose offsets are in a table."""


@dataclass(frozen=True)
class Transposition:
    """Copy from x to y[.., columns, .., rows]; strides are in elements.

    Attributes:
        itemsize: the size of an element in bytes.
        outer: for each axis that is neither in rows nor in columns, slowest in y first: its extent, and its strides
            in x and in y.
        rows: for each axis of a contiguous run in y, slowest first: its extent, and its stride in x. The run is a
            multiple of a cache line.
        columns: for each axis of a contiguous run in x, slowest first: its extent, and its stride in y.
        is_streamed: whether y is written with non-temporal stores.
    """

    itemsize: int
    outer: tuple[tuple[int, int, int], ...]
    rows: tuple[tuple[int, int], ...]
    columns: tuple[tuple[int, int], ...]
    is_streamed: bool


def transposition_of(target: Any, source: Any, is_streamed: bool = True) -> Transposition | None:
    """Return the transposition that copies `source` to `target`; None if it would write parts of cache lines.

    The axes of `target` must be sorted by stride, slowest first.

    >>> import numpy as np
    >>> x = np.zeros((1000, 64, 16), np.float32)
    >>> transposition_of(np.zeros((16, 64, 1000), np.float32), x.T)
    >>> transposition_of(np.zeros((16, 1000, 64), np.float32), x.transpose(2, 0, 1))
    Transposition(itemsize=4, outer=((1000, 1024, 64),), rows=((64, 16),), columns=((16, 64000),), is_streamed=True)
    """
    itemsize, shape = source.itemsize, source.shape
    strides = (*source.strides, *target.strides)
    if itemsize not in ITEMSIZES or len(shape) < 2 or any([step % itemsize for step in strides]):
        return None
    x_strides = [step // itemsize for step in source.strides]
    y_strides = [step // itemsize for step in target.strides]
    line = LINE // itemsize
    fastest, _ = _contiguous_run(x_strides, shape, (), 1)
    rows, length = _contiguous_run(y_strides, shape, fastest, line, is_multiple=True)
    columns, width = _contiguous_run(x_strides, shape, rows, line)
    longest = max([n for axes, n in ((rows, length), (columns, width)) if len(axes) > 1], default=0)
    if length % line or width < min(MIN_COLUMNS, line) or longest > MAX_TABLE_ELEMENTS:
        return None
    if any([y_strides[axis] % line for axis in range(len(shape)) if axis not in rows]):
        return None
    outer = [axis for axis in range(len(shape)) if axis not in (*rows, *columns)]
    return Transposition(
        itemsize,
        tuple([(shape[axis], x_strides[axis], y_strides[axis]) for axis in outer]),
        tuple([(shape[axis], x_strides[axis]) for axis in reversed(rows)]),
        tuple([(shape[axis], y_strides[axis]) for axis in reversed(columns)]),
        is_streamed,
    )


def _contiguous_run(
    strides: Sequence[int],
    shape: Sequence[int],
    excluded: Sequence[int],
    unit: int,
    is_multiple: bool = False,
) -> tuple[list[int], int]:
    """Return the fastest axes that form one contiguous run, and the length of the run.

    The run ends before an excluded axis, or when its length is at least `unit` (with `is_multiple`, a multiple of it).
    """
    axes: list[int] = []
    length = 1
    for axis in sorted(range(len(shape)), key=lambda axis: abs(strides[axis])):
        is_long = length % unit == 0 if is_multiple else length >= unit
        if (axes and is_long) or axis in excluded or strides[axis] != length:
            break
        axes.append(axis)
        length *= shape[axis]
    return axes, length
