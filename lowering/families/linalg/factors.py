"""Lowering of the solution of linear systems from LU factors: a row permutation and two triangular solves.

This lowering is the same on every platform.
"""

from __future__ import annotations

from typing import Any

from lowering.families.linalg.inline.values import values_of
from lowering.families.linalg.matrix import permuted, solved, triangular
from lowering.writer import Value, Writer
from tenferro.extension.algebra import apply, iota_along
from tenferro.extension.ops import Sort

__all__ = ["lu_solve"]


def lu_solve(op: Any, w: Writer, a: Value, packed: Value, perm: Value, b: Value) -> Value:
    """Solve A X = B, or A^T X = B or A^H X = B, for X, where A[perm] = L U.

    Without transposition X = U^-1 L^-1 B[perm]. With transposition X[perm] = L^-T U^-T B.
    """
    if op.transpose == "N":
        return solved(w, packed, perm, b)
    high = triangular(w, packed, b, lower=False, unit_diagonal=False, transpose=op.transpose)
    x = triangular(w, packed, high, lower=True, unit_diagonal=True, transpose=op.transpose)
    return permuted(w, inverse(w, perm), x)


def inverse(w: Writer, perm: Value) -> Value:
    """Invert a permutation of 0, .., n - 1 by sorting it together with its positions."""
    (value,) = values_of(w, perm)
    _, positions = apply(
        Sort(value.rank - 1, True, 2), value, iota_along(value, value.shape, value.rank - 1)
    )
    return positions.handle
