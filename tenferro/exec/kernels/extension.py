"""Kernel of extension ops. Executors replace it by the runtime of the family."""

from __future__ import annotations

from typing import Any

from tenferro.errors import UnsupportedError
from tenferro.exec.kernels.kernel import Kernel, KernelRows
from tenferro.ops.extension import Extension

__all__ = ["ROWS"]


def unregistered(op: Extension, *arrays: Any) -> Any:
    """Raise an error, because only executors have runtimes."""
    raise UnsupportedError(f"extension: {op.family_id}: not registered; run it on an executor")


ROWS: KernelRows = {Extension: Kernel(unregistered)}
