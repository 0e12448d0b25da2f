"""Reader of sparse matrix products, as `jax.experimental.sparse` writes them for CPUs."""

from __future__ import annotations

from collections.abc import Sequence

from lowering.module_tree import Operation
from lowering.read.reader import Reader, ReadRows
from tenferro.errors import ShapeError
from tenferro.ops import elementwise as el
from tenferro.ops.indexing import Gather, Scatter
from tenferro.ops.reduction import CumSum
from tenferro.ops.structural import BroadcastInDim
from tenferro.types import TensorSpec

__all__ = ["SPARSE"]


def csr_product(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read the product of a CSR matrix and a dense matrix or vector `rhs`.

    The elements of row i are data[k] in column columns[k], for starts[i] <= k < starts[i + 1]. So element i of the
    result is the sum of data[k] * rhs[columns[k]] over these k. Elements data[k] with k >= starts[-1] are padding.

    Raises:
        ShapeError: the shapes are not those of a CSR matrix.

    Source: `csr_spmm_p` of jax.experimental.sparse.
    """
    data, starts, columns, rhs = operands
    spec = operation.spec
    count, dense = r.spec(data).shape, r.spec(rhs).shape
    rows = r.spec(starts).shape
    if (
        len(count) != 1
        or r.spec(columns).shape != count
        or len(dense) not in (1, 2)
        or spec.shape[1:] != dense[1:]
        or rows != (spec.shape[0] + 1,)
    ):
        shown = ", ".join(str(r.spec(value)) for value in operands)
        raise ShapeError(f"cpu_csr_sparse_dense_ffi: operands {shown} do not give {spec}")
    index = r.spec(starts).dtype
    ends = r.reshape(r.slice(starts, 0, 1, rows[0]), (rows[0] - 1, 1))
    ones = r.full(1, TensorSpec((rows[0] - 1,), index))
    zeros = r.full(0, TensorSpec(count, index))
    # The row of element k is the number of rows that end at k or before. For padding, the computed row equals the
    # number of rows. That index is out of bounds, so the scatter omits the padding.
    ended = r.apply_one(Scatter((), (0,), (), (), (0,), 1, "add"), zeros, ends, ones)
    row = r.reshape(r.apply_one(CumSum(0), ended), (*count, 1))
    window = tuple(range(1, len(dense)))
    gather = Gather(window, (0,), (), (), (0,), 1, (1, *dense[1:]))
    terms = r.apply_one(gather, rhs, r.reshape(columns, (*count, 1)))
    factors = r.apply_one(BroadcastInDim(r.spec(terms).shape, (0,)), data)
    products = r.apply_one(el.Multiply(), factors, terms)
    scatter = Scatter(window, (0,), (), (), (0,), 1, "add")
    return [r.apply_one(scatter, r.full(0, spec), row, products)]


SPARSE: ReadRows = {"cpu_csr_sparse_dense_ffi": csr_product}
