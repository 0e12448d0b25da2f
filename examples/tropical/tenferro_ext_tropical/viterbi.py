"""The most likely sequence of hidden states: a chain of max-plus products.

Source: Viterbi (1967), doi:10.1109/TIT.1967.1054010.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tenferro as tnf
from tenferro_ext_tropical.matmul import matmul

__all__ = ["best_score", "best_sequence"]


def best_score(start: Any, step: Any, seen: Any) -> Any:
    """Return the largest of all sums start[z0] + seen[0, z0] + step[z0, z1] + seen[1, z1] + ..

    Args:
        start: for each state, the logarithm of the probability to begin in it.
        step: for each pair of states, the logarithm of the probability of a step from the first to the second.
        seen: for each time and state, the logarithm of the probability of the observation.
    """
    score = tnf.reshape(start + seen[0], (1, -1))
    for time in range(1, seen.shape[0]):
        score = matmul(score, step) + seen[time]
    return tnf.max(score)


def best_sequence(start: Any, step: Any, seen: Any) -> list[int]:
    """Return the states of the best sequence: where the score's derivative with respect to `seen` is one."""
    taken = tnf.grad(best_score, argnums=2)(start, step, seen)
    return [int(state) for state in np.argmax(taken, axis=1)]
