"""Slices at static and at traced positions, gather and scatter, with jax.lax's names.

If a window lies partly outside the operand, StableHLO's gather moves it inside, and its scatter ignores it. Additional
ops implement JAX's other modes.

Source: jax.lax; StableHLO spec #gather, #scatter, #dynamic_slice.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tenferro.api.axes import normalize_axis
from tenferro.api.creation import full_like, shape_of
from tenferro.api.elementwise import (
    add,
    as_int64,
    greater_equal,
    less,
    less_equal,
    logical_and,
    negative,
    where,
)
from tenferro.api.manipulation import expand_dims, reshape, squeeze, stack
from tenferro.api.promotion import broadcast_to, convert
from tenferro.api.reductions import all as all_of
from tenferro.dims import is_static
from tenferro.dispatch import apply_one, as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, OutOfBoundsError, ShapeError
from tenferro.lax.elementwise import clamp
from tenferro.lax.operands import same_dtype
from tenferro.ops import indexing as ops
from tenferro.ops.structural import BroadcastInDim, Slice
from tenferro.types import ArrayLike, DType, Tensor

__all__ = [
    "GatherDimensionNumbers",
    "GatherScatterMode",
    "ScatterDimensionNumbers",
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
    "gather",
    "index_in_dim",
    "scatter",
    "scatter_add",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_sub",
    "slice",
    "slice_in_dim",
]


# ---- static positions -------------------------------------------------------------------------------


def slice(
    operand: ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """Return operand[start:limit:stride] along every axis.

    Raises:
        ShapeError, InvalidConfigError: a bound is outside the operand, or the number of bounds is not the rank.

    >>> import numpy as np
    >>> slice(np.arange(6), (1,), (6,), (2,))
    array([1, 3, 5])
    """
    x = as_operand(operand)
    steps = (1,) * len(x.shape) if strides is None else tuple(strides)
    return apply_one(Slice(tuple(start_indices), tuple(limit_indices), steps), x)


def slice_in_dim(
    operand: ArrayLike,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Any:
    """Return operand[start:limit:stride] along one axis. Negative bounds count from the end.

    Raises:
        ShapeError, AxisError: the bounds or the axis are outside the operand.

    >>> import numpy as np
    >>> slice_in_dim(np.arange(6), 1, -1)
    array([1, 2, 3, 4])
    """
    x = as_operand(operand)
    i = normalize_axis("lax.slice_in_dim", axis, len(x.shape))
    extent = x.shape[i]
    starts: list[Any] = [0] * len(x.shape)
    limits, steps = list(x.shape), [1] * len(x.shape)
    starts[i] = 0 if start_index is None else _from_start(start_index, extent)
    limits[i] = extent if limit_index is None else _from_start(limit_index, extent)
    steps[i] = stride
    return slice(x, starts, limits, steps)


def _from_start(index: Any, extent: Any) -> Any:
    return index + extent if is_static(index) and index < 0 else index


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """Return operand[index] along one axis. The axis is kept, with extent 1, unless `keepdims` is False.

    Raises:
        OutOfBoundsError, AxisError: the index or the axis is outside the operand.

    >>> import numpy as np
    >>> index_in_dim(np.arange(6), -1)
    array([5])
    """
    x = as_operand(operand)
    i = normalize_axis("lax.index_in_dim", axis, len(x.shape))
    extent = x.shape[i]
    if is_static(extent) and not -extent <= index < extent:
        raise OutOfBoundsError(f"lax.index_in_dim: {index} is outside axis {i} of {spec_of(x)}")
    start = _from_start(index, extent)
    window = slice_in_dim(x, start, start + 1, 1, i)
    return window if keepdims else squeeze(window, axis=i)


# ---- traced positions -------------------------------------------------------------------------------


def _starts(
    name: str, x: Tensor, start_indices: ArrayLike, allow_negative_indices: Any
) -> list[Any]:
    """Return the start of the window along each axis of x as an int64 scalar.

    A negative start counts from the end along axes for which `allow_negative_indices` is true.
    """
    rank = len(x.shape)
    if isinstance(start_indices, tuple | list):
        entries = [as_operand(entry) for entry in start_indices]
    else:
        vector = as_operand(start_indices)
        if len(vector.shape) != 1:
            raise ShapeError(
                f"lax.{name}: start indices must be a sequence of scalars or a vector, got {spec_of(vector)}"
            )
        entries = [index_in_dim(vector, i, 0, keepdims=False) for i in range(vector.shape[0])]
    if len(entries) != rank:
        raise ShapeError(
            f"lax.{name}: {len(entries)} start indices for {spec_of(x)}, which has {rank} axes"
        )
    several = isinstance(allow_negative_indices, tuple | list)
    allowed = allow_negative_indices if several else [allow_negative_indices] * rank
    if len(allowed) != rank:
        raise InvalidConfigError(
            f"lax.{name}: allow_negative_indices must be a bool, or one per axis, got {allow_negative_indices!r}"
        )
    starts: list[Any] = []
    for axis, (entry, is_allowed) in enumerate(zip(entries, allowed, strict=True)):
        spec = spec_of(entry)
        if not spec.dtype.is_integer or spec.rank:
            raise DTypeError(
                f"lax.{name}: start index {axis} must be an integer scalar, got {spec}"
            )
        index = as_int64(entry)
        if is_allowed and spec.dtype.kind == "i":
            index = where(less(index, 0), add(index, _extent(x, axis)), index)
        starts.append(index)
    return starts


def _extent(x: Tensor, axis: int) -> Any:
    extent = x.shape[axis]
    return np.array(extent, np.int64) if is_static(extent) else shape_of(x, axis)


def dynamic_slice(
    operand: ArrayLike,
    start_indices: ArrayLike,
    slice_sizes: Sequence[Any],
    *,
    allow_negative_indices: Any = True,
) -> Any:
    """Return the window of extents `slice_sizes` at `start_indices`. If necessary, it is moved inside the operand.

    Args:
        start_indices: integer scalars, one per axis, or a vector of them.
        allow_negative_indices: whether negative starts count from the end: one bool, or one bool per axis.

    Raises:
        ShapeError, DTypeError: the sizes exceed the operand, or the starts are not integer scalars.

    >>> import numpy as np
    >>> dynamic_slice(np.arange(5), (4,), (2,)), dynamic_slice(np.arange(5), (-3,), (2,))
    (array([3, 4]), array([2, 3]))
    """
    x = as_operand(operand)
    starts = _starts("dynamic_slice", x, start_indices, allow_negative_indices)
    return apply_one(ops.DynamicSlice(tuple(slice_sizes)), x, *starts)


def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: ArrayLike,
    slice_size: Any,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """Apply `dynamic_slice` along one axis.

    Raises:
        ShapeError, DTypeError, AxisError: as for `dynamic_slice`; also if the axis is outside the rank.

    >>> import numpy as np
    >>> dynamic_slice_in_dim(np.arange(5), 1, 2)
    array([1, 2])
    """
    x = as_operand(operand)
    i = normalize_axis("lax.dynamic_slice_in_dim", axis, len(x.shape))
    sizes = list(x.shape)
    sizes[i] = slice_size
    starts = _only("dynamic_slice_in_dim", x, i, start_index)
    return dynamic_slice(x, starts, sizes, allow_negative_indices=allow_negative_indices)


def _only(name: str, x: Tensor, axis: int, index: Any) -> list[Any]:
    """Return starts for all axes: `index`, a scalar or a vector of one element, along `axis`, and zero along others."""
    start = as_operand(index)
    if len(start.shape) and tuple(start.shape) != (1,):
        raise ShapeError(f"lax.{name}: the index must be a scalar, got {spec_of(start)}")
    starts: list[Any] = [np.zeros((), np.int64)] * len(x.shape)
    starts[axis] = reshape(start, ())
    return starts


def dynamic_index_in_dim(
    operand: ArrayLike,
    index: Any,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """Return operand[index] along one axis, where `index` is a scalar tensor.

    Raises:
        ShapeError, DTypeError, AxisError: as for `dynamic_slice_in_dim`.

    >>> import numpy as np
    >>> dynamic_index_in_dim(np.arange(5), np.array(3), keepdims=False)
    array(3)
    """
    window = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    return window if keepdims else squeeze(window, axis=axis)


def dynamic_update_slice(
    operand: ArrayLike,
    update: ArrayLike,
    start_indices: ArrayLike,
    *,
    allow_negative_indices: Any = True,
) -> Any:
    """Replace the window at `start_indices` by `update`. If necessary, the window is moved inside the operand.

    Raises:
        ShapeError, DTypeError: the update has another dtype or exceeds the operand, or the starts are not integer
            scalars.

    >>> import numpy as np
    >>> dynamic_update_slice(np.zeros(4), np.ones(2), (3,))
    array([0., 0., 1., 1.])
    """
    x, window = same_dtype("dynamic_update_slice", operand, update)
    starts = _starts("dynamic_update_slice", x, start_indices, allow_negative_indices)
    return apply_one(ops.DynamicUpdateSlice(len(x.shape)), x, window, *starts)


def dynamic_update_slice_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """Apply `dynamic_update_slice` along one axis.

    Raises:
        ShapeError, DTypeError, AxisError: as for `dynamic_update_slice`; also if the axis is outside the rank.

    >>> import numpy as np
    >>> dynamic_update_slice_in_dim(np.zeros(4), np.ones(2), 1, 0)
    array([0., 1., 1., 0.])
    """
    x = as_operand(operand)
    i = normalize_axis("lax.dynamic_update_slice_in_dim", axis, len(x.shape))
    starts = _only("dynamic_update_slice_in_dim", x, i, start_index)
    return dynamic_update_slice(x, update, starts, allow_negative_indices=allow_negative_indices)


def dynamic_update_index_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    index: Any,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """Replace the slice at `index` along an axis by `update`, which may have this axis, with extent 1, or lack it.

    Raises:
        ShapeError, DTypeError, AxisError: as for `dynamic_update_slice_in_dim`.

    >>> import numpy as np
    >>> dynamic_update_index_in_dim(np.zeros(3), 5.0, 1, 0)
    array([0., 5., 0.])
    """
    x, row = same_dtype("dynamic_update_index_in_dim", operand, update)
    i = normalize_axis("lax.dynamic_update_index_in_dim", axis, len(x.shape))
    if len(row.shape) == len(x.shape) - 1:
        row = expand_dims(row, axis=i)
    return dynamic_update_slice_in_dim(
        x, row, index, i, allow_negative_indices=allow_negative_indices
    )


# ---- gather and scatter -----------------------------------------------------------------------------


class GatherDimensionNumbers(NamedTuple):
    """Roles of axes in `gather`, as in StableHLO. The last axis of the indices contains the index vectors."""

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Roles of axes in `scatter`, as in StableHLO. The last axis of the indices contains the index vectors."""

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


class GatherScatterMode(enum.Enum):
    """Treatment of windows that are not completely within the operand.

    CLIP moves such a window into the operand. With FILL_OR_DROP, gather returns a fill value for such a window, and
    scatter ignores it. PROMISE_IN_BOUNDS asserts that all windows are within the operand.
    """

    CLIP = "clip"
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise_in_bounds"

    @staticmethod
    def from_any(s: Any) -> GatherScatterMode:
        """Return a mode from its name: "clip", "fill", "drop" or "promise_in_bounds". None stands for FILL_OR_DROP.

        Raises:
            InvalidConfigError: the name is unknown.
        """
        if isinstance(s, GatherScatterMode):
            return s
        name = "fill" if s is None or s == "drop" else s
        for member in GatherScatterMode:
            if member.value == name:
                return member
        raise InvalidConfigError(
            f'lax: mode must be "clip", "fill", "drop" or "promise_in_bounds", got {s!r}'
        )


def _last_starts(x: Tensor, axes: Sequence[int], sizes: Sequence[Any]) -> list[Any]:
    """Return, for each axis, the last start at which a window is within the operand.

    A start is a number, or an int64 scalar if the extent is symbolic.
    """
    return [
        x.shape[axis] - size
        if is_static(x.shape[axis]) and is_static(size)
        else add(_extent(x, axis), -size)
        for axis, size in zip(axes, sizes, strict=True)
    ]


def _bounds(indices: Tensor, last: Sequence[Any]) -> Any:
    """Return the last valid starts as a vector of the dtype of `indices`, clamped to the largest value of the dtype."""
    dtype = spec_of(indices).dtype
    if all(map(is_static, last)):
        _, most = dtype.extremes
        return np.array([min(int(bound), most) for bound in last], dtype.dtype)
    return convert(stack([convert(bound, DType.I64) for bound in last]), dtype)


def _require_indices(name: str, indices: ArrayLike) -> Any:
    indices = as_operand(indices)
    if not spec_of(indices).dtype.is_integer or not indices.shape:
        raise DTypeError(
            f"lax.{name}: indices must be an integer tensor whose last axis holds the index vectors, "
            f"got {spec_of(indices)}"
        )
    return indices


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[Any],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """Gather windows of the operand at the positions in `start_indices`.

    Args:
        slice_sizes: the extent of the window along every axis of the operand.
        unique_indices: has no effect, because repeated reads are harmless.
        mode: a `GatherScatterMode` or its name. None asserts that all windows are within the operand; other windows are
            moved inside.
        fill_value: the value of elements of windows that are outside the operand. None stands for NaN, the least signed
            or the largest unsigned integer, or True, depending on the dtype.

    Raises:
        ShapeError, AxisError, DTypeError, InvalidConfigError: the dimension numbers or sizes do not fit.

    >>> import numpy as np
    >>> rows = GatherDimensionNumbers((), (0,), (0,))
    >>> gather(np.arange(5.0), np.array([[1], [9]]), rows, (1,), mode="fill")
    array([ 1., nan])
    """
    x, indices = as_operand(operand), _require_indices("gather", start_indices)
    numbers = dimension_numbers
    sizes = tuple(slice_sizes)
    op = ops.Gather(
        offset_dims=tuple(numbers.offset_dims),
        collapsed_slice_dims=tuple(numbers.collapsed_slice_dims),
        operand_batching_dims=tuple(numbers.operand_batching_dims),
        start_indices_batching_dims=tuple(numbers.start_indices_batching_dims),
        start_index_map=tuple(numbers.start_index_map),
        index_vector_dim=len(indices.shape) - 1,
        slice_sizes=sizes,
        indices_are_sorted=indices_are_sorted,
    )
    windows = apply_one(op, x, indices)
    wanted = (
        GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    )
    if wanted is not GatherScatterMode.FILL_OR_DROP:
        return windows
    dtype = spec_of(x).dtype
    value = convert(_fill_value(dtype) if fill_value is None else fill_value, dtype)
    mapped = op.start_index_map
    last = _last_starts(x, mapped, [sizes[axis] for axis in mapped])
    fits = logical_and(
        greater_equal(indices, convert(0, spec_of(indices).dtype)),
        less_equal(indices, _bounds(indices, last)),
    )
    if any(is_static(bound) and bound < 0 for bound in last):
        fits = full_like(fits, False)
    rank = len(windows.shape)
    batch = tuple([axis for axis in range(rank) if axis not in op.offset_dims])
    wide = apply_one(BroadcastInDim(tuple(windows.shape), batch), all_of(fits, axis=-1))
    return where(wide, windows, broadcast_to(value, windows.shape))


def _fill_value(dtype: DType) -> Any:
    """Return the value that JAX returns by default for elements outside an operand."""
    if dtype.is_inexact:
        return math.nan
    if dtype.is_bool:
        return True
    return dtype.extremes[dtype.kind == "u"]


def _scattered(
    name: str,
    combiner: str,
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: Any,
) -> Any:
    x, windows = same_dtype(name, operand, updates)
    indices = _require_indices(name, scatter_indices)
    op = ops.Scatter(
        update_window_dims=tuple(numbers.update_window_dims),
        inserted_window_dims=tuple(numbers.inserted_window_dims),
        input_batching_dims=tuple(numbers.operand_batching_dims),
        scatter_indices_batching_dims=tuple(numbers.scatter_indices_batching_dims),
        scatter_dims_to_operand_dims=tuple(numbers.scatter_dims_to_operand_dims),
        index_vector_dim=len(indices.shape) - 1,
        combiner=combiner,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
    )
    if GatherScatterMode.from_any(mode) is GatherScatterMode.CLIP:
        sizes: list[Any] = [1] * len(x.shape)
        dropped = {*op.inserted_window_dims, *op.input_batching_dims}
        window_axes = [axis for axis in range(len(x.shape)) if axis not in dropped]
        for axis, update_axis in zip(window_axes, op.update_window_dims, strict=False):
            sizes[axis] = windows.shape[update_axis]
        mapped = op.scatter_dims_to_operand_dims
        bounds = _bounds(indices, _last_starts(x, mapped, [sizes[axis] for axis in mapped]))
        indices = clamp(0, indices, broadcast_to(bounds, indices.shape))
    return apply_one(op, x, indices, windows)


def _scatter(name: str, combiner: str, formula: str) -> Any:
    def function(
        operand: ArrayLike,
        scatter_indices: ArrayLike,
        updates: ArrayLike,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Any:
        written = negative(as_operand(updates)) if name == "scatter_sub" else updates
        return _scattered(
            name,
            combiner,
            operand,
            scatter_indices,
            written,
            dimension_numbers,
            indices_are_sorted,
            unique_indices,
            mode,
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The operand with windows of `updates` {formula} at the positions in `scatter_indices`.

Args:
    indices_are_sorted, unique_indices: promises about `scatter_indices`, which accelerators use.
    mode: a `GatherScatterMode` or its name; None ignores windows that are not within the operand.

Raises:
    ShapeError, AxisError, DTypeError, InvalidConfigError: dimension numbers, shapes or dtypes do not fit.

>>> import numpy as np
>>> rows = ScatterDimensionNumbers((), (0,), (0,))
>>> {name}(np.full(3, 4.0), np.array([[0], [9]]), np.array([2.0, 3.0]), rows)
{EXAMPLES[name]}
"""
    return function


EXAMPLES = {
    "scatter": "array([2., 4., 4.])",
    "scatter_add": "array([6., 4., 4.])",
    "scatter_sub": "array([2., 4., 4.])",
    "scatter_mul": "array([8., 4., 4.])",
    "scatter_min": "array([2., 4., 4.])",
    "scatter_max": "array([4., 4., 4.])",
}
scatter = _scatter("scatter", "set", "written")
scatter_add = _scatter("scatter_add", "add", "added")
scatter_sub = _scatter("scatter_sub", "add", "subtracted")
scatter_mul = _scatter("scatter_mul", "multiply", "multiplied to its elements")
scatter_min = _scatter("scatter_min", "min", "written where their elements are smaller,")
scatter_max = _scatter("scatter_max", "max", "written where their elements are larger,")
