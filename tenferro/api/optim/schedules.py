"""Schedules: functions of the number of steps so far, an integer or an integer tensor, that return a number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenferro.api.creation import asarray
from tenferro.api.elementwise import clip, cos, floor, maximum, minimum, sign
from tenferro.api.elementwise import pow as power_of
from tenferro.api.searching import where
from tenferro.errors import InvalidConfigError
from tenferro.types import ArrayLike

__all__ = [
    "Schedule",
    "constant_schedule",
    "cosine_decay_schedule",
    "exponential_decay",
    "join_schedules",
    "linear_schedule",
    "piecewise_constant_schedule",
    "polynomial_schedule",
    "warmup_cosine_decay_schedule",
]

Schedule = Callable[[Any], Any]


def _check_steps(name: str, transition_steps: int, transition_begin: int) -> None:
    if transition_steps < 0 or transition_begin < 0:
        raise InvalidConfigError(
            f"{name}: transition_steps and transition_begin must be at least 0, got {transition_steps} "
            f"and {transition_begin}"
        )


def constant_schedule(value: ArrayLike) -> Schedule:
    """Return a schedule with the same value at each step.

    Source: optax.constant_schedule.
    """
    return lambda count: value


def polynomial_schedule(
    init_value: Any,
    end_value: Any,
    power: ArrayLike,
    transition_steps: int,
    transition_begin: int = 0,
) -> Schedule:
    """Return a schedule from `init_value` to `end_value`: (init_value - end_value) * (1 - t)^power + end_value.

    t increases from 0 to 1 in `transition_steps` steps, after the first `transition_begin` steps. If `transition_steps`
    is 0, the value is always `init_value`.

    Raises:
        InvalidConfigError: a number of steps is negative.

    Source: optax.polynomial_schedule.
    """
    _check_steps("polynomial_schedule", transition_steps, transition_begin)
    if transition_steps == 0:
        return constant_schedule(init_value)

    def schedule(count: ArrayLike) -> Any:
        done = clip(asarray(count) - transition_begin, 0, transition_steps)
        remaining = 1 - done / transition_steps
        return (init_value - end_value) * remaining**power + end_value

    return schedule


def linear_schedule(
    init_value: ArrayLike, end_value: ArrayLike, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """Return a schedule that changes linearly from `init_value` to `end_value`; see `polynomial_schedule`.

    >>> float(linear_schedule(1.0, 0.0, transition_steps=4)(1))
    0.75

    Source: optax.linear_schedule.
    """
    return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin)


def piecewise_constant_schedule(
    init_value: ArrayLike, boundaries_and_scales: Mapping[int, float] | None = None
) -> Schedule:
    """Return a schedule that starts at `init_value` and is multiplied by a factor at each boundary.

    Args:
        boundaries_and_scales: a map from boundaries, which are numbers of steps, to factors.

    Raises:
        InvalidConfigError: a factor is negative.

    Source: optax.piecewise_constant_schedule.
    """
    steps = sorted((boundaries_and_scales or {}).items())
    if [factor for _, factor in steps if factor < 0]:
        raise InvalidConfigError(
            f"piecewise_constant_schedule: factors must be at least 0, got {dict(steps)}"
        )

    def schedule(count: ArrayLike) -> Any:
        value = init_value
        for boundary, factor in steps:
            is_before = maximum(0.0, sign(asarray(boundary - asarray(count))))
            value = value * is_before + (1 - is_before) * factor * value
        return value

    return schedule


def exponential_decay(
    init_value: ArrayLike,
    transition_steps: int,
    decay_rate: float,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: ArrayLike | None = None,
) -> Schedule:
    """Return the schedule init_value * decay_rate^(count / transition_steps).

    `count` is the number of steps after the first `transition_begin` steps. If `transition_steps` is 0, the value is
    always `init_value`.

    Args:
        staircase: whether the exponent is rounded down to an integer.
        end_value: a bound that the value does not cross. It is a lower bound if decay_rate < 1, otherwise an upper
            bound.

    Raises:
        InvalidConfigError: a number of steps is negative, or `decay_rate` is not positive.

    Source: optax.exponential_decay.
    """
    _check_steps("exponential_decay", transition_steps, transition_begin)
    if decay_rate <= 0:
        raise InvalidConfigError(f"exponential_decay: decay_rate must be above 0, got {decay_rate}")
    if transition_steps == 0:
        return constant_schedule(init_value)

    def schedule(count: ArrayLike) -> Any:
        done = asarray(count) - transition_begin
        exponent = done / transition_steps
        if staircase:
            exponent = floor(exponent)
        value = where(done <= 0, init_value, init_value * power_of(decay_rate, exponent))
        if end_value is None:
            return value
        return maximum(value, end_value) if decay_rate < 1 else minimum(value, end_value)

    return schedule


def cosine_decay_schedule(
    init_value: ArrayLike, decay_steps: int, alpha: Any = 0.0, exponent: ArrayLike = 1.0
) -> Schedule:
    """Return a schedule that decays from `init_value` to `alpha * init_value` along half a period of a cosine.

    After `decay_steps` steps it is constant.

    Raises:
        InvalidConfigError: `decay_steps` is not positive.

    Source: optax.cosine_decay_schedule; Loshchilov and Hutter 2017.
    """
    if decay_steps <= 0:
        raise InvalidConfigError(
            f"cosine_decay_schedule: decay_steps must be above 0, got {decay_steps}"
        )

    def schedule(count: ArrayLike) -> Any:
        done = minimum(asarray(count), decay_steps)
        cosine = 0.5 * (1 + cos(math.pi * done / decay_steps))
        return init_value * ((1 - alpha) * cosine**exponent + alpha)

    return schedule


def warmup_cosine_decay_schedule(
    init_value: ArrayLike,
    peak_value: Any,
    warmup_steps: int,
    decay_steps: int,
    end_value: Any = 0.0,
    exponent: ArrayLike = 1.0,
) -> Schedule:
    """Return a schedule that rises linearly to `peak_value`, and then decays along half a period of a cosine.

    The rise takes `warmup_steps` steps. The rise and the decay together take `decay_steps` steps.

    >>> schedule = warmup_cosine_decay_schedule(0.0, 1.0, warmup_steps=2, decay_steps=6)
    >>> [round(float(schedule(step)), 3) for step in (0, 1, 2, 4, 6)]
    [0.0, 0.5, 1.0, 0.5, 0.0]

    Source: optax.warmup_cosine_decay_schedule.
    """
    alpha = 0.0 if peak_value == 0.0 else end_value / peak_value
    rise = linear_schedule(init_value, peak_value, warmup_steps)
    fall = cosine_decay_schedule(peak_value, decay_steps - warmup_steps, alpha, exponent)
    return join_schedules([rise, fall], [warmup_steps])


def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """Return a schedule that switches to the next of several schedules at each boundary, a number of steps.

    Each schedule counts the steps from its boundary.

    Raises:
        InvalidConfigError: the number of boundaries is not one less than the number of schedules.

    Source: optax.join_schedules.
    """
    if len(boundaries) != len(schedules) - 1:
        raise InvalidConfigError(
            f"join_schedules: {len(schedules)} schedules need {len(schedules) - 1} boundaries, got "
            f"{len(boundaries)}"
        )

    def schedule(step: ArrayLike) -> Any:
        count = asarray(step)
        value = schedules[0](count)
        for boundary, following in zip(boundaries, schedules[1:], strict=True):
            value = where(count < boundary, value, following(count - boundary))
        return value

    return schedule
