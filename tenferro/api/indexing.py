"""Indexing: x[...] with integers, slices, None, Ellipsis and integer arrays; `take`.

Integers and slices are converted to the ops `Slice`, `Reverse` and `Reshape`. Integer arrays and masks are converted to
one `Gather`. Static indices are checked against static extents. Negative indices in arrays count from the end. Traced
indices that are out of range are clamped, as in StableHLO.

Source: Array API standard 2024.12, sections "Indexing" and "Indexing functions"; NumPy's indexing.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tenferro.api.arguments import refuse
from tenferro.api.axes import normalize_axis
from tenferro.api.creation import shape_of
from tenferro.api.elementwise import (
    add,
    as_int64,
    greater_equal,
    less,
    logical_and,
    maximum,
    minimum,
    negative,
    remainder,
    subtract,
    where,
)
from tenferro.api.manipulation import concat, expand_dims, flattened, flip, moveaxis, reshape
from tenferro.api.planned import planned
from tenferro.api.promotion import broadcast_arrays, broadcast_to, convert
from tenferro.dims import is_exact, is_static
from tenferro.dispatch import apply_one, as_operand, elements, is_traced, spec_of
from tenferro.errors import (
    ConcretizationError,
    DTypeError,
    InvalidConfigError,
    NonStaticShapeError,
    OutOfBoundsError,
    ShapeError,
)
from tenferro.ops.indexing import Gather
from tenferro.ops.structural import Slice
from tenferro.types import ArrayLike, DType, Index, Tensor

__all__ = [
    "axes_of",
    "expanded",
    "from_start",
    "getitem",
    "indexes_axis",
    "is_array",
    "pieces",
    "position",
    "slice_bounds",
    "take",
    "take_along_axis",
]


@planned
def getitem(x: Any, index: Index) -> Any:
    """Return x[index], by NumPy's rules.

    A mask stands for the indices of its true elements: one vector of indices for each axis of the mask.

    Raises:
        OutOfBoundsError: a static integer is outside its axis, there are more indices than axes, or the shape of a mask
            differs from the axes of x that it indexes.
        DataDependentShapeError: a mask is a traced tensor, so that the number of its true elements is unknown.
        InvalidConfigError: an entry is not an index.
    """
    x, entries = expanded(as_operand(x), index)
    arrays = [entry for entry in entries if is_array(entry)]
    x, kept_axes, new_axes, array_axes = _basic(x, entries)
    if arrays:
        return _advanced(x, entries, arrays, array_axes)
    if len(kept_axes) == len(x.shape) and not all(map(is_exact, x.shape)):
        # A reshape needs a target shape, and cannot be used if an extent depends on the data.
        return expand_dims(x, tuple(new_axes))
    shape = tuple(extent for axis, extent in enumerate(x.shape) if axis in kept_axes)
    for axis in new_axes:
        shape = (*shape[:axis], 1, *shape[axis:])
    return reshape(x, shape)


def is_array(entry: Index) -> bool:
    """Return whether an entry of an index is an array, a mask or a bool."""
    return not (
        entry is None or entry is Ellipsis or isinstance(entry, slice | int | np.integer)
    ) or (isinstance(entry, bool))


def _is_rank_0_mask(index: Index) -> bool:
    is_bool = isinstance(index, bool | np.bool_)
    return is_bool or (is_array(index) and getattr(index, "shape", None) == () and _is_mask(index))


def _is_mask(entry: Any) -> bool:
    return spec_of(as_operand(entry)).dtype.is_bool


def _with_axes_for_masks(x: ArrayLike, index: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Give x a new axis for each mask of rank 0, and replace the mask by an index: [0] for True, [] for False."""
    for mask_position, entry in enumerate(index):
        if _is_rank_0_mask(entry):
            before, after = index[:mask_position], index[mask_position + 1 :]
            is_late = any(e is Ellipsis for e in before)
            axis = -1 - sum(map(_axes_of, after)) if is_late else sum(map(_axes_of, before))
            count = int(elements(as_operand(entry), *MASK))
            index = (*before, np.zeros(count, np.int64), *after)
            x = expand_dims(x, axis=axis)
    return x, index


def _axes_of(entry: Any) -> int:
    """Return the number of axes of x that an entry indexes."""
    if entry is None or entry is Ellipsis or _is_rank_0_mask(entry):
        return 0
    return (
        len(np.shape(entry) if isinstance(entry, list) else entry.shape) if _has_mask(entry) else 1
    )


def _has_mask(entry: Index) -> bool:
    if not (isinstance(entry, list) or is_array(entry)):
        return False
    return _is_mask(np.asarray(entry) if isinstance(entry, list) else entry)


def expanded(x: Any, index: Index) -> tuple[Any, list[Any]]:
    """Expand an index to entries that index one axis each, and entries of None, which index no axis.

    Masks are replaced by vectors of indices, and `...` by slices. If `...` stands for no axis, it is kept, because it
    separates the arrays before it from the arrays after it.

    Returns:
        x, with a new axis for each mask of rank 0; and the entries.
    """
    x, index = _with_axes_for_masks(x, index if isinstance(index, tuple) else (index,))
    entries: list[Any] = []
    masks: list[tuple[int, Any]] = []
    entry: Any
    for entry in index:
        if isinstance(entry, list):
            entry = np.asarray(entry, np.int64 if not entry else None)
        if is_array(entry):
            entry = as_operand(entry)
            dtype = spec_of(entry).dtype
            if dtype.is_bool:
                masks.append((len(entries), entry))
                entries += _where_true(entry)
                continue
            if not dtype.is_integer:
                raise DTypeError(
                    f"indexing: an index must be an integer, slice, None, Ellipsis, "
                    f"integer array or mask, got {entry!r:.60}"
                )
        entries.append(entry)
    written_out = _written_out(x, entries)
    for mask_position, mask in masks:
        _require_mask_fits(x, entries, mask_position, mask)
    return x, written_out


MASK = (
    "indexing with a boolean mask",
    "the number of selected elements depends on the data; use where(mask, x, other), or multiply by the mask",
)
"""Name of the operation that needs the elements of a mask, and an advice: texts for the error for traced masks."""


def _where_true(mask: Tensor) -> list[Any]:
    """Return the indices of a mask's true elements: one vector of indices for each axis of the mask."""
    true_indices = np.nonzero(elements(mask, *MASK))
    return [indices.astype(np.int64, copy=False) for indices in true_indices]


def _require_mask_fits(x: Any, entries: list[Any], mask_position: int, mask: Tensor) -> None:
    """Raise an error if a nonempty axis of a mask has another extent than the axis of x that it indexes."""
    before, after = entries[:mask_position], entries[mask_position:]
    is_late = any(entry is Ellipsis for entry in before)
    axis = len(x.shape) - _axis_count(after) if is_late else _axis_count(before)
    under = tuple(x.shape[axis : axis + len(mask.shape)])
    if any(extent not in (0, side) for extent, side in zip(mask.shape, under, strict=True)):
        raise OutOfBoundsError(
            f"indexing: a mask of shape {tuple(mask.shape)} lies on axes of shape {under} of {spec_of(x)}"
        )


def _axis_count(entries: list[Any]) -> int:
    """Count the entries that index an axis."""
    return sum(map(indexes_axis, entries))


def indexes_axis(entry: Index) -> bool:
    """Return whether an entry indexes an axis: whether it is neither None nor Ellipsis."""
    return entry is not None and entry is not Ellipsis


def _written_out(x: Tensor, entries: list[Any]) -> list[Any]:
    """Replace the Ellipsis by slices, one for each axis that no entry indexes. Keep it if there is no such axis."""
    dots = sum(entry is Ellipsis for entry in entries)
    if dots > 1:
        raise InvalidConfigError("indexing: an index must have at most one Ellipsis")
    used = _axis_count(entries)
    rank = len(x.shape)
    if used > rank:
        raise OutOfBoundsError(f"indexing: {used} indices for {spec_of(x)}, which has {rank} axes")
    fill = [slice(None)] * (rank - used)
    if dots:
        ellipsis = next(i for i, entry in enumerate(entries) if entry is Ellipsis)
        return [*entries[:ellipsis], *(fill or [Ellipsis]), *entries[ellipsis + 1 :]]
    return entries + fill


def _basic(x: Tensor, entries: list[Any]) -> tuple[Any, set[int], list[int], list[int]]:
    """Apply the integers and slices of an index.

    Returns:
        The sliced tensor, in which integers leave axes of extent 1; the axes of it that remain in the result; the
            positions in the result of new axes, for entries of None; and the axes that arrays index.
    """
    starts: list[int] = []
    limits: list[Any] = []
    strides: list[int] = []
    reverse: list[int] = []
    kept_axes: set[int] = set()
    new_axes: list[int] = []
    array_axes: list[int] = []
    axis = 0
    for entry in entries:
        if entry is None:
            new_axes.append(len(kept_axes) + len(new_axes))
        if not indexes_axis(entry):
            continue
        extent = x.shape[axis]
        if isinstance(entry, slice):
            start, limit, stride = slice_bounds(entry, extent, axis)
            if stride < 0:
                reverse.append(axis)
                start, limit, stride = _backwards(start, limit, -stride)
            kept_axes.add(axis)
        elif isinstance(entry, int | np.integer):
            start = position(int(entry), extent, axis)
            limit, stride = start + 1, 1
        else:
            start, limit, stride = 0, extent, 1
            array_axes.append(axis)
            kept_axes.add(axis)
        starts.append(start)
        limits.append(limit)
        strides.append(stride)
        axis += 1
    if (
        any([start != 0 for start in starts])
        or tuple(limits) != tuple(x.shape)
        or any(s != 1 for s in strides)
    ):
        x = apply_one(Slice(tuple(starts), tuple(limits), tuple(strides)), x)
    return (flip(x, axis=tuple(reverse)) if reverse else x), kept_axes, new_axes, array_axes


def position(index: int, extent: Any, axis: int) -> int:
    """Convert an integer index, which may be negative, to a position from 0.

    Check the range if the extent is a number.
    """
    if is_static(extent):
        if not -extent <= index < extent:
            raise OutOfBoundsError(
                f"indexing: index {index} is outside axis {axis} of extent {extent}"
            )
        return index % extent
    if index < 0:
        return extent + index
    return index


def slice_bounds(entry: slice, extent: Any, axis: int) -> tuple[Any, Any, int]:
    """Return the start, limit and stride of a slice, with negative bounds counted from the end of the axis."""
    try:
        stride = 1 if entry.step is None else operator.index(entry.step)
    except (TypeError, ConcretizationError):
        raise InvalidConfigError(f"a slice's step must be an integer, got {entry.step!r}") from None
    if stride == 0:
        raise InvalidConfigError("a slice's step must not be zero")
    if is_static(extent):
        try:
            start, limit, stride = entry.indices(extent)
        except (TypeError, ConcretizationError):
            raise InvalidConfigError(
                f"a slice's bounds must be integers, got {entry}; use dynamic_slice for traced starts"
            ) from None
        return start, (max(limit, start) if stride > 0 else limit), stride
    if stride < 0:
        if entry.start is None and entry.stop is None and stride == -1:
            return extent - 1, -1, -1
        raise NonStaticShapeError(
            f"axis {axis} has the symbolic extent {extent}; only [::-1] may go backwards there"
        )
    start, limit = (
        bound
        if bound is not None and not (is_static(bound) and bound < 0)
        else (default if bound is None else extent + bound)
        for bound, default in ((entry.start, 0), (entry.stop, extent))
    )
    return start, limit, stride


def _backwards(start: Tensor, limit: Tensor, stride: int) -> tuple[Any, Any, int]:
    """Return start, limit and stride of the forward slice that has the elements of a backward slice.

    The backward slice runs from `start` down to, but not including, `limit` in steps of -stride.
    """
    if is_static(start) and is_static(limit) and limit >= start:
        return 0, 0, 1
    count = (start - limit + stride - 1) // stride
    first = start - (count - 1) * stride
    return first, start + 1, stride


def _advanced(x: Any, entries: list[Any], arrays: list[Any], array_axes: list[int]) -> Any:
    """Index x by integer arrays, which broadcast together, with one `Gather`. The axes are ordered as in NumPy."""
    rank = len(x.shape)
    indices = [from_start(array, x, axis) for array, axis in zip(arrays, array_axes, strict=True)]
    indices = broadcast_arrays(*indices)
    shape = tuple(indices[0].shape)
    window = [axis for axis in range(rank) if axis not in array_axes]
    if 0 in shape and any(x.shape[axis] == 0 for axis in array_axes):
        # A window of `Gather` does not fit into an axis without elements, so the empty result is created by a reshape.
        empty = reshape(x, (*shape, *[x.shape[axis] for axis in window]))
        return _placed(empty, entries, window, len(shape))
    stacked = concat([expand_dims(index, axis=len(shape)) for index in indices], axis=-1)
    slices = tuple(1 if axis in array_axes else extent for axis, extent in enumerate(x.shape))
    gathered = apply_one(
        Gather(
            offset_dims=tuple(range(len(shape), len(shape) + len(window))),
            collapsed_slice_dims=tuple(array_axes),
            operand_batching_dims=(),
            start_indices_batching_dims=(),
            start_index_map=tuple(array_axes),
            index_vector_dim=len(shape),
            slice_sizes=slices,
        ),
        x,
        stacked,
    )
    return _placed(gathered, entries, window, len(shape))


def _placed(gathered: Tensor, entries: list[Any], window: list[int], count: int) -> Any:
    """Move the axes of index arrays to their positions in NumPy, remove the axes of integers, and add axes for None.

    Args:
        gathered: the result of `Gather`, with the axes of the broadcast arrays first.
        window: the axes of x that arrays do not index.
        count: the number of axes of the broadcast arrays.
    """
    axes = axes_of(entries)
    order: list[int] = []
    shape: list[Any] = []
    for kind, entry in pieces(entries):
        if kind == "arrays":
            order += range(count)
            shape += gathered.shape[:count]
        elif kind == "slice":
            order.append(count + window.index(axes[entry]))
            shape.append(gathered.shape[order[-1]])
        else:
            shape.append(1)
    left = [axis for axis in range(len(gathered.shape)) if axis not in order]
    moved = moveaxis(gathered, [*order, *left], list(range(len(order) + len(left))))
    return reshape(moved, tuple(shape))


def axes_of(entries: list[Any]) -> list[int]:
    """Return, for each entry, the axis of x that it indexes. For None and `...` it is the axis of the next entry."""
    axes: list[int] = []
    axis = 0
    for entry in entries:
        axes.append(axis)
        axis += indexes_axis(entry)
    return axes


def pieces(entries: list[Any]) -> list[tuple[str, int]]:
    """Return the axes of an indexing result, in order, as pairs of their kind and the position of their entry.

    The kind is "new" for a None, "slice" for a slice, and "arrays" once for all axes of the broadcast index arrays.
    If integers and arrays are adjacent entries, the axes of the arrays replace them; otherwise these axes come first.
    As in NumPy, a `...` between entries separates them even if it stands for no axis.
    """
    kinds = [_kind(entry) for entry in entries]
    axes = [(kind, i) for i, kind in enumerate(kinds) if kind in ("new", "slice")]
    if not any(map(is_array, entries)):
        return axes
    first, last = kinds.index("array"), len(kinds) - 1 - kinds[::-1].index("array")
    together = all(kind == "array" for kind in kinds[first : last + 1])
    before = sum([i < first for _, i in axes])
    axes.insert(before if together else 0, ("arrays", first))
    return axes


def _kind(entry: Index) -> str:
    """Return the kind of an entry: "new" for None, "none" for a `...` that stands for no axis, "slice" or "array"."""
    if entry is None:
        return "new"
    if entry is Ellipsis:
        return "none"
    return "slice" if isinstance(entry, slice) else "array"


def from_start(index: Any, x: Tensor, axis: int) -> Any:
    """Convert indices along `axis` to int64 positions from 0; negative indices count from the end.

    Raises:
        OutOfBoundsError: an index in an array (not a traced tensor) is out of range.
    """
    index = as_operand(index)
    extent = x.shape[axis]
    if not is_traced(index) and is_static(extent) and index.size:
        low, high = int(index.min()), int(index.max())
        if low < -extent or high >= extent:
            worst = low if low < -extent else high
            raise OutOfBoundsError(
                f"indexing: index {worst} is outside axis {axis} of extent {extent}"
            )
    index = as_int64(index)
    if not is_traced(index) and (index >= 0).all():
        return index
    length = extent if is_static(extent) else shape_of(x, axis)
    return where(less(index, 0), add(index, length), index)


def default_fill(dtype: DType) -> Any:
    """Return the default `fill_value` of a dtype, as in `jax.numpy`."""
    if dtype.is_bool:
        return True
    if dtype.is_integer:
        return np.array(dtype.extremes[dtype.kind == "u"], dtype.dtype)
    return np.nan


def take(
    a: ArrayLike, indices: ArrayLike, axis: int | None = None, out: None = None, mode: str = "raise",
    unique_indices: bool = False, indices_are_sorted: bool = False, fill_value: ArrayLike | None = None,
) -> Any:  # fmt: skip
    """Gather the slices of `a` at `indices` along `axis`; `a` is flattened first if `axis` is None.

    Args:
        mode: the treatment of indices out of range. "raise" raises an error for an index in an array, clamps traced
            indices, and counts negative indices from the end. "wrap" reduces indices modulo the extent. "clip" clamps
            indices, and negative indices to 0. "fill" counts negative indices from the end, and returns `fill_value` for
            indices out of range.
        fill_value: for mode "fill"; by default NaN for floats, the smallest signed integer, the largest unsigned
            integer, or True.
        unique_indices, indices_are_sorted: JAX's arguments, without effect.

    Raises:
        OutOfBoundsError: the mode is "raise", and an index in an array is out of range.
        DTypeError: the indices are not integers.
        InvalidConfigError: `mode` is unknown, or `fill_value` is passed for another mode than "fill".

    >>> take([[1, 2], [3, 4]], [0, -1], 1), take([1, 2], 5, mode="clip")
    (array([[1, 2],
           [3, 4]]), array(2))
    """
    refuse("take", "out", out)
    if mode not in ("raise", "wrap", "clip", "fill"):
        raise InvalidConfigError(
            f'take: mode must be "raise", "wrap", "clip" or "fill", got {mode!r}'
        )
    _require_fill("take", mode, fill_value)
    x, axis = flattened(a, axis)
    axis = normalize_axis("take", axis, len(x.shape))
    index = as_operand(indices)
    if not spec_of(index).dtype.is_integer:
        raise DTypeError(f"take: indices must be integers, got {spec_of(index)}")
    extent: Any = x.shape[axis] if is_static(x.shape[axis]) else shape_of(x, axis)
    if mode == "clip":
        index = minimum(maximum(as_int64(index), 0), subtract(extent, 1))
    elif mode == "wrap":
        # Compute the remainder in 64 bits, because a narrow dtype may not be able to represent the extent.
        wide = DType.U64 if spec_of(index).dtype is DType.U64 else DType.I64
        index = remainder(convert(index, wide), convert(extent, wide))
    elif mode == "fill":
        index, is_inside = _inside(index, extent)
        values = getitem(_nonempty(x, axis), (*([slice(None)] * axis), index))
        places = tuple(range(len(index.shape), len(index.shape) + len(x.shape) - axis - 1))
        return _filled(values, expand_dims(is_inside, axis=places), fill_value)
    return getitem(x, (*([slice(None)] * axis), index))


def _require_fill(name: str, mode: str | None, fill_value: ArrayLike | None) -> None:
    if fill_value is not None and mode != "fill":
        raise InvalidConfigError(f'{name}: fill_value needs mode="fill"')


def _inside(index: Tensor, extent: Any) -> tuple[Any, Any]:
    """Return the indices, or 0 for those out of range, and a mask of the indices in range."""
    index = as_int64(index)
    is_inside = logical_and(greater_equal(index, negative(extent)), less(index, extent))
    return where(is_inside, index, 0), is_inside


def require_equal_ranks(name: str, x: Tensor, indices: Tensor) -> None:
    """Raise a `ShapeError` if the indices along an axis of x have another rank than x."""
    if len(x.shape) != len(indices.shape):
        raise ShapeError(
            f"{name}: the indices need the rank of the tensor, got {spec_of(indices)} for {spec_of(x)}"
        )


def _nonempty(x: Tensor, axis: int) -> Any:
    """Return x, or zeros of extent 1 along `axis` if x has no elements there; all indices are then out of range."""
    if not is_static(x.shape[axis]) or x.shape[axis]:
        return x
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return broadcast_to(convert(0, spec_of(x).dtype), shape)


def _filled(values: Tensor, is_inside: Tensor, fill_value: ArrayLike | None) -> Any:
    dtype = spec_of(values).dtype
    fill = default_fill(dtype) if fill_value is None else fill_value
    return where(is_inside, values, convert(as_operand(fill), dtype))


def take_along_axis(
    arr: ArrayLike, indices: ArrayLike, axis: int | None = -1, mode: str | None = None, fill_value: ArrayLike | None = None
) -> Any:  # fmt: skip
    """Gather y[.., i, ..] = arr[.., indices[.., i, ..], ..] along `axis`; the other axes broadcast.

    If `axis` is None, arr is flattened first.

    Args:
        mode: the treatment of indices out of range: "clip" clamps them, and "fill" returns `fill_value` for them. By
            default, an index in an array raises an error, and a traced index is clamped.
        fill_value: as in `take`.

    Raises:
        DTypeError: the indices are not integers. OutOfBoundsError: by default, an index in an array is out of range.
        ShapeError: the indices have another rank than arr, or their axes do not broadcast.
        InvalidConfigError: `mode` is unknown, or `fill_value` is passed for another mode than "fill".

    >>> take_along_axis([[1, 2], [3, 4]], [[1], [0]], 1)
    array([[2],
           [3]])
    """
    x, axis = flattened(arr, axis)
    places: Any = as_operand(indices)
    if not spec_of(places).dtype.is_integer:
        raise DTypeError(f"take_along_axis: indices must be integers, got {spec_of(places)}")
    axis = normalize_axis("take_along_axis", axis, len(x.shape))
    require_equal_ranks("take_along_axis", x, places)
    if mode not in (None, "clip", "fill"):
        raise InvalidConfigError(
            f'take_along_axis: mode must be "clip", "fill" or None, got {mode!r}'
        )
    _require_fill("take_along_axis", mode, fill_value)
    if mode is not None:
        extent: Any = x.shape[axis] if is_static(x.shape[axis]) else shape_of(x, axis)
        if mode == "clip":
            within = minimum(maximum(as_int64(places), negative(extent)), subtract(extent, 1))
            return take_along_axis(x, within, axis)
        within, is_inside = _inside(places, extent)
        values = take_along_axis(_nonempty(x, axis), within, axis)
        return _filled(values, is_inside, fill_value)
    rank = len(x.shape)
    shape = list(x.shape)
    for i in range(rank):
        if i != axis and is_static(shape[i]) and shape[i] == 1:
            shape[i] = places.shape[i]
    x = broadcast_to(x, tuple(shape))
    shape[axis] = places.shape[axis]
    index = broadcast_to(from_start(places, x, axis), tuple(shape))
    batch = tuple(i for i in range(rank) if i != axis)
    return apply_one(
        Gather(
            offset_dims=(),
            collapsed_slice_dims=(axis,),
            operand_batching_dims=batch,
            start_indices_batching_dims=batch,
            start_index_map=(axis,),
            index_vector_dim=rank,
            slice_sizes=tuple([0 if i == axis and x.shape[i] == 0 else 1 for i in range(rank)]),
        ),
        x,
        expand_dims(index, axis=rank),
    )
