"""Matrix functions in standard StableHLO operations: loops of Householder reflections, eliminations and rotations.

These lowerings are for compilers without custom calls of LAPACK. They compute with the functions of
`tenferro.extension.algebra`, in which derivative rules are written too. Each call emits a StableHLO operation.
"""

from __future__ import annotations

from typing import Any

from lowering.families.linalg.inline.gaussian import lu, pivots_to_permutation
from lowering.families.linalg.inline.householder import qr
from lowering.families.linalg.inline.jacobi import eigh, svd
from lowering.families.linalg.matrix import (
    hermitian,
    or_nan,
    parts,
    solve_by,
    triangle,
    without_complex128_on_tpu,
)
from lowering.writer import Value, Writer
from tenferro.errors import UnsupportedError
from tenferro.types import DType

__all__ = ["RULES", "cholesky", "eig", "eigh", "lu", "pivots_to_permutation", "qr", "svd"]


def cholesky(op: Any, w: Writer, a: Value) -> Value:
    """Emit `stablehlo.cholesky`, which every compiler supports.

    If a factor contains NaN, its matrix is not positive definite. Then the whole lower triangle of the factor is set to
    NaN.
    """
    a = hermitian(w, a)
    batch, _, _ = parts(a)
    low = triangle(w, w.op("cholesky", a, result=a.spec, lower=True), lower=True)
    failed = w.convert(w.compare("NE", low, low), DType.I32)
    zero = w.scalar(0, DType.I32)
    rank = len(batch)
    info = w.reduce("maximum", failed, zero, (rank, rank + 1))
    return triangle(w, or_nan(w, info, low), lower=True)


def eig(op: Any, w: Writer, a: Value) -> Any:
    """Raise `UnsupportedError`: no algorithm for general matrices is written in standard operations."""
    raise UnsupportedError(
        f'Eig: {a.spec}: linalg="inline" has no algorithm for general matrices; use eigh for a '
        'Hermitian one, or linalg="library" on cpu or cuda'
    )


RULES = {
    family_id: without_complex128_on_tpu(rule)
    for family_id, rule in {
        "tenferro.cholesky.v1": cholesky,
        "tenferro.qr.v1": qr,
        "tenferro.svd.v1": svd,
        "tenferro.eigh.v1": eigh,
        "tenferro.eig.v1": eig,
        "tenferro.lu.v1": lu,
        "tenferro.solve.v1": solve_by(lu),
    }.items()
}
