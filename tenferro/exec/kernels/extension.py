"""The kernel row of the carrier: an executor puts its family's runtime in its place."""

from __future__ import annotations

from typing import Any

from tenferro.errors import UnsupportedError
from tenferro.exec.kernels.kernel import KernelRows, OfOp
from tenferro.ops.extension import Extension

__all__ = ["ROWS"]


def unregistered(op: Extension, *arrays: Any) -> Any:
    """No executor, no runtime."""
    raise UnsupportedError(f"extension: {op.family_id}: not registered; run it on an executor")


ROWS: KernelRows = {Extension: OfOp(unregistered)}
