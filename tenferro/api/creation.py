"""Creation functions of the Array API.

The standard's creation functions take no tensor, so on their own they run at once and give NumPy
arrays, which become constants where a trace meets them. With a symbolic extent they give a tensor of
the trace that is under way, or of the one that `like=`, a traced tensor, belongs to.

Source: Array API standard 2024.12, section "Creation functions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tenferro.api.promotion import broadcast_to, convert
from tenferro.api.tracing import current_builder
from tenferro.dims import SymDim, dim_max, is_static
from tenferro.errors import InvalidConfigError, NonStaticShapeError
from tenferro.exec.dispatch import apply, as_operand, is_traced, spec_of
from tenferro.graph import GraphBuilder
from tenferro.ops.source import Iota, ShapeOf
from tenferro.ops.structural import BroadcastInDim, Tril, Triu
from tenferro.types import DType, TensorSpec

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "shape_of",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


def asarray(obj: Any, /, *, dtype: Any = None, copy: bool | None = None) -> Any:
    """Obj as an array, or the tensor it is, in `dtype` if given."""
    x = as_operand(obj)
    if dtype is not None:
        x = convert(x, DType.of(dtype))
    return np.array(x) if copy and not is_traced(x) else x


def full(shape: Any, fill_value: Any, *, dtype: Any = None, like: Any = None) -> Any:
    """A tensor of that shape with every element `fill_value`.

    Args:
        like: a traced tensor whose graph the result joins; needed for symbolic extents.

    Raises:
        ShapeError: a negative extent, or one that is no integer.
        NonStaticShapeError: a symbolic extent, outside a trace and without `like`.

    >>> full((2, 2), 7)
    array([[7, 7],
           [7, 7]])
    """
    shape = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    value = as_operand(fill_value)
    if dtype is not None:
        value = convert(value, DType.of(dtype))
    shape = TensorSpec(shape, spec_of(value).dtype).shape
    if all(map(is_static, shape)) and like is None and not is_traced(value):
        return np.full(shape, value)
    if is_traced(value):
        return broadcast_to(value, shape)
    if like is not None:
        return broadcast_to(_join(value, like), shape)
    return broadcast_to(_in_trace("full", shape, lambda builder: builder.constant(value)), shape)


def _in_trace(name: str, shape: tuple[Any, ...], make: Callable[[GraphBuilder], int]) -> Any:
    """A tensor of the trace under way, which what has symbolic extents becomes part of."""
    from tenferro.api.tensor import TracedTensor  # because tensors have methods made of these

    builder = current_builder()
    if builder is None:
        raise NonStaticShapeError(
            f"{name}: shape {shape} is symbolic, and no trace is under way; give like=, a traced tensor"
        )
    return TracedTensor(builder, make(builder))


def _counts(name: str, shape: tuple[Any, ...], axis: int) -> Any:
    """Counts along one axis of a symbolic shape."""
    return _in_trace(name, shape, lambda builder: builder.emit(Iota(shape, axis, DType.I64)))


def _join(value: Any, like: Any) -> Any:
    """A constant as a traced tensor of the graph of `like`."""
    return like.lift(value) if is_traced(like) else value


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None) -> Any:
    """A tensor of x's shape, and dtype unless given, with every element `fill_value`."""
    x = as_operand(x)
    return full(
        x.shape,
        fill_value,
        dtype=spec_of(x).dtype if dtype is None else dtype,
        like=x if is_traced(x) else None,
    )


def zeros(shape: Any, *, dtype: Any = None, like: Any = None) -> Any:
    """A tensor of zeros, float64 by default."""
    return full(shape, 0.0, dtype=DType.F64 if dtype is None else dtype, like=like)


def ones(shape: Any, *, dtype: Any = None, like: Any = None) -> Any:
    """A tensor of ones, float64 by default."""
    return full(shape, 1.0, dtype=DType.F64 if dtype is None else dtype, like=like)


def zeros_like(x: Any, /, *, dtype: Any = None) -> Any:
    """Zeros of x's shape and dtype."""
    return full_like(x, 0, dtype=dtype)


def ones_like(x: Any, /, *, dtype: Any = None) -> Any:
    """Ones of x's shape and dtype."""
    return full_like(x, 1, dtype=dtype)


empty, empty_like = zeros, zeros_like


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None) -> Any:
    """start, start + step, .. below stop, as NumPy's.

    Raises:
        InvalidConfigError: a step of zero.
    """
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise InvalidConfigError(f"arange: step is not zero, got arange({start}, {stop}, {step})")
    if isinstance(stop, SymDim):
        if not isinstance(start, int) or not isinstance(step, int) or step < 0:
            raise NonStaticShapeError(
                f"arange: up to the symbolic extent {stop}, start is an integer and step a positive "
                f"one, got {start} and {step}"
            )
        counts = _counts("arange", (dim_max((stop - start + step - 1) // step, 0),), 0)
        return convert(counts * step + start, DType.I64 if dtype is None else DType.of(dtype))
    array = np.arange(start, stop, step)
    return array if dtype is None else array.astype(DType.of(dtype).dtype)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, endpoint: bool = True
) -> Any:
    """Num numbers from start to stop, evenly spaced.

    Raises:
        InvalidConfigError: a negative number of points.
    """
    if num < 0:
        raise InvalidConfigError(f"linspace: num is at least 0, got {num}")
    array = np.linspace(start, stop, num, endpoint=endpoint)
    return array if dtype is None else array.astype(DType.of(dtype).dtype)


def eye(n_rows: Any, n_cols: Any = None, /, *, k: int = 0, dtype: Any = None) -> Any:
    """Ones on diagonal k and zeros elsewhere."""
    if isinstance(n_rows, SymDim) or isinstance(n_cols, SymDim):
        shape = (n_rows, n_rows if n_cols is None else n_cols)
        rows = _counts("eye", shape, 0)
        ones_where = rows + k == _counts("eye", shape, 1)
        return convert(ones_where, DType.F64 if dtype is None else DType.of(dtype))
    return np.eye(n_rows, n_cols, k, dtype=DType.of(np.float64 if dtype is None else dtype).dtype)


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Any]:
    """Coordinate grids from coordinate vectors; "xy" swaps the first two axes.

    Raises:
        InvalidConfigError: another `indexing`.
    """
    if indexing not in ("xy", "ij"):
        raise InvalidConfigError(f'meshgrid: indexing is "xy" or "ij", got {indexing!r}')
    vectors = [as_operand(array) for array in arrays]
    order = list(range(len(vectors)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    shape: list[Any] = [1] * len(vectors)
    for index, vector in enumerate(vectors):
        shape[order[index]] = vector.shape[0] if vector.shape else 1
    return [_along(vector, order[index], tuple(shape)) for index, vector in enumerate(vectors)]


def _along(vector: Any, axis: int, shape: tuple[Any, ...]) -> Any:
    return apply(BroadcastInDim(shape, (axis,) if vector.shape else ()), vector)


def tril(x: Any, /, *, k: int = 0) -> Any:
    """X with zeros above diagonal k of its last two axes."""
    return apply(Tril(k), as_operand(x))


def triu(x: Any, /, *, k: int = 0) -> Any:
    """X with zeros below diagonal k of its last two axes."""
    return apply(Triu(k), as_operand(x))


def shape_of(x: Any, axis: int, /) -> Any:
    """The extent of one axis as a scalar int64 tensor, symbolic extents included."""
    x = as_operand(x)
    return apply(ShapeOf(axis + len(x.shape) if axis < 0 else axis), x)


def iota(shape: Any, axis: int, dtype: Any = np.int64) -> Any:
    """Counts along one axis: y[i0, .., ik] = i_axis."""
    return apply(Iota(tuple(shape), axis, DType.of(dtype)))
