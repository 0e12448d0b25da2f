"""`x.at[index].set(values)` and `at(x)[index].set(values)`, which return a new tensor with some elements changed.

An update accepts every index that `x[index]` accepts. It is one `Scatter` of windows. A slice with step 1 is an axis
of the windows. Arrays, masks and slices with other steps determine where the windows start.

Source: JAX's `jax.numpy.ndarray.at`; docs/specification/surface.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tenferro.api.creation import iota, shape_of
from tenferro.api.elementwise import (
    add,
    as_int64,
    divide,
    greater_equal,
    less,
    logical_and,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    pow,
    subtract,
    where,
)
from tenferro.api.indexing import (
    axes_of,
    default_fill,
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
from tenferro.dims import DimExpr, is_static, product
from tenferro.dispatch import apply_one, as_constant_of, as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, NonStaticShapeError
from tenferro.ops.indexing import Scatter
from tenferro.tracebacks import public_methods
from tenferro.types import ArrayLike, DType, Index, Tensor

__all__ = ["At", "IndexedUpdates", "at"]


@public_methods
class At:
    """The attribute `x.at` of a tensor. Indexing it returns an `IndexedUpdates`."""

    __slots__ = ("_x",)

    def __init__(self, x: ArrayLike) -> None:
        self._x = x

    def __getitem__(self, index: Index) -> IndexedUpdates:
        return IndexedUpdates(self._x, index)

    def __repr__(self) -> str:
        return f"{self._x!r}.at"


@public_methods
class IndexedUpdates:
    """The elements of x at an index, with methods that return an updated copy of x. x itself does not change.

    Values are broadcast to x[index] and promoted to x's dtype. If an index repeats an element, `add`, `multiply`,
    `divide`, `power`, `min` and `max` combine all values of the element. `apply` and `set` use one of the values;
    natively, `set` uses the last. If an index out of range is a number or is in an array, an error is raised. At a
    traced index out of range, the update is dropped.

    Raises:
        DTypeError: x's dtype cannot represent the values.
        ShapeError, OutOfBoundsError, InvalidConfigError: the values do not broadcast, or the index is invalid.

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

    def get(
        self, *, mode: str | None = None, fill_value: ArrayLike | None = None, **hints: bool
    ) -> Any:
        """Return x[index].

        Args:
            mode: how to treat indices out of range. "fill" and "drop" return `fill_value`, and "clip" returns the
                nearest element. "promise_in_bounds" and None behave like x[index].
            fill_value: the default is NaN for floats, the smallest signed integer, the largest unsigned integer, or
                True.
            hints: `indices_are_sorted`, `unique_indices` and `wrap_negative_indices`, as in `jax.numpy`.

        Raises:
            InvalidConfigError: `mode` is unknown, or `fill_value` is passed for a mode other than "fill" or "drop".
        """
        index = self._bounded(mode, hints)
        if fill_value is not None and mode not in ("fill", "drop"):
            raise InvalidConfigError('at: fill_value needs mode="fill"')
        if mode not in ("fill", "drop"):
            return getitem(self._x, index)
        return _filled(as_operand(self._x), index, fill_value)

    def set(self, values: ArrayLike, *, mode: str | None = None, **hints: bool) -> Any:
        """Return x with x[index] = values.

        Args:
            mode: how to treat indices out of range, in this and all other updates. "drop" and "fill" drop the update,
                and "clip" clamps the index. None drops the update if the index is traced, and otherwise raises an
                error.
        """
        return self._updated(values, "set", mode, hints)

    def add(self, values: ArrayLike, *, mode: str | None = None, **hints: bool) -> Any:
        """Return x with x[index] += values. If the index repeats an element, all its values are added."""
        return self._updated(values, "add", mode, hints)

    def subtract(self, values: ArrayLike, *, mode: str | None = None, **hints: bool) -> Any:
        """Return x with x[index] -= values. If the index repeats an element, all its values are subtracted."""
        return self.add(negative(_in_dtype_of(self._x, values)), mode=mode, **hints)

    def multiply(self, values: ArrayLike, *, mode: str | None = None, **hints: bool) -> Any:
        """Return x with x[index] *= values. If the index repeats an element, it is multiplied by all its values."""
        return self._updated(values, "multiply", mode, hints)

    def divide(self, values: ArrayLike, *, mode: str | None = None, **hints: bool) -> Any:
        """Return x with x[index] /= values. If the index repeats an element, it is divided by all its values."""
        return self._by_products(divide, values, mode, hints, lambda dtype: dtype.is_inexact)

    def power(self, values: ArrayLike, *, mode: str | None = None, **hints: bool) -> Any:
        """Return x with x[index] **= values. If the index repeats an element, it is raised to each value in turn."""
        return self._by_products(pow, values, mode, hints, lambda dtype: not dtype.is_bool)

    def min(self, values: ArrayLike, *, mode: str | None = None, **hints: bool) -> Any:
        """Return x with x[index] = minimum(x[index], values)."""
        return self._updated(values, "min", mode, hints)

    def max(self, values: ArrayLike, *, mode: str | None = None, **hints: bool) -> Any:
        """Return x with x[index] = maximum(x[index], values)."""
        return self._updated(values, "max", mode, hints)

    def apply(self, func: Callable[[Any], Any], *, mode: str | None = None, **hints: bool) -> Any:
        """Return x with x[index] = func(x[index]). If the index repeats an element, it is set to one of its values."""
        return self.set(func(self.get(mode=mode, **hints)), mode=mode, **hints)

    def _by_products(
        self, function: Callable[[Any, Any], Any], values: ArrayLike, mode: str | None, hints: Mapping[str, bool],
        is_closed: Callable[[DType], bool],
    ) -> Any:  # fmt: skip
        """Apply `function` to x[index] and values. The values of a repeated element are multiplied first.

        Args:
            is_closed: a function that returns whether results have a dtype if the operands of `function` have it.
        """
        x = as_operand(self._x)
        dtype = spec_of(x).dtype
        if not is_closed(dtype) or not any(map(is_array, expanded(x, self._index)[1])):
            return self.set(function(self.get(mode=mode, **hints), values), mode=mode, **hints)
        ones = broadcast_to(convert(np.asarray(1), dtype), x.shape)
        return function(x, IndexedUpdates(ones, self._index).multiply(values, mode=mode, **hints))

    def _updated(
        self, values: ArrayLike, combiner: str, mode: str | None, hints: Mapping[str, bool]
    ) -> Any:
        index = self._bounded(mode, hints)
        return _updated(self._x, index, values, combiner, mode)

    def _bounded(self, mode: str | None, hints: Mapping[str, bool]) -> Index:
        """Replace the integers and arrays in the index, to prepare it for a mode that handles indices out of range."""
        for hint in hints:
            if hint not in _HINTS:
                raise TypeError(f"at: got an unexpected keyword argument {hint!r}")
        if mode not in _MODES:
            raise InvalidConfigError(f"at: mode must be one of {_MODES}, got {mode!r}")
        if mode in (None, "promise_in_bounds"):
            return self._index
        x, entries = expanded(as_operand(self._x), self._index)
        if len(x.shape) != len(as_operand(self._x).shape):
            return self._index
        wrap = hints.get("wrap_negative_indices", True)
        return tuple(
            [
                _bounded(entry, x, axis, mode, wrap) if _kind_of_integer(entry) else entry
                for axis, entry in zip(axes_of(entries), entries, strict=True)
            ]
        )


_HINTS = ("indices_are_sorted", "unique_indices", "wrap_negative_indices")
_MODES = (None, "clip", "drop", "fill", "promise_in_bounds")


def _kind_of_integer(entry: Any) -> bool:
    return is_array(entry) or (indexes_axis(entry) and not isinstance(entry, slice))


def _bounded(entry: Any, x: Tensor, axis: int, mode: str, wrap: bool) -> Any:
    """Convert an entry to nonnegative indices.

    An index out of range is clamped for mode "clip", or else set to the extent.

    Args:
        wrap: whether negative indices count from the end. If not, they are out of range.
    """
    index, extent = as_int64(as_operand(entry)), x.shape[axis]
    length = extent if is_static(extent) else shape_of(x, axis)
    if wrap:
        index = where(less(index, 0), add(index, length), index)
    if mode == "clip":
        return minimum(maximum(index, 0), subtract(length, 1))
    outside = logical_or(less(index, 0), greater_equal(index, length))
    return where(outside, length, index)


def _filled(x: Tensor, index: Index, fill_value: ArrayLike | None) -> Any:
    """Return x[index], with the fill value where an index equals the extent. Such an index is out of bounds."""
    _, entries = expanded(x, index)
    axes = axes_of(entries)
    arrays = {axes[i]: entry for i, entry in enumerate(entries) if is_array(entry)}
    if not arrays:
        return getitem(x, index)
    lengths = [x.shape[a] if is_static(x.shape[a]) else shape_of(x, a) for a in arrays]
    inside: Any = True
    for array, length in zip(arrays.values(), lengths, strict=True):
        inside = logical_and(inside, less(array, length))
    inside = as_constant_of(x, as_operand(inside))
    block = tuple(inside.shape)
    clipped = [
        minimum(entry, maximum(subtract(lengths[[*arrays].index(axes[i])], 1), 0)) if is_array(entry) else entry
        for i, entry in enumerate(entries)
    ]  # fmt: skip
    dtype = spec_of(x).dtype
    fill = convert(as_operand(default_fill(dtype) if fill_value is None else fill_value), dtype)
    if any(is_static(x.shape[a]) and x.shape[a] == 0 for a in arrays):
        # An indexed axis has no elements, so all indices are out of range. Index fill values of extent 1 instead.
        shape = [1 if a in arrays else extent for a, extent in enumerate(x.shape)]
        zeros = [multiply(entry, 0) if is_array(entry) else entry for entry in entries]
        return getitem(broadcast_to(fill, tuple(shape)), tuple(zeros))
    values = getitem(x, tuple(clipped))
    # `inside` contains one bool per element of the broadcast index arrays. An index of the same form moves the bools to
    # the axes of the values: it reads a tensor that contains the bools along its first indexed axis.
    first = next(iter(arrays))
    size = product(block)
    shape = [size if a == first else 1 if a in arrays else extent for a, extent in enumerate(x.shape)]  # fmt: skip
    column = [size if a == first else 1 for a in range(len(x.shape))]
    mask = broadcast_to(reshape(inside, tuple(column)), tuple(shape))
    places = reshape(iota((size,), 0), block)
    at_mask = [
        (places if axes[i] == first else multiply(places, 0)) if is_array(entry) else entry
        for i, entry in enumerate(entries)
    ]
    return where(getitem(mask, tuple(at_mask)), values, fill)


def at(x: ArrayLike, /) -> At:
    """Return `x.at` for an array or a tensor x, as in `at(x)[index].set(values)`.

    The function is for NumPy arrays, which have no attribute `at`. The results of `zeros` are such arrays. The array
    does not change.

    Raises:
        DTypeError: x is not an array or a tensor.

    >>> import tenferro as tnf
    >>> at(tnf.zeros(3))[1:].set(2.0)
    array([0., 2., 2.])

    Source: array_api_extra.at, jax.numpy.ndarray.at.
    """
    return At(as_operand(x))


def _updated(
    x: Any, index: Index, values: ArrayLike, combiner: str, mode: str | None = None
) -> Any:
    """Return x with x[index] and the values combined by one `Scatter`.

    Args:
        combiner: the name of the function that combines an element with a value, such as "add".
        mode: "drop" and "fill" do not check indices in arrays, so updates out of range are dropped.
    """
    original = as_operand(x)
    x, entries = expanded(original, index)
    positions = _positions_of(x, entries, is_checked=mode not in ("drop", "fill"))
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
    values = broadcast_to(as_constant_of(x, _in_dtype_of(x, values)), positions.shape)
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
    """Positions in x of the elements of x[index], as windows of x.

    Attributes:
        shape: the shape of x[index].
        windows: the axes of x[index] that are axes of the windows.
        along: the corresponding axes of x.
        outer: the extents of the other axes of x[index]. There are different windows along these axes.
        starts: the starts of the windows along each axis of x, as numbers or as arrays that broadcast to `outer`.
    """

    shape: tuple[Any, ...]
    windows: tuple[int, ...]
    along: frozenset[int]
    outer: tuple[Any, ...]
    starts: dict[int, Any]


def _positions_of(x: Tensor, entries: list[Any], is_checked: bool) -> _Positions:
    axes = axes_of(entries)
    arrays = {axes[i]: entry for i, entry in enumerate(entries) if is_array(entry)}
    starts = [from_start(array, x, axis) if is_checked else array for axis, array in arrays.items()]
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
    """Return the starts of all windows as index vectors for `Scatter`. The last axis counts the indexed axes of x."""
    wide: list[Any] = []
    for start in positions.starts.values():
        if isinstance(start, DimExpr):
            raise NonStaticShapeError(f"at: a window cannot begin at the symbolic extent {start}")
        full = broadcast_to(
            as_constant_of(x, convert(as_operand(start), DType.I64)), positions.outer
        )
        wide.append(expand_dims(full, axis=len(positions.outer)))
    return concat(wide, axis=-1) if wide else np.zeros((*positions.outer, 0), np.int64)
