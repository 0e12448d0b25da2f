"""Native execution of the linear algebra families, by LAPACK through NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tenferro.errors import DegenerateSpectrumError
from tenferro.ext.linalg import families as fam
from tenferro.ext.linalg.routines import (
    LARGE,
    blas_threads_for,
    columns,
    nan_like,
    nan_of,
    routine,
    with_told_workspace,
)
from tenferro.extension import ExtensionCaches, ExtensionRuntime, Routine

if TYPE_CHECKING:
    from tenferro.extension import Dense

__all__ = ["LinalgRuntime", "finite_or_nan"]

Array = np.ndarray[Any, Any]

WORK = 32
"""Number of columns in a block of LAPACK's QR. It determines the size of the workspace."""
ROWS = 32
"""Minimum number of right-hand sides for which trsm is faster if they are stored as rows."""


def each_matrix(function: Callable[..., tuple[Array, ...]], *arrays: Array) -> tuple[Array, ...]:
    """Apply `function` to each matrix of nonempty batches with equal batch shapes, and stack the results."""
    batch = arrays[0].shape[:-2]
    if not batch:
        return function(*arrays)
    parts = [function(*[x[index] for x in arrays]) for index in np.ndindex(*batch)]
    results = tuple([np.empty((*batch, *y.shape), y.dtype) for y in parts[0]])
    for index, ys in zip(np.ndindex(*batch), parts, strict=True):
        for result, y in zip(results, ys, strict=True):
            result[index] = y
    return results


def hermitian(rows: Dense, a: Array, order: Literal["C", "F"] = "C") -> Array:
    """(a + a^H) / 2, which equals a for a Hermitian matrix. Each matrix of the result has the memory order `order`."""
    if order == "F":
        # The transpose of a column-major mean is the row-major mean of the transpose.
        return np.swapaxes(hermitian(rows, np.swapaxes(a, -1, -2)), -1, -2)
    adjoint = np.swapaxes(a, -1, -2)
    adjoint = np.conjugate(adjoint) if np.iscomplexobj(a) else adjoint
    is_in_rows = a.strides[-1] <= a.strides[-2]
    mean: Array = rows(adjoint if is_in_rows else a)
    mean += a if is_in_rows else adjoint
    # Real and imaginary parts are halved separately, because a complex product with an infinity is NaN.
    parts = mean.view(mean.real.dtype)
    parts *= parts.dtype.type(0.5)
    return mean


def or_nan(function: Callable[[Array], tuple[Array, ...]], a: Array) -> tuple[Array, ...]:
    """Apply `function` to a batch. If it fails on a matrix, the results for that matrix are NaN."""
    try:
        return function(a)
    except np.linalg.LinAlgError:
        pass

    def one(matrix: Array) -> tuple[Array, ...]:
        try:
            return function(matrix)
        except np.linalg.LinAlgError:
            return nan_like(function(np.eye(*matrix.shape, dtype=matrix.dtype)))

    return each_matrix(one, a)


def is_large(a: Array) -> bool:
    """Return whether LAPACK is called directly for each matrix.

    For large matrices this saves two copies that NumPy makes.
    """
    return min(a.shape[-2:]) >= LARGE and a.size > 0


def is_large_in_double(a: Array) -> bool:
    """Return whether LAPACK is called directly for each matrix, which must be large and of double precision.

    For single precision NumPy is called, because it computes singular values and eigenvalues in double precision.
    """
    return is_large(a) and a.dtype.char in "dD"


def cholesky(op: fam.Cholesky, rows: Dense, a: Array) -> Array:
    """Compute Cholesky factors, with NaN in the triangle of a matrix that is not positive definite."""
    mean = hermitian(rows, a)
    if is_large(a):
        return each_matrix(_cholesky_of_large, mean)[0]
    (low,) = or_nan(lambda x: (np.linalg.cholesky(x),), mean)
    return np.tril(low) if np.isnan(low[..., :1, :1]).any() else low


def _cholesky_of_large(a: Array) -> tuple[Array]:
    """Compute the Cholesky factor by potrf, in place on a row-major matrix a.

    LAPACK reads a as the column-major matrix a^T = U^H U, so that L = U^T.
    """
    upper, info = routine("potrf", a)(a.T, lower=0, clean=1, overwrite_a=1)
    return (np.tril(np.full_like(a, nan_of(a))) if info > 0 else upper.T,)


def qr(op: fam.Qr, rows: Dense, a: Array) -> Any:
    """Compute the QR factorisation of each matrix by Householder reflections."""
    if is_large(a):
        return each_matrix(partial(_qr_of_large, op), columns(rows, a))
    if not op.vectors:
        rows = a.shape[-2] if op.full else min(a.shape[-2:])
        r: Any = np.linalg.qr(a, "r")
        below = [(0, 0)] * (a.ndim - 2) + [(0, rows - r.shape[-2]), (0, 0)]
        return np.pad(r, below) if rows > r.shape[-2] else r
    return tuple(np.linalg.qr(a, "complete" if op.full else "reduced"))


def _qr_of_large(op: fam.Qr, a: Array) -> tuple[Array, ...]:
    """Compute QR by geqrf and orgqr, in place on a column-major matrix.

    NumPy would copy the matrix twice to transpose it.
    """
    m, n = a.shape
    packed, factors, _, _ = routine("geqrf", a)(a, lwork=WORK * n, overwrite_a=1)
    k = m if op.full else min(m, n)
    r = np.tril(
        packed[:k].T
    ).T  # transposed, because the mask that NumPy's tril creates is row-major
    if not op.vectors:
        return (r,)
    if k > n:
        packed = np.concatenate([packed.T, np.zeros((k - n, m), a.dtype)]).T
    orgqr = routine("ungqr" if np.iscomplexobj(a) else "orgqr", a)
    q, _, _ = orgqr(packed[:, :k], factors, lwork=WORK * k, overwrite_a=1)
    return q, r


def finite_or_nan(function: Callable[[Array], tuple[Array, ...]], a: Array) -> tuple[Array, ...]:
    """Apply `function` to a batch. The results for a matrix are NaN if it is not finite, or if `function` fails on it.

    LAPACK may fail or never end on a matrix that is not finite, so zeros replace such a matrix.
    """
    broken: Array = ~np.asarray(np.isfinite(a).all(axis=(-2, -1)))
    if not broken.any():
        return or_nan(function, a)
    results = or_nan(function, np.where(broken[..., None, None], a.dtype.type(0), a))
    for result in results:
        result[broken] = nan_of(result)
    return results


def svd(op: fam.Svd, rows: Dense, a: Array) -> Any:
    """Compute the singular value decomposition by divide and conquer."""
    if is_large_in_double(a):
        of_each = partial(each_matrix, partial(_svd_of_large, op))
        return finite_or_nan(lambda x: of_each(columns(rows, x)), a)
    if not op.vectors:
        return finite_or_nan(lambda x: (np.linalg.svd(x, compute_uv=False),), a)
    return finite_or_nan(lambda x: tuple(np.linalg.svd(x, full_matrices=op.full)), a)


def _svd_of_large(op: fam.Svd, a: Array) -> tuple[Array, ...]:
    """Compute the singular value decomposition by gesdd, which overwrites the column-major matrix a.

    The results are NaN if gesdd fails.
    """
    options = {"compute_uv": op.vectors, "full_matrices": op.full}
    u, s, vh, info = with_told_workspace("gesdd", a, *a.shape, overwrite_a=True, **options)
    results = (u, s, vh) if op.vectors else (s,)
    return nan_like(results) if info else results


def eigh(op: fam.Eigh, rows: Dense, a: Array) -> Any:
    """Compute eigenvalues and eigenvectors of the Hermitian part of each matrix by divide and conquer."""
    if is_large_in_double(a):
        of_each = partial(each_matrix, partial(_eigh_of_large, op))
        return finite_or_nan(of_each, hermitian(rows, a, "F"))
    mean = hermitian(rows, a)
    if not op.vectors:
        return finite_or_nan(lambda x: (np.linalg.eigvalsh(x),), mean)
    return finite_or_nan(lambda x: tuple(np.linalg.eigh(x)), mean)


def _eigh_of_large(op: fam.Eigh, a: Array) -> tuple[Array, ...]:
    """Compute eigenvalues and eigenvectors by syevd or heevd, in place on a column-major matrix.

    The results are NaN if the routine fails.
    """
    name = "heevd" if np.iscomplexobj(a) else "syevd"
    options = {"compute_v": op.vectors, "lower": True}
    w, v, info = with_told_workspace(name, a, len(a), overwrite_a=True, **options)
    results = (w, v) if op.vectors else (w,)
    return nan_like(results) if info else results


def eig(op: fam.Eig, rows: Dense, a: Array) -> Any:
    """Compute eigenvalues and eigenvectors of general matrices, which are complex even if the matrices are real."""
    kind = np.complex64 if a.dtype in (np.float32, np.complex64) else np.complex128
    if not op.vectors:
        return finite_or_nan(lambda x: (np.linalg.eigvals(x).astype(kind),), a)
    return finite_or_nan(lambda x: tuple(y.astype(kind) for y in np.linalg.eig(x)), a)


def lu(op: fam.Lu, rows: Dense, a: Array) -> Any:
    """Compute LU by getrf, in place on a copy of each matrix. LAPACK's row swaps are converted to a permutation."""
    getrf, laswp = routine("getrf", a), routine("laswp", np.empty(0))

    def one(matrix: Array) -> tuple[Array, Array]:
        m = matrix.shape[0]
        if matrix.size == 0:
            return matrix, np.arange(m)
        packed, pivots, _ = getrf(matrix, overwrite_a=1)
        if max(packed.shape) < LARGE:
            packed = np.ascontiguousarray(packed)
        order = laswp(np.arange(m, dtype=np.float64)[:, None], pivots)
        return packed, order[:, 0].astype(np.int64)

    if a.shape[:-2] and 0 in a.shape[:-2]:
        return a, np.zeros(a.shape[:-1], np.int64)
    return each_matrix(one, columns(rows, a))


def lu_solve(op: fam.LuSolve, rows: Dense, a: Array, packed: Array, perm: Array, b: Array) -> Array:
    """Solve A X = B by two triangular solves with the factors of A[perm] = L U.

    A X = B is solved as L U X = B[perm], and A^T X = B as U^T L^T X[perm] = B.
    """
    if b.size == 0:
        return b
    low = fam.TriangularSolve(lower=True, unit_diagonal=True, transpose=op.transpose)
    up = fam.TriangularSolve(lower=False, transpose=op.transpose)

    def one(packed: Array, perm: Array, right: Array) -> tuple[Array]:
        if op.transpose == "N":
            middle = triangular_solve(low, rows, packed, right[perm])
            return (triangular_solve(up, rows, packed, middle),)
        middle = triangular_solve(up, rows, packed, right)
        solution = np.empty_like(middle)
        solution[perm] = triangular_solve(low, rows, packed, middle)
        return (solution,)

    return each_matrix(one, packed, perm, b)[0]


def triangular_solve(op: fam.TriangularSolve, rows: Dense, a: Array, b: Array) -> Array:
    """Solve by trsm. A zero on the diagonal leads to infinities, not to an error.

    trsm expects column-major matrices, so a row-major matrix is passed as its transpose. Many right-hand sides are
    passed as
    rows, because this is faster: op(A) X = B is solved as X^T op(A)^T = B^T.
    """
    from scipy.linalg import blas

    if b.size == 0 or a.size == 0:
        return b
    (trsm,) = blas.get_blas_funcs(("trsm",), (a, b))

    def one(matrix: Array, right: Array) -> tuple[Array]:
        # For small matrices the result is row-major, like the result of compiled code.
        in_rows = right.shape[1] >= ROWS or len(matrix) < LARGE
        right = right.T if in_rows else right
        is_own = not right.flags.f_contiguous
        right = columns(rows, right) if is_own else right
        # `turned` and `conjugate` tell whether the matrix that multiplies X is transposed, and whether it is
        # conjugated.
        turned, conjugate = (op.transpose != "N") != in_rows, op.transpose == "C"
        lower = op.lower
        if len(matrix) < LARGE:
            matrix = np.ascontiguousarray(matrix)
        if not matrix.flags.f_contiguous:
            matrix, turned, lower = matrix.T, not turned, not lower
        if conjugate and not turned:
            matrix = matrix.conj()
        trans = turned + (turned and conjugate)
        solution = trsm(
            1.0,
            matrix,
            right,
            side=in_rows,
            lower=lower,
            trans_a=trans,
            diag=op.unit_diagonal,
            overwrite_b=is_own,
        )
        return (solution.T if in_rows else solution,)

    return each_matrix(one, a, b)[0]


def solve(op: fam.Solve, rows: Dense, a: Array, b: Array) -> Array:
    """Solve by gesv. If a matrix is singular, its solution is infinite or NaN."""
    if op.transpose != "N":
        a = np.swapaxes(a, -1, -2)
        a = a.conj() if op.transpose == "C" else a
    if b.size == 0:
        return b
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        pass

    def one(matrix: Array, right: Array) -> tuple[Array]:
        try:
            return (np.linalg.solve(matrix, right),)
        except np.linalg.LinAlgError:
            return (np.full_like(right, nan_of(right)),)

    return each_matrix(one, a, b)[0]


def distinct(op: fam.Distinct, rows: Dense, values: Array) -> Array:
    """Return `values` after checking that no two of them are equal.

    Raises:
        DegenerateSpectrumError: two values differ by no more than the rounding error of the largest value.
    """
    ordered = np.sort(values, axis=-1)
    gap = np.abs(np.diff(ordered, axis=-1))
    largest = np.max(np.abs(values), axis=-1, keepdims=True, initial=0)
    near = gap <= fam.SAME * np.finfo(values.dtype).eps * largest
    if near.any():
        index = tuple(int(i) for i in np.argwhere(near)[0])
        value = ordered[index]
        raise DegenerateSpectrumError(
            f"{op.family_id}: two values coincide at {value:.17g}; the vectors have no derivative there: "
            'use degenerate="zero" for a function of the values or of projectors on whole subspaces'
        )
    return values


def always(_: Array) -> bool:
    """Return True: the family uses SciPy's LAPACK for every matrix."""
    return True


def never(_: Array) -> bool:
    """Return False: the family never uses SciPy's LAPACK."""
    return False


KERNELS: dict[type[Any], tuple[Callable[..., Any], Callable[[Array], bool]]] = {
    fam.Cholesky: (cholesky, is_large),
    fam.Qr: (qr, is_large),
    fam.Svd: (svd, is_large_in_double),
    fam.Eigh: (eigh, is_large_in_double),
    fam.Eig: (eig, never),
    fam.Lu: (lu, always),
    fam.TriangularSolve: (triangular_solve, always),
    fam.Solve: (solve, never),
    fam.LuSolve: (lu_solve, always),
    fam.Distinct: (distinct, never),
}
"""Kernel of each family, and a function of its first operand that returns whether it calls SciPy's LAPACK."""


ROUTINES: dict[type[Any], str] = {
    fam.Cholesky: "cholesky",
    fam.Lu: "lu",
    fam.TriangularSolve: "triangular_solve",
    fam.Solve: "solve",
    fam.LuSolve: "lu_solve",
    fam.Qr: "qr",
    fam.Eigh: "eigh",
    fam.Svd: "svd",
}
OPTIONS = ("transpose", "lower", "unit_diagonal", "full", "vectors")


class LinalgRuntime(ExtensionRuntime):
    """Runtime of one linear algebra family. It calls a kernel on NumPy arrays."""

    order = "K"

    def __init__(self, family_id: str) -> None:
        self.family_id = family_id

    def compiled_routine(self, op: Any) -> Routine | None:
        """Return the LAPACK routine that compiled code calls for the op; None if there is none."""
        name = ROUTINES.get(type(op))
        if name is None:
            return None
        options = {field: getattr(op, field) for field in OPTIONS if hasattr(op, field)}
        return Routine(name, **options, is_exact=True)

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """Return the outputs of the kernel for the op, which calls LAPACK."""
        kernel, is_by_scipy = KERNELS[type(op)]
        rows: Dense | None = getattr(caches.owner, "row_major", None)
        if rows is None:
            from tenferro.extension import Dense  # because it loads the executor

            rows = Dense("C")
        with blas_threads_for(inputs[0], is_by_scipy(inputs[0])):
            return kernel(op, rows, *inputs)
