"""LLVM code of the contraction ops: small products as loops, larger ones by BLAS."""

from __future__ import annotations

from math import prod
from typing import Any

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import blas
from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm.code import Element
from tenferro.exec.llvm.folding import Fold, Indices
from tenferro.exec.llvm.reduction import LONG_ROW
from tenferro.exec.llvm.row_sums import sum_rows
from tenferro.exec.llvm.rows import Row, Rows, not_compiled
from tenferro.exec.llvm.tensor import Body, Specs, Tensor, Tensors, in_float32, inverse_permute
from tenferro.ops import contraction as co

__all__ = ["ROWS"]

MAX_LOOP_MULTIPLICATIONS = 1 << 12
"""Break-even of loops against BLAS: maximum number of multiplications of a product of matrices."""
MAX_NARROW_MULTIPLICATIONS = 1 << 14
"""Break-even of loops against BLAS for narrow products, which read the larger matrix once."""
MAX_NARROW_EXTENT = 4
"""Maximum number of rows or columns of a narrow product."""


def dot_general(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
    """Write a product: by BLAS if large, else as sums of rows where these are long, else as dot products."""
    (lhs, rhs), (y,), code = operands, types, body.code
    if y.dtype is not lhs.spec.dtype:
        raise NotCompiledError(f"DotGeneral: {lhs.spec} with {rhs.spec} to {y} is not compiled")
    terms = [lhs.spec.shape[axis] for axis in op.lhs_contracting]
    free = [
        prod([x.spec.shape[axis] for axis in axes])
        for x, axes in ((lhs, op.lhs_free(lhs.spec.rank)), (rhs, op.rhs_free(rhs.spec.rank)))
    ]
    size = y.size * prod(terms)
    is_narrow = min(free) <= MAX_NARROW_EXTENT
    most = MAX_NARROW_MULTIPLICATIONS if is_narrow else MAX_LOOP_MULTIPLICATIONS
    # BLAS scales an operand by 1 + 0i, which makes NaN of an infinity, so products without a sum are written here.
    is_for_blas = prod(terms) > 1 and (size > most or y.dtype.is_complex)
    if size and y.dtype in blas.LETTERS and is_for_blas:
        return [body.stored(blas.dot_general(body, op, lhs, rhs, y))]
    batch, rows = len(op.lhs_batch), op.lhs_free(lhs.spec.rank)
    columns = op.rhs_free(rhs.spec.rank)

    def factors(index: Indices, numbers: Indices) -> tuple[Element, Element]:
        outer, free_index = index[:batch], index[batch:]
        left = (*outer, *free_index[: len(rows)], *numbers)
        right = (*outer, *free_index[len(rows) :], *numbers)
        return (
            body.at(lhs, inverse_permute((*op.lhs_batch, *rows, *op.lhs_contracting), left)),
            body.at(rhs, inverse_permute((*op.rhs_batch, *columns, *op.rhs_contracting), right)),
        )

    def product(index: Indices, numbers: Indices) -> Element:
        return el.multiply(code, op, y.dtype, factors(index, numbers))

    if columns and y.shape[-1] >= LONG_ROW and prod(terms) > 1:
        return [body.stored(sum_rows(body, op, y, terms, product))]

    if prod(terms) == 1:
        return [Tensor(y, lambda index: product(index, (0,) * len(terms)), lhs.reads | rhs.reads)]

    def element(index: Indices) -> Element:
        return Fold(code, op, y.dtype, el.add, 0).reduce(terms, lambda k: product(index, k))

    return [body.materialised(Tensor(y, element, lhs.reads | rhs.reads))]


ROWS: Rows = {
    co.DotGeneral: Row(in_float32(dot_general), moves=True, materialises=True),
    co.Convolution: not_compiled("convolutions are not compiled"),
}
