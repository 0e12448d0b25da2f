"""The resources that an executor lends to its programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tenferro.exec.attempts import CompileLog
from tenferro.exec.runtime.memory import Pool
from tenferro.exec.runtime.threads import ALONE, Workers
from tenferro.exec.runtime.turn import Turner

__all__ = ["CALLER", "Resources"]


@dataclass(frozen=True)
class Resources:
    """Threads, memory and conversions that kernels and schedules use.

    Attributes:
        workers: threads for large arrays.
        memory: of values in the middle, results and scratch.
        as_array: what a kernel gave as an array: a number as one of rank 0.
        turner: compiled code for transposing copies, if there is a compiler.
        log: the record of attempts to compile.
    """

    workers: Workers = ALONE
    memory: Pool = field(default_factory=lambda: Pool(0))
    as_array: Callable[[Any], Any] = np.asarray
    turner: Turner | None = None
    log: CompileLog = field(default_factory=CompileLog)


CALLER = Resources()
"""One thread, and no memory that stays."""
