"""`x.at[index].set(values)`, `at(x)[index].set(values)`: a new tensor with some elements changed.

Every index that reads also writes. Slices with step 1 are windows; arrays, masks and other
steps give the starts of the windows; all of it is one `Scatter`.

Source: JAX's `jax.numpy.ndarray.at`; docs/specification/surface.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tenferro.api.elementwise import divide, negative, pow
from tenferro.api.indexing import (
    axes_of,
    expanded,
    from_start,
    getitem,
    indexes_axis,
    is_array,
    pieces,
    position,
    slice_bounds,
)
from tenferro.api.manipulation import concat, expand_dims, reshape
from tenferro.api.promotion import broadcast_arrays, broadcast_to, convert, result_type
from tenferro.dims import DimExpr
from tenferro.door import apply_one, as_operand, beside, spec_of
from tenferro.errors import DTypeError, NonStaticShapeError
from tenferro.ops.indexing import Scatter
from tenferro.tracebacks import public_methods
from tenferro.types import ArrayLike, DType, Index, Tensor

__all__ = ["At", "IndexedUpdates", "at"]


@public_methods
class At:
    """The `at` of a tensor, to be indexed."""

    __slots__ = ("_x",)

    def __init__(self, x: ArrayLike) -> None:
        self._x = x

    def __getitem__(self, index: Index) -> IndexedUpdates:
        return IndexedUpdates(self._x, index)

    def __repr__(self) -> str:
        return f"{self._x!r}.at"


@public_methods
class IndexedUpdates:
    """The elements of x at an index, for updates; x itself stays as it is.

    Values broadcast to x[index], and promote to x's dtype. If an index repeats an
    element, `add`, `multiply`, `min` and `max` combine all its values, and `set` natively takes the last. Concrete
    indices outside x are refused; traced ones are dropped.

    Raises:
        DTypeError: values that x's dtype does not hold; convert either.
        ShapeError, OutOfBoundsError, InvalidConfigError: values that do not broadcast; an invalid index.

    >>> import tenferro as tnf
    >>> tnf.compile(lambda x: x.at[1:].add(10.0), np.zeros(3)).run(np.arange(3.0))
    array([ 0., 11., 12.])
    """

    __slots__ = ("_index", "_x")

    def __init__(self, x: ArrayLike, index: Index) -> None:
        self._x = x
        self._index = index

    def __repr__(self) -> str:
        return f"{self._x!r}.at[{self._index!r:.80}]"

    def get(self) -> Any:
        """x[index]."""
        return getitem(self._x, self._index)

    def set(self, values: ArrayLike) -> Any:
        """x with x[index] = values."""
        return _updated(self._x, self._index, values, "set")

    def add(self, values: ArrayLike) -> Any:
        """x with x[index] += values; repeated elements take all of their values."""
        return _updated(self._x, self._index, values, "add")

    def subtract(self, values: ArrayLike) -> Any:
        """x with x[index] -= values; repeated elements take all of their values."""
        return _updated(self._x, self._index, negative(_in_dtype_of(self._x, values)), "add")

    def multiply(self, values: ArrayLike) -> Any:
        """x with x[index] *= values; repeated elements take all of their values."""
        return _updated(self._x, self._index, values, "multiply")

    def divide(self, values: ArrayLike) -> Any:
        """x with x[index] /= values; repeated elements take one of their values."""
        return self.set(divide(self.get(), values))

    def power(self, values: ArrayLike) -> Any:
        """x with x[index] **= values; repeated elements take one of their values."""
        return self.set(pow(self.get(), values))

    def min(self, values: ArrayLike) -> Any:
        """x with minimum(x[index], values) at the index."""
        return _updated(self._x, self._index, values, "min")

    def max(self, values: ArrayLike) -> Any:
        """x with maximum(x[index], values) at the index."""
        return _updated(self._x, self._index, values, "max")


def at(x: ArrayLike, /) -> At:
    """`x.at` of an array or a tensor, to be indexed: `at(x)[index].set(values)`.

    NumPy arrays, the results of `zeros` and the like, have no attribute `at`. The array stays as it is.

    Raises:
        DTypeError: an argument that is not an array.

    >>> import tenferro as tnf
    >>> at(tnf.zeros(3))[1:].set(2.0)
    array([0., 2., 2.])

    Source: array_api_extra.at, jax.numpy.ndarray.at.
    """
    return At(as_operand(x))


def _updated(x: Any, index: Index, values: ArrayLike, combiner: str) -> Any:
    """x with the values combined into x[index]."""
    original = as_operand(x)
    x, entries = expanded(original, index)
    positions = _positions_of(x, entries)
    op = Scatter(
        update_window_dims=positions.windows,
        inserted_window_dims=tuple(
            [axis for axis in positions.starts if axis not in positions.along]
        ),
        input_batching_dims=(),
        scatter_indices_batching_dims=(),
        scatter_dims_to_operand_dims=tuple(positions.starts),
        index_vector_dim=len(positions.outer),
        combiner=combiner,
        unique_indices=not any([is_array(entry) for entry in entries]),
    )
    values = broadcast_to(beside(x, _in_dtype_of(x, values)), positions.shape)
    return reshape(apply_one(op, x, _vectors(x, positions), values), original.shape)


def _in_dtype_of(x: ArrayLike, values: ArrayLike) -> Any:
    dtype, common = spec_of(x).dtype, result_type(x, values)
    if common is not dtype:
        raise DTypeError(
            f"at: values of {spec_of(as_operand(values))} do not fit {spec_of(x)} without a loss; "
            f"convert them with astype, or x to {common}"
        )
    return convert(values, dtype)


class _Positions(NamedTuple):
    """The positions in x of the elements of x[index].

    Attributes:
        shape: of x[index].
        windows: axes of x[index] that run along an axis of x, one by one.
        along: the axes of x that the windows run along.
        outer: extents of the other axes of x[index].
        starts: by axis of x, the starts of the windows: numbers, or arrays that broadcast to `outer`.
    """

    shape: tuple[Any, ...]
    windows: tuple[int, ...]
    along: frozenset[int]
    outer: tuple[Any, ...]
    starts: dict[int, Any]


def _positions_of(x: Tensor, entries: list[Any]) -> _Positions:
    axes = axes_of(entries)
    arrays = {axes[i]: entry for i, entry in enumerate(entries) if is_array(entry)}
    starts = [from_start(array, x, axis) for axis, array in arrays.items()]
    starts_of = dict(zip(arrays, broadcast_arrays(*starts), strict=True))
    block = tuple(next(iter(starts_of.values())).shape) if starts_of else ()
    shape: list[Any] = []
    windows: list[int] = []
    along: set[int] = set()
    placed: dict[int, int] = {}
    for kind, i in pieces(entries):
        axis = axes[i]
        if kind == "arrays":
            placed |= dict.fromkeys(arrays, len(shape))
            shape += block
        elif kind == "new":
            shape.append(1)
        else:
            start, limit, step = slice_bounds(entries[i], x.shape[axis], axis)
            if step == 1:
                windows.append(len(shape))
                along.add(axis)
                shape.append(limit - start)
            else:
                placed[axis] = len(shape)
                start = np.arange(start, limit, step)
                shape.append(len(start))
            starts_of[axis] = start
    outer = [i for i in range(len(shape)) if i not in windows]
    for axis, out_axis in placed.items():
        start = starts_of[axis]
        inner = len(outer) - outer.index(out_axis) - len(start.shape) if start.shape else 0
        starts_of[axis] = reshape(start, (*start.shape, *[1] * inner))
    for axis, entry in zip(axes, entries, strict=True):
        if indexes_axis(entry) and axis not in starts_of:
            starts_of[axis] = position(int(entry), x.shape[axis], axis)
    return _Positions(
        tuple(shape),
        tuple(windows),
        frozenset(along),
        tuple([shape[i] for i in outer]),
        {axis: s for axis, s in sorted(starts_of.items()) if axis not in along or not _is_zero(s)},
    )


def _is_zero(start: Tensor) -> bool:
    return isinstance(start, int) and start == 0


def _vectors(x: ArrayLike, positions: _Positions) -> Any:
    """The starts of all windows, as index vectors along a last axis."""
    wide: list[Any] = []
    for start in positions.starts.values():
        if isinstance(start, DimExpr):
            raise NonStaticShapeError(f"at: a window cannot begin at the symbolic extent {start}")
        full = broadcast_to(beside(x, convert(as_operand(start), DType.I64)), positions.outer)
        wide.append(expand_dims(full, axis=len(positions.outer)))
    return concat(wide, axis=-1) if wide else np.zeros((*positions.outer, 0), np.int64)
