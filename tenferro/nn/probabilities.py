"""Softmax and related functions, over axes and with masks.

Source: jax.nn for names and signatures.
"""

from __future__ import annotations

import math
from typing import Any

from tenferro.api import logarithms
from tenferro.api.axes import normalize_axis
from tenferro.api.creation import ones_like
from tenferro.api.elementwise import (
    divide,
    equal,
    exp,
    expm1,
    isfinite,
    less,
    log,
    log1p,
    negative,
    subtract,
)
from tenferro.api.elementwise import where as where_
from tenferro.api.manipulation import expand_dims
from tenferro.api.promotion import as_inexact, broadcast_arrays, convert
from tenferro.api.reductions import Axis, sum
from tenferro.dispatch import apply_one, as_operand, spec_of, stop_gradient
from tenferro.errors import DTypeError, InvalidConfigError
from tenferro.ops.source import Iota
from tenferro.special.sums import logsumexp, or_absent
from tenferro.types import ArrayLike, DType, DTypeLike

__all__ = ["log1mexp", "log_softmax", "logmeanexp", "logsumexp", "one_hot", "softmax"]


def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Any:
    """Divide e^x by its sum along `axis`, without overflow.

    Args:
        where: a mask; elements for which it is False are excluded, and are 0 in the result.

    >>> import numpy as np
    >>> softmax(np.zeros(2)), softmax(np.zeros(3), where=np.array([True, False, True]))
    (array([0.5, 0.5]), array([0.5, 0. , 0.5]))
    """
    if where is None:
        return logarithms.softmax(x, axis=axis)
    absent = or_absent(x, where)
    top = stop_gradient(logarithms.largest("nn.softmax", absent, axis))
    powers = exp(subtract(absent, where_(isfinite(top), top, 0.0)))
    total = sum(powers, axis=axis, keepdims=True)
    return divide(powers, where_(equal(total, 0.0), 1.0, total))


def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Any:
    """log(softmax(x)), also accurate for small probabilities. It is -inf where the mask `where` is False.

    >>> import numpy as np
    >>> log_softmax(np.array([0.0, 1000.0]))
    array([-1000.,     0.])
    """
    if where is None:
        return logarithms.log_softmax(x, axis=axis)
    absent = or_absent(x, where)
    total = logarithms.logsumexp(absent, axis=axis, keepdims=True)
    x, total = broadcast_arrays(as_inexact(x), total)
    return where_(where, subtract(x, where_(isfinite(total), total, 0.0)), -math.inf)


def logmeanexp(
    x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False
) -> Any:
    """Compute the logarithm of the mean of e^x over `axis`, without overflow.

    Args:
        where: a mask; elements for which it is False are excluded.

    >>> import numpy as np
    >>> logmeanexp(np.array([1000.0, 1000.0]))
    array(1000.)
    """
    x = as_inexact(x)
    is_present = ones_like(x) if where is None else where_(where, ones_like(x), 0.0)
    count = sum(is_present, axis=axis, keepdims=keepdims)
    return subtract(logsumexp(x, axis, keepdims=keepdims, where=where), log(count))


def one_hot(
    x: ArrayLike, num_classes: int, *, dtype: DTypeLike | None = None, axis: int = -1
) -> Any:
    """Return a tensor with 1 at index x along a new axis, and 0 elsewhere. An index out of range has only zeros.

    Args:
        num_classes: the extent of the new axis.
        dtype: float64 by default.
        axis: the position of the new axis in the result.

    Raises:
        DTypeError: x is not an integer.
        InvalidConfigError: `num_classes` is negative.

    >>> import numpy as np
    >>> one_hot(np.array([1, 3]), 3)
    array([[0., 1., 0.],
           [0., 0., 0.]])
    """
    x = as_operand(x)
    spec = spec_of(x)
    if not spec.dtype.is_integer:
        raise DTypeError(f"nn.one_hot: x must be integers, got {spec}; convert it with astype")
    if type(num_classes) is int and num_classes < 0:
        raise InvalidConfigError(f"nn.one_hot: num_classes must be at least 0, got {num_classes}")
    new_axis = normalize_axis("nn.one_hot", axis, len(x.shape) + 1)
    shape: list[Any] = [1] * (len(x.shape) + 1)
    shape[new_axis] = num_classes
    kind = DType.U64 if spec.dtype is DType.U64 else DType.I64
    counts = apply_one(Iota(tuple(shape), new_axis, kind), like=x)
    is_there = equal(expand_dims(convert(x, kind), axis=new_axis), counts)
    return convert(is_there, DType.F64 if dtype is None else DType.of(dtype))


def log1mexp(x: ArrayLike) -> Any:
    """Return log(1 - e^-x) for x >= 0, accurate for small and large x; NaN for negative x.

    Raises:
        DTypeError: x is complex.

    >>> import numpy as np
    >>> log1mexp(np.array([1e-20, 50.0]))
    array([-4.60517019e+01, -1.92874985e-22])

    Source: Maechler, "Accurately computing log(1 - exp(-|a|))", 2012.
    """
    operand = as_inexact(x)
    if spec_of(operand).dtype.is_complex:
        raise DTypeError(f"nn.log1mexp: takes real numbers, got {spec_of(operand)}")
    is_small = less(operand, math.log(2))
    # Both formulas are computed everywhere. Where a formula is not selected, its argument is replaced by a number at
    # which its derivative is finite.
    small = log(negative(expm1(negative(where_(is_small, operand, 1.0)))))
    large = log1p(negative(exp(negative(where_(is_small, 1.0, operand)))))
    return where_(is_small, small, large)
