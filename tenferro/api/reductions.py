"""Statistical and utility functions of the Array API: reductions and scans.

Source: Array API standard 2024.12, sections "Statistical functions" and "Utility functions".
"""

from __future__ import annotations

from typing import Any

from tenferro.api.axes import normalize_axes, normalize_axis
from tenferro.api.creation import shape_of
from tenferro.api.elementwise import (
    conj,
    divide,
    equal,
    maximum,
    multiply,
    not_equal,
    real,
    sqrt,
    subtract,
    where,
)
from tenferro.api.manipulation import concat, reshape, slice_axis
from tenferro.api.planned import planned
from tenferro.api.promotion import broadcast_to, convert
from tenferro.dims import is_static
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.exec.dispatch import apply, as_operand, is_traced, spec_of
from tenferro.ops import reduction as ops
from tenferro.types import DType

__all__ = [
    "all",
    "any",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]

Axis = int | tuple[int, ...] | None


def _reduced(op: type[Any], name: str, x: Any, axis: Axis, keepdims: bool) -> Any:
    axes = normalize_axes(name, axis, len(x.shape))
    result = apply(op(axes), x)
    return _kept(result, x, axes) if keepdims else result


def _kept(result: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """The result with extents of 1 where axes were reduced."""
    return reshape(result, tuple(1 if i in axes else n for i, n in enumerate(x.shape)))


def _sum_dtype(dtype: DType) -> DType:
    """Sums of small integers and bools are formed in 64 bits, as in NumPy."""
    if dtype.is_bool or dtype.kind == "i":
        return DType.I64
    return DType.U64 if dtype.kind == "u" else dtype


@planned
def sum(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sum over `axis`; integers narrower than 64 bits and bools are summed in 64."""
    x = as_operand(x)
    x = convert(x, _sum_dtype(spec_of(x).dtype) if dtype is None else DType.of(dtype))
    return _reduced(ops.ReduceSum, "sum", x, axis, keepdims)


@planned
def prod(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The product over `axis`; integers narrower than 64 bits and bools are multiplied in 64."""
    x = as_operand(x)
    x = convert(x, _sum_dtype(spec_of(x).dtype) if dtype is None else DType.of(dtype))
    return _reduced(ops.ReduceProd, "prod", x, axis, keepdims)


def _require_elements(name: str, x: Any, axis: Axis) -> None:
    for i in normalize_axes(name, axis, len(x.shape)):
        if is_static(x.shape[i]) and x.shape[i] == 0:
            raise ShapeError(
                f"{name}: axis {i} of {spec_of(x)} is empty, and {name} has no identity"
            )


@planned
def max(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The largest element over `axis`; NaN where there is one.

    Raises:
        ShapeError: an empty axis.
        DTypeError: complex x.
    """
    x = as_operand(x)
    _require_elements("max", x, axis)
    return _reduced(ops.ReduceMax, "max", x, axis, keepdims)


@planned
def min(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The smallest element over `axis`; NaN where there is one.

    Raises:
        ShapeError: an empty axis.
        DTypeError: complex x.
    """
    x = as_operand(x)
    _require_elements("min", x, axis)
    return _reduced(ops.ReduceMin, "min", x, axis, keepdims)


@planned
def all(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """True where every element over `axis` is nonzero."""
    return _reduced(ops.ReduceAnd, "all", convert(as_operand(x), DType.Bool), axis, keepdims)


@planned
def any(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """True where some element over `axis` is nonzero."""
    return _reduced(ops.ReduceOr, "any", convert(as_operand(x), DType.Bool), axis, keepdims)


@planned
def count_nonzero(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """How many elements over `axis` are nonzero, as int64."""
    return sum(convert(as_operand(x), DType.Bool), axis=axis, keepdims=keepdims)


def _mean_dtype(dtype: DType) -> DType:
    return dtype if dtype.is_inexact else DType.F64


@planned
def mean(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The arithmetic mean over `axis`; of integers and bools in float64."""
    x = as_operand(x)
    dtype = _mean_dtype(spec_of(x).dtype) if dtype is None else DType.of(dtype)
    if not dtype.is_inexact:
        raise DTypeError(f"mean: dtype must be float or complex, got {dtype}")
    low = dtype.accumulator is not dtype
    total = sum(convert(x, dtype.accumulator), axis=axis, keepdims=keepdims)
    result = divide(total, _count(x, axis, total))
    return convert(result, dtype) if low else result


def _count(x: Any, axis: Axis, like: Any) -> Any:
    """The number of elements reduced over, in the dtype of `like`."""
    count: Any = 1
    for i in normalize_axes("mean", axis, len(x.shape)):
        extent = x.shape[i]
        count = multiply(count, extent if is_static(extent) else shape_of(x, i))
    return convert(as_operand(count), spec_of(like).dtype)


def var(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The mean squared distance from the mean over `axis`, divided by N - `correction`."""
    x = as_operand(x)
    dtype = _mean_dtype(spec_of(x).dtype)
    x = convert(x, dtype.accumulator)
    centred = subtract(x, mean(x, axis=axis, keepdims=True))
    squares = real(multiply(conj(centred), centred))
    total = sum(squares, axis=axis, keepdims=keepdims)
    freedom = subtract(_count(x, axis, total), convert(correction, spec_of(total).dtype))
    return convert(divide(total, maximum(freedom, 0.0)), dtype.real)


def std(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The square root of `var`."""
    return root(var(x, axis=axis, correction=correction, keepdims=keepdims))


def root(total: Any) -> Any:
    """The square root of a sum of squares, with derivative 0 at 0: the least subgradient of a norm.

    The root's own derivative is infinite there, and times 0 it is NaN.
    """
    if not is_traced(total):
        return sqrt(total)
    none = equal(total, 0)
    return where(none, 0.0, sqrt(where(none, 1.0, total)))


def _scan(
    op: type[Any],
    name: str,
    x: Any,
    axis: int | None,
    dtype: Any,
    identity: int,
    include_initial: bool,
) -> Any:
    x = as_operand(x)
    if axis is None:
        if len(x.shape) != 1:
            raise ShapeError(f"{name}: give axis= for {spec_of(x)}, whose rank is not 1")
        axis = 0
    axis = normalize_axis(name, axis, len(x.shape))
    x = convert(x, _sum_dtype(spec_of(x).dtype) if dtype is None else DType.of(dtype))
    result = apply(op(axis), x)
    if not include_initial:
        return result
    first = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    return concat([broadcast_to(convert(identity, spec_of(x).dtype), first), result], axis=axis)


@planned
def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """Sums of the elements up to each along `axis`."""
    return _scan(ops.CumSum, "cumulative_sum", x, axis, dtype, 0, include_initial)


@planned
def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """Products of the elements up to each along `axis`."""
    return _scan(ops.CumProd, "cumulative_prod", x, axis, dtype, 1, include_initial)


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along `axis`, taken n times; none where there are too few elements.

    Args:
        prepend, append: what stands before and after x along `axis` first.

    Raises:
        InvalidConfigError: a negative n.
    """
    if n < 0:
        raise InvalidConfigError(f"diff: n is at least 0, got {n}")
    x = as_operand(x)
    axis = normalize_axis("diff", axis, len(x.shape))
    pieces = [as_operand(piece) for piece in (prepend, x, append) if piece is not None]
    x = concat(pieces, axis=axis) if len(pieces) > 1 else x
    for _ in range(n):
        if is_static(x.shape[axis]) and x.shape[axis] == 0:
            break
        later = slice_axis(x, axis, 1, x.shape[axis])
        earlier = slice_axis(x, axis, 0, x.shape[axis] - 1)
        x = (not_equal if spec_of(x).dtype.is_bool else subtract)(later, earlier)
    return x
