"""Kernel of extension ops, which raises an error; executors use the runtime of the op's family instead."""

from __future__ import annotations

from typing import Any

from tenferro.errors import UnsupportedError
from tenferro.exec.kernels.kernel import Kernel, KernelRows
from tenferro.ops.extension import Extension

__all__ = ["ROWS"]


def unregistered(op: Extension, *arrays: Any) -> Any:
    """Raise `UnsupportedError`: only executors have runtimes of extension families."""
    raise UnsupportedError(f"extension: {op.family_id}: not registered; run it on an executor")


ROWS: KernelRows = {Extension: Kernel(unregistered)}
