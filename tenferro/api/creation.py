"""Creation functions of the Array API.

Creation functions have no operand that belongs to a trace or a runtime. Without `like`, they therefore run at once and
return NumPy arrays, which become constants in a trace that uses them. With `like`, they return a tensor of the same
trace or `EagerRuntime` as `like`. If an extent is symbolic, they return a tensor of the current trace. The only device
is "cpu", because executors choose where programs run.

Source: Array API standard 2024.12, section "Creation functions".
"""

from __future__ import annotations

import math
import operator
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tenferro.api.arguments import refuse
from tenferro.api.device import check_device
from tenferro.api.elementwise import add, divide, floor, multiply, subtract
from tenferro.api.manipulation import concat, expand_dims, moveaxis, stack
from tenferro.api.promotion import broadcast_to, convert, promote, result_type
from tenferro.dims import SymDim, dim_max, is_static
from tenferro.dispatch import (
    apply_one,
    as_constant_of,
    as_operand,
    copied,
    elements,
    first_tensor,
    is_traced,
    spec_of,
)
from tenferro.dispatch.tracing import apply_in_trace
from tenferro.errors import BackendFailureError, DTypeError, InvalidConfigError, NonStaticShapeError
from tenferro.ops import StdTensorOp
from tenferro.ops.source import Constant, Iota, ShapeOf
from tenferro.ops.structural import BroadcastInDim, Tril, Triu
from tenferro.types import ArrayLike, DType, DTypeLike, Shape, Tensor, TensorSpec

__all__ = [
    "arange",
    "array",
    "asarray",
    "copy",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "identity",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "shape_of",
    "tri",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


def asarray(
    a: ArrayLike, dtype: DTypeLike | None = None, order: str | None = None, *, device: str | None = None, copy: bool | None = None, like: Any = None
) -> Any:  # fmt: skip
    """Convert `a` to an array of dtype `dtype`; a tensor remains a tensor.

    Args:
        a: an array, a tensor, a number, or nested sequences of numbers, some of which may be tensors.
        copy: True copies the elements. False raises an error if a copy is needed. None copies only if a copy is needed.

    Raises:
        InvalidConfigError: `copy` is False, and a conversion of the dtype or of a sequence needs a copy.

    >>> asarray([[1, 2], [3, 4]], dtype="float32")
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    check_device("asarray", device)
    refuse("asarray", "order", order)
    x = _from_python(a, dtype) if _is_python(a) else as_operand(a)
    wanted = spec_of(x).dtype if dtype is None else DType.of(dtype)
    is_same = spec_of(x).dtype is wanted
    shares = x is a or isinstance(a, np.generic)
    if copy is False and not (is_same and shares):
        raise InvalidConfigError(
            f"asarray: {type(a).__name__} as {wanted} needs a copy, and copy=False"
        )
    if not is_same:
        x = convert(x, wanted)
    if like is not None and not is_traced(x):
        return like.lift(x) if copy is not False else like.adopt(x)
    return copied(x) if copy and x is a else x


def array(
    object: ArrayLike, dtype: DTypeLike | None = None, *, copy: bool | None = True, order: str | None = "K", subok: bool = False,
    ndmin: int = 0, like: Tensor | None = None,
) -> Any:  # fmt: skip
    """Create a new array or tensor from `object`, as `asarray` does.

    Args:
        copy: True copies the elements. None copies only if a copy is needed. False raises an error if a copy is needed.
        ndmin: the least number of axes of the result; missing axes are inserted at the front, with extent 1.

    Raises:
        InvalidConfigError: `copy` is False, and a conversion of the dtype or of a sequence needs a copy.

    >>> array([1, 2], float, ndmin=2)
    array([[1., 2.]])
    """
    refuse("array", "order", order)
    refuse("array", "subok", subok)
    x = asarray(object, dtype, copy=copy, like=like)
    missing = ndmin - len(x.shape)
    return expand_dims(x, tuple(range(missing))) if missing > 0 else x


def copy(a: ArrayLike, order: str = "K", subok: bool = False) -> Any:
    """Return a copy of an array or eager tensor; a traced tensor is immutable and is returned unchanged.

    >>> copy([1, 2])
    array([1, 2])
    """
    refuse("copy", "order", order)
    refuse("copy", "subok", subok)
    return copied(as_operand(a))


def _is_python(obj: ArrayLike) -> bool:
    return isinstance(obj, list | tuple | bool | int | float | complex)


def _from_python(obj: ArrayLike, dtype: DTypeLike | None) -> Any:
    """Convert a Python number, or nested sequences of numbers and tensors, to an array or tensor of dtype `dtype`."""
    if isinstance(obj, list | tuple) and first_tensor(obj) is not None:
        rows = [_from_python(row, dtype) if isinstance(row, list | tuple) else row for row in obj]
        common = result_type(*rows)
        return stack([convert(row, common) for row in rows])
    if dtype is None:
        return as_operand(obj)
    kind = DType.of(dtype)
    try:
        return np.asarray(obj, kind.dtype)
    except (OverflowError, TypeError, ValueError) as error:
        raise DTypeError(f"asarray: {obj!r:.60} is no {kind} tensor: {error}") from None


def from_dlpack(
    x: Any, /, *, device: str | None = None, copy: bool | None = None, like: Any = None
) -> Any:
    """Convert any array that has `__dlpack__` to a NumPy array, which shares memory with it if possible.

    Raises:
        BufferError: NumPy cannot access the elements, for example on a GPU; or `copy` is False and a copy is
            needed.
        BackendFailureError: NumPy does not have the dtype, for example torch's bfloat16.

    >>> from_dlpack(np.arange(3.0))
    array([0., 1., 2.])
    """
    check_device("from_dlpack", device)
    try:
        array = np.from_dlpack(x, copy=copy)
    except RuntimeError as error:  # because NumPy raises it for a dtype that it does not have
        dtype = getattr(x, "dtype", "unknown")
        raise BackendFailureError(
            f"from_dlpack: NumPy does not read dtype {dtype} of this {type(x).__name__}: {error}; "
            "convert it first, bfloat16 to float32"
        ) from None
    return array if like is None else like.adopt(array)


def full(
    shape: Any, fill_value: ArrayLike, dtype: DTypeLike | None = None, order: str = "C", *, device: str | None = None, like: Tensor | None = None
) -> Any:  # fmt: skip
    """Create a tensor of `shape` with every element equal to `fill_value`.

    Args:
        like: a tensor. The result belongs to the trace or runtime of this tensor, instead of to the current trace.

    Raises:
        ShapeError: an extent is negative or not an integer.
        DTypeError: the dtype cannot represent `fill_value`.
        BackendFailureError: the elements do not fit in memory, or there are more than 64 axes.
        NonStaticShapeError: an extent is symbolic, no trace is under way, and `like` is None.

    >>> full((2, 2), 7)
    array([[7, 7],
           [7, 7]])
    """
    check_device("full", device)
    refuse("full", "order", order)
    shape = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    value = asarray(fill_value, dtype)
    shape = TensorSpec(shape, spec_of(value).dtype).shape
    if all(map(is_static, shape)) and like is None and not is_traced(value):
        with _allocating("full", TensorSpec.of(shape, spec_of(value).dtype)):
            return np.full(shape, value)
    if is_traced(value) or like is not None:
        return broadcast_to(as_constant_of(like, value), shape)
    return broadcast_to(_in_trace("full", shape, Constant.of(value)), shape)


@contextmanager
def _allocating(name: str, what: TensorSpec | str) -> Generator[None]:
    """Raise `BackendFailureError` if NumPy cannot allocate an array, which is too large or has too many axes."""
    try:
        yield
    except (MemoryError, ValueError, OverflowError) as error:
        raise BackendFailureError(f"{name}: {what}: {error}") from None


def _in_trace(name: str, shape: tuple[Any, ...], op: StdTensorOp) -> Any:
    """Append an op without operands to the current trace, and return its output.

    Raises:
        NonStaticShapeError: no trace is under way, so that a symbolic extent has no meaning.
    """
    outputs = apply_in_trace(op, ())
    if outputs is None:
        raise NonStaticShapeError(
            f"{name}: shape {shape} is symbolic, and no trace is under way; give like=, a traced tensor"
        )
    return outputs[0]


def _counts(name: str, shape: tuple[Any, ...], axis: int) -> Any:
    """Return a tensor of a symbolic shape in which each element is its index along `axis`."""
    return _in_trace(name, shape, Iota(shape, axis, DType.I64))


def full_like(
    a: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike | None = None, order: str = "K", subok: bool = True, shape: Shape | None = None, *,
    device: str | None = None,
) -> Any:  # fmt: skip
    """Create a tensor with every element equal to `fill_value`, by default with a's shape and dtype.

    >>> full_like([1, 2], 7)
    array([7, 7])
    """
    refuse("full_like", "order", order)
    x = as_operand(a)
    dtype = spec_of(x).dtype if dtype is None else dtype
    shape = x.shape if shape is None else shape
    return full(shape, fill_value, dtype=dtype, device=device, like=x if is_traced(x) else None)


def zeros(
    shape: Shape,
    dtype: DTypeLike | None = None,
    order: str = "C",
    *,
    device: str | None = None,
    like: Tensor | None = None,
) -> Any:
    """Create a tensor of zeros, float64 by default.

    >>> zeros(2, int)
    array([0, 0])
    """
    dtype = DType.F64 if dtype is None else dtype
    return full(shape, 0.0, dtype, order, device=device, like=like)


def ones(
    shape: Shape,
    dtype: DTypeLike | None = None,
    order: str = "C",
    *,
    device: str | None = None,
    like: Tensor | None = None,
) -> Any:
    """Create a tensor of ones, float64 by default.

    >>> ones((2,), "float32")
    array([1., 1.], dtype=float32)
    """
    dtype = DType.F64 if dtype is None else dtype
    return full(shape, 1.0, dtype, order, device=device, like=like)


def zeros_like(
    a: ArrayLike, dtype: DTypeLike | None = None, order: str = "K", subok: bool = True, shape: Shape | None = None, *, device: str | None = None
) -> Any:  # fmt: skip
    """Create a tensor of zeros, by default with a's shape and dtype."""
    return full_like(a, 0, dtype, order, subok, shape, device=device)


def ones_like(
    a: ArrayLike, dtype: DTypeLike | None = None, order: str = "K", subok: bool = True, shape: Shape | None = None, *, device: str | None = None
) -> Any:  # fmt: skip
    """Create a tensor of ones, by default with a's shape and dtype."""
    return full_like(a, 1, dtype, order, subok, shape, device=device)


empty, empty_like = zeros, zeros_like


def arange(
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    like: Tensor | None = None,
) -> Any:
    """Return start, start + step, .. below stop, as in NumPy.

    Raises:
        InvalidConfigError: the step is zero.
        DataDependentShapeError: a bound or the step is a traced tensor, so that the extent of the result is unknown.
        DTypeError: an integer `dtype` cannot represent a number of the range.
    """
    check_device("arange", device)
    if stop is None:
        start, stop = 0, start
    numbers = [elements(x, "arange", _COUNTS) if is_traced(x) else x for x in (start, stop, step)]
    if numbers[2] == 0:
        raise InvalidConfigError(
            f"arange: step must not be zero, got arange({start}, {stop}, {step})"
        )
    if isinstance(stop, SymDim):
        if not isinstance(start, int) or not isinstance(step, int) or step < 0:
            raise NonStaticShapeError(
                f"arange: up to the symbolic extent {stop}, start must be an integer and step a positive "
                f"integer, got {start} and {step}"
            )
        counts = _counts("arange", (dim_max((stop - start + step - 1) // step, 0),), 0)
        return convert(counts * step + start, DType.I64 if dtype is None else DType.of(dtype))
    with _allocating("arange", f"{start} to {stop} by {step}"):
        array = np.arange(*numbers)
    if dtype is not None and DType.of(dtype).is_integer:
        for end in array[[0, -1]] if array.size else ():
            convert(end.item(), DType.of(dtype))
    if is_traced(start) or is_traced(step):
        next_one = subtract(add(start, step), start)
        array = add(start, multiply(next_one, np.arange(array.size, dtype=array.dtype)))
    else:
        tensor = next((x for x in (start, stop, step) if is_traced(x)), None)
        array = as_constant_of(tensor, array)
    return as_constant_of(like, array if dtype is None else convert(array, DType.of(dtype)))


_COUNTS = "arange(n) with a number n, scaled and shifted, has a known shape"
"""Advice in the error message for a range with traced bounds."""


def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: Any = True, retstep: bool = False, dtype: DTypeLike | None = None,
    axis: int = 0, *, device: str | None = None, like: Tensor | None = None,
) -> Any:  # fmt: skip
    """Return `num` evenly spaced numbers from `start` to `stop`. If these are arrays, the numbers are along a new axis.

    The result is differentiable with respect to `start` and `stop`.

    Args:
        dtype: the dtype of the result. For an integer dtype, the numbers are rounded down.
        endpoint: whether `stop` is the last number. Otherwise the last number is one step before `stop`.
        retstep: whether to return (numbers, step) instead of the numbers alone.
        axis: the position of the new axis in the result.

    Raises:
        InvalidConfigError: `num` is negative.

    >>> linspace(0, 1, 3), linspace(0, 1, 2, endpoint=False)
    (array([0. , 0.5, 1. ]), array([0. , 0.5]))
    >>> linspace(0, 1, 3, retstep=True)[1]
    array(0.5)
    """
    check_device("linspace", device)
    num = operator.index(num)
    if num < 0:
        raise InvalidConfigError(f"linspace: num must be at least 0, got {num}")
    if is_traced(start) or is_traced(stop):
        points: Any = _spaced(start, stop, num, endpoint)
    else:
        with _allocating("linspace", f"{num} points"):
            points = np.linspace(start, stop, num, endpoint=endpoint)
    if dtype is not None:
        to = DType.of(dtype)
        points = convert(floor(points) if to.is_integer else points, to)
    points = as_constant_of(like, points if axis == 0 else moveaxis(points, 0, axis))
    return (
        (points, as_constant_of(like, _step(start, stop, num - bool(endpoint))))
        if retstep
        else points
    )


def _step(start: ArrayLike, stop: ArrayLike, intervals: int) -> Any:
    """Return the distance between neighbouring numbers of `linspace`; NaN if there is only one number, as in NumPy."""
    low, high = promote(start, stop, dtype=result_type(start, stop, 1.0))
    return divide(subtract(high, low), float(intervals)) if intervals > 0 else full((), math.nan)


def _spaced(start: ArrayLike, stop: ArrayLike, num: int, endpoint: bool) -> Any:
    """Compute the numbers of `linspace` as start + i step.

    If `endpoint`, the last number is exactly `stop`, without rounding error, as in NumPy.
    """
    dtype, intervals = result_type(start, stop, 1.0), num - bool(endpoint)
    low, high = promote(start, stop, dtype=dtype)
    counts = np.arange(num).astype(dtype.dtype).reshape(num, *[1] * len(low.shape))
    distance = subtract(high, low)
    step = divide(distance, convert(intervals, dtype)) if intervals > 0 else distance
    points = add(multiply(counts, step), low)
    if not endpoint or num < 2:
        return points
    return concat([points[:-1], expand_dims(high, axis=0)])


def eye(
    N: Any, M: Any = None, k: Any = 0, dtype: Any = None, order: str = "C", *, device: str | None = None,  # noqa: N803  # because NumPy calls them so
    like: Tensor | None = None,
) -> Any:  # fmt: skip
    """Create the N by M matrix (M = N by default) with ones on diagonal k and zeros elsewhere.

    >>> eye(2, 3, 1)
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    check_device("eye", device)
    refuse("eye", "order", order)
    k = operator.index(k)
    if isinstance(N, SymDim) or isinstance(M, SymDim):
        shape = (N, N if M is None else M)
        rows = _counts("eye", shape, 0)
        ones_where = rows + k == _counts("eye", shape, 1)
        return convert(ones_where, DType.F64 if dtype is None else DType.of(dtype))
    dtype = DType.of(np.float64 if dtype is None else dtype).dtype
    with _allocating("eye", f"{N} by {N if M is None else M}"):
        array = np.eye(N, M, k, dtype=dtype)
    return as_constant_of(like, array)


def identity(n: Any, dtype: DTypeLike | None = None, *, like: Tensor | None = None) -> Any:
    """Create the identity matrix of order n.

    >>> identity(2)
    array([[1., 0.],
           [0., 1.]])
    """
    return eye(n, dtype=dtype, like=like)


def tri(
    N: int,  # noqa: N803  # because NumPy calls them so
    M: int | None = None,  # noqa: N803
    k: int = 0,
    dtype: DTypeLike | None = None,
    *,
    like: Tensor | None = None,
) -> Any:
    """Create the N by M matrix (M = N by default) with ones on and below diagonal k, and zeros above.

    >>> tri(2, 3, 1)
    array([[1., 1., 0.],
           [1., 1., 1.]])
    """
    return tril(ones((N, N if M is None else M), dtype, like=like), k)


def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Any]:
    """Return one grid for each coordinate vector. A grid repeats its vector along the axes of the other vectors.

    Args:
        copy: no effect.
        sparse: whether a grid has extent 1 along the axes of the other vectors, instead of repetitions.
        indexing: "ij" to place vector i along axis i, or "xy" to swap the first two axes.

    Raises:
        InvalidConfigError: `indexing` is neither "xy" nor "ij".

    >>> meshgrid([1, 2], [3, 4, 5], sparse=True)
    [array([[1, 2]]), array([[3],
           [4],
           [5]])]
    """
    if indexing not in ("xy", "ij"):
        raise InvalidConfigError(f'meshgrid: indexing must be "xy" or "ij", got {indexing!r}')
    vectors = [as_operand(array) for array in xi]
    order = list(range(len(vectors)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    shape: list[Any] = [1] * len(vectors)
    for index, vector in enumerate(vectors):
        shape[order[index]] = vector.shape[0] if vector.shape else 1
    ones = [1] * len(vectors)
    grids: list[Any] = []
    for vector, axis in zip(vectors, order, strict=True):
        own = (*ones[:axis], shape[axis], *ones[axis + 1 :]) if sparse else tuple(shape)
        grids.append(_along(vector, axis, own))
    return grids


def _along(vector: Any, axis: int, shape: tuple[Any, ...]) -> Any:
    return apply_one(BroadcastInDim(shape, (axis,) if vector.shape else ()), vector)


def tril(m: ArrayLike, k: int = 0) -> Any:
    """Set the elements above diagonal k of m's last two axes to zero.

    >>> tril([[1, 2], [3, 4]])
    array([[1, 0],
           [3, 4]])
    """
    return apply_one(Tril(k), as_operand(m))


def triu(m: ArrayLike, k: int = 0) -> Any:
    """Set the elements below diagonal k of m's last two axes to zero.

    >>> triu([[1, 2], [3, 4]], 1)
    array([[0, 2],
           [0, 0]])
    """
    return apply_one(Triu(k), as_operand(m))


def shape_of(x: ArrayLike, axis: int, /) -> Any:
    """Return the extent of one axis, which may be symbolic, as a scalar int64 tensor."""
    x = as_operand(x)
    return apply_one(ShapeOf(axis + len(x.shape) if axis < 0 else axis), x)


def iota(shape: Any, axis: int, dtype: DTypeLike | None = np.int64) -> Any:
    """Create a tensor whose elements are their indices along `axis`: y[i_0, .., i_k] = i_axis."""
    return apply_one(Iota(tuple(shape), axis, DType.of(dtype)))
