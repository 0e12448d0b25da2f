"""Loops with a small carry, and chains of small matrix products, from reports by JAX's users."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from user_program import UserProgram

__all__ = ["SMALL_CARRIES"]


def rotate(frame: Any, rates: Any) -> Any:
    """Apply a thousand small rotations to a frame. Each rotation matrix is accurate to first order in its angle."""

    def step(frame: Any, rate: Any) -> Any:
        x, y, z = rate
        skew = jnp.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        frame = frame + 1e-3 * skew @ frame
        return frame, None

    return jax.lax.scan(step, frame, rates)[0]


def rotate_by_hand(frame: Any, rates: Any) -> Any:
    for i in range(len(rates)):
        x, y, z = rates[i]
        skew = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        frame = frame + 1e-3 * (skew @ frame)
    return frame


LEVELS = 10


def filter_hierarchy(state: dict[str, Any], observations: Any) -> Any:
    """Update forty scalars in a dictionary, one node after the other, as a hierarchical Gaussian filter does."""

    def step(state: Any, observation: Any) -> Any:
        state = dict(state)
        below = observation
        for k in range(LEVELS):
            mean, precision = state[f"mean{k}"], state[f"precision{k}"]
            volatility, drift = state[f"volatility{k}"], state[f"drift{k}"]
            predicted = 1.0 / (1.0 / precision + jnp.exp(volatility))
            error = below - mean - drift
            gain = predicted / (predicted + 1.0)
            state[f"mean{k}"] = mean + drift + error / (1.0 + predicted)
            state[f"precision{k}"] = predicted + gain
            state[f"volatility{k}"] = volatility + 0.05 * (gain * error**2 - 0.1 * volatility)
            state[f"drift{k}"] = 0.9 * drift + 0.01 * jnp.tanh(error)
            below = state[f"mean{k}"]
        return state, below

    return jax.lax.scan(step, state, observations)[1]


def hierarchy(rng: np.random.Generator) -> tuple[Any, ...]:
    starts = {"mean": 0.0, "precision": 1.0, "volatility": -3.0, "drift": 0.0}
    state = {f"{name}{k}": np.float64(x) for name, x in starts.items() for k in range(LEVELS)}
    return state, rng.standard_normal(200)


def simulate_prices(price: Any, shocks: Any) -> Any:
    """Return a path of prices. Each element is computed from the preceding one and written into an array."""

    def step(i: Any, path: Any) -> Any:
        return path.at[i + 1].set(0.9 * path[i] + shocks[i])

    path = jnp.zeros(shocks.shape[0] + 1).at[0].set(price)
    return jax.lax.fori_loop(0, shocks.shape[0], step, path)


def simulate_prices_by_hand(price: Any, shocks: Any) -> Any:
    path = np.zeros(len(shocks) + 1)
    path[0] = price
    for i in range(len(shocks)):
        path[i + 1] = 0.9 * path[i] + shocks[i]
    return path


def squared_differences(x: Any) -> Any:
    """Return the sum of squared differences between neighbours along the three axes of a cube."""
    parts = [jnp.sum(jnp.square(jnp.diff(x, axis=axis))) for axis in range(3)]
    return parts[0] + parts[1] + parts[2]


def squared_differences_by_hand(x: Any) -> Any:
    total = 0.0
    for axis in range(3):
        step = np.diff(x, axis=axis)
        total += np.sum(step * step)
    return np.float32(total)


def end_of_arm(angles: Any) -> Any:
    """Return the position of the last of 35 joints of a robot arm, by a product of 35 matrices of 4 x 4."""
    frame = jnp.eye(4)
    for i in range(35):
        c, s = jnp.cos(angles[i]), jnp.sin(angles[i])
        turned = jnp.array([
            [c, -s, 0.0, 0.1], [s, c, 0.0, 0.0], [0.0, 0.0, 1.0, 0.02], [0.0, 0.0, 0.0, 1.0]
        ])  # fmt: skip
        frame = frame @ turned
    return frame[:3, 3]


SMALL_CARRIES = [
    UserProgram(
        "rotations, 3 x 3 carry",
        "jax-ml/jax#36799",
        lambda rng: (np.eye(3), rng.standard_normal((1000, 3))),
        rotate,
        gradient=(0, 1),
        by_hand=rotate_by_hand,
    ),
    UserProgram(
        "filter of forty scalars",
        "jax-ml/jax#40150, pyhgf#435",
        hierarchy,
        filter_hierarchy,
        gradient=(0,),
    ),
    UserProgram(
        "one element per step",
        "QuantEcon#622, jax-ml/jax#25190",
        lambda rng: (1.0, rng.standard_normal(100_000)),
        simulate_prices,
        by_hand=simulate_prices_by_hand,
    ),
    UserProgram(
        "squared differences, 64^3 float32",
        "jax-ml/jax#37465",
        lambda rng: (rng.standard_normal((64, 64, 64)).astype(np.float32),),
        squared_differences,
        gradient=(0,),
        by_hand=squared_differences_by_hand,
        numba=False,
        tolerance=1e-4,
    ),
    UserProgram(
        "35 joints, products of 4 x 4",
        "jax-ml/jax#26021",
        lambda rng: (rng.uniform(-1, 1, 35),),
        end_of_arm,
    ),
    UserProgram(
        "35 joints, Jacobian",
        "jax-ml/jax#26021",
        lambda rng: (rng.uniform(-1, 1, 35),),
        jax.jacfwd(end_of_arm),
    ),
]
