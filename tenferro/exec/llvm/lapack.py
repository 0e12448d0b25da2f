"""LLVM lowerings of solutions of linear systems with small matrices, by LAPACK.

LAPACK is column-major. A matrix that it factorizes is copied to column-major memory. A matrix that it only reads stays
row-major, so LAPACK reads its transpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tenferro.exec.llvm import blas
from tenferro.exec.llvm import column_major as cm
from tenferro.exec.llvm.code import Element, Index, literal
from tenferro.exec.llvm.elementwise import select
from tenferro.exec.llvm.tensor import Body, Memory, Specs, Tensor, Tensors
from tenferro.program import Routine
from tenferro.types import DType

__all__ = ["cholesky", "lu", "lu_solve", "solve", "triangular_solve"]


def solve(body: Body, op: Routine, operands: Tensors, types: Specs) -> Tensors:
    """Return the solution X of A X = B, computed by gesv; it is NaN if A is singular."""
    (a, b), (y,), code = operands, types, body.code
    *batch, n, columns = y.shape
    matrices, x = cm.to_column_major(body, a, op.transpose), cm.to_column_major(body, b)
    pivots, info, count = code.alloca("i32", n), code.alloca("i32"), prod(batch)

    def solve_member(number: Index) -> None:
        matrix, right = (cm.matrix_pointer(code, each, number) for each in (matrices, x))
        arguments = n, columns, matrix, n, pivots, right, n, info
        blas.call(code, y.dtype, "gesv", arguments, n * n * (n + columns))
        cm.fill_if_failed(code, info, [x], number, count)

    code.loop(count, solve_member)
    return [body.copied(cm.from_column_major(body, x, y))]


def lu(body: Body, op: Routine, operands: Tensors, types: Specs) -> Tensors:
    """Return L and U in one matrix, and the pivots as a permutation; they are computed by getrf."""
    (a,), (y, order), code = operands, types, body.code
    *batch, m, n = y.shape
    packed, perm = cm.to_column_major(body, a), body.memory(order)
    pivots, info = code.alloca("i32", min(m, n)), code.alloca("i32")

    def factorize(number: Index) -> None:
        cm.call_getrf(code, packed, number, pivots, info)
        start = code.scaled(number, m)

        def swap(i: Index) -> None:
            pivot = code.cast("sext", code.load(pivots, i, DType.I32), "i64")
            here, there = (code.add(start, offset) for offset in (i, code.add(pivot, -1)))
            values = [code.load(perm.pointer, offset, DType.I64) for offset in (here, there)]
            code.store(values[1], perm.pointer, here, DType.I64)
            code.store(values[0], perm.pointer, there, DType.I64)

        code.loop(m, lambda i: code.store(i, perm.pointer, code.add(start, i), DType.I64))
        code.loop(min(m, n), swap)

    code.loop(prod(batch), factorize)
    return [body.copied(cm.from_column_major(body, packed, y)), body.stored(perm)]


def triangular_solve(body: Body, op: Routine, operands: Tensors, types: Specs) -> Tensors:
    """Return the solution X of A X = B with a triangular A, computed by trsm; a zero of the diagonal is divided by."""
    a, b = operands
    x = body.copy(b)
    _solve_in_place(body, op, body.dense(a), x)
    return [body.stored(x)]


def lu_solve(body: Body, op: Routine, operands: Tensors, types: Specs) -> Tensors:
    """Return the solution X of A X = B, computed by two calls of trsm from the factors in A[perm] = L U.

    The system A^T X = B is U^T L^T X[perm] = B.
    """
    (_, factors, perm, b), (y,), code = operands, types, body.code
    packed = body.dense(factors)
    low = Routine("triangular_solve", op.transpose, lower=True, unit_diagonal=True)
    up = Routine("triangular_solve", op.transpose, lower=False)

    def permuted(index: Sequence[Index]) -> tuple[Index, ...]:
        *batch, i, j = index
        return (*batch, body.at(perm, (*batch, i)), j)

    if op.transpose == "N":
        rows = Tensor(y, lambda index: body.at(b, permuted(index)), b.reads | perm.reads)
        x = body.copy(rows)
        _solve_in_place(body, low, packed, x)
        _solve_in_place(body, up, packed, x)
        return [body.stored(x)]
    rights, x = body.copy(b), body.memory(y)
    _solve_in_place(body, up, packed, rights)
    _solve_in_place(body, low, packed, rights)

    def put(index: tuple[Index, ...]) -> None:
        value = code.load(rights.pointer, code.ravel_index(index, y.shape), y.dtype)
        code.store(value, x.pointer, code.ravel_index(permuted(index), y.shape), y.dtype)

    code.loops(y.shape, put)
    return [body.stored(x)]


def cholesky(body: Body, op: Routine, operands: Tensors, types: Specs) -> Tensors:
    """Return the lower Cholesky factor of the Hermitian part of A, computed by potrf; NaN if it fails.

    LAPACK reads A^T, which it factorizes as U^H U. Then L = U^T.
    """
    (a,), (y,), code = operands, types, body.code
    *batch, n, _ = y.shape
    info, count = code.alloca("i32"), prod(batch)
    x = body.copy(Tensor(y, lambda index: cm.hermitian_part(body, a, index), a.reads))

    def factorize(number: Index) -> None:
        arguments = "U", n, cm.matrix_pointer(code, x, number), n, info
        blas.call(code, y.dtype, "potrf", arguments, n**3)
        cm.fill_if_failed(code, info, [x], number, count)

    code.loop(count, factorize)
    factors = body.stored(x)

    def lower(index: tuple[Index, ...]) -> Element:
        above = code.icmp("ugt", index[-1], index[-2])
        return select(code, y.dtype, above, literal(0, y.dtype), body.at(factors, index))

    return [body.copied(Tensor(y, lower, factors.reads))]


def _solve_in_place(body: Body, op: Routine, a: Memory, x: Memory) -> None:
    """Write code that overwrites x = B with the solution of op(A) X = B, for row-major A and B.

    LAPACK reads the transposes, so it solves X^T op(A)^T = B^T.
    """
    code, dtype = body.code, x.spec.dtype
    *batch, n, columns = x.spec.shape

    def solve_member(number: Index) -> None:
        options = "R", "U" if op.lower else "L", op.transpose, "U" if op.unit_diagonal else "N"
        one = blas.number(code, 1, dtype)
        matrix, right = (cm.matrix_pointer(code, y, number) for y in (a, x))
        arguments = *options, columns, n, one, matrix, n, right, columns
        blas.call(code, dtype, "trsm", arguments, n * n * columns)

    code.loop(prod(batch), solve_member)
