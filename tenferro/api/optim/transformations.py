"""Gradient transformations with the names, signatures and results of optax."""

from __future__ import annotations

from typing import Any, NamedTuple

from tenferro.api import elementwise, tree
from tenferro.api.creation import asarray, full_like, zeros_like
from tenferro.api.elementwise import (
    add,
    divide,
    greater,
    less,
    multiply,
    sign,
    sqrt,
    subtract,
    tanh,
)
from tenferro.api.manipulation import astype
from tenferro.api.optim.combining import masked
from tenferro.api.optim.schedules import Schedule
from tenferro.api.optim.transformation import (
    EmptyState,
    GradientTransformation,
    abs_sq,
    bias_corrected,
    first_count,
    global_norm,
    identity,
    map_updates,
    next_count,
    second_moment,
    stateless,
    update_moment,
)
from tenferro.api.searching import where
from tenferro.dispatch import is_weak, spec_of
from tenferro.errors import InvalidConfigError
from tenferro.types import ArrayLike, DType, DTypeLike, PyTree, Tensor

__all__ = [
    "add_decayed_weights",
    "clip",
    "clip_by_global_norm",
    "scale",
    "scale_by_adam",
    "scale_by_learning_rate",
    "scale_by_lion",
    "scale_by_rms",
    "scale_by_rss",
    "scale_by_schedule",
    "scale_by_stddev",
    "trace",
]

LION_MODES = ("hard", "smooth", "refined")


def _zeros(params: PyTree, dtype: DTypeLike | None = None) -> Any:
    return tree.map(lambda p: zeros_like(asarray(p), dtype=dtype), params)


def _filled(params: PyTree, value: Tensor) -> Any:
    return tree.map(lambda p: full_like(asarray(p), value), params)


def _cast(moments: PyTree, dtype: DType | None) -> Any:
    if dtype is None:
        return moments
    return tree.map(lambda m: astype(asarray(m), dtype, copy=False), moments)


def _cast_like(moments: PyTree, like: Tensor | None) -> Any:
    def cast(moment: Tensor, target: ArrayLike) -> Any:
        return astype(asarray(moment), spec_of(asarray(target)).dtype, copy=False)

    return tree.map(cast, moments, like)


def _dtype(dtype: DTypeLike | None) -> DType | None:
    return None if dtype is None else DType.of(dtype)


# ---- scaling ---------------------------------------------------------------------------------


def scale(step_size: ArrayLike) -> GradientTransformation:
    """Return a transformation that multiplies the updates by a number.

    Source: optax.scale.
    """
    return stateless(lambda updates: tree.map(lambda g: multiply(step_size, g), updates))


class ScaleByScheduleState(NamedTuple):
    """State of `scale_by_schedule`: the number of steps so far."""

    count: Any


def scale_by_schedule(step_size_fn: Schedule) -> GradientTransformation:
    """Return a transformation that multiplies the updates by the current value of a schedule, and keeps their dtypes.

    Source: optax.scale_by_schedule.
    """

    def init(params: PyTree) -> ScaleByScheduleState:
        return ScaleByScheduleState(first_count())

    def update(updates: PyTree, state: Any, params: PyTree | None = None) -> tuple[Any, Any]:
        step_size = asarray(step_size_fn(state.count))
        scaled = tree.map(
            lambda g: multiply(astype(step_size, spec_of(asarray(g)).dtype, copy=False), g), updates
        )
        return scaled, ScaleByScheduleState(next_count(state.count))

    return GradientTransformation(init, update)


def scale_by_learning_rate(
    learning_rate: Any = None, *, flip_sign: bool = True
) -> GradientTransformation:
    """Return a transformation that multiplies the updates by -1 and by a learning rate.

    Args:
        learning_rate: a number or a schedule. If it is None, the updates are unchanged.
        flip_sign: whether to multiply by -1.

    Source: optax.scale_by_learning_rate.
    """
    if learning_rate is None:
        return identity()
    factor = -1 if flip_sign else 1
    if callable(learning_rate):
        schedule: Any = learning_rate
        return scale_by_schedule(lambda count: factor * schedule(count))
    return scale(factor * learning_rate)


# ---- running means ---------------------------------------------------------------------------


class TraceState(NamedTuple):
    """State of `trace`: the sum of all updates, where each later step multiplies an update by the decay."""

    trace: Any


def trace(
    decay: ArrayLike, nesterov: bool = False, accumulator_dtype: DTypeLike | None = None
) -> GradientTransformation:
    """Return a transformation that accumulates momentum: t = update + decay * t.

    Args:
        nesterov: whether to return update + decay * t instead of t, as if one step ahead.
        accumulator_dtype: the dtype of t; by default the dtype of the parameter.

    Source: optax.trace.
    """
    dtype = _dtype(accumulator_dtype)

    def accumulated(g: Tensor, t: Tensor) -> Any:
        return add(g, multiply(decay, t))

    def init(params: PyTree) -> TraceState:
        return TraceState(_zeros(params, dtype))

    def update(updates: PyTree, state: Any, params: PyTree | None = None) -> tuple[Any, Any]:
        total = map_updates(accumulated, updates, state.trace)
        ahead = map_updates(accumulated, updates, total) if nesterov else total
        return ahead, TraceState(_cast(total, dtype))

    return GradientTransformation(init, update)


class ScaleByAdamState(NamedTuple):
    """State of `scale_by_adam`: the number of steps, and running means of updates (mu) and their squares (nu)."""

    count: Any
    mu: Any
    nu: Any


def scale_by_adam(
    b1: Any = 0.9,
    b2: ArrayLike = 0.999,
    eps: ArrayLike = 1e-8,
    eps_root: ArrayLike = 0.0,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Return a transformation that replaces the updates by mu / (sqrt(nu + eps_root) + eps).

    mu is the running mean of the updates and nu that of their squares, both with bias correction.

    Args:
        b1, b2: the decay of mu and of nu.
        mu_dtype: the dtype of mu; by default the dtype of the parameter.
        nesterov: whether to use Nesterov's momentum for mu.

    Source: optax.scale_by_adam; Kingma and Ba 2015, Dozat 2016.
    """
    dtype = _dtype(mu_dtype)

    def init(params: PyTree) -> ScaleByAdamState:
        return ScaleByAdamState(first_count(), _zeros(params, dtype), _zeros(params))

    def update(updates: PyTree, state: Any, params: PyTree | None = None) -> tuple[Any, Any]:
        mu = update_moment(updates, state.mu, b1)
        nu = second_moment(updates, state.nu, b2)
        count = next_count(state.count)
        mu_hat = bias_corrected(mu, b1, next_count(count) if nesterov else count)
        if nesterov:
            g_hat = bias_corrected(updates, b1, count)
            mu_hat = tree.map(lambda m, g: add(multiply(b1, m), multiply(1 - b1, g)), mu_hat, g_hat)
        nu_hat = bias_corrected(nu, b2, count)
        scaled = map_updates(
            lambda m, v: divide(m, add(sqrt(add(v, eps_root)), eps)), mu_hat, nu_hat
        )
        return scaled, ScaleByAdamState(count, _cast(mu, dtype), _cast_like(nu, state.nu))

    return GradientTransformation(init, update)


class ScaleByLionState(NamedTuple):
    """State of `scale_by_lion`: the number of steps, and the running mean of the updates."""

    count: Any
    mu: Any


def scale_by_lion(
    b1: Any = 0.9,
    b2: ArrayLike = 0.99,
    mu_dtype: DTypeLike | None = None,
    *,
    mode: str = "hard",
    smooth_beta: float = 1.0,
) -> GradientTransformation:
    """Return a transformation that replaces each update g by the sign of x = (1 - b1) g + b1 m.

    m is a running mean of the updates, with decay b2.

    Args:
        mode: "hard" for the sign of x; "smooth" for tanh(smooth_beta x); "refined" for x where |x| < 1, and the sign of
            x elsewhere.

    Raises:
        InvalidConfigError: `mode` is unknown.

    Source: optax.scale_by_lion; Chen et al. 2023.
    """
    if mode not in LION_MODES:
        raise InvalidConfigError(f"scale_by_lion: mode must be one of {LION_MODES}, got {mode!r}")
    dtype = _dtype(mu_dtype)

    def direction(g: Tensor, m: Tensor) -> Any:
        x = add(multiply(1.0 - b1, g), multiply(b1, m))
        if mode == "hard":
            return sign(x)
        if mode == "smooth":
            return tanh(multiply(smooth_beta, x))
        return where(less(elementwise.abs(x), 1.0), x, sign(x))

    def init(params: PyTree) -> ScaleByLionState:
        return ScaleByLionState(first_count(), _zeros(params, dtype))

    def update(updates: PyTree, state: Any, params: PyTree | None = None) -> tuple[Any, Any]:
        directions = tree.map(direction, updates, state.mu)
        mu = _cast(update_moment(updates, state.mu, b2), dtype)
        return directions, ScaleByLionState(next_count(state.count), mu)

    return GradientTransformation(init, update)


class ScaleByRssState(NamedTuple):
    """State of `scale_by_rss`: the sum of the squares of all updates."""

    sum_of_squares: Any


def scale_by_rss(
    initial_accumulator_value: Any = 0.1, eps: ArrayLike = 1e-7
) -> GradientTransformation:
    """Return a transformation that divides each update by the root of the sum of the squares of all updates so far.

    Args:
        initial_accumulator_value: the sum before the first step.
        eps: a number that is added to the sum before the root.

    Source: optax.scale_by_rss; Duchi et al. 2011.
    """

    def init(params: PyTree) -> ScaleByRssState:
        return ScaleByRssState(_filled(params, initial_accumulator_value))

    def update(updates: PyTree, state: Any, params: PyTree | None = None) -> tuple[Any, Any]:
        total = tree.map(lambda g, t: add(abs_sq(g), t), updates, state.sum_of_squares)

        def scaled(g: Tensor, t: Tensor) -> Any:
            is_positive = greater(elementwise.real(t), 0)
            return multiply(where(is_positive, divide(1, sqrt(add(t, eps))), 0.0), g)

        return tree.map(scaled, updates, total), ScaleByRssState(total)

    return GradientTransformation(init, update)


class ScaleByRmsState(NamedTuple):
    """State of `scale_by_rms`: the running mean of the squares of the updates."""

    nu: Any


class ScaleByRmsWithCountState(NamedTuple):
    """State of `scale_by_rms` with bias correction: the number of steps, and the running mean of squared updates."""

    count: Any
    nu: Any


def scale_by_rms(
    decay: ArrayLike = 0.9,
    eps: ArrayLike = 1e-8,
    initial_scale: Any = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> GradientTransformation:
    """Return a transformation that divides the updates by the root of the running mean of their squares.

    Args:
        decay: the decay of the mean.
        initial_scale: the mean before the first step.
        eps_in_sqrt: whether eps is added before the root instead of after it.
        bias_correction: whether to divide the mean by the sum of its weights.

    Source: optax.scale_by_rms; Hinton 2012.
    """

    def init(params: PyTree) -> Any:
        nu = _filled(params, initial_scale)
        return (
            ScaleByRmsWithCountState(first_count(), nu) if bias_correction else ScaleByRmsState(nu)
        )

    def update(updates: PyTree, state: Any, params: PyTree | None = None) -> tuple[Any, Any]:
        nu = second_moment(updates, state.nu, decay)
        nu_hat, following = nu, ScaleByRmsState(nu)
        if bias_correction:
            count = next_count(state.count)
            nu_hat = bias_corrected(nu, decay, count)
            following = ScaleByRmsWithCountState(count, nu)
        scaled = tree.map(lambda g, n: multiply(_by_root(n, eps, eps_in_sqrt), g), updates, nu_hat)
        return scaled, following

    return GradientTransformation(init, update)


def _by_root(variance: Tensor, eps: ArrayLike, eps_in_sqrt: bool) -> Any:
    root = sqrt(add(variance, eps)) if eps_in_sqrt else add(sqrt(variance), eps)
    return divide(1, root)


class ScaleByRStdDevState(NamedTuple):
    """State of `scale_by_stddev`: the running means of updates and of their squares."""

    mu: Any
    nu: Any


class ScaleByRStdDevWithCountState(NamedTuple):
    """State of `scale_by_stddev` with bias correction: the number of steps, and means of updates and squares."""

    count: Any
    mu: Any
    nu: Any


def scale_by_stddev(
    decay: ArrayLike = 0.9,
    eps: ArrayLike = 1e-8,
    initial_scale: Any = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> GradientTransformation:
    """Return a transformation that divides the updates by their running standard deviation.

    `scale_by_rms` describes the arguments.

    Source: optax.scale_by_stddev; Graves 2013.
    """

    def init(params: PyTree) -> Any:
        mu, nu = _zeros(params), _filled(params, initial_scale)
        if bias_correction:
            return ScaleByRStdDevWithCountState(first_count(), mu, nu)
        return ScaleByRStdDevState(mu, nu)

    def update(updates: PyTree, state: Any, params: PyTree | None = None) -> tuple[Any, Any]:
        mu = update_moment(updates, state.mu, decay)
        nu = second_moment(updates, state.nu, decay)
        mu_hat, nu_hat, following = mu, nu, ScaleByRStdDevState(mu, nu)
        if bias_correction:
            count = next_count(state.count)
            mu_hat, nu_hat = bias_corrected(mu, decay, count), bias_corrected(nu, decay, count)
            following = ScaleByRStdDevWithCountState(count, mu, nu)

        def scaled(g: Tensor, m: Tensor, n: Tensor) -> Any:
            return multiply(_by_root(subtract(n, abs_sq(m)), eps, eps_in_sqrt), g)

        return tree.map(scaled, updates, mu_hat, nu_hat), following

    return GradientTransformation(init, update)


# ---- clipping --------------------------------------------------------------------------------


def clip(max_delta: Any) -> GradientTransformation:
    """Return a transformation that clips each element of the updates to [-max_delta, max_delta].

    Raises:
        DTypeError: in `update`, a gradient is complex, and so has no order; use `clip_by_global_norm`.

    Source: optax.clip.
    """
    return stateless(
        lambda updates: tree.map(lambda g: elementwise.clip(g, -max_delta, max_delta), updates)
    )


def clip_by_global_norm(max_norm: ArrayLike) -> GradientTransformation:
    """Return a transformation that scales all updates by one factor so that their global norm is at most `max_norm`.

    Source: optax.clip_by_global_norm; Pascanu et al. 2012.
    """

    def clipped(updates: PyTree) -> Any:
        norm = global_norm(updates)

        def clipped_leaf(g: ArrayLike) -> Any:
            own = astype(norm, spec_of(asarray(g)).dtype, copy=False)
            return where(less(norm, max_norm), g, multiply(divide(g, own), max_norm))

        return tree.map(clipped_leaf, updates)

    return stateless(clipped)


# ---- weights ---------------------------------------------------------------------------------


class WeightDecaySchedule(NamedTuple):
    """State of `add_decayed_weights` with a schedule: the number of steps so far."""

    count: Any


def add_decayed_weights(
    weight_decay: ArrayLike = 0.0, mask: ArrayLike | None = None
) -> GradientTransformation:
    """Return a transformation that adds the parameters times `weight_decay` to the updates.

    Args:
        weight_decay: a number, or a schedule of numbers.
        mask: a tree of booleans, which is True for parameters that decay; or a function from the parameters to such a
            tree.

    Raises:
        InvalidConfigError: in `update`, the parameters are missing.

    Source: optax.add_decayed_weights.
    """

    def init(params: PyTree) -> Any:
        return WeightDecaySchedule(first_count()) if callable(weight_decay) else EmptyState()

    def update(updates: PyTree, state: Any, params: PyTree | None = None) -> tuple[Any, Any]:
        if params is None:
            raise InvalidConfigError(
                "add_decayed_weights: needs the parameters; call update(updates, state, params)"
            )
        if isinstance(weight_decay, int | float) and weight_decay == 0:
            return updates, state
        rate, following = weight_decay, state
        if callable(weight_decay):
            rate = weight_decay(state.count)
            following = WeightDecaySchedule(next_count(state.count))

        def decayed(g: Tensor, p: Tensor) -> Any:
            return add(g, multiply(_in_dtype_of(p, rate), p))

        return map_updates(decayed, updates, params), following

    transformation = GradientTransformation(init, update)
    return transformation if mask is None else masked(transformation, mask)


def _in_dtype_of(param: Tensor, rate: ArrayLike) -> Any:
    """Convert an array or tensor that a schedule returned to the dtype of the parameter.

    A Python number is unchanged.
    """
    if is_weak(rate):
        return rate
    return astype(asarray(rate), spec_of(asarray(param)).dtype, copy=False)
