"""Activation functions, with right values and derivatives at 0, for large arguments and at infinities.

Many functions have the form x gate(x), with a gate from 0 to 1. Where the gate rounds to 0 or 1, these functions return
0 or x. In this way they never multiply infinity by 0, which would be NaN.

Source: jax.nn for names, signatures and formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes

from tenferro.api.axes import normalize_axis
from tenferro.api.elementwise import (
    abs,
    add,
    clip,
    divide,
    expm1,
    greater,
    greater_equal,
    hypot,
    isinf,
    less,
    less_equal,
    logical_or,
    logistic,
    multiply,
    negative,
    sign,
    sqrt,
    square,
    tanh,
    where,
)
from tenferro.api.logarithms import logaddexp
from tenferro.api.manipulation import split
from tenferro.api.promotion import convert, inexact_dtype
from tenferro.dims import is_static
from tenferro.dispatch import as_operand, copied, spec_of
from tenferro.errors import ShapeError
from tenferro.types import ArrayLike, Tensor

__all__ = [
    "celu",
    "elu",
    "glu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "identity",
    "leaky_relu",
    "log_sigmoid",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_sign",
    "softplus",
    "sparse_plus",
    "sparse_sigmoid",
    "squareplus",
    "swish",
    "tanh",
]


def _inexact(x: ArrayLike) -> Any:
    """Convert x to a tensor of the float or complex dtype in which NumPy would compute with it."""
    x = as_operand(x)
    return convert(x, inexact_dtype(spec_of(x).dtype))


def _gated(x: Tensor, gate: Callable[[Any], Any], bound: float, is_power: bool = False) -> Any:
    """x gate(x), for a gate that rounds to 0 for x <= -bound, and to 1 for x >= bound.

    Args:
        is_power: whether the gate behaves like e^x far below 0. Where e^x is not a normal number, the result is
      computed as x gate(x / 2)^2.
    """
    is_closed, is_open = less_equal(x, -bound), greater_equal(x, bound)
    inner = where(logical_or(is_closed, is_open), 0.0, x)
    info = ml_dtypes.finfo(spec_of(x).dtype.dtype)
    # `4 log(eps)` excludes arguments at which gate(x / 2) does not round to e^(x / 2), which matters for float16.
    deep = min(math.log(info.tiny), 4 * math.log(info.eps))
    half = gate(where(less(x, deep), multiply(inner, 0.5), inner) if is_power else inner)
    y = multiply(inner, half)
    y = where(less(x, deep), multiply(y, half), y) if is_power else y
    return where(is_closed, 0.0, where(is_open, x, y))


def identity(x: ArrayLike) -> Any:
    """Return x unchanged.

    >>> identity(2.0)
    array(2.)
    """
    return copied(as_operand(x))


def relu(x: ArrayLike) -> Any:
    """max(x, 0). The derivative at 0 is 0.

    Dtypes: real; the result has x's dtype.

    >>> import numpy as np
    >>> relu(np.array([-1.0, 2.0]))
    array([0., 2.])
    """
    x = as_operand(x)
    return where(less_equal(x, 0), 0, x)


def relu6(x: ArrayLike) -> Any:
    """min(max(x, 0), 6). The derivatives at 0 and at 6 are 0.

    Dtypes: real; the result has x's dtype.

    >>> import numpy as np
    >>> relu6(np.array([-1.0, 2.0, 8.0]))
    array([0., 2., 6.])
    """
    x = as_operand(x)
    return where(less_equal(x, 0), 0, where(greater_equal(x, 6), 6, x))


def sigmoid(x: ArrayLike) -> Any:
    """1 / (1 + e^-x).

    >>> sigmoid(0.0)
    array(0.5)
    """
    return logistic(x)


def silu(x: ArrayLike) -> Any:
    """x / (1 + e^-x), also called swish.

    >>> silu(1.0), silu(-float("inf"))
    (array(0.73105858), array(0.))
    """
    return _gated(_inexact(x), logistic, 1000.0, is_power=True)


swish = silu


def mish(x: ArrayLike) -> Any:
    """x tanh(softplus(x)).

    >>> mish(1.0)
    array(0.86509839)
    """
    return _gated(_inexact(x), lambda inner: tanh(softplus(inner)), 1000.0, is_power=True)


def hard_sigmoid(x: ArrayLike) -> Any:
    """relu6(x + 3) / 6.

    >>> hard_sigmoid(0.0)
    array(0.5)
    """
    return divide(relu6(add(x, 3.0)), 6.0)


def hard_silu(x: ArrayLike) -> Any:
    """x relu6(x + 3) / 6, also called hard_swish. It is 0 for x <= -3, and x for x >= 3.

    >>> hard_silu(1.0)
    array(0.66666667)
    """
    return _gated(_inexact(x), hard_sigmoid, 3.0)


hard_swish = hard_silu


def hard_tanh(x: ArrayLike) -> Any:
    """min(max(x, -1), 1). The derivatives at -1 and at 1 are 1.

    Dtypes: real; the result has x's dtype.

    >>> hard_tanh(2.0)
    array(1.)
    """
    x = as_operand(x)
    return where(greater(x, 1), 1, where(less(x, -1), -1, x))


def softplus(x: ArrayLike) -> Any:
    """log(1 + e^x), without overflow.

    >>> softplus(1000.0)
    array(1000.)
    """
    return logaddexp(x, 0.0)


def log_sigmoid(x: ArrayLike) -> Any:
    """log(sigmoid(x)), without overflow.

    >>> log_sigmoid(-1000.0)
    array(-1000.)
    """
    return negative(softplus(negative(x)))


def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Any:
    """Return x for positive x, else alpha (e^x - 1). The derivative at 0 is alpha.

    >>> elu(-1.0)
    array(-0.63212056)
    """
    x = _inexact(x)
    is_positive = greater(x, 0)
    return where(is_positive, x, multiply(alpha, expm1(where(is_positive, 0.0, x))))


def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Any:
    """Return x for positive x, else alpha (e^(x / alpha) - 1). The derivative at 0 is 1.

    >>> celu(-1.0, 2.0)
    array(-0.78693868)
    """
    x = _inexact(x)
    is_positive = greater(x, 0)
    powers = expm1(divide(where(is_positive, 0.0, x), alpha))
    return where(is_positive, x, multiply(alpha, powers))


def selu(x: ArrayLike) -> Any:
    """1.0507 elu(x, 1.6733). These constants make layers preserve mean 0 and variance 1 of their inputs.

    >>> selu(1.0)
    array(1.05070099)
    """
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return multiply(scale, elu(x, alpha))


def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Any:
    """Return x for x >= 0, else `negative_slope` x. The derivative at 0 is 1.

    >>> leaky_relu(-1.0)
    array(-0.01)
    """
    x = _inexact(x)
    is_negative = less(x, 0)
    return where(is_negative, multiply(negative_slope, where(is_negative, x, 0.0)), x)


def soft_sign(x: ArrayLike) -> Any:
    """x / (|x| + 1). The result is -1 or 1 at infinity.

    >>> soft_sign(1.0)
    array(0.5)
    """
    x = _inexact(x)
    is_infinite = isinf(x)
    finite = where(is_infinite, 0.0, x)
    return where(is_infinite, sign(x), divide(finite, add(abs(finite), 1.0)))


def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Any:
    """(x + sqrt(x^2 + b)) / 2, without cancellation for negative x.

    >>> squareplus(0.0)
    array(1.)
    """
    x = _inexact(x)
    is_negative = less(x, 0)
    size = where(is_negative, negative(x), x)
    b = convert(b, spec_of(x).dtype)
    # Both terms are halved before they are added, because the sum may overflow. The result at -|x| is b / 4 over that
    # at |x|.
    large = add(multiply(0.5, size), multiply(0.5, hypot(size, sqrt(b))))
    small = divide(multiply(0.25, b), where(is_negative, large, 1.0))
    return where(is_negative, small, large)


def sparse_plus(x: ArrayLike) -> Any:
    """Return 0 for x <= -1, x for x >= 1, and (x + 1)^2 / 4 between.

    >>> sparse_plus(0.0)
    array(0.25)
    """
    x = _inexact(x)
    inner = divide(square(add(clip(x, -1.0, 1.0), 1.0)), 4.0)
    return where(greater_equal(x, 1.0), x, inner)


def sparse_sigmoid(x: ArrayLike) -> Any:
    """min(max((x + 1) / 2, 0), 1). The derivatives at -1 and at 1 are 0.

    >>> sparse_sigmoid(0.0)
    array(0.5)
    """
    return multiply(0.5, clip(add(_inexact(x), 1.0), 0.0, 2.0))


def glu(x: Any, axis: int = -1) -> Any:
    """Multiply the first half of x along `axis` by the sigmoid of the second half.

    Raises:
        ShapeError: the extent of `axis` is odd.

    >>> import numpy as np
    >>> glu(np.array([2.0, 0.0]))
    array([1.])
    """
    x = _inexact(x)
    i = normalize_axis("nn.glu", axis, len(x.shape))
    if is_static(x.shape[i]) and x.shape[i] % 2:
        raise ShapeError(f"nn.glu: axis {i} of {spec_of(x)} has the odd extent {x.shape[i]}")
    first, second = split(x, 2, axis=i)
    return multiply(first, sigmoid(second))
