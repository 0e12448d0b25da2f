"""Calls of BLAS and LAPACK in compiled code must have the right routines, options and estimated work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.dispatch import apply_one
from tenferro.exec.llvm import blas, contraction, fourier
from tenferro.exec.llvm.link import is_installed
from tenferro.exec.llvm.routines import row_of
from tenferro.exec.llvm.tensor import Body
from tenferro.ext.lapack import families as raw
from tenferro.ext.linalg import families as fam
from tenferro.extension import Routine, apply
from tenferro.ops.contraction import DotGeneral
from tenferro.types import DType, TensorSpec

pytestmark = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
Call = tuple[str, tuple[str | int, ...], int]
"""Call of a routine: its name, its options and integer arguments, and its estimated number of multiplications."""


@pytest.fixture
def calls_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Call]]:
    """Return a function that compiles a loop over a function of arrays, and returns its calls of routines."""
    written: list[Call] = []
    call = blas.call

    def recorded(code: Any, dtype: DType, stem: str, arguments: Any, work: int) -> None:
        call(code, dtype, stem, arguments, work)
        (name,) = [
            each for each in code.declared if each == f"{blas.PREFIX}{blas.LETTERS[dtype]}{stem}"
        ]
        values = tuple([x for x in arguments if isinstance(x, int) or len(x) == 1])
        for x in values:
            kind, number = ("i32", x) if isinstance(x, int) else ("i8", ord(x))
            assert [
                each
                for each in code.globals
                if each.endswith(f" = private constant {kind} {number}")
            ]
        written.append((name.removeprefix(blas.PREFIX), values, work))

    def calls(function: Callable[..., Any], *arrays: Any) -> list[Call]:
        def iteration(number: Any, _: Any, xs: Any) -> Any:
            # The addition of the counter creates new operands, which are row-major.
            return number + 1, function(*[x + number.astype(x.dtype.value) for x in xs])

        program = tnf.compile(
            lambda *xs: tnf.scan(lambda n, t: iteration(n, t, xs), np.float32(0), None, length=2)[
                1
            ],
            *arrays,
        )
        written.clear()
        text = tnf.GraphExecutor("K", compiled=True).source(program, "llvm")
        assert "define i64 @f(" in text
        return written[:]

    monkeypatch.setattr(blas, "call", recorded)
    return calls


def ones(*shape: int, dtype: Any = np.float64) -> Any:
    return np.ones(shape, dtype)


@pytest.mark.parametrize(
    ("lhs", "rhs", "transposed", "expected"),
    [
        # Up to 4096 multiplications, or 16384 if there are few rows or columns, the product is written as loops.
        ((16, 16), (16, 16), False, None),
        ((16, 17), (17, 16), False, ("dgemm", ("n", "n", 16, 16, 17, 16, 17, 16), 16 * 17 * 16)),
        ((5, 32), (32, 26), False, ("dgemm", ("n", "n", 26, 5, 32, 26, 32, 26), 5 * 32 * 26)),
        ((4, 64), (64, 64), False, None),
        ((64, 64), (64, 4), False, None),
        ((4, 64), (64, 65), False, ("dgemm", ("n", "n", 65, 4, 64, 65, 64, 65), 4 * 64 * 65)),
        ((65, 64), (64, 4), False, ("dgemm", ("n", "n", 4, 65, 64, 4, 64, 4), 4 * 64 * 65)),
        # A product with one term per sum must not call BLAS.
        ((130, 1), (1, 130), False, None),
        # Products of a matrix and a vector must call gemv.
        ((1, 129), (129, 128), False, ("dgemv", ("n", 128, 129, 128, 1, 1), 129 * 128)),
        ((129, 128), (128, 1), False, ("dgemv", ("t", 128, 129, 128, 1, 1), 129 * 128)),
        ((16, 64), (20, 64), True, ("dgemm", ("t", "n", 20, 16, 64, 64, 64, 20), 16 * 64 * 20)),
        ((15, 64), (20, 64), True, ("dgemm", ("t", "n", 20, 15, 64, 64, 64, 20), 15 * 64 * 20)),
        ((16, 65), (20, 65), True, ("dgemm", ("t", "n", 20, 16, 65, 65, 65, 20), 16 * 65 * 20)),
        ((300, 60), (1, 60), True, ("dgemv", ("t", 60, 300, 60, 1, 1), 300 * 60)),
    ],
)  # fmt: skip
def test_products(
    calls_of: Any,
    lhs: tuple[int, int],
    rhs: tuple[int, int],
    transposed: bool,
    expected: Call | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    op = DotGeneral((1,), (int(transposed),), (), ())
    # For matrices that fit in the cache, tiles in registers would replace the call.
    monkeypatch.setattr(contraction, "MAX_MATRIX_BYTES", (0, 0))
    calls = calls_of(lambda x, y: apply_one(op, x, y), ones(*lhs), ones(*rhs))
    assert calls == ([] if expected is None else [expected])


def test_complex_products_of_any_size() -> None:
    def program(x: Any, y: Any) -> Any:
        return tnf.scan(lambda c, t: (c, t[0] @ t[1]), 0.0, (x, y))[1]

    executor = tnf.GraphExecutor("K", compiled=True)
    for rows, is_called in ((2, True), (0, False)):
        x, y = ones(3, rows, 2, dtype=np.complex64), ones(3, 2, 2, dtype=np.complex64)
        text = executor.source(tnf.compile(program, x, y), "llvm")
        assert ("@tenferro_blas_cgemm(" in text) == is_called


@pytest.mark.parametrize(
    ("op", "shapes", "expected"),
    [
        (fam.Solve(), [(5, 5), (5, 3)], [("gesv", (5, 3, 5, 5), 5 * 5 * (5 + 3))]),
        (fam.Lu(), [(6, 4)], [("getrf", (6, 4, 6), 6 * 4 * 4)]),
        (raw.Getrf(), [(4, 6)], [("getrf", (4, 6, 4), 4 * 6 * 6)]),
        (fam.Cholesky(), [(5, 5)], [("potrf", ("U", 5, 5), 5**3)]),
        (raw.Geqrf(), [(6, 4)], [("geqrf", (6, 4, 6, 32 * 4), 2 * 6 * 4 * 4)]),
        (
            fam.Qr(full=True),
            [(6, 4)],
            [
                ("geqrf", (6, 4, 6, 32 * 4), 2 * 6 * 4 * 4),
                ("orgqr", (6, 6, 4, 6, 32 * 6), 4 * 6 * 6 * 4),
            ],
        ),
        # LAPACK requires a workspace of 1 + 6 n + 2 n^2 numbers and 3 + 5 n integers; here n is 5.
        (fam.Eigh(), [(5, 5)], [("syevd", ("V", "L", 5, 5, 81, 28), 10 * 5**3)]),
        (fam.Eigh(vectors=False), [(5, 5)], [("syevd", ("N", "L", 5, 5, 81, 28), 10 * 5**3)]),
        # The workspace of gesdd must have 4 k^2 + 8 k + l numbers for extents k <= l.
        (fam.Svd(), [(6, 4)], [("gesdd", ("S", 6, 4, 6, 6, 4, 102), 20 * 4 * 4 * 6)]),
        (fam.Svd(full=True), [(4, 6)], [("gesdd", ("A", 4, 6, 4, 4, 6, 102), 20 * 4 * 4 * 6)]),
        (fam.Svd(vectors=False), [(6, 4)], [("gesdd", ("N", 6, 4, 6, 6, 4, 102), 20 * 4 * 4 * 6)]),
    ],
    ids=str,
)  # fmt: skip
def test_routines(calls_of: Any, op: Any, shapes: Any, expected: list[Call]) -> None:
    arrays = [ones(*shape) for shape in shapes]
    calls = calls_of(lambda *xs: apply(op, *xs), *arrays)
    assert calls == [(f"d{name}", values, work) for name, values, work in expected]


def test_solutions_by_triangles(calls_of: Any) -> None:
    def solved(a: Any, b: Any) -> Any:
        return apply(fam.TriangularSolve(transpose="T", lower=True, unit_diagonal=True), a, b)

    expected = ("strsm", ("R", "U", "T", "U", 3, 5, 5, 3), 5 * 5 * 3)
    assert calls_of(solved, ones(5, 5, dtype=np.float32), ones(5, 3, dtype=np.float32)) == [
        expected
    ]


def test_complex_routines_have_real_memory_too(calls_of: Any) -> None:
    x = ones(5, 5, dtype=np.complex128)
    # A complex matrix needs additional workspace of 1 + 5 n + 2 n^2 real numbers; here n is 5.
    assert calls_of(lambda x: apply(fam.Eigh(), x), x) == [
        ("zheevd", ("V", "L", 5, 5, 81, 76, 28), 10 * 5**3)
    ]


@pytest.mark.parametrize(("shape", "size"), [((6, 4), 100), ((4, 6), 100), ((40, 4), 356)])
def test_singular_values_of_complex_matrices_have_memory_of_other_dtypes(
    calls_of: Any, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], size: int
) -> None:
    """For extents k <= l, LAPACK requires max(5 k^2 + 5 k, 2 k l + 2 k^2 + k) more floats, and 8 k integers."""
    sizes: list[tuple[int, ...]] = []
    memory = Body.memory

    def recorded(body: Body, spec: TensorSpec) -> Any:
        if spec.dtype in (DType.F64, DType.I32) and spec.rank == 1:
            sizes.append(spec.shape)
        return memory(body, spec)

    monkeypatch.setattr(Body, "memory", recorded)
    (call,) = calls_of(lambda x: apply(fam.Svd(), x), ones(*shape, dtype=np.complex128))
    assert call[0] == "zgesdd"
    assert sizes == [(4,), (size,), (8 * 4,)]


@pytest.mark.parametrize(
    ("routine", "shapes", "is_compiled"),
    [
        (Routine("solve"), [(64, 64), (64, 64)], True),
        (Routine("solve"), [(64, 64), (64, 65)], False),
        (Routine("lu"), [(9, 65, 3)], False),
        (Routine("lu"), [(65, 3, 3)], True),
        (Routine("fft", lengths=(1024,)), [(1024,)], True),
        (Routine("fft", lengths=(1025,)), [(1025,)], False),
        (Routine("fft", lengths=(None,)), [(67,)], False),
        (Routine("fft", lengths=(1,)), [(1,)], True),
    ],
    ids=str,
)
def test_extents_that_are_compiled(
    routine: Routine, shapes: list[tuple[int, ...]], is_compiled: bool
) -> None:
    specs = [TensorSpec.of(shape, DType.C64) for shape in shapes]
    assert (row_of(routine, specs) is not None) == is_compiled


@pytest.mark.parametrize(("n", "pair"), [(1, (1, 1)), (7, (1, 7)), (12, (3, 4)), (360, (18, 20))])
def test_extents_of_transforms(n: int, pair: tuple[int, int]) -> None:
    assert fourier.factors(n) == pair
