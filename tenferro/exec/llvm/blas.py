"""Calls of BLAS and LAPACK from compiled code, to the functions that SciPy exports for Cython."""

from __future__ import annotations

from collections.abc import Sequence

from tenferro.exec.llvm import capsules
from tenferro.exec.llvm.code import Code, Index, literal, memory_type
from tenferro.exec.llvm.ir import Declaration
from tenferro.exec.llvm.tensor import Body, Memory, Tensor, transposed
from tenferro.types import DType, TensorSpec

__all__ = ["LETTERS", "PREFIX", "addresses", "call", "matrices", "number", "products"]

LETTERS = {DType.F32: "s", DType.F64: "d", DType.C32: "c", DType.C64: "z"}
"""Letters with which the names of BLAS routines begin, by dtype."""
MAX_SERIAL_WORK = 9000
"""Maximum number of multiplications of a call for which OpenBLAS always uses one thread.

Source: thresholds in OpenBLAS's interface functions (gemv: 9,216; gemm: 262,144; getrf, gesv and potrf: more).
"""
PREFIX = "tenferro_blas_"
"""Prefix of the routines' symbols in LLVM text."""
FUNCTIONS = {
    "cython_blas": {"sdcz": ("gemm", "gemv", "trsm")},
    "cython_lapack": {
        "sdcz": ("gesv", "getrf", "potrf", "geqrf", "gesdd"),
        "sd": ("orgqr", "syevd"),
        "cz": ("ungqr", "heevd"),
    },
}
"""Names of routines without the type letter, by the SciPy module that exports them and by their type letters."""


def addresses() -> dict[str, int]:
    """Return the addresses of the routines, by their symbols in LLVM text."""
    functions: dict[str, int] = {}
    for module, by_letters in FUNCTIONS.items():
        names = [
            letter + stem
            for letters, stems in by_letters.items()
            for letter in letters
            for stem in stems
        ]
        pointers = capsules.addresses(f"scipy.linalg.{module}", names)
        functions |= {PREFIX + name: address for name, address in zip(names, pointers, strict=True)}
    return functions


def products(
    body: Body,
    lhs: tuple[Memory, bool],
    rhs: tuple[Memory, bool],
    batches: int,
    extents: tuple[int, int, int],
    y: TensorSpec,
) -> Memory:
    """Write a BLAS call for each product of a batch; y is [batch, rows, columns].

    Args:
        lhs, rhs: see `matrices`.
        extents: rows, columns and terms.
    """
    (a, a_transposed), (b, b_transposed) = lhs, rhs
    rows, columns, terms = extents
    result, code, parts = body.result(y), body.code, 2 if y.dtype.is_complex else 1

    def multiply(number: Index) -> None:
        left, right, to = (
            code.address(memory.pointer, code.scaled(number, size * parts), y.dtype)
            for memory, size in ((a, rows * terms), (b, terms * columns), (result, rows * columns))
        )
        # BLAS is column-major, so it reads a row-major matrix as its transpose.
        if columns == 1:
            _gemv(code, y.dtype, left, rows, terms, a_transposed, right, to)
        elif rows == 1:
            _gemv(code, y.dtype, right, columns, terms, b_transposed, left, to)
        else:
            _gemm(code, y.dtype, (left, right, to), extents, (a_transposed, b_transposed))

    code.loop(batches, multiply)
    return result


def matrices(
    body: Body, x: Tensor, batch: Sequence[int], contracting: Sequence[int]
) -> tuple[Memory, bool]:
    """Return x as row-major matrices in memory, and whether they are transposed.

    Transposed matrices are [terms, rows], others are [rows, terms]. If x has neither order in memory, it is copied.
    """
    for is_transposed in (False, True):
        order = _order(x, batch, contracting, is_transposed)
        long = [axis for axis in order if x.spec.shape[axis] != 1]
        if long == sorted(long) and x.memory is not None:
            return x.memory, is_transposed
    order = _order(x, batch, contracting, is_transposed=False)
    return body.copy(transposed(body, x, order)), False


def _order(
    x: Tensor, batch: Sequence[int], contracting: Sequence[int], is_transposed: bool
) -> tuple[int, ...]:
    free = [axis for axis in range(x.spec.rank) if axis not in (*batch, *contracting)]
    return (*batch, *contracting, *free) if is_transposed else (*batch, *free, *contracting)


def _gemv(
    code: Code,
    dtype: DType,
    matrix: str,
    rows: int,
    terms: int,
    is_transposed: bool,
    x: str,
    y: str,
) -> None:
    """Write y = A x, where A is row-major as [rows, terms], or as [terms, rows] if it is transposed."""
    order, m, n = ("n", rows, terms) if is_transposed else ("t", terms, rows)
    one, zero = number(code, 1, dtype), number(code, 0, dtype)
    arguments = order, m, n, one, matrix, m, x, 1, zero, y, 1
    call(code, dtype, "gemv", arguments, m * n)


def _gemm(
    code: Code,
    dtype: DType,
    pointers: tuple[str, str, str],
    extents: tuple[int, int, int],
    are_transposed: tuple[bool, bool],
) -> None:
    """Write Y = A B for row-major matrices.

    A is [rows, terms], or [terms, rows] if it is transposed. B is [columns, terms], or [terms, columns] if it is
    transposed.
    """
    (left, right, to), (rows, columns, terms) = pointers, extents
    a_transposed, b_transposed = are_transposed
    b_order, b_rows = ("n", columns) if b_transposed else ("t", terms)
    a_order, a_rows = ("t", rows) if a_transposed else ("n", terms)
    extents, one, zero = (columns, rows, terms), number(code, 1, dtype), number(code, 0, dtype)
    arguments = b_order, a_order, *extents, one, right, b_rows, left, a_rows, zero, to, columns
    call(code, dtype, "gemm", arguments, rows * columns * terms)


def call(code: Code, dtype: DType, stem: str, arguments: Sequence[int | str], work: int) -> None:
    """Write a call of the routine `stem` for a dtype.

    Args:
        arguments: names of pointers, integers and option letters.
        work: the estimated number of instructions that the routine executes.
    """
    name = f"{LETTERS[dtype]}{stem}"
    code.work += code.frequency * work
    # OpenBLAS uses several threads for a triangular solve of as few as eight columns.
    is_shared = stem == "trsm"
    code.largest_call = max(code.largest_call, work, MAX_SERIAL_WORK + 1 if is_shared else 0)
    types = ("ptr",) * len(arguments)
    code.declared[PREFIX + name] = Declaration(PREFIX + name, "void", types)
    code.call_void(PREFIX + name, [_pointer(code, x) for x in arguments])


def _pointer(code: Code, x: int | str) -> str:
    """Return a pointer to an integer or an option letter; return the name of a pointer unchanged."""
    if isinstance(x, int):
        return code.constant("i32", str(x))
    return code.constant("i8", str(ord(x))) if len(x) == 1 else x


def number(code: Code, value: int, dtype: DType) -> str:
    """Return a pointer to a constant number of a dtype."""
    kind, parts = memory_type(dtype), literal(value, dtype)
    if not dtype.is_complex:
        return code.constant(kind, parts)
    return code.constant(f"[2 x {kind}]", f"[{', '.join([f'{kind} {part}' for part in parts])}]")
