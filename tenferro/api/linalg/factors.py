"""Hessenberg forms, RQ factors, conversion of Schur forms, products with the factor Q, and angles of subspaces.

Source: SciPy 1.16, reference, scipy.linalg; `jax.scipy.linalg`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.api.creation import triu
from tenferro.api.determinant import adjoint
from tenferro.api.elementwise import (
    abs,
    acos,
    asin,
    clip,
    conj,
    divide,
    equal,
    greater,
    greater_equal,
    less_equal,
    square,
    subtract,
    where,
)
from tenferro.api.linalg import matrices
from tenferro.api.linalg.functions import of_static_order, schur
from tenferro.api.linear import matmul
from tenferro.api.manipulation import expand_dims, flip, matrix_transpose
from tenferro.api.padding import pad
from tenferro.api.promotion import convert
from tenferro.api.reductions import all as all_
from tenferro.api.reductions import max as max_
from tenferro.api.reductions import sum as sum_
from tenferro.dims import is_static
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import InvalidConfigError, ShapeError
from tenferro.ext.lapack.families import Gehrd, HouseholderProduct
from tenferro.extension import apply
from tenferro.types import ArrayLike, DType

__all__ = [
    "hessenberg", "ishermitian", "issymmetric", "orthogonal_procrustes", "pinvh", "qr_multiply", "rq", "rsf2csf", "subspace_angles",
]  # fmt: skip


def hessenberg(
    a: ArrayLike, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """Return the Hessenberg form H of `a`. If `calc_q`, also return the unitary Q with a = Q H Q^H.

    All elements of H below its first subdiagonal are zero.

    Args:
        overwrite_a, check_finite: no effect.

    Raises:
        ShapeError: a is not square.

    >>> hessenberg(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 2.],
           [3., 4.]])
    """
    x = matrices.square("hessenberg", a)
    n = x.shape[-1]
    if is_static(n) and n == 0:
        return (x, x) if calc_q else x
    packed, factors = apply(Gehrd(), x)
    form = triu(packed, -1)
    if not calc_q:
        return form
    if n < 2:
        return form, form * 0 + convert(np.eye(n), spec_of(form).dtype)
    inner = apply(HouseholderProduct(), packed[..., 1:, :-1], factors)
    corner = np.zeros((n, n))
    corner[0, 0] = 1
    padding = [(0, 0)] * (len(packed.shape) - 2) + [(1, 0), (1, 0)]
    return form, pad(inner, padding) + convert(corner, spec_of(packed).dtype)


def qr_multiply(
    a: ArrayLike, c: ArrayLike, mode: str = "right", pivoting: bool = False, conjugate: bool = False,
    overwrite_a: bool = False, overwrite_c: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the product of c with the factor Q of a = Q R, and the factor R.

    Args:
        c: a matrix or a vector.
        mode: "right" for the product c Q, "left" for Q c.
        pivoting: whether to also return the permutation p of columns, as `qr` does.
        conjugate: whether to multiply by the conjugate of Q.
        overwrite_a, overwrite_c: no effect.

    Raises:
        InvalidConfigError: `mode` is unknown. ShapeError: the shapes do not match.

    >>> qr_multiply(np.eye(2), np.array([1.0, 2.0]))[0]
    array([1., 2.])
    """
    if mode not in ("left", "right"):
        raise InvalidConfigError(f'qr_multiply: mode must be "left" or "right", got {mode!r}')
    x, matrix = matrices.matrix("qr_multiply", a), as_operand(c)
    q, *others = matrices.qr(x, pivoting=pivoting)
    q = conj(q) if conjugate else q
    return (matmul(q, matrix) if mode == "left" else matmul(matrix, q), *others)


def rq(
    a: ArrayLike, overwrite_a: bool = False, lwork: int | None = None, mode: str = "full", check_finite: bool = True
) -> Any:  # fmt: skip
    """Return R and Q with a = R Q. The last columns of R are an upper triangle, and Q has orthonormal rows.

    Args:
        mode: "full" for a square Q, "economic" for as few rows of Q as possible, or "r" to return only R.
        overwrite_a, lwork, check_finite: no effect.

    Raises:
        InvalidConfigError: `mode` is unknown. ShapeError: a is not a matrix.

    >>> r, q = rq(np.array([[3.0, 4.0]]))
    >>> np.abs(r).round(12)
    array([[0., 5.]])
    """
    if mode not in ("full", "economic", "r"):
        raise InvalidConfigError(f'rq: mode must be "full", "economic" or "r", got {mode!r}')
    x = matrices.matrix("rq", a)
    # E denotes the matrix that reverses the order of rows. If (E a)^H = Q' R', then a = (E R'^H E) (E Q'^H).
    q, r = matrices.qr(adjoint(flip(x, axis=-2)), "reduced" if mode == "economic" else "complete")
    right = flip(adjoint(q), axis=-2)
    left = flip(adjoint(r), axis=(-2, -1))
    return left if mode == "r" else (left, right)


def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Any, Any]:  # noqa: N803  # because SciPy calls them so
    """Convert a real Schur form to the complex Schur form, in which T is triangular; the product Z T Z^H is the same.

    Args:
        T, Z: the real Schur form and its unitary matrix, as `schur` returns them.
        check_finite: no effect.

    Raises:
        ShapeError: the shapes do not match.

    >>> form, _ = rsf2csf(np.array([[0.0, 1.0], [-1.0, 0.0]]), np.eye(2))
    >>> np.sort(np.diag(form).imag).round(12)
    array([-1.,  1.])
    """
    form, vectors = matrices.square("rsf2csf", T), matrices.square("rsf2csf", Z)
    if form.shape[-1] != vectors.shape[-1]:
        raise ShapeError(f"rsf2csf: {spec_of(vectors)} does not fit {spec_of(form)}")
    triangular, inner = schur(form, "complex")
    return triangular, matmul(convert(vectors, spec_of(inner).dtype), inner)


def orthogonal_procrustes(
    A: ArrayLike, B: ArrayLike, check_finite: bool = True  # noqa: N803  # because SciPy calls them so
) -> tuple[Any, Any]:  # fmt: skip
    """Return the unitary R that minimises |A R - B|, and the sum of the singular values of A^H B.

    Leading axes broadcast.

    Args:
        check_finite: no effect.

    Raises:
        ShapeError: the shapes differ.

    >>> orthogonal_procrustes(np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]]))
    (array([[0., 1.],
           [1., 0.]]), array(2.))

    Source: Schoenemann, Psychometrika 31 (1966).
    """
    x, y = matrices.matrix("orthogonal_procrustes", A), matrices.matrix("orthogonal_procrustes", B)
    if tuple(x.shape[-2:]) != tuple(y.shape[-2:]):
        raise ShapeError(
            f"orthogonal_procrustes: takes two matrices of one shape, got {spec_of(x)} and {spec_of(y)}"
        )
    u, s, vh = matrices.svd(matmul(adjoint(x), y))
    return matmul(u, vh), sum_(s, axis=-1)


def pinvh(
    a: ArrayLike, atol: float | None = None, rtol: float | None = None, lower: bool = True, return_rank: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    """Return the Moore-Penrose inverse of a Hermitian matrix, by its eigenvalues.

    Args:
        atol, rtol: an eigenvalue counts as 0 if its magnitude is at most atol + rtol times the largest magnitude. By
            default, atol is 0 and rtol is n eps. If only atol is passed, rtol is 0.
        lower: whether to read the lower triangle of a. Otherwise the upper triangle is read.
        return_rank: whether to also return the number of eigenvalues that do not count as 0.
        check_finite: no effect.

    Raises:
        ShapeError: a is not a square matrix.

    >>> pinvh(np.diag([2.0, 0.0]))
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    x = of_static_order("pinvh", a)
    n, dtype = x.shape[-1], spec_of(x).dtype.real.dtype
    if not n:
        return (x, np.zeros(x.shape[:-2], np.int64)) if return_rank else x
    values, vectors = matrices.eigh(x, "L" if lower else "U")
    relative = (n * np.finfo(dtype).eps if atol is None else 0.0) if rtol is None else rtol
    cutoff = (0.0 if atol is None else atol) + relative * max_(abs(values), axis=-1, keepdims=True)
    is_large = greater(abs(values), cutoff)
    inverse = where(is_large, divide(1.0, where(is_large, values, 1.0)), 0.0)
    scaled = vectors * convert(expand_dims(inverse, axis=-2), spec_of(vectors).dtype)
    result = matmul(scaled, adjoint(vectors))
    return (result, sum_(convert(is_large, DType.I64), axis=-1)) if return_rank else result


def subspace_angles(A: ArrayLike, B: ArrayLike) -> Any:  # noqa: N803  # because SciPy calls them so
    """Return the angles between the column spaces of two matrices of full rank, in radians and in descending order.

    Leading axes broadcast.

    Raises:
        ShapeError: the matrices differ in their number of rows.

    >>> subspace_angles(np.array([[1.0], [0.0]]), np.array([[1.0], [1.0]]))
    array([0.78539816])

    Source: Knyazev and Argentati, SIAM Journal on Scientific Computing 23 (2002).
    """
    x, y = matrices.matrix("subspace_angles", A), matrices.matrix("subspace_angles", B)
    if x.shape[-2] != y.shape[-2]:
        raise ShapeError(
            f"subspace_angles: takes matrices of as many rows, got {spec_of(x)} and {spec_of(y)}"
        )
    q, p = matrices.qr(x)[0], matrices.qr(y)[0]
    if q.shape[-1] < p.shape[-1]:
        q, p = p, q
    products = matmul(adjoint(q), p)
    cosines = flip(matrices.svdvals(products), axis=-1)
    sines = matrices.svdvals(subtract(p, matmul(q, products)))
    is_small = greater_equal(square(cosines), 0.5)
    small = asin(clip(where(is_small, sines, 0.0), -1.0, 1.0))
    return where(is_small, small, acos(clip(where(is_small, 0.0, cosines), -1.0, 1.0)))


def _is_equal(x: Any, y: Any, atol: float | None, rtol: float | None) -> Any:
    if atol is None and rtol is None:
        return all_(equal(x, y))
    bound = (atol or 0.0) + (rtol or 0.0) * abs(y)
    return all_(less_equal(abs(subtract(x, y)), bound))


def issymmetric(a: ArrayLike, atol: float | None = None, rtol: float | None = None) -> Any:
    """Return whether a square matrix equals its transpose, by default exactly.

    Args:
        atol, rtol: tolerances: |a - a^T| may be up to atol + rtol |a^T| in each element.

    >>> bool(issymmetric(np.array([[1, 2], [2, 1]])))
    True
    """
    x = as_operand(a)
    if len(x.shape) != 2 or x.shape[0] != x.shape[1]:
        raise ShapeError(f"issymmetric: takes a square matrix, got {spec_of(x)}")
    return _is_equal(x, matrix_transpose(x), atol, rtol)


def ishermitian(a: ArrayLike, atol: float | None = None, rtol: float | None = None) -> Any:
    """Return whether a square matrix equals its adjoint, by default exactly.

    Args:
        atol, rtol: tolerances: |a - a^H| may be up to atol + rtol |a^H| in each element.

    >>> bool(ishermitian(np.array([[1, 2j], [-2j, 1]])))
    True
    """
    x = as_operand(a)
    if len(x.shape) != 2 or x.shape[0] != x.shape[1]:
        raise ShapeError(f"ishermitian: takes a square matrix, got {spec_of(x)}")
    return _is_equal(x, adjoint(x), atol, rtol)
