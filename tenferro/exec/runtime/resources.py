"""Resources of an executor that its kernels and schedules use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tenferro.exec.attempts import CompileLog
from tenferro.exec.runtime.memory import Pool
from tenferro.exec.runtime.sum_of_products import SumCompiler
from tenferro.exec.runtime.threads import SERIAL, Workers

__all__ = ["SERIAL_RESOURCES", "Resources", "Transposer"]

Transposer: TypeAlias = Callable[[Any], tuple[Callable[..., Any], int] | None]
"""Function from a `kernels.transposition.Transposition` to a compiled copy and its number of tasks, or None.

The arguments of the copy are pointers to x and y and a range of tasks.
"""


@dataclass(frozen=True)
class Resources:
    """Threads and memory of an executor.

    Attributes:
        workers: threads for large arrays.
        memory: pool for intermediate values, results and scratch memory.
        as_array: converts a kernel's result to an array; scalars become arrays of rank 0.
        transposer: compiles transposing copies, if there is a compiler.
        sums: compiles matrix products and convolutions, if there is a compiler.
        log: record of compilation attempts.
    """

    workers: Workers = SERIAL
    memory: Pool = field(default_factory=lambda: Pool(0))
    as_array: Callable[[Any], Any] = np.asarray
    transposer: Transposer | None = None
    sums: SumCompiler | None = None
    log: CompileLog = field(default_factory=CompileLog)


SERIAL_RESOURCES = Resources()
"""Resources with one thread, and with a pool that caches nothing."""
