"""Shortest paths equal those of the Floyd-Warshall algorithm; the most likely sequence is the best of all sequences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tenferro_ext_tropical as tropical

import tenferro as tnf
from xla_peer import XlaExecutor

XLA = XlaExecutor("cpu")


def graph(n: int) -> Any:
    generator = np.random.default_rng(n)
    lengths = generator.uniform(1.0, 9.0, (n, n))
    return np.where(generator.uniform(size=(n, n)) < 0.6, np.inf, lengths)


@pytest.mark.parametrize("n", [1, 2, 3, 9, 17])
def test_shortest_paths(n: int) -> None:
    lengths = graph(n)
    expected = lengths.copy()
    np.fill_diagonal(expected, 0)
    for k in range(n):
        expected = np.minimum(expected, expected[:, k, None] + expected[None, k])
    program = tnf.compile(tropical.shortest_paths, lengths)
    for distances in (program.run(lengths), XLA.run(program, lengths)):
        np.testing.assert_allclose(distances, expected)


def test_the_gradient_is_the_path() -> None:
    lengths = graph(9)
    distance = tnf.compile(tropical.shortest_paths, lengths).run(lengths)
    goal = int(np.argmax(np.where(np.isfinite(distance[0]), distance[0], -1)))
    gradient = tnf.grad(lambda w: tropical.shortest_paths(w)[0, goal])
    program = tnf.compile(gradient, lengths)
    for executor in (tnf.GraphExecutor(), XLA):
        taken = executor.run(program, lengths)
        assert set(np.unique(taken)) <= {0.0, 1.0}
        assert np.sum(lengths[taken == 1]) == pytest.approx(distance[0, goal])
        at = 0
        while at != goal:  # `taken` marks one outgoing edge of each node on the path
            (at,) = np.flatnonzero(taken[at])


def test_best_sequence() -> None:
    generator = np.random.default_rng(0)
    start, step, seen = (np.log(generator.dirichlet(np.ones(3), size)) for size in (1, 3, 5))
    start = start[0]

    def score(states: Any) -> float:
        total = start[states[0]] + seen[0, states[0]]
        for time in range(1, 5):
            total += step[states[time - 1], states[time]] + seen[time, states[time]]
        return total

    best = max(itertools.product(range(3), repeat=5), key=score)
    assert tropical.best_sequence(start, step, seen) == list(best)
    program = tnf.compile(tropical.best_score, start, step, seen)
    assert program.run(start, step, seen) == pytest.approx(score(best))
    assert XLA.run(program, start, step, seen) == pytest.approx(score(best))
