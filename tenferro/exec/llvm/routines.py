"""Routines that runtimes of extensions name, as they are compiled: the column of `tenferro.exec.extensions.ROUTINES`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenferro.exec.llvm import blas, factors, fourier, lapack
from tenferro.exec.llvm.rows import Row
from tenferro.exec.llvm.tensor import Body, Tensor
from tenferro.program.runtimes import ROUTINES, Routine
from tenferro.types import TensorSpec

__all__ = ["row_of"]

LARGEST = 64
"""Extent up to which a call from Python costs more than a matrix is worth; kernels call LAPACK in another way from it on."""
Write = Callable[[Body, Routine, Sequence[Tensor], Sequence[TensorSpec]], Sequence[Tensor]]
RowOf = Callable[[Routine, Sequence[TensorSpec]], Row | None]


def row_of(routine: Routine, inputs: Sequence[TensorSpec]) -> Row | None:
    """How a routine is compiled for inputs of these types; None where the interpreter's kernel is called.

    >>> row_of(Routine("lu"), [TensorSpec.parse("f64[65,65]")])
    """
    return None if any([0 in x.shape for x in inputs]) else _ROWS[routine.name](routine, inputs)


def of_matrices(write: Write) -> RowOf:
    """Return the row of a routine on small matrices."""

    def row(routine: Routine, inputs: Sequence[TensorSpec]) -> Row | None:
        matrices = [x for x in inputs if x.dtype in blas.LETTERS]
        if not matrices or any([n > LARGEST for x in matrices for n in x.shape[-2:]]):
            return None

        def written(
            body: Body, _: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
        ) -> Sequence[Tensor]:
            return write(body, routine, operands, types)

        return Row(written, moves=True, settles=True, is_exact=False)

    return row


_ROWS: Mapping[str, RowOf] = dict(
    zip(
        ROUTINES,
        (
            of_matrices(lapack.cholesky),
            of_matrices(lapack.lu),
            of_matrices(lapack.lu_solve),
            of_matrices(lapack.solve),
            of_matrices(lapack.triangular_solve),
            of_matrices(factors.getrf),
            of_matrices(factors.geqrf),
            of_matrices(factors.householder_product),
            of_matrices(factors.qr),
            of_matrices(factors.eigh),
            of_matrices(factors.svd),
            fourier.row_of,
        ),
        strict=True,
    )
)
