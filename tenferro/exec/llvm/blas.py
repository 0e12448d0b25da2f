"""BLAS and LAPACK in compiled code: SciPy's functions, which every extension module may call."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tenferro.exec.llvm import capsules
from tenferro.exec.llvm.code import Code, Index, literal, memory_type
from tenferro.exec.llvm.tensor import Body, Memory, Tensor, with_axes
from tenferro.types import DType, TensorSpec

__all__ = ["LETTERS", "PREFIX", "addresses", "call", "integer", "letter", "number", "product"]

LETTERS = {DType.F32: "s", DType.F64: "d", DType.C32: "c", DType.C64: "z"}
"""Of BLAS's names, for the dtypes that it has."""
PREFIX = "tenferro_blas_"
FUNCTIONS = {
    "cython_blas": {"sdcz": ("gemm", "gemv", "trsm")},
    "cython_lapack": {
        "sdcz": ("gesv", "getrf", "potrf", "geqrf", "gesdd"),
        "sd": ("orgqr", "syevd"),
        "cz": ("ungqr", "heevd"),
    },
}
"""By the modules that have them, and the letters of the dtypes for which there is one."""
FEW_TERMS = 64
"""Terms up to which OpenBLAS takes up to twice as long where both matrices have them in their rows."""
FEW_ROWS = 16
"""Rows of the first matrix from which turning the second one is little beside the product."""


def addresses() -> dict[str, int]:
    """Functions by the names that texts have for them."""
    functions: dict[str, int] = {}
    for module, of_letters in FUNCTIONS.items():
        names = [
            letter + stem
            for letters, stems in of_letters.items()
            for letter in letters
            for stem in stems
        ]
        places = capsules.addresses(f"scipy.linalg.{module}", names)
        functions |= {PREFIX + name: address for name, address in zip(names, places, strict=True)}
    return functions


def product(body: Body, op: Any, lhs: Tensor, rhs: Tensor, y: TensorSpec) -> Memory:
    """y [batch, rows, columns] of a DotGeneral, matrix by matrix."""
    a, a_moved = _matrices(body, lhs, op.lhs_batch, op.lhs_contracting)
    b, b_moved = _matrices(body, rhs, op.rhs_batch, op.rhs_contracting)
    batches = prod([lhs.spec.shape[axis] for axis in op.lhs_batch])
    terms = prod([lhs.spec.shape[axis] for axis in op.lhs_contracting])
    rows = lhs.spec.size // (batches * terms)
    columns = rhs.spec.size // (batches * terms)
    if columns > 1 and rows >= FEW_ROWS and terms <= FEW_TERMS and not (a_moved or b_moved):
        b, b_moved = _copied(body, rhs, op.rhs_batch, op.rhs_contracting, is_moved=True), True
    result, code, parts = body.result(y), body.code, 2 if y.dtype.is_complex else 1

    def one(number: Index) -> None:
        left, right, to = (
            code.address(memory.pointer, code.scaled(number, size * parts), y.dtype)
            for memory, size in ((a, rows * terms), (b, terms * columns), (result, rows * columns))
        )
        # What BLAS calls a matrix lies in memory column after column: each of ours is its transpose.
        if columns == 1:
            _matrix_by_vector(code, y.dtype, left, rows, terms, a_moved, right, to)
        elif rows == 1:
            _matrix_by_vector(code, y.dtype, right, columns, terms, b_moved, left, to)
        else:
            _matrix_by_matrix(
                code, y.dtype, (left, right, to), (rows, columns, terms), (a_moved, b_moved)
            )

    code.loop(batches, one)
    return result


def _matrices(
    body: Body, x: Tensor, batch: Sequence[int], contracting: Sequence[int]
) -> tuple[Memory, bool]:
    """x as matrices in memory, and whether the axes that are summed come before the others."""
    free = [axis for axis in range(x.spec.rank) if axis not in (*batch, *contracting)]
    for is_moved, order in (
        (False, (*batch, *free, *contracting)),
        (True, (*batch, *contracting, *free)),
    ):
        long = [axis for axis in order if x.spec.shape[axis] != 1]
        if long == sorted(long) and x.memory is not None:
            return x.memory, is_moved
    return _copied(body, x, batch, contracting, is_moved=False), False


def _copied(
    body: Body, x: Tensor, batch: Sequence[int], contracting: Sequence[int], is_moved: bool
) -> Memory:
    """x as matrices in memory of their own."""
    free = [axis for axis in range(x.spec.rank) if axis not in (*batch, *contracting)]
    order = (*batch, *contracting, *free) if is_moved else (*batch, *free, *contracting)
    return body.copy(with_axes(body, x, order))


def _matrix_by_vector(
    code: Code, dtype: DType, matrix: str, rows: int, terms: int, is_moved: bool, x: str, y: str
) -> None:
    """y [rows] of a matrix [rows, terms], or [terms, rows] if it is moved."""
    order, m, n = ("n", rows, terms) if is_moved else ("t", terms, rows)
    one, zero, stride = number(code, 1, dtype), number(code, 0, dtype), integer(code, 1)
    arguments = [
        letter(code, order), integer(code, m), integer(code, n), one, matrix, integer(code, m),
        x, stride, zero, y, stride,
    ]  # fmt: skip
    call(code, f"{LETTERS[dtype]}gemv", arguments, m * n)


def _matrix_by_matrix(
    code: Code,
    dtype: DType,
    pointers: tuple[str, str, str],
    extents: tuple[int, int, int],
    are_moved: tuple[bool, bool],
) -> None:
    """The product [rows, columns] of [rows, terms] and [terms, columns]; the first is moved as [terms,
    rows], the second is not moved as [columns, terms].
    """
    (left, right, to), (rows, columns, terms) = pointers, extents
    a_moved, b_moved = are_moved
    arguments = [
        letter(code, "n" if b_moved else "t"), letter(code, "t" if a_moved else "n"),
        integer(code, columns), integer(code, rows), integer(code, terms),
        number(code, 1, dtype), right, integer(code, columns if b_moved else terms),
        left, integer(code, rows if a_moved else terms),
        number(code, 0, dtype), to, integer(code, columns),
    ]  # fmt: skip
    call(code, f"{LETTERS[dtype]}gemm", arguments, rows * columns * terms)


def call(code: Code, name: str, arguments: Sequence[str], work: int) -> None:
    """A function, with pointers to its arguments; `work` is about the number of its instructions."""
    code.work += code.often * work
    code.largest_call = max(code.largest_call, work)
    code.calls_out()
    types = ", ".join(["ptr"] * len(arguments))
    code.declared[PREFIX + name] = f"declare void @{PREFIX}{name}({types})"
    code.line(f"call void @{PREFIX}{name}({', '.join([f'ptr {each}' for each in arguments])})")


def letter(code: Code, value: str) -> str:
    """Where a letter lies, by which an option is chosen."""
    return code.constant("i8", str(ord(value)))


def integer(code: Code, value: int) -> str:
    """Where an integer lies."""
    return code.constant("i32", str(value))


def number(code: Code, value: int, dtype: DType) -> str:
    """Where a number of a dtype lies."""
    kind, parts = memory_type(dtype), literal(value, dtype)
    if not dtype.is_complex:
        return code.constant(kind, parts)
    return code.constant(f"[2 x {kind}]", f"[{', '.join([f'{kind} {part}' for part in parts])}]")
