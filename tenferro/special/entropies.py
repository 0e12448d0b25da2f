"""Functions such as x log(x), which are 0 at x = 0; and the logistic function with its inverse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tenferro.api.custom import custom_jvp
from tenferro.api.elementwise import (
    abs,
    add,
    atanh,
    divide,
    equal,
    greater,
    isnan,
    less,
    log,
    log1p,
    logical_and,
    logical_not,
    logistic,
    multiply,
    negative,
    subtract,
    where,
)
from tenferro.special.operands import in_reals
from tenferro.types import ArrayLike, Tensor

__all__ = ["entr", "expit", "kl_div", "logit", "rel_entr", "xlog1py", "xlogy"]


def expit(x: ArrayLike) -> Any:
    """Compute the logistic function 1 / (1 + e^-x), within 4 ulps.

    Raises:
        DTypeError: x is complex.

    >>> expit(0.0)
    array(0.5)
    """
    return in_reals("expit", logistic, x)


def logit(x: ArrayLike) -> Any:
    """log(x / (1 - x)), the inverse of `expit`, within 4 ulps; NaN outside 0 <= x <= 1.

    Raises:
        DTypeError: x is complex.

    >>> logit([0.0, 0.5, 1.0])
    array([-inf,   0.,  inf])
    """
    return in_reals("logit", _logit, x)


@custom_jvp
def _logit(x: Tensor) -> Any:
    # Near x = 1/2 the quotient is near 1, and its logarithm would lose digits. There 2 x - 1 is exact, so atanh is
    # used.
    is_middle = less(abs(subtract(x, 0.5)), 0.25)
    middle = atanh(where(is_middle, subtract(multiply(x, 2.0), 1.0), 0.0))
    outer = where(is_middle, 0.75, x)
    return where(is_middle, multiply(middle, 2.0), log(divide(outer, subtract(1.0, outer))))


@_logit.defjvp
def _logit_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (x_dot,) = primals, tangents
    return _logit(x), multiply(x_dot, add(divide(1.0, x), divide(1.0, subtract(1.0, x))))


def xlogy(x: ArrayLike, y: ArrayLike) -> Any:
    """Compute x log(y), within 2 ulps; the result is 0 where x is 0 and y is not NaN.

    Where x is 0, the derivative in y is also 0.

    Raises:
        DTypeError: an operand is complex.

    >>> xlogy([0.0, 2.0], [0.0, 1.0])
    array([0., 0.])
    """
    return in_reals("xlogy", _xlogy, x, y)


def _unless_zero(x: Tensor, y: Tensor, product: Any) -> Any:
    """Return `product`. Where x is 0 and y is not NaN, return 0 instead."""
    return where(logical_and(equal(x, 0.0), logical_not(isnan(y))), 0.0, product)


@custom_jvp
def _xlogy(x: Tensor, y: Tensor) -> Any:
    return _unless_zero(x, y, multiply(x, log(y)))


@_xlogy.defjvp
def _xlogy_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x, y), (x_dot, y_dot) = primals, tangents
    slope = _unless_zero(x, y, divide(x, y))
    return _xlogy(x, y), add(multiply(x_dot, log(y)), multiply(y_dot, slope))


def xlog1py(x: ArrayLike, y: ArrayLike) -> Any:
    """Compute x log(1 + y), within 2 ulps; the result is 0 where x is 0 and y is not NaN.

    Where x is 0, the derivative in y is also 0.

    Raises:
        DTypeError: an operand is complex.

    >>> xlog1py([0.0, 1.0], [-1.0, 1e-20])
    array([0.e+00, 1.e-20])
    """
    return in_reals("xlog1py", _xlog1py, x, y)


@custom_jvp
def _xlog1py(x: Tensor, y: Tensor) -> Any:
    return _unless_zero(x, y, multiply(x, log1p(y)))


@_xlog1py.defjvp
def _xlog1py_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x, y), (x_dot, y_dot) = primals, tangents
    slope = _unless_zero(x, y, divide(x, add(y, 1.0)))
    return _xlog1py(x, y), add(multiply(x_dot, log1p(y)), multiply(y_dot, slope))


def entr(x: ArrayLike) -> Any:
    """Compute the entropy -x log(x), within 2 ulps. It is 0 at 0, and -inf for negative x.

    Raises:
        DTypeError: x is complex.

    >>> entr([-1.0, 0.0, 0.5])
    array([      -inf, 0.        , 0.34657359])
    """
    return in_reals("entr", _entr, x)


@custom_jvp
def _entr(x: Tensor) -> Any:
    return where(less(x, 0.0), -math.inf, _unless_zero(x, x, multiply(negative(x), log(x))))


@_entr.defjvp
def _entr_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (x_dot,) = primals, tangents
    return _entr(x), multiply(x_dot, subtract(-1.0, log(x)))


def rel_entr(p: ArrayLike, q: ArrayLike) -> Any:
    """Compute the relative entropy p log(p / q), within 4 ulps, for p > 0 and q > 0.

    The result is 0 where p is 0 and q >= 0, and inf for other arguments.

    Raises:
        DTypeError: an operand is complex.

    >>> rel_entr([0.0, 1.0, 1.0], [0.0, 1.0, 0.0])
    array([ 0.,  0., inf])
    """
    return in_reals("rel_entr", _rel_entr, p, q)


def _log_quotient(p: Tensor, q: Tensor) -> Any:
    """log(p / q) for positive p and q, accurate also where p is close to q and where p / q overflows."""
    ratio = divide(p, q)
    is_close = less(abs(subtract(ratio, 1.0)), 0.5)
    close = log1p(where(is_close, divide(subtract(p, q), q), 0.0))
    is_normal = logical_and(greater(ratio, 1e-30), less(ratio, 1e30))
    far = where(is_normal, log(where(is_normal, ratio, 1.0)), subtract(log(p), log(q)))
    return where(is_close, close, far)


def _within(p: Tensor, q: Tensor, inside: Any, at_zero: Any) -> Any:
    """Select `inside` where p > 0 and q > 0, `at_zero` where p = 0 and q >= 0, NaN where p or q is NaN, else inf."""
    is_inside = logical_and(greater(p, 0.0), greater(q, 0.0))
    is_zero = logical_and(equal(p, 0.0), logical_not(less(q, 0.0)))
    # The order ensures that each `where` has a tensor operand: with two Python numbers its dtype would be float64.
    values = where(is_zero, at_zero, where(is_inside, inside, math.inf))
    return where(isnan(add(abs(p), abs(q))), math.nan, values)


@custom_jvp
def _rel_entr(p: Tensor, q: Tensor) -> Any:
    return _within(p, q, multiply(p, _log_quotient(p, q)), 0.0)


@_rel_entr.defjvp
def _rel_entr_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (p, q), (p_dot, q_dot) = primals, tangents
    by_p = multiply(p_dot, add(_log_quotient(p, q), 1.0))
    by_q = multiply(q_dot, _unless_zero(p, q, divide(p, q)))
    return _rel_entr(p, q), subtract(by_p, by_q)


def kl_div(p: ArrayLike, q: ArrayLike) -> Any:
    """Compute the Kullback-Leibler term p log(p / q) - p + q; it is q where p is 0, and inf outside p >= 0, q > 0.

    The error is at most 4 ulps of the largest term.

    Raises:
        DTypeError: an operand is complex.

    >>> kl_div([0.0, 1.0, 1.0], [2.0, 1.0, 0.0])
    array([ 2.,  0., inf])
    """
    return in_reals("kl_div", _kl_div, p, q)


@custom_jvp
def _kl_div(p: Tensor, q: Tensor) -> Any:
    inside = add(subtract(multiply(p, _log_quotient(p, q)), p), q)
    return _within(p, q, inside, q)


@_kl_div.defjvp
def _kl_div_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (p, q), (p_dot, q_dot) = primals, tangents
    by_q = divide(subtract(q, p), q)
    return _kl_div(p, q), add(multiply(p_dot, _log_quotient(p, q)), multiply(q_dot, by_q))
