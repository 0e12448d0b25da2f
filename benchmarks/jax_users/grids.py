"""Programs on grids, as JAX's users write them: cellular automata, splines, and tables of dynamic programming."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from user_program import UserProgram

__all__ = ["GRIDS"]


def life(board: Any) -> Any:
    """Play a hundred generations of the game of life on a torus."""

    def step(_: Any, board: Any) -> Any:
        shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        near = sum(jnp.roll(board, shift, (0, 1)) for shift in shifts)
        return ((near == 3) | ((board == 1) & (near == 2))).astype(board.dtype)

    return jax.lax.fori_loop(0, 100, step, board)


def life_by_hand(board: Any) -> Any:
    rows, columns = board.shape
    for _ in range(100):
        after = np.zeros_like(board)
        for i in range(rows):
            for j in range(columns):
                near = 0
                for down in (-1, 0, 1):
                    for right in (-1, 0, 1):
                        if down or right:
                            near += board[(i + down) % rows, (j + right) % columns]
                after[i, j] = near == 3 or (board[i, j] == 1 and near == 2)
        board = after
    return board


def spline(knots: Any, values: Any, points: Any) -> Any:
    """Evaluate a natural cubic spline through the knots at many points.

    Thomas's algorithm computes the curvatures, and a binary search finds the interval of each point.
    """
    h = jnp.diff(knots)
    slopes = jnp.diff(values) / h

    def forward(carry: Any, row: Any) -> Any:
        c, d = carry
        lower, diagonal, upper, right = row
        scale = 1 / (diagonal - lower * c)
        carry = upper * scale, (right - lower * d) * scale
        return carry, carry

    def backward(x: Any, row: Any) -> Any:
        x = row[1] - row[0] * x
        return x, x

    rows = h[:-1], 2 * (h[:-1] + h[1:]), h[1:], 6 * jnp.diff(slopes)
    _, reduced = jax.lax.scan(forward, (0.0, 0.0), rows)
    _, inner = jax.lax.scan(backward, 0.0, reduced, reverse=True)
    curvatures = jnp.pad(inner, 1)
    i = jnp.clip(jnp.searchsorted(knots, points, side="right") - 1, 0, h.size - 1)
    left, right = (knots[i + 1] - points) / h[i], (points - knots[i]) / h[i]
    bend = (left**3 - left) * curvatures[i] + (right**3 - right) * curvatures[i + 1]
    return left * values[i] + right * values[i + 1] + bend * h[i] ** 2 / 6


def edit_distance(a: Any, b: Any) -> Any:
    """Compute the edit distance of two sequences by filling Wagner and Fischer's table.

    A scan runs over the rows, and an inner scan over the elements of each row.
    """
    columns = jnp.arange(b.shape[0] + 1)

    def row(above: Any, letter: Any) -> Any:
        replaced = jnp.minimum(above[:-1] + (b != letter), above[1:] + 1)

        def element(left: Any, best: Any) -> Any:
            value = jnp.minimum(best, left + 1)
            return value, value

        first = above[0] + 1
        rest = jax.lax.scan(element, first, replaced)[1]
        return jnp.concatenate([first[None], rest]), None

    return jax.lax.scan(row, columns, a)[0][-1]


def edit_distance_by_hand(a: Any, b: Any) -> Any:
    above = np.arange(len(b) + 1)
    here = np.zeros_like(above)
    for i in range(len(a)):
        here[0] = i + 1
        for j in range(len(b)):
            changed = above[j] + (1 if a[i] != b[j] else 0)
            here[j + 1] = min(changed, min(above[j + 1], here[j]) + 1)
        above, here = here, above
    return above[-1]


def shortest_paths(distances: Any) -> Any:
    """Compute the shortest distances between all pairs of nodes by Floyd and Warshall's algorithm."""

    def step(k: Any, d: Any) -> Any:
        return jnp.minimum(d, d[:, k, None] + d[None, k, :])

    return jax.lax.fori_loop(0, distances.shape[0], step, distances)


def shortest_paths_by_hand(distances: Any) -> Any:
    d = distances.copy()
    count = len(d)
    for k in range(count):
        d = np.minimum(d, d[:, k].copy().reshape(-1, 1) + d[k].copy().reshape(1, -1))
    return d


GRIDS = [
    UserProgram(
        "game of life",
        "Gardner 1970",
        lambda rng: (rng.integers(0, 2, (64, 64)).astype(np.int32),),
        life,
        by_hand=life_by_hand,
    ),
    UserProgram(
        "cubic spline",
        "de Boor 1978, natural ends",
        lambda rng: (
            np.sort(rng.uniform(0, 10, 100)),
            rng.standard_normal(100),
            rng.uniform(0, 10, 1000),
        ),
        spline,
        gradient=(1,),
        tolerance=1e-6,
    ),
    UserProgram(
        "edit distance",
        "Wagner and Fischer 1974",
        lambda rng: (rng.integers(0, 4, 200), rng.integers(0, 4, 200)),
        edit_distance,
        by_hand=edit_distance_by_hand,
    ),
    UserProgram(
        "shortest paths",
        "Floyd 1962, Warshall 1962",
        lambda rng: (rng.uniform(0, 1, (100, 100)),),
        shortest_paths,
        by_hand=shortest_paths_by_hand,
    ),
]
