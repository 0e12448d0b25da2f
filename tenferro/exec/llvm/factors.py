"""Factorisations of small matrices by LAPACK, called from machine code: as NumPy and SciPy call it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tenferro.exec.llvm import blas
from tenferro.exec.llvm.code import Element, Index, literal
from tenferro.exec.llvm.columns import (
    either,
    factored,
    failed,
    hermitian,
    in_columns,
    is_finite,
    of_columns,
    part,
    spoil,
    vector,
)
from tenferro.exec.llvm.tensor import Body, Memory, Tensor
from tenferro.program import Routine
from tenferro.types import DType, TensorSpec

__all__ = ["eigh", "geqrf", "getrf", "householder_product", "qr", "svd"]

BLOCK = 32
"""Columns that LAPACK reflects at once."""


def getrf(
    body: Body, op: Routine, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """L and U in one matrix, pivots that are counted from one, and whether a pivot is zero."""
    (a,), (y, *others), code = operands, types, body.code
    *batch, m, n = y.shape
    packed = in_columns(body, a)
    pivots, info = (body.memory(spec) for spec in others)

    def one(number: Index) -> None:
        factored(
            code,
            packed,
            number,
            vector(code, pivots, number, min(m, n)),
            vector(code, info, number, 1),
        )

    code.loop(prod(batch), one)
    return [body.copied(of_columns(body, packed, y)), body.stored(pivots), body.stored(info)]


def geqrf(
    body: Body, op: Routine, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """R with the reflections below it, and their factors."""
    (a,), (y, spec) = operands, types
    packed, factors = _reflected(body, a, spec)
    return [body.copied(of_columns(body, packed, y)), body.stored(factors)]


def householder_product(
    body: Body, op: Routine, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """The product of reflections, by orgqr."""
    (packed, factors), (y,) = operands, types
    q = in_columns(body, packed)
    _unfold(body, q, body.dense(factors))
    return [body.copied(of_columns(body, q, y))]


def qr(
    body: Body, op: Routine, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """By geqrf and orgqr."""
    (a,), code = operands, body.code
    *batch, m, n = a.spec.shape
    packed, factors = _reflected(body, a, TensorSpec.of((*batch, min(m, n)), a.spec.dtype))
    in_rows = of_columns(body, packed, a.spec)

    def above(index: tuple[Index, ...]) -> Element:
        *_, i, j = index
        is_above = code.value(f"icmp uge i64 {j}, {i}")
        return either(
            code, a.spec.dtype, is_above, body.at(in_rows, index), literal(0, a.spec.dtype)
        )

    r = body.copied(Tensor(types[-1], above, frozenset([packed])))
    if not op.vectors:
        return [r]
    y = types[0]
    columns = y.shape[-1]

    def first(index: tuple[Index, ...]) -> Element:
        number, j, i = index
        is_packed = code.value(f"icmp ult i64 {j}, {n}")
        own = code.call("llvm.umin.i64", "i64", [("i64", str(j)), ("i64", str(n - 1))])
        value = code.load(packed.pointer, code.linear((number, own, i), packed.spec.shape), y.dtype)
        return either(code, y.dtype, is_packed, value, literal(0, y.dtype))

    spec = TensorSpec.of((prod(batch), columns, m), y.dtype)
    q = body.copy(Tensor(spec, first, frozenset([packed])))
    _unfold(body, q, factors)
    return [body.copied(of_columns(body, q, y)), r]


def eigh(
    body: Body, op: Routine, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """By syevd or heevd of the Hermitian part; NaN where they fail."""
    (a,), code, dtype = operands, body.code, operands[0].spec.dtype
    n = a.spec.shape[-1]
    whole = in_columns(body, Tensor(a.spec, lambda index: hermitian(body, a, index), a.reads))
    values, info = body.memory(types[0]), code.cell("i32")
    letter = blas.letter(code, "V" if op.vectors else "N")
    work = _room(body, dtype, 1 + 6 * n + 2 * n * n)
    more = _room(body, dtype.real, 1 + 5 * n + 2 * n * n) if dtype.is_complex else []
    integers = _room(body, DType.I32, 3 + 5 * n)

    def evd(number: Index) -> None:
        arguments = [
            letter, blas.letter(code, "L"), blas.integer(code, n), part(code, whole, number),
            blas.integer(code, n), vector(code, values, number, n), *work, *more, *integers, info,
        ]  # fmt: skip
        name = "heevd" if dtype.is_complex else "syevd"
        blas.call(code, f"{blas.LETTERS[dtype]}{name}", arguments, 10 * n**3)

    _each_or_nan(body, whole, evd, info, [values, whole][: len(types)])
    vectors = [body.copied(of_columns(body, whole, y)) for y in types[1:]]
    return [body.stored(values), *vectors]


def svd(
    body: Body, op: Routine, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """By gesdd; NaN where it fails."""
    (a,), code, dtype = operands, body.code, operands[0].spec.dtype
    *batch, m, n = a.spec.shape
    few, many = sorted((m, n))
    whole, info = in_columns(body, a), code.cell("i32")
    values = body.memory(types[1] if op.vectors else types[0])
    rows, columns = (m, n) if op.full else (few, few)
    count = prod(batch)
    u, v = (
        body.memory(TensorSpec.of((count, *shape) if op.vectors else (1, 1, 1), dtype))
        for shape in ((rows, m), (n, columns))
    )
    letter = blas.letter(code, "N" if not op.vectors else "A" if op.full else "S")
    work = _room(body, dtype, 4 * few * few + 8 * few + many)
    more = _room(
        body, dtype.real, max(5 * few * few + 5 * few, 2 * many * few + 2 * few * few + few)
    )
    integers = _room(body, DType.I32, 8 * few)

    def gesdd(number: Index) -> None:
        own = number if op.vectors else 0
        arguments = [
            letter, blas.integer(code, m), blas.integer(code, n), part(code, whole, number),
            blas.integer(code, m), vector(code, values, number, few), part(code, u, own),
            blas.integer(code, m), part(code, v, own), blas.integer(code, columns), *work,
            *(more[:1] if dtype.is_complex else []), integers[0], info,
        ]  # fmt: skip
        blas.call(code, f"{blas.LETTERS[dtype]}gesdd", arguments, 20 * few * few * many)

    _each_or_nan(body, whole, gesdd, info, [values, u, v][: len(types)])
    if not op.vectors:
        return [body.stored(values)]
    factors = [body.copied(of_columns(body, x, y)) for x, y in ((u, types[0]), (v, types[2]))]
    return [factors[0], body.stored(values), factors[1]]


# ---- parts -----------------------------------------------------------------------------------------


def _reflected(body: Body, a: Tensor, spec: TensorSpec) -> tuple[Memory, Memory]:
    """A matrix after geqrf, column after column, and the factors of the reflections."""
    code, dtype = body.code, a.spec.dtype
    *batch, m, n = a.spec.shape
    packed, factors, info = in_columns(body, a), body.memory(spec), code.cell("i32")
    work = _room(body, dtype, BLOCK * n)

    def one(number: Index) -> None:
        arguments = [
            blas.integer(code, m), blas.integer(code, n), part(code, packed, number),
            blas.integer(code, m), vector(code, factors, number, min(m, n)), *work, info,
        ]  # fmt: skip
        blas.call(code, f"{blas.LETTERS[dtype]}geqrf", arguments, 2 * m * n * n)

    code.loop(prod(batch), one)
    return packed, factors


def _unfold(body: Body, q: Memory, factors: Memory) -> None:
    """Write the product of reflections, which lie in the columns of q, over these."""
    code, dtype = body.code, q.spec.dtype
    count, columns, m = q.spec.shape
    few = factors.spec.shape[-1]
    info, work = code.cell("i32"), _room(body, dtype, BLOCK * columns)
    name = "ungqr" if dtype.is_complex else "orgqr"

    def one(number: Index) -> None:
        arguments = [
            blas.integer(code, m), blas.integer(code, columns), blas.integer(code, few),
            part(code, q, number), blas.integer(code, m), vector(code, factors, number, few), *work, info,
        ]  # fmt: skip
        blas.call(code, f"{blas.LETTERS[dtype]}{name}", arguments, 4 * m * columns * few)

    code.loop(count, one)


def _room(body: Body, dtype: DType, size: int) -> list[str]:
    """Memory that a routine works in, and where its size lies."""
    return [body.memory(TensorSpec.of((size,), dtype)).pointer, blas.integer(body.code, size)]


def _each_or_nan(
    body: Body,
    matrices: Memory,
    routine: Callable[[Index], None],
    info: str,
    memories: Sequence[Memory],
) -> None:
    """A routine for each matrix of a batch, which may never end on one that is not finite: values and vectors are NaN
    there, and where it fails.
    """
    code, count = body.code, matrices.spec.shape[0]

    def one(number: Index) -> None:
        code.line(f"store i32 1, ptr {info}")
        code.branch(is_finite(code, matrices, number), lambda: routine(number), lambda: None)
        has_failed = failed(code, info)
        code.branch(has_failed, lambda: spoil(code, memories, number, count), lambda: None)

    code.loop(count, one)
