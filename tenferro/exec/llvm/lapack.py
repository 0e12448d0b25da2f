"""Routines of linear algebra on small matrices: SciPy's LAPACK, called from machine code.

LAPACK's matrices lie in memory column after column. A matrix that it factorises is copied so; where a matrix is
read alone, ours is taken for the transpose of what LAPACK sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tenferro.exec.llvm import blas
from tenferro.exec.llvm.code import Element, Index, literal
from tenferro.exec.llvm.columns import either, factored, failed, hermitian, in_columns, or_nan, part
from tenferro.exec.llvm.tensor import Body, Memory, Tensor
from tenferro.program import Routine
from tenferro.types import DType, TensorSpec

__all__ = ["cholesky", "lu", "lu_solve", "solve", "triangular_solve"]


def solve(
    body: Body, op: Routine, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """By gesv; NaN where a matrix is singular."""
    (a, b), (y,), code = operands, types, body.code
    *batch, n, columns = y.shape
    matrices, rights = in_columns(body, a, op.transpose), in_columns(body, b)
    pivots, info, x = code.cell("i32", n), code.cell("i32"), body.memory(y)

    def one(number: Index) -> None:
        arguments = [
            blas.integer(code, n), blas.integer(code, columns), part(code, matrices, number),
            blas.integer(code, n), pivots, part(code, rights, number), blas.integer(code, n), info,
        ]  # fmt: skip
        blas.call(code, f"{blas.LETTERS[y.dtype]}gesv", arguments, n * n * (n + columns))
        is_missing = failed(code, info)

        def element(index: tuple[Index, ...]) -> None:
            i, j = index
            offset = code.linear((number, j, i), rights.spec.shape)
            value = code.load(rights.pointer, offset, y.dtype)
            offset = code.linear((number, i, j), (prod(batch), n, columns))
            code.store(or_nan(code, y.dtype, is_missing, value), x.pointer, offset, y.dtype)

        code.loops((n, columns), element)

    code.loop(prod(batch), one)
    return [body.stored(x)]


def lu(
    body: Body, op: Routine, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """By getrf; pivots as a permutation."""
    (a,), (y, order), code = operands, types, body.code
    *batch, m, n = y.shape
    packed, perm = in_columns(body, a), body.memory(order)
    pivots, info = code.cell("i32", min(m, n)), code.cell("i32")

    def one(number: Index) -> None:
        factored(code, packed, number, pivots, info)
        start = code.scaled(number, m)

        def swap(i: Index) -> None:
            pivot = code.value(f"sext i32 {code.load(pivots, i, DType.I32)} to i64")
            here, there = (code.add(start, offset) for offset in (i, code.add(pivot, -1)))
            values = [code.load(perm.pointer, offset, DType.I64) for offset in (here, there)]
            code.store(values[1], perm.pointer, here, DType.I64)
            code.store(values[0], perm.pointer, there, DType.I64)

        code.loop(m, lambda i: code.store(i, perm.pointer, code.add(start, i), DType.I64))
        code.loop(min(m, n), swap)

    code.loop(prod(batch), one)
    whole = (prod(batch), n, m)

    def element(index: tuple[Index, ...]) -> Element:
        *outer, i, j = index
        offset = code.linear((code.linear(outer, batch), j, i), whole)
        return code.load(packed.pointer, offset, y.dtype)

    return [body.copied(Tensor(y, element, frozenset([packed]))), body.stored(perm)]


def triangular_solve(
    body: Body, op: Routine, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """By trsm; infinite where the diagonal has a zero."""
    a, b = operands
    x = body.copy(b)
    _solve_in_place(body, op, body.dense(a), x)
    return [body.stored(x)]


def lu_solve(
    body: Body, op: Routine, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """By two trsm; A[perm] = L U, so that A^T X = B is U^T L^T X[perm] = B."""
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
        value = code.load(rights.pointer, code.linear(index, y.shape), y.dtype)
        code.store(value, x.pointer, code.linear(permuted(index), y.shape), y.dtype)

    code.loops(y.shape, put)
    return [body.stored(x)]


def cholesky(
    body: Body, op: Routine, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """By potrf of the Hermitian part; as the columns that LAPACK sees it is a^T = U^H U, L = U^T."""
    (a,), (y,), code = operands, types, body.code
    *batch, n, _ = y.shape
    info = code.cell("i32")
    x = body.copy(Tensor(y, lambda index: hermitian(body, a, index), a.reads))

    def one(number: Index) -> None:
        arguments = [
            blas.letter(code, "U"), blas.integer(code, n), part(code, x, number),
            blas.integer(code, n), info,
        ]  # fmt: skip
        blas.call(code, f"{blas.LETTERS[y.dtype]}potrf", arguments, n**3)
        is_missing = failed(code, info)

        def element(index: tuple[Index, ...]) -> None:
            i, j = index
            offset = code.linear((number, i, j), (prod(batch), n, n))
            value = or_nan(code, y.dtype, is_missing, code.load(x.pointer, offset, y.dtype))
            above = code.value(f"icmp ugt i64 {j}, {i}")
            value = either(code, y.dtype, above, literal(0, y.dtype), value)
            code.store(value, x.pointer, offset, y.dtype)

        code.loops((n, n), element)

    code.loop(prod(batch), one)
    return [body.stored(x)]


# ---- parts -----------------------------------------------------------------------------------------


def _solve_in_place(body: Body, op: Routine, a: Memory, x: Memory) -> None:
    """Op(A) X = B over B, both in rows: X^T op(A)^T = B^T in columns."""
    code, dtype = body.code, x.spec.dtype
    *batch, n, columns = x.spec.shape

    def one(number: Index) -> None:
        arguments = [
            blas.letter(code, "R"), blas.letter(code, "U" if op.lower else "L"),
            blas.letter(code, op.transpose), blas.letter(code, "U" if op.unit_diagonal else "N"),
            blas.integer(code, columns), blas.integer(code, n), blas.number(code, 1, dtype),
            part(code, a, number), blas.integer(code, n), part(code, x, number),
            blas.integer(code, columns),
        ]  # fmt: skip
        blas.call(code, f"{blas.LETTERS[dtype]}trsm", arguments, n * n * columns)

    code.loop(prod(batch), one)
