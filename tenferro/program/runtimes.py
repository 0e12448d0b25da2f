"""Runtimes: the native execution of extension families, as their authors state it and executors call it.

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
"""What compiled loops can call, in the order of `tenferro/exec/llvm/routines.py`'s column."""


@dataclass(frozen=True)
class Routine:
    """A routine on matrices, or a Fourier transform, which is compiled in loops where its operands are small.

    Attributes:
        name: one of `ROUTINES`, with the operands and results of the family of that name.
        transpose: "N", "T" or "C", of solutions.
        lower, unit_diagonal: which triangle is read, and whether its diagonal is one.
        full: whether the factors of QR and SVD are square.
        vectors: whether QR has Q, and the decompositions have vectors.
        kind, lengths: of a Fourier transform, as `tenferro.ext.fft.Fft` has them.
        is_exact: whether `execute` does nothing but call `numpy.linalg`, or SciPy's BLAS and LAPACK.
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
            raise InvalidConfigError(f"Routine: one of {', '.join(ROUTINES)}, got {self.name!r}")


class ExtensionRuntime:
    """Executes one family on an executor; derive from it, or give `HostReferenceRuntime`.

    Attributes:
        family_id: whose ops it executes.
        order: memory order of the arrays it is given: "F", dense column-major, or "K" for whatever
            they are.
    """

    family_id: str
    order: str = "F"

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """The outputs, in order, of the dtypes and shapes that the op declares.

        Inputs are borrowed: they are read-only, and valid during the call. Outputs are given away:
        one that shares memory with an input, another output, or anything kept is copied.
        An input that the op's `aliases` name is writable, and belongs to the call.
        Plans belong in `caches`; the executor that calls is `caches.owner`.
        """
        raise NotImplementedError

    def compiled_routine(self, op: Any) -> Routine | None:
        """The routine that `op` is, if compiled loops may call that in the place of `execute`."""
        return None

    def compiles_expansion(self, op: Any) -> bool:
        """Whether compiled loops may run the standard ops of the family's expansion in the place of `execute`.

        The results of both must be the same to the last bit.
        """
        return False


class HostReferenceRuntime(ExtensionRuntime):
    """Executes a family by its ops' own `eager_execute`, on the host: an explicit choice.

    >>> HostReferenceRuntime("example.identity.v1").family_id
    'example.identity.v1'
    """

    def __init__(self, family_id: str) -> None:
        self.family_id = family_id

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """The outputs of `eager_execute`."""
        return op.eager_execute(list(inputs))
