"""Kernels that integrate differential equations, step by step."""

from __future__ import annotations

import numpy as np
from kernel import Kernel

__all__ = ["DYNAMICS"]


SOFTENING = 0.01
"""Square of the softening length. It is added to the squared distance of two bodies, so that their force is bounded."""
DAY = 0.01
"""Time step of all solvers except the adaptive one."""


def bodies_inputs(rng, n, rounds):
    return rng.standard_normal((n, 3)), 0.1 * rng.standard_normal((n, 3)), np.full(n, 1 / n), rounds


def bodies(n, positions, velocities, masses, rounds):
    """Integrate bodies under gravity by leapfrog steps.

    A step applies half of the acceleration, moves the bodies, and applies the other half.
    """

    def acceleration(x):
        apart = x[None] - x[:, None]
        squares = n.sum(apart * apart, axis=-1) + SOFTENING
        return n.sum((masses * squares**-1.5)[:, :, None] * apart, axis=1)

    def iteration(_, carry):
        x, v, a = carry
        v = v + DAY / 2 * a
        x = x + DAY * v
        a = acceleration(x)
        return x, v + DAY / 2 * a, a

    start = positions, velocities, acceleration(positions)
    x, v, _ = n.fori_loop(0, rounds, iteration, start)
    return x, v


def bodies_numpy(positions, velocities, masses, rounds):
    def acceleration(x):
        apart = x[None] - x[:, None]
        squares = np.einsum("ijk,ijk->ij", apart, apart) + SOFTENING
        return np.einsum("ij,ijk->ik", masses / (squares * np.sqrt(squares)), apart)

    x, v = positions.copy(), velocities.copy()
    a = acceleration(x)
    for _ in range(rounds):
        v += DAY / 2 * a
        x += DAY * v
        a = acceleration(x)
        v += DAY / 2 * a
    return x, v


def bodies_numba(positions, velocities, masses, rounds):
    x, v = positions.copy(), velocities.copy()
    n = len(x)
    a = np.zeros_like(x)
    for iteration in range(rounds + 1):
        if iteration:
            for i in range(n):
                for k in range(3):
                    v[i, k] += DAY / 2 * a[i, k]
                    x[i, k] += DAY * v[i, k]
        for i in range(n):
            p = q = r = 0.0
            for j in range(n):
                dp, dq, dr = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
                square = dp * dp + dq * dq + dr * dr + SOFTENING
                pull = masses[j] / (square * np.sqrt(square))
                p += pull * dp
                q += pull * dq
                r += pull * dr
            a[i, 0], a[i, 1], a[i, 2] = p, q, r
            if iteration:
                for k in range(3):
                    v[i, k] += DAY / 2 * a[i, k]
    return x, v


def populations_inputs(rng, rounds):
    return np.array([10.0, 5.0]), np.array([1.1, 0.4, 0.1, 0.4]), rounds


def growth(n, x, rates):
    """Return the growth rates of prey and predators (Lotka and Volterra)."""
    prey, predators = x[0], x[1]
    meetings = prey * predators
    return n.stack(
        [rates[0] * prey - rates[1] * meetings, rates[2] * meetings - rates[3] * predators]
    )


def populations(n, start, rates, rounds):
    def iteration(x, _):
        a = growth(n, x, rates)
        b = growth(n, x + DAY / 2 * a, rates)
        c = growth(n, x + DAY / 2 * b, rates)
        d = growth(n, x + DAY * c, rates)
        x = x + DAY / 6 * (a + 2 * b + 2 * c + d)
        return x, x

    return n.scan(iteration, start, length=rounds)[1]


def populations_numpy(start, rates, rounds):
    x = start
    course = np.empty((rounds, 2))
    for k in range(rounds):
        a = growth(np, x, rates)
        b = growth(np, x + DAY / 2 * a, rates)
        c = growth(np, x + DAY / 2 * b, rates)
        d = growth(np, x + DAY * c, rates)
        course[k] = x = x + DAY / 6 * (a + 2 * b + 2 * c + d)
    return course


def populations_numba(start, rates, rounds):
    course = np.empty((rounds, 2))
    parts = np.array([0.5, 0.5, 1.0])
    weights = np.array([1.0, 2.0, 2.0, 1.0])
    x, y = start
    for k in range(rounds):
        p, q = x, y
        dx = dy = 0.0
        for stage in range(4):
            a = rates[0] * p - rates[1] * p * q
            b = rates[2] * p * q - rates[3] * q
            dx += weights[stage] * a
            dy += weights[stage] * b
            if stage < 3:
                p, q = x + DAY * parts[stage] * a, y + DAY * parts[stage] * b
        x += DAY / 6 * dx
        y += DAY / 6 * dy
        course[k, 0], course[k, 1] = x, y
    return course


STAGES = np.zeros((7, 7))
STAGES[1, :1] = 1 / 5
STAGES[2, :2] = 3 / 40, 9 / 40
STAGES[3, :3] = 44 / 45, -56 / 15, 32 / 9
STAGES[4, :4] = 19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729
STAGES[5, :5] = 9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656
STAGES[6, :6] = 35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84
FOURTH = np.array([5179 / 57600, 0, 7571 / 16695, 393 / 640, -92097 / 339200, 187 / 2100, 1 / 40])
"""Weights of the fourth-order result of Dormand and Prince's pair.

The last row of `STAGES` has the weights of the fifth-order result.
"""
ERRORS = STAGES[6] - FOURTH
TOLERANCE = 1e-8


def adaptive_inputs(rng, end):
    return np.array([10.0, 5.0]), np.array([1.1, 0.4, 0.1, 0.4]), np.float64(end)


def adaptive(n, start, rates, end):
    """Integrate with adaptive steps from 0 to `end`; return the final state and the number of attempted steps."""

    def continues(carry):
        return carry[0] < end

    def iteration(carry):
        t, x, step, tried = carry
        step = n.minimum(step, end - t)
        slopes = [growth(n, x, rates)]
        for row in STAGES[1:]:
            moved = sum(c * k for c, k in zip(row, slopes, strict=False) if c)
            slopes.append(growth(n, x + step * moved, rates))
        after = x + step * sum(c * k for c, k in zip(STAGES[6], slopes, strict=True) if c)
        error = step * sum(c * k for c, k in zip(ERRORS, slopes, strict=True) if c)
        scale = TOLERANCE + TOLERANCE * n.maximum(n.abs(x), n.abs(after))
        norm = n.sqrt(n.mean((error / scale) ** 2))
        kept = norm <= 1
        factor = n.clip(0.9 * n.maximum(norm, 1e-10) ** -0.2, 0.2, 10.0)
        t, x = n.where(kept, t + step, t), n.where(kept, after, x)
        return t, x, step * factor, tried + 1

    zero = n.zeros_like(end)
    _, x, _, tried = n.while_loop(continues, iteration, (zero, start, zero + 1e-3, 0))
    return x, tried


def adaptive_numpy(start, rates, end):
    t, x, step, tried = 0.0, start, 1e-3, 0
    slopes = np.empty((7, 2))
    while t < end:
        step = min(step, end - t)
        slopes[0] = growth(np, x, rates)
        for k in range(1, 7):
            slopes[k] = growth(np, x + step * (STAGES[k, :k] @ slopes[:k]), rates)
        after = x + step * (STAGES[6] @ slopes)
        scale = TOLERANCE + TOLERANCE * np.maximum(np.abs(x), np.abs(after))
        norm = np.sqrt(np.mean((step * (ERRORS @ slopes) / scale) ** 2))
        if norm <= 1:
            t, x = t + step, after
        step *= min(max(0.9 * max(norm, 1e-10) ** -0.2, 0.2), 10.0)
        tried += 1
    return x, np.int64(tried)


def adaptive_numba(start, rates, end):
    t, x, step, tried = 0.0, start.copy(), 1e-3, 0
    slopes, moved = np.empty((7, 2)), np.empty(2)
    while t < end:
        step = min(step, end - t)
        for k in range(7):
            for i in range(2):
                moved[i] = x[i]
                for j in range(k):
                    moved[i] += step * STAGES[k, j] * slopes[j, i]
            slopes[k, 0] = rates[0] * moved[0] - rates[1] * moved[0] * moved[1]
            slopes[k, 1] = rates[2] * moved[0] * moved[1] - rates[3] * moved[1]
        norm = 0.0
        for i in range(2):
            error = 0.0
            for j in range(7):
                error += step * ERRORS[j] * slopes[j, i]
            norm += (error / (TOLERANCE + TOLERANCE * max(abs(x[i]), abs(moved[i])))) ** 2
        norm = np.sqrt(norm / 2)
        if norm <= 1:
            t += step
            x[:] = moved
        step *= min(max(0.9 * max(norm, 1e-10) ** -0.2, 0.2), 10.0)
        tried += 1
    return x, tried


def epidemic_inputs(rng, towns, rounds):
    mixing = rng.uniform(0.0, 1.0, (towns, towns)) + towns * np.eye(towns)
    mixing /= mixing.sum(axis=1, keepdims=True)
    return np.array([0.4, 0.1]), mixing, rng.uniform(0.0, 0.01, towns), rounds


def epidemic(n, rates, mixing, ill, rounds):
    """Integrate an epidemic in several connected towns by Euler steps.

    A town has fractions of susceptible, infected and recovered people.
    """

    def iteration(carry, _):
        susceptible, ill, recovered = carry
        caught = DAY * rates[0] * susceptible * (mixing @ ill)
        healed = DAY * rates[1] * ill
        carry = susceptible - caught, ill + caught - healed, recovered + healed
        return carry, n.sum(carry[1])

    start = 1 - ill, ill, n.zeros_like(ill)
    last, course = n.scan(iteration, start, length=rounds)
    return course, *last


def epidemic_numpy(rates, mixing, ill, rounds):
    susceptible, ill, recovered = 1 - ill, ill.copy(), np.zeros_like(ill)
    course = np.empty(rounds)
    for k in range(rounds):
        caught = DAY * rates[0] * susceptible * (mixing @ ill)
        healed = DAY * rates[1] * ill
        susceptible -= caught
        ill += caught - healed
        recovered += healed
        course[k] = ill.sum()
    return course, susceptible, ill, recovered


def epidemic_numba(rates, mixing, ill, rounds):
    towns = len(ill)
    susceptible, ill, recovered = 1 - ill, ill.copy(), np.zeros_like(ill)
    met = np.empty(towns)
    course = np.zeros(rounds)
    for k in range(rounds):
        for i in range(towns):
            met[i] = 0.0
            for j in range(towns):
                met[i] += mixing[i, j] * ill[j]
        for i in range(towns):
            caught = DAY * rates[0] * susceptible[i] * met[i]
            healed = DAY * rates[1] * ill[i]
            susceptible[i] -= caught
            ill[i] += caught - healed
            recovered[i] += healed
            course[k] += ill[i]
    return course, susceptible, ill, recovered


DYNAMICS = [
    Kernel(
        "n-body",
        "Newton's gravity, softened, by leapfrog",
        bodies_inputs,
        bodies,
        bodies_numpy,
        size=(64, 150),
        small=(4, 3),
        numba=bodies_numba,
        gradient=0,
    ),
    Kernel(
        "lotka-volterra, rk4",
        "Lotka 1925 and Volterra 1926, by the classical method of Runge and Kutta",
        populations_inputs,
        populations,
        populations_numpy,
        size=(2000,),
        small=(4,),
        numba=populations_numba,
        gradient=1,
    ),
    Kernel(
        "lotka-volterra, dopri5",
        "Lotka 1925 and Volterra 1926, by Dormand and Prince 1980",
        adaptive_inputs,
        adaptive,
        adaptive_numpy,
        size=(30,),
        small=(1,),
        numba=adaptive_numba,
        tolerance=1e-6,
    ),
    Kernel(
        "sir",
        "Kermack and McKendrick 1927, towns that mix",
        epidemic_inputs,
        epidemic,
        epidemic_numpy,
        size=(40, 2000),
        small=(3, 4),
        numba=epidemic_numba,
        gradient=0,
    ),
]
