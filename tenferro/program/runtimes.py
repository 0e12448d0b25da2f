"""Runtimes: native execution of extension families, written by their authors and called by executors.

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
"""Routines that compiled loops can call, in the order of the column of `tenferro/exec/llvm/routines.py`."""


@dataclass(frozen=True)
class Routine:
    """A routine of linear algebra, or a Fourier transform, that compiled loops call on small operands.

    Attributes:
        name: one of `ROUTINES`, with the operands and results of the family of that name.
        transpose: "N", "T" or "C", for solvers.
        lower, unit_diagonal: which triangle is read, and whether its diagonal is one.
        full: whether the factors of QR and SVD are square.
        vectors: whether QR returns Q, and the decompositions return vectors.
        kind, lengths: the parameters of a Fourier transform, as in `tenferro.ext.fft.Fft`.
        is_exact: whether `execute` only calls `numpy.linalg`, or SciPy's BLAS and LAPACK.
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
    """Runtime of one family on an executor. Subclass it, or use `HostReferenceRuntime`.

    Attributes:
        family_id: the family whose ops it executes.
        order: the memory layout of its operands: "F" for dense column-major, or "K" for any.
    """

    family_id: str
    order: str = "F"

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """Return the outputs, in order, of the dtypes and shapes that the op declares.

        Inputs are borrowed: they are read-only, and valid only during the call. The caller owns the outputs: an
            output that shares memory with an input, another output, or a cached array is copied. An input in
            the op's `aliases` is writable, and owned by the call. Plans are stored in `caches`; `caches.owner`
            is the calling executor.
        """
        raise NotImplementedError

    def compiled_routine(self, op: Any) -> Routine | None:
        """Return the routine that compiled loops may call instead of `execute`, or None."""
        return None

    def compiles_expansion(self, op: Any) -> bool:
        """Return whether compiled loops may run the family's expansion into standard ops instead of `execute`.

        The results of both must be bitwise equal.
        """
        return False


class HostReferenceRuntime(ExtensionRuntime):
    """Runtime that calls the op's own `eager_execute` on the host; it is used only if a family or executor names it.

    >>> HostReferenceRuntime("example.identity.v1").family_id
    'example.identity.v1'
    """

    def __init__(self, family_id: str) -> None:
        self.family_id = family_id

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """Return the outputs of `eager_execute`."""
        return op.eager_execute(list(inputs))
