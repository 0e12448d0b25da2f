"""Kernels of stencils. An iteration computes each point of a grid from the point's neighbours in the preceding grid."""

from __future__ import annotations

import numpy as np
from kernel import Kernel

__all__ = ["STENCILS"]


def jacobi_1d_inputs(rng, n, rounds):
    return rng.standard_normal(n), rounds


def jacobi_1d(n, a, rounds):
    def half(x):
        return n.concatenate([x[:1], (x[:-2] + x[1:-1] + x[2:]) / 3, x[-1:]])

    return n.fori_loop(0, rounds, lambda _, x: half(half(x)), a)


def jacobi_1d_numpy(a, rounds):
    a = a.copy()
    b = a.copy()
    for _ in range(rounds):
        b[1:-1] = (a[:-2] + a[1:-1] + a[2:]) / 3
        a[1:-1] = (b[:-2] + b[1:-1] + b[2:]) / 3
    return a


def jacobi_1d_numba(a, rounds):
    a = a.copy()
    b = a.copy()
    for _ in range(rounds):
        for i in range(1, len(a) - 1):
            b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3
        for i in range(1, len(a) - 1):
            a[i] = (b[i - 1] + b[i] + b[i + 1]) / 3
    return a


def grid_inputs(rng, n, rounds):
    return rng.standard_normal((n, n)), rounds


def jacobi_2d(n, a, rounds):
    def half(x):
        inner = 0.2 * (x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1])
        return x.at[1:-1, 1:-1].set(inner)

    return n.fori_loop(0, rounds, lambda _, x: half(half(x)), a)


def jacobi_2d_numpy(a, rounds):
    a = a.copy()
    b = a.copy()
    for _ in range(rounds):
        for x, y in ((a, b), (b, a)):
            y[1:-1, 1:-1] = 0.2 * (
                x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1]
            )
    return a


def jacobi_2d_numba(a, rounds):
    a = a.copy()
    b = a.copy()
    for _ in range(rounds):
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                b[i, j] = 0.2 * (a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i + 1, j] + a[i - 1, j])
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                a[i, j] = 0.2 * (b[i, j] + b[i, j - 1] + b[i, j + 1] + b[i + 1, j] + b[i - 1, j])
    return a


def seidel_2d(n, a, rounds):
    def row(above, lines):
        here, below = lines
        # This is the part of the sum that does not depend on the new value of the left neighbour.
        known = (
            here[1:-1]
            + here[2:]
            + sum(x[k : x.shape[0] - 2 + k] for x in (above, below) for k in range(3))
        )

        def element(left, x):
            value = (left + x) / 9
            return value, value

        _, inner = n.scan(element, here[0], known)
        line = n.concatenate([here[:1], inner, here[-1:]])
        return line, line

    def sweep(_, x):
        _, rows = n.scan(row, x[0], (x[1:-1], x[2:]))
        return n.concatenate([x[:1], rows, x[-1:]])

    return n.fori_loop(0, rounds, sweep, a)


def seidel_2d_numpy(a, rounds):
    a = a.copy()
    for _ in range(rounds):
        for i in range(1, a.shape[0] - 1):
            above, here, below = a[i - 1], a[i], a[i + 1]
            known = here[1:-1] + here[2:]
            for x in (above, below):
                known = known + x[:-2] + x[1:-1] + x[2:]
            left = here[0]
            for j, x in enumerate(known.tolist(), 1):
                left = (left + x) / 9
                here[j] = left
    return a


def seidel_2d_numba(a, rounds):
    a = a.copy()
    for _ in range(rounds):
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                total = 0.0
                for k in range(-1, 2):
                    for m in range(-1, 2):
                        total += a[i + k, j + m]
                a[i, j] = total / 9
    return a


def cube_inputs(rng, n, rounds):
    return rng.standard_normal((n, n, n)), rounds


def second_differences(x):
    """Return, for each inner point, the sum of the second differences along the three axes, divided by eight."""
    c = x[1:-1, 1:-1, 1:-1]
    return 0.125 * (
        (x[2:, 1:-1, 1:-1] - 2 * c + x[:-2, 1:-1, 1:-1])
        + (x[1:-1, 2:, 1:-1] - 2 * c + x[1:-1, :-2, 1:-1])
        + (x[1:-1, 1:-1, 2:] - 2 * c + x[1:-1, 1:-1, :-2])
    )


def heat_3d(n, a, rounds):
    def half(x):
        return x.at[1:-1, 1:-1, 1:-1].add(second_differences(x))

    return n.fori_loop(0, rounds, lambda _, x: half(half(x)), a)


def heat_3d_numpy(a, rounds):
    a = a.copy()
    for _ in range(2 * rounds):
        a[1:-1, 1:-1, 1:-1] += second_differences(a)
    return a


def heat_3d_numba(a, rounds):
    a = a.copy()
    b = a.copy()
    n = a.shape[0]
    for _ in range(2 * rounds):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                for k in range(1, n - 1):
                    c = a[i, j, k]
                    b[i, j, k] = c + 0.125 * (
                        (a[i + 1, j, k] - 2 * c + a[i - 1, j, k])
                        + (a[i, j + 1, k] - 2 * c + a[i, j - 1, k])
                        + (a[i, j, k + 1] - 2 * c + a[i, j, k - 1])
                    )
        a, b = b, a
    return a


def adi_factors(n, rounds):
    """Return the coefficients of PolyBench's kernel adi.

    a, b, c are for the sweep along the columns; d, e, f are for the sweep along the rows.
    """
    mul1, mul2 = 2.0 * n * n / rounds, 1.0 * n * n / rounds
    return -mul1 / 2, 1 + mul1, -mul1 / 2, -mul2 / 2, 1 + mul2, -mul2 / 2


def adi(n, u, rounds):
    a, b, c, d, e, f = adi_factors(u.shape[0], rounds)

    def sweep(known, low, middle, high):
        """Solve tridiagonal systems along the first axis. Each column of `known` is the right-hand side of a system."""
        ones = n.ones_like(known[0])

        def forward(carry, x):
            p, q = carry
            scale = 1 / (low * p + middle)
            after = -high * scale, (x - low * q) * scale
            return after, after

        def backward(below, pq):
            value = pq[0] * below + pq[1]
            return value, value

        _, factors = n.scan(forward, (0 * ones, ones), known)
        _, inner = n.scan(backward, ones, factors, reverse=True)
        return n.concatenate([ones[None], inner, ones[None]])

    def iteration(_, u):
        v = sweep(-d * u[1:-1, :-2] + (1 + 2 * d) * u[1:-1, 1:-1] - f * u[1:-1, 2:], a, b, c)
        inner = sweep((-a * v[:-2] + (1 + 2 * a) * v[1:-1] - c * v[2:]).T, d, e, f).T
        return n.concatenate([u[:1], inner, u[-1:]])

    return n.fori_loop(0, rounds, iteration, u)


def adi_numpy(u, rounds):
    a, b, c, d, e, f = adi_factors(u.shape[0], rounds)
    u = u.copy()

    def sweep(known, low, middle, high):
        size = known.shape[0] + 2
        p, q = np.zeros((2, size, known.shape[1]))
        q[0] = 1
        for j in range(1, size - 1):
            scale = 1 / (low * p[j - 1] + middle)
            p[j] = -high * scale
            q[j] = (known[j - 1] - low * q[j - 1]) * scale
        x = np.ones((size, known.shape[1]))
        for j in range(size - 2, 0, -1):
            x[j] = p[j] * x[j + 1] + q[j]
        return x

    for _ in range(rounds):
        v = sweep(-d * u[1:-1, :-2] + (1 + 2 * d) * u[1:-1, 1:-1] - f * u[1:-1, 2:], a, b, c)
        u[1:-1] = sweep((-a * v[:-2] + (1 + 2 * a) * v[1:-1] - c * v[2:]).T, d, e, f).T
    return u


def adi_numba(u, rounds):
    n = u.shape[0]
    mul1, mul2 = 2.0 * n * n / rounds, 1.0 * n * n / rounds
    a = c = -mul1 / 2
    d = f = -mul2 / 2
    b, e = 1 + mul1, 1 + mul2
    u = u.copy()
    v, p, q = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    for _ in range(rounds):
        for i in range(1, n - 1):
            v[0, i] = v[n - 1, i] = q[i, 0] = 1.0
            p[i, 0] = 0.0
            for j in range(1, n - 1):
                scale = 1 / (a * p[i, j - 1] + b)
                known = -d * u[j, i - 1] + (1 + 2 * d) * u[j, i] - f * u[j, i + 1]
                p[i, j] = -c * scale
                q[i, j] = (known - a * q[i, j - 1]) * scale
            for j in range(n - 2, 0, -1):
                v[j, i] = p[i, j] * v[j + 1, i] + q[i, j]
        for i in range(1, n - 1):
            u[i, 0] = u[i, n - 1] = q[i, 0] = 1.0
            p[i, 0] = 0.0
            for j in range(1, n - 1):
                scale = 1 / (d * p[i, j - 1] + e)
                known = -a * v[i - 1, j] + (1 + 2 * a) * v[i, j] - c * v[i + 1, j]
                p[i, j] = -f * scale
                q[i, j] = (known - d * q[i, j - 1]) * scale
            for j in range(n - 2, 0, -1):
                u[i, j] = p[i, j] * u[i, j + 1] + q[i, j]
    return u


def fdtd_2d_inputs(rng, n, rounds):
    ex, ey, hz = rng.standard_normal((3, n, n))
    return ex, ey, hz, np.arange(rounds, dtype=np.float64)


def fdtd_2d(n, ex, ey, hz, source):
    def iteration(fields, now):
        ex, ey, hz = fields
        first = n.zeros_like(ey[:1]) + now
        ey = n.concatenate([first, ey[1:] - 0.5 * (hz[1:] - hz[:-1])])
        ex = n.concatenate([ex[:, :1], ex[:, 1:] - 0.5 * (hz[:, 1:] - hz[:, :-1])], axis=1)
        curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
        return (ex, ey, hz.at[:-1, :-1].add(-0.7 * curl)), None

    (ex, ey, hz), _ = n.scan(iteration, (ex, ey, hz), source)
    return hz, ex, ey


def fdtd_2d_numpy(ex, ey, hz, source):
    ex, ey, hz = ex.copy(), ey.copy(), hz.copy()
    for now in source:
        ey[0] = now
        ey[1:] -= 0.5 * (hz[1:] - hz[:-1])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return hz, ex, ey


def fdtd_2d_numba(ex, ey, hz, source):
    ex, ey, hz = ex.copy(), ey.copy(), hz.copy()
    n = ex.shape[0]
    for now in source:
        for j in range(n):
            ey[0, j] = now
        for i in range(1, n):
            for j in range(n):
                ey[i, j] -= 0.5 * (hz[i, j] - hz[i - 1, j])
        for i in range(n):
            for j in range(1, n):
                ex[i, j] -= 0.5 * (hz[i, j] - hz[i, j - 1])
        for i in range(n - 1):
            for j in range(n - 1):
                hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])
    return hz, ex, ey


STENCILS = [
    Kernel(
        "jacobi-1d",
        "PolyBench/C 4.2, jacobi-1d",
        jacobi_1d_inputs,
        jacobi_1d,
        jacobi_1d_numpy,
        size=(4000, 1000),
        small=(12, 3),
        numba=jacobi_1d_numba,
        gradient=0,
    ),
    Kernel(
        "jacobi-2d",
        "PolyBench/C 4.2, jacobi-2d",
        grid_inputs,
        jacobi_2d,
        jacobi_2d_numpy,
        size=(150, 300),
        small=(8, 3),
        numba=jacobi_2d_numba,
        gradient=0,
    ),
    Kernel(
        "seidel-2d",
        "PolyBench/C 4.2, seidel-2d",
        grid_inputs,
        seidel_2d,
        seidel_2d_numpy,
        size=(80, 20),
        small=(7, 2),
        numba=seidel_2d_numba,
        gradient=0,
    ),
    Kernel(
        "heat-3d",
        "PolyBench/C 4.2, heat-3d",
        cube_inputs,
        heat_3d,
        heat_3d_numpy,
        size=(32, 60),
        small=(6, 2),
        numba=heat_3d_numba,
        gradient=0,
    ),
    Kernel(
        "adi",
        "PolyBench/C 4.2, adi",
        grid_inputs,
        adi,
        adi_numpy,
        size=(80, 50),
        small=(6, 2),
        numba=adi_numba,
        gradient=0,
    ),
    Kernel(
        "fdtd-2d",
        "PolyBench/C 4.2, fdtd-2d",
        fdtd_2d_inputs,
        fdtd_2d,
        fdtd_2d_numpy,
        size=(120, 500),
        small=(6, 3),
        numba=fdtd_2d_numba,
        gradient=2,
    ),
]
