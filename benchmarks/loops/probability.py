"""Kernels of probability: filters, Markov chains, and mixtures."""

from __future__ import annotations

from functools import partial

import numpy as np
from kernel import Kernel

__all__ = ["PROBABILITY"]


LEAP, LEAPS = 0.05, 10
"""Size and number of the leapfrog steps of a Hamiltonian Monte Carlo trajectory."""


def hmc_inputs(rng, points, features, rounds):
    xs = rng.standard_normal((points, features))
    ys = 1.0 * (rng.uniform(size=points) < 1 / (1 + np.exp(-xs[:, 0])))
    momenta = rng.standard_normal((rounds, features))
    return xs, ys, np.zeros(features), momenta, np.log(rng.uniform(size=rounds))


def hmc(n, xs, ys, start, momenta, uniforms):
    """Sample the weights of a logistic regression by Hamiltonian Monte Carlo.

    The random numbers are arguments.
    """

    def energy(w):
        logits = xs @ w
        return n.sum(n.logaddexp(0.0, logits) - ys * logits) + 0.5 * n.sum(w * w)

    slope = n.grad(energy)

    def leap(_, state):
        w, p = state
        p = p - LEAP / 2 * slope(w)
        w = w + LEAP * p
        return w, p - LEAP / 2 * slope(w)

    def sample(w, drawn):
        p, uniform = drawn
        after, q = n.fori_loop(0, LEAPS, leap, (w, p))
        fall = energy(w) + 0.5 * n.sum(p * p) - energy(after) - 0.5 * n.sum(q * q)
        w = n.where(uniform < fall, after, w)
        return w, w

    return n.scan(sample, start, (momenta, uniforms))[1]


def hmc_numpy(xs, ys, start, momenta, uniforms):
    def energy(w):
        logits = xs @ w
        return np.sum(np.logaddexp(0.0, logits) - ys * logits) + 0.5 * np.sum(w * w)

    def slope(w):
        return xs.T @ (1 / (1 + np.exp(-(xs @ w))) - ys) + w

    w = start
    samples = np.empty_like(momenta)
    for k, (p, uniform) in enumerate(zip(momenta, uniforms, strict=True)):
        after, q = w, p - LEAP / 2 * slope(w)
        for leap in range(LEAPS):
            after = after + LEAP * q
            q = q - (LEAP if leap < LEAPS - 1 else LEAP / 2) * slope(after)
        fall = energy(w) + 0.5 * p @ p - energy(after) - 0.5 * q @ q
        samples[k] = w = after if uniform < fall else w
    return samples


def hmc_numba(xs, ys, start, momenta, uniforms):
    columns = xs.T.copy()
    w = start.copy()
    samples = np.empty_like(momenta)
    for k in range(len(momenta)):
        p, after = momenta[k].copy(), w.copy()
        before = 0.5 * np.sum(p * p)
        for leap in range(LEAPS + 1):
            logits = xs @ after
            energy = 0.5 * np.sum(after * after)
            for i in range(len(ys)):
                energy += np.log1p(np.exp(-abs(logits[i]))) + max(logits[i], 0.0)
                energy -= ys[i] * logits[i]
                logits[i] = 1 / (1 + np.exp(-logits[i])) - ys[i]
            if leap == 0:
                before += energy
            part = LEAP / 2 if leap == 0 or leap == LEAPS else LEAP
            p -= part * (columns @ logits + after)
            if leap < LEAPS:
                after += LEAP * p
        if uniforms[k] < before - energy - 0.5 * np.sum(p * p):
            w = after
        samples[k] = w
    return samples


def kalman_inputs(rng, steps, states, measured):
    a = np.eye(states) + 0.1 * rng.standard_normal((states, states)) / np.sqrt(states)
    a /= max(1.0, 1.02 * np.max(np.abs(np.linalg.eigvals(a))))
    h = rng.standard_normal((measured, states))
    q, r = 0.1 * np.eye(states), 0.5 * np.eye(measured)
    return a, h, q, r, rng.standard_normal((steps, measured))


def kalman(n, a, h, q, r, ys):
    """Return the filtered means and covariances of a Kalman filter. The initial state is standard normal."""

    def step(carry, y):
        mean, covariance = carry
        mean, covariance = a @ mean, a @ covariance @ a.T + q
        gain = n.linalg.solve(h @ covariance @ h.T + r, h @ covariance).T
        carry = mean + gain @ (y - h @ mean), covariance - gain @ (h @ covariance)
        return carry, carry

    size = a.shape[0]
    start = n.zeros(size, a.dtype), n.eye(size, dtype=a.dtype)
    return n.scan(step, start, ys)[1]


def kalman_numpy(a, h, q, r, ys):
    mean, covariance = np.zeros(len(a)), np.eye(len(a))
    means, covariances = np.empty((len(ys), len(a))), np.empty((len(ys), *a.shape))
    for k, y in enumerate(ys):
        mean, covariance = a @ mean, a @ covariance @ a.T + q
        seen = h @ covariance
        gain = np.linalg.solve(seen @ h.T + r, seen).T
        means[k] = mean = mean + gain @ (y - h @ mean)
        covariances[k] = covariance = covariance - gain @ seen
    return means, covariances


def kalman_numba(a, h, q, r, ys):
    after, onto = a.T.copy(), h.T.copy()
    mean, covariance = np.zeros(len(a)), np.eye(len(a))
    means, covariances = np.empty((len(ys), len(a))), np.empty((len(ys), len(a), len(a)))
    for k in range(len(ys)):
        mean, covariance = a @ mean, a @ covariance @ after + q
        seen = h @ covariance
        gain = np.ascontiguousarray(np.linalg.solve(seen @ onto + r, seen).T)
        mean = mean + gain @ (ys[k] - h @ mean)
        covariance = covariance - gain @ seen
        means[k], covariances[k] = mean, covariance
    return means, covariances


def markov_inputs(rng, steps, states, symbols):
    """Return a hidden Markov model and observed symbols.

    The first three results are the logarithms of the initial, transition and emission probabilities. The last result
    is the sequence of symbols.
    """

    def logarithms(*shape):
        table = rng.uniform(0.1, 1.0, shape)
        return np.log(table / table.sum(axis=-1, keepdims=True))

    seen = rng.integers(0, symbols, steps)
    return logarithms(states), logarithms(states, states), logarithms(states, symbols), seen


def markov_forward(n, first, transitions, emissions, seen):
    def step(alpha, symbol):
        alpha = n.logsumexp(alpha[:, None] + transitions, axis=0) + emissions[:, symbol]
        return alpha, None

    alpha, _ = n.scan(step, first + emissions[:, seen[0]], seen[1:])
    return n.logsumexp(alpha)


def markov_forward_numpy(first, transitions, emissions, seen):
    matrix, likelihoods = np.exp(transitions), np.exp(emissions)
    alpha, total = np.exp(first) * likelihoods[:, seen[0]], 0.0
    for symbol in seen[1:]:
        norm = alpha.sum()
        total += np.log(norm)
        alpha = (alpha / norm) @ matrix * likelihoods[:, symbol]
    return total + np.log(alpha.sum())


def markov_forward_calls(first, transitions, emissions, seen):
    def log_sum_exp(x, axis=None):
        largest = np.max(x, axis=axis, keepdims=True)
        is_infinite, shift = np.isinf(largest), np.where(np.isfinite(largest), largest, 0.0)
        shares = np.exp(np.where(is_infinite, 0.0, x) - shift)
        sums = np.log(np.sum(shares, axis=axis, keepdims=True)) + shift
        return np.squeeze(np.where(is_infinite, largest, sums), axis=axis)

    alpha = first + emissions[:, seen[0]]
    for symbol in seen[1:]:
        alpha = log_sum_exp(alpha[:, None] + transitions, axis=0) + emissions[:, symbol]
    return log_sum_exp(alpha)


def markov_forward_numba(first, transitions, emissions, seen):
    states = len(first)
    matrix = np.exp(transitions)
    alpha, after = np.exp(first + emissions[:, seen[0]]), np.empty(states)
    total = 0.0
    for k in range(1, len(seen)):
        norm = alpha.sum()
        total += np.log(norm)
        for j in range(states):
            after[j] = 0.0
            for i in range(states):
                after[j] += alpha[i] / norm * matrix[i, j]
            after[j] *= np.exp(emissions[j, seen[k]])
        alpha, after = after, alpha
    return total + np.log(alpha.sum())


def viterbi(n, first, transitions, emissions, seen):
    """Return the most probable sequence of states of a hidden Markov model, and the logarithm of its probability."""

    def step(best, symbol):
        candidates = best[:, None] + transitions
        return n.max(candidates, axis=0) + emissions[:, symbol], n.argmax(candidates, axis=0)

    def back(state, origins):
        state = origins[state]
        return state, state

    best, origins = n.scan(step, first + emissions[:, seen[0]], seen[1:])
    last = n.argmax(best)
    _, states = n.scan(back, last, origins, reverse=True)
    return n.concatenate([states, last[None]]), n.max(best)


def viterbi_numpy(first, transitions, emissions, seen):
    best = first + emissions[:, seen[0]]
    origins = np.empty((len(seen) - 1, len(first)), np.int64)
    for k, symbol in enumerate(seen[1:]):
        candidates = best[:, None] + transitions
        origins[k] = np.argmax(candidates, axis=0)
        best = np.max(candidates, axis=0) + emissions[:, symbol]
    states = np.empty(len(seen), np.int64)
    states[-1] = np.argmax(best)
    for k in range(len(seen) - 2, -1, -1):
        states[k] = origins[k, states[k + 1]]
    return states, np.max(best)


def viterbi_numba(first, transitions, emissions, seen):
    size = len(first)
    best, after = first + emissions[:, seen[0]], np.empty(size)
    origins = np.empty((len(seen) - 1, size), np.int64)
    for k in range(len(seen) - 1):
        for j in range(size):
            origin = 0
            for i in range(size):
                if best[i] + transitions[i, j] > best[origin] + transitions[origin, j]:
                    origin = i
            origins[k, j] = origin
            after[j] = best[origin] + transitions[origin, j] + emissions[j, seen[k + 1]]
        best, after = after, best
    states = np.empty(len(seen), np.int64)
    states[-1] = np.argmax(best)
    for k in range(len(seen) - 2, -1, -1):
        states[k] = origins[k, states[k + 1]]
    return states, np.max(best)


COUPLING = 0.44
"""Interaction of neighbouring spins divided by the temperature. It is near the critical point of a large lattice."""


def ising_inputs(rng, n, rounds):
    spins = rng.choice([-1.0, 1.0], (n, n))
    colours = (np.arange(n)[:, None] + np.arange(n)) % 2
    return spins, colours, rng.uniform(size=(rounds, 2, n, n))


def ising(n, spins, colours, uniforms):
    """Sample an Ising model on a torus by Metropolis steps, first on the even and then on the odd sites.

    Return the final spins, and the mean spin after each step.
    """

    def half(spins, colour, uniform):
        neighbours = sum(n.roll(spins, by, axis) for axis in (0, 1) for by in (1, -1))
        flips = (uniform < n.exp(-2 * COUPLING * spins * neighbours)) & (colours == colour)
        return n.where(flips, -spins, spins)

    def iteration(spins, uniform):
        spins = half(half(spins, 0, uniform[0]), 1, uniform[1])
        return spins, n.mean(spins)

    return n.scan(iteration, spins, uniforms)


def ising_numpy(spins, colours, uniforms):
    spins, means = spins.copy(), np.empty(len(uniforms))
    for k, pair in enumerate(uniforms):
        for colour, uniform in enumerate(pair):
            neighbours = sum(np.roll(spins, by, axis) for axis in (0, 1) for by in (1, -1))
            flips = (uniform < np.exp(-2 * COUPLING * spins * neighbours)) & (colours == colour)
            np.negative(spins, out=spins, where=flips)
        means[k] = spins.mean()
    return spins, means


def ising_numba(spins, colours, uniforms):
    spins, means = spins.copy(), np.empty(len(uniforms))
    n = len(spins)
    for k in range(len(uniforms)):
        for colour in range(2):
            for i in range(n):
                for j in range(n):
                    if colours[i, j] == colour:
                        around = spins[i - 1, j] + spins[(i + 1) % n, j]
                        around += spins[i, j - 1] + spins[i, (j + 1) % n]
                        if uniforms[k, colour, i, j] < np.exp(-2 * COUPLING * spins[i, j] * around):
                            spins[i, j] = -spins[i, j]
        means[k] = spins.mean()
    return spins, means


def clusters_inputs(rng, points, features, clusters, rounds):
    centres = 3 * rng.standard_normal((clusters, features))
    xs = centres[rng.integers(0, clusters, points)] + rng.standard_normal((points, features))
    return xs, xs[:clusters] + 0.0, rounds


def lloyd(n, xs, centres, rounds):
    """Return the centres of k-means after `rounds` of Lloyd's steps. A centre without points does not move."""
    squares = n.sum(xs * xs, axis=1)[:, None]
    names = n.arange(centres.shape[0])

    def iteration(_, centres):
        distances = squares - 2 * xs @ centres.T + n.sum(centres * centres, axis=1)
        members = (n.argmin(distances, axis=1)[:, None] == names).astype(xs.dtype)
        counts = n.sum(members, axis=0)[:, None]
        return n.where(counts > 0, members.T @ xs / n.maximum(counts, 1.0), centres)

    return n.fori_loop(0, rounds, iteration, centres)


def lloyd_numpy(xs, centres, rounds):
    squares = np.sum(xs * xs, axis=1)[:, None]
    for _ in range(rounds):
        distances = squares - 2 * xs @ centres.T + np.sum(centres * centres, axis=1)
        nearest = np.argmin(distances, axis=1)
        counts = np.bincount(nearest, minlength=len(centres))[:, None]
        sums = np.stack([np.bincount(nearest, x, len(centres)) for x in xs.T], axis=1)
        centres = np.where(counts > 0, sums / np.maximum(counts, 1), centres)
    return centres


def lloyd_numba(xs, centres, rounds):
    centres = centres.copy()
    sums, counts = np.empty_like(centres), np.empty(len(centres))
    for _ in range(rounds):
        sums[:] = 0
        counts[:] = 0
        for i in range(len(xs)):
            nearest, least = 0, np.inf
            for k in range(len(centres)):
                distance = 0.0
                for j in range(xs.shape[1]):
                    distance += (xs[i, j] - centres[k, j]) ** 2
                if distance < least:
                    nearest, least = k, distance
            counts[nearest] += 1
            for j in range(xs.shape[1]):
                sums[nearest, j] += xs[i, j]
        for k in range(len(centres)):
            if counts[k] > 0:
                centres[k] = sums[k] / counts[k]
    return centres


FLOOR = 1e-3
"""Constant that is added to each variance, so that no variance becomes zero."""


def mixture(n, xs, means, rounds):
    """Fit a Gaussian mixture by expectation maximisation.

    The first weights are equal, and the first variances are 1.
    """
    size = means.shape[0]

    def iteration(_, carry):
        weights, means, variances = carry
        apart = xs[:, None] - means
        squares = n.sum(apart * apart / variances + n.log(variances), axis=-1)
        shares = n.nn.softmax(n.log(weights) - 0.5 * squares, axis=1)
        counts = n.sum(shares, axis=0)
        means = shares.T @ xs / counts[:, None]
        spread = shares.T @ (xs * xs) / counts[:, None] - means * means
        return counts / xs.shape[0], means, spread + FLOOR

    start = n.full(size, 1 / size, xs.dtype), means, n.ones_like(means)
    weights, means, variances = n.fori_loop(0, rounds, iteration, start)
    return means, variances, weights


def by_products(xs, both, means, variances):
    """Return squared distances, divided by the variances, plus log variances.

    Two matrix products compute them.
    """
    squares = both @ (1 / variances).T - 2 * xs @ (means / variances).T
    return squares + np.sum(means * means / variances + np.log(variances), axis=1)


def by_differences(xs, both, means, variances):
    """Return the results of `by_products`, computed from the difference in each component."""
    apart = xs[:, None] - means
    return np.sum(apart * apart / variances + np.log(variances), axis=-1)


def mixture_numpy(xs, means, rounds, squares_of=by_products):
    weights, variances = np.full(len(means), 1 / len(means)), np.ones_like(means)
    both = xs * xs
    for _ in range(rounds):
        shares = np.log(weights) - 0.5 * squares_of(xs, both, means, variances)
        shares = np.exp(shares - shares.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        counts = shares.sum(axis=0)
        means = shares.T @ xs / counts[:, None]
        variances = shares.T @ both / counts[:, None] - means * means + FLOOR
        weights = counts / len(xs)
    return means, variances, weights


def mixture_numba(xs, means, rounds):
    size, features = means.shape
    means, weights, variances = means.copy(), np.full(size, 1 / size), np.ones_like(means)
    shares = np.empty(size)
    for _ in range(rounds):
        counts, sums, squares = np.zeros(size), np.zeros_like(means), np.zeros_like(means)
        for i in range(len(xs)):
            for k in range(size):
                shares[k] = np.log(weights[k])
                for j in range(features):
                    square = (xs[i, j] - means[k, j]) ** 2 / variances[k, j]
                    shares[k] -= 0.5 * (square + np.log(variances[k, j]))
            shares = np.exp(shares - shares.max())
            shares /= shares.sum()
            for k in range(size):
                counts[k] += shares[k]
                for j in range(features):
                    sums[k, j] += shares[k] * xs[i, j]
                    squares[k, j] += shares[k] * xs[i, j] ** 2
        for k in range(size):
            weights[k] = counts[k] / len(xs)
            for j in range(features):
                means[k, j] = sums[k, j] / counts[k]
                variances[k, j] = squares[k, j] / counts[k] - means[k, j] ** 2 + FLOOR
    return means, variances, weights


PROBABILITY = [
    Kernel(
        "hmc",
        "Duane et al. 1987, logistic regression, 10 steps a trajectory",
        hmc_inputs,
        hmc,
        hmc_numpy,
        size=(200, 10, 150),
        small=(8, 3, 4),
        numba=hmc_numba,
        gradient=2,
    ),
    Kernel(
        "kalman filter",
        "Kalman 1960",
        kalman_inputs,
        kalman,
        kalman_numpy,
        size=(500, 8, 4),
        small=(4, 3, 2),
        numba=kalman_numba,
        gradient=0,
    ),
    Kernel(
        "hmm forward",
        "Rabiner 1989, in logarithms",
        markov_inputs,
        markov_forward,
        markov_forward_numpy,
        size=(2000, 16, 10),
        small=(5, 3, 4),
        calls=markov_forward_calls,
        numba=markov_forward_numba,
        gradient=1,
    ),
    Kernel(
        "viterbi",
        "Viterbi 1967",
        markov_inputs,
        viterbi,
        viterbi_numpy,
        size=(2000, 16, 10),
        small=(6, 3, 4),
        numba=viterbi_numba,
    ),
    Kernel(
        "ising",
        "Metropolis et al. 1953, the random numbers drawn before",
        ising_inputs,
        ising,
        ising_numpy,
        size=(64, 150),
        small=(6, 4),
        numba=ising_numba,
    ),
    Kernel(
        "k-means",
        "Lloyd 1957",
        clusters_inputs,
        lloyd,
        lloyd_numpy,
        size=(3000, 8, 16, 30),
        small=(20, 2, 3, 3),
        numba=lloyd_numba,
    ),
    Kernel(
        "gmm",
        "Dempster, Laird and Rubin 1977, covariances diagonal",
        clusters_inputs,
        mixture,
        mixture_numpy,
        size=(3000, 8, 16, 20),
        small=(20, 2, 3, 3),
        calls=partial(mixture_numpy, squares_of=by_differences),
        numba=mixture_numba,
        gradient=1,
        tolerance=1e-7,
    ),
]
