"""Functions that insert and remove elements, select elements by masks, and replace elements at indices.

All functions return new tensors. NumPy has functions that write into their argument. For these functions, the caller
must pass `inplace=False`, as in `jax.numpy`.

Source: NumPy 2.4, reference, sections "Array manipulation routines" and "Indexing routines"; `jax.numpy`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.api.arguments import refuse
from tenferro.api.axes import normalize_axis
from tenferro.api.elementwise import clip, not_equal, remainder, where
from tenferro.api.indexing import require_equal_ranks, take
from tenferro.api.manipulation import concat, flattened, moveaxis, ravel, reshape
from tenferro.api.promotion import broadcast_to, convert
from tenferro.api.reductions import count_nonzero, cumsum, diff
from tenferro.api.sets import nonzero
from tenferro.api.stacking import atleast_1d
from tenferro.api.updates import at
from tenferro.dims import is_static
from tenferro.dispatch import as_constant_of, as_operand, elements, spec_of
from tenferro.errors import (
    DTypeError,
    InvalidConfigError,
    NonStaticShapeError,
    OutOfBoundsError,
    ShapeError,
    UnsupportedError,
)
from tenferro.types import ArrayLike, DType, Tensor

__all__ = [
    "block", "compress", "delete", "ediff1d", "extract", "fill_diagonal", "insert", "place", "put", "put_along_axis", "resize",
    "trim_zeros",
]  # fmt: skip


def block(arrays: Any) -> Any:
    """Concatenate nested lists of blocks: innermost lists along the last axis, lists of them along the axis before.

    Raises:
        ShapeError: a list is empty, or the lists have different depths.

    >>> block([[np.eye(2), np.zeros((2, 1))], [np.ones((1, 3))]])
    array([[1., 0., 0.],
           [0., 1., 0.],
           [1., 1., 1.]])
    """
    depth, level = 0, arrays
    while isinstance(level, list):
        if not level:
            raise ShapeError("block: an empty list has no blocks")
        depth, level = depth + 1, level[0]
    # `levels[i]` contains all lists at depth i, from left to right. The last level contains the blocks.
    levels: list[list[Any]] = [[arrays]]
    for _ in range(depth):
        if not all(isinstance(part, list) and part for part in levels[-1]):
            raise ShapeError("block: lists are of different depths, or empty")
        levels.append([block for part in levels[-1] for block in part])
    if any(isinstance(part, list) for part in levels[-1]):
        raise ShapeError("block: lists are of different depths")
    blocks = [as_operand(part) for part in levels[-1]]
    rank = max([depth, *(len(x.shape) for x in blocks)])
    blocks = [reshape(x, (*[1] * (rank - len(x.shape)), *x.shape)) for x in blocks]
    for i in reversed(range(depth)):
        rest = iter(blocks)
        blocks = [concat([next(rest) for _ in part], axis=i - depth) for part in levels[i]]
    return blocks[0]


def _positions(name: str, obj: Any, extent: int) -> Any:
    """Convert a slice, a mask, an integer or a vector of integers to integer indices along an axis of extent `extent`.

    Raises:
        DTypeError: `obj` is none of these. DataDependentShapeError: `obj` is a traced tensor.
        ShapeError: a mask does not have the extent of the axis.
    """
    if isinstance(obj, slice):
        return np.arange(extent)[obj]
    values = elements(as_operand(obj), name, "give the indices as a NumPy array or an integer")
    if values.dtype == np.bool_:
        if values.shape != (extent,):
            raise ShapeError(f"{name}: a mask of shape {values.shape} for an axis of {extent}")
        return np.flatnonzero(values)
    if values.size == 0:
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu" or values.ndim > 1:
        raise DTypeError(f"{name}: takes an integer, a slice, a mask or a vector of integers")
    return values


def _static_extent(name: str, x: Tensor, axis: int) -> int:
    if not is_static(x.shape[axis]):
        raise NonStaticShapeError(f"{name}: needs a known extent of axis {axis} of {spec_of(x)}")
    return x.shape[axis]


def _from_start(name: str, index: Any, extent: int, last: int) -> Any:
    outside = (index < -extent) | (index > last)
    if np.any(outside):
        first = np.asarray(index)[outside].reshape(-1)[0]
        raise OutOfBoundsError(f"{name}: index {first} is outside an axis of {extent} elements")
    return np.where(index < 0, index + extent, index)


def delete(arr: ArrayLike, obj: Any, axis: int | None = None) -> Any:
    """Return arr without its elements at the indices `obj` along `axis`; arr is flattened first if `axis` is None.

    Args:
        obj: an integer, a slice, a mask, or a vector of integers, but not a traced tensor.

    Raises:
        OutOfBoundsError: an index is out of range. DTypeError: `obj` is not an index.
        AxisError: the axis is outside the rank.

    >>> delete([1, 2, 3, 4], [0, 2])
    array([2, 4])
    """
    x, axis = flattened(arr, axis)
    axis = normalize_axis("delete", axis, len(x.shape))
    extent = _static_extent("delete", x, axis)
    index = _positions("delete", obj, extent)
    removed = _from_start("delete", index, extent, extent - 1)
    return take(x, np.delete(np.arange(extent), removed), axis=axis)


def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Any:
    """Insert values into arr before the indices `obj` along `axis`; arr is flattened first if `axis` is None.

    The values are converted to arr's dtype, and broadcast to one slice for each index.

    Args:
        obj: an integer, a slice, a mask, or a vector of integers, but not a traced tensor.

    Raises:
        OutOfBoundsError: an index is out of range. DTypeError: `obj` is not an index.
        AxisError: the axis is outside the rank. ShapeError: the values do not broadcast.

    >>> insert([1, 2, 3], 1, 9), insert([1, 2, 3], [0, 2], [7, 8])
    (array([1, 9, 2, 3]), array([7, 1, 2, 8, 3]))
    """
    x, axis = flattened(arr, axis)
    axis = normalize_axis("insert", axis, len(x.shape))
    extent = _static_extent("insert", x, axis)
    index = _from_start("insert", _positions("insert", obj, extent), extent, extent)
    new = convert(as_operand(values), spec_of(x).dtype)
    rank = len(x.shape)
    if index.ndim == 0:
        # As in NumPy, for a scalar index the values are slices along their first axis, which is moved to `axis`.
        new = reshape(new, (*[1] * (rank - len(new.shape)), *new.shape))
        if len(as_operand(values).shape):
            new = moveaxis(new, 0, axis)
        count = new.shape[axis]
        index = np.full(count, int(index))
    elif index.size == 1 and len(new.shape) and rank:
        new = reshape(new, (*[1] * (rank - len(new.shape)), *new.shape))
        index = np.full(new.shape[axis], int(index[0]))
    count = index.size
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    new = broadcast_to(new, shape)
    order = np.argsort(index, kind="stable")
    places = index[order] + np.arange(count)
    source = np.empty(extent + count, np.int64)
    is_old = np.ones(extent + count, np.bool_)
    is_old[places] = False
    source[is_old] = np.arange(extent)
    source[places] = extent + order
    return take(concat([x, new], axis=axis), source, axis=axis)


def resize(a: ArrayLike, new_shape: int | Sequence[int]) -> Any:
    """Fill a tensor of shape `new_shape` with the elements of `a`, repeated in row-major order; zeros if `a` is empty.

    Raises:
        InvalidConfigError: an extent is negative.

    >>> resize([1, 2, 3], (2, 2))
    array([[1, 2],
           [3, 1]])
    """
    shape = (new_shape,) if isinstance(new_shape, int) else tuple(new_shape)
    if any(extent < 0 for extent in shape):
        raise InvalidConfigError(f"resize: extents must be at least 0, got {shape}")
    x = ravel(a)
    count, extent = math.prod(shape), _static_extent("resize", x, 0)
    if not extent or not count:
        return as_constant_of(x, np.zeros(shape, spec_of(x).dtype.dtype))
    return reshape(take(x, np.arange(count) % extent, axis=0), shape)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Any = None) -> Any:
    """Remove the zeros at the ends of a vector `filt`.

    Args:
        trim: the ends: "f" for the front, "b" for the back, "fb" for both.
        axis: None, or 0, the only axis of a vector.

    Raises:
        ShapeError: filt is not a vector. InvalidConfigError: `trim` has another letter.
        DataDependentShapeError: filt is a traced tensor.

    >>> trim_zeros([0, 1, 0, 2, 0])
    array([1, 0, 2])
    """
    x = as_operand(filt)
    if len(x.shape) != 1 or axis not in (None, 0, -1, (0,), (-1,)):
        raise ShapeError(f"trim_zeros: takes a vector, got {spec_of(x)} and axis {axis}")
    if set(trim.lower()) - set("fb"):
        raise InvalidConfigError(f'trim_zeros: trim must consist of "f" and "b", got {trim!r}')
    kept = np.flatnonzero(elements(x, "trim_zeros", "slice by known bounds"))
    start, stop = (int(kept[0]), int(kept[-1]) + 1) if kept.size else (x.shape[0], x.shape[0])
    if not kept.size:
        return x[:0]
    return x[start if "f" in trim.lower() else 0 : stop if "b" in trim.lower() else None]


def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Any:
    """Return the differences of successive elements of the flattened array, between `to_begin` and `to_end`.

    Raises:
        DTypeError: `to_begin` or `to_end` cannot be cast to ary's dtype.

    >>> ediff1d([1, 4, 9], to_end=0)
    array([3, 5, 0])
    """
    x = ravel(ary)
    parts = [diff(x)] if x.shape[0] != 0 else [x]
    for where_to, end in ((0, to_begin), (len(parts) + 1, to_end)):
        if end is None:
            continue
        end = ravel(end)
        if not np.can_cast(spec_of(end).dtype.dtype, spec_of(x).dtype.dtype, "same_kind"):
            raise DTypeError(f"ediff1d: {spec_of(end)} does not fit {spec_of(x)}")
        parts.insert(where_to, convert(end, spec_of(x).dtype))
    return concat(parts)


def compress(
    condition: ArrayLike, a: ArrayLike, axis: int | None = None, out: None = None, *, size: int | None = None,
    fill_value: ArrayLike = 0,
) -> Any:  # fmt: skip
    """Return the slices of `a` along `axis` for which `condition` is true; `a` is flattened first if `axis` is None.

    Args:
        size: the number of slices in the result. Additional slices are dropped, and missing slices are filled with
            `fill_value`. `size` is required if `condition` is a traced tensor.

    Raises:
        ShapeError: `condition` is not a vector, or is longer than the axis.
        DataDependentShapeError: `condition` is a traced tensor, and `size` is None.

    >>> compress([True, False, True], [1, 2, 3])
    array([1, 3])
    """
    refuse("compress", "out", out)
    mask = as_operand(condition)
    if len(mask.shape) != 1:
        raise ShapeError(f"compress: the condition must be a vector, got {spec_of(mask)}")
    x, axis = flattened(a, axis)
    axis = normalize_axis("compress", axis, len(x.shape))
    if is_static(mask.shape[0]) and is_static(x.shape[axis]) and mask.shape[0] > x.shape[axis]:
        raise ShapeError(f"compress: {spec_of(mask)} is longer than axis {axis} of {spec_of(x)}")
    index = nonzero(mask, size=size)[0]
    result = take(x, index, axis=axis)
    if size is None:
        return result
    is_filled = np.arange(size) < count_nonzero(mask)
    shape = [1] * len(x.shape)
    shape[axis] = size
    return where(reshape(is_filled, tuple(shape)), result, convert(fill_value, spec_of(x).dtype))


def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0
) -> Any:
    """Return the elements of arr where condition is nonzero, in row-major order; see `compress`.

    >>> extract([[True, False], [False, True]], [[1, 2], [3, 4]])
    array([1, 4])
    """
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


def _require_new(name: str, inplace: bool) -> None:
    if inplace:
        raise UnsupportedError(
            f"{name}: tensors do not change; give inplace=False, and use the result"
        )


def put(
    a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True
) -> Any:
    """Return `a` with its flattened elements at the indices `ind` replaced by v, which repeats as often as needed.

    Args:
        mode: how to treat indices out of range: "clip" clamps them, and "wrap" reduces them modulo the number of
            elements. With None, an index in an array raises an error, and a traced index is ignored.
        inplace: must be False.

    Raises:
        UnsupportedError: `inplace` is True.
        DTypeError: the indices are not integers, or a's dtype cannot represent the values.
        OutOfBoundsError: `mode` is None, and an index in an array is out of range.
        InvalidConfigError: `mode` is unknown.

    >>> put(np.zeros(3), [0, 2], [1.0, 2.0], inplace=False)
    array([1., 0., 2.])
    """
    _require_new("put", inplace)
    x, index, values = as_operand(a), ravel(ind), ravel(v)
    count = math.prod(x.shape)
    if mode == "wrap":
        index = remainder(index, count)
    elif mode == "clip":
        index = clip(index, 0, max(count - 1, 0))
    elif mode not in (None, "raise"):
        raise InvalidConfigError(f'put: mode must be None, "clip" or "wrap", got {mode!r}')
    if index.shape[0] == 0 or values.shape[0] == 0:
        return x
    values = resize(values, index.shape[0])
    return reshape(at(ravel(x))[index].set(values), x.shape)


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Any:
    """Return arr with its elements where `mask` is true replaced by `vals`, in order.

    `vals` repeats as often as needed.

    Args:
        inplace: must be False.

    Raises:
        UnsupportedError: `inplace` is True.
        ShapeError: `mask` and `arr` have different numbers of elements, or `vals` is empty.

    >>> place([1, 2, 3], [True, False, True], [8, 9], inplace=False)
    array([8, 2, 9])
    """
    _require_new("place", inplace)
    x, values = as_operand(arr), ravel(vals)
    if math.prod(as_operand(mask).shape) != math.prod(x.shape):
        raise ShapeError(f"place: mask {spec_of(as_operand(mask))} for {spec_of(x)}")
    if values.shape[0] == 0:
        raise ShapeError("place: no values")
    chosen = not_equal(ravel(mask), 0)
    number = cumsum(convert(chosen, DType.I64)) - 1
    picked = take(convert(values, spec_of(x).dtype), remainder(number, values.shape[0]), axis=0)
    return where(reshape(chosen, x.shape), reshape(picked, x.shape), x)


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Any:
    """Return `a` with its main diagonal replaced by val, whose elements repeat as often as needed.

    Args:
        wrap: whether the diagonal of a tall matrix starts again below its end, after skipping one row.
        inplace: must be False.

    Raises:
        UnsupportedError: `inplace` is True.
        ShapeError: `a` has fewer than two axes, or more than two axes with different extents.

    >>> fill_diagonal(np.zeros((2, 2)), 5.0, inplace=False)
    array([[5., 0.],
           [0., 5.]])
    """
    _require_new("fill_diagonal", inplace)
    x = as_operand(a)
    if not all(is_static(extent) for extent in x.shape):
        raise NonStaticShapeError(f"fill_diagonal: needs known extents, got {spec_of(x)}")
    rank = len(x.shape)
    if rank < 2 or (rank > 2 and len(set(x.shape)) > 1):
        raise ShapeError(f"fill_diagonal: takes a matrix or equal extents, got {spec_of(x)}")
    count = math.prod(x.shape)
    if rank == 2:
        step, end = x.shape[1] + 1, count if wrap else min(count, x.shape[1] * x.shape[1])
    else:
        step, end = sum(x.shape[0] ** i for i in range(rank)), count
    values = convert(atleast_1d(val), spec_of(x).dtype)
    return put(x, np.arange(0, end, step), values, inplace=False)


def put_along_axis(
    arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None = -1, *, inplace: bool = True
) -> Any:  # fmt: skip
    """Return a copy y of arr with y[.., indices[.., i, ..], ..] = values[.., i, ..] along `axis`.

    The other axes broadcast. If `axis` is None, arr is flattened for the assignment.

    Args:
        inplace: must be False.

    Raises:
        UnsupportedError: `inplace` is True.
        DTypeError: the indices are not integers, or arr's dtype cannot represent the values.
        ShapeError: the indices have another rank than arr, or their axes do not broadcast.

    >>> put_along_axis([[1, 2], [3, 4]], [[1], [0]], 9, 1, inplace=False)
    array([[1, 9],
           [9, 4]])
    """
    _require_new("put_along_axis", inplace)
    original = as_operand(arr)
    x, axis = flattened(original, axis)
    axis = normalize_axis("put_along_axis", axis, len(x.shape))
    index = as_operand(indices)
    if not spec_of(index).dtype.is_integer:
        raise DTypeError(f"put_along_axis: indices must be integers, got {spec_of(index)}")
    require_equal_ranks("put_along_axis", x, index)
    shape = (*x.shape[:axis], index.shape[axis], *x.shape[axis + 1 :])
    index = broadcast_to(index, shape)
    grid: list[Any] = [*np.ix_(*[np.arange(extent) for extent in shape])]
    grid[axis] = index
    return reshape(at(x)[tuple(grid)].set(values), original.shape)
