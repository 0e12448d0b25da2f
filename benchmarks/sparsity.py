"""Time to compute the sparsity pattern and the column groups of a Jacobian, by tenferro and, if installed, by asdex.

python benchmarks/sparsity.py [n]     the function is a nonlinear Laplacian on an n x n grid; n is 300 by default
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tenferro as tnf


def laplacian(numpy: Any) -> Callable[[Any], Any]:
    """Return the five-point Laplacian with a cubic term, written with functions of the namespace `numpy`."""

    def fn(u: Any) -> Any:
        p = numpy.pad(u, 1)
        return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u + u**3

    return fn


def timed(label: str, call: Callable[[], Any]) -> Any:
    """Run `call` twice and return the second result.

    The time of the second run is printed: the first run may compile.
    """
    call()
    start = time.perf_counter()
    result = call()
    print(f"{label:40} {time.perf_counter() - start:8.3f} s")
    return result


def main(n: int) -> None:
    """Print the times of tenferro and asdex for an n x n grid."""
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
