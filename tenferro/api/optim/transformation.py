"""Gradient transformations, the application of updates to parameters, and running means of updates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tenferro.api import tree
from tenferro.api.creation import asarray, zeros_like
from tenferro.api.elementwise import add, conj, divide, expm1, log, multiply, real, sqrt
from tenferro.api.manipulation import astype
from tenferro.api.reductions import sum as sum_of
from tenferro.api.searching import where
from tenferro.dispatch import spec_of
from tenferro.errors import InvalidConfigError
from tenferro.types import ArrayLike, DType, PyTree, Tensor

__all__ = [
    "EmptyState",
    "GradientTransformation",
    "abs_sq",
    "apply_updates",
    "bias_corrected",
    "first_count",
    "global_norm",
    "identity",
    "map_updates",
    "next_count",
    "second_moment",
    "set_to_zero",
    "stateless",
    "update_moment",
]


class GradientTransformation(NamedTuple):
    """Pair of pure functions that transform the gradients of each step.

    Attributes:
        init: a function from the parameters to the state before the first step.
        update: a function from (updates, state, params) to the transformed updates and the next state. The updates
            are the gradients, or the result of a previous transformation. `params` may be omitted if no transformation
            needs them.

    Source: optax.GradientTransformation.
    """

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


class EmptyState(NamedTuple):
    """State of a transformation that needs no state."""


def stateless(function: Callable[[Any], Any]) -> GradientTransformation:
    """Return a transformation that applies `function` to the updates, without state or parameters."""

    def update(updates: PyTree, state: Any, params: PyTree | None = None) -> tuple[Any, Any]:
        return function(updates), state

    return GradientTransformation(lambda params: EmptyState(), update)


def identity() -> GradientTransformation:
    """Return a transformation that leaves the updates unchanged."""
    return stateless(lambda updates: updates)


def set_to_zero() -> GradientTransformation:
    """Return a transformation that replaces the updates by zeros, for parameters that are not trained."""
    return stateless(lambda updates: tree.map(zeros_like, updates))


def apply_updates(params: PyTree, updates: PyTree) -> Any:
    """Add the updates to the parameters, and convert the sums to the dtypes of the parameters.

    A parameter that is None has no update, and remains None.

    Raises:
        ArityError: the trees have different structures.

    >>> import numpy as np
    >>> apply_updates({"w": np.float32(1.0)}, {"w": np.float64(0.5)})["w"].dtype
    dtype('float32')

    Source: optax.apply_updates.
    """

    def moved(param: ArrayLike, update: ArrayLike) -> Any:
        array = asarray(param)
        return astype(asarray(add(array, update)), spec_of(array).dtype, copy=False)

    return map_updates(moved, params, updates)


def map_updates(function: Callable[..., Any], updates: PyTree, *rest: PyTree) -> Any:
    """Apply `function` to corresponding leaves of several trees. Where `updates` has None, the result has None."""

    def of_leaf(update: Any, *rest_leaves: Tensor) -> Any:
        return None if update is None else function(update, *rest_leaves)

    return tree.map(of_leaf, updates, *rest, is_leaf=lambda node: node is None)


def abs_sq(x: ArrayLike) -> Any:
    """|x|^2, which is real."""
    return real(multiply(conj(x), x)) if spec_of(asarray(x)).dtype.is_complex else multiply(x, x)


def global_norm(updates: PyTree) -> Any:
    """Compute the 2-norm of all elements of a tree together. It is 0 for a tree without leaves.

    >>> import numpy as np
    >>> global_norm({"a": np.array([3.0]), "b": np.array([[4.0]])})
    array(5.)

    Source: optax.global_norm.
    """
    squares = tree.map(lambda leaf: sum_of(abs_sq(asarray(leaf))), updates)
    return sqrt(asarray(tree.reduce(add, squares, 0.0)))


# ---- moments ---------------------------------------------------------------------------------


def update_moment(updates: PyTree, moments: PyTree, decay: Any) -> Any:
    """Return the next running means of the updates: (1 - decay) * update + decay * mean."""
    return map_updates(lambda g, t: _mean(g, t, decay), updates, moments)


def second_moment(updates: PyTree, moments: PyTree, decay: Any) -> Any:
    """Return the next running means of the squared updates: (1 - decay) * |update|^2 + decay * mean."""
    return map_updates(lambda g, t: _mean(abs_sq(g), t, decay), updates, moments)


def _mean(update: Tensor, mean: Tensor, decay: Any) -> Any:
    return add(multiply(1 - decay, update), multiply(decay, mean))


def bias_corrected(moments: PyTree, decay: ArrayLike, count: ArrayLike) -> Any:
    """Divide the running means by 1 - decay^count, the sum of the weights of their terms.

    The sum of weights is computed by `expm1`, because 1 - 0.999 in float32 has only four correct digits.
    """
    rate = _logarithm(decay)

    def corrected(moment: Tensor) -> Any:
        dtype = spec_of(asarray(moment)).dtype
        wide = np.float64 if dtype in (DType.F64, DType.C64) else np.float32
        weight = -expm1(multiply(rate, astype(asarray(count), wide)))
        return divide(moment, astype(asarray(weight), dtype))

    return tree.map(corrected, moments)


def _logarithm(decay: ArrayLike) -> Any:
    if not isinstance(decay, int | float):
        return log(decay)
    if not 0 <= decay < 1:
        raise InvalidConfigError(f"the decay of a running mean must lie in [0, 1), got {decay}")
    return math.log(decay) if decay else -math.inf


# ---- counts ----------------------------------------------------------------------------------


def first_count() -> Any:
    """Return the count 0, as int32."""
    return np.zeros((), np.int32)


def next_count(count: ArrayLike) -> Any:
    """Return the count plus one. If the count is the largest number of its dtype, return it unchanged."""
    array = asarray(count)
    dtype = spec_of(array).dtype.dtype
    most = np.asarray(np.iinfo(dtype).max, dtype)
    return where(array < most, array + np.ones((), dtype), most)
