"""Products with NumPy's bits, from compiled code: the call of `matmul`'s loop that its kernel comes down to for few
elements, with the steps that views have.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tenferro.exec.kernels.dot_general import Contraction, exact_float
from tenferro.exec.kernels.matrix_view import Axes, MatrixView, step_of
from tenferro.exec.llvm import ufunc_loops
from tenferro.exec.llvm.tensor import Body, Memory
from tenferro.exec.llvm.ufunc_loops import Loop, loop_of
from tenferro.exec.runtime.resources import CALLER
from tenferro.ops.contraction import DotGeneral
from tenferro.types import DType, TensorSpec

__all__ = ["Product", "Side", "is_outer", "product_of", "tried", "write"]


class Side(NamedTuple):
    """An operand as matrices.

    order:  of its axes, in which it is copied row by row; None where it is read in its place
    steps:  the bytes from matrix to matrix, from row to row, and from column to column
    """

    order: Axes | None
    steps: tuple[int, int, int]


class Product(NamedTuple):
    """A call of the loop.

    lhs, rhs:   the operands
    counts:     of matrices, rows, terms and columns
    is_turned:  whether the loop makes the matrices' transposes, from the operands'
    order:      of the result's axes, in which it is row-major, if that is not their own
    """

    loop: Loop
    lhs: Side
    rhs: Side
    counts: tuple[int, int, int, int]
    is_turned: bool
    order: Axes

    def call(self) -> tuple[list[int], list[int]]:
        """The counts of the call, and its steps in bytes."""
        batch, m, k, n = self.counts
        (a_batch, a_row, a_term), (b_batch, b_term, b_column) = self.lhs.steps, self.rhs.steps
        size = self.loop.dtypes[-1].itemsize
        if self.is_turned:
            steps = [
                b_batch,
                a_batch,
                m * n * size,
                b_column,
                b_term,
                a_term,
                a_row,
                m * size,
                size,
            ]
            return [batch, n, k, m], steps
        steps = [a_batch, b_batch, m * n * size, a_row, a_term, b_term, b_column, n * size, size]
        return [batch, m, k, n], steps


def is_outer(op: DotGeneral, lhs: TensorSpec) -> bool:
    """Whether there is one term, so that elements are products of two numbers."""
    return prod([lhs.shape[axis] for axis in op.lhs_contracting]) == 1


def product_of(op: DotGeneral, lhs: Any, rhs: Any) -> Product | None:
    """The call for arrays that lie as these; None where a product is made otherwise."""
    dtype = DType.of(lhs.dtype)
    out = dtype if op.accumulate_dtype is None else op.accumulate_dtype
    if dtype.is_bool or lhs.dtype != rhs.dtype or {out, out.accumulator} != {dtype}:
        return None
    contraction = Contraction(op, lhs.shape, rhs.shape, CALLER)
    loop = loop_of(np.matmul, (dtype,) * 3)
    if loop is None or (dtype.is_integer and exact_float(dtype, contraction.sizes)):
        return None
    matrices = contraction.matrices(lhs, rhs)
    if matrices is None or matrices.perm != tuple(range(len(matrices.perm))):
        return None
    left, right = (
        _side(view, x, matrices.are_small)
        for view, x in ((matrices.left, lhs), (matrices.right, rhs))
    )
    *batch, m, k = matrices.left.shape
    n, rank = matrices.right.shape[-1], len(matrices.shape)
    has_order = matrices.turned and 1 not in (m, n)
    if left is None or right is None or (has_order and rank != len(batch) + 2):
        return None
    order = (*range(rank - 2), rank - 1, rank - 2) if has_order else ()
    return Product(loop, left, right, (prod(batch), m, k, n), matrices.turned, order)


def _side(view: MatrixView, x: Any, is_small: bool) -> Side | None:
    """An operand as the kernel reads it: where it lies, or a copy with another order of axes."""
    y = view.reader()(x) if is_small else view.copied(x, None)
    batch = step_of(y, range(y.ndim - 2))
    if batch is None:
        return None
    down, across = y.strides[-2:]
    return Side(None if np.may_share_memory(x, y) else view.perm, (batch, down, across))


def write(body: Body, product: Product, lhs: str, rhs: str, y: Memory) -> None:
    """Call the loop.

    Args:
        lhs, rhs: where the operands, or their copies, begin.
        y: the result, or if it is turned its transpose.
    """
    operands = [rhs, lhs] if product.is_turned else [lhs, rhs]
    ufunc_loops.call(body.code, product.loop, [*operands, y.pointer], *product.call())


def tried(product: Product, lhs: Any, rhs: Any) -> Any:
    """The product by the call, as an array [matrices, rows, columns] or turned."""
    sides = [
        x if side.order is None else np.ascontiguousarray(x.transpose(side.order))
        for x, side in ((lhs, product.lhs), (rhs, product.rhs))
    ]
    counts, steps = product.call()
    y = np.empty((counts[0], counts[1], counts[3]), lhs.dtype)
    operands: Sequence[Any] = sides[::-1] if product.is_turned else sides
    ufunc_loops.run(product.loop, [*operands, y], counts, steps)
    return y
