"""Manipulation functions of the Array API, which change the shape or the order of elements.

Source: Array API standard 2024.12, section "Manipulation functions".
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.api.arguments import refuse
from tenferro.api.axes import normalize_axes, normalize_axis
from tenferro.api.device import check_device
from tenferro.api.planned import planned
from tenferro.api.promotion import broadcast_arrays, broadcast_to, convert, result_type
from tenferro.dims import DimExpr, dim_min, is_exact, is_static, product
from tenferro.dispatch import apply_one, as_operand, copied, spec_of, strong
from tenferro.errors import (
    AxisError,
    ConcretizationError,
    DTypeError,
    InvalidConfigError,
    NonStaticShapeError,
    ShapeError,
)
from tenferro.ops import structural as ops
from tenferro.ops.elementwise import BitcastConvert
from tenferro.types import ArrayLike, Axis, DType, DTypeLike, Shape, Tensor

__all__ = [
    "array_split",
    "astype",
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "concatenate",
    "diagonal",
    "embed_diag",
    "expand_dims",
    "extract_diag",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "ravel",
    "reshape",
    "roll",
    "rollaxis",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "tile",
    "transpose",
    "unstack",
]


@planned
def astype(
    x: ArrayLike, dtype: DTypeLike | None, /, *, copy: bool = True, device: str | None = None
) -> Any:
    """Convert x to another dtype. Floats become integers by truncation. They saturate, and NaN becomes 0."""
    check_device("astype", device)
    x = as_operand(x)
    result = convert(strong(x), DType.of(dtype))
    return copied(result) if copy and result is x else result


@planned
def reshape(a: ArrayLike, /, shape: Shape, order: str = "C", *, copy: bool | None = None) -> Any:
    """Return the elements of `a` with a new shape.

    One extent may be -1, which stands for the extent that makes sizes equal.

    Args:
        order: the order in which elements are read and placed. "C" varies the last axis fastest, which is NumPy's
            default. "F" varies the first axis fastest, which is the order of the op `Reshape`. Elements that are stored
            in the order `order` are not moved.

    Raises:
        ShapeError: the new shape has a different number of elements.
        InvalidConfigError: `order` is neither "C" nor "F".

    >>> reshape([1, 2, 3, 4], (2, -1))
    array([[1, 2],
           [3, 4]])
    """
    x = as_operand(a)
    if order not in ("C", "F"):
        raise InvalidConfigError(f'reshape: order must be "C" or "F", got {order!r}')
    wanted = _complete_shape(tuple(shape) if isinstance(shape, tuple | list) else (shape,), x)
    if wanted == x.shape:
        return x
    if order == "F" or _without_ones(wanted) == _without_ones(x.shape):
        return apply_one(ops.Reshape(wanted), x)
    # The type is checked here, because an error of the op below would show reversed shapes.
    ops.Reshape(wanted).infer(spec_of(x))
    return _reverse_axes(apply_one(ops.Reshape(wanted[::-1]), _reverse_axes(x)))


def _without_ones(shape: Sequence[Any]) -> list[Any]:
    """Return the extents other than 1. If two shapes have the same, a reshape is the same in both orders."""
    return [extent for extent in shape if not is_static(extent) or extent != 1]


def _reverse_axes(x: Tensor) -> Any:
    rank = len(x.shape)
    return apply_one(ops.Transpose(tuple(range(rank))[::-1]), x) if rank > 1 else x


def _complete_shape(shape: tuple[Any, ...], x: Tensor) -> tuple[Any, ...]:
    """Replace -1 in the shape by the extent for which the number of elements is that of x."""
    open_axes = [axis for axis, extent in enumerate(shape) if is_static(extent) and extent == -1]
    if not open_axes:
        return shape
    if len(open_axes) > 1:
        raise ShapeError(f"reshape: only one extent may be -1, got {shape}")
    fixed_size = product(extent for axis, extent in enumerate(shape) if axis not in open_axes)
    size = spec_of(x).size
    if is_static(fixed_size) and fixed_size == 0:
        raise ShapeError(f"reshape: -1 is not determined beside an extent of 0, got {shape}")
    missing = size // fixed_size
    if is_static(missing) and is_static(size) and missing * fixed_size != size:
        raise ShapeError(
            f"reshape: {spec_of(x)} has {size} elements, which {shape} does not divide"
        )
    return tuple(missing if axis in open_axes else extent for axis, extent in enumerate(shape))


@planned
def ravel(a: ArrayLike, order: str = "C") -> Any:
    """Arrange all of `a`'s elements along one axis.

    >>> ravel([[1, 2], [3, 4]])
    array([1, 2, 3, 4])
    """
    return reshape(a, (-1,) if spec_of(as_operand(a)).size != 0 else (0,), order=order)


def flattened(a: ArrayLike, axis: Axis) -> tuple[Any, Any]:
    """Return the operand and the axis for a function that flattens its operand if `axis` is None."""
    return (ravel(a), 0) if axis is None else (as_operand(a), axis)


@planned
def permute_dims(a: ArrayLike, axes: Sequence[int] | None = None) -> Any:
    """Permute the axes: axis i of the result is axis axes[i] of `a`. If `axes` is None, their order is reversed.

    Raises:
        AxisError, ShapeError: `axes` does not name each axis once.

    >>> permute_dims([[1, 2], [3, 4]], (1, 0))
    array([[1, 3],
           [2, 4]])
    """
    x = as_operand(a)
    if axes is None:
        return _reverse_axes(x)
    perm = tuple(normalize_axis("permute_dims", axis, len(x.shape)) for axis in axes)
    return apply_one(ops.Transpose(perm), x) if perm != tuple(range(len(x.shape))) else x


transpose = permute_dims


@planned
def matrix_transpose(x: ArrayLike, /) -> Any:
    """Swap the last two axes of x."""
    x = as_operand(x)
    if len(x.shape) < 2:
        raise ShapeError(f"matrix_transpose: needs two axes, got {spec_of(x)}")
    return swapaxes(x, -1, -2)


@planned
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Any:
    """Swap two axes of `a`.

    >>> swapaxes([[1, 2], [3, 4]], 0, 1)
    array([[1, 3],
           [2, 4]])
    """
    x = as_operand(a)
    perm = list(range(len(x.shape)))
    first, second = (normalize_axis("swapaxes", axis, len(perm)) for axis in (axis1, axis2))
    perm[first], perm[second] = perm[second], perm[first]
    return permute_dims(x, perm)


@planned
def moveaxis(a: ArrayLike, source: Axis, destination: Axis) -> Any:
    """Move the axes `source` of `a` to the positions `destination`; the other axes keep their order.

    Raises:
        AxisError: `source` and `destination` have different lengths, or one of them names an axis twice.

    >>> moveaxis([[[1], [2]]], 0, -1).shape
    (2, 1, 1)
    """
    x = as_operand(a)
    rank = len(x.shape)
    sources, destinations = (
        [
            normalize_axis("moveaxis", axis, rank)
            for axis in (side if isinstance(side, tuple | list) else (side,))
        ]
        for side in (source, destination)
    )
    if (
        len(sources) != len(destinations)
        or len(set(sources)) != len(sources)
        or len(set(destinations)) != len(destinations)
    ):
        raise AxisError(f"moveaxis: source {source} and destination {destination} must pair up")
    perm = [axis for axis in range(rank) if axis not in sources]
    for index, axis in sorted(zip(destinations, sources, strict=True)):
        perm.insert(index, axis)
    return permute_dims(x, perm)


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Any:
    """Move `axis` of `a` to the position before the axis `start`. Both are numbers of axes of `a`.

    Raises:
        AxisError: an axis is outside the rank.

    >>> rollaxis([[[1], [2]]], 1).shape
    (2, 1, 1)
    """
    rank = len(as_operand(a).shape)
    source = normalize_axis("rollaxis", axis, rank)
    target = rank if start == rank else normalize_axis("rollaxis", start, rank)
    return moveaxis(a, source, target - 1 if source < target else target)


@planned
def expand_dims(a: ArrayLike, axis: Axis = 0) -> Any:
    """Insert new axes of extent 1. `axis` contains their positions in the result.

    >>> expand_dims([1, 2], (0, -1)).shape
    (1, 2, 1)
    """
    x = as_operand(a)
    count = len(axis) if isinstance(axis, tuple | list) else 1
    rank = len(x.shape) + count
    new = normalize_axes("expand_dims", axis, rank)
    if not all(map(is_exact, x.shape)):
        dims = tuple([i for i in range(rank) if i not in new])
        extents = [
            extent if is_exact(extent) else DimExpr.input_axis(0, i)
            for i, extent in enumerate(x.shape)
        ]
        shape = tuple([1 if i in new else extents[dims.index(i)] for i in range(rank)])
        return apply_one(ops.BroadcastInDim(shape, dims), x)
    old_extents = iter(x.shape)
    return reshape(x, tuple(1 if i in new else next(old_extents) for i in range(rank)))


@planned
def squeeze(a: ArrayLike, axis: Axis = None) -> Any:
    """Remove the axes in `axis`, which must have extent 1. If `axis` is None, remove all axes of extent 1.

    Raises:
        ShapeError: the extent of an axis in `axis` is not 1.

    >>> squeeze([[1, 2]])
    array([1, 2])
    """
    x = as_operand(a)
    if axis is None:
        dropped = tuple(i for i, extent in enumerate(x.shape) if is_static(extent) and extent == 1)
    else:
        dropped = normalize_axes("squeeze", axis, len(x.shape))
    for i in dropped:
        if not is_static(x.shape[i]) or x.shape[i] != 1:
            raise ShapeError(f"squeeze: axis {i} of {spec_of(x)} has extent {x.shape[i]}, not 1")
    return reshape(x, tuple(extent for i, extent in enumerate(x.shape) if i not in dropped))


def concat(
    arrays: Sequence[Any], /, axis: int | None = 0, out: None = None, *, dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> Any:  # fmt: skip
    """Join the arrays along `axis`. If `axis` is None, flatten them first.

    Args:
        dtype: the dtype of the result; by default the promoted dtype of the arrays.
        casting: NumPy's rule for conversions to `dtype`.

    Raises:
        ShapeError: the arrays differ in the extent of another axis, or there are no arrays.
        DTypeError: the rule `casting` forbids a conversion to `dtype`.

    >>> concatenate([[1, 2], [3]]), concatenate(([[1]], [[2]]), 1)
    (array([1, 2, 3]), array([[1, 2]]))
    """
    if out is not None:
        refuse("concat", "out", out)
    operands = [as_operand(array) for array in arrays]
    if not operands:
        raise ShapeError("concat: needs at least one array")
    if axis is None:
        operands, axis = [ravel(x) for x in operands], 0
    axis = normalize_axis("concat", axis, len(operands[0].shape))
    dtype = (
        result_type(*operands) if dtype is None else cast_dtype("concat", operands, dtype, casting)
    )
    if len(operands) == 1:
        return convert(operands[0], dtype)
    return apply_one(ops.Concatenate(axis, len(operands)), *(convert(x, dtype) for x in operands))


concatenate = concat


def cast_dtype(name: str, operands: Sequence[Any], dtype: DTypeLike | None, casting: str) -> DType:
    """Return `dtype` as a `DType`, after checking that NumPy's rule `casting` allows converting the operands to it.

    Raises:
        DTypeError: the rule forbids the conversion.
        InvalidConfigError: `casting` is not a rule of NumPy.
    """
    wanted = DType.of(dtype)
    if casting not in ("no", "equiv", "safe", "same_kind", "unsafe"):
        raise InvalidConfigError(
            f'{name}: casting must be "no", "equiv", "safe", "same_kind" or "unsafe", got {casting!r}'
        )
    for operand in operands:
        own = spec_of(operand).dtype
        if not np.can_cast(own.dtype, wanted.dtype, casting):
            raise DTypeError(
                f'{name}: {own} does not become {wanted} by the rule casting="{casting}"; convert it first'
            )
    return wanted


def stack(
    arrays: Sequence[Any],
    axis: int = 0,
    out: None = None,
    *,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> Any:
    """Stack the arrays along a new axis; `concat` describes arguments and errors.

    >>> stack(([1, 2], [3, 4]), 1)
    array([[1, 3],
           [2, 4]])
    """
    if out is not None:
        refuse("stack", "out", out)
    operands = [as_operand(array) for array in arrays]
    if not operands:
        raise ShapeError("stack: needs at least one array")
    axis = normalize_axis("stack", axis, len(operands[0].shape) + 1)
    wide = [expand_dims(x, axis=axis) for x in operands]
    return concat(wide, axis=axis, dtype=dtype, casting=casting)


def bits_as(x: Tensor, dtype: DType) -> Any:
    """Reinterpret the bits of the elements of x as another dtype, as `ndarray.view` does.

    If the dtypes have different widths, the extent of the last axis changes.

    Raises:
        ShapeError: x has no axes, or the new width does not divide the number of bytes along the last axis.
    """
    own = spec_of(x).dtype.itemsize
    if own == dtype.itemsize:
        return apply_one(BitcastConvert(dtype), x)
    if not x.shape:
        raise ShapeError(
            f"view: {spec_of(x)} has no axis along which {dtype} could have more elements"
        )
    *rest, last = x.shape
    if own > dtype.itemsize:
        return reshape(apply_one(BitcastConvert(dtype), x), (*rest, last * (own // dtype.itemsize)))
    count = dtype.itemsize // own
    if not is_static(last) or last % count:
        raise ShapeError(
            f"view: {count} elements of {spec_of(x)} make one {dtype}, along an axis of {last}"
        )
    return apply_one(BitcastConvert(dtype), reshape(x, (*rest, last // count, count)))


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return the slices of x along `axis`, whose extent must be a number."""
    x = as_operand(x)
    axis = normalize_axis("unstack", axis, len(x.shape))
    if not is_static(x.shape[axis]):
        raise NonStaticShapeError(f"unstack: axis {axis} of {spec_of(x)} has no known extent")
    return tuple(
        squeeze(slice_axis(x, axis, start, start + 1), axis=axis) for start in range(x.shape[axis])
    )


def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Split ary along `axis` into equal sections, or at given indices.

    Args:
        indices_or_sections: the number of sections; or the indices at which sections begin, except the first section.
            Negative indices count from the end.

    Raises:
        ShapeError: the number of sections does not divide the extent; `array_split` allows that.

    >>> split([1, 2, 3, 4], 2), split([1, 2, 3, 4], [1])
    ([array([1, 2]), array([3, 4])], [array([1]), array([2, 3, 4])])
    """
    x, axis, extent = _with_extent("split", ary, axis)
    if _is_count(indices_or_sections):
        sections = operator.index(indices_or_sections)
        if sections < 1 or extent % sections:
            raise ShapeError(f"split: extent {extent} does not divide into {sections} sections")
    return _cut(x, axis, extent, indices_or_sections)


def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Split ary along `axis` as `split` does.

    If the extent cannot be divided evenly, the first sections are longer by one.

    Raises:
        ShapeError: the number of sections is below 1.

    >>> array_split([1, 2, 3], 2)
    [array([1, 2]), array([3])]
    """
    x, axis, extent = _with_extent("array_split", ary, axis)
    if _is_count(indices_or_sections) and operator.index(indices_or_sections) < 1:
        raise ShapeError(f"array_split: needs at least one section, got {indices_or_sections}")
    return _cut(x, axis, extent, indices_or_sections)


def _with_extent(name: str, x: ArrayLike, axis: int) -> tuple[Any, int, int]:
    """Return the operand, the axis as a number from 0, and the extent of the axis.

    Raises:
        NonStaticShapeError: the extent is not a number.
    """
    x = as_operand(x)
    axis = normalize_axis(name, axis, len(x.shape))
    if not is_static(x.shape[axis]):
        raise NonStaticShapeError(f"{name}: axis {axis} of {spec_of(x)} has no known extent")
    return x, axis, x.shape[axis]


def _is_count(indices_or_sections: ArrayLike) -> bool:
    return isinstance(indices_or_sections, int | np.integer)


def _cut(x: Tensor, axis: int, extent: int, indices_or_sections: Any) -> list[Any]:
    if _is_count(indices_or_sections):
        sections = operator.index(indices_or_sections)
        short, longer = divmod(extent, sections)
        cuts = [i * short + min(i, longer) for i in range(sections + 1)]
    else:
        cuts = [0, *map(operator.index, indices_or_sections), extent]
    bounds = [slice(start, stop).indices(extent) for start, stop in itertools.pairwise(cuts)]
    return [slice_axis(x, axis, start, max(start, stop)) for start, stop, _ in bounds]


def slice_axis(x: Tensor, axis: int, start: int, stop: ArrayLike) -> Any:
    """Return x[start:stop] along one axis."""
    starts = [0] * len(x.shape)
    limits = list(x.shape)
    starts[axis], limits[axis] = start, stop
    if all(start == 0 for start in starts) and tuple(limits) == tuple(x.shape):
        return x
    return apply_one(ops.Slice(tuple(starts), tuple(limits), (1,) * len(starts)), x)


@planned
def flip(m: ArrayLike, axis: Axis = None) -> Any:
    """Reverse the order of m's elements along `axis`, by default along all axes.

    >>> flip([[1, 2], [3, 4]], 1)
    array([[2, 1],
           [4, 3]])
    """
    x = as_operand(m)
    axes = normalize_axes("flip", axis, len(x.shape))
    return apply_one(ops.Reverse(axes), x) if axes else x


def roll(a: ArrayLike, shift: Any, axis: int | Sequence[int] | None = None) -> Any:
    """Shift the elements of `a` cyclically by `shift` positions along `axis`.

    Args:
        shift, axis: one shift and one axis, or several of each in pairs. Shifts along the same axis add up. If `axis`
            is None, `a` is flattened before the shift, and reshaped after it.

    Raises:
        InvalidConfigError: the numbers of shifts and axes differ, or a shift is not an integer.
        NonStaticShapeError: the extent of an axis is not a number.

    >>> roll([1, 2, 3], 1)
    array([3, 1, 2])
    """
    x = as_operand(a)
    if axis is None:
        return reshape(roll(ravel(x), shift, axis=0), x.shape)
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    shifts = shift if isinstance(shift, tuple | list) else (shift,)
    axes = tuple(axes) * len(shifts) if len(axes) == 1 else axes
    shifts = tuple(shifts) * len(axes) if len(shifts) == 1 else shifts
    if len(shifts) != len(axes):
        raise InvalidConfigError(f"roll: shift {shift} and axis {axis} must pair up")
    for one_axis, one_shift in zip(axes, shifts, strict=True):
        i = normalize_axis("roll", one_axis, len(x.shape))
        extent = x.shape[i]
        if not is_static(extent):
            raise NonStaticShapeError(f"roll: axis {i} of {spec_of(x)} has no known extent")
        offset = _shift(one_shift) % extent if extent else 0
        if offset:
            parts = [
                slice_axis(x, i, extent - offset, extent),
                slice_axis(x, i, 0, extent - offset),
            ]
            x = concat(parts, axis=i)
    return x


def _shift(value: Any) -> int:
    """Convert a shift to an integer; bools are accepted, as in NumPy."""
    try:
        return operator.index(value)
    except ConcretizationError:
        raise
    except TypeError:
        raise InvalidConfigError(f"roll: shift must be an integer, got {value!r:.60}") from None


def tile(A: ArrayLike, reps: int | Sequence[int]) -> Any:  # noqa: N803  # because NumPy calls it so
    """Repeat A along its axes. `reps` contains the number of repetitions for each axis.

    >>> tile([1, 2], 2)
    array([1, 2, 1, 2])
    """
    x = as_operand(A)
    counts: tuple[Any, ...] = tuple(reps) if isinstance(reps, tuple | list) else (reps,)
    rank = max(len(counts), len(x.shape))
    counts = (1,) * (rank - len(counts)) + counts
    shape = (1,) * (rank - len(x.shape)) + tuple(x.shape)
    apart = tuple(part for extent in shape for part in (1, extent))
    wide = tuple(
        part for count, extent in zip(counts, shape, strict=True) for part in (count, extent)
    )
    merged = tuple(count * extent for count, extent in zip(counts, shape, strict=True))
    return reshape(broadcast_to(reshape(x, apart), wide), merged)


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return the elements a[i, i + offset] of two axes, by default the first two, along the last axis of the result.

    `linalg.diagonal` uses the last two axes, as in the Array API standard.

    Raises:
        AxisError: the two axes are equal, or `a` has fewer than two axes.
        NonStaticShapeError: an extent of the two axes depends on data, and the extents differ or `offset` is not 0.

    >>> diagonal([[0, 1, 2], [3, 4, 5], [6, 7, 8]], 1)
    array([1, 5])
    """
    x = as_operand(a)
    rank = len(x.shape)
    first, second = (normalize_axis("diagonal", axis, rank) for axis in (axis1, axis2))
    if first == second:
        raise AxisError(f"diagonal: axis1 and axis2 are both {first}")
    rows, columns = x.shape[first], x.shape[second]
    if offset or rows != columns:
        if not (is_exact(rows) and is_exact(columns)):
            raise NonStaticShapeError(
                f"diagonal: the data decide extents of {spec_of(x)}; extract_diag takes the diagonal of "
                "square matrices"
            )
        down, right = dim_min(max(-offset, 0), rows), dim_min(max(offset, 0), columns)
        length = dim_min(rows - down, columns - right)
        x = slice_axis(x, first, down, down + length)
        x = slice_axis(x, second, right, right + length)
    diagonals = extract_diag(x, first, second)
    return moveaxis(diagonals, first - (second < first), -1)


@planned
def extract_diag(x: ArrayLike, /, axis_a: int = 0, axis_b: int = 1) -> Any:
    """Extract the elements whose indices along two axes are equal. `axis_b` is removed; `axis_a` is the diagonal.

    In contrast, `diagonal` makes the diagonal the last axis, and accepts an offset and axes of different extents.

    Raises:
        ShapeError: the extents differ. AxisError: the axes are equal, or outside the rank of x.

    >>> extract_diag([[1, 2], [3, 4]])
    array([1, 4])
    """
    x = as_operand(x)
    a, b = (normalize_axis("extract_diag", axis, len(x.shape)) for axis in (axis_a, axis_b))
    return apply_one(ops.ExtractDiag(a, b), x)


@planned
def embed_diag(x: ArrayLike, /, axis_a: int = 0, axis_b: int = 1) -> Any:
    """Insert a new axis `axis_b`, place x where the indices along `axis_a` and `axis_b` are equal, and zeros elsewhere.

    The function is the adjoint of `extract_diag`.

    Raises:
        ShapeError: x has no axes. AxisError: the axes are equal, or outside the rank of the result.

    >>> embed_diag([1, 4])
    array([[1, 0],
           [0, 4]])
    """
    x = as_operand(x)
    a, b = (normalize_axis("embed_diag", axis, len(x.shape) + 1) for axis in (axis_a, axis_b))
    return apply_one(ops.EmbedDiag(a, b), x)
