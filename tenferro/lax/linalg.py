"""`tenferro.lax.linalg`: factorisations of matrices, with the names and signatures of `jax.lax.linalg`.

The last two axes are those of the matrices, and leading axes are batch axes. Arguments that select an algorithm are
omitted, because each executor chooses its own.

Source: the module of that name in JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenferro.api import linalg as surface
from tenferro.api.creation import tril, triu, zeros_like
from tenferro.api.determinant import adjoint
from tenferro.api.elementwise import add, conj, multiply, subtract, where
from tenferro.api.linalg.matrices import hermitian_of, square
from tenferro.api.manipulation import concat, diagonal, expand_dims, matrix_transpose
from tenferro.api.promotion import broadcast_to, convert
from tenferro.counterparts import open_namespace
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import InvalidConfigError, ShapeError, UnsupportedError
from tenferro.ext.lapack import families as lapack
from tenferro.extension import apply
from tenferro.lax.operands import same_dtype
from tenferro.types import ArrayLike, DType

__all__ = [
    "cholesky",
    "cholesky_update",
    "eig",
    "eigh",
    "hessenberg",
    "householder_product",
    "lu",
    "lu_pivots_to_permutation",
    "ormqr",
    "qr",
    "schur",
    "svd",
    "symmetric_product",
    "triangular_solve",
    "tridiagonal",
    "tridiagonal_solve",
]


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Any:
    """Return the lower triangular L with x = L L^H; NaN for matrices that are not positive definite.

    Args:
        symmetrize_input: whether to factorise (x + x^H) / 2. Otherwise only the lower triangle of x is read.

    Raises:
        ShapeError, DTypeError: x is not square, or its dtype is neither float nor complex.

    >>> import numpy as np
    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[2., 0.],
           [1., 2.]])
    """
    return surface.cholesky(hermitian_of(x, None if symmetrize_input else "L"))


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Any:
    """Return the upper triangular U with U^T U = R^T R + w w^T, where R is `r_matrix` and w is `w_vector`.

    U is the triangular QR factor of R with the row w^T appended. Its diagonal is nonnegative.

    Raises:
        ShapeError, DTypeError: the extent of the vector is not that of the matrix, or the dtypes differ.

    >>> import numpy as np
    >>> cholesky_update(np.array([[3.0]]), np.array([4.0]))
    array([[5.]])

    Source: Golub and Van Loan, "Matrix Computations", section 6.5.4.
    """
    r, w = same_dtype("linalg.cholesky_update", r_matrix, w_vector)
    if len(w.shape) != 1 or tuple(r.shape) != (w.shape[0], w.shape[0]):
        raise ShapeError(
            f"lax.linalg.cholesky_update: takes a matrix (n, n) and a vector (n,), got {spec_of(r)} and {spec_of(w)}"
        )
    updated = surface.qr(concat([r, expand_dims(w, axis=0)], axis=0), mode="r")
    is_negative = expand_dims(diagonal(updated) < 0, axis=1)
    return where(is_negative, -updated, updated)


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
) -> list[Any]:
    """Return the eigenvalues, left eigenvectors u (u^H x = w u^H) and right eigenvectors v (x v = w v), all complex.

    Args:
        compute_left_eigenvectors, compute_right_eigenvectors: whether the returned list contains these eigenvectors.
        enable_eigvec_derivs: no effect. Eigenvectors are differentiable if their eigenvalues differ.

    Raises:
        ShapeError: x is not square.

    >>> import numpy as np
    >>> eig(np.array([[2.0]]), compute_left_eigenvectors=False)
    [array([2.+0.j]), array([[1.+0.j]])]
    """
    w, left, right = apply(lapack.Geev(), square("lax.linalg.eig", x))
    vectors = ((left, compute_left_eigenvectors), (right, compute_right_eigenvectors))
    return [w, *[v for v, is_wanted in vectors if is_wanted]]


def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
) -> tuple[Any, Any]:
    """Return the eigenvectors, and the eigenvalues in ascending order, of a Hermitian matrix.

    Args:
        lower: if `symmetrize_input` is False, whether the lower triangle is read, or else the upper triangle.
        symmetrize_input: whether (x + x^H) / 2 is factorised instead of a triangle.
        sort_eigenvalues: no effect. Eigenvalues are always sorted.
        subset_by_index: the index of the first eigenvalue to return, and the index after the last.

    Raises:
        ShapeError: x is not square.

    >>> import numpy as np
    >>> eigh(np.array([[2.0, 0.0], [0.0, 1.0]]), subset_by_index=(0, 1))[1]
    array([1.])
    """
    triangle = None if symmetrize_input else "L" if lower else "U"
    w, v = surface.eigh(x, triangle)
    if subset_by_index is not None:
        first, last = subset_by_index
        w, v = w[..., first:last], v[..., first:last]
    return v, w


def hessenberg(a: ArrayLike) -> tuple[Any, Any]:
    """Return a Hessenberg matrix that is unitarily similar to a, and the factors of the Householder vectors.

    The Householder vectors are packed below the Hessenberg matrix.

    Raises:
        ShapeError: a is not square.

    >>> import numpy as np
    >>> hessenberg(np.array([[1.0, 2.0], [3.0, 4.0]]))
    (array([[1., 2.],
           [3., 4.]]), array([0.]))
    """
    packed, factors = apply(lapack.Gehrd(), square("lax.linalg.hessenberg", a))
    return packed, factors


def householder_product(a: ArrayLike, taus: ArrayLike) -> Any:
    """Return the leading columns of the product of the reflectors 1 - tau_i v_i v_i^H, as many as a has.

    Args:
        a: matrices (m, n) with v_i in column i below the diagonal, as LAPACK's geqrf packs them.
        taus: the factors tau_i, one per reflector. There are at most n.

    Raises:
        ShapeError, DTypeError: the shapes or dtypes do not fit.

    >>> import numpy as np
    >>> householder_product(np.array([[5.0], [0.5]]), np.array([1.6]))
    array([[-0.6],
           [-0.8]])
    """
    return apply(lapack.HouseholderProduct(), *same_dtype("linalg.householder_product", a, taus))


def lu(x: ArrayLike) -> tuple[Any, Any, Any]:
    """Return L and U in one matrix, the row swaps, and the permutation of rows.

    L is stored below the diagonal, and U on and above the diagonal. For i = 0, 1, .. in turn, the factorisation swaps
    row i with row swaps[i]. Then x[permutation] = L U. Swaps and permutation are int32.

    Raises:
        ShapeError: x is not a matrix.

    >>> import numpy as np
    >>> lu(np.array([[0.0, 1.0], [2.0, 0.0]]))[1:]
    (array([1, 1], dtype=int32), array([1, 0], dtype=int32))
    """
    operand = as_operand(x)
    if len(operand.shape) < 2:
        raise ShapeError(f"lax.linalg.lu: needs a matrix, got {spec_of(operand)}")
    packed, pivots, _ = apply(lapack.Getrf(), operand)
    pivots = subtract(pivots, convert(1, DType.I32))
    return packed, pivots, lu_pivots_to_permutation(pivots, operand.shape[-2])


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Any:
    """Return 0, .., permutation_size - 1 after swapping entries i and pivots[i] for i = 0, 1, .. in turn.

    Raises:
        DTypeError, ShapeError: the pivots are not integers, or have no axis.

    >>> import numpy as np
    >>> lu_pivots_to_permutation(np.array([2, 1]), 3)
    array([2, 1, 0])
    """
    return apply(lapack.PivotsToPermutation(int(permutation_size)), as_operand(pivots))


def ormqr(
    a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False
) -> Any:
    """Return Q c, where Q is the square product of the reflectors in `a` and `taus`; see `householder_product`.

    Args:
        left: whether to multiply c by Q from the left. Otherwise the result is c Q.
        transpose: whether to multiply by Q^H instead of Q.

    Raises:
        ShapeError, DTypeError: the shapes or dtypes do not fit.

    >>> import numpy as np
    >>> ormqr(np.array([[5.0], [0.5]]), np.array([1.6]), np.array([[1.0], [0.0]]))
    array([[-0.6],
           [-0.8]])
    """
    reflectors, factors, matrix = same_dtype("linalg.ormqr", a, taus, c)
    rows = reflectors.shape[-2]
    q = householder_product(_with_columns(reflectors, rows), factors)
    q = adjoint(q) if transpose else q
    return surface.matmul(q, matrix) if left else surface.matmul(matrix, q)


def _with_columns(x: Any, count: int) -> Any:
    """Return x with `count` columns: further columns are removed, and missing columns are zero."""
    missing = count - x.shape[-1]
    if missing <= 0:
        return x[..., :count]
    filler = zeros_like(broadcast_to(x[..., :1], (*x.shape[:-1], missing)))
    return concat([x, filler], axis=-1)


def qr(x: ArrayLike, *, pivoting: bool = False, full_matrices: bool = True) -> tuple[Any, ...]:
    """Return Q and R with x = Q R.

    Args:
        pivoting: whether to permute columns such that |diagonal of R| descends. The third result is then the
            permutation p, with x[:, p] = Q R.
        full_matrices: whether Q is square. Otherwise Q has as many columns as R has rows.

    Raises:
        ShapeError: x is not a matrix.

    >>> import numpy as np
    >>> qr(np.array([[1.0, 0.0], [0.0, 2.0]]), pivoting=True)[2]
    array([1, 0], dtype=int32)
    """
    if not pivoting:
        return tuple(surface.qr(x, "complete" if full_matrices else "reduced"))
    operand = as_operand(x)
    if len(operand.shape) < 2:
        raise ShapeError(f"lax.linalg.qr: needs a matrix, got {spec_of(operand)}")
    packed, order, taus = apply(lapack.Geqp3(), operand)
    rows, columns = operand.shape[-2:]
    width = rows if full_matrices else min(rows, columns)
    q = householder_product(_with_columns(packed, width), taus)
    return q, triu(packed)[..., :width, :], subtract(order, convert(1, DType.I32))


def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> tuple[Any, ...]:
    """Return an upper triangular T and a unitary Z with x = Z T Z^H.

    Args:
        x: square matrices. If x is real, T is also real, with a 2 x 2 block on its diagonal for each conjugate pair.
        compute_schur_vectors: whether to return Z. Otherwise the result is a tuple that contains only T.
        sort_eig_vals, select_callable: must be False and None.

    Raises:
        ShapeError: x is not square.
        UnsupportedError: a sorted form is requested.

    >>> import numpy as np
    >>> schur(np.array([[2.0, 0.0], [0.0, 1.0]]))[0]
    array([[2., 0.],
           [0., 1.]])
    """
    if sort_eig_vals or select_callable is not None:
        raise UnsupportedError("lax.linalg.schur: eigenvalues are not sorted; use False and None")
    form, vectors, *_ = apply(lapack.Gees(), square("lax.linalg.schur", x))
    return (form, vectors) if compute_schur_vectors else (form,)


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """Return U, s and V^H with x = U diag(s) V^H, where s descends. Without `compute_uv`, return s alone.

    Args:
        full_matrices: whether U and V^H are square. Otherwise they have one vector per singular value.
        subset_by_index: the index of the first singular value to return, and the index after the last.

    Raises:
        ShapeError: x is not a matrix.
        InvalidConfigError: `subset_by_index` is combined with `full_matrices`.

    >>> import numpy as np
    >>> svd(np.array([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False)
    array([4., 3.])
    """
    first, last = (None, None) if subset_by_index is None else subset_by_index
    if not compute_uv:
        return surface.svdvals(x)[..., first:last]
    if full_matrices and subset_by_index is not None:
        raise InvalidConfigError(
            "lax.linalg.svd: a subset has no square U and V^H; pass full_matrices=False"
        )
    u, s, vh = surface.svd(x, full_matrices=full_matrices)
    if subset_by_index is None:
        return u, s, vh
    return u[..., first:last], s[..., first:last], vh[..., first:last, :]


def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Any:
    """Return alpha a a^T + beta c, where a is `a_matrix`, and c is the symmetric matrix `c_matrix`.

    Args:
        symmetrize_output: whether to copy the lower triangle of the result to the upper triangle.

    Raises:
        ShapeError, DTypeError: the shapes or dtypes do not fit.

    >>> import numpy as np
    >>> symmetric_product(np.array([[1.0, 2.0]]), np.array([[1.0]]), beta=3.0)
    array([[8.]])
    """
    a, c = same_dtype("linalg.symmetric_product", a_matrix, c_matrix)
    product = multiply(surface.matmul(a, matrix_transpose(a)), alpha)
    if tuple(product.shape) != tuple(c.shape):
        raise ShapeError(
            f"lax.linalg.symmetric_product: {spec_of(c)} is not of the shape of the product, {spec_of(product)}"
        )
    total = add(product, multiply(c, beta))
    if not symmetrize_output:
        return total
    low = tril(total, k=-1)
    return add(tril(total), matrix_transpose(low))


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    """Return X with X op(a) = b or, with `left_side`, op(a) X = b, where a is triangular.

    Args:
        lower: whether a is lower triangular, or else upper triangular. The other triangle of a is not read.
        transpose_a, conjugate_a: whether op transposes and conjugates a.
        unit_diagonal: whether the diagonal is assumed to be ones, and not read.

    Raises:
        ShapeError, DTypeError: the shapes or dtypes do not fit.

    >>> import numpy as np
    >>> triangular_solve(np.array([[2.0]]), np.array([[6.0]]))
    array([[3.]])
    """
    matrix, right = same_dtype("linalg.triangular_solve", a, b)
    matrix = conj(matrix) if conjugate_a else matrix
    # X op(a) = b is solved as op(a)^T X^T = b^T.
    trans = "T" if bool(transpose_a) == bool(left_side) else "N"
    right = right if left_side else matrix_transpose(right)
    solution = surface.solve_triangular(
        matrix, right, lower=lower, unit_diagonal=unit_diagonal, trans=trans
    )
    return solution if left_side else matrix_transpose(solution)


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Any, Any, Any, Any]:
    """Return a real tridiagonal matrix that is unitarily similar to a Hermitian matrix a.

    Only one triangle of a is read. The results are the packed Householder vectors, the diagonal, the off-diagonal, and
    the factors of the vectors.

    Raises:
        ShapeError: a is not square.

    >>> import numpy as np
    >>> tridiagonal(np.array([[1.0, 2.0], [2.0, 3.0]]))[1:3]
    (array([1., 3.]), array([2.]))
    """
    packed, d, e, taus = apply(lapack.Sytrd(bool(lower)), square("lax.linalg.tridiagonal", a))
    return packed, d, e, taus


def tridiagonal_solve(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False
) -> Any:
    """Return X with T X = b. The tridiagonal matrix T has `d` on, `dl` below, and `du` above the diagonal.

    Args:
        dl, d, du: vectors of the same extent. The elements dl[0] and du[-1] are not read.
        b: matrices of right-hand sides.
        perturb_singular: must be False.

    Raises:
        ShapeError, DTypeError: the shapes or dtypes do not fit.
        UnsupportedError: perturb_singular is True.

    >>> import numpy as np
    >>> tridiagonal_solve(np.zeros(2), np.array([2.0, 4.0]), np.zeros(2), np.ones((2, 1)))
    array([[0.5 ],
           [0.25]])
    """
    if perturb_singular:
        raise UnsupportedError("lax.linalg.tridiagonal_solve: singular matrices are not perturbed")
    bands = same_dtype("linalg.tridiagonal_solve", dl, d, du, b)
    return apply(lapack.Gtsv(), *bands)[0]


open_namespace(globals(), __all__, "tnf.lax.linalg")
