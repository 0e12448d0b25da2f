"""Every kernel, family by family."""

from __future__ import annotations

from kernel import Kernel
from stencils import STENCILS

__all__ = ["KERNELS"]

KERNELS: list[Kernel] = [*STENCILS]
