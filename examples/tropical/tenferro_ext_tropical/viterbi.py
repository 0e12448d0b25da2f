"""The most likely sequence of hidden states of a Markov model, by a chain of max-plus products.

Source: Viterbi (1967), doi:10.1109/TIT.1967.1054010.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tenferro as tnf
from tenferro_ext_tropical.matmul import matmul

__all__ = ["best_score", "best_sequence"]


def best_score(start: Any, step: Any, seen: Any) -> Any:
    """Return the largest sum start[z0] + seen[0, z0] + step[z0, z1] + seen[1, z1] + .. over all sequences z.
    Args:
        start: the logarithm of each state's probability at the beginning.
        step: the logarithm of the probability of each transition, from the state of the row to the state of the
            column.
        seen: the logarithm of the probability of each time's observation (row) in each state (column).
    """
    score = tnf.reshape(start + seen[0], (1, -1))
    for time in range(1, seen.shape[0]):
        score = matmul(score, step) + seen[time]
    return tnf.max(score)


def best_sequence(start: Any, step: Any, seen: Any) -> list[int]:
    """Return the states of the best sequence: at each time, the state for which d score / d seen is one."""
    taken = tnf.grad(best_score, argnums=2)(start, step, seen)
    return [int(state) for state in np.argmax(taken, axis=1)]
