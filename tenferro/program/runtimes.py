"""Runtimes: native implementations of extension families, which executors call.

Source: docs/specification/execution.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tenferro.errors import InvalidConfigError
from tenferro.program.cache import ExtensionCaches

__all__ = ["ROUTINES", "ExtensionRuntime", "HostReferenceRuntime", "Routine"]


ROUTINES = (
    "cholesky",
    "lu",
    "lu_solve",
    "solve",
    "triangular_solve",
    "getrf",
    "geqrf",
    "householder_product",
    "qr",
    "eigh",
    "svd",
    "fft",
)
"""Names of the routines that compiled loops can call.

The table in `tenferro/exec/llvm/routines.py` has the same order.
"""


@dataclass(frozen=True)
class Routine:
    """Routine of linear algebra, or Fourier transform, that compiled loops call for small operands.

    Attributes:
        name: one of `ROUTINES`. The operands and results are those of the extension family with this name.
        transpose: for solvers, which matrix is used: the operand ("N"), its transpose ("T") or conjugate transpose
            ("C").
        lower, unit_diagonal: whether the lower triangle is read, and whether its diagonal is assumed to be one.
        full: whether QR and SVD return square factors.
        vectors: whether QR returns Q, and the decompositions return eigenvectors or singular vectors.
        kind, lengths: the parameters of a Fourier transform, as in `tenferro.ext.fft.Fft`.
        is_exact: whether the results have the same bits as those of the runtime's `execute`. This requires that
            `execute` only calls `numpy.linalg`, or SciPy's BLAS and LAPACK.
    """

    name: str
    transpose: str = "N"
    lower: bool = True
    unit_diagonal: bool = False
    full: bool = False
    vectors: bool = True
    kind: str = "fft"
    lengths: tuple[int | None, ...] = ()
    is_exact: bool = False

    def __post_init__(self) -> None:
        if self.name not in ROUTINES:
            raise InvalidConfigError(
                f"Routine: expected one of {', '.join(ROUTINES)}, got {self.name!r}"
            )


class ExtensionRuntime:
    """Runtime of one family on an executor. Define a subclass, or use `HostReferenceRuntime`.

    Attributes:
        family_id: the id of the family whose ops the runtime executes.
        order: the memory layout that operands must have: "F" for contiguous column-major, or "K" for any layout.
    """

    family_id: str
    order: str = "F"

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """Return the outputs, in order. They must have the dtypes and shapes that the op declares.

        The inputs are borrowed: they are read-only, and valid only during the call. An input that the op lists in
        `aliases` is writable, and belongs to the call. The executor owns the outputs. It copies an output that shares
        memory with an input, another output or a cached array. Plans are stored in `caches`; `caches.owner` is the
        executor that calls.
        """
        raise NotImplementedError

    def compiled_routine(self, op: Any) -> Routine | None:
        """Return the routine that compiled loops may call instead of `execute`; None if there is none."""
        return None

    def compiles_expansion(self, op: Any) -> bool:
        """Return whether compiled loops may run the family's expansion into standard ops instead of `execute`.

        The results of the expansion and of `execute` must be bitwise equal.
        """
        return False


class HostReferenceRuntime(ExtensionRuntime):
    """Runtime that calls the op's `eager_execute` on the host. It is used only if a family or an executor selects it.

    >>> HostReferenceRuntime("example.identity.v1").family_id
    'example.identity.v1'
    """

    def __init__(self, family_id: str) -> None:
        self.family_id = family_id

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """Return the outputs of `eager_execute`."""
        return op.eager_execute(list(inputs))
