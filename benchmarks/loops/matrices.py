"""Kernels of PolyBench's linear algebra, written as loops over columns or rows."""

from __future__ import annotations

import numpy as np
from kernel import Kernel

__all__ = ["MATRICES"]


def durbin_inputs(rng, n):
    return (rng.uniform(-0.5, 0.5, n) / n,)


def durbin(n, r):
    """Solve a Toeplitz system by Levinson's recursion.

    Before iteration k, the first k elements of y solve the leading k equations. The other elements are 0.
    """
    size = r.shape[0]
    places = n.arange(size)

    def iteration(k, carry):
        y, alpha, beta = carry
        beta = (1 - alpha * alpha) * beta
        # Indices that reverse the first k elements.
        turned = n.where(places < k, (k - 1 - places) % size, 0)
        alpha = -(r[k] + n.sum(n.where(places < k, r[turned] * y, 0.0))) / beta
        y = n.where(places < k, y + alpha * y[turned], 0.0)
        return y.at[k].set(alpha), alpha, beta

    y, _, _ = n.fori_loop(
        1, size, iteration, (n.where(places == 0, -r[0], 0.0), -r[0], n.ones_like(r[0]))
    )
    return y


def durbin_numpy(r):
    y = np.zeros_like(r)
    y[0] = alpha = -r[0]
    beta = 1.0
    for k in range(1, len(r)):
        beta *= 1 - alpha * alpha
        alpha = -(r[k] + r[k - 1 :: -1] @ y[:k]) / beta
        y[:k] = y[:k] + alpha * y[k - 1 :: -1]
        y[k] = alpha
    return y


def durbin_calls(r):
    size = len(r)
    places = np.arange(size)
    y, alpha, beta = np.where(places == 0, -r[0], 0.0), -r[0], 1.0
    for k in range(1, size):
        beta = (1 - alpha * alpha) * beta
        is_known = places < k
        turned = np.where(is_known, (k - 1 - places) % size, 0)
        alpha = -(r[k] + np.sum(np.where(is_known, r[turned] * y, 0.0))) / beta
        y = np.where(is_known, y + alpha * y[turned], 0.0)
        y[k] = alpha
    return y


def durbin_numba(r):
    y, z = np.zeros_like(r), np.zeros_like(r)
    y[0] = -r[0]
    alpha, beta = -r[0], 1.0
    for k in range(1, len(r)):
        beta *= 1 - alpha * alpha
        total = 0.0
        for i in range(k):
            total += r[k - i - 1] * y[i]
        alpha = -(r[k] + total) / beta
        for i in range(k):
            z[i] = y[i] + alpha * y[k - i - 1]
        for i in range(k):
            y[i] = z[i]
        y[k] = alpha
    return y


def gramschmidt_inputs(rng, rows, columns):
    return (rng.standard_normal((rows, columns)),)


def gramschmidt(n, a):
    """Return the QR factors by modified Gram-Schmidt.

    Each step makes all later columns orthogonal to the new column of Q.
    """
    columns = n.arange(a.shape[1])

    def iteration(k, carry):
        a, q, r = carry
        column = a[:, k]
        norm = n.sqrt(n.sum(column * column))
        unit = column / norm
        row = n.where(columns > k, unit @ a, 0.0)
        r = r.at[k].set(n.where(columns == k, norm, row))
        return a - unit[:, None] * row, q.at[:, k].set(unit), r

    _, q, r = n.fori_loop(
        0, a.shape[1], iteration, (a, n.zeros_like(a), n.zeros((a.shape[1],) * 2))
    )
    return q, r


def gramschmidt_numpy(a):
    a = a.copy()
    q, r = np.zeros_like(a), np.zeros((a.shape[1],) * 2)
    for k in range(a.shape[1]):
        r[k, k] = np.sqrt(np.sum(a[:, k] ** 2))
        q[:, k] = a[:, k] / r[k, k]
        r[k, k + 1 :] = q[:, k] @ a[:, k + 1 :]
        a[:, k + 1 :] -= q[:, k, None] * r[k, k + 1 :]
    return q, r


def gramschmidt_numba(a):
    a = a.copy()
    m, n = a.shape
    q, r = np.zeros((m, n)), np.zeros((n, n))
    for k in range(n):
        total = 0.0
        for i in range(m):
            total += a[i, k] * a[i, k]
        r[k, k] = np.sqrt(total)
        for i in range(m):
            q[i, k] = a[i, k] / r[k, k]
        for i in range(m):
            for j in range(k + 1, n):
                r[k, j] += q[i, k] * a[i, j]
        for i in range(m):
            for j in range(k + 1, n):
                a[i, j] -= q[i, k] * r[k, j]
    return q, r


def lu_inputs(rng, n):
    return (rng.standard_normal((n, n)) + 2 * n * np.eye(n),)


def lu(n, a):
    """Return the LU factors in one matrix, computed without pivoting. The unit diagonal of L is not stored."""
    places = n.arange(a.shape[0])

    def iteration(k, a):
        column = n.where(places > k, a[:, k] / a[k, k], 0.0)
        row = n.where(places > k, a[k], 0.0)
        a = a.at[:, k].set(n.where(places > k, column, a[:, k]))
        return a - column[:, None] * row

    return n.fori_loop(0, a.shape[0], iteration, a)


def lu_numpy(a):
    a = a.copy()
    for k in range(len(a)):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[k, k + 1 :]
    return a


def lu_numba(a):
    a = a.copy()
    n = len(a)
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]
    return a


def trisolv_inputs(rng, n):
    return np.tril(rng.standard_normal((n, n)), -1) / n + np.eye(n), rng.standard_normal(n)


def trisolv(n, lower, b):
    def iteration(i, x):
        # The product may include the whole row: the elements of x from i on are still 0.
        return x.at[i].set((b[i] - lower[i] @ x) / lower[i, i])

    return n.fori_loop(0, b.shape[0], iteration, n.zeros_like(b))


def trisolv_numpy(lower, b):
    x = np.zeros_like(b)
    for i in range(len(b)):
        x[i] = (b[i] - lower[i, :i] @ x[:i]) / lower[i, i]
    return x


def trisolv_numba(lower, b):
    x = np.zeros_like(b)
    for i in range(len(b)):
        total = b[i]
        for j in range(i):
            total -= lower[i, j] * x[j]
        x[i] = total / lower[i, i]
    return x


def correlation_inputs(rng, rows, columns):
    return (rng.standard_normal((rows, columns)),)


def correlation(n, data):
    mean = n.mean(data, axis=0)
    deviation = n.sqrt(n.mean((data - mean) ** 2, axis=0))
    deviation = n.where(deviation <= 0.1, 1.0, deviation)
    scaled = (data - mean) / (np.sqrt(data.shape[0]) * deviation)
    columns = n.arange(data.shape[1])

    def row(i, table):
        return table.at[i].set(n.where(columns == i, 1.0, scaled[:, i] @ scaled))

    return n.fori_loop(0, data.shape[1], row, n.zeros((data.shape[1],) * 2))


def correlation_numpy(data):
    mean = np.mean(data, axis=0)
    deviation = np.sqrt(np.mean((data - mean) ** 2, axis=0))
    deviation[deviation <= 0.1] = 1.0
    scaled = (data - mean) / (np.sqrt(len(data)) * deviation)
    table = np.eye(data.shape[1])
    for i in range(data.shape[1] - 1):
        table[i, i + 1 :] = scaled[:, i] @ scaled[:, i + 1 :]
        table[i + 1 :, i] = table[i, i + 1 :]
    return table


def correlation_calls(data):
    mean = np.mean(data, axis=0)
    deviation = np.sqrt(np.mean((data - mean) ** 2, axis=0))
    deviation = np.where(deviation <= 0.1, 1.0, deviation)
    scaled = (data - mean) / (np.sqrt(len(data)) * deviation)
    columns = np.arange(data.shape[1])
    table = np.zeros((data.shape[1],) * 2)
    for i in columns:
        table[i] = np.where(columns == i, 1.0, scaled[:, i] @ scaled)
    return table


def correlation_numba(data):
    m, n = data.shape
    data = data.copy()
    table = np.eye(n)
    for j in range(n):
        mean = 0.0
        for i in range(m):
            mean += data[i, j]
        mean /= m
        square = 0.0
        for i in range(m):
            data[i, j] -= mean
            square += data[i, j] ** 2
        deviation = np.sqrt(square / m)
        if deviation <= 0.1:
            deviation = 1.0
        for i in range(m):
            data[i, j] /= np.sqrt(m) * deviation
    for i in range(n):
        for j in range(i + 1, n):
            total = 0.0
            for k in range(m):
                total += data[k, i] * data[k, j]
            table[i, j] = table[j, i] = total
    return table


MATRICES = [
    Kernel(
        "durbin",
        "PolyBench/C 4.2, durbin",
        durbin_inputs,
        durbin,
        durbin_numpy,
        size=(3000,),
        small=(6,),
        calls=durbin_calls,
        numba=durbin_numba,
        gradient=0,
    ),
    Kernel(
        "gramschmidt",
        "PolyBench/C 4.2, gramschmidt",
        gramschmidt_inputs,
        gramschmidt,
        gramschmidt_numpy,
        size=(240, 170),
        small=(7, 4),
        numba=gramschmidt_numba,
        gradient=0,
    ),
    Kernel(
        "lu",
        "PolyBench/C 4.2, lu",
        lu_inputs,
        lu,
        lu_numpy,
        size=(260,),
        small=(6,),
        numba=lu_numba,
        gradient=0,
    ),
    Kernel(
        "trisolv",
        "PolyBench/C 4.2, trisolv",
        trisolv_inputs,
        trisolv,
        trisolv_numpy,
        size=(3000,),
        small=(6,),
        numba=trisolv_numba,
        gradient=1,
    ),
    Kernel(
        "correlation",
        "PolyBench/C 4.2, correlation",
        correlation_inputs,
        correlation,
        correlation_numpy,
        size=(600, 500),
        small=(8, 5),
        calls=correlation_calls,
        numba=correlation_numba,
        gradient=0,
    ),
]
