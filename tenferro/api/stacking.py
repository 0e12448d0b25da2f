"""Arrays beside and above one another: NumPy's functions that join, and that add axes to join by.

Source: NumPy 2.4, reference, "Joining arrays" and "Changing number of dimensions".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.api.manipulation import concat, expand_dims, ravel, transpose
from tenferro.door import as_operand
from tenferro.types import ArrayLike, DTypeLike

__all__ = [
    "append", "atleast_1d", "atleast_2d", "atleast_3d", "column_stack", "dstack", "hstack", "vstack",
]  # fmt: skip


def _one_or_all(results: list[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


def _with_axes(x: ArrayLike, rank: int) -> Any:
    """X with new axes in front, up to a rank."""
    x = as_operand(x)
    missing = rank - len(x.shape)
    return expand_dims(x, tuple(range(missing))) if missing > 0 else x


def atleast_1d(*arys: ArrayLike) -> Any:
    """Each array with one axis at least; of several a tuple.

    >>> atleast_1d(2), atleast_1d(1, [2, 3])
    (array([2]), (array([1]), array([2, 3])))
    """
    return _one_or_all([_with_axes(x, 1) for x in arys])


def atleast_2d(*arys: ArrayLike) -> Any:
    """Each array with two axes at least, vectors being rows; of several a tuple.

    >>> atleast_2d([1, 2])
    array([[1, 2]])
    """
    return _one_or_all([_with_axes(x, 2) for x in arys])


def atleast_3d(*arys: ArrayLike) -> Any:
    """Each array with three axes at least: vectors lie along the second, matrices on the first two.

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
    """The arrays above one another: along the first axis, vectors being rows.

    Arguments and errors are those of `concat`.

    >>> vstack(([1, 2], [3, 4]))
    array([[1, 2],
           [3, 4]])
    """
    return concat([_with_axes(x, 2) for x in tup], axis=0, dtype=dtype, casting=casting)


def hstack(
    tup: Sequence[Any], *, dtype: DTypeLike | None = None, casting: str = "same_kind"
) -> Any:
    """The arrays beside one another: along the second axis, vectors along their only one.

    Arguments and errors are those of `concat`.

    >>> hstack(([1, 2], [3])), hstack(([[1], [2]], [[3], [4]]))
    (array([1, 2, 3]), array([[1, 3],
           [2, 4]]))
    """
    arrays = [_with_axes(x, 1) for x in tup]
    axis = 0 if arrays and len(arrays[0].shape) == 1 else 1
    return concat(arrays, axis=axis, dtype=dtype, casting=casting)


def dstack(tup: Sequence[Any]) -> Any:
    """The arrays along a third axis.

    >>> dstack(([1, 2], [3, 4]))
    array([[[1, 3],
            [2, 4]]])
    """
    return concat([atleast_3d(x) for x in tup], axis=2)


def column_stack(tup: Sequence[Any]) -> Any:
    """The arrays beside one another, vectors being columns.

    >>> column_stack(([1, 2], [3, 4]))
    array([[1, 3],
           [2, 4]])
    """
    arrays = [as_operand(x) for x in tup]
    columns = [x if len(x.shape) > 1 else transpose(_with_axes(x, 2)) for x in arrays]
    return concat(columns, axis=1)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Any:
    """Arr, and the values after it along `axis`; both flattened first when axis is None.

    >>> append([1, 2], [[3], [4]])
    array([1, 2, 3, 4])
    """
    if axis is None:
        return concat([ravel(arr), ravel(values)])
    return concat([arr, values], axis=axis)
