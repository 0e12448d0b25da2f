"""Descriptions of transposing copies, which write the result in whole cache lines.

Source and result of a transposing copy are contiguous along different axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tenferro import costs

__all__ = ["LINE", "Transposer", "Transposition", "transposition_of"]

LINE = costs.CACHE_LINE
"""Size of a cache line, in bytes."""
ITEMSIZES = (1, 2, 4, 8, 16, 32, 64)
"""Supported element sizes in bytes: divisors of a cache line."""
MIN_COLUMNS = 4
"""Minimum number of contiguous source elements per vector load, for elements of at most a quarter of a cache line."""
MAX_TABLE_ELEMENTS = 4096
"""Maximum length of a run of several axes, whose offsets are stored in a table."""


@dataclass(frozen=True)
class Transposition:
    """Copy from x to y[.., columns, .., rows]; strides are in elements.

    Attributes:
        itemsize: element size in bytes.
        outer: extents, and strides in x and in y, of the axes that are neither rows nor columns; slowest in y first.
        rows: extents and strides in x of the axes that form one contiguous run in y; the run is a multiple of a
            cache line. The slowest axis is first.
        columns: extents and strides in y of the axes that form one contiguous run in x; slowest first.
        is_streamed: whether y is written with non-temporal stores.
    """

    itemsize: int
    outer: tuple[tuple[int, int, int], ...]
    rows: tuple[tuple[int, int], ...]
    columns: tuple[tuple[int, int], ...]
    is_streamed: bool


Transposer: TypeAlias = Callable[[Transposition], tuple[Callable[..., Any], int] | None]
"""Compiler of a transposition. It returns a function of pointers to x and y and a range of tasks, and the
number of tasks.

It returns None if the transposition is not compiled."""


def transposition_of(target: Any, source: Any, is_streamed: bool = True) -> Transposition | None:
    """Return the transposition that copies `source` to `target`; None if it would write partial cache lines.

    The axes of `target` are sorted by stride, slowest first.

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
    """Return the fastest axes that form one contiguous run, and its length.

    The run ends before an excluded axis, or when its length reaches `unit` (with `is_multiple`, a multiple of it).
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
