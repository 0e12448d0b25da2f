"""Kernels of recurrent networks. They process a sequence of batches, one after the other."""

from __future__ import annotations

import numpy as np
from kernel import Kernel

__all__ = ["RECURRENT"]


def sequence_inputs(gates):
    """Return a function that draws the inputs, weights and biases of a recurrent layer with `gates` gates."""

    def inputs(rng, steps, batch, features, hidden):
        xs = rng.standard_normal((steps, batch, features))
        weights = rng.standard_normal((features, gates * hidden)) / np.sqrt(features)
        recurrent = rng.standard_normal((hidden, gates * hidden)) / np.sqrt(hidden)
        return xs, weights, recurrent, 0.1 * rng.standard_normal(gates * hidden)

    return inputs


def logistic(n, x):
    return 1 / (1 + n.exp(-x))


def lstm(n, xs, weights, recurrent, bias):
    hidden = recurrent.shape[0]

    def step(carry, x):
        h, c = carry
        i, f, g, o = n.split(x @ weights + h @ recurrent + bias, 4, axis=-1)
        c = n.nn.sigmoid(f) * c + n.nn.sigmoid(i) * n.tanh(g)
        h = n.nn.sigmoid(o) * n.tanh(c)
        return (h, c), h

    zeros = n.zeros((xs.shape[1], hidden), xs.dtype)
    return n.scan(step, (zeros, zeros), xs)[1]


def lstm_numpy(xs, weights, recurrent, bias):
    h = c = np.zeros((xs.shape[1], len(recurrent)))
    states = np.empty((len(xs), *h.shape))
    for k, x in enumerate(xs @ weights + bias):
        i, f, g, o = np.split(x + h @ recurrent, 4, axis=-1)
        c = logistic(np, f) * c + logistic(np, i) * np.tanh(g)
        states[k] = h = logistic(np, o) * np.tanh(c)
    return states


def lstm_numba(xs, weights, recurrent, bias):
    n = len(recurrent)
    h = np.zeros((xs.shape[1], n))
    c = np.zeros_like(h)
    states = np.empty((len(xs), *h.shape))
    for k in range(len(xs)):
        gates = xs[k] @ weights + h @ recurrent + bias
        for b in range(len(h)):
            for j in range(n):
                i, f = 1 / (1 + np.exp(-gates[b, j])), 1 / (1 + np.exp(-gates[b, n + j]))
                g, o = np.tanh(gates[b, 2 * n + j]), 1 / (1 + np.exp(-gates[b, 3 * n + j]))
                c[b, j] = f * c[b, j] + i * g
                h[b, j] = o * np.tanh(c[b, j])
        states[k] = h
    return states


def gru(n, xs, weights, recurrent, bias):
    hidden = recurrent.shape[0]

    def step(h, x):
        r, z, g = n.split(x @ weights + bias, 3, axis=-1)
        hr, hz, hg = n.split(h @ recurrent, 3, axis=-1)
        z = n.nn.sigmoid(z + hz)
        h = (1 - z) * n.tanh(g + n.nn.sigmoid(r + hr) * hg) + z * h
        return h, h

    return n.scan(step, n.zeros((xs.shape[1], hidden), xs.dtype), xs)[1]


def gru_numpy(xs, weights, recurrent, bias):
    h = np.zeros((xs.shape[1], len(recurrent)))
    states = np.empty((len(xs), *h.shape))
    for k, x in enumerate(xs @ weights + bias):
        r, z, g = np.split(x, 3, axis=-1)
        hr, hz, hg = np.split(h @ recurrent, 3, axis=-1)
        z = logistic(np, z + hz)
        states[k] = h = (1 - z) * np.tanh(g + logistic(np, r + hr) * hg) + z * h
    return states


def gru_numba(xs, weights, recurrent, bias):
    n = len(recurrent)
    h = np.zeros((xs.shape[1], n))
    states = np.empty((len(xs), *h.shape))
    for k in range(len(xs)):
        inner, outer = h @ recurrent, xs[k] @ weights + bias
        for b in range(len(h)):
            for j in range(n):
                r = 1 / (1 + np.exp(-outer[b, j] - inner[b, j]))
                z = 1 / (1 + np.exp(-outer[b, n + j] - inner[b, n + j]))
                g = np.tanh(outer[b, 2 * n + j] + r * inner[b, 2 * n + j])
                h[b, j] = (1 - z) * g + z * h[b, j]
        states[k] = h
    return states


RECURRENT = [
    Kernel(
        "lstm",
        "Hochreiter and Schmidhuber 1997, with forget gates",
        sequence_inputs(4),
        lstm,
        lstm_numpy,
        size=(200, 16, 32, 64),
        small=(3, 2, 3, 4),
        numba=lstm_numba,
        gradient=2,
    ),
    Kernel(
        "gru",
        "Cho et al. 2014, the product after the reset",
        sequence_inputs(3),
        gru,
        gru_numpy,
        size=(200, 16, 32, 64),
        small=(3, 2, 3, 4),
        numba=gru_numba,
        gradient=2,
    ),
]
