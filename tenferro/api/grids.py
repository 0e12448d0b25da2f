"""Arrays of indices, and conversions between indices and positions in row-major order.

The indices of a shape are already known when a program is traced. They are therefore NumPy arrays, which become
constants of the trace.

Source: NumPy 2.4, reference, sections "Indexing routines" and "Array creation routines".
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenferro.api.elementwise import add, floor_divide, maximum, minimum, multiply, remainder, where
from tenferro.api.promotion import convert
from tenferro.dims import is_static
from tenferro.dispatch import as_operand, is_traced, spec_of
from tenferro.errors import (
    DTypeError,
    InvalidConfigError,
    NonStaticShapeError,
    OutOfBoundsError,
    ShapeError,
)
from tenferro.types import ArrayLike, DType, DTypeLike

__all__ = [
    "diag_indices", "diag_indices_from", "index_exp", "indices", "ix_", "mask_indices", "mgrid", "ogrid", "ravel_multi_index",
    "s_", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from", "unravel_index",
]  # fmt: skip

index_exp = np.index_exp
"""NumPy's `index_exp`: `index_exp[1:, ::2]` is the tuple `(slice(1, None), slice(None, None, 2))`."""
s_ = np.s_
"""NumPy's `s_`: `s_[1:]` is `slice(1, None)`."""
mgrid = np.mgrid
"""NumPy's `mgrid`: `mgrid[0:2, 0:3]` is a dense grid of coordinates."""
ogrid = np.ogrid
"""NumPy's `ogrid`: `ogrid[0:2, 0:3]` is a tuple of coordinates of shapes (2, 1) and (1, 3), which broadcast."""


def _static_shape(name: str, x: ArrayLike) -> tuple[int, ...]:
    shape = as_operand(x).shape
    if not all(is_static(extent) for extent in shape):
        raise NonStaticShapeError(f"{name}: needs known extents, got {spec_of(as_operand(x))}")
    return tuple(shape)


def indices(dimensions: Sequence[int], dtype: DTypeLike = int, sparse: bool = False) -> Any:
    """Return the index of each element along each axis. The arrays are stacked along a new first axis.

    If `sparse`, return a tuple of arrays that broadcast to the shape instead.

    >>> indices((2, 2))
    array([[[0, 0],
            [1, 1]],
    <BLANKLINE>
           [[0, 1],
            [0, 1]]])
    """
    return np.indices(tuple(dimensions), DType.of(dtype).dtype, sparse)


def ix_(*args: ArrayLike) -> tuple[Any, ...]:
    """Reshape vectors of indices so that they broadcast: `x[ix_(rows, columns)]` selects all pairs of indices.

    A vector of bools is a mask, which stands for the indices of its true elements.

    Raises:
        ShapeError: an argument is not a vector.
        DataDependentShapeError: a mask is a traced tensor.

    >>> ix_([0, 2], [1])
    (array([[0],
           [2]]), array([[1]]))
    """
    from tenferro.api.manipulation import reshape
    from tenferro.api.sets import nonzero

    result = []
    for i, entry in enumerate(args):
        vector = as_operand(entry)
        if len(vector.shape) != 1:
            raise ShapeError(f"ix_: arguments must be vectors, got {spec_of(vector)}")
        if vector.shape[0] == 0 and not is_traced(vector):
            vector = np.zeros(0, np.int64)
        if spec_of(vector).dtype.is_bool:
            vector = nonzero(vector)[0]
        shape = [1] * len(args)
        shape[i] = vector.shape[0]
        result.append(reshape(vector, tuple(shape)))
    return tuple(result)


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """Return the indices of the main diagonal of an array of `ndim` axes of n elements.

    >>> diag_indices(2)
    (array([0, 1]), array([0, 1]))
    """
    return np.diag_indices(n, ndim)


def diag_indices_from(arr: ArrayLike) -> tuple[Any, ...]:
    """Return the indices of the main diagonal of arr, whose axes have equal extents.

    Raises:
        ShapeError: arr has fewer than two axes, or its extents differ. NonStaticShapeError: an extent is not a number.

    >>> diag_indices_from(np.zeros((2, 2)))
    (array([0, 1]), array([0, 1]))
    """
    shape = _static_shape("diag_indices_from", arr)
    if len(shape) < 2 or len(set(shape)) > 1:
        raise ShapeError(f"diag_indices_from: takes at least two equal extents, got {shape}")
    return np.diag_indices(shape[0], len(shape))


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """Return the indices of the lower triangle of an n by m matrix, up to the k-th diagonal.

    >>> tril_indices(2)
    (array([0, 1, 1]), array([0, 0, 1]))
    """
    return np.tril_indices(n, k, m)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """Return the indices of the upper triangle of an n by m matrix, from the k-th diagonal.

    >>> triu_indices(2)
    (array([0, 0, 1]), array([0, 1, 1]))
    """
    return np.triu_indices(n, k, m)


def _of_triangle(name: str, arr: ArrayLike, k: int, triangle: Callable[..., Any]) -> Any:
    shape = _static_shape(name, arr)
    if len(shape) != 2:
        raise ShapeError(f"{name}: takes a matrix, got {spec_of(as_operand(arr))}")
    return triangle(shape[0], k, shape[1])


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Any, Any]:
    """Return the indices of the lower triangle of arr, a matrix, up to the k-th diagonal.

    Raises:
        ShapeError: arr is not a matrix. NonStaticShapeError: an extent is not a number.

    >>> tril_indices_from(np.zeros((2, 2)), -1)
    (array([1]), array([0]))
    """
    return _of_triangle("tril_indices_from", arr, k, tril_indices)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Any, Any]:
    """Return the indices of the upper triangle of arr, a matrix, from the k-th diagonal.

    Raises:
        ShapeError: arr is not a matrix. NonStaticShapeError: an extent is not a number.

    >>> triu_indices_from(np.zeros((2, 2)), 1)
    (array([0]), array([1]))
    """
    return _of_triangle("triu_indices_from", arr, k, triu_indices)


def mask_indices(n: int, mask_func: Callable[..., Any], k: int = 0) -> tuple[Any, ...]:
    """Return the indices at which `mask_func(ones((n, n)), k)` is nonzero.

    >>> mask_indices(2, np.triu)
    (array([0, 0, 1]), array([0, 1, 1]))
    """
    from tenferro.api.sets import nonzero

    return nonzero(mask_func(np.ones((n, n), np.int64), k))


def _integers(name: str, values: ArrayLike) -> Any:
    x = as_operand(values)
    dtype = spec_of(x).dtype
    if not dtype.is_integer:
        raise DTypeError(f"{name}: indices must be integers, got {spec_of(x)}")
    return convert(x, DType.I64)


def within(name: str, index: Any, extent: int, mode: str) -> Any:
    """Map indices into the range from 0 to `extent` - 1, or check that they are in the range, as `mode` requires.

    Raises:
        OutOfBoundsError: the mode is "raise", and an index is out of range.
        InvalidConfigError: the mode is unknown, or is "raise" for traced indices.
    """
    if mode == "wrap":
        return remainder(index, extent)
    if mode == "clip":
        return minimum(maximum(index, 0), extent - 1)
    if mode != "raise":
        raise InvalidConfigError(f'{name}: mode must be "raise", "wrap" or "clip", got {mode!r}')
    if is_traced(index):
        raise InvalidConfigError(
            f'{name}: a traced index cannot raise; give mode="wrap" or mode="clip"'
        )
    outside = (np.asarray(index) < 0) | (np.asarray(index) >= extent)
    if outside.any():
        first = np.asarray(index)[outside].reshape(-1)[0]
        raise OutOfBoundsError(f"{name}: index {first} is outside an extent of {extent}")
    return index


def ravel_multi_index(
    multi_index: Sequence[Any], dims: Sequence[int], mode: str | Sequence[str] = "raise", order: str = "C"
) -> Any:  # fmt: skip
    """Return the positions of elements in the flattened array of shape `dims`, as int64.

    Args:
        multi_index: for each axis, an array of the elements' indices along the axis.
        mode: how to treat an index out of range, for all axes or for each axis: "raise" an error, reduce it modulo the
            extent ("wrap"), or use the nearest valid index ("clip"). "raise" does not accept traced indices.
        order: "C" if positions count in row-major order, or "F" for column-major order.

    Raises:
        DTypeError: the indices are not integers. OutOfBoundsError: an index is out of range, for mode "raise".
        ShapeError: the number of index arrays differs from that of extents.
        InvalidConfigError: `mode` or `order` is unknown.

    >>> ravel_multi_index(([0, 1], [2, 0]), (2, 3))
    array([2, 3])
    """
    name = "ravel_multi_index"
    extents = [operator.index(extent) for extent in dims]
    modes = [mode] * len(extents) if isinstance(mode, str) else [*mode]
    if len(multi_index) != len(extents) or len(modes) != len(extents):
        raise ShapeError(f"{name}: {len(multi_index)} arrays of indices for {len(extents)} extents")
    if order not in ("C", "F"):
        raise InvalidConfigError(f'{name}: order must be "C" or "F", got {order!r}')
    axes = range(len(extents)) if order == "C" else reversed(range(len(extents)))
    place: Any = np.int64(0)
    for axis in axes:
        index = within(name, _integers(name, multi_index[axis]), extents[axis], modes[axis])
        place = add(multiply(place, extents[axis]), index)
    return as_operand(place)


def unravel_index(indices: ArrayLike, shape: Sequence[int], order: str = "C") -> tuple[Any, ...]:
    """Return for each axis of `shape` the indices of the elements at given positions in the flattened array, as int64.

    Traced positions are clamped to the first and last element, and negative traced positions count from the end, as
    in `jax.numpy`.

    Args:
        indices: the positions, in row-major order if `order` is "C", in column-major order if it is "F".

    Raises:
        DTypeError: the positions are not integers. OutOfBoundsError: a position in an array is out of range.
        InvalidConfigError: `order` is neither "C" nor "F".

    >>> unravel_index([2, 3], (2, 3))
    (array([0, 1]), array([2, 0]))
    """
    name = "unravel_index"
    if order not in ("C", "F"):
        raise InvalidConfigError(f'{name}: order must be "C" or "F", got {order!r}')
    extents = [operator.index(extent) for extent in np.atleast_1d(np.asarray(shape)).tolist()]
    place = _integers(name, indices)
    total = math.prod(extents)
    if is_traced(place):
        place = where(place < 0, add(place, total), place)
        place = minimum(maximum(place, 0), max(total - 1, 0))
    else:
        place = within(name, place, total, "raise")
    result: list[Any] = []
    for extent in reversed(extents) if order == "C" else extents:
        result.append(remainder(place, extent) if extent else place)
        place = floor_divide(place, extent) if extent else place
    return tuple(reversed(result)) if order == "C" else tuple(result)
