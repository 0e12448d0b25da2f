"""Programs, as JAX's users write them, for differential equations: explicit, adaptive and implicit integrators."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from user_program import UserProgram

__all__ = ["DIFFERENTIAL_EQUATIONS"]


def lorenz(state: Any, parameters: Any) -> Any:
    """Integrate the Lorenz equations by two thousand classical Runge-Kutta steps."""
    sigma, rho, beta = parameters

    def rate(y: Any) -> Any:
        return jnp.stack([
            sigma * (y[1] - y[0]), y[0] * (rho - y[2]) - y[1], y[0] * y[1] - beta * y[2]
        ])  # fmt: skip

    def step(y: Any, _: Any) -> Any:
        h = 1e-3
        k1 = rate(y)
        k2 = rate(y + h / 2 * k1)
        k3 = rate(y + h / 2 * k2)
        k4 = rate(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, y

    return jax.lax.scan(step, state, None, length=2000)[1]


def lorenz_by_hand(state: Any, parameters: Any) -> Any:
    sigma, rho, beta = parameters
    ys = np.zeros((2000, 3))
    y, h, ks = state, 1e-3, np.zeros((4, 3))
    for i in range(2000):
        at = y
        for k in range(4):
            ks[k, 0] = sigma * (at[1] - at[0])
            ks[k, 1] = at[0] * (rho - at[2]) - at[1]
            ks[k, 2] = at[0] * at[1] - beta * at[2]
            at = y + (h if k == 2 else h / 2) * ks[k]
        y = y + h / 6 * (ks[0] + 2 * ks[1] + 2 * ks[2] + ks[3])
        ys[i] = y
    return ys


STAGES = [
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    [35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
]
ERROR = [71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]


def van_der_pol(state: Any, mu: Any) -> Any:
    """Integrate van der Pol's equation up to t = 20 by Dormand and Prince's Runge-Kutta pair with adaptive steps."""

    def rate(y: Any) -> Any:
        return jnp.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])

    def attempt(carry: Any) -> Any:
        t, y, h, first, count = carry
        h = jnp.minimum(h, 20.0 - t)
        ks, at = [first], y
        for row in STAGES:
            at = y + h * sum(a * k for a, k in zip(row, ks, strict=True))
            ks.append(rate(at))
        error = h * sum(e * k for e, k in zip(ERROR, ks, strict=True))
        scale = 1e-8 + 1e-6 * jnp.maximum(jnp.abs(y), jnp.abs(at))
        norm = jnp.sqrt(jnp.mean((error / scale) ** 2))
        accept = norm <= 1.0
        factor = jnp.clip(0.9 * (norm + 1e-16) ** -0.2, 0.2, 5.0)
        y = jnp.where(accept, at, y)
        first = jnp.where(accept, ks[-1], first)
        return jnp.where(accept, t + h, t), y, h * factor, first, count + 1

    start = (jnp.zeros(()), state, jnp.asarray(1e-2), rate(state), 0)
    _, y, _, _, count = jax.lax.while_loop(lambda carry: carry[0] < 20.0, attempt, start)
    return y, count


def robertson(state: Any, rates: Any) -> Any:
    """Integrate Robertson's chemical reaction by implicit Euler steps of growing size.

    Each step makes six Newton iterations, each of which solves three linear equations.
    """

    def rate(y: Any) -> Any:
        a = rates[0] * y[0]
        b = rates[1] * y[1] * y[2]
        c = rates[2] * y[1] ** 2
        return jnp.stack([b - a, a - b - c, c])

    def step(y: Any, h: Any) -> Any:
        def newton(_: Any, z: Any) -> Any:
            residual = z - y - h * rate(z)
            matrix = jnp.eye(3) - h * jax.jacfwd(rate)(z)
            return z - jnp.linalg.solve(matrix, residual)

        y = jax.lax.fori_loop(0, 6, newton, y)
        return y, y

    return jax.lax.scan(step, state, jnp.geomspace(1e-5, 10.0, 100))[1]


COMPARTMENTS = 40


def cable(voltages: Any, conductances: dict[str, Any], current: Any) -> Any:
    """Simulate a Hodgkin-Huxley cable.

    Exponential Euler steps update its gates, and tridiagonal systems its voltages.
    """
    axial, dt = 2.0, 0.025

    def rates(v: Any) -> Any:
        am = 0.1 * (v + 40) / (1 - jnp.exp(-(v + 40) / 10))
        an = 0.01 * (v + 55) / (1 - jnp.exp(-(v + 55) / 10))
        ah, bh = 0.07 * jnp.exp(-(v + 65) / 20), 1 / (1 + jnp.exp(-(v + 35) / 10))
        bm, bn = 4 * jnp.exp(-(v + 65) / 18), 0.125 * jnp.exp(-(v + 65) / 80)
        return (am, bm), (ah, bh), (an, bn)

    def relaxed(gate: Any, a: Any, b: Any) -> Any:
        rest = a / (a + b)
        return rest + (gate - rest) * jnp.exp(-dt * (a + b))

    def solved(diagonal: Any, right: Any) -> Any:
        """Solve a tridiagonal system by Thomas's algorithm. All elements next to the diagonal are -dt * axial."""
        off = -dt * axial

        def forward(carry: Any, row: Any) -> Any:
            c, d = carry
            b, r = row
            scale = 1 / (b - off * c)
            carry = off * scale, (r - off * d) * scale
            return carry, carry

        def backward(x: Any, row: Any) -> Any:
            c, d = row
            x = d - c * x
            return x, x

        _, rows = jax.lax.scan(forward, (0.0, 0.0), (diagonal, right))
        return jax.lax.scan(backward, 0.0, rows, reverse=True)[1]

    def step(state: Any, injected: Any) -> Any:
        v, m, h, n = state
        (am, bm), (ah, bh), (an, bn) = rates(v)
        m, h, n = relaxed(m, am, bm), relaxed(h, ah, bh), relaxed(n, an, bn)
        sodium = conductances["na"] * m**3 * h
        potassium = conductances["k"] * n**4
        leak = conductances["leak"]
        total = sodium + potassium + leak
        reversal = 50.0 * sodium - 77.0 * potassium - 54.3 * leak
        neighbours = jnp.full(COMPARTMENTS, 2.0).at[0].set(1.0).at[-1].set(1.0)
        diagonal = 1 + dt * total + dt * axial * neighbours
        right = (v + dt * reversal).at[0].add(dt * injected)
        v = solved(diagonal, right)
        return (v, m, h, n), v[-1]

    (am, bm), (ah, bh), (an, bn) = rates(voltages)
    gates = am / (am + bm), ah / (ah + bh), an / (an + bn)
    return jax.lax.scan(step, (voltages, *gates), current)[1]


def cable_inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    conductances = {"na": 120.0, "k": 36.0, "leak": 0.3}
    conductances = {
        name: g * rng.uniform(0.9, 1.1, COMPARTMENTS) for name, g in conductances.items()
    }
    return np.full(COMPARTMENTS, -65.0), conductances, np.where(np.arange(400) < 80, 60.0, 0.0)


def cluster(positions: Any, velocities: Any, masses: Any) -> Any:
    """Integrate bodies that attract one another with softened forces, by leapfrog steps."""

    def accelerations(x: Any) -> Any:
        apart = x[None, :, :] - x[:, None, :]
        squares = jnp.sum(apart**2, axis=-1) + 1e-2
        return jnp.sum(masses[None, :, None] * apart * squares[..., None] ** -1.5, axis=1)

    def step(_: Any, state: Any) -> Any:
        x, v, a = state
        v = v + 5e-4 * a
        x = x + 1e-3 * v
        a = accelerations(x)
        return x, v + 5e-4 * a, a

    start = positions, velocities, accelerations(positions)
    return jax.lax.fori_loop(0, 100, step, start)[0]


def cluster_by_hand(positions: Any, velocities: Any, masses: Any) -> Any:
    count = len(masses)
    x, v = positions.copy(), velocities.copy()
    a = np.zeros_like(x)
    for step in range(101):
        if step:
            v += 5e-4 * a
            x += 1e-3 * v
        for i in range(count):
            a[i] = 0.0
            for j in range(count):
                apart = x[j] - x[i]
                a[i] += masses[j] * apart * (np.sum(apart**2) + 1e-2) ** -1.5
        if step:
            v += 5e-4 * a
    return x


def radial_velocity(elements: dict[str, Any], times: Any) -> Any:
    """Solve Kepler's equation by Newton's iteration at many times, and return the radial velocities."""
    e = elements["eccentricity"]
    anomaly = 2 * jnp.pi * (times - elements["periastron"]) / elements["period"]

    def newton(state: Any) -> Any:
        x, _, count = state
        change = (x - e * jnp.sin(x) - anomaly) / (1 - e * jnp.cos(x))
        return x - change, jnp.max(jnp.abs(change)), count + 1

    def unfinished(state: Any) -> Any:
        return (state[1] > 1e-12) & (state[2] < 30)

    x, _, _ = jax.lax.while_loop(unfinished, newton, (anomaly + e * jnp.sin(anomaly), 1.0, 0))
    true = 2 * jnp.arctan2(jnp.sqrt(1 + e) * jnp.sin(x / 2), jnp.sqrt(1 - e) * jnp.cos(x / 2))
    return elements["amplitude"] * (jnp.cos(true + elements["argument"]) + e)


def orbit_inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    elements = {
        "eccentricity": np.float64(0.4), "periastron": np.float64(0.3), "period": np.float64(3.1),
        "amplitude": np.float64(20.0), "argument": np.float64(1.0),
    }  # fmt: skip
    return elements, np.sort(rng.uniform(0, 30, 500))


DIFFERENTIAL_EQUATIONS = [
    UserProgram(
        "Lorenz, Runge-Kutta",
        "explicit steps of fixed length, as jax-ml/jax#26145",
        lambda rng: (np.array([1.0, 1.0, 20.0]), np.array([10.0, 28.0, 8 / 3])),
        lorenz,
        gradient=(0, 1),
        by_hand=lorenz_by_hand,
    ),
    UserProgram(
        "van der Pol, adaptive steps",
        "Dormand and Prince 1980, as diffrax steps",
        lambda rng: (np.array([2.0, 0.0]), 5.0),
        van_der_pol,
        tolerance=1e-5,
    ),
    UserProgram(
        "Robertson, implicit steps",
        "Robertson 1966, as diffrax#606 steps",
        lambda rng: (np.array([1.0, 0.0, 0.0]), np.array([0.04, 1e4, 3e7])),
        robertson,
        gradient=(1,),
        tolerance=1e-7,
    ),
    UserProgram(
        "Hodgkin-Huxley cable",
        "Hodgkin and Huxley 1952, as jaxley#570",
        cable_inputs,
        cable,
        gradient=(1,),
        tolerance=1e-6,
    ),
    UserProgram(
        "32 bodies, leapfrog",
        "softened gravity, Aarseth 1963",
        lambda rng: (
            rng.standard_normal((32, 3)),
            0.1 * rng.standard_normal((32, 3)),
            np.full(32, 1 / 32),
        ),
        cluster,
        gradient=(0,),
        by_hand=cluster_by_hand,
    ),
    UserProgram("orbits, Kepler's equation", "jnkepler#18", orbit_inputs, radial_velocity),
]
