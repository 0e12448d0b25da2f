"""Script that runs programs which exceed its memory limit.

It checks that each program raises an error, and that the process continues.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tenferro as tnf
from tenferro.errors import BackendFailureError
from xla_peer import XlaExecutor, empty

EXTENT = 8_000  # a result has 512 MB, more than `SPARE`
SPARE = 300 << 20


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(BackendFailureError, match=r"RESOURCE_EXHAUSTED|allocate"):
        call()


def main() -> None:
    xla = XlaExecutor("cpu")
    x = np.ones(EXTENT)

    def square(x):
        return tnf.exp(x[:, None] * x[None, :])

    one, two = tnf.compile(square, x), tnf.compile(lambda x: (tnf.sum(x), square(x)), x)
    small = tnf.compile(lambda x: x + x, x)
    compiled = xla.compile(one)
    for program in (one, two):
        xla.compile(program)
    xla.run(small, x)
    large = np.broadcast_to(x, (EXTENT, EXTENT))
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + SPARE, taken + SPARE))
    for _ in range(2):  # because the second call takes another path through the code
        refused(lambda: xla.run(one, x))
        refused(lambda: xla.run(two, x))
        refused(lambda: xla.get(compiled(xla.put(x))))
        refused(lambda: xla.put(large))
        refused(lambda: xla.put(large, copy=False))
        refused(lambda: empty((EXTENT, EXTENT)))
        np.testing.assert_array_equal(xla.run(small, x), 2 * x)
    print("passed")


if __name__ == "__main__":
    main()
