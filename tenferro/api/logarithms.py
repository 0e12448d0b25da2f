"""Logarithms of sums of exponentials, whose values and derivatives are also correct for infinite elements.

If several elements equal an infinite maximum, they share the derivative equally, so that the derivatives sum to 1. The
usual formulas would compute inf - inf, which is NaN.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Unpack

from tenferro.api.arguments import refuse_options
from tenferro.api.axes import normalize_axes
from tenferro.api.custom import custom_jvp
from tenferro.api.elementwise import (
    abs,
    add,
    divide,
    equal,
    exp,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    logical_and,
    logistic,
    maximum,
    multiply,
    negative,
    subtract,
    where,
)
from tenferro.api.manipulation import reshape
from tenferro.api.promotion import as_inexact, convert, inexact_dtype, promote, result_type
from tenferro.api.reductions import Axis, max, sum
from tenferro.dims import is_static
from tenferro.dispatch import as_operand, is_traced, spec_of, stop_gradient
from tenferro.errors import DTypeError
from tenferro.types import ArrayLike, Tensor, UfuncOptions

__all__ = ["in_one_float", "largest", "log_softmax", "logaddexp", "logsumexp", "shares", "softmax"]


def logaddexp(
    x1: ArrayLike, x2: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]
) -> Any:
    """log(exp(x1) + exp(x2)) without overflow.

    Raises:
        DTypeError: an operand is complex.
    """
    refuse_options("logaddexp", options, out)
    lhs, rhs = in_one_float("logaddexp", x1, x2)
    dtype = spec_of(lhs).dtype
    wide = _logaddexp(convert(lhs, dtype.accumulator), convert(rhs, dtype.accumulator))
    return convert(wide, dtype)


def in_one_float(name: str, *xs: ArrayLike) -> tuple[Any, ...]:
    """Convert the operands to their common float dtype, and broadcast them.

    Raises:
        DTypeError: an operand is complex.
    """
    dtype = inexact_dtype(result_type(*xs))
    if dtype.is_complex:
        specs = ", ".join([str(spec_of(as_operand(x))) for x in xs])
        raise DTypeError(f"{name}: takes real numbers, got {specs}")
    return tuple(promote(*xs, dtype=dtype))


@custom_jvp
def _logaddexp(lhs: Tensor, rhs: Tensor) -> Any:
    large, difference = maximum(lhs, rhs), subtract(lhs, rhs)
    finite = add(large, log1p(exp(negative(abs(difference)))))
    return where(isnan(difference), add(lhs, rhs), finite)


@_logaddexp.defjvp
def _logaddexp_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return the value and its tangent.

    The tangents of the operands are weighted by logistic functions of their difference; at equal infinities, by 1/2
    each.
    """
    (lhs, rhs), (lhs_dot, rhs_dot) = primals, tangents
    tie = logical_and(equal(lhs, rhs), isinf(lhs))
    difference = subtract(where(tie, 0.0, lhs), where(tie, 0.0, rhs))
    share, rest = logistic(difference), logistic(negative(difference))
    return _logaddexp(lhs, rhs), add(multiply(share, lhs_dot), multiply(rest, rhs_dot))


def largest(name: str, x: Tensor, axis: Axis) -> Any:
    """Return the maximum over `axis`, which is kept with extent 1. If there are no elements, it is -inf.

    Raises:
        DTypeError: x is complex. AxisError: an axis is outside the rank.
    """
    if spec_of(x).dtype.is_complex:
        raise DTypeError(f"{name}: takes real numbers, got {spec_of(x)}")
    axes = normalize_axes(name, axis, len(x.shape))
    has_elements = all([is_static(x.shape[i]) and x.shape[i] > 0 for i in axes])
    return max(x, axis=axes, keepdims=True, initial=None if has_elements else -math.inf)


def logsumexp(x: ArrayLike, /, axis: Axis = None, keepdims: bool = False) -> Any:
    """Return log(sum of e^x) over `axis` without overflow. It is -inf if all elements are -inf or there are none.

    Raises:
        DTypeError: x is complex. AxisError: an axis is outside the rank.
    """
    x = as_inexact(x)
    dtype = spec_of(x).dtype
    total = _logsumexp("logsumexp", convert(x, dtype.accumulator), axis, keepdims)
    return convert(total, dtype)


def _logsumexp(name: str, x: Tensor, axis: Axis, keepdims: bool) -> Any:
    if spec_of(x).dtype.is_complex:
        raise DTypeError(f"{name}: takes real numbers, got {spec_of(x)}")
    axes = normalize_axes(name, axis, len(x.shape))
    total = _kept_logsumexp(x, axes)
    if keepdims:
        return total
    return reshape(total, tuple(n for i, n in enumerate(x.shape) if i not in axes))


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _kept_logsumexp(x: Tensor, axes: tuple[int, ...]) -> Any:
    """Compute log(sum(e^x)) over axes that are kept with extent 1."""
    top, shift, powers = _shifted_powers(x, axes)
    total = add(log(sum(powers, axis=axes, keepdims=True)), shift)
    return where(isinf(top), top, total)


@_kept_logsumexp.defjvp
def _kept_logsumexp_jvp(
    axes: tuple[int, ...], primals: Sequence[Any], tangents: Sequence[Any]
) -> Any:
    """Return the logarithm and its tangent.

    The tangent is the sum of x_dot e^x divided by the sum of e^x. At an infinite maximum, it is the mean of x_dot over
    the elements that equal the maximum.
    """
    (x,), (x_dot,) = primals, tangents
    weights = shares(x, axes)
    y_dot = sum(multiply(weights, x_dot), axis=axes, keepdims=True)
    if not any([is_static(x.shape[i]) and x.shape[i] == 0 for i in axes]):
        y_dot = divide(y_dot, sum(weights, axis=axes, keepdims=True))
    return _kept_logsumexp(x, axes), y_dot


def shares(x: Tensor, axes: tuple[int, ...]) -> Any:
    """Return e^(x - max), to which softmax is proportional; at an infinite maximum, 1 where x equals it and else 0."""
    top, _, powers = _shifted_powers(x, axes)
    return where(isinf(top), convert(equal(x, top), spec_of(x).dtype), powers)


def _shifted_powers(x: Tensor, axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Return the maximum over `axes`, the shift, and e^(x - shift).

    The shift is the maximum if it is finite, otherwise 0.
    """
    top = stop_gradient(largest("logsumexp", x, axes))
    shift = where(isfinite(top), top, 0.0)
    finite = where(isinf(top), 0.0, x) if is_traced(x) else x
    return top, shift, exp(subtract(finite, shift))


def softmax(x: Any, /, axis: Axis = -1) -> Any:
    """Divide e^x by its sum along `axis`, without overflow.

    If k elements equal an infinite maximum, their results are 1 / k, and all other results are 0.

    Raises:
        DTypeError: x is complex. AxisError: an axis is outside the rank.
    """
    x = as_inexact(x)
    dtype = spec_of(x).dtype
    x = convert(x, dtype.accumulator)
    top = stop_gradient(largest("softmax", x, axis))
    infinite = isinf(top)
    finite = where(infinite, 0.0, x) if is_traced(x) else x
    differences = subtract(finite, where(infinite, 0.0, top))
    winners = convert(equal(x, top), spec_of(x).dtype)
    powers = where(infinite, winners, exp(differences))
    return convert(divide(powers, sum(powers, axis=axis, keepdims=True)), dtype)


def log_softmax(x: ArrayLike, /, axis: Axis = -1) -> Any:
    """log(softmax(x)), which is also accurate where softmax(x) is small.

    Raises:
        DTypeError: x is complex. AxisError: an axis is outside the rank.
    """
    x = as_inexact(x)
    dtype = spec_of(x).dtype
    x = convert(x, dtype.accumulator)
    return convert(subtract(x, _logsumexp("log_softmax", x, axis, True)), dtype)
