"""Set functions, and other functions whose result shapes depend on the elements.

Traced tensors have no elements, and raise errors here unless the argument `size` determines the shape. Values are
gathered by indices, so that eager tensors can be differentiated.

Source: Array API standard 2024.12, sections "Set functions" and "Searching functions".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tenferro.api.axes import normalize_axis
from tenferro.api.creation import full
from tenferro.api.elementwise import (
    add,
    bits64,
    equal,
    floor_divide,
    greater_equal,
    isnan,
    less,
    logical_and,
    logical_not,
    minimum,
    not_equal,
    of_both_signs,
    remainder,
    subtract,
)
from tenferro.api.elementwise import where as select
from tenferro.api.indexing import take, take_along_axis
from tenferro.api.manipulation import (
    concat,
    expand_dims,
    flattened,
    moveaxis,
    ravel,
    reshape,
    stack,
)
from tenferro.api.promotion import broadcast_to, convert, result_type
from tenferro.api.reductions import any as any_of
from tenferro.api.reductions import count_nonzero, cumsum
from tenferro.api.searching import FEW, argmax, argsort, lexsort, searchsorted, sort
from tenferro.api.statistics import bincount
from tenferro.dims import DimExpr, is_static
from tenferro.dispatch import as_constant_of, as_operand, elements, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, NonStaticShapeError, ShapeError
from tenferro.types import ArrayLike, DType, Tensor

__all__ = [
    "argwhere", "flatnonzero", "intersect1d", "isin", "nonzero",
    "repeat", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values", "where",
]  # fmt: skip


class UniqueAllResult(NamedTuple):
    """Distinct values in ascending order, their first indices, the index of each element's value, and the counts."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """Distinct values in ascending order, and their counts."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """Distinct values in ascending order, and the index of each element's value among them."""

    values: Any
    inverse_indices: Any


def nonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: int | Sequence[int] | None = None
) -> tuple[Any, ...]:
    """Return the indices of `a`'s nonzero elements in row-major order, as one int64 vector for each axis.

    Args:
        size: the number of indices to return. Further indices are dropped, and missing indices are `fill_value`. `size`
            is required if `a` is traced.
        fill_value: a number for all axes, or a number for each axis. None means 0.

    Raises:
        ShapeError: `a` has rank 0.
        DataDependentShapeError: `a` is traced, and `size` is None.
        InvalidConfigError: `size` is negative, or the number of fill values differs from that of axes.

    >>> nonzero(np.array([[0, 3], [5, 0]]))
    (array([0, 1]), array([1, 0]))
    >>> nonzero(np.array([0, 3, 5]), size=3, fill_value=-1)
    (array([ 1,  2, -1]),)
    """
    x = as_operand(a)
    if size is not None and x.shape:
        return _first_nonzero(x, size, fill_value)
    if not x.shape:
        raise ShapeError(f"nonzero: {spec_of(x)} has no axes")
    if fill_value is not None:
        raise InvalidConfigError("nonzero: fill_value has no meaning without size")
    indices = np.nonzero(elements(x, "nonzero", "give size=, or use where(x != 0, y, z)"))
    return tuple([as_constant_of(x, each) for each in indices])


def _first_nonzero(x: Tensor, size: int, fill_value: int | Sequence[int] | None) -> tuple[Any, ...]:
    rank = len(x.shape)
    fills = [fill_value or 0] * rank if fill_value is None or isinstance(fill_value, int) else [*fill_value]  # fmt: skip
    if size < 0 or len(fills) != rank:
        raise InvalidConfigError(
            f"nonzero: takes a size of at least 0 and a fill value for each of {rank} axes, got {size}, {fill_value}"
        )
    is_set = ravel(not_equal(x, 0))
    extent = is_set.shape[0]
    if not is_static(extent):
        raise NonStaticShapeError(
            f"nonzero: size= needs a known number of elements, got {spec_of(x)}"
        )
    # A stable sort of the negated mask moves the indices of true elements to the front and keeps their order.
    order = argsort(logical_not(is_set))[: min(size, extent)]
    order = concat([order, np.zeros(max(size - extent, 0), np.int64)])
    is_found = less(np.arange(size), count_nonzero(is_set))
    indices: list[Any] = []
    for axis in reversed(range(rank)):
        indices.append(select(is_found, remainder(order, x.shape[axis]), fills[axis]))
        order = floor_divide(order, x.shape[axis])
    return tuple(reversed(indices))


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: int | None = None) -> Any:
    """Return the int64 positions of the nonzero elements in the flattened `a`; `nonzero` describes the arguments.

    >>> flatnonzero(np.array([[0, 3], [5, 0]]))
    array([1, 2])
    """
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: int | None = None) -> Any:
    """Return the int64 indices of `a`'s nonzero elements, one row per element; `nonzero` describes the arguments.

    >>> argwhere(np.array([[0, 3], [5, 0]]))
    array([[0, 1],
           [1, 0]])
    """
    x = as_operand(a)
    if not x.shape:
        return argwhere(reshape(x, (1,)), size=size, fill_value=fill_value)[:, :0]
    return stack(nonzero(x, size=size, fill_value=fill_value), axis=-1)


def where(
    condition: ArrayLike, x: Any = None, y: Any = None, /, *, size: int | None = None,
    fill_value: int | Sequence[int] | None = None,
) -> Any:  # fmt: skip
    """Select elements of x where `condition` is true or nonzero, and elements of y elsewhere. All three broadcast.

    With only a condition, return the indices of its nonzero elements, like `nonzero`, which describes `size` and
    `fill_value`.

    Raises:
        InvalidConfigError: only one of x and y is passed, or both together with `size` or `fill_value`.
        DataDependentShapeError: only a condition is passed, it is traced, and `size` is None.

    >>> where([True, False], [1, 2], 0), where([0, 7, 8])
    (array([1, 0]), (array([1, 2]),))
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise InvalidConfigError("where: give both x and y, or neither")
    if size is not None or fill_value is not None:
        raise InvalidConfigError("where: size and fill_value have no meaning with x and y")
    return select(condition, x, y)


def unique_all(
    x: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueAllResult:
    """Return the distinct elements of x, with indices and counts. Every NaN counts as a distinct element.

    `unique` describes `size` and `fill_value`.

    Raises:
        DataDependentShapeError: x is traced, and `size` is None.

    >>> unique_all(np.array([2.0, 1.0, 2.0])).counts
    array([1, 2])
    """
    return UniqueAllResult(
        *unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    )


def _distinct(
    rows: Tensor, axis: int | None, equal_nan: bool, advice: str
) -> tuple[Any, Any, Any, Any]:
    """Find the distinct elements of a vector. If `axis` is 0, find the distinct rows of an array.

    Returns:
        The distinct values, their first indices, the index of each element's value, and the counts.
    """
    array = elements(rows, "unique", advice)
    _, *parts = np.unique(array, True, True, True, axis=axis, equal_nan=equal_nan)
    first, inverse, counts = (
        as_constant_of(rows, np.asarray(part).astype(np.int64)) for part in parts
    )
    return take(rows, first, axis=0), first, inverse, counts


def unique_counts(
    x: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueCountsResult:
    """Return the distinct elements of x and their counts, as `unique_all` does."""
    distinct = unique_all(x, size=size, fill_value=fill_value)
    return UniqueCountsResult(distinct.values, distinct.counts)


def unique_inverse(
    x: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueInverseResult:
    """Return the distinct elements of x and the index of each element's value, as `unique_all` does."""
    distinct = unique_all(x, size=size, fill_value=fill_value)
    return UniqueInverseResult(distinct.values, distinct.inverse_indices)


def unique_values(
    x: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Any:
    """Return the distinct elements of x in ascending order, as `unique_all` does."""
    return unique_all(x, size=size, fill_value=fill_value).values


def unique(
    ar: ArrayLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None,
    *, equal_nan: bool = True, sorted: bool = True, size: int | None = None, fill_value: ArrayLike | None = None,
) -> Any:  # fmt: skip
    """Return the distinct elements of ar in ascending order, or its distinct slices along `axis`.

    Args:
        return_index, return_inverse, return_counts: whether to also return the first index of each value, the index of
            each element's value, and the number of elements with each value.
        equal_nan: whether all NaN count as one value.
        sorted: has no effect, because the result is always in ascending order.
        size: the number of values to return. Further values are dropped, and missing values are `fill_value`. `size` is
            required if `ar` is traced.
        fill_value: a number. The default is the smallest value.

    Raises:
        DataDependentShapeError: `ar` is traced, and `size` is None.
        InvalidConfigError: `size` is negative, or `fill_value` is passed without `size`.

    >>> unique([2, 1, 2], return_counts=True)
    (array([1, 2]), array([1, 2]))
    """
    x, given = as_operand(ar), axis
    x, axis = flattened(x, axis)
    axis = normalize_axis("unique", axis, len(x.shape))
    rows = moveaxis(x, axis, 0)
    if size is None:
        if fill_value is not None:
            raise InvalidConfigError("unique: fill_value has no meaning without size")
        along = None if given is None else 0
        advice = "give size=, the number of values"
        values, first, inverse, counts = _distinct(rows, along, equal_nan, advice)
    else:
        values, first, inverse, counts = _first_distinct(rows, size, fill_value, equal_nan)
    values = moveaxis(values, 0, axis)
    inverse = reshape(inverse, as_operand(ar).shape if given is None else (rows.shape[0],))
    parts = ((return_index, first), (return_inverse, inverse), (return_counts, counts))
    results = (values, *[part for wanted, part in parts if wanted])
    return results if len(results) > 1 else values


def _first_distinct(
    rows: Tensor, size: int, fill_value: ArrayLike | None, equal_nan: bool
) -> tuple[Any, Any, Any, Any]:
    """Find the first `size` distinct rows in ascending order; `unique` describes the arguments.

    Returns:
        The distinct rows, their first indices, the index of each row's value, and the counts.
    """
    if size < 0:
        raise InvalidConfigError(f"unique: size must be at least 0, got {size}")
    extent = rows.shape[0]
    columns = reshape(rows, (extent, -1))
    if not is_static(extent) or not is_static(columns.shape[1]):
        raise NonStaticShapeError(f"unique: size= needs known extents, got {spec_of(rows)}")
    order = lexsort([columns[:, j] for j in reversed(range(columns.shape[1]))])
    ordered = take(columns, order, axis=0)
    starts = _is_first(ordered, equal_nan)
    number = subtract(cumsum(convert(starts, DType.I64)), 1)
    total = number[-1:] if extent else np.array([-1])
    firsts = nonzero(starts, size=size, fill_value=0)[0]
    is_found = less(np.arange(size), add(total, 1))
    first = take(order, firsts, axis=0) if extent else np.zeros(size, np.int64)
    values = take(rows, first, axis=0) if extent else broadcast_to(convert(0, spec_of(rows).dtype), (size, *rows.shape[1:]))  # fmt: skip
    if fill_value is not None:
        mask = reshape(is_found, (size, *[1] * (len(rows.shape) - 1)))
        values = select(mask, values, convert(fill_value, spec_of(rows).dtype))
    inverse = take_along_axis(number, argsort(order), axis=0) if extent else order
    counts = bincount(inverse, length=size)
    return values, first, inverse, counts


def _is_first(ordered: Any, equal_nan: bool = True) -> Any:
    """Return, for each element of an ordered vector or row of a matrix, whether it differs from the one before.

    Args:
        equal_nan: whether all NaN are equal.
    """
    differs = not_equal(ordered[1:], ordered[:-1])
    if equal_nan and spec_of(ordered).dtype.is_inexact:
        both = logical_and(isnan(ordered[1:]), isnan(ordered[:-1]))
        differs = logical_and(differs, logical_not(both))
    rows = any_of(differs, axis=1) if len(ordered.shape) > 1 else differs
    return concat([np.ones(min(ordered.shape[0], 1), np.bool_), rows])


def _as_sets(name: str, ar1: ArrayLike, ar2: ArrayLike, size: int | None) -> tuple[Any, Any]:
    """Convert both operands to vectors of their common dtype.

    Without `size`, raise an error if one is traced and has no elements.
    """
    x1, x2 = ravel(ar1), ravel(ar2)
    dtype = result_type(x1, x2)
    x1, x2 = convert(x1, dtype), convert(x2, dtype)
    if size is not None and size < 0:
        raise InvalidConfigError(f"{name}: size must be at least 0, got {size}")
    if size is None:
        for x in (x1, x2):
            elements(x, name, "give size=, the number of results, which depends on them")
    return x1, x2


def _first_members(
    x: Any, is_member: Any, size: int, fill_value: ArrayLike | None
) -> tuple[Any, Any, Any]:
    """Return the first `size` members of a vector, their positions, and which of them exist.

    Missing members are `fill_value`; None means the first member, or 0 if there is none.
    """
    positions = nonzero(is_member, size=size, fill_value=0)[0]
    is_found = less(np.arange(size), count_nonzero(is_member))
    if not x.shape[0] or not size:
        return full(size, fill_value or 0, spec_of(x).dtype), positions, is_found
    values = take(x, positions, axis=0)
    missing = select(is_found[0], values[0], 0) if fill_value is None else fill_value
    return select(is_found, values, convert(missing, spec_of(x).dtype)), positions, is_found


def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Any:
    """Return the distinct elements of both arrays in ascending order; `unique` describes `size` and `fill_value`.

    Raises:
        DataDependentShapeError: an operand is traced, and `size` is None.

    >>> union1d([3, 1], [1, 2])
    array([1, 2, 3])
    """
    x1, x2 = ravel(ar1), ravel(ar2)
    dtype = result_type(x1, x2)
    both = concat([convert(x1, dtype), convert(x2, dtype)])
    return unique(both, size=size, fill_value=fill_value)


def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False,
    *, size: int | None = None, fill_value: ArrayLike | None = None,
) -> Any:  # fmt: skip
    """Return the distinct elements that are in both arrays, in ascending order.

    Args:
        assume_unique: whether the caller knows that neither array repeats an element.
        return_indices: whether to also return the first index of each result in ar1 and in ar2.
        size, fill_value: as for `unique`. The index of a missing result is the number of elements of the array.

    Raises:
        DataDependentShapeError: an operand is traced, and `size` is None.

    >>> intersect1d([3, 1, 2], [2, 3])
    array([2, 3])
    """
    x1, x2 = _as_sets("intersect1d", ar1, ar2, size)
    if size is not None:
        results = _first_common(x1, x2, size, fill_value)
        return results if return_indices else results[0]
    _, first, second = np.intersect1d(np.asarray(x1), np.asarray(x2), assume_unique, True)
    values = take(x1, first, axis=0)
    return (
        (values, as_constant_of(x1, first), as_constant_of(x2, second))
        if return_indices
        else values
    )


def _first_common(
    x1: Any, x2: Any, size: int, fill_value: ArrayLike | None
) -> tuple[Any, Any, Any]:
    """Return the first `size` values that are in both vectors, in ascending order, and their first indices in each."""
    order = argsort(x1)
    ordered = take(x1, order, axis=0)
    is_member = logical_and(_is_first(ordered), isin(ordered, x2))
    values, positions, is_found = _first_members(ordered, is_member, size, fill_value)
    if not x1.shape[0] or not x2.shape[0]:
        return values, *[np.full(size, x.shape[0]) for x in (x1, x2)]
    if spec_of(x2).dtype.is_complex:
        second = argmax(equal(expand_dims(values, axis=1), x2), axis=1)
    else:
        other = argsort(x2)
        place = minimum(searchsorted(take(x2, other, axis=0), values), x2.shape[0] - 1)
        second = take(other, place, axis=0)
    first = take(order, positions, axis=0)
    return values, select(is_found, first, x1.shape[0]), select(is_found, second, x2.shape[0])


def setdiff1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False,
    *, size: int | None = None, fill_value: ArrayLike | None = 0,
) -> Any:  # fmt: skip
    """Return the distinct elements of ar1 that are not in ar2, in ascending order.

    Args:
        assume_unique: whether the caller knows that neither array repeats an element. If so, the results are in the
            order of ar1.
        size, fill_value: as for `unique`, but missing results are 0 by default.

    Raises:
        DataDependentShapeError: an operand is traced, and `size` is None.

    >>> setdiff1d([3, 1, 2], [2])
    array([1, 3])
    """
    common, x2 = _as_sets("setdiff1d", ar1, ar2, size)
    # Elements are compared in the common dtype, but the result consists of elements of ar1.
    if size is not None:
        x1 = ravel(ar1) if assume_unique else sort(ravel(ar1))
        is_member = logical_not(isin(convert(x1, spec_of(common).dtype), x2))
        if not assume_unique:
            is_member = logical_and(is_member, _is_first(x1))
        return _first_members(x1, is_member, size, 0 if fill_value is None else fill_value)[0]
    x1 = ravel(as_operand(ar1)) if assume_unique else unique(ar1)
    compared = np.asarray(convert(x1, spec_of(x2).dtype))
    return take(x1, np.flatnonzero(~np.isin(compared, np.asarray(x2))), axis=0)


def setxor1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False,
    *, size: int | None = None, fill_value: ArrayLike | None = None,
) -> Any:  # fmt: skip
    """Return the distinct elements that are in exactly one of the arrays, in ascending order.

    Args:
        assume_unique: whether the caller knows that neither array repeats an element.
        size, fill_value: as for `unique`.

    Raises:
        DataDependentShapeError: an operand is traced, and `size` is None.

    >>> setxor1d([3, 1], [1, 2])
    array([2, 3])
    """
    x1, x2 = _as_sets("setxor1d", ar1, ar2, size)
    if size is not None:
        x1, x2 = sort(x1), sort(x2)
        sides = ((x1, x2), (x2, x1))
        own = [logical_and(_is_first(x), logical_not(isin(x, other))) for x, other in sides]
        both = concat([x1, x2])
        order = argsort(both)
        is_member = take(concat(own), order, axis=0)
        return _first_members(take(both, order, axis=0), is_member, size, fill_value)[0]
    if not assume_unique:
        x1, x2 = unique(x1), unique(x2)
    both = sort(concat([x1, x2]))
    values = np.asarray(both)
    if not values.size:
        return both
    is_new = np.concatenate([[True], values[1:] != values[:-1], [True]])
    return take(both, np.flatnonzero(is_new[1:] & is_new[:-1]), axis=0)


def repeat(
    a: ArrayLike, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None
) -> Any:
    """Repeat each element of `a` `repeats` times along `axis`; `a` is flattened first if `axis` is None.

    Args:
        repeats: one number, or a vector with a number for each index along `axis`.
        total_repeat_length: JAX's argument: the extent of the axis in the result, so that `repeats` may be traced. Further
            elements are omitted, or the last element of the axis is repeated.

    Raises:
        InvalidConfigError: a number is negative, without `total_repeat_length`.
        ShapeError: the length of the vector is not the extent of the axis.
        DataDependentShapeError: the vector is traced, without `total_repeat_length`.

    >>> repeat(np.array([1, 2, 3]), np.array([2, 0, 1]))
    array([1, 1, 3])
    """
    x, axis = flattened(a, axis)
    axis = normalize_axis("repeat", axis, len(x.shape))
    extent = x.shape[axis]
    if total_repeat_length is not None:
        counts = convert(as_operand(repeats), DType.I64)
        ends = cumsum(broadcast_to(counts, (extent,)))
        index = searchsorted(ends, np.arange(total_repeat_length), side="right")
        return take(x, index, axis=axis, mode="clip")
    if isinstance(repeats, int | DimExpr):
        if isinstance(repeats, int) and repeats < 0:
            raise InvalidConfigError(f"repeat: repeats must be at least 0, got {repeats}")
        wide = expand_dims(x, axis=axis + 1)
        shape = (*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :])
        merged = (*x.shape[:axis], extent * repeats, *x.shape[axis + 1 :])
        return reshape(broadcast_to(wide, shape), merged)
    counts = as_operand(repeats)
    if not spec_of(counts).dtype.is_integer:
        raise DTypeError(f"repeat: repeats must be integers, got {spec_of(counts)}")
    if len(counts.shape) > 1 or (counts.shape and counts.shape[0] not in (1, extent)):
        raise ShapeError(
            f"repeat: repeats {spec_of(counts)} do not fit axis {axis} of {spec_of(x)}"
        )
    numbers = elements(counts, "repeat", "give the numbers as a NumPy array")
    if (numbers < 0).any():
        raise InvalidConfigError(f"repeat: repeats must be at least 0, got {numbers.min()}")
    if not counts.shape or counts.shape[0] != extent:
        return repeat(x, int(numbers.reshape(())), axis=axis)
    return take(x, np.repeat(np.arange(extent), numbers.astype(np.int64)), axis=axis)


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Any:
    """Return, for each element of `element`, whether it equals an element of `test_elements`. NaN equals no element.

    Args:
        assume_unique, kind: have no effect. They are hints in NumPy.
        invert: whether to return the negated result.

    Raises:
        InvalidConfigError: NumPy does not have this `kind`.

    >>> isin(np.array([1, 2, 3]), np.array([3, 1]))
    array([ True, False,  True])
    """
    if kind not in (None, "sort", "table"):
        raise InvalidConfigError(f'isin: kind must be None, "sort" or "table", got {kind!r}')
    sides = [
        x if isinstance(x, bool | int | float | complex) else as_operand(x)
        for x in (element, test_elements)
    ]
    dtype = result_type(*sides)
    if dtype is DType.F64 and of_both_signs(*sides):
        # One operand is uint64, and the other is signed. Two such integers are equal only if both are nonnegative and
        # have equal bits. The common dtype, float64, cannot represent all of them.
        sides = [bits64(x) for x in sides]
        is_member = logical_and(isin(*sides), greater_equal(sides[0], 0))
        return logical_not(is_member) if invert else is_member
    x, candidates = convert(sides[0], dtype), ravel(convert(sides[1], dtype))
    extent = candidates.shape[0]
    if dtype.is_complex or not is_static(extent) or extent <= FEW:
        is_member = any_of(equal(expand_dims(x, axis=len(x.shape)), candidates), axis=-1)
    else:
        ordered = sort(candidates)
        nearest = minimum(searchsorted(ordered, x), extent - 1)
        is_member = equal(take(ordered, nearest, axis=0), x)
    return logical_not(is_member) if invert else is_member
