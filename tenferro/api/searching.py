"""Sorting, searching and set-membership functions of the Array API that have static shapes.

Source: Array API standard 2024.12, sections "Sorting functions" and "Searching functions".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.api.axes import normalize_axis
from tenferro.api.elementwise import (
    greater,
    greater_equal,
    isnan,
    logical_and,
    logical_not,
    logical_or,
)
from tenferro.api.indexing import take
from tenferro.api.manipulation import astype, expand_dims, flip, moveaxis, ravel, reshape
from tenferro.api.promotion import broadcast_to, promote
from tenferro.api.reductions import sum as sum_over
from tenferro.errors import InvalidConfigError, ShapeError
from tenferro.exec.dispatch import apply, apply_all, as_operand, is_traced, spec_of
from tenferro.ops import reduction as ops
from tenferro.ops.source import Iota
from tenferro.types import DType

__all__ = ["argmax", "argmin", "argsort", "searchsorted", "sort", "top_k"]


def _arg_reduced(op: type[Any], name: str, x: Any, axis: int | None, keepdims: bool) -> Any:
    x = as_operand(x)
    kept = tuple(1 for _ in x.shape)
    if axis is None:
        result = apply(op(0), ravel(x))
        return reshape(result, kept) if keepdims else result
    axis = normalize_axis(name, axis, len(x.shape))
    result = apply(op(axis), x)
    return expand_dims(result, axis=axis) if keepdims else result


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The index of the first largest element, as int64; a NaN counts as largest."""
    return _arg_reduced(ops.ArgMax, "argmax", x, axis, keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The index of the first smallest element, as int64; a NaN counts as smallest."""
    return _arg_reduced(ops.ArgMin, "argmin", x, axis, keepdims)


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """X with elements in order along `axis`; NaN last, or first when descending."""
    x = as_operand(x)
    axis = normalize_axis("sort", axis, len(x.shape))
    result = apply(ops.Sort(axis, stable, 1), x)
    return flip(result, axis=axis) if descending else result


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The indices that sort x along `axis`, as int64; equal elements keep their order."""
    x = as_operand(x)
    axis = normalize_axis("argsort", axis, len(x.shape))
    places = _places(x, axis)
    if descending:
        # Sorting the reversed sequence and reversing the result keeps equal elements in order.
        x, places = flip(x, axis=axis), flip(places, axis=axis)
    _, order = apply_all(ops.Sort(axis, stable, 2), x, places)
    return flip(order, axis=axis) if descending else order


def _places(x: Any, axis: int) -> Any:
    """Each element's index along `axis`."""
    count = Iota(x.shape, axis, DType.I64)
    return x.emit(count) if is_traced(x) else apply(count)


def top_k(x: Any, k: int, /, *, axis: int = -1) -> tuple[Any, Any]:
    """The k largest elements along `axis` in descending order, and their indices as int64."""
    x = as_operand(x)
    axis = normalize_axis("top_k", axis, len(x.shape))
    values, places = apply_all(ops.TopK(k), moveaxis(x, axis, -1))
    return moveaxis(values, -1, axis), moveaxis(places, -1, axis)


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    """Where each element of x2 would be inserted into the ascending vector x1, as int64.

    Raises:
        ShapeError: x1 is no vector.
        InvalidConfigError: a side that is neither "left" nor "right".
    """
    if side not in ("left", "right"):
        raise InvalidConfigError(f'searchsorted: side is "left" or "right", got {side!r}')
    vector = as_operand(x1)
    if len(vector.shape) != 1:
        raise ShapeError(f"searchsorted: x1 must be a vector, got {spec_of(vector)}")
    if sorter is not None:
        vector = take(vector, sorter, axis=0)
    values = as_operand(x2)
    rank = len(values.shape)
    wide = expand_dims(values, axis=rank)
    line = broadcast_to(vector, (*values.shape, vector.shape[0]))
    value, element = promote(wide, line)
    # NaN sorts last: a number is before it, and it is before nothing.
    before = greater(value, element) if side == "left" else greater_equal(value, element)
    number = logical_not(isnan(element))
    after = logical_and(isnan(value), number) if side == "left" else isnan(value)
    return sum_over(astype(logical_or(before, after), np.int64), axis=-1)
