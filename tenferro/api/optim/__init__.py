"""`tenferro.optim`: optimisers as pure functions on trees, with optax's names, signatures and results.

A `GradientTransformation` is a pair of functions. `init(params)` returns a state. `update(updates, state, params)`
returns the updates to add to the parameters, and the next state. Both functions run on arrays and on eager tensors, and
inside `jit`, `compile` and `scan`.

    >>> import numpy as np
    >>> import tenferro as tnf
    >>> optimizer = adam(learning_rate=0.1)
    >>> params = {"w": np.array([1.0, -2.0])}
    >>> state = optimizer.init(params)
    >>> @tnf.jit
    ... def step(params, state):
    ...     grads = tnf.grad(lambda p: tnf.sum(p["w"] ** 2))(params)
    ...     updates, state = optimizer.update(grads, state, params)
    ...     return apply_updates(params, updates), state
    >>> params, state = step(params, state)
    >>> params["w"]
    array([ 0.9, -1.9])

Gradients of a real loss with respect to complex parameters point uphill, so complex parameters need no special
treatment. (JAX's gradients are the conjugates of these gradients.)

Source: optax.
"""

from tenferro.api.optim.combining import chain, masked
from tenferro.api.optim.optimizers import adagrad, adam, adamw, lion, rmsprop, sgd
from tenferro.api.optim.schedules import (
    constant_schedule,
    cosine_decay_schedule,
    exponential_decay,
    join_schedules,
    linear_schedule,
    piecewise_constant_schedule,
    polynomial_schedule,
    warmup_cosine_decay_schedule,
)
from tenferro.api.optim.transformation import (
    EmptyState,
    GradientTransformation,
    apply_updates,
    global_norm,
    identity,
    set_to_zero,
)
from tenferro.api.optim.transformations import (
    add_decayed_weights,
    clip,
    clip_by_global_norm,
    scale,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_lion,
    scale_by_rms,
    scale_by_rss,
    scale_by_schedule,
    scale_by_stddev,
    trace,
)

__all__ = [
    "EmptyState",
    "GradientTransformation",
    "adagrad",
    "adam",
    "adamw",
    "add_decayed_weights",
    "apply_updates",
    "chain",
    "clip",
    "clip_by_global_norm",
    "constant_schedule",
    "cosine_decay_schedule",
    "exponential_decay",
    "global_norm",
    "identity",
    "join_schedules",
    "linear_schedule",
    "lion",
    "masked",
    "piecewise_constant_schedule",
    "polynomial_schedule",
    "rmsprop",
    "scale",
    "scale_by_adam",
    "scale_by_learning_rate",
    "scale_by_lion",
    "scale_by_rms",
    "scale_by_rss",
    "scale_by_schedule",
    "scale_by_stddev",
    "set_to_zero",
    "sgd",
    "trace",
    "warmup_cosine_decay_schedule",
]
