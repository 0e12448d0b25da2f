"""Optimisers: chains of transformations that end with the learning rate."""

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
    """Build the optimiser of gradient descent, optionally with momentum.

    Args:
        learning_rate: a number, or a schedule: a function of the number of steps so far.

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
    """Divide running means of gradients by the roots of running means of their squares; see `scale_by_adam`.

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
    """Build `adam` with weight decay: learning rate times `weight_decay`, where the mask is True.

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
    """Take the signs of running means of gradients, with decaying weights; see `scale_by_lion`.

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
    """Divide gradients by the roots of running means of their squares; see `scale_by_rms`, `scale_by_stddev`.

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
    """Divide gradients by the roots of the sums of their squares; see `scale_by_rss`.

    Source: optax.adagrad; Duchi et al. 2011.
    """
    return chain(
        scale_by_rss(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate)
    )
