"""List of all kernels, in the order of the table's rows."""

from __future__ import annotations

from dynamics import DYNAMICS
from gradbench import GRADBENCH
from iterations import ITERATIONS
from kernel import Kernel
from matrices import MATRICES
from probability import PROBABILITY
from recurrent import RECURRENT
from stencils import STENCILS
from tables import TABLES

__all__ = ["KERNELS"]

KERNELS: list[Kernel] = [
    *STENCILS,
    *TABLES,
    *MATRICES,
    *DYNAMICS,
    *PROBABILITY,
    *RECURRENT,
    *ITERATIONS,
    *GRADBENCH,
]
