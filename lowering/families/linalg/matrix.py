"""Functions that emit parts of matrix algorithms: corners, triangles, adjoints, permuted rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lowering.operations import Enum, Integers, Struct
from lowering.writer import Value, Writer
from tenferro.errors import UnsupportedError
from tenferro.types import DType, TensorSpec

__all__ = [
    "COMPLEX",
    "REAL",
    "adjoint",
    "cut",
    "hermitian",
    "is_finite",
    "or_nan",
    "parts",
    "permuted",
    "qr_by",
    "solve_by",
    "solved",
    "spec",
    "triangle",
    "triangular",
    "widened",
    "without_complex128_on_tpu",
]

REAL = {DType.C32: DType.F32, DType.C64: DType.F64}
COMPLEX = {DType.F32: DType.C32, DType.F64: DType.C64}


def spec(dtype: DType, *shape: int) -> TensorSpec:
    """Return the type of a tensor with this dtype and shape."""
    return TensorSpec.of(tuple(shape), dtype)


def parts(a: Value) -> tuple[tuple[int, ...], int, int]:
    """Return the batch shape, the number of rows and the number of columns of a stack of matrices."""
    return a.shape[:-2], a.shape[-2], a.shape[-1]


def cut(w: Writer, x: Value, rows: int, columns: int) -> Value:
    """Emit the first `rows` rows and `columns` columns of each matrix; return x itself if it has this size."""
    batch, m, n = parts(x)
    if (m, n) == (rows, columns):
        return x
    limits = (*batch, rows, columns)
    return w.slice(x, (0,) * x.rank, limits, (1,) * x.rank, spec(x.dtype, *limits))


def triangle(w: Writer, x: Value, lower: bool) -> Value:
    """Emit x with zeros above the diagonal of each matrix if `lower`, else with zeros below it."""
    rank = x.rank
    rows, columns = w.iota(x.shape, rank - 2), w.iota(x.shape, rank - 1)
    keep = w.compare("GE" if lower else "LE", rows, columns)
    return w.select(keep, x, w.full(0, x.spec))


def unit(w: Writer, like: TensorSpec) -> Value:
    """Emit an array of the type `like` with ones on the diagonal of each matrix, and zeros elsewhere."""
    rows, columns = (w.iota(like.shape, axis) for axis in (like.rank - 2, like.rank - 1))
    return w.select(w.compare("EQ", rows, columns), w.full(1, like), w.full(0, like))


def or_nan(w: Writer, info: Value, x: Value) -> Value:
    """Emit x, with NaN for each matrix of the batch whose `info`, the error code of a LAPACK routine, is not 0."""
    fine = w.compare("EQ", info, w.full(0, info.spec))
    fine = w.broadcast(fine, x.shape, tuple(range(info.rank)))
    return w.select(fine, x, w.full(np.nan, x.spec))


def is_finite(w: Writer, a: Value) -> Value:
    """Emit a bool for each matrix that says whether all elements are finite."""
    components = [w.op(name, a) for name in ("real", "imag")] if a.dtype.is_complex else [a]
    answers = [w.op("is_finite", x) for x in components]
    finite = w.op("and", *answers) if a.dtype.is_complex else answers[0]
    return w.reduce("and", finite, w.scalar(True, DType.Bool), (a.rank - 2, a.rank - 1))


def hermitian(w: Writer, a: Value) -> Value:
    """Emit (a + a^H) / 2, which equals a exactly if a is Hermitian."""
    total = w.op("add", a, adjoint(w, a))
    return w.op("multiply", total, w.full(0.5, a.spec))


def adjoint(w: Writer, a: Value) -> Value:
    """Emit a^H, the conjugate transpose of each matrix."""
    rank = a.rank
    a = w.transpose(a, (*range(rank - 2), rank - 1, rank - 2))
    return conjugate(w, a) if a.dtype.is_complex else a


def widened(w: Writer, x: Value, columns: int) -> Value:
    """Pad each matrix on the right with columns of zeros, up to the number `columns`."""
    batch, m, n = parts(x)
    edges = [0] * len(batch)
    return w.op(
        "pad",
        x,
        w.scalar(0, x.dtype),
        result=spec(x.dtype, *batch, m, columns),
        low=[*edges, 0, 0],
        high=[*edges, 0, columns - n],
        interior=[*edges, 0, 0],
    )


def conjugate(w: Writer, x: Value) -> Value:
    """Emit the complex conjugate."""
    re, im = w.op("real", x), w.op("imag", x)
    return w.op("complex", re, w.op("negate", im))


BATCHING = ("operand_batching_dims", "start_indices_batching_dims")


def permuted(w: Writer, perm: Value, b: Value) -> Value:
    """Gather the rows of each matrix of b in the order of `perm`."""
    *batch, _, columns = b.shape
    rank = len(batch)
    numbers = {
        "offset_dims": [rank + 1],
        "collapsed_slice_dims": [rank],
        **dict.fromkeys(BATCHING if rank else (), range(rank)),
        "start_index_map": [rank],
        "index_vector_dim": rank + 1,
    }
    ones = [
        0 if extent == 0 else 1 for extent in b.shape[:-1]
    ]  # because an empty axis has no slice of extent 1
    return w.op(
        "gather",
        b,
        perm,
        result=b.spec,
        dimension_numbers=Struct("gather", numbers),
        indices_are_sorted=False,
        slice_sizes=Integers([*ones, columns]),
    )


TRANSPOSE = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}


def triangular(
    w: Writer, a: Value, b: Value, lower: bool, unit_diagonal: bool, transpose: str = "N"
) -> Value:
    """Emit `stablehlo.triangular_solve`: solve a x = b for x, where a is triangular; `transpose` is "N", "T" or "C"."""
    return w.op(
        "triangular_solve",
        a,
        b,
        result=b.spec,
        left_side=True,
        lower=lower,
        transpose_a=Enum("transpose", TRANSPOSE[transpose]),
        unit_diagonal=unit_diagonal,
    )


def qr_by(reflectors: Callable[..., Any], product: Callable[..., Value]) -> Callable[..., Any]:
    """Return a lowering of QR that calls the given routines.

    Args:
        reflectors: computes R and the Householder reflectors, packed as by geqrf, and their factors tau.
        product: computes Q from packed reflectors, which are padded with zeros to as many columns as Q has.
    """

    def qr(op: Any, w: Writer, a: Value) -> tuple[Value, ...]:
        batch, m, n = parts(a)
        k = min(m, n)
        width = m if op.full else k
        packed, tau = reflectors(w, a, spec(a.dtype, *batch, k))
        r = triangle(w, cut(w, packed, width, n), lower=False)
        if not op.vectors:
            return (r,)
        leading = cut(w, packed, m, min(n, width))
        return product(w, widened(w, leading, width) if width > n else leading, tau), r

    return qr


def solve_by(factorise: Any) -> Any:
    """Return a lowering of `solve` that factorises by `factorise`, permutes rows, and solves two triangular systems."""

    def solve(op: Any, w: Writer, a: Value, b: Value) -> Value:
        if op.transpose == "C":
            a = adjoint(w, a)
        elif op.transpose == "T":
            a = w.transpose(a, (*range(a.rank - 2), a.rank - 1, a.rank - 2))
        packed, perm = factorise(op, w, a)
        return solved(w, packed, perm, b)

    return solve


def solved(w: Writer, packed: Value, perm: Value, b: Value) -> Value:
    """Emit U^-1 L^-1 B[perm], where `packed` contains L and U."""
    right = triangular(w, packed, permuted(w, perm, b), lower=True, unit_diagonal=True)
    return triangular(w, packed, right, lower=False, unit_diagonal=False)


def without_complex128_on_tpu(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return a lowering that raises an error for complex128 on TPU, because the TPU compiler aborts on complex128."""

    def checked(op: Any, w: Writer, a: Value, *more: Value) -> Any:
        if w.platform == "tpu" and a.dtype is DType.C64:
            raise UnsupportedError(
                f"{type(op).__name__}: {a.spec} on tpu: its compiler has no complex128 linear algebra; "
                "use complex64, or run it on cpu or cuda"
            )
        return rule(op, w, a, *more)

    return checked
