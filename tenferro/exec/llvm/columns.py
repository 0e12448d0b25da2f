"""Matrices of small extents as LAPACK has them in memory: a batch, each column after column."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan, prod

from tenferro.exec.llvm import blas
from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm.code import Code, Element, Index, literal, llvm_type
from tenferro.exec.llvm.folding import Fold
from tenferro.exec.llvm.tensor import Body, Memory, Tensor
from tenferro.types import DType, TensorSpec

__all__ = [
    "conjugate",
    "either",
    "factored",
    "failed",
    "hermitian",
    "in_columns",
    "is_finite",
    "of_columns",
    "or_nan",
    "part",
    "spoil",
    "unraveled",
    "vector",
]


def in_columns(body: Body, x: Tensor, transpose: str = "N") -> Memory:
    """A copy of op(X) for every matrix, column after column."""
    *batch, m, n = x.spec.shape
    if transpose != "N":
        m, n = n, m
    spec = TensorSpec.of((prod(batch), n, m), x.spec.dtype)

    def element(index: tuple[Index, ...]) -> Element:
        number, j, i = index
        outer = unraveled(body.code, number, batch)
        value = body.at(x, (*outer, i, j) if transpose == "N" else (*outer, j, i))
        return conjugate(body.code, spec.dtype, value) if transpose == "C" else value

    return body.copy(Tensor(spec, element, x.reads))


def part(code: Code, memory: Memory, number: Index) -> str:
    """Where a matrix of a batch begins."""
    return vector(code, memory, number, prod(memory.spec.shape[-2:]))


def vector(code: Code, memory: Memory, number: Index, size: int) -> str:
    """Where the elements of one member of a batch begin, of which there are `size`."""
    dtype = memory.spec.dtype
    parts = 2 if dtype.is_complex else 1
    return code.address(memory.pointer, code.scaled(number, size * parts), dtype)


def factored(code: Code, matrices: Memory, number: Index, pivots: str, info: str) -> None:
    """Write L and U over a matrix of a batch, by getrf.

    Args:
        pivots, info: where the pivots go, and what became of it.
    """
    dtype = matrices.spec.dtype
    _, n, m = matrices.spec.shape
    arguments = [
        blas.integer(code, m), blas.integer(code, n), part(code, matrices, number), blas.integer(code, m),
        pivots, info,
    ]  # fmt: skip
    blas.call(code, f"{blas.LETTERS[dtype]}getrf", arguments, m * n * n)


def hermitian(body: Body, a: Tensor, index: tuple[Index, ...]) -> Element:
    """An element of (A + A^H) / 2."""
    *batch, i, j = index
    code, dtype = body.code, a.spec.dtype
    kind, half = llvm_type(dtype), literal(0.5, dtype.real)
    value = body.at(a, index)
    transposed = conjugate(code, dtype, body.at(a, (*batch, j, i)))
    pairs = zip(value, transposed, strict=True) if dtype.is_complex else [(value, transposed)]
    parts = [
        code.value(f"fmul {kind} {code.value(f'fadd {kind} {x}, {y}')}, {half}") for x, y in pairs
    ]
    return tuple(parts) if dtype.is_complex else parts[0]


def conjugate(code: Code, dtype: DType, value: Element) -> Element:
    """A complex number's; a real number is its own."""
    if not dtype.is_complex:
        return value
    return value[0], code.value(f"fneg {llvm_type(dtype)} {value[1]}")


def failed(code: Code, info: str) -> str:
    """Whether a routine says so."""
    return code.value(f"icmp ne i32 {code.value(f'load i32, ptr {info}')}, 0")


def or_nan(code: Code, dtype: DType, is_missing: str, value: Element) -> Element:
    """A value, or NaN in its place."""
    missing = complex(nan, nan) if dtype.is_complex else nan
    return either(code, dtype, is_missing, literal(missing, dtype), value)


def either(code: Code, dtype: DType, condition: str, x: Element, y: Element) -> Element:
    """One of two elements."""
    kind = llvm_type(dtype)
    if not dtype.is_complex:
        return code.value(f"select i1 {condition}, {kind} {x}, {kind} {y}")
    return tuple([
        code.value(f"select i1 {condition}, {kind} {a}, {kind} {b}")
        for a, b in zip(x, y, strict=True)
    ])  # fmt: skip


def of_columns(body: Body, memory: Memory, y: TensorSpec) -> Tensor:
    """Matrices from columns in memory, or as many of their rows and columns as the result has."""
    *batch, _, _ = y.shape

    def element(index: tuple[Index, ...]) -> Element:
        *outer, i, j = index
        offset = body.code.linear((body.code.linear(outer, batch), j, i), memory.spec.shape)
        return body.code.load(memory.pointer, offset, y.dtype)

    return Tensor(y, element, frozenset([memory]))


def unraveled(code: Code, number: Index, batch: Sequence[int]) -> tuple[Index, ...]:
    """The index of a matrix in its batch."""
    index: list[Index] = []
    for extent in reversed(batch):
        number, remainder = code.divided(number, extent)
        index.insert(0, remainder)
    return tuple(index)


def is_finite(code: Code, matrices: Memory, number: Index) -> str:
    """Whether all elements of a matrix are: zero times each is zero then, and NaN otherwise."""
    dtype = matrices.spec.dtype
    kind, zero = llvm_type(dtype.real), literal(0, dtype.real)
    matrix = part(code, matrices, number)
    size = prod(matrices.spec.shape[-2:]) * (2 if dtype.is_complex else 1)

    def term(index: tuple[Index, ...]) -> Element:
        return code.value(f"fmul {kind} {code.load(matrix, index[0], dtype.real)}, {zero}")

    total = Fold(code, None, dtype.real, el.add, 0).of([size], term)
    return code.value(f"fcmp oeq {kind} {total}, {zero}")


def spoil(code: Code, memories: Sequence[Memory], number: Index, count: int) -> None:
    """NaN in the results for one of so many matrices."""
    for memory in memories:
        dtype, size = memory.spec.dtype, memory.spec.size // count
        missing, start = or_nan(code, dtype, "true", literal(0, dtype)), code.scaled(number, size)

        def one(
            i: Index, memory: Memory = memory, missing: Element = missing, start: Index = start
        ) -> None:
            code.store(missing, memory.pointer, code.add(start, i), memory.spec.dtype)

        code.loop(size, one)
