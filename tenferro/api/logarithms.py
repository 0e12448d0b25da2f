"""Logarithms of sums of exponentials: right at infinities, in value and in every derivative.

Elements that tie at an infinite maximum have equal shares, so that derivatives add up to 1
where the usual formulas give inf - inf.
"""

from __future__ import annotations

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
from tenferro.door import is_traced, spec_of, stop_gradient
from tenferro.types import ArrayLike, Tensor, UfuncOptions

__all__ = ["log_softmax", "logaddexp", "logsumexp", "softmax"]


def logaddexp(
    x1: ArrayLike, x2: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]
) -> Any:
    """log(exp(x1) + exp(x2)) without overflow."""
    refuse_options("logaddexp", options, out)
    dtype = inexact_dtype(result_type(x1, x2))
    return _logaddexp(*promote(x1, x2, dtype=dtype))


@custom_jvp
def _logaddexp(lhs: Tensor, rhs: Tensor) -> Any:
    large, difference = maximum(lhs, rhs), subtract(lhs, rhs)
    finite = add(large, log1p(exp(negative(abs(difference)))))
    return where(isnan(difference), add(lhs, rhs), finite)


@_logaddexp.defjvp
def _logaddexp_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The derivatives are logistic functions of the difference, one half at equal infinities."""
    (lhs, rhs), (lhs_dot, rhs_dot) = primals, tangents
    tie = logical_and(equal(lhs, rhs), isinf(lhs))
    difference = subtract(where(tie, 0.0, lhs), where(tie, 0.0, rhs))
    share, rest = logistic(difference), logistic(negative(difference))
    return _logaddexp(lhs, rhs), add(multiply(share, lhs_dot), multiply(rest, rhs_dot))


def logsumexp(x: ArrayLike, /, axis: Axis = None, keepdims: bool = False) -> Any:
    """The logarithm of the sum of e^x over `axis`, without overflow; -inf where all are -inf."""
    x = as_inexact(x)
    top = max(x, axis=axis, keepdims=True)
    shift = stop_gradient(where(isfinite(top), top, 0.0))
    # At an infinity the maximum is the value, and divides its derivative among its ties.
    infinite = isinf(top)
    finite = where(infinite, 0.0, x) if is_traced(x) else x
    total = add(log(sum(exp(subtract(finite, shift)), axis=axis, keepdims=True)), shift)
    total = where(infinite, top, total)
    axes = normalize_axes("logsumexp", axis, len(x.shape))
    if keepdims:
        return total
    return reshape(total, tuple(n for i, n in enumerate(x.shape) if i not in axes))


def softmax(x: Any, /, axis: Axis = -1) -> Any:
    """e^x over its sum along `axis`, without overflow; at an infinite maximum its ties share equally."""
    x = as_inexact(x)
    top = stop_gradient(max(x, axis=axis, keepdims=True))
    infinite = isinf(top)
    finite = where(infinite, 0.0, x) if is_traced(x) else x
    differences = subtract(finite, where(infinite, 0.0, top))
    winners = convert(equal(x, top), spec_of(x).dtype)
    powers = where(infinite, winners, exp(differences))
    return divide(powers, sum(powers, axis=axis, keepdims=True))


def log_softmax(x: ArrayLike, /, axis: Axis = -1) -> Any:
    """log(softmax(x)), accurate also for small probabilities."""
    x = as_inexact(x)
    return subtract(x, logsumexp(x, axis=axis, keepdims=True))
