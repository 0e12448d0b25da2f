"""Indexing: x[...] with integers, slices, None, Ellipsis and integer arrays; `take`.

Basic indexing is `Slice`, `Reverse` and `Reshape`; integer arrays are one `Gather`. Static indices
are checked against known extents; indices in arrays are clamped, as StableHLO clamps them, after
negative ones have been counted from the end.

Source: Array API standard 2024.12, sections "Indexing" and "Indexing functions"; NumPy's indexing.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tenferro.api.axes import normalize_axis
from tenferro.api.creation import shape_of
from tenferro.api.elementwise import add, less, where
from tenferro.api.manipulation import concat, expand_dims, flip, moveaxis, reshape
from tenferro.api.promotion import broadcast_arrays, broadcast_to, convert
from tenferro.dims import is_static
from tenferro.errors import (
    ConcretizationError,
    DTypeError,
    InvalidConfigError,
    NonStaticShapeError,
    OutOfBoundsError,
    UnsupportedError,
)
from tenferro.exec.dispatch import apply, as_operand, is_traced, spec_of
from tenferro.ops.indexing import Gather
from tenferro.ops.structural import Slice
from tenferro.types import DType

__all__ = ["getitem", "take", "take_along_axis"]


def getitem(x: Any, index: Any) -> Any:
    """x[index], by NumPy's rules.

    Raises:
        OutOfBoundsError: a static integer outside its axis, or more indices than axes.
        UnsupportedError: a boolean mask, whose result's shape depends on the data.
        InvalidConfigError: anything else that is no index.
    """
    x = as_operand(x)
    entries = _expanded(x, index if isinstance(index, tuple) else (index,))
    arrays = [entry for entry in entries if _is_array(entry)]
    x, kept, new_axes, array_axes = _basic(x, entries)
    if arrays:
        return _advanced(x, entries, arrays, array_axes)
    shape = tuple(extent for axis, extent in enumerate(x.shape) if axis in kept)
    for axis in new_axes:
        shape = (*shape[:axis], 1, *shape[axis:])
    return reshape(x, shape)


def _is_array(entry: Any) -> bool:
    return not (
        entry is None or entry is Ellipsis or isinstance(entry, slice | int | np.integer)
    ) or (isinstance(entry, bool))


def _expanded(x: Any, index: tuple[Any, ...]) -> list[Any]:
    """The index with `...` written out, one entry per axis besides the None's."""
    entries: list[Any] = []
    for entry in index:
        if isinstance(entry, list):
            entry = np.asarray(entry, np.int64 if not entry else None)
        if _is_array(entry):
            entry = as_operand(entry)
            dtype = spec_of(entry).dtype
            if dtype.is_bool:
                raise UnsupportedError(
                    "indexing with a boolean mask gives a shape that depends on the data; "
                    "use where(mask, x, other), or multiply by the mask"
                )
            if not dtype.is_integer:
                raise DTypeError(
                    f"indexing: an index is an integer, slice, None, Ellipsis or "
                    f"integer array, got {entry!r:.60}"
                )
        entries.append(entry)
    dots = sum(entry is Ellipsis for entry in entries)
    if dots > 1:
        raise InvalidConfigError("indexing: an index has at most one Ellipsis")
    used = sum(entry is not None and entry is not Ellipsis for entry in entries)
    rank = len(x.shape)
    if used > rank:
        raise OutOfBoundsError(f"indexing: {used} indices for {spec_of(x)}, which has {rank} axes")
    fill = [slice(None)] * (rank - used)
    if dots:
        place = next(i for i, entry in enumerate(entries) if entry is Ellipsis)
        return [*entries[:place], *fill, *entries[place + 1 :]]
    return entries + fill


def _basic(x: Any, entries: list[Any]) -> tuple[Any, set[int], list[int], list[int]]:
    """Apply the integers and slices.

    Gives the sliced tensor (axes of integers still there, with extent 1), the axes that stay, where
    None's go in the result, and the axes that arrays index.
    """
    starts: list[int] = []
    limits: list[Any] = []
    strides: list[int] = []
    reverse: list[int] = []
    kept: set[int] = set()
    new_axes: list[int] = []
    array_axes: list[int] = []
    axis = 0
    for entry in entries:
        if entry is None:
            new_axes.append(len(kept) + len(new_axes))
            continue
        extent = x.shape[axis]
        if isinstance(entry, slice):
            start, limit, stride = _slice_bounds(entry, extent, axis)
            if stride < 0:
                reverse.append(axis)
                start, limit, stride = _backwards(start, limit, -stride)
            kept.add(axis)
        elif isinstance(entry, int | np.integer):
            start = _position(int(entry), extent, axis)
            limit, stride = start + 1, 1
        else:
            start, limit, stride = 0, extent, 1
            array_axes.append(axis)
            kept.add(axis)
        starts.append(start)
        limits.append(limit)
        strides.append(stride)
        axis += 1
    if any(starts) or tuple(limits) != tuple(x.shape) or any(s != 1 for s in strides):
        x = apply(Slice(tuple(starts), tuple(limits), tuple(strides)), x)
    return (flip(x, axis=tuple(reverse)) if reverse else x), kept, new_axes, array_axes


def _position(index: int, extent: Any, axis: int) -> int:
    """An integer index from 0, checked where the extent is known."""
    if is_static(extent):
        if not -extent <= index < extent:
            raise OutOfBoundsError(
                f"indexing: index {index} is outside axis {axis} of extent {extent}"
            )
        return index % extent
    if index < 0:
        return extent + index
    return index


def _slice_bounds(entry: slice, extent: Any, axis: int) -> tuple[Any, Any, int]:
    """Start, limit and stride with negative ones counted from the end."""
    try:
        stride = 1 if entry.step is None else operator.index(entry.step)
    except (TypeError, ConcretizationError):
        raise InvalidConfigError(f"a slice's step is an integer, got {entry.step!r}") from None
    if stride == 0:
        raise InvalidConfigError("a slice's step is not zero")
    if is_static(extent):
        try:
            start, limit, stride = entry.indices(extent)
        except (TypeError, ConcretizationError):
            raise InvalidConfigError(
                f"a slice's bounds are integers, got {entry}; use dynamic_slice for traced starts"
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


def _backwards(start: Any, limit: Any, stride: int) -> tuple[Any, Any, int]:
    """The forward slice with the elements of one that steps by -stride from start down to limit."""
    if is_static(start) and is_static(limit) and limit >= start:
        return 0, 0, 1
    count = (start - limit + stride - 1) // stride
    first = start - (count - 1) * stride
    return first, start + 1, stride


def _advanced(x: Any, entries: list[Any], arrays: list[Any], array_axes: list[int]) -> Any:
    """Integer arrays: broadcast together, gathered at once, placed as NumPy places them."""
    rank = len(x.shape)
    indices = [_from_start(array, x, axis) for array, axis in zip(arrays, array_axes, strict=True)]
    indices = broadcast_arrays(*indices)
    shape = tuple(indices[0].shape)
    stacked = concat([expand_dims(index, axis=len(shape)) for index in indices], axis=-1)
    slices = tuple(1 if axis in array_axes else extent for axis, extent in enumerate(x.shape))
    window = [axis for axis in range(rank) if axis not in array_axes]
    gathered = apply(
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


def _placed(gathered: Any, entries: list[Any], window: list[int], count: int) -> Any:
    """Move the arrays' axes to where NumPy puts them, drop integers' axes, add None's.

    Integers count as arrays here: when they and the arrays stand together the new axes stay there,
    otherwise they come first.
    """
    kinds = ["n" if e is None else "s" if isinstance(e, slice) else "i" for e in entries]
    first, last = kinds.index("i"), len(kinds) - 1 - kinds[::-1].index("i")
    together = all(kind == "i" for kind in kinds[first : last + 1])
    axis_of = iter(range(len(entries)))
    source_axes = {i: next(axis_of) for i, kind in enumerate(kinds) if kind != "n"}
    pieces: list[tuple[str, int]] = []
    for i, kind in enumerate(kinds):
        if together and i == first:
            pieces.append(("a", 0))
        if kind == "n":
            pieces.append(("n", 0))
        elif kind == "s":
            pieces.append(("w", window.index(source_axes[i])))
    if not together:
        pieces.insert(0, ("a", 0))
    order: list[int] = []
    shape: list[Any] = []
    for kind, number in pieces:
        if kind == "a":
            order += range(count)
            shape += gathered.shape[:count]
        elif kind == "w":
            order.append(count + number)
            shape.append(gathered.shape[count + number])
        else:
            shape.append(1)
    left = [axis for axis in range(len(gathered.shape)) if axis not in order]
    moved = moveaxis(gathered, [*order, *left], list(range(len(order) + len(left))))
    return reshape(moved, tuple(shape))


def _from_start(index: Any, x: Any, axis: int) -> Any:
    """Indices with negative ones counted from the end; concrete ones checked."""
    index = as_operand(index)
    extent = x.shape[axis]
    if not is_traced(index) and is_static(extent) and index.size:
        low, high = int(index.min()), int(index.max())
        if low < -extent or high >= extent:
            worst = low if low < -extent else high
            raise OutOfBoundsError(
                f"indexing: index {worst} is outside axis {axis} of extent {extent}"
            )
    index = convert(index, DType.I64)
    if not is_traced(index) and (index >= 0).all():
        return index
    length = extent if is_static(extent) else shape_of(x, axis)
    return where(less(index, 0), add(index, length), index)


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """The slices of x at `indices` along `axis`; negative indices count from the end.

    Concrete indices outside the axis are refused; traced ones are clamped.

    Raises:
        OutOfBoundsError: a concrete index outside the axis.
    """
    x = as_operand(x)
    if axis is None:
        if len(x.shape) != 1:
            raise InvalidConfigError(f"take: give axis= for {spec_of(x)}, whose rank is not 1")
        axis = 0
    axis = normalize_axis("take", axis, len(x.shape))
    index = as_operand(indices)
    if not spec_of(index).dtype.is_integer:
        raise DTypeError(f"take: indices are integers, got {spec_of(index)}")
    return getitem(x, (*([slice(None)] * axis), index))


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """y[.., i, ..] = x[.., indices[.., i, ..], ..] along `axis`, other axes broadcast together."""
    x, indices = as_operand(x), as_operand(indices)
    axis = normalize_axis("take_along_axis", axis, len(x.shape))
    rank = len(x.shape)
    shape = list(x.shape)
    for i in range(rank):
        if i != axis and is_static(shape[i]) and shape[i] == 1:
            shape[i] = indices.shape[i]
    x = broadcast_to(x, tuple(shape))
    shape[axis] = indices.shape[axis]
    index = broadcast_to(_from_start(indices, x, axis), tuple(shape))
    batch = tuple(i for i in range(rank) if i != axis)
    return apply(
        Gather(
            offset_dims=(),
            collapsed_slice_dims=(axis,),
            operand_batching_dims=batch,
            start_indices_batching_dims=batch,
            start_index_map=(axis,),
            index_vector_dim=rank,
            slice_sizes=(1,) * rank,
        ),
        x,
        expand_dims(index, axis=rank),
    )
