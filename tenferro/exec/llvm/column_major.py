"""Batches of small column-major matrices, which LAPACK reads and writes in compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import nan, prod

from tenferro.exec.llvm import blas
from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm.code import Code, Element, Index, literal
from tenferro.exec.llvm.folding import Fold
from tenferro.exec.llvm.tensor import Body, Memory, Tensor
from tenferro.types import TensorSpec

__all__ = ["call_each", "from_column_major", "hermitian_part", "to_column_major"]


def to_column_major(body: Body, x: Tensor, transpose: str = "N") -> Memory:
    """Copy the matrices of a batch to column-major memory; `transpose` is "N", "T" or "C", as in BLAS."""
    *batch, m, n = x.spec.shape
    if transpose != "N":
        m, n = n, m
    spec = TensorSpec.of((prod(batch), n, m), x.spec.dtype)

    def element(index: tuple[Index, ...]) -> Element:
        number, j, i = index
        outer = body.code.unravel_index(number, batch)
        value = body.at(x, (*outer, i, j) if transpose == "N" else (*outer, j, i))
        return el.conj(body.code, None, spec.dtype, [value]) if transpose == "C" else value

    return body.copy(Tensor(spec, element, x.reads))


def call_each(
    body: Body,
    stem: str,
    matrices: Memory,
    arguments: Sequence[int | str | Memory],
    work: int,
    results: Sequence[Memory] = (),
    needs_finite: bool = False,
) -> None:
    """Write a call of a routine for each matrix of a batch.

    Args:
        arguments: integers, option letters, pointers, and memory of which each call gets an equal share. If there are
            results, the last argument is the status.
        work: estimated number of instructions of a call.
        results: memory in which the result of a matrix becomes NaN if its status is not 0.
        needs_finite: whether the routine is not called for a matrix that is not finite, whose result becomes NaN.
    """
    code, dtype = body.code, matrices.spec.dtype
    count = prod(matrices.spec.shape[:-2])

    def call(number: Index) -> None:
        own = [_part(code, x, number, count) if isinstance(x, Memory) else x for x in arguments]
        blas.call(code, dtype, stem, own, work)

    def member(number: Index) -> None:
        info = str(arguments[-1])
        if needs_finite:
            code.store_value(1, info, "i32")
            is_finite = _is_finite(code, matrices, number)
            code.branch(is_finite, lambda: call(number), lambda: None)
        else:
            call(number)
        if results:
            _fill_if_failed(code, info, results, number, count)

    code.loop(count, member)


def _part(code: Code, memory: Memory, number: Index, count: int) -> str:
    """Return the pointer to one of `count` equal shares of memory."""
    reals = 2 if memory.spec.dtype.is_complex else 1
    offset = code.scaled(number, memory.spec.size // count * reals)
    return code.address(memory.pointer, offset, memory.spec.dtype)


def hermitian_part(body: Body, a: Tensor, index: tuple[Index, ...]) -> Element:
    """Write one element of (A + A^H) / 2."""
    *batch, i, j = index
    code, dtype = body.code, a.spec.dtype
    half = literal(0.5, dtype.real)
    value = body.at(a, index)
    transposed = el.conj(code, None, dtype, [body.at(a, (*batch, j, i))])
    pairs = zip(value, transposed, strict=True) if dtype.is_complex else [(value, transposed)]
    parts = [code.value("fmul", code.value("fadd", x, y), half) for x, y in pairs]
    return tuple(parts) if dtype.is_complex else parts[0]


def from_column_major(body: Body, memory: Memory, y: TensorSpec) -> Tensor:
    """Return a tensor of type y that reads column-major matrices, which may have more rows or columns than y."""
    *batch, _, _ = y.shape

    def element(index: tuple[Index, ...]) -> Element:
        *outer, i, j = index
        offset = body.code.ravel_index(
            (body.code.ravel_index(outer, batch), j, i), memory.spec.shape
        )
        return body.code.load(memory.pointer, offset, y.dtype)

    return Tensor(y, element, frozenset([memory]))


def _is_finite(code: Code, matrices: Memory, number: Index) -> str:
    """Write whether all elements x of a matrix are finite, that is, whether the sum of 0 x is not NaN."""
    dtype = matrices.spec.dtype
    zero = literal(0, dtype.real)
    count = prod(matrices.spec.shape[:-2])
    matrix = _part(code, matrices, number, count)
    size = prod(matrices.spec.shape[-2:]) * (2 if dtype.is_complex else 1)

    def term(index: tuple[Index, ...]) -> Element:
        return code.value("fmul", code.load(matrix, index[0], dtype.real), zero)

    total = Fold(code, None, dtype.real, el.add, 0).reduce([size], term)
    return code.fcmp("oeq", total, zero)


def _fill_if_failed(
    code: Code, info: str, memories: Sequence[Memory], number: Index, count: int
) -> None:
    """Write code that sets the results of matrix `number` of `count` to NaN if the status `info` is not 0."""

    def fill() -> None:
        for memory in memories:
            dtype, size = memory.spec.dtype, memory.spec.size // count
            missing = literal(complex(nan, nan) if dtype.is_complex else nan, dtype)
            start, store = code.scaled(number, size), partial(code.store, missing, memory.pointer)
            code.loop(size, lambda i, to=store, at=start, of=dtype: to(code.add(at, i), of))

    code.branch(code.icmp("ne", code.load_value("i32", info), 0), fill, lambda: None)
