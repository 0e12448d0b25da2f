"""LLVM lowerings of solutions of linear systems with small matrices, by LAPACK.

LAPACK is column-major. A matrix that it factorizes is copied to column-major memory. Other matrices stay row-major, so
LAPACK reads their transposes.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenferro.exec.llvm import blas
from tenferro.exec.llvm import column_major as cm
from tenferro.exec.llvm.code import Element, Index, literal
from tenferro.exec.llvm.elementwise import select
from tenferro.exec.llvm.tensor import Body, Memory, Specs, Tensor, Tensors
from tenferro.program import Routine
from tenferro.types import DType, TensorSpec

__all__ = ["cholesky", "getrf", "lu", "lu_solve", "solve", "triangular_solve"]


def solve(body: Body, op: Routine, operands: Tensors, types: Specs) -> Tensors:
    """Return the solution X of A X = B, computed by gesv; NaN if A is singular."""
    (a, b), (y,), code = operands, types, body.code
    *_, n, columns = y.shape
    matrices, x = cm.to_column_major(body, a, op.transpose), cm.to_column_major(body, b)
    arguments = n, columns, matrices, n, code.alloca("i32", n), x, n, code.alloca("i32")
    cm.call_each(body, "gesv", matrices, arguments, n * n * (n + columns), [x])
    return [body.copied(cm.from_column_major(body, x, y))]


def getrf(body: Body, op: Routine, operands: Tensors, types: Specs) -> Tensors:
    """Return L and U in one matrix, one-based pivots, and the status, which reports a zero pivot."""
    (a,), (y, *others) = operands, types
    *_, m, n = y.shape
    packed = cm.to_column_major(body, a)
    pivots, info = (body.memory(spec) for spec in others)
    cm.call_each(body, "getrf", packed, (m, n, packed, m, pivots, info), m * n * n)
    factors = body.copied(cm.from_column_major(body, packed, y))
    return [factors, body.stored(pivots), body.stored(info)]


def lu(body: Body, op: Routine, operands: Tensors, types: Specs) -> Tensors:
    """Return L and U in one matrix, and the pivots as a permutation, computed by getrf."""
    (y, _), code, perm = types, body.code, body.memory(types[1])
    *batch, m, n = y.shape
    k = min(m, n)
    specs = [TensorSpec.of(shape, DType.I32) for shape in ((*batch, k), (*batch,))]
    factors, pivots, _ = getrf(body, op, operands, [y, *specs])

    def permute(index: tuple[Index, ...]) -> None:
        start = code.scaled(code.ravel_index(index, batch), m)

        def swap(i: Index) -> None:
            pivot = code.cast("sext", body.at(pivots, (*index, i)), "i64")
            here, there = (code.add(start, offset) for offset in (i, code.add(pivot, -1)))
            values = [code.load(perm.pointer, offset, DType.I64) for offset in (here, there)]
            code.store(values[1], perm.pointer, here, DType.I64)
            code.store(values[0], perm.pointer, there, DType.I64)

        code.loop(m, lambda i: code.store(i, perm.pointer, code.add(start, i), DType.I64))
        code.loop(k, swap)

    code.loops(batch, permute)
    return [factors, body.stored(perm)]


def triangular_solve(body: Body, op: Routine, operands: Tensors, types: Specs) -> Tensors:
    """Return the solution X of A X = B with a triangular A, computed by trsm; it may divide by zero."""
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
    """Return the lower Cholesky factor L of the Hermitian part of A, computed by potrf; NaN if potrf fails.

    LAPACK reads A^T, and factorizes it as U^H U. Then L = U^T.
    """
    (a,), (y,), code = operands, types, body.code
    n = y.shape[-1]
    x = body.copy(Tensor(y, lambda index: cm.hermitian_part(body, a, index), a.reads))
    cm.call_each(body, "potrf", x, ("U", n, x, n, code.alloca("i32")), n**3, [x])
    factors = body.stored(x)

    def lower(index: tuple[Index, ...]) -> Element:
        above = code.icmp("ugt", index[-1], index[-2])
        return select(code, y.dtype, above, literal(0, y.dtype), body.at(factors, index))

    return [body.copied(Tensor(y, lower, factors.reads))]


def _solve_in_place(body: Body, op: Routine, a: Memory, x: Memory) -> None:
    """Overwrite B in x with the solution of op(A) X = B; both are row-major, so LAPACK solves X^T op(A)^T = B^T."""
    *_, n, columns = x.spec.shape
    options = "R", "U" if op.lower else "L", op.transpose, "U" if op.unit_diagonal else "N"
    one = blas.number(body.code, 1, x.spec.dtype)
    arguments = *options, columns, n, one, a, n, x, columns
    cm.call_each(body, "trsm", x, arguments, n * n * columns)
