"""Order statistics, averages, correlation, histograms, and reductions that ignore NaN.

Source: NumPy 2.4, reference, "Statistics". Hyndman and Fan, "Sample quantiles in statistical packages", 1996.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tenferro.api import reductions
from tenferro.api.arguments import refuse
from tenferro.api.axes import normalize_axes, normalize_axis
from tenferro.api.creation import linspace, zeros
from tenferro.api.elementwise import (
    add,
    as_int64,
    ceil,
    clip,
    conj,
    divide,
    equal,
    floor,
    floor_divide,
    greater_equal,
    imag,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    multiply,
    real,
    remainder,
    rint,
    sqrt,
    subtract,
    where,
)
from tenferro.api.indexing import take, take_along_axis
from tenferro.api.linear import matmul
from tenferro.api.manipulation import (
    concat,
    diagonal,
    expand_dims,
    flip,
    moveaxis,
    reshape,
    squeeze,
    stack,
    transpose,
)
from tenferro.api.promotion import broadcast_to, convert, result_type
from tenferro.api.reductions import Axis
from tenferro.api.searching import argmax, argmin, argsort, searchsorted, sort
from tenferro.api.updates import At
from tenferro.dims import is_static, product
from tenferro.dispatch import apply_one, as_operand, elements, is_traced, spec_of
from tenferro.errors import (
    DTypeError,
    InvalidConfigError,
    NonStaticShapeError,
    OutOfBoundsError,
    ShapeError,
)
from tenferro.ops.elementwise import Complex
from tenferro.types import ArrayLike, DType, DTypeLike, Tensor

__all__ = [
    "average", "bincount", "corrcoef", "cov", "digitize", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd", "median",
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanprod",
    "nanquantile", "nanstd", "nansum", "nanvar", "percentile", "ptp", "quantile",
]  # fmt: skip


# ---- order statistics --------------------------------------------------------------------------------------------


def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Any:
    """Compute the difference of the largest and the smallest element over `axis`.

    >>> ptp([[1, 5], [3, 4]], 1)
    array([4, 1])
    """
    refuse("ptp", "out", out)
    high = reductions.max(a, axis=axis, keepdims=keepdims)
    return subtract(high, reductions.min(a, axis=axis, keepdims=keepdims))


def _ordered(name: str, a: ArrayLike, axis: Axis) -> tuple[Any, int, tuple[Any, ...]]:
    """Sort the elements over `axis` along a new last axis.

    Returns:
        The sorted elements, their number along the new axis, and the shape of `a` with extent 1 for `axis`.

    Raises:
        NonStaticShapeError: the number of elements is not known.
        ShapeError: there are no elements.
        DTypeError: the elements are complex.
    """
    x = as_operand(a)
    if spec_of(x).dtype.is_complex:
        raise DTypeError(f"{name}: complex numbers have no order, got {spec_of(x)}")
    x = x if spec_of(x).dtype.is_inexact else convert(x, DType.F64)
    rank = len(x.shape)
    axes = normalize_axes(name, axis, rank)
    keepdims_shape = tuple([1 if i in axes else extent for i, extent in enumerate(x.shape)])
    rest = [extent for i, extent in enumerate(x.shape) if i not in axes]
    count = product(x.shape[i] for i in axes)
    if not is_static(count):
        raise NonStaticShapeError(f"{name}: the number of elements of {spec_of(x)} is not known")
    if count == 0:
        raise ShapeError(f"{name}: no elements over axis {axis} of {spec_of(x)}")
    x = moveaxis(x, axes, tuple(range(rank - len(axes), rank)))
    return sort(reshape(x, (*rest, count)), axis=-1), count, keepdims_shape


def _element(ordered: Tensor, index: int) -> Any:
    return take(ordered, index, axis=-1)


def _mean_of_two(low: Tensor, high: Tensor) -> Any:
    dtype = spec_of(low).dtype
    pair = [convert(x, dtype.accumulator) for x in (low, high)]
    return convert(divide(add(*pair), 2.0), dtype)


def median(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:  # fmt: skip
    """Return the median over `axis`: the middle element, or the mean of the middle two.

    It is NaN if any element is NaN.

    The derivative is that of the middle elements. If several elements are equal, it is that of the first in `a`.

    Args:
        overwrite_input: has no effect.

    Raises:
        ShapeError: there are no elements. DTypeError: `a` is complex.
        NonStaticShapeError: the number of elements is not known.

    >>> median([3.0, 1.0, 2.0]), median([[1, 2], [3, 4]], 0)
    (array(2.), array([2., 3.]))
    """
    refuse("median", "out", out)
    ordered, count, keepdims_shape = _ordered("median", a, axis)
    low, high = _element(ordered, (count - 1) // 2), _element(ordered, count // 2)
    middle = low if count % 2 else _mean_of_two(low, high)
    last = _element(ordered, count - 1)
    result = where(isnan(last), last, middle)
    return reshape(result, keepdims_shape) if keepdims else result


def nanmedian(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:  # fmt: skip
    """Return the median over `axis` of the elements that are not NaN; `median` describes the arguments.

    NaN if all are NaN.

    >>> nanmedian([3.0, math.nan, 1.0, 2.0])
    array(2.)
    """
    refuse("nanmedian", "out", out)
    ordered, count, keepdims_shape = _ordered("nanmedian", a, axis)
    numbers = reductions.sum(
        convert(logical_not(isnan(ordered)), DType.I64), axis=-1, keepdims=True
    )
    positions = [clip(floor_divide(subtract(numbers, one), 2), 0, count - 1) for one in (1, 0)]
    low, high = (squeeze(take_along_axis(ordered, position, axis=-1), -1) for position in positions)
    result = where(equal(squeeze(remainder(numbers, 2), -1), 1), low, _mean_of_two(low, high))
    return reshape(result, keepdims_shape) if keepdims else result


_PLOTTING: Mapping[str, tuple[float, float]] = MappingProxyType({
    "interpolated_inverted_cdf": (0.0, 1.0), "hazen": (0.5, 0.5), "weibull": (0.0, 0.0), "linear": (1.0, 1.0),
    "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8),
})  # fmt: skip
"""Hyndman and Fan's parameters alpha and beta of each continuous method."""
_PLACES: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType({
    "lower": lambda q, n: floor(multiply(q, n - 1)),
    "higher": lambda q, n: ceil(multiply(q, n - 1)),
    "midpoint": lambda q, n: multiply(
        0.5, add(floor(multiply(q, n - 1)), ceil(multiply(q, n - 1)))
    ),
    "nearest": lambda q, n: rint(multiply(q, n - 1)),
    "inverted_cdf": lambda q, n: subtract(ceil(multiply(q, n)), 1.0),
    "averaged_inverted_cdf": lambda q, n: _averaged(subtract(multiply(q, n), 1.0)),
    "closest_observation": lambda q, n: _closest(subtract(multiply(q, n), 1.5)),
})  # fmt: skip
"""Functions of the discontinuous methods. They compute the position, from 0, of quantile q among n sorted elements."""


def _averaged(position: Tensor) -> Any:
    """Return the position rounded up.

    If the position is an integer, add one half, so that two neighbouring elements are averaged.
    """
    return where(equal(position, floor(position)), add(position, 0.5), ceil(position))


def _closest(position: Tensor) -> Any:
    """Return the next larger integer. If the position is an odd integer, return the position itself."""
    below = floor(position)
    is_odd = logical_and(equal(position, below), equal(remainder(below, 2.0), 1.0))
    return where(is_odd, below, add(below, 1.0))


def _quantile_position(method: str, q: Tensor, count: Any) -> Any:
    """Compute the position of the quantile q among `count` sorted elements. It is a float from 0 to count - 1."""
    if method in _PLOTTING:
        alpha, beta = _PLOTTING[method]
        position = add(multiply(q, count), add(alpha, multiply(q, 1.0 - alpha - beta)))
        position = subtract(position, 1.0)
    else:
        position = _PLACES[method](q, count)
    last = count - 1.0
    return where(less(position, 0.0), 0.0, where(greater_equal(position, last), last, position))


def quantile(
    a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """Compute quantiles over `axis` at fractions q. By default, they are interpolated linearly between neighbours.

    The axes of q come first in the result. If `a` contains a NaN, the result is NaN. The result is differentiable with
    respect to `a` and q.

    Args:
        q: fractions from 0 to 1.
        overwrite_input: has no effect.
        method: a method of NumPy: "linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf",
            "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
            "median_unbiased" or "normal_unbiased".
        weights: the weight of each element. It has the shape of `a`, or is a vector along one axis. Only for
            "inverted_cdf".

    Raises:
        InvalidConfigError: the method is unknown or accepts no weights, or a fraction is outside 0 to 1.
        ShapeError: there are no elements. DTypeError: `a` is complex.
        NonStaticShapeError: the number of elements is not known.

    >>> quantile([1.0, 2.0, 3.0], 0.25), quantile([1.0, 2.0], [0.0, 1.0], method="nearest")
    (array(1.5), array([1., 2.]))
    """
    return _quantile("quantile", a, q, axis, out, method, keepdims, weights)


def percentile(
    a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """Compute quantiles over `axis` at q percent; `quantile` describes the other arguments and the errors.

    >>> percentile([1.0, 2.0, 3.0], 50)
    array(2.)
    """
    fractions = q / 100 if isinstance(q, int | float) else divide(as_operand(q), 100)
    return _quantile("percentile", a, fractions, axis, out, method, keepdims, weights)


def nanquantile(
    a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: None = None,
) -> Any:  # fmt: skip
    """Compute quantiles over `axis` of the elements that are not NaN. If all are NaN, the result is NaN.

    Arguments and errors are as for `quantile`.

    Args:
        weights: must be None.

    >>> nanquantile([1.0, math.nan, 3.0], 0.5)
    array(2.)
    """
    return _nan_quantile("nanquantile", a, q, axis, out, method, keepdims, weights)


def nanpercentile(
    a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: None = None,
) -> Any:  # fmt: skip
    """Compute quantiles at q percent of the elements that are not NaN; `nanquantile` describes the other arguments.

    >>> nanpercentile([1.0, math.nan, 3.0], 50)
    array(2.)
    """
    fractions = q / 100 if isinstance(q, int | float) else divide(as_operand(q), 100)
    return _nan_quantile("nanpercentile", a, fractions, axis, out, method, keepdims, weights)


def _nan_quantile(
    name: str, a: ArrayLike, q: ArrayLike, axis: Axis, out: None, method: str, keepdims: bool, weights: None
) -> Any:  # fmt: skip
    """Compute quantiles of the elements that are not NaN, which come first in ascending order."""
    refuse(name, "weights", weights)
    ordered, fractions, keepdims_shape = _quantile_operands(name, a, q, axis, out, method)
    dtype, rest = spec_of(fractions).dtype, ordered.shape[:-1]
    numbers = reductions.sum(convert(logical_not(isnan(ordered)), dtype), axis=-1, keepdims=True)
    position = _quantile_position(method, reshape(fractions, (-1,)), numbers)
    below = convert(floor(position), DType.I64)
    above = convert(ceil(position), DType.I64)
    low, high = (convert(take_along_axis(ordered, i, axis=-1), dtype) for i in (below, above))
    share = subtract(position, convert(below, dtype))
    between = add(low, multiply(subtract(high, low), share))
    result = where(equal(numbers, 0), math.nan, where(equal(share, 0), low, between))
    result = reshape(moveaxis(result, -1, 0), (*fractions.shape, *rest))
    return reshape(result, (*fractions.shape, *keepdims_shape)) if keepdims else result


def _quantile_operands(
    name: str, a: ArrayLike, q: ArrayLike, axis: Axis, out: None, method: str
) -> tuple[Any, Any, tuple[Any, ...]]:
    """Return the sorted elements, the fractions in the dtype of the result, and the shape of `a` with 1 for `axis`."""
    refuse(name, "out", out)
    if method not in _PLOTTING and method not in _PLACES:
        methods = ", ".join(f'"{one}"' for one in (*_PLOTTING, *_PLACES))
        raise InvalidConfigError(f"{name}: method must be one of {methods}, got {method!r}")
    ordered, _, keepdims_shape = _ordered(name, a, axis)
    fractions: Any = convert(float(q) if isinstance(q, int) else q, result_type(ordered, q))
    if not is_traced(fractions) and not bool(((fractions >= 0) & (fractions <= 1)).all()):
        raise InvalidConfigError(f"{name}: fractions must be from 0 to 1, got {fractions}")
    return ordered, fractions, keepdims_shape


def _quantile(
    name: str,
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis,
    out: None,
    method: str,
    keepdims: bool,
    weights: ArrayLike | None,
) -> Any:
    if weights is not None and method != "inverted_cdf":
        raise InvalidConfigError(f'{name}: weights need method="inverted_cdf", got {method!r}')
    ordered, fractions, keepdims_shape = _quantile_operands(name, a, q, axis, out, method)
    dtype, count = spec_of(fractions).dtype, ordered.shape[-1]
    if weights is not None:
        return _weighted_quantile(
            name, a, fractions, axis, weights, keepdims_shape if keepdims else None
        )
    position = _quantile_position(method, fractions, float(count))
    below = convert(floor(position), DType.I64)
    above = where(less(below, count - 1), add(below, 1), below)
    share = subtract(position, convert(below, dtype))
    # The axes of q are last in the gathered elements, and are moved to the front at the end.
    low, high = (convert(take(ordered, index, axis=-1), dtype) for index in (below, above))
    between = add(low, multiply(subtract(high, low), share))
    last = convert(_element(ordered, count - 1), dtype)
    rank, q_rank = len(low.shape), len(fractions.shape)
    last = reshape(last, (*last.shape, *[1] * q_rank))
    result = where(isnan(last), last, where(equal(share, 0), low, between))
    result = moveaxis(result, tuple(range(rank - q_rank, rank)), tuple(range(q_rank)))
    return reshape(result, (*fractions.shape, *keepdims_shape)) if keepdims else result


def _weighted_quantile(
    name: str,
    a: ArrayLike,
    q: Tensor,
    axis: Axis,
    weights: ArrayLike,
    keepdims_shape: tuple[Any, ...] | None,
) -> Any:
    """Return the smallest element whose cumulative weight, in ascending order, is at least q times the total weight."""
    x, w = as_operand(a), as_operand(weights)
    x = x if spec_of(x).dtype.is_inexact else convert(x, DType.F64)
    axes = normalize_axes(name, axis, len(x.shape))
    if len(w.shape) == 1 and len(axes) == 1:
        w = reshape(w, [w.shape[0] if i in axes else 1 for i in range(len(x.shape))])
    w = convert(broadcast_to(w, x.shape), result_type(x, w))
    rank = len(x.shape) - len(axes)
    last = tuple(range(rank, len(x.shape)))
    rest = [extent for i, extent in enumerate(x.shape) if i not in axes]
    x, w = (reshape(moveaxis(values, axes, last), (*rest, -1)) for values in (x, w))
    order = argsort(x, axis=-1)
    x, w = (take_along_axis(values, order, axis=-1) for values in (x, w))
    shares = reductions.cumsum(w, -1)
    shares = divide(shares, shares[..., -1:])
    # The share -1, which is below every fraction, makes fraction 0 skip leading elements whose weight is zero.
    shares = where(equal(shares, 0.0), -1.0, shares)
    before = less(expand_dims(shares, -1), reshape(q, (-1,)))
    positions = reductions.sum(convert(before, DType.I64), axis=rank)
    result = take_along_axis(x, clip(positions, 0, x.shape[-1] - 1), axis=-1)
    result = where(isnan(x[..., -1:]), math.nan, result)
    result = convert(result, spec_of(as_operand(a)).dtype)
    result = reshape(moveaxis(result, -1, 0), (*q.shape, *rest))
    return result if keepdims_shape is None else reshape(result, (*q.shape, *keepdims_shape))


# ---- averages and correlation ------------------------------------------------------------------------------------


def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """Divide the sum of `a` times its weights over `axis` by the sum of the weights. Without weights, compute the mean.

    Args:
        weights: weights with the shape of `a`, or with the extents of `axis`.
        returned: whether to return (average, sum of the weights) instead of the average.

    Raises:
        ShapeError: the weights have a different shape.

    >>> average([1.0, 3.0], weights=[3, 1]), average([1, 2, 3])
    (array(1.5), array(2.))
    """
    x = as_operand(a)
    if weights is None:
        result = reductions.mean(x, axis=axis, keepdims=keepdims)
        count = product(x.shape[i] for i in normalize_axes("average", axis, len(x.shape)))
        total = convert(as_operand(count), spec_of(result).dtype)
    else:
        w = _along(x, as_operand(weights), axis)
        dtype = result_type(x, w)
        dtype = dtype if dtype.is_inexact else DType.F64
        x, w = convert(x, dtype.accumulator), convert(w, dtype.accumulator)
        total = reductions.sum(broadcast_to(w, x.shape), axis=axis, keepdims=keepdims)
        result = divide(reductions.sum(multiply(x, w), axis=axis, keepdims=keepdims), total)
        result, total = convert(result, dtype), convert(total, dtype)
    return (result, broadcast_to(total, result.shape)) if returned else result


def _along(x: Tensor, weights: Tensor, axis: Axis) -> Any:
    """Reshape the weights to the rank of x, with extent 1 on all axes except `axis`."""
    if tuple(weights.shape) == tuple(x.shape):
        return weights
    listed = () if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    axes = [normalize_axis("average", i, len(x.shape)) for i in listed]
    if tuple([x.shape[i] for i in axes]) != tuple(weights.shape) or not axes:
        raise ShapeError(
            f"average: weights {spec_of(weights)} have neither the shape of {spec_of(x)} nor that of axis {axis}"
        )
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    weights = transpose(weights, tuple(order))
    return reshape(weights, tuple([n if i in axes else 1 for i, n in enumerate(x.shape)]))


def cov(
    m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: ArrayLike | None = None, aweights: ArrayLike | None = None, *, dtype: DTypeLike | None = None,
) -> Any:  # fmt: skip
    """Compute the covariance matrix of variables x_i, the rows of m: E (x_i - E x_i) conj(x_j - E x_j).

    The covariance of a single variable is a scalar.

    Args:
        y: further variables.
        rowvar: whether the rows are the variables. If not, the columns are.
        bias: whether to divide by N instead of N - 1.
        ddof: the number to subtract from N, instead of the number that `bias` selects.
        fweights, aweights: the number of repetitions and the weight of each observation.

    Raises:
        ShapeError: m or y has more than two axes.
        InvalidConfigError: `ddof` is not an integer.
        GuardError: when the program runs, a symbolic number of variables is 1. The covariance is then not a matrix.

    >>> cov([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    if ddof is not None and not hasattr(ddof, "__index__"):
        raise InvalidConfigError(f"cov: ddof must be an integer, got {ddof!r}")
    x = _variables(m, rowvar, dtype)
    if y is not None:
        x = concat([x, _variables(y, rowvar, dtype)], axis=0)
    if not is_static(x.shape[0]):
        x.guards.require(x.shape[0], ">=", 2, "cov: a matrix of variables")
    freedom = (0 if bias else 1) if ddof is None else ddof
    if fweights is None and aweights is None:
        centred = subtract(x, reductions.mean(x, axis=1, keepdims=True))
        count = broadcast_to(np.ones(()), (x.shape[1],))
        divisor = subtract(reductions.sum(count), float(freedom))
        weighted = centred
    else:
        w, divisor = _weights(fweights, aweights, freedom)
        total = reductions.sum(multiply(x, w), axis=1, keepdims=True)
        centred = subtract(x, divide(total, reductions.sum(w)))
        weighted = multiply(centred, w)
    products = matmul(weighted, conj(transpose(centred)))
    divisor = convert(divisor, spec_of(products).dtype.real)
    result = divide(products, where(less(divisor, 0.0), 0.0, divisor))
    return reshape(result, ()) if x.shape[0] == 1 else result


def _variables(m: ArrayLike, rowvar: bool, dtype: DTypeLike | None) -> Any:
    """Return the variables of `cov` as the rows of a matrix of dtype `dtype`, by default at least float64."""
    x = as_operand(m)
    if len(x.shape) > 2:
        raise ShapeError(f"cov: takes two axes at most, got {spec_of(x)}")
    x = convert(x, result_type(x, np.float64) if dtype is None else DType.of(dtype))
    if len(x.shape) < 2:
        return reshape(x, (1, -1))
    return x if rowvar else transpose(x)


def _weights(
    fweights: ArrayLike | None, aweights: ArrayLike | None, freedom: int
) -> tuple[Any, Any]:
    """Compute the weight of each observation, and the number by which `cov` divides the sum of products."""
    f = None if fweights is None else convert(as_operand(fweights), DType.F64)
    a = None if aweights is None else convert(as_operand(aweights), DType.F64)
    w: Any = a if f is None else f if a is None else multiply(f, a)
    total = reductions.sum(w)
    if freedom == 0:
        return w, total
    if a is None:
        return w, subtract(total, float(freedom))
    off = divide(multiply(reductions.sum(multiply(w, a)), float(freedom)), total)
    return w, subtract(total, off)


def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *, dtype: DTypeLike | None = None
) -> Any:
    """Compute the correlation coefficients c_ij / sqrt(c_ii c_jj), where c is the covariance matrix.

    Real and imaginary parts are clipped to [-1, 1]. Arguments and errors are as for `cov`.

    >>> corrcoef([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.shape:
        return divide(c, c)
    deviations = sqrt(real(diagonal(c)))
    c = divide(c, expand_dims(deviations, 1))
    c = divide(c, expand_dims(deviations, 0))
    if not spec_of(c).dtype.is_complex:
        return clip(c, -1.0, 1.0)
    return apply_one(Complex(), *[clip(part(c), -1.0, 1.0) for part in (real, imag)])


# ---- reductions that ignore NaN ----------------------------------------------------------------------------------


def _numbers(a: ArrayLike, replacement: float) -> tuple[Any, Any]:
    """Return the elements with NaN replaced by `replacement`, and whether each element is not NaN."""
    x = as_operand(a)
    is_number = logical_not(isnan(x))
    if not spec_of(x).dtype.is_inexact:
        return x, is_number
    return where(is_number, x, replacement), is_number


def nansum(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike = True,
) -> Any:  # fmt: skip
    """Sum the elements over `axis` that are not NaN. The arguments are as for `sum`.

    >>> nansum([1.0, np.nan])
    array(1.)
    """
    x, _ = _numbers(a, 0)
    return reductions.sum(x, axis, dtype, out, keepdims, initial, where)


def nanprod(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike = True,
) -> Any:  # fmt: skip
    """Multiply the elements over `axis` that are not NaN. The arguments are as for `prod`.

    >>> nanprod([2.0, np.nan])
    array(2.)
    """
    x, _ = _numbers(a, 1)
    return reductions.prod(x, axis, dtype, out, keepdims, initial, where)


def _included_numbers(is_number: Tensor, condition: ArrayLike) -> Any:
    return is_number if condition is True else logical_and(is_number, condition)


def nanmean(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
    *, where: ArrayLike = True,
) -> Any:  # fmt: skip
    """Compute the mean over `axis` of the elements that are not NaN. Without such elements, it is NaN.

    The arguments are as for `mean`.

    >>> nanmean([1.0, np.nan, 3.0])
    array(2.)
    """
    x, is_number = _numbers(a, 0)
    return reductions.mean(x, axis, dtype, out, keepdims, where=_included_numbers(is_number, where))


def nanvar(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, ddof: ArrayLike = 0, keepdims: bool = False,
    *, where: ArrayLike = True, mean: ArrayLike | None = None, correction: float = 0.0,
) -> Any:  # fmt: skip
    """Compute the variance over `axis` of the elements that are not NaN. If too few remain, it is NaN.

    The arguments are as for `var`.

    >>> nanvar([1.0, np.nan, 3.0])
    array(1.)
    """
    x, is_number = _numbers(a, 0)
    is_included = _included_numbers(is_number, where)
    spread = reductions.var(
        x, axis, dtype, out, ddof, keepdims, where=is_included, mean=mean, correction=correction
    )
    return _of_enough(
        spread, x, is_included, axis, keepdims, ddof if correction == 0 else correction
    )


def nanstd(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, ddof: ArrayLike = 0, keepdims: bool = False,
    *, where: ArrayLike = True, mean: ArrayLike | None = None, correction: float = 0.0,
) -> Any:  # fmt: skip
    """Compute the standard deviation over `axis` of the elements that are not NaN. If too few remain, it is NaN.

    The arguments are as for `std`.

    >>> nanstd([1.0, np.nan, 3.0])
    array(1.)
    """
    x, is_number = _numbers(a, 0)
    is_included = _included_numbers(is_number, where)
    spread = reductions.std(
        x, axis, dtype, out, ddof, keepdims, where=is_included, mean=mean, correction=correction
    )
    return _of_enough(
        spread, x, is_included, axis, keepdims, ddof if correction == 0 else correction
    )


def _of_enough(
    spread: Tensor, x: Tensor, is_included: Tensor, axis: Axis, keepdims: bool, ddof: ArrayLike
) -> Any:
    """Return `spread`.

    For dtypes with NaN, replace it by NaN where at most `ddof` elements are included, as NumPy does.
    """
    if not spec_of(x).dtype.is_inexact:
        return spread
    count = reductions.count_nonzero(broadcast_to(is_included, x.shape), axis, keepdims=keepdims)
    return where(less_equal(count, ddof), math.nan, spread)


def _nan_extreme(
    reduce: Callable[..., Any], a: ArrayLike, replacement: float, axis: Axis, out: None, keepdims: bool, initial: ArrayLike | None, condition: ArrayLike
) -> Any:  # fmt: skip
    x, is_number = _numbers(a, replacement)
    result = reduce(x, axis, out, keepdims, initial, condition)
    if initial is not None or not spec_of(x).dtype.is_inexact:
        return result
    return where(reductions.any(is_number, axis=axis, keepdims=keepdims), result, math.nan)


def nanmax(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike = True
) -> Any:  # fmt: skip
    """Compute the largest element over `axis` that is not NaN. If all are NaN, the result is NaN.

    The arguments are as for `max`.

    >>> nanmax([1.0, np.nan])
    array(1.)
    """
    return _nan_extreme(reductions.max, a, -math.inf, axis, out, keepdims, initial, where)


def nanmin(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike = True
) -> Any:  # fmt: skip
    """Compute the smallest element over `axis` that is not NaN. If all are NaN, the result is NaN.

    The arguments are as for `min`.

    >>> nanmin([1.0, np.nan])
    array(1.)
    """
    return _nan_extreme(reductions.min, a, math.inf, axis, out, keepdims, initial, where)


def _nan_arg_extreme(
    name: str, argument: Callable[..., Any], a: ArrayLike, replacement: float, axis: int | None, out: None, keepdims: bool
) -> Any:  # fmt: skip
    refuse(name, "out", out)
    x, is_number = _numbers(a, replacement)
    result = argument(x, axis, keepdims=keepdims)
    has_number = reductions.any(is_number, axis=axis, keepdims=keepdims)
    if not is_traced(has_number):
        if not np.asarray(has_number).all():
            raise InvalidConfigError(f"{name}: all elements are NaN")
        return result
    return where(has_number, result, -1)


def nanargmax(
    a: ArrayLike, axis: int | None = None, out: None = None, *, keepdims: bool = False
) -> Any:
    """Return the int64 index of the first largest element that is not NaN.

    If all elements are NaN, the index is -1 for traced tensors, and an error is raised for arrays.

    Raises:
        InvalidConfigError: all elements of an array are NaN. AxisError: the axis is outside the rank.

    >>> nanargmax([1.0, math.nan, 3.0])
    array(2)
    """
    return _nan_arg_extreme("nanargmax", argmax, a, -math.inf, axis, out, keepdims)


def nanargmin(
    a: ArrayLike, axis: int | None = None, out: None = None, *, keepdims: bool = False
) -> Any:
    """Return the int64 index of the first smallest element that is not NaN.

    If all elements are NaN, the index is -1 for traced tensors, and an error is raised for arrays.

    Raises:
        InvalidConfigError: all elements of an array are NaN. AxisError: the axis is outside the rank.

    >>> nanargmin([math.nan, 1.0, 3.0])
    array(1)
    """
    return _nan_arg_extreme("nanargmin", argmin, a, math.inf, axis, out, keepdims)


def nancumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Any:
    """Compute inclusive sums along `axis`, with NaN counted as 0; `cumsum` describes the arguments.

    >>> nancumsum([1.0, math.nan, 3.0])
    array([1., 1., 4.])
    """
    return reductions.cumsum(_numbers(a, 0)[0], axis, dtype, out)


def nancumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Any:
    """Compute inclusive products along `axis`, with NaN counted as 1; `cumprod` describes the arguments.

    >>> nancumprod([2.0, math.nan, 3.0])
    array([2., 2., 6.])
    """
    return reductions.cumprod(_numbers(a, 1)[0], axis, dtype, out)


# ---- counts ------------------------------------------------------------------------------------------------------


def bincount(
    x: Any, /, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None
) -> Any:
    """Return y, where y[k] is the number of times that the integer k occurs in x, for k from 0.

    Args:
        weights: a weight for each element. y[k] is then the sum of the weights of the elements k, and is
            differentiable.
        minlength: the minimum length of the result.
        length: the exact length of the result; elements from `length` on are not counted. The argument is required if x
        is traced.

    Raises:
        DTypeError: the elements are not integers.
        ShapeError: x is not a vector, or the weights have a different shape.
        OutOfBoundsError: an element of an array is negative.
        DataDependentShapeError: x is traced, and `length` is None.

    >>> bincount([0, 2, 2]), bincount([0, 2, 2], [0.5, 1.0, 1.0])
    (array([1, 0, 2]), array([0.5, 0. , 2. ]))
    """
    x = as_operand(x)
    if not spec_of(x).dtype.is_integer:
        raise DTypeError(f"bincount: takes integers, got {spec_of(x)}")
    if len(x.shape) != 1:
        raise ShapeError(f"bincount: takes a vector, got {spec_of(x)}")
    if length is None:
        numbers = elements(x, "bincount", "give length=, the number of counts")
        length = max(int(numbers.max()) + 1 if numbers.size else 0, minlength)
    if not is_traced(x) and x.size and int(x.min()) < 0:
        raise OutOfBoundsError(f"bincount: takes numbers from 0, got {int(x.min())}")
    w = np.ones((), np.int64) if weights is None else as_operand(weights)
    if weights is not None:
        w = w if spec_of(w).dtype.is_inexact else convert(w, DType.F64)
        if tuple(w.shape) != tuple(x.shape):
            raise ShapeError(f"bincount: weights {spec_of(w)} for {spec_of(x)}")
    x = as_int64(x)
    counted = logical_and(greater_equal(x, 0), less(x, length))
    one_more = zeros(length + 1, spec_of(w).dtype)
    places = where(counted, x, length)
    return take(At(one_more)[places].add(broadcast_to(w, x.shape)), np.arange(length), axis=0)


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Any:
    """Return the int64 index i of each element's bin, where bins[i - 1] <= x < bins[i].

    Args:
        bins: the bounds of the bins, in ascending or descending order. If they are descending, the index i of an
            element is that with bins[i - 1] > x >= bins[i].
        right: whether a bin includes its right bound instead of its left bound.

    Raises:
        InvalidConfigError: an array of bins is neither ascending nor descending.

    >>> digitize([0.5, 1.0, 3.0], [0.0, 1.0, 2.0])
    array([1, 2, 3])
    """
    edges = as_operand(bins)
    side = "left" if right else "right"
    if is_traced(edges):
        forward = searchsorted(edges, x, side)
        if not edges.shape[0]:
            return forward
        backward = subtract(edges.shape[0], searchsorted(flip(edges), x, side))
        return where(less_equal(edges[0], edges[-1]), forward, backward)
    steps = np.diff(np.asarray(edges))
    if (steps >= 0).all():
        return searchsorted(edges, x, side)
    if not (steps <= 0).all():
        raise InvalidConfigError("digitize: bins must be ascending or descending")
    return subtract(edges.shape[0], searchsorted(edges[::-1], x, side))


# ---- histograms --------------------------------------------------------------------------------------------------


def histogram_bin_edges(
    a: ArrayLike, bins: int | ArrayLike = 10, range: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
) -> Any:  # fmt: skip
    """Compute the bin edges of `histogram`, in ascending order.

    Args:
        bins: the number of bins of equal width, the edges, or the name of NumPy's rule that derives the number from the
            elements, such as "auto".
        range: the first and the last edge. By default they are the smallest and the largest element.
        weights: must be None if `bins` is a rule; otherwise it has no effect.

    Raises:
        InvalidConfigError: the number of bins is below 1, the range is descending, or NumPy has no such rule.
        DataDependentShapeError: `bins` is a rule, and `a` is traced.

    >>> histogram_bin_edges([0.0, 1.0, 4.0], 2)
    array([0., 2., 4.])
    """
    if isinstance(bins, str):
        bins = _bin_count(a, bins, range, weights)
    if not isinstance(bins, int | np.integer) and len(as_operand(bins).shape) == 1:
        return as_operand(bins)
    if not isinstance(bins, int | np.integer) or bins < 1:
        raise InvalidConfigError(f"histogram: bins must be at least 1, got {bins!r}")
    x = as_operand(a)
    x = x if spec_of(x).dtype.is_inexact else convert(x, DType.F64)
    if range is not None:
        low, high = range
        if not is_traced(low) and not is_traced(high) and not -np.inf < low <= high < np.inf:
            raise InvalidConfigError(
                f"histogram: the range {low} to {high} goes down, or is not finite"
            )
    elif is_static(product(x.shape)) and product(x.shape) == 0:
        low, high = 0.0, 1.0
    else:
        low, high = reductions.min(x), reductions.max(x)
    is_empty = equal(low, high)
    low = convert(where(is_empty, subtract(low, 0.5), low), spec_of(x).dtype)
    high = convert(where(is_empty, add(high, 0.5), high), spec_of(x).dtype)
    return linspace(low, high, int(bins) + 1)


def histogram(
    a: ArrayLike, bins: int | ArrayLike = 10, range: Sequence[Any] | None = None, density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Return the number of elements of `a` in each bin, and the edges of the bins.

    The last bin includes its end. Other arguments and errors are as for `histogram_bin_edges`.

    Args:
        density: whether to return probability densities instead of counts. They are shares of the total, divided by the
            widths of the bins.
        weights: the weight of each element. The counts are then sums of weights, and are differentiable.

    Raises:
        ShapeError: the weights have a different shape.

    >>> histogram([1.0, 2.0, 4.0], [1.0, 2.0, 4.0])
    (array([1, 2]), array([1., 2., 4.]))
    """
    edges = histogram_bin_edges(a, bins, range, weights)
    x = as_operand(a)
    if weights is not None and tuple(as_operand(weights).shape) != tuple(x.shape):
        raise ShapeError(f"histogram: weights {spec_of(as_operand(weights))} for {spec_of(x)}")
    count = edges.shape[0] - 1
    places = _bins(reshape(x, (-1,)), edges)
    w = None if weights is None else reshape(as_operand(weights), (-1,))
    counts = bincount(places, w, length=count)
    if w is not None and spec_of(w).dtype.is_integer:
        counts = convert(counts, spec_of(w).dtype)
    if density:
        counts = divide(divide(counts, reductions.diff(edges)), reductions.sum(counts))
    return counts, edges


def _bin_count(a: ArrayLike, rule: str, range: Sequence[Any] | None, weights: Any) -> int:
    """Return the number of bins that a rule of NumPy derives from the elements."""
    if weights is not None:
        raise InvalidConfigError(f"histogram: the rule {rule!r} for bins does not take weights")
    hint = "give the number of bins or their edges"
    numbers = elements(as_operand(a), "histogram", hint)
    bounds: Any = range and [elements(as_operand(x), "histogram", hint) for x in range]
    try:
        return len(np.histogram_bin_edges(numbers, rule, bounds)) - 1
    except ValueError as error:
        raise InvalidConfigError(f"histogram: {error}") from error


def _bins(x: Tensor, edges: Tensor) -> Any:
    """Return the number of each element's bin. For an element outside of all bins, return the number of bins.

    The last bin includes its end.
    """
    count = edges.shape[0] - 1
    places = subtract(searchsorted(edges, x, "right"), 1)
    places = where(equal(x, edges[-1]), count - 1, places)
    return where(less(places, 0), count, places)


def histogramdd(
    sample: Any, bins: Any = 10, range: Sequence[Any] | None = None, density: bool | None = None, weights: ArrayLike | None = None
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Return the number of points in each cell of a grid of bins, and a list of the bin edges along each axis.

    Args:
        sample: points as rows of a matrix, or a sequence of vectors, one for each coordinate.
        bins: the number of bins or the edges, either for all coordinates or as a sequence with an entry for each
            coordinate.
        range: for each coordinate, a pair of the first and the last edge, or None. None means the smallest and the
            largest coordinate of the points.
        density: whether to return probability densities instead of counts. They are shares of the total, divided by the
            volumes of the cells.
        weights: the weight of each point. The counts are then sums of weights, and are differentiable.

    Raises:
        ShapeError: the points are not a matrix, or the weights have a different shape.
        InvalidConfigError: the number of bins or ranges differs from that of coordinates.

    >>> histogramdd(np.array([[0.0, 0.0], [1.0, 1.0]]), 2)[0]
    array([[1., 0.],
           [0., 1.]])
    """
    parts = [as_operand(part) for part in sample] if isinstance(sample, list | tuple) else []
    x = stack(parts, axis=-1) if parts else as_operand(sample)
    if len(x.shape) == 1:
        x = expand_dims(x, axis=1)
    if len(x.shape) != 2:
        raise ShapeError(f"histogramdd: points must be rows of a matrix, got {spec_of(x)}")
    axes = x.shape[1]
    each = [bins] * axes if isinstance(bins, int | np.integer) else [*bins]
    ranges = [None] * axes if range is None else [*range]
    if len(each) != axes or len(ranges) != axes:
        raise InvalidConfigError(f"histogramdd: bins and ranges are for {axes} coordinates")
    edges = [histogram_bin_edges(x[:, i], each[i], ranges[i]) for i in builtins.range(axes)]
    counts = [edge.shape[0] - 1 for edge in edges]
    total = math.prod(counts)
    place: Any = 0
    is_inside: Any = True
    for i, edge in enumerate(edges):
        bin_ = _bins(x[:, i], edge)
        is_inside = logical_and(is_inside, less(bin_, counts[i]))
        place = add(multiply(place, counts[i]), bin_)
    place = where(is_inside, place, total)
    w = None if weights is None else as_operand(weights)
    if w is not None and tuple(w.shape) != tuple(x.shape[:1]):
        raise ShapeError(f"histogramdd: weights {spec_of(w)} for {spec_of(x)}")
    histogram_ = convert(bincount(place, w, length=total), DType.F64)
    histogram_ = reshape(histogram_, tuple(counts))
    if density:
        histogram_ = divide(histogram_, reductions.sum(histogram_))
        for i, edge in enumerate(edges):
            shape = [1] * axes
            shape[i] = counts[i]
            histogram_ = divide(histogram_, reshape(reductions.diff(edge), tuple(shape)))
    return histogram_, edges


def histogram2d(
    x: ArrayLike, y: ArrayLike, bins: Any = 10, range: Sequence[Any] | None = None, density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the number of points (x, y) in each cell of a grid of bins, and the bin edges along x and y.

    Arguments and errors are as for `histogramdd`. A single vector of edges is used for both axes.

    >>> histogram2d([0.0, 1.0], [0.0, 1.0], 2)[0]
    array([[1., 0.],
           [0., 1.]])
    """
    if not isinstance(bins, int | np.integer):
        is_pair = isinstance(bins, list | tuple) and len(bins) == 2
        bins = bins if is_pair else [bins, bins]
    counts, edges = histogramdd([as_operand(x), as_operand(y)], bins, range, density, weights)
    return counts, *edges
