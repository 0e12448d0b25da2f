"""Time to compute pattern and colours of sparse Jacobians, compared with asdex if it is installed.

python benchmarks/sparsity.py [n]     a nonlinear Laplacian on an n x n grid; 300 by default
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tenferro as tnf


def laplacian(numpy: Any) -> Callable[[Any], Any]:
    """Return the five-point Laplacian with a cubic term, written with a namespace's functions."""

    def fn(u: Any) -> Any:
        p = numpy.pad(u, 1)
        return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u + u**3

    return fn


def timed(label: str, call: Callable[[], Any]) -> Any:
    """Print the second of two times, and return the result."""
    call()
    start = time.perf_counter()
    result = call()
    print(f"{label:40} {time.perf_counter() - start:8.3f} s")
    return result


def main(n: int) -> None:
    """Print the table."""
    u = np.ones((n, n))
    jacobian = timed("tenferro: pattern and groups", lambda: tnf.sparse_jacobian(laplacian(tnf), u))
    print(jacobian)
    timed("tenferro: nonzeros", lambda: jacobian(u))
    try:
        import asdex
        import jax.numpy
    except ImportError:
        return
    fn = laplacian(jax.numpy)
    coloring = timed("asdex: pattern and groups", lambda: asdex.jacobian_coloring(fn, u))
    print(coloring)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
