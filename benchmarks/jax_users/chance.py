"""Programs of probability, as JAX's users write them: filters, hidden Markov models, samplers, and agents."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from user_program import UserProgram

__all__ = ["CHANCE"]


def kalman(transition: Any, noise: Any, observations: Any) -> Any:
    """Return the log likelihood of a linear Gaussian model of four states, two of which are observed."""
    seen = jnp.eye(2, 4)

    def step(carry: Any, y: Any) -> Any:
        mean, covariance = carry
        mean = transition @ mean
        covariance = transition @ covariance @ transition.T + noise
        innovation = y - seen @ mean
        spread = seen @ covariance @ seen.T + 0.1 * jnp.eye(2)
        gain = jnp.linalg.solve(spread, seen @ covariance).T
        mean = mean + gain @ innovation
        covariance = covariance - gain @ spread @ gain.T
        quadratic = innovation @ jnp.linalg.solve(spread, innovation)
        return (mean, covariance), -0.5 * (quadratic + jnp.linalg.slogdet(spread)[1])

    return jnp.sum(jax.lax.scan(step, (jnp.zeros(4), jnp.eye(4)), observations)[1])


def kalman_by_hand(transition: Any, noise: Any, observations: Any) -> Any:
    seen = np.eye(2, 4)
    mean, covariance, total = np.zeros(4), np.eye(4), 0.0
    for i in range(len(observations)):
        mean = transition @ mean
        covariance = transition @ covariance @ transition.T + noise
        innovation = observations[i] - seen @ mean
        spread = seen @ covariance @ seen.T + 0.1 * np.eye(2)
        gain = np.linalg.solve(spread, seen @ covariance).T
        mean = mean + gain @ innovation
        covariance = covariance - gain @ spread @ gain.T
        total -= 0.5 * (innovation @ np.linalg.solve(spread, innovation))
        total -= 0.5 * np.log(np.linalg.det(spread))
    return total


def kalman_inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    transition = np.eye(4) + 0.1 * np.eye(4, k=2)
    return 0.99 * transition, 0.01 * np.eye(4), np.cumsum(0.1 * rng.standard_normal((300, 2)), 0)


def hidden_markov(log_transitions: Any, log_emissions: Any, symbols: Any) -> Any:
    """Return the log likelihood of the observed symbols in a hidden Markov model, by the forward recursion."""

    def step(alpha: Any, symbol: Any) -> Any:
        alpha = jax.nn.logsumexp(alpha[:, None] + log_transitions, axis=0)
        return alpha + log_emissions[:, symbol], None

    start = log_emissions[:, symbols[0]] - jnp.log(log_emissions.shape[0])
    return jax.nn.logsumexp(jax.lax.scan(step, start, symbols[1:])[0])


def hidden_markov_by_hand(log_transitions: Any, log_emissions: Any, symbols: Any) -> Any:
    count = len(log_emissions)
    alpha = log_emissions[:, symbols[0]] - np.log(count)
    for i in range(1, len(symbols)):
        largest = np.max(alpha)
        scaled = np.exp(alpha - largest) @ np.exp(log_transitions)
        alpha = np.log(scaled) + largest + log_emissions[:, symbols[i]]
    return np.max(alpha) + np.log(np.sum(np.exp(alpha - np.max(alpha))))


def viterbi(log_transitions: Any, log_emissions: Any, symbols: Any) -> Any:
    """Return the most likely states of a hidden Markov model, by following back pointers from the last state."""

    def forward(best: Any, symbol: Any) -> Any:
        scores = best[:, None] + log_transitions
        return jnp.max(scores, axis=0) + log_emissions[:, symbol], jnp.argmax(scores, axis=0)

    best, pointers = jax.lax.scan(forward, log_emissions[:, symbols[0]], symbols[1:])

    def backward(state: Any, pointer: Any) -> Any:
        before = pointer[state]
        return before, before

    last = jnp.argmax(best)
    _, states = jax.lax.scan(backward, last, pointers, reverse=True)
    return jnp.append(states, last)


def viterbi_by_hand(log_transitions: Any, log_emissions: Any, symbols: Any) -> Any:
    count, length = len(log_emissions), len(symbols)
    best = log_emissions[:, symbols[0]].copy()
    pointers = np.zeros((length, count), np.int64)
    states = np.zeros(length, np.int64)
    for i in range(1, length):
        scores = best.reshape(-1, 1) + log_transitions
        for j in range(count):
            pointers[i, j] = np.argmax(scores[:, j])
            best[j] = scores[pointers[i, j], j] + log_emissions[j, symbols[i]]
    states[-1] = np.argmax(best)
    for i in range(length - 1, 0, -1):
        states[i - 1] = pointers[i, states[i]]
    return states


def markov_inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    transitions = rng.dirichlet(np.full(12, 0.5), 12) + 1e-3
    emissions = rng.dirichlet(np.full(8, 0.5), 12) + 1e-3
    transitions /= transitions.sum(1, keepdims=True)
    emissions /= emissions.sum(1, keepdims=True)
    return np.log(transitions), np.log(emissions), rng.integers(0, 8, 600)


def epidemic(seed: Any, infectivity: Any) -> Any:
    """Simulate agents on a ring that infect their neighbours, recover, and lose immunity at random."""
    key = jax.random.key(seed)
    susceptible, infected, immune = 0, 1, 2

    def step(carry: Any, _: Any) -> Any:
        state, key = carry
        key, first, second = jax.random.split(key, 3)
        ill = (state == infected).astype(jnp.float64)
        near = jnp.roll(ill, 1) + jnp.roll(ill, -1)
        caught = jax.random.uniform(first, state.shape) < 1 - (1 - infectivity) ** near
        changes = jax.random.uniform(second, state.shape) < 0.2
        after_susceptible = jnp.where(caught, infected, susceptible)
        after_infected = jnp.where(changes, immune, infected)
        after_immune = jnp.where(changes, susceptible, immune)
        state = jnp.select(
            [state == susceptible, state == infected],
            [after_susceptible, after_infected],
            after_immune,
        )
        return (state, key), jnp.sum(state == infected)

    start = jnp.where(jnp.arange(256) % 16 == 0, infected, susceptible)
    return jax.lax.scan(step, (start, key), None, length=100)[1]


def metropolis(seed: Any, data: Any) -> Any:
    """Sample the mean and the logarithm of the standard deviation of normal data, by a random-walk Metropolis chain."""

    def log_density(theta: Any) -> Any:
        mean, log_scale = theta
        standard = (data - mean) / jnp.exp(log_scale)
        return -0.5 * jnp.sum(standard**2) - data.size * log_scale - 0.5 * jnp.sum(theta**2)

    def step(carry: Any, key: Any) -> Any:
        theta, density = carry
        move, accept = jax.random.split(key)
        proposed = theta + 0.1 * jax.random.normal(move, theta.shape)
        new = log_density(proposed)
        accepted = jnp.log(jax.random.uniform(accept)) < new - density
        theta = jnp.where(accepted, proposed, theta)
        return (theta, jnp.where(accepted, new, density)), theta

    keys = jax.random.split(jax.random.key(seed), 1000)
    start = jnp.zeros(2)
    return jax.lax.scan(step, (start, log_density(start)), keys)[1]


CHANCE = [
    UserProgram(
        "Kalman filter",
        "Kalman 1960, as users of dynamax write it",
        kalman_inputs,
        kalman,
        gradient=(0, 1),
        by_hand=kalman_by_hand,
        tolerance=1e-7,
    ),
    UserProgram(
        "hidden Markov model, forward",
        "Baum and others 1970",
        markov_inputs,
        hidden_markov,
        gradient=(0, 1),
        by_hand=hidden_markov_by_hand,
    ),
    UserProgram(
        "hidden Markov model, Viterbi",
        "Viterbi 1967",
        markov_inputs,
        viterbi,
        by_hand=viterbi_by_hand,
    ),
    UserProgram(
        "agents, an epidemic",
        "Kermack and McKendrick 1927, on a ring",
        lambda rng: (3, 0.3),
        epidemic,
    ),
    UserProgram(
        "Metropolis sampler",
        "Metropolis and others 1953, as blackjax steps",
        lambda rng: (5, 1.0 + 2.0 * rng.standard_normal(100)),
        metropolis,
    ),
]
