"""LLVM lowerings of `ROUTINES`, by which extension runtimes may describe their computations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenferro.exec.llvm import blas, factorizations, fourier, lapack
from tenferro.exec.llvm.rows import Row
from tenferro.exec.llvm.tensor import Body, Specs, Tensor, Tensors
from tenferro.program.runtimes import ROUTINES, Routine
from tenferro.types import TensorSpec

__all__ = ["row_of"]

MAX_EXTENT = 64
"""Maximum extent of matrices in a compiled routine; for larger matrices, the interpreter's kernel is faster."""
Write = Callable[[Body, Routine, Sequence[Tensor], Sequence[TensorSpec]], Sequence[Tensor]]
RowOf = Callable[[Routine, Sequence[TensorSpec]], Row | None]


def row_of(routine: Routine, inputs: Specs) -> Row | None:
    """Return the lowering of a routine for inputs of these types; None if the interpreter calls the kernel.

    >>> row_of(Routine("lu"), [TensorSpec.parse("f64[65,65]")])
    """
    return None if any([0 in x.shape for x in inputs]) else _ROWS[routine.name](routine, inputs)


def matrix_routine(write: Write) -> RowOf:
    """Return the function that returns the lowering of a routine, or None if a matrix is large."""

    def row(routine: Routine, inputs: Specs) -> Row | None:
        matrices = [x for x in inputs if x.dtype in blas.LETTERS]
        if not matrices or any([n > MAX_EXTENT for x in matrices for n in x.shape[-2:]]):
            return None

        def written(body: Body, _: Any, operands: Tensors, types: Specs) -> Tensors:
            return write(body, routine, operands, types)

        return Row(written, moves=True, materialises=True)

    return row


_MATRIX_ROUTINES: Sequence[Write] = (
    lapack.cholesky, lapack.lu, lapack.lu_solve, lapack.solve, lapack.triangular_solve, lapack.getrf,
    factorizations.geqrf, factorizations.householder_product, factorizations.qr, factorizations.eigh, factorizations.svd,
)  # fmt: skip
_ROWS: Mapping[str, RowOf] = dict(
    zip(ROUTINES, (*map(matrix_routine, _MATRIX_ROUTINES), fourier.row_of), strict=True)
)
