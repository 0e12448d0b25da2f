"""Sorting and searching functions of the Array API whose results have static shapes.

Source: Array API standard 2024.12, sections "Sorting functions" and "Searching functions".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.api.arguments import refuse
from tenferro.api.axes import normalize_axis
from tenferro.api.creation import full_like
from tenferro.api.elementwise import (
    add,
    greater,
    greater_equal,
    isnan,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    minimum,
    where,
)
from tenferro.api.indexing import take, take_along_axis
from tenferro.api.manipulation import astype, expand_dims, flattened, flip, moveaxis, ravel, reshape
from tenferro.api.promotion import broadcast_to, convert, result_type
from tenferro.api.reductions import sum as sum_over
from tenferro.dims import is_static
from tenferro.dispatch import apply, apply_one, as_operand, spec_of
from tenferro.errors import InvalidConfigError, OutOfBoundsError, ShapeError
from tenferro.ops import reduction as ops
from tenferro.ops.source import Iota
from tenferro.types import ArrayLike, DType, Tensor

__all__ = [
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "lexsort",
    "partition",
    "searchsorted",
    "sort",
    "sort_complex",
    "top_k",
]


def _arg_reduced(op: type[Any], name: str, x: ArrayLike, axis: int | None, keepdims: bool) -> Any:
    x = as_operand(x)
    unit_shape = tuple(1 for _ in x.shape)
    if axis is None:
        result = apply_one(op(0), ravel(x))
        return reshape(result, unit_shape) if keepdims else result
    axis = normalize_axis(name, axis, len(x.shape))
    result = apply_one(op(axis), x)
    return expand_dims(result, axis=axis) if keepdims else result


def argmax(
    a: ArrayLike, axis: int | None = None, out: None = None, *, keepdims: bool = False
) -> Any:
    """Return the int64 index of the first largest element along `axis`. NaN counts as largest.

    If `axis` is None, the index is a position in the flattened `a`.

    Raises:
        AxisError: the axis is outside the rank.

    >>> argmax([[1, 5], [3, 4]]), argmax([[1, 5], [3, 4]], 0)
    (array(1), array([1, 0]))
    """
    refuse("argmax", "out", out)
    return _arg_reduced(ops.ArgMax, "argmax", a, axis, keepdims)


def argmin(
    a: ArrayLike, axis: int | None = None, out: None = None, *, keepdims: bool = False
) -> Any:
    """Return the int64 index of the first smallest element along `axis`. NaN counts as smallest.

    If `axis` is None, the index is a position in the flattened `a`.

    Raises:
        AxisError: the axis is outside the rank.

    >>> argmin([[1, 5], [3, 4]]), argmin([[1, 5], [3, 4]], 0)
    (array(0), array([0, 1]))
    """
    refuse("argmin", "out", out)
    return _arg_reduced(ops.ArgMin, "argmin", a, axis, keepdims)


def sort(
    a: ArrayLike, axis: int | None = -1, kind: str | None = None, order: None = None, *, stable: bool | None = True,
    descending: bool = False,
) -> Any:  # fmt: skip
    """Sort `a` along `axis`. If `axis` is None, `a` is flattened first. NaN are last, or first if `descending`.

    Args:
        kind: NumPy's name of a sorting method. It has no effect.
        stable: whether equal elements keep their order.

    Raises:
        InvalidConfigError: NumPy does not have this `kind`.

    >>> sort([3, 1, 2]), sort([[2, 1], [0, 3]], None, descending=True)
    (array([1, 2, 3]), array([3, 2, 1, 0]))
    """
    _check_kind("sort", kind, order)
    x, axis = flattened(a, axis)
    axis = normalize_axis("sort", axis, len(x.shape))
    result = apply_one(ops.Sort(axis, stable is not False, 1), x)
    return flip(result, axis=axis) if descending else result


_METHODS = (None, "quicksort", "mergesort", "heapsort", "stable")


def _check_kind(name: str, kind: str | None, order: str | Sequence[str] | None) -> None:
    refuse(name, "order", order)
    if kind not in _METHODS:
        raise InvalidConfigError(f"{name}: kind must be one of {_METHODS}, got {kind!r}")


def argsort(
    a: ArrayLike, axis: int | None = -1, kind: str | None = None, order: Any = None, *, stable: bool | None = True,
    descending: bool = False,
) -> Any:  # fmt: skip
    """Return the int64 indices that sort `a` along `axis`. Equal elements keep their order.

    Arguments and errors are as for `sort`.

    >>> argsort([3, 1, 2])
    array([1, 2, 0])
    """
    _check_kind("argsort", kind, order)
    x, axis = flattened(a, axis)
    axis = normalize_axis("argsort", axis, len(x.shape))
    indices = _indices_along(x, axis)
    if descending:
        # Reverse the ascending order of the reversed sequence, so that equal elements keep their order.
        x, indices = flip(x, axis=axis), flip(indices, axis=axis)
    _, order = apply(ops.Sort(axis, stable is not False, 2), x, indices)
    return flip(order, axis=axis) if descending else order


def lexsort(keys: Any, axis: int = -1) -> Any:
    """Return the int64 indices that sort along `axis` by several keys. The last key is the most significant.

    Args:
        keys: arrays of one shape, or one array with the keys along its first axis.

    Raises:
        ShapeError: there are no keys, or their shapes differ. AxisError: the axis is outside the rank.

    >>> lexsort(([1, 0, 0], [2, 2, 1]))
    array([2, 1, 0])
    """
    operands = [as_operand(key) for key in keys]
    if not operands or any(tuple(x.shape) != tuple(operands[0].shape) for x in operands):
        shapes = ", ".join(str(spec_of(x)) for x in operands)
        raise ShapeError(f"lexsort: takes keys of one shape, got {shapes or 'none'}")
    if not operands[0].shape:
        return full_like(operands[0], 0, dtype=DType.I64)
    axis = normalize_axis("lexsort", axis, len(operands[0].shape))
    order = argsort(operands[0], axis)
    for key in operands[1:]:
        order = take_along_axis(order, argsort(take_along_axis(key, order, axis), axis), axis)
    return order


def sort_complex(a: ArrayLike) -> Any:
    """Convert `a` to complex numbers, and sort along the last axis: by real parts, and then by imaginary parts.

    >>> sort_complex([3, 1 + 2j, 1 + 1j])
    array([1.+1.j, 1.+2.j, 3.+0.j])
    """
    x = as_operand(a)
    if not spec_of(x).dtype.is_complex:
        small = spec_of(x).dtype in (DType.I8, DType.I16, DType.U8, DType.U16)
        x = convert(x, DType.C32 if small else DType.C64)
    return sort(x)


def partition(
    a: ArrayLike, kth: int | Sequence[int], axis: int | None = -1, kind: str = "introselect", order: None = None
) -> Any:  # fmt: skip
    """Sort `a` along `axis`, so that the elements at positions `kth` are those of the sorted array.

    NumPy does not specify the order of the other elements. Here, all elements are sorted.

    Raises:
        InvalidConfigError: NumPy does not have this `kind`.
        OutOfBoundsError: a position is outside the axis.

    >>> partition([3, 1, 2], 1)
    array([1, 2, 3])
    """
    _check_indices("partition", a, kth, axis, kind)
    return sort(a, axis, order=order)


def argpartition(
    a: ArrayLike, kth: int | Sequence[int], axis: int | None = -1, kind: str = "introselect", order: None = None
) -> Any:  # fmt: skip
    """Return int64 indices that partition `a` along `axis`. They sort `a` completely.

    Arguments and errors are as for `partition`.

    >>> argpartition([3, 1, 2], 1)
    array([1, 2, 0])
    """
    _check_indices("argpartition", a, kth, axis, kind)
    return argsort(a, axis, order=order)


def _check_indices(
    name: str, a: ArrayLike, kth: int | Sequence[int], axis: int | None, kind: str
) -> None:
    if kind != "introselect":
        raise InvalidConfigError(f'{name}: kind must be "introselect", got {kind!r}')
    x, axis = flattened(a, axis)
    extent = x.shape[normalize_axis(name, axis, len(x.shape))]
    for index in np.atleast_1d(np.asarray(kth)).tolist():
        if is_static(extent) and not -extent <= index < extent:
            raise OutOfBoundsError(f"{name}: kth {index} is outside an axis of {extent} elements")


def _indices_along(x: Tensor, axis: int) -> Any:
    """Return a tensor of x's shape whose elements are their int64 indices along `axis`."""
    count = Iota(x.shape, axis, DType.I64)
    return apply_one(count, like=x)


def top_k(x: ArrayLike, k: int, /, axis: int = -1) -> tuple[Any, Any]:
    """Return the k largest elements along `axis` in descending order, and their indices as int64."""
    x = as_operand(x)
    axis = normalize_axis("top_k", axis, len(x.shape))
    values, indices = apply(ops.TopK(k), moveaxis(x, axis, -1))
    return moveaxis(values, -1, axis), moveaxis(indices, -1, axis)


def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None
) -> Any:
    """Return, for each element of v, the int64 index at which it can be inserted into the ascending vector `a`.

    Args:
        side: "left" for the index before equal elements of `a`, or "right" for the index after them.
        sorter: the indices that sort `a`, if `a` is not ascending.

    Raises:
        ShapeError: `a` is not a vector.
        InvalidConfigError: `side` is neither "left" nor "right".

    >>> searchsorted([1, 2, 3], [2, 5])
    array([1, 3])
    """
    if side not in ("left", "right"):
        raise InvalidConfigError(f'searchsorted: side must be "left" or "right", got {side!r}')
    vector = as_operand(a)
    if len(vector.shape) != 1:
        raise ShapeError(f"searchsorted: a must be a vector, got {spec_of(vector)}")
    if sorter is not None:
        vector = take(vector, sorter, axis=0)
    v = v if isinstance(v, bool | int | float | complex) else as_operand(v)
    dtype = result_type(vector, v)
    vector, values = convert(vector, dtype), convert(v, dtype)
    extent = vector.shape[0]
    if is_static(extent) and extent > FEW:
        return _bisected(vector, values, side)
    line = broadcast_to(vector, (*values.shape, extent))
    wide = broadcast_to(expand_dims(values, axis=len(values.shape)), line.shape)
    return sum_over(astype(_is_before(line, wide, side), np.int64), axis=-1)


FEW = 32
"""Maximum length of a vector that is compared with every value. Longer vectors are searched by bisection."""


def _is_before(element: Tensor, value: Tensor, side: str) -> Any:
    """Return whether an element of the vector is before the insertion index of a value, where NaN sorts last."""
    before = greater(value, element) if side == "left" else greater_equal(value, element)
    if not spec_of(value).dtype.is_inexact:
        return before
    after = logical_and(isnan(value), logical_not(isnan(element)))
    return logical_or(before, after if side == "left" else isnan(value))


def _bisected(vector: Tensor, values: Tensor, side: str) -> Any:
    """Count the elements of the vector before each value by bisection, which finds the count's highest bit first."""
    extent = vector.shape[0]
    count = full_like(values, 0, dtype=DType.I64)
    for bit in reversed(range(extent.bit_length())):
        more = add(count, 1 << bit)
        last = minimum(more, extent)
        fits = logical_and(
            less_equal(more, extent), _is_before(take(vector, last - 1, axis=0), values, side)
        )
        count = where(fits, more, count)
    return count
