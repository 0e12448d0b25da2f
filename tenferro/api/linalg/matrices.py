"""Linear algebra of the Array API and of NumPy: factorisations, linear systems, norms and functions of matrices.

Source: Array API standard 2024.12, extension "linalg"; `numpy.linalg`.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tenferro.api import linear, manipulation, products
from tenferro.api.arguments import refuse
from tenferro.api.axes import normalize_axes
from tenferro.api.contraction import einsum
from tenferro.api.control import scan
from tenferro.api.creation import ones, shape_of, tril, triu
from tenferro.api.custom import custom_jvp
from tenferro.api.determinant import adjoint, determinant, sign_of_pivots
from tenferro.api.elementwise import (
    abs,
    add,
    conj,
    divide,
    equal,
    greater,
    isnan,
    less,
    log,
    logical_and,
    logical_not,
    maximum,
    multiply,
    not_equal,
    pow,
    real,
    sign,
    subtract,
    where,
)
from tenferro.api.indexing import take_along_axis
from tenferro.api.linear import matmul, tensordot, vecdot
from tenferro.api.manipulation import (
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    reshape,
    squeeze,
    stack,
)
from tenferro.api.promotion import as_inexact, broadcast_shapes, broadcast_to, convert, result_type
from tenferro.api.qr_append import with_columns, with_rows
from tenferro.api.reductions import any, max, min, prod, root, sum
from tenferro.api.searching import argsort, sort
from tenferro.api.tensor import TracedTensor
from tenferro.api.truncation import dynamic_truncate
from tenferro.dims import dim_max, dim_min, is_exact, is_static, product
from tenferro.dispatch import apply_one, as_operand, elements, is_traced, spec_of, stop_gradient
from tenferro.errors import InvalidConfigError, NonStaticShapeError, ShapeError
from tenferro.ext.lapack.families import Geqp3, Geqrf, PivotsToPermutation
from tenferro.ext.linalg import families as fam
from tenferro.extension import ExtensionOp, apply
from tenferro.ops.source import Iota
from tenferro.types import ArrayLike, Axis, DType, DTypeLike, Tensor

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "qr_append",
    "rank_revealing_qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "truncated_svd",
    "vecdot",
    "vector_norm",
]

FACTORED = 128
"""Smallest order of matrices for which a separate LU op computes factors, which solutions and derivatives share."""


class QRResult(NamedTuple):
    """The factors Q and R of a = Q R."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """The factors U, S and V^H of a = U diag(S) V^H."""

    U: Any
    S: Any
    Vh: Any


class TruncatedSVDResult(NamedTuple):
    """The columns of U and rows of V^H of the retained singular values S, and the number of these values."""

    U: Any
    S: Any
    Vh: Any
    rank: Any


class RankRevealingQRResult(NamedTuple):
    """The factors Q and R of a[:, perm] = Q R, the order `perm` of columns, and the rank."""

    Q: Any
    R: Any
    perm: Any
    rank: Any


class EighResult(NamedTuple):
    """Eigenvalues and eigenvectors of a Hermitian matrix."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """Complex eigenvalues and eigenvectors."""

    eigenvalues: Any
    eigenvectors: Any


class SlogdetResult(NamedTuple):
    """Sign of a determinant (its phase if complex), and the logarithm of its magnitude."""

    sign: Any
    logabsdet: Any


class LstsqResult(NamedTuple):
    """Solution x of a least-squares problem, sums of squared residuals, and the rank and singular values of a."""

    x: Any
    residuals: Any
    rank: Any
    s: Any


def _require_matrix(name: str, x: ArrayLike) -> None:
    if spec_of(x).rank < 2:
        raise ShapeError(f"{name}: needs a matrix, got {spec_of(x)}")


def matrix(name: str, x: ArrayLike) -> Any:
    x = as_operand(x)
    _require_matrix(name, x)
    return as_inexact(x)


def _output(op: ExtensionOp, index: int, x: Any) -> Any:
    """Return one output of an op.

    On arrays, the other outputs are not computed. In a trace, the op has all its outputs, because its derivative needs
    them.
    """
    used = [i == index for i in range(op.output_count)]
    alone = op.prune_outputs(used) if isinstance(x, np.ndarray) else None
    return apply(op, x)[index] if alone is None else apply(alone, x)


def square(name: str, x: Any) -> Any:
    x = matrix(name, x)
    _require_square(name, x)
    return x


def _require_square(name: str, x: Tensor) -> None:
    _require_matrix(name, x)
    rows, columns = x.shape[-2:]
    if isinstance(rows, int) and isinstance(columns, int) and rows != columns:
        raise ShapeError(f"{name}: needs square matrices, got {spec_of(x)}")


def _identity(like: Any, rows: Any = None, columns: Any = None) -> Any:
    """Return identity matrices with the batch axes, the dtype and, by default, the number of rows of `like`."""
    m = like.shape[-1] if rows is None else rows
    n = m if columns is None else columns
    if is_static(m) and is_static(n):
        eye: Any = np.eye(m, n, dtype=spec_of(like).dtype.dtype)
    else:
        row, column = (apply_one(Iota((m, n), axis, DType.I64), like=like) for axis in (0, 1))
        eye = convert(equal(row, column), spec_of(like).dtype)
    return broadcast_to(eye, (*like.shape[:-2], m, n))


def _scaled_columns(x: Tensor, s: Tensor) -> Any:
    return multiply(x, expand_dims(s, axis=-2))


# ---- factorisations ------------------------------------------------------------------------------


def cholesky(
    a: ArrayLike, /, *, upper: bool = False, lower: bool | None = None, overwrite_a: bool = False, check_finite: bool = True
) -> Any:  # fmt: skip
    """Return the Cholesky factor L with a = L L^H, or U with a = U^H U. It is NaN where a is not positive definite.

    The Hermitian part (a + a^H) / 2 is factorised, unless `lower` selects a triangle.

    Args:
        upper: whether to return U instead of L.
        lower: SciPy's argument: True reads the lower triangle and returns L, False reads the upper triangle and
            returns U.
        overwrite_a, check_finite: no effect.

    Raises:
        ShapeError: a is not square. DTypeError: linear algebra does not support the dtype, such as float16.
        InvalidConfigError: both `upper` and `lower` are passed.

    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[2., 0.],
           [1., 2.]])
    """
    if lower is not None:
        if upper:
            raise InvalidConfigError("cholesky: lower and upper name one option; give one of them")
        a, upper = hermitian_of(square("cholesky", a), "L" if lower else "U"), not lower
    low = apply(fam.Cholesky(), square("cholesky", a))
    return adjoint(low) if upper else low


QR_MODES = {"reduced": False, "economic": False, "r": False, "complete": True, "full": True}
"""Maps each mode of `qr`, by its NumPy or SciPy name, to whether Q is square."""


def qr(
    a: ArrayLike, mode: str = "reduced", *, pivoting: bool = False, overwrite_a: bool = False, lwork: int | None = None,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    """Return Q and R with a = Q R.

    Args:
        mode: "reduced" or "economic" for min(m, n) columns of Q, "complete" or "full" for a square Q, "r" to return
            only R. "raw" returns NumPy's pair h and tau: the transpose of the array in which LAPACK's geqrf returns R
            and the Householder vectors, and the factors of these vectors.
        pivoting: whether to return p, too, with a[:, p] = Q R and descending magnitudes on the diagonal of R. Through
            XLA, pivoting is supported only on the CPU.
        overwrite_a, lwork, check_finite: no effect.

    Raises:
        InvalidConfigError: `mode` is unknown, or is "raw" with `pivoting`.

    >>> qr(np.array([[1.0, 0.0], [0.0, 2.0]]), "r", pivoting=True)[1]
    array([1, 0], dtype=int32)
    """
    if mode not in (*QR_MODES, "raw"):
        raise InvalidConfigError(
            f'qr: mode must be "reduced" ("economic"), "complete" ("full"), "r" or "raw", got {mode!r}'
        )
    x = matrix("qr", a)
    if mode == "raw":
        if pivoting:
            raise InvalidConfigError(
                'qr: mode="raw" is without pivoting, as in NumPy; use another mode, or pivoting=False'
            )
        packed, factors = apply(Geqrf(), x)
        return matrix_transpose(packed), factors
    pivots: tuple[Any, ...] = ()
    if pivoting:
        order = apply(Geqp3(), stop_gradient(x))[1]
        pivots = (subtract(order, convert(1, DType.I32)),)
        x = take_along_axis(x, expand_dims(pivots[0], axis=-2), axis=-1)
    if mode == "r":
        r = _output(fam.Qr(), 1, x)
        return (r, *pivots) if pivoting else r
    factors = QRResult(*apply(fam.Qr(full=QR_MODES[mode]), x))
    return (*factors, *pivots) if pivoting else factors


def qr_append(q: ArrayLike, r: ArrayLike, b: ArrayLike, /, *, axis: int = -1) -> QRResult:
    """Return the factors Q and R of a matrix A to which `b` is appended, computed from the factors q and r of A.

    If columns are appended, as in [A, b], the first columns of Q are q, and r is the upper left corner of R. If rows
    are appended, as in [A; b], all of Q and R is computed.

    Let A have m rows and q have k columns. Appending p columns takes O(m k p) operations, whereas `qr` takes
    O(m (k + p)^2). If the new columns are nearly in the span of q, the cost is that of `qr`.

    The derivatives are those of `qr` if the tangents of q and r are tangents of factors. They are infinite where `qr`
    has no derivative, for example if columns are linearly dependent.

    Args:
        q: [.., m, k] with orthonormal columns. r: [.., k, n]. Leading axes broadcast.
        b: [.., m, p] with axis -1, [.., p, n] with axis -2.
        axis: -1 appends columns, -2 rows.

    Raises:
        ShapeError: the extents do not match, or q has more columns than rows. InvalidConfigError: `axis` is unknown.
        NonStaticShapeError: columns are appended to matrices with symbolic extents.
        DTypeError: linear algebra does not support the dtype, such as float16.

    >>> a, b = np.array([[3.0], [4.0]]), np.array([[1.0], [2.0]])
    >>> q, r = qr_append(*qr(a), b)
    >>> np.round(q @ r, 12)
    array([[3., 1.],
           [4., 2.]])
    """
    factors = [matrix("qr_append", x) for x in (q, r, b)]
    if axis not in (-1, -2):
        raise InvalidConfigError(
            f"qr_append: axis must be -1 for columns or -2 for rows, got {axis!r}"
        )
    dtype = result_type(*factors)
    batch = broadcast_shapes(*[x.shape[:-2] for x in factors])
    x, y, z = [broadcast_to(convert(f, dtype), (*batch, *f.shape[-2:])) for f in factors]
    pairs = [(x.shape[-1], y.shape[-2]), (z.shape[-1], y.shape[-1])]
    if axis == -1:
        pairs[1] = (z.shape[-2], x.shape[-2])
    if builtins.any(is_static(m) and is_static(n) and m != n for m, n in pairs):
        raise ShapeError(
            f"qr_append: q of [.., m, k], r of [.., k, n], and b of [.., m, p] with axis=-1 or [.., p, n] with "
            f"axis=-2; got {spec_of(x)}, {spec_of(y)}, {spec_of(z)} with axis={axis}"
        )
    if axis == -2:
        return QRResult(*with_rows(x, y, z))
    if not builtins.all(map(is_static, (*x.shape[-2:], z.shape[-1]))):
        raise NonStaticShapeError(
            f"qr_append: extents must be numbers, not symbols, got {spec_of(x)} and {spec_of(z)}; use "
            "qr of the whole, or concrete specs"
        )
    if x.shape[-1] > x.shape[-2]:
        raise ShapeError(f"qr_append: q must have orthonormal columns, got {spec_of(x)}")
    return QRResult(*with_columns(x, y, z))


def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False, *,
    degenerate: str = "zero", overwrite_a: bool = False, check_finite: bool = True, lapack_driver: str = "gesdd",
) -> Any:  # fmt: skip
    """Return U, S and V^H with a = U diag(S) V^H, where S descends. If `compute_uv` is false, return only S.

    Args:
        full_matrices: whether U and V^H are square. Otherwise they have one vector per singular value.
        hermitian: whether `a` is Hermitian. Then only its lower triangle is read, and `eigh` computes the factors.
        degenerate: how to differentiate vectors whose singular values coincide; their derivative is undefined. "zero"
            omits the rotation within the subspace of these vectors, which is correct for functions of the values and of
            projectors on whole subspaces. "nan" divides by zero. "raise" raises an error at run time, but only
            natively. Values coincide if they differ by at most 64 eps times the largest value.
        overwrite_a, check_finite, lapack_driver: no effect.

    Raises:
        InvalidConfigError: `degenerate` is unknown.
        DegenerateSpectrumError: `degenerate` is "raise", and a derivative of vectors runs at coinciding values.
    """
    _check_degenerate("svd", degenerate)
    if hermitian:
        return _svd_of_hermitian(a, compute_uv, degenerate)
    if not compute_uv:
        return svdvals(a)
    return SVDResult(*apply(fam.Svd(bool(full_matrices), degenerate), matrix("svd", a)))


def _svd_of_hermitian(a: ArrayLike, compute_uv: bool, degenerate: str) -> Any:
    if not compute_uv:
        return flip(sort(abs(eigvalsh(a, "L"))), axis=-1)
    values, vectors = eigh(a, "L", degenerate=degenerate)
    order = flip(argsort(abs(values)), axis=-1)
    values = take_along_axis(values, order, axis=-1)
    u = take_along_axis(vectors, expand_dims(order, axis=-2), axis=-1)
    signs = convert(where(less(values, 0.0), -1.0, 1.0), spec_of(u).dtype)
    return SVDResult(u, abs(values), adjoint(_scaled_columns(u, signs)))


def svdvals(x: ArrayLike, /, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Compute the singular values in descending order. SciPy's `overwrite_a` and `check_finite` have no effect."""
    return _output(fam.Svd(), 1, matrix("svdvals", x))


def eigh(
    a: ArrayLike, UPLO: str | None = None, *, b: ArrayLike | None = None, lower: bool | None = None,  # noqa: N803  # because NumPy calls it so
    eigvals_only: bool = False, subset_by_index: Sequence[int] | None = None, subset_by_value: Sequence[float] | None = None,
    type: int = 1, driver: str | None = None, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True,
    degenerate: str = "zero",
) -> Any:  # fmt: skip
    """Compute the eigenvalues, in ascending order, and the eigenvectors of a Hermitian matrix.

    Args:
        UPLO: "L" or "U" to read only the lower or upper triangle. By default the Hermitian part (a + a^H) / 2 is used.
        b: a positive definite matrix, for a generalised problem; see `type`.
        lower: SciPy's argument, which replaces `UPLO`: True means "L", and False means "U".
        eigvals_only: whether to return only the eigenvalues.
        subset_by_index: the indices of the first and the last eigenvalue to return; all eigenvalues are computed.
        subset_by_value: an interval (low, high] of eigenvalues to return, for a single matrix.
        type: with `b`, the problem for eigenvalues w and eigenvectors v: 1 for a v = w b v, 2 for a b v = w v, 3 for
            b a v = w v. Eigenvectors are scaled to v^H b v = 1, or, for type 3, to v^H b^-1 v = 1.
        driver, overwrite_a, overwrite_b, check_finite: no effect.
        degenerate: as in `svd`.

    Raises:
        InvalidConfigError: `UPLO`, `type` or `degenerate` is unknown, two options exclude each other, or an index is
            out of range. ShapeError: `subset_by_value` is passed for several matrices.
        DataDependentShapeError: `subset_by_value` is passed, and `a` is traced.

    >>> eigh([[2.0, 9.0], [0.0, 1.0]], "L").eigenvalues
    array([1., 2.])
    >>> eigh([[2.0, 0.0], [0.0, 1.0]], b=[[1.0, 0.0], [0.0, 4.0]], eigvals_only=True)
    array([0.25, 2.  ])
    """
    _check_degenerate("eigh", degenerate)
    x, vectors_of = _of_pair("eigh", a, b, _triangle_named("eigh", UPLO, lower), type)
    if eigvals_only:
        return eigvalsh(x, subset_by_index=subset_by_index, subset_by_value=subset_by_value)
    values, vectors = apply(fam.Eigh(degenerate), x)
    chosen = _subset("eigh", values, subset_by_index, subset_by_value)
    if chosen is not None:
        values, vectors = values[..., chosen], vectors[..., chosen]
    return EighResult(values, vectors_of(vectors))


def _triangle_named(name: str, triangle: str | None, lower: bool | None) -> str | None:
    if lower is None:
        return triangle
    if triangle is not None:
        raise InvalidConfigError(f"{name}: UPLO and lower name one option; give one of them")
    return "L" if lower else "U"


def _of_pair(
    name: str, a: ArrayLike, b: ArrayLike | None, triangle: str | None, type: int
) -> tuple[Any, Callable[[Any], Any]]:
    """Convert the generalised eigenproblem of `a` and `b` to that of one Hermitian matrix.

    Returns:
        The Hermitian matrix; and a function from its eigenvectors to the eigenvectors of the generalised problem.

    Source: LAPACK, sygst.
    """
    x = hermitian_of(square(name, a), triangle)
    if type not in (1, 2, 3):
        raise InvalidConfigError(f"{name}: type must be 1, 2 or 3, got {type!r}")
    if b is None:
        return x, lambda vectors: vectors
    dtype = result_type(x, matrix(name, b))
    x, low = convert(x, dtype), cholesky(hermitian_of(convert(square(name, b), dtype), triangle))
    if type == 1:
        half = adjoint(solve_triangular(low, x, lower=True))
        return solve_triangular(low, half, lower=True), lambda v: solve_triangular(
            low, v, lower=True, trans="C"
        )
    x = matmul(adjoint(low), matmul(x, low))
    if type == 2:
        return x, lambda vectors: solve_triangular(low, vectors, lower=True, trans="C")
    return x, lambda vectors: matmul(low, vectors)


def _subset(
    name: str, values: Any, indices: Sequence[int] | None, interval: Sequence[float] | None
) -> slice | None:
    """Return the slice of the ascending eigenvalues in an interval of indices or of values; None means all."""
    if indices is None and interval is None:
        return None
    if interval is None:
        first, last = map(operator.index, indices or ())
        order = values.shape[-1]
        if is_static(order) and order == 0:
            return slice(0, 0)
        if not 0 <= first <= last or (is_static(order) and last >= order):
            raise InvalidConfigError(
                f"{name}: subset_by_index must be two ascending indices of {order} eigenvalues, got {indices}"
            )
        return slice(first, last + 1)
    low, high = map(float, interval)
    if indices is not None or not low < high:
        raise InvalidConfigError(
            f"{name}: subset_by_value must be two ascending numbers, without subset_by_index, got {interval} and {indices}"
        )
    if len(values.shape) != 1:
        raise ShapeError(
            f"{name}: subset_by_value takes one matrix, because matrices may differ in their number of "
            f"eigenvalues, got {spec_of(values)}"
        )
    plain = elements(values, name, "use subset_by_index")
    return slice(*np.searchsorted(plain, [low, high], side="right").tolist())


def eigvalsh(
    a: ArrayLike, UPLO: str | None = None, *, b: ArrayLike | None = None, lower: bool | None = None,  # noqa: N803  # because NumPy calls it so
    subset_by_index: Sequence[int] | None = None, subset_by_value: Sequence[float] | None = None, type: int = 1,
    driver: str | None = None, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True,
) -> Any:  # fmt: skip
    """Compute the eigenvalues of a Hermitian matrix in ascending order; `eigh` describes the arguments."""
    x, _ = _of_pair("eigvalsh", a, b, _triangle_named("eigvalsh", UPLO, lower), type)
    values = _output(fam.Eigh(), 0, x)
    chosen = _subset("eigvalsh", values, subset_by_index, subset_by_value)
    return values if chosen is None else values[..., chosen]


def hermitian_of(a: ArrayLike, triangle: object) -> Any:
    """Return the Hermitian matrix that one triangle of `a` defines. If `triangle` is None, return `a` unchanged.

    Raises:
        InvalidConfigError: `triangle` is neither "L" nor "U".
    """
    if triangle is None:
        return a
    if not isinstance(triangle, str):
        raise InvalidConfigError(
            f'eigh: UPLO must be "L" or "U", got {triangle!r:.60}; for a x = w b x, name b='
        )
    if triangle not in ("L", "U", "l", "u"):
        raise InvalidConfigError(f'eigh: UPLO must be "L" or "U", got {triangle!r}')
    return _mirrored(a, triangle in "Ll", adjoint)


def _mirrored(a: ArrayLike, lower: bool, mirror: Callable[[Any], Any]) -> Any:
    """Replace the upper triangle of `a` by `mirror` of its lower triangle; if `lower` is false, vice versa."""
    half, rest, k = (tril, triu, -1) if lower else (triu, tril, 1)
    return add(half(a), rest(mirror(half(a, k)), -k))


def eig(
    a: ArrayLike, b: ArrayLike | None = None, left: bool = False, right: bool = True, overwrite_a: bool = False,
    overwrite_b: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False,
) -> Any:  # fmt: skip
    """Compute the complex eigenvalues w and eigenvectors v, of unit length, of a general matrix: a v = w v.

    Args:
        b: an invertible matrix, for the generalised problem a v = w b v.
        left: whether to return the left eigenvectors u, with u^H a = w u^H b, before v. They are computed correctly
            only if the eigenvectors are linearly independent.
        right: whether to return v. If no vectors are returned, the result is the array of eigenvalues, not a tuple.
        overwrite_a, overwrite_b, check_finite: no effect.
        homogeneous_eigvals: whether to return each eigenvalue as a fraction: numerators in row 0 of w, and denominators
            in row 1. All denominators are 1, because b is invertible.

    Raises:
        ShapeError: a is not square.

    >>> eig(np.array([[2.0, 1.0], [0.0, 1.0]]), right=False)
    array([2.+0.j, 1.+0.j])
    """
    if not (left or right):
        return eigvals(a, b, homogeneous_eigvals=homogeneous_eigvals)
    values, vectors = apply(fam.Eig(), _quotient("eig", a, b))
    values = _fractions(values) if homogeneous_eigvals else values
    if not left:
        return EigResult(values, vectors)
    others = adjoint(_by_factors(vectors, _identity(vectors)))
    if b is not None:
        others = solve(adjoint(as_operand(b)), others)
    others = divide(others, vector_norm(others, axis=-2, keepdims=True))
    return (values, others, vectors) if right else (values, others)


def _fractions(values: Any) -> Any:
    """Return eigenvalues as fractions, with the numerators in row 0 and denominators of 1 in row 1."""
    return stack([values, ones(values.shape, spec_of(values).dtype)], axis=-2)


def _quotient(name: str, a: ArrayLike, b: ArrayLike | None) -> Any:
    """Return b^-1 a, or a if b is None."""
    x = square(name, a)
    return x if b is None else solve(square(name, b), x)


def eigvals(
    a: ArrayLike, b: ArrayLike | None = None, overwrite_a: bool = False, check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:  # fmt: skip
    """Compute the eigenvalues of a general matrix, as complex numbers; see `eig` for the arguments."""
    values = _output(fam.Eig(), 0, _quotient("eigvals", a, b))
    return _fractions(values) if homogeneous_eigvals else values


def permuted_factors(name: str, x: ArrayLike) -> tuple[Any, Any]:
    """Return the factors of x[perm] = L U in one matrix, L below its diagonal and U on and above it, and `perm`."""
    return apply(fam.Lu(), matrix(name, x))


def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, Any]:
    """Return the LU factors of `a` in one matrix, and the exchanges of rows piv.

    L is stored below the diagonal, and U on and above it. Row i is exchanged with row piv[i], for i = 0, 1, ...

    Args:
        overwrite_a, check_finite: no effect.

    >>> lu_factor(np.array([[1.0, 2.0], [4.0, 4.0]]))
    (array([[4.  , 4.  ],
           [0.25, 1.  ]]), array([1, 1], dtype=int32))

    Source: scipy.linalg.lu_factor.
    """
    packed, perm = permuted_factors("lu_factor", a)
    rows = _positions(perm)

    def exchange(rows: Any, i: Any) -> tuple[Any, Any]:
        j = _where_true(
            rows, equal(rows, _where_true(perm, equal(_positions(perm), i))), _positions(perm)
        )
        return _exchanged(rows, i, j), j

    _, pivots = scan(exchange, rows, _counted(packed))
    return packed, convert(moveaxis(squeeze(pivots, axis=-1), 0, -1), DType.I32)


def _counted(packed: Tensor) -> Any:
    """Return the vector 0, 1, .., min(rows, columns) - 1."""
    extent = dim_min(*packed.shape[-2:])
    return apply_one(Iota((extent,), 0, DType.I64), like=packed)


def _positions(rows: Tensor) -> Any:
    """Return the positions 0, 1, .. along the last axis, as a tensor of the shape of `rows`."""
    counted: Any = apply_one(Iota((rows.shape[-1],), 0, DType.I64), like=rows)
    return broadcast_to(counted, rows.shape)


def _where_true(rows: Tensor, is_there: Any, values: Any = None) -> Any:
    """Return the value, along the last axis, at the position where `is_there` is true. The axis is kept, with extent 1.

    The values are `values`, or by default `rows`.
    """
    return sum(where(is_there, rows if values is None else values, 0), axis=-1, keepdims=True)


def _exchanged(rows: Tensor, i: Any, j: Any) -> Any:
    """Exchange the values at positions i and j along the last axis."""
    is_first, is_second = equal(_positions(rows), i), equal(_positions(rows), j)
    first, second = _where_true(rows, is_first), _where_true(rows, is_second)
    return where(is_first, second, where(is_second, first, rows))


def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False
) -> tuple[Any, ...]:  # fmt: skip
    """Return P, L and U with a = P L U.

    Args:
        permute_l: whether to return two factors, the product P L and U.
        p_indices: whether to return P as a vector p with a = L[p] U.
        overwrite_a, check_finite: no effect.

    Source: scipy.linalg.lu.
    """
    packed, perm = permuted_factors("lu", a)
    m, n = packed.shape[-2:]
    k = dim_min(m, n)
    low = add(tril(packed[..., :, :k], k=-1), _identity(packed, m, k))
    upper = triu(packed[..., :k, :])
    if permute_l:
        return _in_order(low, argsort(perm, axis=-1)), upper
    if p_indices:
        return convert(argsort(perm, axis=-1), DType.I32), low, upper
    rows = expand_dims(perm, axis=-2)
    places: Any = apply_one(Iota((m, 1), 0, DType.I64), like=packed)
    return convert(equal(rows, places), spec_of(packed).dtype.real), low, upper


def _check_degenerate(name: str, degenerate: str) -> None:
    if degenerate not in fam.DEGENERATE:
        choices = ", ".join(f'"{choice}"' for choice in fam.DEGENERATE)
        raise InvalidConfigError(f"{name}: degenerate must be one of {choices}, got {degenerate!r}")


# ---- truncation ------------------------------------------------------------------------------------


def truncated_svd(
    a: ArrayLike, *, max_rank: int, rtol: ArrayLike, masked: bool = False
) -> TruncatedSVDResult:
    """Return U, S, V^H and the rank of a truncated singular value decomposition.

    Singular values above `rtol` times the largest are retained, but at most `max_rank` of them. U is [m, rank], S is
    [rank] and V^H is [rank, n], with the dtypes of `svd`. The rank, an int64 scalar, depends on the data.

    Derivatives are those of the full decomposition, restricted to the retained values, at constant rank. They are
    correct if the function does not depend on the phases of vectors, and if the smallest retained value and the largest
    dropped value differ. The rank has no derivative.

    Args:
        max_rank: an integer from 1.
        rtol: a scalar; 0 retains all nonzero values.
        masked: whether the extents are min(m, n, max_rank) instead of the rank, with zeros beyond the rank. Products
            and sums over that axis are the same. Batches, XLA and artifacts require it, because they do not support
            data-dependent shapes.

    Raises:
        InvalidConfigError: `max_rank` is below 1. ShapeError: `a` is not a matrix, or is a batch of matrices although
            `masked` is False. DTypeError: linear algebra does not support the dtype, such as float16.
        NonStaticShapeError: the program is lowered to StableHLO although `masked` is False.

    >>> u, s, vh, rank = truncated_svd(np.diag([3.0, 2.0, 1e-9]), max_rank=3, rtol=1e-6)
    >>> s, int(rank), u.shape
    (array([3., 2.]), 2, (3, 2))
    """
    x = matrix("truncated_svd", a)
    _check_truncation("truncated_svd", x, max_rank, masked)
    u, s, vh = svd(x, full_matrices=False)
    is_retained = _at_most(greater(s, _cutoff(x, s, rtol)), max_rank, -1)
    u, s, vh = _at_most(u, max_rank, -1), _at_most(s, max_rank, -1), _at_most(vh, max_rank, -2)
    rank = sum(convert(is_retained, DType.I64), axis=-1)
    if masked:
        u = where(expand_dims(is_retained, axis=-2), u, 0)
        vh = where(expand_dims(is_retained, axis=-1), vh, 0)
        return TruncatedSVDResult(u, where(is_retained, s, 0), vh, rank)
    u, s = dynamic_truncate(u, rank), dynamic_truncate(s, rank)
    return TruncatedSVDResult(u, s, dynamic_truncate(vh, rank, axis=-2), rank)


def _at_most(x: Tensor, count: int, axis: int) -> Any:
    """Return the first `count` elements along an axis, or all if there are fewer. The extent may be data-dependent."""
    if not is_exact(x.shape[axis]):
        return dynamic_truncate(x, count, axis=axis)
    return x[..., :count] if axis == -1 else x[..., :count, :]


def rank_revealing_qr(
    a: ArrayLike, *, rtol: ArrayLike, max_rank: int | None = None, masked: bool = False
) -> RankRevealingQRResult:
    """Compute Q, R, perm and rank with a[:, perm] = Q R up to `rtol`, by QR with column pivoting.

    Q is [m, rank] with orthonormal columns, R is [rank, n] and upper trapezoidal, and perm is [n], the order of columns
    as int64. The rank, an int64 scalar, is the number of diagonal elements of R whose magnitude is larger than `rtol`
    times that of the first element. It is at most `max_rank`.

    Derivatives of Q and R are taken at constant perm and rank, and are also correct for singular `a`. perm and rank
    have no derivative.

    Args:
        max_rank: an integer from 1; None for min(m, n).
        rtol, masked: as in `truncated_svd`.

    Raises:
        InvalidConfigError: `max_rank` is below 1. ShapeError: `a` is not a matrix, or is a batch of matrices although
            `masked` is False. DTypeError: linear algebra does not support the dtype, such as float16.
        NonStaticShapeError: the program is lowered to StableHLO although `masked` is False.
        UnsupportedError: the program is lowered for a platform other than the CPU, which alone has pivoted QR.

    >>> q, r, perm, rank = rank_revealing_qr([[1.0, 2.0], [1.0, 2.0]], rtol=1e-9)
    >>> perm, int(rank), np.round(q @ r, 12)
    (array([1, 0]), 1, array([[2., 1.],
           [2., 1.]]))
    """
    x = matrix("rank_revealing_qr", a)
    _check_truncation("rank_revealing_qr", x, max_rank, masked)
    width = dim_min(*x.shape[-2:])
    width = width if max_rank is None else dim_min(width, max_rank)
    packed, order, _ = apply(Geqp3(), stop_gradient(x))
    perm = subtract(convert(order, DType.I64), 1)
    size = abs(diagonal(packed))
    is_retained = greater(size, _cutoff(x, size, rtol))[..., :width]
    rank = sum(convert(is_retained, DType.I64), axis=-1)
    ordered = take_along_axis(x, expand_dims(perm, axis=-2), axis=-1)
    columns = expand_dims(is_retained, axis=-2)
    # Columns beyond the rank are replaced by a basis of the complement. R is then invertible, as the derivative of QR
    # requires. The columns of Q before the replaced columns do not change.
    basis = stop_gradient(qr(stop_gradient(ordered)).Q[..., :width])
    q = where(columns, qr(where(columns, ordered[..., :width], basis)).Q, 0)
    r = triu(matmul(adjoint(q), ordered))
    if masked:
        return RankRevealingQRResult(q, r, perm, rank)
    q, r = dynamic_truncate(q, rank, axis=-1), dynamic_truncate(r, rank, axis=-2)
    return RankRevealingQRResult(q, r, perm, rank)


def _check_truncation(name: str, x: Any, max_rank: int | None, masked: bool) -> None:
    if max_rank is not None and operator.index(max_rank) < 1:
        raise InvalidConfigError(f"{name}: max_rank must be at least 1, got {max_rank}")
    if len(x.shape) > 2 and not masked:
        raise ShapeError(
            f"{name}: {spec_of(x)} is a batch, whose matrices may differ in rank; use masked=True"
        )


# ---- solving ---------------------------------------------------------------------------------------


def _solved(solver: Callable[..., Any], name: str, a: ArrayLike, b: Any) -> Any:
    a, b = square(name, a), as_operand(b)
    dtype = result_type(a, b)
    dtype = dtype if dtype.is_inexact else DType.F64
    a, b = convert(a, dtype), convert(b, dtype)
    vector = len(b.shape) == 1
    b = expand_dims(b, axis=-1) if vector else b
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = broadcast_to(a, (*batch, *a.shape[-2:]))
    b = broadcast_to(b, (*batch, *b.shape[-2:]))
    x = solver(a, b)
    return squeeze(x, axis=-1) if vector else x


def _by_factors(a: Tensor, b: Tensor) -> Any:
    """Solve a X = b for matrices with equal batch axes. For a large `a`, derivatives reuse the LU factors."""
    if not (is_static(a.shape[-1]) and a.shape[-1] >= FACTORED):
        return apply(fam.Solve(), a, b)
    packed, perm = apply(fam.Lu(), a)
    return apply(fam.LuSolve(), a, packed, perm, b)


_STRUCTURES = {
    None: "general", "gen": "general", "general": "general", "banded": "general", "sym": "symmetric", "her": "hermitian",
    "pos": "positive definite",
    **{
        name: name
        for name in (
            "diagonal", "tridiagonal", "upper triangular", "lower triangular", "symmetric", "hermitian", "positive definite",
        )
    },
}  # fmt: skip
"""Maps each value of SciPy's argument `assume_a` to its long name."""


def solve(
    a: ArrayLike, b: ArrayLike, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
    check_finite: bool = True, assume_a: str | None = None, transposed: bool = False,
) -> Any:  # fmt: skip
    """Solve a X = b for X by LU with partial pivoting.

    Args:
        b: a vector; if it has more than one axis, matrices.
        assume_a: SciPy's name for the structure of a, such as "sym", "her", "pos" and "upper triangular". Elements that
            follow from the structure are not read. "pos" solves the system by a Cholesky factorisation. None and
            "banded" read all elements.
        lower: whether "sym", "her" and "pos" read the lower triangle instead of the upper triangle.
        transposed: whether to solve a^T X = b.
        overwrite_a, overwrite_b, check_finite: no effect.

    Raises:
        ShapeError: a is not square, or the numbers of rows differ. InvalidConfigError: `assume_a` is unknown.

    >>> solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([1.0, 1.0]))
    array([0.5 , 0.25])
    >>> solve(np.array([[2.0, 9.0], [1.0, 4.0]]), np.array([4.0, 9.0]), lower=True, assume_a="sym")
    array([1., 2.])
    """
    if assume_a not in _STRUCTURES:
        names = ", ".join(f'"{name}"' for name in _STRUCTURES if name)
        raise InvalidConfigError(
            f"solve: assume_a must be None or one of {names}, got {assume_a!r}"
        )
    structure = _STRUCTURES[assume_a]
    if structure.endswith("triangular"):
        is_lower, trans = structure.startswith("lower"), "T" if transposed else "N"
        return solve_triangular(a, b, lower=is_lower, trans=trans)
    x = square("solve", a)
    if structure in ("diagonal", "tridiagonal"):
        width = 0 if structure == "diagonal" else 1
        x = triu(tril(x, width), -width)
    elif structure == "symmetric":
        x = _mirrored(x, lower, matrix_transpose)
    elif structure != "general":
        x = hermitian_of(x, "L" if lower else "U")
    x = matrix_transpose(x) if transposed else x
    return _solved(_by_cholesky if structure == "positive definite" else _by_factors, "solve", x, b)


def _by_cholesky(a: Tensor, b: Tensor) -> Any:
    return by_triangle(cholesky(a), True, b)


def by_triangle(c: ArrayLike, lower: bool, b: ArrayLike) -> Any:
    """Solve a x = b for x, given a Cholesky factor c of a. If b has one axis it is a vector, otherwise matrices."""
    b = as_operand(b)
    first, second = ("N", "C") if lower else ("C", "N")
    is_vector = len(b.shape) == 1
    x = solve_triangular(c, expand_dims(b, axis=-1) if is_vector else b, lower=lower, trans=first)
    x = solve_triangular(c, x, lower=lower, trans=second)
    return squeeze(x, axis=-1) if is_vector else x


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Any:
    """Solve tensordot(a, x, x.ndim) = b for x: a linear system whose unknowns and equations have several axes each.

    Args:
        a: a tensor of shape b.shape + x.shape, where b and x have equally many elements.
        axes: the axes of `a` that are moved to its end before the system is solved.

    Raises:
        ShapeError: the numbers of elements differ, or the shape of `a` does not begin with that of `b`.
        AxisError: an axis is outside the rank of `a`.

    >>> a = np.eye(6).reshape(2, 3, 6) * 2.0
    >>> tensorsolve(a, np.ones((2, 3)))
    array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5])

    Source: NumPy 2.4, `numpy.linalg.tensorsolve`.
    """
    tensor, right = as_operand(a), as_operand(b)
    if axes is not None:
        last = normalize_axes("tensorsolve", tuple(axes), spec_of(tensor).rank)
        tensor = moveaxis(tensor, last, tuple(range(-len(last), 0)))
    rank = spec_of(right).rank
    unknowns, order = tensor.shape[rank:], product(right.shape)
    size = product(tensor.shape)
    if spec_of(tensor).rank < rank or (is_static(size) and is_static(order) and size != order**2):
        raise ShapeError(
            f"tensorsolve: the axes of {spec_of(tensor)} are those of {spec_of(right)} and as many unknowns"
        )
    x = solve(reshape(tensor, (order, product(unknowns))), reshape(right, (order,)))
    return reshape(x, unknowns)


def tensorinv(a: ArrayLike, ind: int = 2) -> Any:
    """Invert a tensor: tensordot(tensorinv(a, ind), b, ind) equals tensorsolve(a, b).

    The first `ind` axes of `a` are the axes of the equations b, and the other axes are those of the unknowns. The axes
    of the unknowns come first in the result.

    Raises:
        InvalidConfigError: `ind` is below 1. ShapeError: the numbers of equations and unknowns differ.

    >>> tensorinv(np.eye(6).reshape(2, 3, 6) * 2.0).shape
    (6, 2, 3)

    Source: NumPy 2.4, `numpy.linalg.tensorinv`.
    """
    tensor = as_operand(a)
    if isinstance(ind, bool) or not hasattr(ind, "__index__") or operator.index(ind) < 1:
        raise InvalidConfigError(f"tensorinv: ind must be a positive integer, got {ind!r}")
    equations, unknowns = tensor.shape[:ind], tensor.shape[ind:]
    rows, columns = product(equations), product(unknowns)
    if is_static(rows) and is_static(columns) and rows != columns:
        raise ShapeError(
            f"tensorinv: the first {ind} axes must have as many elements as the others, got {rows} and "
            f"{columns} of {spec_of(tensor)}"
        )
    inverse = inv(reshape(tensor, (rows, columns)))
    return reshape(inverse, (*unknowns, *equations))


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    /,
    *,
    lower: bool = False,
    unit_diagonal: bool = False,
    trans: Any = "N",
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Solve a X = b for X, where only one triangle of a is read.

    Args:
        lower: whether to read the lower triangle instead of the upper triangle.
        unit_diagonal: whether the diagonal is taken to be 1, and not read.
        trans: "N" or 0 for the matrix a itself, "T" or 1 for its transpose, "C" or 2 for its conjugate transpose.
        overwrite_b, check_finite: no effect.
    """
    trans = {0: "N", 1: "T", 2: "C"}.get(trans, trans)
    if trans not in ("N", "T", "C"):
        raise InvalidConfigError(f'solve_triangular: trans must be "N", "T" or "C", got {trans!r}')
    op = fam.TriangularSolve(bool(lower), bool(unit_diagonal), trans)
    return _solved(functools.partial(apply, op), "solve_triangular", a, b)


def lu_solve(
    lu_and_piv: tuple[Any, Any], b: Any, trans: Any = 0, overwrite_b: bool = False, check_finite: bool = True
) -> Any:  # fmt: skip
    """Solve A X = b for X. Leading axes broadcast, as in `solve`.

    Args:
        lu_and_piv: the pair that `lu_factor` returned for A.
        b: a vector; if it has more than one axis, matrices.
        trans: 0 for A itself, 1 for its transpose, 2 for its conjugate transpose.
        overwrite_b, check_finite: no effect.

    Raises:
        ShapeError: the factors are not square, or the numbers of rows differ.
        InvalidConfigError: `trans` is unknown.

    >>> lu_solve(lu_factor(np.array([[2.0, 0.0], [0.0, 4.0]])), np.array([1.0, 1.0]))
    array([0.5 , 0.25])

    Source: scipy.linalg.lu_solve.
    """
    packed, pivots = lu_and_piv
    packed = square("lu_solve", packed)
    perm: Any = apply(PivotsToPermutation(packed.shape[-1]), as_operand(pivots))
    return solve_permuted(packed, perm, b, trans)


def solve_permuted(packed: Any, perm: Any, b: Any, trans: Any = 0) -> Any:
    """Solve A X = b with the factors that `permuted_factors` returned for A. `trans` is 0, 1 or 2, as in `lu_solve`."""
    if trans not in (0, 1, 2):
        raise InvalidConfigError(f"lu_solve: trans must be 0, 1 or 2, got {trans!r}")
    b = as_operand(b)
    vector = len(b.shape) == 1
    b = expand_dims(b, axis=-1) if vector else b
    rows, order = b.shape[-2], packed.shape[-1]
    if is_static(rows) and is_static(order) and rows != order:
        raise ShapeError(
            f"lu_solve: {spec_of(b)} has {rows} rows, and the factors are {spec_of(packed)}"
        )
    b = broadcast_to(b, (*broadcast_shapes(packed.shape[:-2], b.shape[:-2]), *b.shape[-2:]))
    if trans == 0:
        x = _in_order(b, perm)
        x = solve_triangular(packed, x, lower=True, unit_diagonal=True)
        x = solve_triangular(packed, x)
    else:
        x = solve_triangular(packed, b, trans=trans)
        x = solve_triangular(packed, x, lower=True, unit_diagonal=True, trans=trans)
        x = _in_order(x, argsort(perm, axis=-1))
    return squeeze(x, axis=-1) if vector else x


def _in_order(b: Any, perm: Any) -> Any:
    return take_along_axis(b, broadcast_to(expand_dims(perm, axis=-1), b.shape), axis=-2)


def inv(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: str | None = None, lower: bool = False
) -> Any:  # fmt: skip
    """Invert a matrix. `assume_a` and `lower` are as in `solve`; SciPy's other arguments have no effect."""
    x = square("inv", a)
    if assume_a is None:
        return _by_factors(x, _identity(x))
    return solve(x, _identity(x), lower, assume_a=assume_a)


def pinv(
    a: ArrayLike,
    rcond: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike | None = None,
    atol: ArrayLike | None = None,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Any:
    """Compute the Moore-Penrose inverse. Singular values up to atol + rtol times the largest count as zero.

    The derivative is defined only in directions that preserve the rank of the matrix.

    Args:
        rtol: a number, or one number for each matrix. `rcond` is NumPy's older name of this argument.
        atol: a number, by default 0. If only `atol` is passed, `rtol` is 0.
        hermitian: whether `a` is Hermitian. Then only its lower triangle is read.
        return_rank: whether to also return the number of singular values that do not count as zero.
        check_finite: no effect.

    Raises:
        InvalidConfigError: both `rcond` and `rtol` are passed.
    """
    if rcond is not None and rtol is not None:
        raise InvalidConfigError("pinv: rcond and rtol name one option; give one of them")
    x = hermitian_of(square("pinv", a), "L") if hermitian else matrix("pinv", a)
    rtol = rcond if rtol is None else rtol
    rtol = 0.0 if rtol is None and atol is not None else rtol
    inverse = pinv_and_bases(x, rtol, atol)[0]
    return (inverse, _count(x, svdvals(x), rtol, atol)) if return_rank else inverse


def _count(x: Tensor, s: Tensor, rtol: Any, atol: Any = None) -> Any:
    """Count the singular values s of x that exceed atol + rtol times the largest."""
    return sum(convert(greater(s, _cutoff(x, s, rtol, atol)), DType.I64), axis=-1)


@functools.partial(custom_jvp, nondiff_argnums=(1, 2))
def pinv_and_bases(x: Tensor, rtol: ArrayLike | None, atol: ArrayLike | None) -> Any:
    """Return the pseudoinverse of x, and its singular vectors U and V, which are zero if their value counts as zero.

    Only U U^H and V V^H are well defined, so the tangents of U and V can be chosen. They are chosen orthogonal to U and
    V.
    """
    u, s, vh = svd(x, full_matrices=False)
    keep = greater(s, _cutoff(x, s, rtol, atol))
    dtype = spec_of(x).dtype
    inverse = convert(where(keep, divide(1.0, where(keep, s, 1.0)), 0.0), dtype)
    kept = convert(keep, dtype)
    u, v = _scaled_columns(u, kept), _scaled_columns(adjoint(vh), kept)
    return matmul(_scaled_columns(v, inverse), adjoint(u)), u, v


@pinv_and_bases.defjvp
def _pinv_jvp(
    rtol: ArrayLike | None, atol: ArrayLike | None, primals: Sequence[Any], tangents: Sequence[Any]
) -> Any:
    """Return P = pinv(A), and its tangent -P A_dot P + P P^H A_dot^H (1 - A P) + (1 - P A) A_dot^H P^H P.

    The projections 1 - A P and 1 - P A are computed as 1 - U U^H and 1 - V V^H. The rounding errors of the products A P
    and P A would be larger by a factor of the square of A's condition number.

    Source: Golub and Pereyra (1973), doi:10.1137/0710036.
    """
    (a,), (a_dot,) = primals, tangents
    p, u, v = pinv_and_bases(a, rtol, atol)
    ph = adjoint(p)
    left, right = matmul(a_dot, p), matmul(adjoint(a_dot), ph)
    rows, columns = _outside(u, matmul(left, ph)), _outside(v, matmul(right, p))
    p_dot = add(subtract(adjoint(rows), matmul(p, left)), columns)
    u_dot, v_dot = _outside(u, matmul(left, u)), _outside(v, matmul(right, v))
    return (p, u, v), (p_dot, u_dot, v_dot)


def _outside(basis: Tensor, x: Tensor) -> Any:
    """Project the columns of x on the orthogonal complement of the span of the orthonormal columns of `basis`."""
    return subtract(x, matmul(basis, matmul(adjoint(basis), x)))


def _first(s: Tensor) -> Any:
    """Return the largest singular value of each matrix; 0 for matrices without elements."""
    return sum(_at_most(s, 1, -1), axis=-1)


def _last(s: Tensor) -> Any:
    """Return the smallest singular value of each matrix."""
    if is_static(s.shape[-1]) and s.shape[-1] == 0:
        raise ShapeError(f"matrix_norm: ord=-2 needs a singular value, got {spec_of(s)}")
    return _first(flip(s, axis=-1))


def _length(x: Any) -> Any:
    """Return max(m, n) for matrices [m, n]: an integer, or a tensor if an extent is symbolic."""
    length = dim_max(*x.shape[-2:])
    return length if is_static(length) else maximum(shape_of(x, -2), shape_of(x, -1))


def _cutoff(x: Tensor, s: Tensor, rtol: Any, atol: Any = None) -> Any:
    """Compute, for each matrix x, the bound atol + rtol max(s) below which its singular values s count as zero.

    The bounds have an axis of extent 1, along which they are compared with s. If `rtol` is None, it is max(m, n) eps.
    """
    dtype = spec_of(s).dtype
    if rtol is None:
        length, eps = _length(x), float(np.finfo(dtype.dtype).eps)
        rtol = length * eps if isinstance(length, int) else multiply(length, eps)
    bound = multiply(convert(rtol, dtype), _first(s))
    return expand_dims(bound if atol is None else add(convert(atol, dtype), bound), axis=-1)


def lstsq(
    a: Any, b: ArrayLike, rcond: ArrayLike | None = None, *, rtol: ArrayLike | None = None, cond: ArrayLike | None = None,
    overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True, lapack_driver: str | None = None,
) -> LstsqResult:  # fmt: skip
    """Find the shortest x that minimises |a x - b|, by the SVD of a matrix a of any rank.

    The field `residuals` of the result contains the sum of squares of a x - b for each column of b. As in NumPy, it is
    empty unless a has more rows than columns and full column rank. In a trace the rank is unknown, and in a batch ranks
    may differ, so residuals are then returned for any rank.

    Args:
        rtol: singular values up to `rtol` times the largest count as zero; the default is max(m, n) eps.
        rcond, cond: NumPy's and SciPy's names of `rtol`.
        overwrite_a, overwrite_b, check_finite, lapack_driver: no effect.

    Raises:
        ShapeError: a is not a matrix, or the numbers of rows differ.
        InvalidConfigError: two of `rcond`, `rtol` and `cond` are passed.

    >>> lstsq(np.array([[1.0], [1.0]]), np.array([1.0, 3.0]))[:2]
    (array([2.]), array([2.]))
    """
    bounds = [bound for bound in (rcond, rtol, cond) if bound is not None]
    if len(bounds) > 1:
        raise InvalidConfigError("lstsq: rcond, rtol and cond name one option; give one of them")
    rtol = bounds[0] if bounds else None
    a, b = matrix("lstsq", a), as_operand(b)
    vector = len(b.shape) == 1
    right = expand_dims(b, axis=-1) if vector else b
    x = matmul(pinv(a, rtol=rtol), right)
    s = svdvals(a)
    rank = _count(a, s, rtol)
    error = subtract(matmul(a, x), right)
    residual = sum(real(multiply(conj(error), error)), axis=-2)
    if not _has_residuals(a, rank):
        residual = residual[..., :0]
    return LstsqResult(squeeze(x, axis=-1) if vector else x, residual, rank, s)


def _has_residuals(a: Any, rank: Any) -> bool:
    """Return whether `lstsq` returns residuals: a has more rows than columns, and its rank is full or unknown."""
    rows, columns = a.shape[-2:]
    if is_static(rows) and is_static(columns) and rows <= columns:
        return False
    is_one = len(a.shape) == 2 and hasattr(rank, "item") and not isinstance(rank, TracedTensor)
    return not is_one or rank.item() == columns


# ---- numbers of a matrix -------------------------------------------------------------------------------


def slogdet(a: ArrayLike) -> SlogdetResult:
    """Compute the sign of the determinant, which is its phase if a is complex, and the logarithm of its magnitude."""
    x = square("slogdet", a)
    packed, perm = apply(fam.Lu(), x)
    pivots = manipulation.extract_diag(packed, -2, -1)
    phase = multiply(sign_of_pivots(perm, pivots), prod(sign(pivots), axis=-1))
    return SlogdetResult(phase, sum(log(abs(pivots)), axis=-1))


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Compute the determinant, by LU. Its first and second derivatives are also right at singular matrices.

    SciPy's `overwrite_a` and `check_finite` have no effect.
    """
    return determinant(square("det", a))


def matrix_rank(
    A: ArrayLike, tol: ArrayLike | None = None, hermitian: bool = False, *, rtol: ArrayLike | None = None  # noqa: N803  # because NumPy calls it so
) -> Any:  # fmt: skip
    """Return the number of singular values that are larger than a bound.

    Args:
        tol: the bound.
        hermitian: whether A is Hermitian. Then only its lower triangle is read.
        rtol: a bound relative to the largest singular value, used if `tol` is None. The default is max(m, n) eps.

    Raises:
        InvalidConfigError: both `tol` and `rtol` are passed.
    """
    if tol is not None and rtol is not None:
        raise InvalidConfigError("matrix_rank: give one of tol and rtol")
    x = hermitian_of(square("matrix_rank", A), "L") if hermitian else matrix("matrix_rank", A)
    s = svdvals(x)
    if tol is None:
        return _count(x, s, rtol)
    bound = expand_dims(convert(tol, spec_of(s).dtype), axis=-1)
    return sum(convert(greater(s, bound), DType.I64), axis=-1)


def cond(x: Any, p: Any = None) -> Any:
    """Return the condition number |x| |x^-1| in the norm p.

    If p is None or 2, this is the largest singular value divided by the smallest. If p is -2, it is the smallest
    divided by the largest. The number is infinite for singular matrices, and NaN only if x has a NaN.

    Raises:
        ShapeError: x has no elements, or x is not square and p requires the inverse.
        InvalidConfigError: p is not a norm of `matrix_norm`.
    """
    x = matrix("cond", x)
    if builtins.any(is_static(n) and n == 0 for n in x.shape[-2:]):
        raise ShapeError(f"cond: matrices without elements have no condition, got {spec_of(x)}")
    if p in (None, 2, -2):
        s = svdvals(x)
        large, small = _first(s), _last(s)
        result = divide(small, large) if p == -2 else divide(large, small)
    else:
        result = multiply(matrix_norm(x, ord=p), matrix_norm(inv(square("cond", x)), ord=p))
    is_singular = logical_and(isnan(result), logical_not(any(isnan(x), axis=(-2, -1))))
    return where(is_singular, math.inf, result)


# ---- norms -------------------------------------------------------------------------------------------------


def _largest(size: Any, axis: Axis, keepdims: bool = False) -> Any:
    """Compute the maximum of nonnegative numbers over `axis`; 0 if there are no elements."""
    extents = [size.shape[i] for i in normalize_axes("norm", axis, len(size.shape))]
    if builtins.any(is_static(n) and n == 0 for n in extents):
        return sum(size, axis=axis, keepdims=keepdims)
    initial = None if builtins.all(map(is_static, extents)) else 0.0
    return max(size, axis=axis, keepdims=keepdims, initial=initial)


def _is_number(ord: Any) -> bool:
    return isinstance(ord, int | float | np.integer | np.floating) and not isinstance(ord, bool)


def _refuse_order(ord: Any) -> NoReturn:
    raise InvalidConfigError(
        f'matrix_norm: ord must be "fro", "nuc", 1, -1, 2, -2, inf or -inf, got {ord!r}'
    )


def vector_norm(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Compute the p-norm (sum |x|^p)^(1/p) over `axis`, where p is `ord`.

    For p = inf it is the largest magnitude, for p = -inf the smallest magnitude, and for p = 0 the number of nonzero
    elements. The derivative at 0 is 0. Elements are not scaled, so the 2-norm is infinite if a square overflows, as in
    NumPy.

    Raises:
        InvalidConfigError: `ord` is not a number.
        ShapeError: `ord` is -inf, and there are no elements.
    """
    if not _is_number(ord):
        raise InvalidConfigError(f"vector_norm: ord must be a number, inf or -inf, got {ord!r}")
    x = as_inexact(x)
    dtype = spec_of(x).dtype
    return convert(_vector_norm(convert(x, dtype.accumulator), axis, keepdims, ord), dtype.real)


def _vector_norm(x: Tensor, axis: Axis, keepdims: bool, ord: Any) -> Any:
    size = abs(x)
    if ord == math.inf:
        return _largest(size, axis, keepdims)
    if ord == -math.inf:
        return min(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return sum(convert(not_equal(x, 0), spec_of(size).dtype), axis=axis, keepdims=keepdims)
    if ord == 1:
        return sum(size, axis=axis, keepdims=keepdims)
    if ord == 2:
        total = sum(real(multiply(conj(x), x)), axis=axis, keepdims=keepdims)
        return root(total)
    total = sum(pow(size, float(ord)), axis=axis, keepdims=keepdims)
    if not is_traced(total):
        return pow(total, 1.0 / float(ord))
    none = equal(total, 0)
    return where(none, 0.0 if ord > 0 else math.inf, pow(where(none, 1.0, total), 1.0 / float(ord)))


def matrix_norm(
    x: ArrayLike, /, *, keepdims: bool = False, ord: int | float | str | None = "fro"
) -> Any:
    """Compute a norm of each matrix: "fro", "nuc", 1, -1, 2, -2, inf or -inf.

    Raises:
        InvalidConfigError: `ord` is unknown.
    """
    if not (isinstance(ord, str) or _is_number(ord)):
        _refuse_order(ord)
    x = matrix("matrix_norm", x)
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        inner, outer_axis = (-2, -1) if ord in (1, -1) else (-1, -2)
        sums = sum(abs(x), axis=inner, keepdims=True)
        result = (_largest if ord > 0 else min)(sums, axis=outer_axis, keepdims=True)
    elif ord in ("nuc", 2, -2):
        s = svdvals(x)
        result = sum(s, axis=-1) if ord == "nuc" else _first(s) if ord == 2 else _last(s)
        result = expand_dims(expand_dims(result, axis=-1), axis=-1)
    else:
        _refuse_order(ord)
    return result if keepdims else squeeze(result, axis=(-2, -1))


def norm(
    x: Any, ord: int | float | str | None = None, axis: Axis = None, keepdims: bool = False, check_finite: bool = True
) -> Any:  # fmt: skip
    """Compute a norm as NumPy does: of vectors if `axis` is one axis, and of matrices if it is a pair of axes.

    If `axis` and `ord` are None, return the 2-norm of all elements. SciPy's `check_finite` has no effect.
    """
    x = as_operand(x)
    if axis is None:
        if ord is None:
            flat = vector_norm(x)
            return reshape(flat, (1,) * len(x.shape)) if keepdims else flat
        axis = tuple(range(len(x.shape)))
    normalize_axes("norm", axis, len(x.shape))
    axes = axis if isinstance(axis, tuple) else (axis,)
    if len(axes) == 1:
        return vector_norm(x, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ShapeError(f"norm: takes one or two axes, got {axes}")
    moved = moveaxis(x, axes, (-2, -1))
    result = matrix_norm(moved, ord="fro" if ord is None else ord)
    if not keepdims:
        return result
    shape = [
        1 if i in {operator.index(a) % len(x.shape) for a in axes} else n
        for i, n in enumerate(x.shape)
    ]
    return reshape(result, tuple(shape))


# ---- diagonals and products of vectors ---------------------------------------------------------------------


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Any:
    """Return the elements x[.., i, i + offset] of each matrix. The diagonal is along the last axis of the result.

    Raises:
        ShapeError: x is not a matrix.
        NonStaticShapeError: an extent depends on data, and the extents differ or `offset` is not 0.
    """
    x = as_operand(x)
    _require_matrix("diagonal", x)
    return manipulation.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Any:
    """Sum the elements x[.., i, i + offset] of each matrix. Narrow integers are summed in 64 bits.

    Raises:
        ShapeError: x is not a matrix.
    """
    x = as_operand(x)
    _require_matrix("trace", x)
    return linear.trace(x, offset, -2, -1, dtype)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """Multiply all pairs of elements of two vectors.

    Raises:
        ShapeError: an operand is not a vector; `tenferro.outer` flattens its operands.
    """
    x1, x2 = as_operand(x1), as_operand(x2)
    for x in (x1, x2):
        if spec_of(x).rank != 1:
            raise ShapeError(f"outer: needs vectors, got {spec_of(x)}; tenferro.outer flattens")
    return linear.outer(x1, x2)


# ---- products ----------------------------------------------------------------------------------------------


def matrix_power(a: ArrayLike, n: int) -> Any:
    """Compute the n-th power of a matrix by repeated squaring. If n is negative, the inverse is squared.

    Raises:
        ShapeError: the matrix is not square.
        InvalidConfigError: n is not an integer.
    """
    x = as_operand(a)
    _require_square("matrix_power", x)
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise InvalidConfigError(f"matrix_power: n must be an integer, got {n!r}")
    n = n.__index__()
    if n < 0:
        x, n = inv(x), -n
    result = None
    while n:
        if n & 1:
            result = x if result is None else matmul(result, x)
        n >>= 1
        if n:
            x = matmul(x, x)
    return _identity(x) if result is None else result


def multi_dot(arrays: Sequence[Any], *, out: None = None) -> Any:
    """Multiply several matrices in the order that needs the fewest operations. The first and last may be vectors."""
    refuse("multi_dot", "out", out)
    if len(arrays) < 2:
        raise InvalidConfigError(f"multi_dot: needs at least two arrays, got {len(arrays)}")
    operands = [as_operand(x) for x in arrays]
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    if len(operands) >= len(letters):
        left = multi_dot(operands[: len(operands) // 2])
        return matmul(left, multi_dot(operands[len(operands) // 2 :]))
    terms: list[str] = []
    for i, x in enumerate(operands):
        term = letters[i : i + 2]
        if len(x.shape) == 1:
            term = term[1] if i == 0 else term[0]
        terms.append(term)
    free = (terms[0][0] if len(operands[0].shape) == 2 else "") + (
        terms[-1][-1] if len(operands[-1].shape) == 2 else ""
    )
    return einsum(",".join(terms) + "->" + free, *operands)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Any:
    """Compute the cross product of vectors of three elements along an axis."""
    return products.cross(x1, x2, axis=axis)


PADE = (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
        129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0,
        40840800.0, 960960.0, 16380.0, 182.0, 1.0)  # fmt: skip
SQUARINGS = 24


def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = SQUARINGS) -> Any:  # noqa: N803  # because SciPy calls it so
    """Compute the matrix exponential, by scaling and squaring with the Pade approximant of degree 13.

    The number of squarings that a matrix needs depends on the data. The program always computes `max_squarings`
    squarings, and selects the result after the number that is needed.

    Args:
        max_squarings: the number n of squarings, for 1-norms up to 5.37 2^n; results for larger norms are inaccurate.
        upper_triangular: JAX's argument, without effect.

    Source: Higham, "The scaling and squaring method for the matrix exponential revisited", 2005.
    """
    x = square("expm", A)
    dtype = spec_of(x).dtype
    bound = _largest(sum(abs(x), axis=-2, keepdims=True), axis=-1, keepdims=True)
    scale = ones(bound.shape, dtype.real)
    for _ in range(max_squarings):
        scale = where(greater(multiply(bound, scale), 5.37), multiply(scale, 0.5), scale)
    scale = stop_gradient(scale)
    a = multiply(x, convert(scale, dtype))
    eye = _identity(a)
    b = PADE
    a2 = matmul(a, a)
    a4 = matmul(a2, a2)
    a6 = matmul(a4, a2)

    def polynomial(*terms: tuple[float, Any]) -> Any:
        total = None
        for factor, power in terms:
            part = multiply(power, factor)
            total = part if total is None else add(total, part)
        return total

    odd = matmul(a6, polynomial((b[13], a6), (b[11], a4), (b[9], a2)))
    odd = matmul(a, add(odd, polynomial((b[7], a6), (b[5], a4), (b[3], a2), (b[1], eye))))
    even = matmul(a6, polynomial((b[12], a6), (b[10], a4), (b[8], a2)))
    even = add(even, polynomial((b[6], a6), (b[4], a4), (b[2], a2), (b[0], eye)))
    result = _by_factors(subtract(even, odd), add(even, odd))
    for _ in range(max_squarings):
        pending = greater(1.0, scale)
        result = where(pending, matmul(result, result), result)
        scale = where(pending, multiply(scale, 2.0), scale)
    return result
