"""Resources of an executor that its kernels and schedules use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tenferro.exec.attempts import CompileLog
from tenferro.exec.runtime.memory import Pool
from tenferro.exec.runtime.threads import SERIAL, Workers
from tenferro.exec.runtime.transposition import Transposer

__all__ = ["SERIAL_RESOURCES", "Resources"]


@dataclass(frozen=True)
class Resources:
    """Threads and memory of an executor.

    Attributes:
        workers: the threads for large arrays.
        memory: the pool of memory for intermediate values, results and scratch memory.
        as_array: the function that converts a kernel's result to an array; a scalar becomes an array of rank 0.
        transposer: the compiler of transposing copies, or None.
        log: the record of attempts to compile.
    """

    workers: Workers = SERIAL
    memory: Pool = field(default_factory=lambda: Pool(0))
    as_array: Callable[[Any], Any] = np.asarray
    transposer: Transposer | None = None
    log: CompileLog = field(default_factory=CompileLog)


SERIAL_RESOURCES = Resources()
"""Resources with one thread, and with a pool that caches nothing."""
