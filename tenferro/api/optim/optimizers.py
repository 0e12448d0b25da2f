"""Optimisers: chains of gradient transformations. The last transformation multiplies by the learning rate."""

from __future__ import annotations

from tenferro.api.optim.combining import chain
from tenferro.api.optim.transformation import GradientTransformation, identity
from tenferro.api.optim.transformations import (
    add_decayed_weights,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_lion,
    scale_by_rms,
    scale_by_rss,
    scale_by_stddev,
    trace,
)
from tenferro.types import ArrayLike, DTypeLike

__all__ = ["adagrad", "adam", "adamw", "lion", "rmsprop", "sgd"]


def sgd(
    learning_rate: ArrayLike,
    momentum: ArrayLike | None = None,
    nesterov: bool = False,
    accumulator_dtype: DTypeLike | None = None,
) -> GradientTransformation:
    """Return the optimiser of gradient descent, optionally with momentum.

    Args:
        learning_rate: a number, or a schedule, which is a function of the number of steps so far.
        momentum: the decay of earlier updates; None for no momentum.
        nesterov, accumulator_dtype: as in `trace`.

    Source: optax.sgd.
    """
    first = identity() if momentum is None else trace(momentum, nesterov, accumulator_dtype)
    return chain(first, scale_by_learning_rate(learning_rate))


def adam(
    learning_rate: ArrayLike,
    b1: ArrayLike = 0.9,
    b2: ArrayLike = 0.999,
    eps: ArrayLike = 1e-8,
    eps_root: ArrayLike = 0.0,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Return the optimiser Adam: updates are running means of gradients divided by roots of running means of squares.

    See `scale_by_adam` for the arguments.

    Source: optax.adam; Kingma and Ba 2015.
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        scale_by_learning_rate(learning_rate),
    )


def adamw(
    learning_rate: ArrayLike,
    b1: ArrayLike = 0.9,
    b2: ArrayLike = 0.999,
    eps: ArrayLike = 1e-8,
    eps_root: ArrayLike = 0.0,
    mu_dtype: DTypeLike | None = None,
    weight_decay: ArrayLike = 1e-4,
    mask: ArrayLike | None = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Return the optimiser `adam` with weight decay: parameters shrink by `learning_rate * weight_decay` per step.

    Args:
        mask: a tree of booleans, or a function from the parameters to such a tree; weights decay where it is True.

    Source: optax.adamw; Loshchilov and Hutter 2019.
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def lion(
    learning_rate: ArrayLike,
    b1: ArrayLike = 0.9,
    b2: ArrayLike = 0.99,
    mu_dtype: DTypeLike | None = None,
    weight_decay: ArrayLike = 1e-3,
    mask: ArrayLike | None = None,
) -> GradientTransformation:
    """Return the optimiser Lion, whose updates are signs of running means of gradients. It has weight decay.

    See `scale_by_lion` and `adamw` for the arguments.

    Source: optax.lion; Chen et al. 2023.
    """
    return chain(
        scale_by_lion(b1, b2, mu_dtype),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def rmsprop(
    learning_rate: ArrayLike,
    decay: ArrayLike = 0.9,
    eps: ArrayLike = 1e-8,
    initial_scale: ArrayLike = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: ArrayLike | None = None,
    nesterov: bool = False,
    bias_correction: bool = False,
) -> GradientTransformation:
    """Return an optimiser that divides gradients by the roots of running means of their squares.

    `scale_by_rms` describes the arguments. If `centered`, `scale_by_stddev` is used instead.

    Source: optax.rmsprop; Hinton 2012, Graves 2013.
    """
    by_size = scale_by_stddev if centered else scale_by_rms
    return chain(
        by_size(decay, eps, initial_scale, eps_in_sqrt, bias_correction),
        scale_by_learning_rate(learning_rate),
        identity() if momentum is None else trace(momentum, nesterov),
    )


def adagrad(
    learning_rate: ArrayLike, initial_accumulator_value: ArrayLike = 0.1, eps: ArrayLike = 1e-7
) -> GradientTransformation:
    """Return an optimiser that divides gradients by the roots of the sums of their squares; see `scale_by_rss`.

    Source: optax.adagrad; Duchi et al. 2011.
    """
    return chain(
        scale_by_rss(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate)
    )
