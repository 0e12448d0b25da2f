"""Creation, broadcasting, permutation and slicing of tensors, with jax.lax's names.

Source: jax.lax, "Operators".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tenferro.api import creation, manipulation
from tenferro.api.axes import normalize_axis
from tenferro.api.promotion import broadcast_shapes
from tenferro.dims import is_static
from tenferro.dispatch import apply_one, as_operand, is_traced, spec_of
from tenferro.errors import InvalidConfigError, ShapeError
from tenferro.lax.operands import axis_list, same_dtype
from tenferro.ops import structural as ops
from tenferro.types import ArrayLike, DTypeLike

__all__ = [
    "broadcast",
    "broadcast_in_dim",
    "broadcast_like",
    "broadcast_shapes",
    "broadcast_to_rank",
    "broadcasted_iota",
    "collapse",
    "concatenate",
    "empty",
    "expand_dims",
    "full",
    "full_like",
    "iota",
    "pad",
    "reshape",
    "rev",
    "split",
    "squeeze",
    "stack",
    "tile",
    "transpose",
    "unstack",
]


def full(shape: Any, fill_value: ArrayLike, dtype: DTypeLike | None = None) -> Any:
    """Return a tensor of `shape` with every element equal to `fill_value`.

    Raises:
        ShapeError, DTypeError: the shape is invalid, or the dtype cannot represent the value.

    >>> full((2,), 1, "float32")
    array([1., 1.], dtype=float32)
    """
    return creation.full(tuple(shape), fill_value, dtype=dtype)


def full_like(
    x: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike | None = None, shape: Any = None
) -> Any:
    """Return a tensor with every element equal to `fill_value`, by default with the shape and dtype of x.

    >>> import numpy as np
    >>> full_like(np.zeros(2), 3)
    array([3., 3.])
    """
    x = as_operand(x)
    extents = x.shape if shape is None else tuple(shape)
    kind = spec_of(x).dtype if dtype is None else dtype
    return creation.full(extents, fill_value, dtype=kind, like=x if is_traced(x) else None)


def iota(dtype: DTypeLike | None, size: Any) -> Any:
    """Return 0, 1, .., size - 1.

    >>> iota("int32", 3)
    array([0, 1, 2], dtype=int32)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: DTypeLike | None, shape: Any, dimension: int) -> Any:
    """Return a tensor of `shape` in which each element is its index along the axis `dimension`.

    Raises:
        AxisError: `dimension` is not an axis of `shape`.

    >>> broadcasted_iota("int32", (2, 2), 0)
    array([[0, 0],
           [1, 1]], dtype=int32)
    """
    extents = tuple(shape)
    return creation.iota(extents, normalize_axis("lax.iota", dimension, len(extents)), dtype)


def broadcast(operand: ArrayLike, sizes: Sequence[Any]) -> Any:
    """Repeat the operand along new leading axes of extents `sizes`.

    >>> broadcast(1.0, (2, 1))
    array([[1.],
           [1.]])
    """
    x = as_operand(operand)
    shape = (*sizes, *x.shape)
    return broadcast_in_dim(x, shape, range(len(shape) - len(x.shape), len(shape)))


def broadcast_in_dim(operand: ArrayLike, shape: Any, broadcast_dimensions: Sequence[int]) -> Any:
    """Broadcast the operand to `shape`: axis i of the operand becomes axis broadcast_dimensions[i] of the result.

    Raises:
        ShapeError, AxisError: an extent of the operand is neither 1 nor that of the corresponding axis of the result.

    >>> import numpy as np
    >>> broadcast_in_dim(np.array([1, 2]), (2, 2), (0,))
    array([[1, 1],
           [2, 2]])
    """
    return apply_one(
        ops.BroadcastInDim(tuple(shape), tuple(broadcast_dimensions)), as_operand(operand)
    )


def reshape(operand: ArrayLike, new_sizes: Any, dimensions: Sequence[int] | None = None) -> Any:
    """Return a tensor of another shape that has the operand's elements in the same row-major order.

    Args:
        dimensions: the order of axes in which the elements are read; None stands for the order of the operand.

    Raises:
        ShapeError, AxisError: the number of elements differs, or `dimensions` lacks an axis.

    >>> import numpy as np
    >>> reshape(np.arange(4).reshape(2, 2), (4,), (1, 0))
    array([0, 2, 1, 3])
    """
    x = as_operand(operand)
    shape = tuple(new_sizes)
    if any(is_static(extent) and extent < 0 for extent in shape):
        raise ShapeError(
            f"lax.reshape: extents must be at least 0, got {shape}; tnf.reshape takes -1"
        )
    return manipulation.reshape(x if dimensions is None else transpose(x, dimensions), shape)


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Any:
    """Transpose the operand: axis i of the result is axis permutation[i] of the operand.

    Raises:
        AxisError: an axis is not named exactly once.

    >>> import numpy as np
    >>> transpose(np.array([[1, 2]]), (1, 0))
    array([[1],
           [2]])
    """
    return manipulation.permute_dims(operand, tuple(permutation))


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Any:
    """Reverse the order of elements along the axes `dimensions`.

    >>> import numpy as np
    >>> rev(np.arange(3), (0,))
    array([2, 1, 0])
    """
    return manipulation.flip(operand, axis=axis_list("rev", "dimensions", dimensions))


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Any:
    """Insert axes of extent 1 at the positions `dimensions` of the result.

    >>> import numpy as np
    >>> expand_dims(np.ones(2), (0, -1)).shape
    (1, 2, 1)
    """
    return manipulation.expand_dims(array, axis=axis_list("expand_dims", "dimensions", dimensions))


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Any:
    """Remove the axes `dimensions`, which must have extent 1.

    Raises:
        ShapeError: an axis has another extent.

    >>> import numpy as np
    >>> squeeze(np.ones((1, 2, 1)), (0,)).shape
    (2, 1)
    """
    return manipulation.squeeze(array, axis=axis_list("squeeze", "dimensions", dimensions))


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """Merge the axes from `start_dimension` up to but not including `stop_dimension` into one axis.

    Raises:
        ShapeError: `stop_dimension` precedes `start_dimension`.

    >>> import numpy as np
    >>> collapse(np.ones((2, 3, 4)), 0, 2).shape
    (6, 4)
    """
    x = as_operand(operand)
    low, high, _ = slice(start_dimension, stop_dimension).indices(len(x.shape))
    if high < low:
        raise ShapeError(
            f"lax.collapse: axes {start_dimension} to {stop_dimension} of {spec_of(x)} run backwards"
        )
    shape = tuple(x.shape)
    return manipulation.reshape(
        x, (*shape[:low], math.prod(shape[low:high], start=1), *shape[high:])
    )


def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    """Join operands of one dtype along an axis.

    Raises:
        DTypeError, ShapeError: the dtypes differ, or the extents along axes other than `dimension` differ.

    >>> import numpy as np
    >>> concatenate([np.zeros(1), np.ones(1)], 0)
    array([0., 1.])
    """
    return manipulation.concat(same_dtype("concatenate", *operands), axis=dimension)


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Split the operand along an axis into pieces whose extents are `sizes`.

    Raises:
        ShapeError: the sizes do not add up to the extent.

    >>> import numpy as np
    >>> split(np.arange(3), (1, 2))
    [array([0]), array([1, 2])]
    """
    x = as_operand(operand)
    i = normalize_axis("lax.split", axis, len(x.shape))
    if is_static(x.shape[i]) and sum(sizes) != x.shape[i]:
        raise ShapeError(
            f"lax.split: sizes {tuple(sizes)} add up to {sum(sizes)}, and axis {i} is that of {spec_of(x)}"
        )
    cuts = [sum(sizes[:k]) for k in range(1, len(sizes))]
    return manipulation.split(x, cuts, axis=i)


def pad(
    operand: ArrayLike, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]
) -> Any:
    """Insert a value around and between the operand's elements. Negative numbers at an edge remove elements.

    Args:
        padding_config: for each axis, the numbers of values to insert before the first element, after the last element,
            and between neighbouring elements.

    Raises:
        InvalidConfigError, ShapeError, DTypeError: an axis does not have three numbers, or `padding_value` is not a
            scalar of the operand's dtype.

    >>> import numpy as np
    >>> pad(np.array([1, 2]), 0, [(1, -1, 2)])
    array([0, 1, 0, 0])
    """
    x, value = same_dtype("pad", as_operand(operand), padding_value)
    config = [tuple(entry) for entry in padding_config]
    if len(config) != len(x.shape) or any(len(entry) != 3 for entry in config):
        raise InvalidConfigError(
            f"lax.pad: padding_config must have three numbers for each axis of {spec_of(x)}, got {padding_config!r}"
        )
    low, high, interior = zip(*config, strict=True) if config else ((), (), ())
    return apply_one(ops.Pad(low, high, interior), x, value)


def empty(shape: Any, dtype: DTypeLike | None) -> Any:
    """Return zeros of `shape`: uninitialised elements, which NumPy returns, would differ from run to run.

    >>> empty((2,), "int32")
    array([0, 0], dtype=int32)
    """
    return creation.zeros(tuple(shape), dtype=dtype)


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Any:
    """Broadcast `arr` to the shape of `like_arr`, by NumPy's rules.

    Raises:
        ShapeError: an extent of `arr` is neither 1 nor equal to that of `like_arr`.

    >>> import numpy as np
    >>> broadcast_like(np.array([1, 2]), np.zeros((2, 2)))
    array([[1, 2],
           [1, 2]])
    """
    return manipulation.broadcast_to(as_operand(arr), tuple(as_operand(like_arr).shape))


def broadcast_to_rank(x: ArrayLike, rank: int) -> Any:
    """Return x with leading axes of extent 1, so that its rank is `rank`.

    Raises:
        ShapeError: x has a higher rank.

    >>> import numpy as np
    >>> broadcast_to_rank(np.ones(3), 2).shape
    (1, 3)
    """
    operand = as_operand(x)
    missing = rank - len(operand.shape)
    if missing < 0:
        raise ShapeError(f"lax.broadcast_to_rank: {spec_of(operand)} has a rank above {rank}")
    return broadcast(operand, (1,) * missing)


def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """Join tensors of one shape and dtype along a new axis.

    Raises:
        DTypeError, ShapeError, AxisError: the dtypes or shapes differ, or the axis is outside the rank.

    >>> import numpy as np
    >>> stack([np.zeros(1), np.ones(1)])
    array([[0.],
           [1.]])
    """
    return manipulation.stack(same_dtype("stack", *operands), axis=axis)


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Any, ...]:
    """Return the slices of a tensor along an axis, without that axis.

    Raises:
        AxisError, NonStaticShapeError: the axis is outside the rank, or has a symbolic extent.

    >>> import numpy as np
    >>> unstack(np.array([[1], [2]]))
    (array([1]), array([2]))
    """
    return manipulation.unstack(x, axis=axis)


def tile(operand: ArrayLike, reps: Sequence[int]) -> Any:
    """Return the operand repeated along each axis.

    Args:
        reps: the number of copies for every axis.

    Raises:
        InvalidConfigError: `reps` does not have one number per axis.

    >>> import numpy as np
    >>> tile(np.array([1, 2]), (2,))
    array([1, 2, 1, 2])
    """
    x, counts = as_operand(operand), axis_list("tile", "reps", reps)
    if len(counts) != len(x.shape):
        raise InvalidConfigError(
            f"lax.tile: reps must have a number for each axis of {spec_of(x)}, got {reps!r}; tnf.tile takes others"
        )
    return manipulation.tile(x, counts)
