"""Differences, integrals, interpolation and convolution of samples; polynomials; geometric progressions.

Source: NumPy 2.4, reference, "Mathematical functions".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.api.axes import normalize_axes, normalize_axis
from tenferro.api.creation import linspace, zeros_like
from tenferro.api.elementwise import (
    abs,
    add,
    conj,
    divide,
    equal,
    greater,
    isfinite,
    isinf,
    isnan,
    less,
    log10,
    logical_and,
    logical_not,
    logical_or,
    multiply,
    not_equal,
    pow,
    remainder,
    sign,
    subtract,
    where,
)
from tenferro.api.indexing import take
from tenferro.api.manipulation import concat, expand_dims, flip, moveaxis, reshape, slice_axis
from tenferro.api.promotion import broadcast_to, convert, result_type
from tenferro.api.reductions import cumsum, diff, sum
from tenferro.api.searching import argsort, searchsorted
from tenferro.dims import is_static
from tenferro.dispatch import apply_one, as_constant_of, as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, NonStaticShapeError, ShapeError
from tenferro.ops.contraction import Convolution
from tenferro.types import ArrayLike, Axis, DType, DTypeLike, Tensor

__all__ = [
    "convolve", "correlate", "geomspace", "gradient", "interp", "logspace", "polyval", "trapezoid",
    "unwrap",
]  # fmt: skip


def _in_inexact(x: ArrayLike) -> Any:
    x = as_operand(x)
    return x if spec_of(x).dtype.is_inexact else convert(x, DType.F64)


# ---- differences and integrals -----------------------------------------------------------------------------------


def gradient(f: ArrayLike, *varargs: ArrayLike, axis: Axis = None, edge_order: int = 1) -> Any:
    """Estimate the derivatives of samples f along each axis by central differences. At the ends, they are one-sided.

    For one axis the result is an array, and for several axes a tuple of arrays.

    Args:
        varargs: the spacing of the samples: one distance for all axes, or for each axis a distance or a vector of
            coordinates.
        axis: the axes, by default all.
        edge_order: 1 or 2, the order of the differences at the ends.

    Raises:
        InvalidConfigError: `edge_order` is not 1 or 2, or the number of spacings is neither 1 nor the number of axes.
        ShapeError: there are too few samples, or the number of coordinates differs from that of samples.

    >>> gradient([1.0, 2.0, 4.0]), gradient([1.0, 2.0, 4.0], 2.0)
    (array([1. , 1.5, 2. ]), array([0.5 , 0.75, 1.  ]))
    """
    x = _in_inexact(f)
    listed = axis if isinstance(axis, tuple | list) else None
    axes = (
        normalize_axes("gradient", axis, len(x.shape))
        if listed is None
        else tuple([normalize_axis("gradient", i, len(x.shape)) for i in listed])
    )
    if edge_order not in (1, 2):
        raise InvalidConfigError(f"gradient: edge_order must be 1 or 2, got {edge_order!r}")
    spacings: Sequence[Any] = varargs or (1.0,)
    if len(spacings) == 1:
        spacings = list(spacings) * len(axes)
    if len(spacings) != len(axes):
        raise InvalidConfigError(f"gradient: {len(varargs)} spacings for {len(axes)} axes")
    results = [_along(x, i, h, edge_order) for i, h in zip(axes, spacings, strict=True)]
    return results[0] if len(results) == 1 else tuple(results)


def _along(x: Tensor, axis: int, spacing: ArrayLike, edge_order: int) -> Any:
    extent = x.shape[axis]
    if not is_static(extent):
        raise NonStaticShapeError(f"gradient: axis {axis} of {spec_of(x)} has no known extent")
    if extent < edge_order + 1:
        raise ShapeError(
            f"gradient: edge_order {edge_order} needs {edge_order + 1} samples, got axis {axis} of {spec_of(x)}"
        )
    number = isinstance(spacing, int | float)
    # A Python number is converted to the dtype of the samples, as in NumPy: it does not widen their dtype.
    h: Any = convert(float(spacing), spec_of(x).dtype.real) if number else _in_inexact(spacing)
    if h.shape:
        if len(h.shape) != 1 or h.shape[0] != extent:
            raise ShapeError(
                f"gradient: coordinates {spec_of(h)} do not fit axis {axis} of {spec_of(x)}"
            )
        steps = _on_axis(diff(h), axis, len(x.shape))
    else:
        one = [1] * len(x.shape)
        one[axis] = extent - 1
        steps = broadcast_to(h, one)
    return _differences(x, steps, axis, extent, edge_order)


def _on_axis(vector: Tensor, axis: int, rank: int) -> Any:
    """Reshape a vector to a tensor of rank `rank` whose extents are 1 except along `axis`."""
    return reshape(vector, tuple([-1 if i == axis else 1 for i in range(rank)]))


def _differences(x: Tensor, steps: Tensor, axis: int, extent: int, edge_order: int) -> Any:
    """Differentiate, at each sample, the parabola through the sample and its two neighbours.

    At the ends, differentiate the line through the last two samples, or, if `edge_order` is 2, the parabola through the
    last three.
    """

    def part(y: Any, start: int, stop: int) -> Any:
        return slice_axis(y, axis, start, stop)

    slopes = divide(diff(x, axis=axis), steps)
    pieces: list[Any] = []
    first, last = part(slopes, 0, 1), part(slopes, extent - 2, extent - 1)
    if extent > 2:
        before, after = part(steps, 0, extent - 2), part(steps, 1, extent - 1)
        left, right = part(slopes, 0, extent - 2), part(slopes, 1, extent - 1)
        span = add(before, after)
        inside = divide(add(multiply(left, after), multiply(right, before)), span)
        curvature = divide(subtract(right, left), span)
        pieces = [inside]
        if edge_order == 2:
            first = subtract(first, multiply(part(curvature, 0, 1), part(steps, 0, 1)))
            end = multiply(
                part(curvature, extent - 3, extent - 2), part(steps, extent - 2, extent - 1)
            )
            last = add(last, end)
    return concat([first, *pieces, last], axis=axis)


def unwrap(
    p: ArrayLike, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi
) -> Any:
    """Add multiples of the period to p, so that neighbours along `axis` differ by at most half a period.

    Args:
        discont: the smallest difference of neighbours that is corrected. None, and all smaller values, stand for half a
            period.
        period: the period. If p and the period are integers, the result is also an integer.

    >>> unwrap([0, 3, 1], period=4)
    array([ 0, -1, -3])
    """
    x = as_operand(p)
    axis = normalize_axis("unwrap", axis, len(x.shape))
    dtype = result_type(x, period)
    x = convert(x, dtype)
    if is_static(x.shape[axis]) and x.shape[axis] == 0:
        return x
    steps = diff(x, axis=axis)
    high = period / 2 if dtype.is_inexact else period // 2
    is_ambiguous = dtype.is_inexact or period % 2 == 0
    low = -high
    folded = add(remainder(subtract(steps, low), period), low)
    if is_ambiguous:
        at_edge = logical_and(equal(folded, low), greater(steps, 0))
        folded = where(at_edge, high, folded)
    shift = subtract(folded, steps)
    jump = period / 2 if discont is None else discont
    shift = where(less(abs(steps), jump), 0, shift)
    first = slice_axis(x, axis, 0, 1)
    rest = add(slice_axis(x, axis, 1, x.shape[axis]), cumsum(shift, axis))
    return concat([first, convert(rest, dtype)], axis=axis)


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Any:
    """Integrate samples y along `axis` by the trapezoidal rule: the sum of (y[i] + y[i + 1]) / 2 * (x[i + 1] - x[i]).

    Args:
        x: the coordinates of the samples, as a vector along `axis` or an array of y's shape.
        dx: the distance between neighbouring samples, used if x is None.

    >>> trapezoid([1.0, 2.0, 3.0]), trapezoid([1.0, 2.0], [0.0, 4.0])
    (array(4.), array(6.))
    """
    samples = as_operand(y)
    axis = normalize_axis("trapezoid", axis, len(samples.shape))
    extent = samples.shape[axis]
    step = 0 if is_static(extent) and extent == 0 else 1
    pairs = add(
        slice_axis(samples, axis, step, extent), slice_axis(samples, axis, 0, extent - step)
    )
    if x is None:
        steps = dx if isinstance(dx, int | float) else as_operand(dx)
    else:
        places = as_operand(x)
        steps = diff(places, axis=axis if len(places.shape) > 1 else 0)
        if len(places.shape) == 1:
            steps = _on_axis(steps, axis, len(samples.shape))
    return sum(divide(multiply(pairs, steps), 2.0), axis=axis)


# ---- interpolation and polynomials -------------------------------------------------------------------------------


def interp(
    x: Any,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | None = None,
    right: ArrayLike | None = None,
    period: ArrayLike | None = None,
) -> Any:
    """Evaluate the piecewise linear function through the points (xp, fp) at x.

    The result is differentiable with respect to x, xp and fp.

    Args:
        xp: the coordinates of the points, in ascending order, or in any order if `period` is set. Where several
            coordinates are equal, the last point is used.
        fp: the value at each coordinate.
        left, right: the results for x below xp[0] and above xp[-1]; by default fp[0] and fp[-1].
        period: the period of a periodic function. If it is set, `left` and `right` have no effect.

    Raises:
        ShapeError: xp and fp are not vectors of equal extent, or are empty.
        DTypeError: x or xp is complex.
        InvalidConfigError: the period is zero.

    >>> interp([0.5, 3.0], [0.0, 1.0, 2.0], [0.0, 10.0, 30.0])
    array([ 5., 30.])
    """
    x, places, values = _in_inexact(x), _in_inexact(xp), _in_inexact(fp)
    if len(places.shape) != 1 or tuple(places.shape) != tuple(values.shape) or places.shape[0] == 0:
        raise ShapeError(f"interp: xp {spec_of(places)} and fp {spec_of(values)} are not points")
    dtype = result_type(x, places, DType.F64)
    if dtype.is_complex:
        raise DTypeError("interp: x and xp must be real numbers")
    x, places = convert(x, dtype), convert(places, dtype)
    values = convert(values, DType.C64 if spec_of(values).dtype.is_complex else DType.F64)
    if period is not None:
        x, places, values = _extended_period(x, places, values, period)
        left = right = None
    count = places.shape[0]
    if count == 1:
        inside = broadcast_to(take(values, 0, axis=0), x.shape)
    else:
        above = searchsorted(places, x, "right")
        above = where(less(above, 1), 1, where(greater(above, count - 1), count - 1, above))
        x0, x1 = take(places, above - 1, axis=0), take(places, above, axis=0)
        y0, y1 = take(values, above - 1, axis=0), take(values, above, axis=0)
        inside = _on_segment(x, (x0, y0), (x1, y1))
    low = take(values, 0, axis=0) if left is None else left
    high = take(values, count - 1, axis=0) if right is None else right
    result = where(less(x, take(places, 0, axis=0)), low, inside)
    result = where(greater(x, take(places, count - 1, axis=0)), high, result)
    return where(isnan(x), x, result)


def _on_segment(x: Tensor, low: tuple[Any, Any], high: tuple[Any, Any]) -> Any:
    """Evaluate at x the line through two points, each given as (coordinate, value).

    If x equals the coordinate of a point, the result is exactly the value of that point.
    """
    (x0, y0), (x1, y1) = low, high
    # Start the line at the point whose coordinate equals x, or else at the finite point: an infinite coordinate minus
    # itself would be NaN.
    is_infinite = logical_or(isinf(x0), isinf(y0))
    from_high = logical_or(equal(x, x1), logical_and(is_infinite, not_equal(x, x0)))
    x_near, y_near = where(from_high, x1, x0), where(from_high, y1, y0)
    is_step = equal(x0, x1)
    run, rise = where(is_step, 1.0, subtract(x1, x0)), subtract(y1, y0)
    is_near = logical_or(equal(x, x_near), equal(y0, y1))
    has_none = logical_or(is_step, logical_and(is_near, logical_not(isfinite(divide(rise, run)))))
    slope = divide(where(has_none, 0.0, rise), run)
    return add(y_near, multiply(slope, subtract(x, x_near)))


def _extended_period(
    x: Tensor, places: Tensor, values: Tensor, period: ArrayLike
) -> tuple[Any, Any, Any]:
    """Move all points into one period, sort them, and add at each end the nearest point of the adjacent period."""
    if isinstance(period, int | float) and period == 0:
        raise InvalidConfigError("interp: a period must not be zero")
    size = abs(period)
    x, places = remainder(x, size), remainder(places, size)
    order = argsort(places)
    places, values = take(places, order, axis=0), take(values, order, axis=0)
    count = places.shape[0]
    first, last = slice_axis(places, 0, 0, 1), slice_axis(places, 0, count - 1, count)
    places = concat([subtract(last, size), places, add(first, size)])
    ends = slice_axis(values, 0, count - 1, count), slice_axis(values, 0, 0, 1)
    return x, places, concat([ends[0], values, ends[1]])


def polyval(p: ArrayLike, x: ArrayLike) -> Any:
    """Evaluate the polynomial p_0 x^(n-1) + .. + p_(n-1) at x, by Horner's rule.

    Raises:
        ShapeError: p is not a vector.
        NonStaticShapeError: the extent of p is not a number.

    >>> polyval([3, 0, 1], 2)
    array(13)
    """
    coefficients, x = as_operand(p), as_operand(x)
    if len(coefficients.shape) != 1:
        raise ShapeError(f"polyval: coefficients must be a vector, got {spec_of(coefficients)}")
    if not is_static(coefficients.shape[0]):
        raise NonStaticShapeError(f"polyval: {spec_of(coefficients)} has no known extent")
    result = zeros_like(x)
    for i in range(coefficients.shape[0]):
        result = add(multiply(result, x), take(coefficients, i, axis=0))
    return result


# ---- convolution -------------------------------------------------------------------------------------------------


def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full") -> Any:
    """Convolve two vectors: y[k] = sum over i of a[i] v[k - i].

    Args:
        mode: the range of k. "full" returns all k where the vectors overlap. "same" returns the middle of that range,
            as many k as the longer vector has elements. "valid" returns the k where the vectors overlap completely.

    For bools, y[k] is true if any of its products is true.

    Raises:
        ShapeError: an operand is not a vector, or is empty.
        InvalidConfigError: `mode` is none of these three.
        NonStaticShapeError: an extent is not a number.

    >>> convolve([1, 2, 3], [0, 1])
    array([0, 1, 2, 3])
    """
    lhs, rhs = _vectors("convolve", a, v, mode)
    if rhs.shape[0] > lhs.shape[0]:
        lhs, rhs = rhs, lhs
    return _sliding_products(lhs, rhs, _edge_padding("convolve", mode, rhs.shape[0]))


def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid") -> Any:
    """Correlate two vectors: y[k] = sum over i of a[i + k] conj(v[i]); `convolve` describes modes and errors.

    >>> correlate([1, 2, 3], [0, 1], "full")
    array([1, 2, 3, 0])
    """
    lhs, rhs = _vectors("correlate", a, v, mode)
    if rhs.shape[0] > lhs.shape[0]:
        return flip(conj(correlate(rhs, lhs, mode)))
    return _sliding_products(lhs, flip(conj(rhs)), _edge_padding("correlate", mode, rhs.shape[0]))


def _vectors(name: str, a: ArrayLike, v: ArrayLike, mode: str) -> tuple[Any, Any]:
    if mode not in ("full", "same", "valid"):
        raise InvalidConfigError(f'{name}: mode must be "full", "same" or "valid", got {mode!r}')
    dtype = result_type(as_operand(a), as_operand(v))
    lhs, rhs = convert(as_operand(a), dtype), convert(as_operand(v), dtype)
    for x in (lhs, rhs):
        if len(x.shape) != 1 or x.shape[0] == 0:
            raise ShapeError(f"{name}: takes vectors with elements, got {spec_of(x)}")
        if not is_static(x.shape[0]):
            raise NonStaticShapeError(f"{name}: {spec_of(x)} has no known extent")
    return lhs, rhs


def _edge_padding(name: str, mode: str, length: int) -> tuple[int, int]:
    """Return the numbers of zeros to add before and after the longer operand of a convolution."""
    if mode == "full":
        return length - 1, length - 1
    if mode == "valid":
        return 0, 0
    before = length // 2
    return before, length - 1 - before


def _sliding_products(lhs: Tensor, rhs: Tensor, padding: tuple[int, int]) -> Any:
    if spec_of(lhs).dtype.is_bool:
        # Count the true products in 64 bits. In a narrow dtype, a count could overflow to 0, which means false.
        counts = _sliding_products(convert(lhs, DType.I64), convert(rhs, DType.I64), padding)
        return convert(counts, DType.Bool)
    op = Convolution(
        window_strides=(1,), padding=(padding,), lhs_dilation=(1,), rhs_dilation=(1,), window_reversal=(True,),
        input_batch=0, input_feature=1, input_spatial=(2,), kernel_input_feature=0, kernel_output_feature=1,
        kernel_spatial=(2,), output_batch=0, output_feature=1, output_spatial=(2,),
    )  # fmt: skip
    wide = apply_one(op, expand_dims(lhs, (0, 1)), expand_dims(rhs, (0, 1)))
    return reshape(wide, (-1,))


# ---- progressions ------------------------------------------------------------------------------------------------


def logspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, base: ArrayLike = 10.0, dtype: DTypeLike | None = None, axis: int = 0,
    *, like: Tensor | None = None,
) -> Any:  # fmt: skip
    """Return `num` numbers from base^start to base^stop with a constant ratio; `linspace` describes the arguments.

    >>> logspace(0, 2, 3)
    array([  1.,  10., 100.])
    """
    points = linspace(start, stop, num, endpoint, axis=axis, like=like)
    base = base if isinstance(base, int | float) else expand_dims(as_operand(base), axis)
    powers = pow(base, points)
    return powers if dtype is None else convert(powers, DType.of(dtype))


def geomspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None, axis: int = 0, *, like: Tensor | None = None
) -> Any:  # fmt: skip
    """Return `num` numbers from `start` to `stop` with a constant ratio; `linspace` describes the arguments.

    If the bounds have different signs, the numbers are NaN, because no real ratio connects them.

    Raises:
        DTypeError: a bound is complex.
        InvalidConfigError: a bound is zero. Elements of traced tensors are not checked.

    >>> geomspace(1, 100, 3), geomspace(-1, -4, 3)
    (array([  1.,  10., 100.]), array([-1., -2., -4.]))
    """
    low, high = (_in_inexact(bound) for bound in (start, stop))
    common = result_type(low, high)
    if common.is_complex:
        raise DTypeError(f"geomspace: takes real bounds, got {common}")
    for bound in (low, high):
        if isinstance(bound, np.ndarray | np.generic) and not np.all(bound):
            raise InvalidConfigError("geomspace: a bound must not be zero")
    ends = log10(abs(low)), log10(abs(high))
    powers = linspace(*ends, num, endpoint, like=like)
    signs = where(equal(sign(low), sign(high)), sign(low), math.nan)
    signs = broadcast_to(signs, powers.shape[1:])
    points = multiply(pow(10.0, powers), signs)
    points = _with_ends(points, low, high, num, endpoint)
    points = points if dtype is None else convert(points, DType.of(dtype))
    return moveaxis(points, 0, axis) if axis != 0 else points


def _with_ends(points: Tensor, low: Tensor, high: Tensor, num: int, endpoint: bool) -> Any:
    """Replace the first point by `low` and, if `endpoint`, the last by `high`, because they have rounding errors."""
    if num < 1:
        return points
    shape = (1, *points.shape[1:])
    first, last = (broadcast_to(convert(x, spec_of(points).dtype), shape) for x in (low, high))
    if num == 1:
        return as_constant_of(points, first)
    if not endpoint:
        return concat([first, slice_axis(points, 0, 1, num)])
    return concat([first, slice_axis(points, 0, 1, num - 1), last])
