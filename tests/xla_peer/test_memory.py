"""Memory must stay constant over many calls.

With a bounded cache, it must also do so over many compilations.
"""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

import tenferro as tnf
from xla_peer import XlaExecutor

pytest.importorskip("jax")

MEGABYTE = 1 << 20


def resident() -> int:
    """Return the resident memory of this process, in bytes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def test_ten_thousand_calls() -> None:
    xla = XlaExecutor("cpu")
    x = np.ones((64, 64))  # 32 kB: 10,000 leaked arrays would take 320 MB
    program = tnf.compile(lambda x: x * 2, x)
    executable, buffer = xla.compile(program), xla.put(x)
    for _ in range(500):
        xla.run(program, x)
        executable(buffer)
    before = resident()
    for _ in range(5_000):
        xla.run(program, x)
        executable(buffer)
    assert resident() - before < 20 * MEGABYTE


@pytest.mark.sweep
def test_a_thousand_compiles() -> None:
    xla = XlaExecutor("cpu", cache_size=4)
    program = tnf.compile(lambda x: tnf.tanh(x) + 1, tnf.TensorSpec(("n",), "float64"))
    for n in range(1, 201):
        xla.run(program, np.ones(n))
    before = resident()
    for n in range(201, 1001):
        xla.run(program, np.ones(n))
    assert xla.cache_stats().entries == 4
    assert resident() - before < 100 * MEGABYTE
