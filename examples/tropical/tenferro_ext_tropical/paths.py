"""Shortest paths in a graph, by powers of the matrix of edge lengths in the min-plus algebra."""

from __future__ import annotations

from typing import Any

import tenferro as tnf
from tenferro_ext_tropical.algebras import MIN_PLUS
from tenferro_ext_tropical.matmul import matmul

__all__ = ["shortest_paths"]


def shortest_paths(lengths: Any) -> Any:
    """Return the length of the shortest path from any node to any other; infinity if there is no path.

    `lengths[i, j]` is the length of the edge from i to j, or infinity without an edge. The gradient with respect to
    `lengths` shows the edges of a path. The matrix is squared log2(n) times. No cycle may have a negative length.

    >>> import numpy as np
    >>> shortest_paths(np.array([[0.0, 1.0, 9.0], [9.0, 0.0, 1.0], [9.0, 9.0, 0.0]]))[0]
    array([0., 1., 2.])
    """
    n = lengths.shape[-1]
    at_once = tnf.where(tnf.eye(n, dtype=lengths.dtype) > 0, 0.0, lengths)
    reached = 1
    while reached < n - 1:
        at_once = matmul(at_once, at_once, MIN_PLUS)
        reached *= 2
    return at_once
