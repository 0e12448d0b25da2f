"""Rows of the contraction family: small products as loops, larger ones by BLAS."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import blas
from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm.added_rows import rows_added
from tenferro.exec.llvm.code import Element
from tenferro.exec.llvm.convolution import convolution, convolution_refusal
from tenferro.exec.llvm.folding import Fold, Indices
from tenferro.exec.llvm.reduction import LONG_ROW
from tenferro.exec.llvm.rows import Row, Rows
from tenferro.exec.llvm.tensor import Body, Tensor, by_axes, in_float32
from tenferro.ops import contraction as co
from tenferro.types import TensorSpec

__all__ = ["ROWS"]

LARGEST_DOT = 1 << 12, 1 << 14
"""Multiplications of a product of matrices, and of one with few rows or columns, up to which loops beat BLAS."""
FEW = 4
"""Rows or columns of a product that reads its matrix once."""


def dot_general(
    body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """Small products: rows added to rows where these are long, else sums along lanes."""
    (lhs, rhs), (y,), code = operands, types, body.code
    if y.dtype is not lhs.spec.dtype or y.dtype.is_bool:
        raise NotCompiledError(f"DotGeneral: {lhs.spec} with {rhs.spec} to {y} is not compiled")
    terms = [lhs.spec.shape[axis] for axis in op.lhs_contracting]
    free = [
        prod([x.spec.shape[axis] for axis in axes])
        for x, axes in ((lhs, op.lhs_free(lhs.spec.rank)), (rhs, op.rhs_free(rhs.spec.rank)))
    ]
    size = y.size * prod(terms)
    is_large = prod(terms) > 1 and size > LARGEST_DOT[min(free) <= FEW]
    if size and y.dtype in blas.LETTERS and (is_large or y.dtype.is_complex):
        return [body.stored(blas.product(body, op, lhs, rhs, y))]
    batch, rows = len(op.lhs_batch), op.lhs_free(lhs.spec.rank)
    columns = op.rhs_free(rhs.spec.rank)

    def factors(index: Indices, numbers: Indices) -> tuple[Element, Element]:
        of_batch, others = index[:batch], index[batch:]
        of_left = (*of_batch, *others[: len(rows)], *numbers)
        of_right = (*of_batch, *others[len(rows) :], *numbers)
        left = by_axes((*op.lhs_batch, *rows, *op.lhs_contracting), of_left)
        right = by_axes((*op.rhs_batch, *columns, *op.rhs_contracting), of_right)
        return body.at(lhs, left), body.at(rhs, right)

    def product(index: Indices, numbers: Indices) -> Element:
        return el.multiply(code, op, y.dtype, factors(index, numbers))

    if columns and y.shape[-1] >= LONG_ROW and prod(terms) > 1:
        return [body.stored(rows_added(body, op, y, terms, product))]

    if prod(terms) == 1:
        return [Tensor(y, lambda index: product(index, (0,) * len(terms)), lhs.reads | rhs.reads)]

    def element(index: Indices) -> Element:
        return Fold(code, op, y.dtype, el.add, 0).of(terms, lambda k: product(index, k))

    return [body.settled(Tensor(y, element, lhs.reads | rhs.reads))]


ROWS: Rows = {
    co.DotGeneral: Row(in_float32(dot_general), moves=True, settles=True, is_exact=False),
    co.Convolution: Row(
        in_float32(convolution),
        moves=True,
        settles=True,
        is_exact=False,
        refusal=convolution_refusal,
    ),
}
