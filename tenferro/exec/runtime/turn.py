"""Turn: a copy in which other axes lie beside each other than in the source, as blocks of whole lines of the cache.

Rows that have just been computed are turned while caches hold them: a result that is written by rows and copied afterwards
goes to memory twice, and comes back once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from tenferro.types import TensorSpec

__all__ = ["LINE", "WORTH", "Turn", "TurnedRows", "Turner", "turn_of", "turned_rows"]

LINE = 64
"""Bytes that go to memory at once."""
WORTH = 1 << 25
"""Bytes that NumPy copies in the time that it takes to compile the function of a turn."""
ITEMSIZES = (1, 2, 4, 8, 16, 32, 64)
"""Bytes of elements of which registers hold several, or that are a line by themselves."""
FEWEST = 4
"""Neighbours in the source that are worth a register, of elements that are not larger than a quarter of it."""
LONGEST_TABLE = 4096
"""Elements of a run of several axes, whose places are written down."""
ROWS = 1 << 18
"""Bytes of rows that the nearer caches hold, with what they are computed from."""


@dataclass(frozen=True)
class Turn:
    """y[.., columns, .., rows] of x; steps are in elements.

    Attributes:
        itemsize: bytes of an element.
        outer: extents, and steps in x and in y, of the axes that are neither rows nor columns, slowest of y first.
        rows: extents and steps in x of the axes that are one run of whole lines of y, slowest first.
        columns: extents and steps in y of those that are one run of x, slowest first.
        is_streamed: whether lines of y go around the caches.
    """

    itemsize: int
    outer: tuple[tuple[int, int, int], ...]
    rows: tuple[tuple[int, int], ...]
    columns: tuple[tuple[int, int], ...]
    is_streamed: bool


class TurnedResult(NamedTuple):
    """A column-major result of a function of rows.

    Attributes:
        number: which one it is.
        turn: of as many rows as are computed at once.
        row_bytes: of a row.
    """

    number: int
    turn: Turn
    row_bytes: int


@dataclass(frozen=True)
class TurnedRows:
    """Results of a function of rows that become column-major, some rows at a time.

    Attributes:
        height: how many rows.
        results: those that do.
        nbytes: of all these results.
    """

    height: int
    results: tuple[TurnedResult, ...]
    nbytes: int

    @property
    def sizes(self) -> list[int]:
        """Bytes of scratch for each result."""
        return [self.height * result.row_bytes for result in self.results]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of these results."""
        return tuple([result.number for result in self.results])


class Turner(Protocol):
    """Compiled code for turns.

    Attributes:
        worth: bytes that a turn has moved before it is worth compiling.
    """

    worth: int

    def function(self, turn: Turn) -> tuple[Callable[..., Any], int] | None:
        """The function of pointers to x and y, and of tasks from where to where; the number of tasks. None where there
        is none.
        """
        ...

    def by_rows(
        self, rows: TurnedRows, code: Callable[..., Any], operands: int, results: int
    ) -> Callable[..., Any] | None:
        """The function of pointers to operands, results, scratch of the code's and of each turned result, and of rows from
        where to where, at least as many as are turned at once. None where there is none.

        Args:
            code: compiled; it takes pointers to operands, results and scratch, and rows from where to where.
        """
        ...


def turn_of(target: Any, source: Any, is_streamed: bool = True) -> Turn | None:
    """The turn that writes an array into one with its axes slowest first; None where lines would be broken.

    >>> import numpy as np
    >>> x = np.zeros((1000, 64, 16), np.float32)
    >>> turn_of(np.zeros((16, 64, 1000), np.float32), x.T)
    >>> turn_of(np.zeros((16, 1000, 64), np.float32), x.transpose(2, 0, 1))
    Turn(itemsize=4, outer=((1000, 1024, 64),), rows=((64, 16),), columns=((16, 64000),), is_streamed=True)
    """
    itemsize, shape = source.itemsize, source.shape
    steps = (*source.strides, *target.strides)
    if itemsize not in ITEMSIZES or len(shape) < 2 or any([step % itemsize for step in steps]):
        return None
    x_steps = [step // itemsize for step in source.strides]
    y_steps = [step // itemsize for step in target.strides]
    several = LINE // itemsize
    fastest, _ = _run(x_steps, shape, (), 1)
    rows, length = _run(y_steps, shape, fastest, several, is_whole=True)
    columns, width = _run(x_steps, shape, rows, several)
    longest = max([n for axes, n in ((rows, length), (columns, width)) if len(axes) > 1], default=0)
    if length % several or width < min(FEWEST, several) or longest > LONGEST_TABLE:
        return None
    if any([y_steps[axis] % several for axis in range(len(shape)) if axis not in rows]):
        return None
    outer = [axis for axis in range(len(shape)) if axis not in (*rows, *columns)]
    return Turn(
        itemsize,
        tuple([(shape[axis], x_steps[axis], y_steps[axis]) for axis in outer]),
        tuple([(shape[axis], x_steps[axis]) for axis in reversed(rows)]),
        tuple([(shape[axis], y_steps[axis]) for axis in reversed(columns)]),
        is_streamed,
    )


def _run(
    steps: Sequence[int],
    shape: Sequence[int],
    others: Sequence[int],
    several: int,
    is_whole: bool = False,
) -> tuple[list[int], int]:
    """The fastest axes that are one run of neighbours, as far as none is taken, and its length.

    It ends where it has several elements, or a multiple of them.
    """
    axes: list[int] = []
    length = 1
    for axis in sorted(range(len(shape)), key=lambda axis: abs(steps[axis])):
        is_enough = length % several == 0 if is_whole else length >= several
        if (axes and is_enough) or axis in others or steps[axis] != length:
            break
        axes.append(axis)
        length *= shape[axis]
    return axes, length


def turned_rows(specs: Sequence[TensorSpec], numbers: Sequence[int]) -> TurnedRows | None:
    """How the results of these numbers become column-major; None where lines of the cache would be broken."""
    turned = {n: specs[n] for n in numbers if specs[n].rank > 1}
    if not turned:
        return None
    row_bytes = {n: prod(spec.shape[1:]) * spec.dtype.itemsize for n, spec in turned.items()}
    lines = LINE // min([spec.dtype.itemsize for spec in turned.values()])
    height = max(1, ROWS // max(1, sum(row_bytes.values())) // lines) * lines
    results: list[TurnedResult] = []
    for n, spec in turned.items():
        whole = np.empty(spec.shape, spec.dtype.dtype, order="F")
        rows = np.empty((height, *spec.shape[1:]), spec.dtype.dtype)
        turn = turn_of(whole[:height].T, rows.T) if height <= len(whole) else None
        if turn is None:
            return None
        results.append(TurnedResult(n, turn, row_bytes[n]))
    return TurnedRows(height, tuple(results), sum([spec.nbytes for spec in turned.values()]))
