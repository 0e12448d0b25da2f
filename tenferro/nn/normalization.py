"""Normalisation and dropout as plain functions of tensors.

Source: jax.nn for `standardize`; Ba et al. (2016), Ioffe and Szegedy (2015) and Srivastava et al. (2014).
"""

from __future__ import annotations

from typing import Any

from tenferro.api import random
from tenferro.api.axes import normalize_axes, normalize_axis
from tenferro.api.creation import zeros_like
from tenferro.api.elementwise import add, clip, divide, multiply, rsqrt, square, subtract
from tenferro.api.elementwise import where as where_
from tenferro.api.manipulation import reshape
from tenferro.api.promotion import as_inexact, broadcast_to, convert
from tenferro.api.reductions import Axis, sum
from tenferro.api.reductions import mean as mean_over
from tenferro.dispatch import as_operand, copied, spec_of
from tenferro.errors import InvalidConfigError, ShapeError
from tenferro.types import ArrayLike, Tensor

__all__ = ["batch_norm", "dropout", "layer_norm", "standardize"]


def _mean(x: Tensor, axis: Axis, where: Any) -> Any:
    """Compute the mean over `axis`, which is kept with extent 1. A mask `where` selects the elements."""
    if where is None:
        return mean_over(x, axis=axis, keepdims=True)
    mask = broadcast_to(where, x.shape)
    total = sum(where_(mask, x, 0.0), axis=axis, keepdims=True)
    return divide(total, sum(convert(mask, spec_of(x).dtype), axis=axis, keepdims=True))


def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: Any = 1e-5,
    where: Any = None,
    *,
    algorithm: str = "fast",
) -> Any:
    """(x - mean) / sqrt(variance + epsilon). By default, mean and variance are computed from x over `axis`.

    Args:
        where: a mask; elements for which it is False are excluded from the mean and the variance.
        algorithm: "fast" computes the variance as mean(x^2) - mean^2, which cancels if the mean is large. "stable"
            computes it as mean((x - mean)^2).

    Raises:
        InvalidConfigError: `algorithm` is unknown.

    >>> import numpy as np
    >>> standardize(np.array([1.0, 3.0]), epsilon=0.0)
    array([-1.,  1.])
    """
    x = as_inexact(x)
    if algorithm not in ("fast", "stable"):
        raise InvalidConfigError(
            f'nn.standardize: algorithm must be "fast" or "stable", got {algorithm!r}'
        )
    centre = _mean(x, axis, where) if mean is None else mean
    if variance is None:
        if algorithm == "stable":
            variance = _mean(square(subtract(x, centre)), axis, where)
        else:
            variance = clip(subtract(_mean(square(x), axis, where), square(centre)), 0.0)
    return multiply(subtract(x, centre), rsqrt(add(variance, epsilon)))


def layer_norm(
    x: ArrayLike, scale: Any = None, bias: Any = None, *, axis: Axis = -1, epsilon: float = 1e-5
) -> Any:
    """Subtract the mean over `axis`, divide by the standard deviation, multiply by `scale`, and add `bias`.

    Args:
        scale, bias: tensors with the extents that x has along `axis`, or tensors that broadcast with x.

    Raises:
        ShapeError: `scale` or `bias` does not broadcast with x.

    >>> import numpy as np
    >>> layer_norm(np.array([1.0, 3.0]), scale=2.0, epsilon=0.0)
    array([-2.,  2.])
    """
    y = standardize(x, axis, epsilon=epsilon, algorithm="stable")
    axes = normalize_axes("nn.layer_norm", axis, len(y.shape))
    return _affine("layer_norm", y, scale, bias, axes)


def batch_norm(
    x: ArrayLike,
    scale: Any = None,
    bias: Any = None,
    *,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    axis: int = -1,
    epsilon: float = 1e-5,
) -> Any:
    """Subtract the mean of each feature, divide by its standard deviation, multiply by `scale`, and add `bias`.

    Args:
        scale, bias: vectors with one number for each feature.
        mean, variance: vectors with the mean and variance of each feature, such as running averages from training. By
            default they are computed from the batch.
        axis: the axis of the features: -1, or 1 for "NCHW".

    Raises:
        ShapeError: a vector does not have one number for each feature.

    >>> import numpy as np
    >>> batch_norm(np.array([[1.0, 5.0], [3.0, 5.0]]), epsilon=0.1)[:, 1]
    array([0., 0.])
    """
    x = as_inexact(x)
    rank = len(x.shape)
    features = normalize_axis("nn.batch_norm", axis, rank)
    reduced_axes = tuple([i for i in range(rank) if i != features])
    statistics = [
        number if number is None else _along("batch_norm", number, x, (features,))
        for number in (mean, variance)
    ]
    y = standardize(x, reduced_axes, *statistics, epsilon=epsilon, algorithm="stable")
    return _affine("batch_norm", y, scale, bias, (features,))


def _affine(name: str, y: Tensor, scale: Any, bias: Any, axes: tuple[int, ...]) -> Any:
    if scale is not None:
        y = multiply(y, _along(name, scale, y, axes))
    return y if bias is None else add(y, _along(name, bias, y, axes))


def _along(name: str, numbers: Any, x: Tensor, axes: tuple[int, ...]) -> Any:
    """Reshape `numbers` so that they broadcast with x; their shape has the extents of x along `axes`, or is ()."""
    if type(numbers) in (int, float):
        return numbers
    numbers = as_operand(numbers)
    if not numbers.shape or len(numbers.shape) == len(x.shape):
        return numbers
    if tuple(numbers.shape) != tuple([x.shape[axis] for axis in axes]):
        raise ShapeError(
            f"nn.{name}: {spec_of(numbers)} has not the extents of axes {axes} of {spec_of(x)}"
        )
    shape = tuple([extent if axis in axes else 1 for axis, extent in enumerate(x.shape)])
    return reshape(numbers, shape)


def dropout(key: ArrayLike, x: ArrayLike, rate: float) -> Any:
    """Set elements of x to 0 with probability `rate`, and divide the other elements by 1 - rate.

    Args:
        key: a key of `tnf.random`; use a new key for each call.
        rate: a number from 0 to 1. For evaluation, omit the call or pass 0, which returns x.

    Raises:
        InvalidConfigError: `rate` is outside [0, 1].

    >>> import numpy as np, tenferro as tnf
    >>> dropout(tnf.random.key(1), np.ones(6), 0.5)
    array([2., 2., 0., 0., 2., 0.])
    """
    if not 0 <= rate <= 1:
        raise InvalidConfigError(f"nn.dropout: rate must be a number from 0 to 1, got {rate!r}")
    x = as_inexact(x)
    if rate == 0:
        return copied(x)
    if rate == 1:
        return zeros_like(x)
    keeps = random.bernoulli(key, 1.0 - rate, tuple(x.shape))
    return where_(keeps, divide(x, 1.0 - rate), 0.0)
