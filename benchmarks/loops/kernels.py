"""Every kernel, family by family."""

from __future__ import annotations

from kernel import Kernel
from matrices import MATRICES
from stencils import STENCILS
from tables import TABLES

__all__ = ["KERNELS"]

KERNELS: list[Kernel] = [*STENCILS, *TABLES, *MATRICES]
