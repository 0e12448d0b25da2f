"""Kernels of dynamic programming. They fill tables whose elements depend on elements that were computed before."""

from __future__ import annotations

import numpy as np
from kernel import Kernel

__all__ = ["TABLES"]


def floyd_warshall_inputs(rng, n):
    return (rng.uniform(1.0, 10.0, (n, n)),)


def floyd_warshall(n, paths):
    def iteration(k, p):
        return n.minimum(p, p[:, k][:, None] + p[k][None, :])

    return n.fori_loop(0, paths.shape[0], iteration, paths)


def floyd_warshall_numpy(paths):
    paths = paths.copy()
    for k in range(len(paths)):
        np.minimum(paths, paths[:, k, None] + paths[k], out=paths)
    return paths


def floyd_warshall_numba(paths):
    paths = paths.copy()
    n = len(paths)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                paths[i, j] = min(paths[i, j], paths[i, k] + paths[k, j])
    return paths


def nussinov_inputs(rng, n):
    return (rng.integers(0, 4, n),)


def nussinov(n, bases):
    """Fill the table of Nussinov's algorithm, from the last row to the first.

    An element depends on the elements to its left in the same row, and on all rows below.
    """
    size = bases.shape[0]
    columns = n.arange(size)

    def row(step, table):
        i = size - 1 - step
        below = table[n.minimum(i + 1, size - 1)] * (i + 1 < size)
        left_below = n.concatenate([n.zeros_like(below[:1]), below[:-1]])
        pairs = n.where(columns > i + 1, 1 * (bases[i] + bases == 3), 0)
        unsplit = n.maximum(below, left_below + pairs)

        def element(j, line):
            # At each k, the sum is line[k] + table[k + 1, j]. Only positions k between i and j are used.
            after = n.concatenate([table[1:, j], n.zeros_like(line[:1])])
            between = (columns > i) & (columns < j)
            best = n.max(n.where(between, line + after, 0))
            best = n.maximum(n.maximum(best, unsplit[j]), line[n.maximum(j - 1, 0)])
            return line.at[j].set(n.where(j > i, best, 0))

        return table.at[i].set(n.fori_loop(0, size, element, n.zeros_like(below)))

    return n.fori_loop(0, size, row, n.zeros((size, size), n.int64))


def nussinov_numpy(bases):
    size = len(bases)
    table = np.zeros((size, size), np.int64)
    for i in range(size - 1, -1, -1):
        for j in range(i + 1, size):
            best = max(table[i, j - 1], table[i + 1, j])
            best = max(best, table[i + 1, j - 1] + (j > i + 1 and bases[i] + bases[j] == 3))
            if j > i + 1:
                best = max(best, np.max(table[i, i + 1 : j] + table[i + 2 : j + 1, j]))
            table[i, j] = best
    return table


def nussinov_calls(bases):
    size = len(bases)
    columns, table = np.arange(size), np.zeros((size, size), np.int64)
    for i in range(size - 1, -1, -1):
        below = table[min(i + 1, size - 1)] * (i + 1 < size)
        left_below = np.concatenate([[0], below[:-1]])
        pairs = np.where(columns > i + 1, 1 * (bases[i] + bases == 3), 0)
        unsplit, line = np.maximum(below, left_below + pairs), np.zeros_like(below)
        for j in range(size):
            after = np.concatenate([table[1:, j], [0]])
            between = (columns > i) & (columns < j)
            best = np.max(np.where(between, line + after, 0))
            best = max(best, unsplit[j], line[max(j - 1, 0)])
            line[j] = best if j > i else 0
        table[i] = line
    return table


def nussinov_numba(bases):
    size = len(bases)
    table = np.zeros((size, size), np.int64)
    for i in range(size - 1, -1, -1):
        for j in range(i + 1, size):
            best = max(table[i, j - 1], table[i + 1, j])
            pair = 1 if j > i + 1 and bases[i] + bases[j] == 3 else 0
            best = max(best, table[i + 1, j - 1] + pair)
            for k in range(i + 1, j):
                best = max(best, table[i, k] + table[k + 1, j])
            table[i, j] = best
    return table


def edit_distance_inputs(rng, n):
    return rng.integers(0, 4, n), rng.integers(0, 4, n)


def edit_distance(n, a, b):
    columns = n.arange(b.shape[0] + 1)

    def row(above, letter):
        first = above[:1] + 1
        replaced = n.minimum(above[:-1] + (b != letter), above[1:] + 1)

        def element(left, best):
            value = n.minimum(best, left + 1)
            return value, value

        _, rest = n.scan(element, first[0], replaced)
        return n.concatenate([first, rest]), None

    last, _ = n.scan(row, columns, a)
    return last[-1]


def edit_distance_numpy(a, b):
    columns = np.arange(len(b) + 1)
    above = columns
    for letter in a:
        best = np.empty_like(above)
        best[0] = above[0] + 1
        best[1:] = np.minimum(above[:-1] + (b != letter), above[1:] + 1)
        # An insertion costs 1 per column. If the column number is subtracted, the cheapest insertions are therefore a
        # running minimum.
        above = np.minimum.accumulate(best - columns) + columns
    return above[-1]


def edit_distance_calls(a, b):
    above = np.arange(len(b) + 1)
    for letter in a:
        first = above[:1] + 1
        replaced = np.minimum(above[:-1] + (b != letter), above[1:] + 1)
        left, rest = int(first[0]), []
        for best in replaced.tolist():
            left = min(best, left + 1)
            rest.append(left)
        above = np.concatenate([first, rest])
    return above[-1]


def edit_distance_numba(a, b):
    above = np.arange(len(b) + 1)
    here = np.zeros_like(above)
    for i in range(len(a)):
        here[0] = i + 1
        for j in range(len(b)):
            changed = above[j] + (1 if a[i] != b[j] else 0)
            here[j + 1] = min(changed, min(above[j + 1], here[j]) + 1)
        above, here = here, above
    return above[-1]


def binomial_inputs(rng, options, rounds):
    return rng.uniform(80.0, 120.0, options), rounds


RATE, VOLATILITY, STRIKE = 0.05, 0.2, 100.0


def binomial(n, spot, rounds):
    """Price American put options with a term of one year, by the binomial tree of Cox, Ross and Rubinstein."""
    up = np.exp(VOLATILITY * np.sqrt(1 / rounds))
    p = (np.exp(RATE / rounds) - 1 / up) / (up - 1 / up)
    discount = np.exp(-RATE / rounds)
    powers = up ** (2.0 * np.arange(rounds + 1) - rounds)
    prices = spot[:, None] * powers
    values = n.maximum(STRIKE - prices, 0.0)

    def iteration(step, values):
        # Each iteration uses one column less than the preceding one. The array keeps its size, so that all iterations
        # have the same shape.
        later = n.concatenate([values[:, 1:], values[:, -1:]], axis=1)
        held = discount * (p * later + (1 - p) * values)
        now = prices * up ** (step + 1.0)
        return n.maximum(held, STRIKE - now)

    return n.fori_loop(0, rounds, iteration, values)[:, 0]


def binomial_numpy(spot, rounds):
    up = np.exp(VOLATILITY * np.sqrt(1 / rounds))
    p = (np.exp(RATE / rounds) - 1 / up) / (up - 1 / up)
    discount = np.exp(-RATE / rounds)
    prices = spot[:, None] * up ** (2.0 * np.arange(rounds + 1) - rounds)
    values = np.maximum(STRIKE - prices, 0.0)
    for _ in range(rounds):
        prices = prices[:, :-1] * up
        values = discount * (p * values[:, 1:] + (1 - p) * values[:, :-1])
        values = np.maximum(values, STRIKE - prices)
    return values[:, 0]


def binomial_numba(spot, rounds):
    up = np.exp(0.2 * np.sqrt(1 / rounds))
    p = (np.exp(0.05 / rounds) - 1 / up) / (up - 1 / up)
    discount = np.exp(-0.05 / rounds)
    puts = np.zeros_like(spot)
    for k in range(len(spot)):
        prices = spot[k] * up ** (2.0 * np.arange(rounds + 1) - rounds)
        values = np.maximum(100.0 - prices, 0.0)
        for step in range(rounds):
            for j in range(rounds - step):
                prices[j] *= up
                held = discount * (p * values[j + 1] + (1 - p) * values[j])
                values[j] = max(held, 100.0 - prices[j])
        puts[k] = values[0]
    return puts


def ctc_inputs(rng, frames, labels):
    logits = rng.standard_normal((frames, 20))
    logits -= np.log(np.sum(np.exp(logits), axis=1, keepdims=True))
    return logits, rng.integers(1, 20, labels)


def ctc(n, log_probabilities, labels):
    """Return the negative log likelihood of the labels in connectionist temporal classification.

    Label 0 is the blank.
    """
    extended = n.stack([n.zeros_like(labels), labels], axis=1).reshape(-1)
    extended = n.concatenate([extended, n.zeros_like(labels[:1])])
    before = n.concatenate([n.zeros_like(extended[:2]) - 1, extended[:-2]])
    skips = (extended != 0) & (extended != before)
    states = n.arange(extended.shape[0])
    offered = log_probabilities[:, extended]
    low = n.full_like(offered[0], -1e30)

    def frame(alpha, emitted):
        one = n.concatenate([low[:1], alpha[:-1]])
        two = n.where(skips, n.concatenate([low[:2], alpha[:-2]]), -1e30)
        return n.logaddexp(n.logaddexp(alpha, one), two) + emitted, None

    alpha, _ = n.scan(frame, n.where(states < 2, offered[0], low), offered[1:])
    return -n.logaddexp(alpha[-1], alpha[-2])


def ctc_numpy(log_probabilities, labels):
    extended = np.zeros(2 * len(labels) + 1, np.int64)
    extended[1::2] = labels
    skips = np.zeros(len(extended), bool)
    skips[2:] = (extended[2:] != 0) & (extended[2:] != extended[:-2])
    alpha = np.full(len(extended), -1e30)
    alpha[:2] = log_probabilities[0, extended[:2]]
    for emitted in log_probabilities[1:, extended]:
        after = alpha.copy()
        after[1:] = np.logaddexp(after[1:], alpha[:-1])
        after[2:] = np.where(skips[2:], np.logaddexp(after[2:], alpha[:-2]), after[2:])
        alpha = after + emitted
    return -np.logaddexp(alpha[-1], alpha[-2])


def ctc_calls(log_probabilities, labels):
    extended = np.concatenate([np.stack([np.zeros_like(labels), labels], axis=1).ravel(), [0]])
    before = np.concatenate([[-1, -1], extended[:-2]])
    skips = (extended != 0) & (extended != before)
    offered = log_probabilities[:, extended]
    low = np.full(len(extended), -1e30)

    def both(x, y):
        apart = x - y
        sums = np.maximum(x, y) + np.log1p(np.exp(-np.abs(apart)))
        return np.where(np.isnan(apart), x + y, sums)

    alpha = np.where(np.arange(len(extended)) < 2, offered[0], low)
    for emitted in offered[1:]:
        one = np.concatenate([low[:1], alpha[:-1]])
        two = np.where(skips, np.concatenate([low[:2], alpha[:-2]]), -1e30)
        alpha = both(both(alpha, one), two) + emitted
    return -both(alpha[-1], alpha[-2])


TABLES = [
    Kernel(
        "floyd-warshall",
        "PolyBench/C 4.2, floyd-warshall",
        floyd_warshall_inputs,
        floyd_warshall,
        floyd_warshall_numpy,
        size=(300,),
        small=(7,),
        numba=floyd_warshall_numba,
        gradient=0,
    ),
    Kernel(
        "nussinov",
        "PolyBench/C 4.2, nussinov",
        nussinov_inputs,
        nussinov,
        nussinov_numpy,
        size=(120,),
        small=(9,),
        calls=nussinov_calls,
        numba=nussinov_numba,
    ),
    Kernel(
        "edit distance",
        "Wagner and Fischer 1974",
        edit_distance_inputs,
        edit_distance,
        edit_distance_numpy,
        size=(1000,),
        small=(9,),
        calls=edit_distance_calls,
        numba=edit_distance_numba,
    ),
    Kernel(
        "binomial tree",
        "Cox, Ross and Rubinstein 1979, American puts",
        binomial_inputs,
        binomial,
        binomial_numpy,
        size=(20, 500),
        small=(3, 8),
        numba=binomial_numba,
        gradient=0,
    ),
    Kernel(
        "ctc",
        "Graves et al. 2006, forward variables",
        ctc_inputs,
        ctc,
        ctc_numpy,
        size=(1000, 50),
        small=(8, 3),
        calls=ctc_calls,
        gradient=0,
    ),
]
