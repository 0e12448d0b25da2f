"""The kernel of DotGeneral, by one call of PyTorch's batched matrix product."""

from __future__ import annotations

from math import prod

import torch

from tenferro.ops.contraction import DotGeneral
from tenferro_torch.memory import DTYPES, LOW

__all__ = ["ROWS"]


def dot_general(op: DotGeneral, lhs: torch.Tensor, rhs: torch.Tensor) -> torch.Tensor:
    """Contract two tensors by a batched matrix product; float16 and bfloat16 are summed in float32.

    Axes are merged until each operand has three: the batch, the rows or columns, and the summed terms.
    """
    result = lhs.dtype if op.accumulate_dtype is None else DTYPES[op.accumulate_dtype]
    work = torch.float32 if result in LOW else result
    rows, columns = op.lhs_free(lhs.ndim), op.rhs_free(rhs.ndim)
    batch = [lhs.shape[axis] for axis in op.lhs_batch]
    terms = prod([lhs.shape[axis] for axis in op.lhs_contracting])
    row_shape, column_shape = [lhs.shape[a] for a in rows], [rhs.shape[a] for a in columns]
    left = lhs.to(work).permute((*op.lhs_batch, *rows, *op.lhs_contracting))
    right = rhs.to(work).permute((*op.rhs_batch, *op.rhs_contracting, *columns))
    product = torch.bmm(
        left.reshape(prod(batch), prod(row_shape), terms),
        right.reshape(prod(batch), terms, prod(column_shape)),
    )
    return product.reshape((*batch, *row_shape, *column_shape)).to(result)


ROWS = {DotGeneral: dot_general}
