"""Logarithms of sums of exponentials, and softmax."""

from __future__ import annotations

import math
from typing import Any

from tenferro.api import logarithms
from tenferro.api.creation import ones_like
from tenferro.api.elementwise import (
    abs,
    add,
    exp,
    isfinite,
    log,
    multiply,
    not_equal,
    real,
    sign,
    subtract,
)
from tenferro.api.elementwise import where as where_
from tenferro.api.manipulation import squeeze
from tenferro.api.promotion import as_inexact, promote
from tenferro.api.reductions import sum
from tenferro.dispatch import spec_of, stop_gradient
from tenferro.types import ArrayLike, Axis, Tensor

__all__ = ["log_softmax", "logsumexp", "softmax"]


def softmax(x: ArrayLike, /, *, axis: Axis = None) -> Any:
    """Divide e^x by its sum along `axis`, without overflow. By default, the sum is over all elements, as in SciPy.

    >>> softmax([[0.0, 0.0], [0.0, 0.0]])
    array([[0.25, 0.25],
           [0.25, 0.25]])
    """
    return logarithms.softmax(x, axis=axis)


def log_softmax(x: ArrayLike, /, *, axis: Axis = None) -> Any:
    """Compute the logarithm of `softmax`, also accurately for small probabilities.

    By default, it sums over all elements.

    >>> log_softmax([0.0, 1000.0])
    array([-1000.,     0.])
    """
    return logarithms.log_softmax(x, axis=axis)


def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """Return the logarithm of the sum of b e^a over `axis`, without overflow. For an empty sum it is -inf.

    Args:
        b: factors, by default 1. An element with factor 0 is excluded from the sum.
        return_sign: whether to return the logarithm of the magnitude of the sum, and its sign. Otherwise the result is
            NaN if the sum is negative.
        where: a mask; elements for which it is False are excluded from the sum.

    The logarithm of a complex sum has an imaginary part within +-pi. The sign of a complex sum is the sum divided by
    its magnitude.

    >>> import numpy as np
    >>> logsumexp(np.array([1000.0, 1000.0]), b=np.array([2.0, 1.0]))
    array(1001.09861229)
    """
    x = as_inexact(a)
    if where is not None:
        x = or_absent(x, where)
    is_complex = spec_of(x).dtype.is_complex
    if b is None and not is_complex:
        total = logarithms.logsumexp(x, axis=axis, keepdims=keepdims)
        return (total, sign(ones_like(total))) if return_sign else total
    x, factors = promote(x, 1.0 if b is None else b)
    x = where_(not_equal(factors, 0), x, -math.inf)
    top = stop_gradient(logarithms.largest("nn.logsumexp", real(x), axis))
    shift = where_(isfinite(top), top, 0.0)
    total = sum(multiply(factors, exp(subtract(x, shift))), axis=axis, keepdims=keepdims)
    if not keepdims:
        shift = squeeze(shift, axis=None if axis is None else axis)
    if return_sign:
        return add(log(abs(total)), shift), sign(total)
    return add(log(total), shift)


def or_absent(x: ArrayLike, where: ArrayLike) -> Tensor:
    """Return x with -inf in place of elements for which the mask `where` is False."""
    return where_(where, as_inexact(x), -math.inf)
