"""Kernels that apply one map repeatedly, for a fixed number of iterations or until convergence."""

from __future__ import annotations

import numpy as np
from kernel import Kernel

__all__ = ["ITERATIONS"]


def mandelbrot_inputs(rng, n, rounds):
    return np.linspace(-2.0, 0.6, n) + 1j * np.linspace(-1.3, 1.3, n)[:, None], rounds


def mandelbrot(n, c, rounds):
    """Return, for each c, the number of iterations of z^2 + c during which |z| is at most 2."""

    def iteration(_, carry):
        z, count = carry
        near = n.real(z) ** 2 + n.imag(z) ** 2 <= 4
        return n.where(near, z * z + c, z), count + near

    zeros = n.zeros_like(c)
    return n.fori_loop(0, rounds, iteration, (zeros, n.zeros(c.shape, n.int64)))[1]


def mandelbrot_numpy(c, rounds):
    z = np.zeros_like(c)
    count = np.zeros(c.shape, np.int64)
    for _ in range(rounds):
        near = z.real**2 + z.imag**2 <= 4
        np.multiply(z, z, out=z, where=near)
        np.add(z, c, out=z, where=near)
        count += near
    return count


def mandelbrot_numba(c, rounds):
    count = np.zeros(c.shape, np.int64)
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            x = y = 0.0
            for _ in range(rounds):
                if x * x + y * y > 4:
                    break
                x, y = x * x - y * y + c[i, j].real, 2 * x * y + c[i, j].imag
                count[i, j] += 1
    return count


RESIDUAL = 1e-10
"""Norm of the residual, relative to that of the right-hand side, at which the conjugate gradient method ends."""


def poisson_inputs(rng, n):
    return (rng.standard_normal((n, n)),)


def conjugate_gradient(n, b):
    """Solve Poisson's equation on a square by conjugate gradients.

    The matrix is a five-point stencil, with zero at the boundary.
    """

    def product(x):
        framed = n.pad(x, 1)
        neighbours = framed[:-2, 1:-1] + framed[2:, 1:-1] + framed[1:-1, :-2] + framed[1:-1, 2:]
        return 4 * x - neighbours

    def continues(carry):
        return carry[3] > least

    def iteration(carry):
        x, r, p, square = carry
        q = product(p)
        length = square / n.sum(p * q)
        r = r - length * q
        after = n.sum(r * r)
        return x + length * p, r, r + after / square * p, after

    square = n.sum(b * b)
    least = RESIDUAL**2 * square
    return n.while_loop(continues, iteration, (n.zeros_like(b), b, b, square))[0]


def conjugate_gradient_numpy(b):
    x, r, framed = np.zeros_like(b), b.copy(), np.pad(b, 1)
    p = framed[1:-1, 1:-1]
    square = np.vdot(r, r)
    least = RESIDUAL**2 * square
    while square > least:
        q = 4 * p
        for part in (framed[:-2, 1:-1], framed[2:, 1:-1], framed[1:-1, :-2], framed[1:-1, 2:]):
            q -= part
        length = square / np.sum(p * q)
        x += length * p
        r -= length * q
        before, square = square, np.vdot(r, r)
        p *= square / before
        p += r
    return x


def conjugate_gradient_numba(b):
    n = len(b)
    x, r, q, p = np.zeros_like(b), b.copy(), np.zeros_like(b), np.zeros((n + 2, n + 2))
    p[1:-1, 1:-1] = b
    square = np.sum(b * b)
    least = RESIDUAL**2 * square
    while square > least:
        product = 0.0
        for i in range(n):
            for j in range(n):
                around = p[i, j + 1] + p[i + 2, j + 1] + p[i + 1, j] + p[i + 1, j + 2]
                q[i, j] = 4 * p[i + 1, j + 1] - around
                product += q[i, j] * p[i + 1, j + 1]
        length, before, square = square / product, square, 0.0
        for i in range(n):
            for j in range(n):
                x[i, j] += length * p[i + 1, j + 1]
                r[i, j] -= length * q[i, j]
                square += r[i, j] * r[i, j]
        for i in range(n):
            for j in range(n):
                p[i + 1, j + 1] = r[i, j] + square / before * p[i + 1, j + 1]
    return x


def power_inputs(rng, n, rounds):
    a = rng.uniform(0.0, 1.0, (n, n))
    return a + a.T, rounds


def power_iteration(n, a, rounds):
    """Compute the largest eigenvalue of a matrix by power iteration; return its eigenvector and the eigenvalue."""

    def iteration(_, x):
        y = a @ x
        return y / n.sqrt(n.sum(y * y))

    size = a.shape[0]
    x = n.fori_loop(0, rounds, iteration, n.full(size, size**-0.5, a.dtype))
    return x, n.sum(x * (a @ x))


def power_iteration_numpy(a, rounds):
    x = np.full(len(a), len(a) ** -0.5)
    for _ in range(rounds):
        x = a @ x
        x /= np.sqrt(x @ x)
    return x, x @ (a @ x)


def power_iteration_numba(a, rounds):
    n = len(a)
    x, y = np.full(n, n**-0.5), np.zeros(n)
    for _ in range(rounds):
        square = 0.0
        for i in range(n):
            y[i] = 0.0
            for j in range(n):
                y[i] += a[i, j] * x[j]
            square += y[i] * y[i]
        for i in range(n):
            x[i] = y[i] / np.sqrt(square)
    value = 0.0
    for i in range(n):
        for j in range(n):
            value += x[i] * a[i, j] * x[j]
    return x, value


def kepler_inputs(rng, orbits):
    return rng.uniform(0.0, 2 * np.pi, orbits), rng.uniform(0.0, 0.9, orbits)


def kepler(n, mean, eccentricity):
    """Return the eccentric anomalies that solve Kepler's equation, by Newton's method until no step exceeds 1e-10."""

    def continues(carry):
        return carry[1] > 1e-10

    def iteration(carry):
        x, _ = carry
        step = (x - eccentricity * n.sin(x) - mean) / (1 - eccentricity * n.cos(x))
        return x - step, n.max(n.abs(step))

    return n.while_loop(continues, iteration, (n.full_like(mean, np.pi), n.inf))[0]


def kepler_numpy(mean, eccentricity):
    x, moved = np.full_like(mean, np.pi), np.inf
    while moved > 1e-10:
        step = (x - eccentricity * np.sin(x) - mean) / (1 - eccentricity * np.cos(x))
        x -= step
        moved = np.max(np.abs(step))
    return x


def kepler_numba(mean, eccentricity):
    anomalies = np.empty_like(mean)
    for k in range(len(mean)):
        x, moved = np.pi, np.inf
        while abs(moved) > 1e-10:
            top = x - eccentricity[k] * np.sin(x) - mean[k]
            moved = top / (1 - eccentricity[k] * np.cos(x))
            x -= moved
        anomalies[k] = x
    return anomalies


ITERATIONS = [
    Kernel(
        "mandelbrot",
        "Douady and Hubbard 1984, times of escape",
        mandelbrot_inputs,
        mandelbrot,
        mandelbrot_numpy,
        size=(150, 100),
        small=(9, 12),
        numba=mandelbrot_numba,
    ),
    Kernel(
        "conjugate gradient",
        "Hestenes and Stiefel 1952, Poisson's equation",
        poisson_inputs,
        conjugate_gradient,
        conjugate_gradient_numpy,
        size=(80,),
        small=(5,),
        numba=conjugate_gradient_numba,
    ),
    Kernel(
        "power iteration",
        "von Mises and Pollaczek-Geiringer 1929",
        power_inputs,
        power_iteration,
        power_iteration_numpy,
        # Twice as many iterations would make the cotangents subnormal. Processors take fifty times as long for
        # subnormal numbers, and XLA flushes them to zero.
        size=(800, 120),
        small=(5, 4),
        numba=power_iteration_numba,
        gradient=0,
    ),
    Kernel(
        "newton",
        "Kepler's equation by Newton's method",
        kepler_inputs,
        kepler,
        kepler_numpy,
        size=(50_000,),
        small=(20,),
        numba=kepler_numba,
    ),
]
