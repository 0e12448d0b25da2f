"""NumPy's functions that join arrays, such as `vstack`, or that add axes, such as `atleast_2d`.

Source: NumPy 2.4, reference, "Joining arrays" and "Changing number of dimensions".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.api.creation import arange, linspace
from tenferro.api.manipulation import concat, expand_dims, ravel, transpose
from tenferro.api.promotion import convert, result_type
from tenferro.dispatch import as_operand
from tenferro.errors import InvalidConfigError
from tenferro.types import ArrayLike, DTypeLike, Tensor

__all__ = [
    "append", "atleast_1d", "atleast_2d", "atleast_3d", "c_", "column_stack", "dstack", "hstack", "r_", "vstack",
]  # fmt: skip


def _one_or_all(results: list[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


def _with_axes(x: ArrayLike, rank: int) -> Any:
    """Insert leading axes of extent 1 until x has at least rank `rank`."""
    x = as_operand(x)
    missing = rank - len(x.shape)
    return expand_dims(x, tuple(range(missing))) if missing > 0 else x


def atleast_1d(*arys: ArrayLike) -> Any:
    """Expand each array to at least one axis. Several arrays are returned as a tuple.

    >>> atleast_1d(2), atleast_1d(1, [2, 3])
    (array([2]), (array([1]), array([2, 3])))
    """
    return _one_or_all([_with_axes(x, 1) for x in arys])


def atleast_2d(*arys: ArrayLike) -> Any:
    """Expand each array to at least two axes. A vector becomes a row. Several arrays are returned as a tuple.

    >>> atleast_2d([1, 2])
    array([[1, 2]])
    """
    return _one_or_all([_with_axes(x, 2) for x in arys])


def atleast_3d(*arys: ArrayLike) -> Any:
    """Expand each array to at least three axes. A vector is along the second axis, and a matrix is along the first two.

    >>> atleast_3d([1, 2]).shape
    (1, 2, 1)
    """
    results: list[Any] = []
    for x in map(as_operand, arys):
        wide = _with_axes(x, 2)
        results.append(expand_dims(wide, 2) if len(wide.shape) == 2 else wide)
    return _one_or_all(results)


def vstack(
    tup: Sequence[Any], *, dtype: DTypeLike | None = None, casting: str = "same_kind"
) -> Any:
    """Join the arrays along the first axis. Vectors are joined as rows of a matrix.

    Arguments and errors are as for `concat`.

    >>> vstack(([1, 2], [3, 4]))
    array([[1, 2],
           [3, 4]])
    """
    return concat([_with_axes(x, 2) for x in tup], axis=0, dtype=dtype, casting=casting)


def hstack(
    tup: Sequence[Any], *, dtype: DTypeLike | None = None, casting: str = "same_kind"
) -> Any:
    """Join the arrays along the second axis. Vectors are joined along their only axis.

    Arguments and errors are as for `concat`.

    >>> hstack(([1, 2], [3])), hstack(([[1], [2]], [[3], [4]]))
    (array([1, 2, 3]), array([[1, 3],
           [2, 4]]))
    """
    arrays = [_with_axes(x, 1) for x in tup]
    axis = 0 if arrays and len(arrays[0].shape) == 1 else 1
    return concat(arrays, axis=axis, dtype=dtype, casting=casting)


def dstack(tup: Sequence[Any]) -> Any:
    """Join the arrays along the third axis. Vectors and matrices are expanded as by `atleast_3d`.

    >>> dstack(([1, 2], [3, 4]))
    array([[[1, 3],
            [2, 4]]])
    """
    return concat([atleast_3d(x) for x in tup], axis=2)


def column_stack(tup: Sequence[Any]) -> Any:
    """Join the arrays along the second axis. Vectors are joined as columns of a matrix.

    >>> column_stack(([1, 2], [3, 4]))
    array([[1, 3],
           [2, 4]])
    """
    arrays = [as_operand(x) for x in tup]
    columns = [x if len(x.shape) > 1 else transpose(_with_axes(x, 2)) for x in arrays]
    return concat(columns, axis=1)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Any:
    """Append the values to arr along `axis`. If `axis` is None, both are flattened first.

    >>> append([1, 2], [[3], [4]])
    array([1, 2, 3, 4])
    """
    if axis is None:
        return concat([ravel(arr), ravel(values)])
    return concat([arr, values], axis=axis)


class _Joined:
    """Object such as `numpy.r_`. Indexing it joins the arrays, numbers and slices of the index to one array."""

    def __init__(self, axis: int, rank: int, insertion: int) -> None:
        self._defaults = (axis, rank, insertion)

    def __repr__(self) -> str:
        return "tnf.r_" if self._defaults[1] == 1 else "tnf.c_"

    def __getitem__(self, key: Any) -> Any:
        entries = list(key) if isinstance(key, tuple) else [key]
        axis, rank, insertion = self._defaults
        if isinstance(entries[0], str):
            axis, rank, insertion = self._directive(entries.pop(0))
        parts = [_as_part(entry) for entry in entries]
        dtype = result_type(*parts)
        placed = [_placed(convert(part, dtype), rank, insertion) for part in parts]
        return concat(placed, axis=axis)

    def _directive(self, text: str) -> tuple[int, int, int]:
        try:
            numbers = tuple(map(int, text.split(",")))
        except ValueError:
            numbers = ()
        if not 1 <= len(numbers) <= 3:
            raise InvalidConfigError(
                f'{self!r}: a directive must be "axis", "axis,rank" or "axis,rank,place" in numbers, got {text!r}'
            )
        axis, rank, insertion = (*numbers, *self._defaults[len(numbers) :])
        return axis, rank, insertion


def _as_part(entry: Any) -> Any:
    """Convert an entry of the index to a tensor or a Python number.

    A slice is converted to `arange`. If its step is imaginary, it is converted to `linspace`.
    """
    if isinstance(entry, slice):
        start, step = entry.start or 0, 1 if entry.step is None else entry.step
        if isinstance(step, complex):
            return linspace(start, entry.stop, int(abs(step)))
        return arange(start, entry.stop, step)
    return entry if isinstance(entry, bool | int | float | complex) else as_operand(entry)


def _placed(x: Tensor, rank: int, insertion: int) -> Any:
    """Expand x to rank `rank` by axes of extent 1. The original axes of x begin at position `insertion`."""
    missing = rank - len(x.shape)
    if missing <= 0:
        return x
    first = insertion if insertion >= 0 else insertion + missing + 1
    return expand_dims(
        x, tuple([axis for axis in range(rank) if not first <= axis < first + len(x.shape)])
    )


r_ = _Joined(0, 1, -1)
"""Object whose indexing joins arrays, numbers and ranges along the first axis, as in NumPy: `r_[0, x, 1:4]`."""
c_ = _Joined(-1, 2, 0)
"""Object whose indexing joins vectors as columns along the last axis, as in NumPy: `c_[x, y]`."""
