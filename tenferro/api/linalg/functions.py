"""SciPy's functions of matrices, matrix equations, and factorisations. Many of them are computed from Schur forms.

LAPACK computes Schur forms, natively and on CPUs through PJRT. Derivatives of results are computed from the equations
that define the results, so that Schur forms need not be differentiated.

Source: SciPy 1.16, reference, scipy.linalg; Higham, "Functions of Matrices", 2008.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenferro.api.autodiff import jvp
from tenferro.api.control import fori_loop
from tenferro.api.custom import custom_jvp
from tenferro.api.determinant import adjoint
from tenferro.api.elementwise import abs as abs_
from tenferro.api.elementwise import (
    add,
    divide,
    equal,
    imag,
    isnan,
    less,
    less_equal,
    logical_and,
    multiply,
    negative,
    real,
    sqrt,
    subtract,
    where,
)
from tenferro.api.host_calls import pure_callback
from tenferro.api.implicit import custom_linear_solve
from tenferro.api.indexing import take
from tenferro.api.linalg.matrices import (
    by_triangle,
    cholesky,
    eig,
    eigh,
    expm,
    hermitian_of,
    solve,
    solve_triangular,
    square,
    svd,
)
from tenferro.api.linalg.structured import diagonal_matrix, with_equal_batch
from tenferro.api.linear import matmul
from tenferro.api.manipulation import concat, diagonal, expand_dims, matrix_transpose, squeeze
from tenferro.api.padding import pad
from tenferro.api.promotion import as_inexact, convert
from tenferro.api.reductions import max as max_
from tenferro.dims import is_static
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import InvalidConfigError, NonStaticShapeError, ShapeError, UnsupportedError
from tenferro.ext.lapack.families import Gees
from tenferro.extension import apply
from tenferro.types import ArrayLike, DType, Tensor, TensorSpec

__all__ = [
    "cho_factor", "cho_solve", "eigh_tridiagonal", "expm_frechet", "funm", "polar", "schur", "solve_sylvester", "sqrtm",
]  # fmt: skip


def of_static_order(name: str, a: ArrayLike) -> Any:
    """Return square matrices as a tensor of an inexact dtype.

    Raises:
        ShapeError: the matrices are not square. NonStaticShapeError: their order is symbolic.
    """
    x = square(name, a)
    if not is_static(x.shape[-1]):
        raise NonStaticShapeError(f"{name}: needs a known order, got {spec_of(x)}")
    return x


def refuse_estimate(name: str, disp: bool) -> None:
    """Raise an error if SciPy's argument `disp` is False, which asks for an estimate of the error, too.

    Raises:
        UnsupportedError: `disp` is False.
    """
    if not disp:
        raise UnsupportedError(
            f"{name}: disp=False is not supported, because the estimate of the error is not computed; leave it out"
        )


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, bool]:
    """Return the Cholesky factor of `a` and the argument `lower`, as a pair for `cho_solve`.

    The factor is a triangular matrix whose other triangle is zero.

    Args:
        a: Hermitian positive definite matrices, of which only one triangle is read.
        lower: whether to read the lower triangle of `a`, and return a lower factor. By default both are upper.
        overwrite_a, check_finite: no effect.

    Raises:
        ShapeError: a is not square.

    >>> cho_factor(np.array([[4.0, 2.0], [2.0, 5.0]]))[0]
    array([[2., 1.],
           [0., 2.]])
    """
    return cholesky(hermitian_of(a, "L" if lower else "U"), upper=not lower), bool(lower)


def cho_solve(
    c_and_lower: tuple[ArrayLike, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True
) -> Any:  # fmt: skip
    """Solve a x = b for x.

    Args:
        c_and_lower: the pair that `cho_factor` returned for `a`.
        overwrite_b, check_finite: no effect.

    Raises:
        ShapeError: the numbers of rows differ.

    >>> cho_solve(cho_factor(np.array([[4.0, 2.0], [2.0, 5.0]])), np.array([6.0, 7.0]))
    array([1., 1.])
    """
    return by_triangle(*c_and_lower, b)


def selection(name: str, select: str, select_range: Sequence[float] | None) -> dict[str, Any]:
    """Convert SciPy's arguments `select` and `select_range` to arguments of `eigh`.

    Raises:
        InvalidConfigError: `select` is unknown, or `select_range` is missing or not needed.
    """
    if select not in ("a", "i", "v") or (select == "a") != (select_range is None):
        raise InvalidConfigError(
            f'{name}: select must be "a", or "i" or "v" with a range; got {select!r}, {select_range}'
        )
    return {"a": {}, "i": {"subset_by_index": select_range}, "v": {"subset_by_value": select_range}}[select]  # fmt: skip


def eigh_tridiagonal(
    d: ArrayLike, e: ArrayLike, eigvals_only: bool = False, select: str = "a", select_range: Sequence[float] | None = None,
    check_finite: bool = True, tol: float = 0.0, lapack_driver: str = "auto",
) -> Any:  # fmt: skip
    """Return the eigenvalues in ascending order, and the eigenvectors, of a symmetric tridiagonal matrix.

    Args:
        d, e: the main diagonal, and the diagonal above it, in the last axis; leading axes broadcast.
        select: the eigenvalues to return: "a" all, "i" from the first to the last index in select_range, "v" those in
            the interval (low, high] in select_range.
        check_finite, tol, lapack_driver: no effect.

    Raises:
        ShapeError: the length of e is not one less than that of d. InvalidConfigError: `select` is unknown.
        DataDependentShapeError: `select` is "v", and the matrix is traced.

    >>> eigh_tridiagonal([2.0, 2.0], [1.0], eigvals_only=True)
    array([1., 3.])
    """
    diagonal_, off_diagonal = as_operand(d), as_operand(e)
    if not (diagonal_.shape and off_diagonal.shape) or off_diagonal.shape[-1] != diagonal_.shape[-1] - 1:  # fmt: skip
        raise ShapeError(
            f"eigh_tridiagonal: {spec_of(off_diagonal)} is not beside {spec_of(diagonal_)}"
        )
    chosen = selection("eigh_tridiagonal", select, select_range)
    diagonal_, off_diagonal = with_equal_batch(1, diagonal_, off_diagonal)
    batch = [(0, 0)] * (len(diagonal_.shape) - 1)
    above = pad(diagonal_matrix(off_diagonal), [*batch, (0, 1), (1, 0)])
    matrix = add(diagonal_matrix(diagonal_), add(above, adjoint(above)))
    result = eigh(matrix, eigvals_only=eigvals_only, **chosen)
    return result if eigvals_only else tuple(result)


def polar(a: ArrayLike, side: str = "right") -> tuple[Any, Any]:
    """Return the polar factors u and p of `a`: a = u p if `side` is "right", and a = p u if `side` is "left".

    u has orthonormal columns or rows, and p is positive semidefinite.

    Raises:
        InvalidConfigError: `side` is unknown. ShapeError: a is not a matrix.

    >>> polar(np.array([[0.0, -2.0], [2.0, 0.0]]))
    (array([[ 0., -1.],
           [ 1.,  0.]]), array([[2., 0.],
           [0., 2.]]))
    """
    if side not in ("left", "right"):
        raise InvalidConfigError(f'polar: side must be "left" or "right", got {side!r}')
    w, s, vh = svd(a, full_matrices=False)
    scale = expand_dims(s, axis=-2)
    if side == "right":
        v = adjoint(vh)
        return matmul(w, vh), matmul(multiply(v, convert(scale, spec_of(v).dtype)), vh)
    return matmul(w, vh), matmul(multiply(w, convert(scale, spec_of(w).dtype)), adjoint(w))


def schur(
    a: ArrayLike, output: str = "real", lwork: int | None = None, overwrite_a: bool = False,
    sort: str | Callable[..., Any] | None = None, check_finite: bool = True,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the Schur form T and the unitary Z with a = Z T Z^H, and with `sort` the number of selected eigenvalues.

    Leading axes are batch axes. T and Z are NaN if a matrix is not finite.

    Args:
        output: "complex" for an upper triangular T, or "real". For "real" and a real matrix, T and Z are real; a pair
            of complex eigenvalues is then a 2 by 2 block on the diagonal of T.
        sort: selects eigenvalues w, which are moved to the top of T: "lhp" for Re w < 0, "rhp" for Re w >= 0, "iuc" for
            |w| <= 1, "ouc" for |w| > 1, or a function of one eigenvalue. For a real T, the function takes its real and
            its imaginary part. A program calls SciPy for this, as by `pure_callback`.
        lwork, overwrite_a, check_finite: no effect.

    Raises:
        ShapeError: a is not square. InvalidConfigError: `output` or `sort` is unknown.

    >>> schur(np.array([[2.0, 0.0], [0.0, 1.0]]))[0]
    array([[2., 0.],
           [0., 1.]])
    >>> schur(np.array([[2.0, 0.0], [0.0, -1.0]]), sort="lhp")[2]
    array(1)
    """
    if output not in ("real", "complex", "r", "c"):
        raise InvalidConfigError(f'schur: output must be "real" or "complex", got {output!r}')
    x = square("schur", a)
    if output in ("complex", "c"):
        x = in_complex(x)
    if sort is None:
        t, z, *_ = apply(Gees(), x)
        return t, z
    if not callable(sort) and sort not in ("lhp", "rhp", "iuc", "ouc"):
        raise InvalidConfigError(
            f'schur: sort must be a function, "lhp", "rhp", "iuc", "ouc" or None, got {sort!r}'
        )
    spec = spec_of(x)
    types: Any = (spec, spec, TensorSpec(spec.shape[:-2], DType.I64))
    ordered = functools.partial(_sorted_schur, sort)
    return pure_callback(ordered, types, x, vmap_method="broadcast_all")


def _sorted_schur(sort: Any, a: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the sorted Schur forms of arrays of matrices, by SciPy."""
    import scipy.linalg  # because it is slow to import

    t, z, counts = np.full_like(a, np.nan), np.full_like(a, np.nan), np.zeros(a.shape[:-2], int)
    for index in np.ndindex(counts.shape):
        if np.isfinite(a[index]).all():
            sorted_form: Any = scipy.linalg.schur(a[index], sort=sort)
            t[index], z[index], counts[index] = sorted_form
    return t, z, counts


def in_complex(x: Tensor) -> Any:
    dtype = spec_of(x).dtype
    if dtype.is_complex:
        return x
    return convert(x, DType.C32 if dtype is DType.F32 else DType.C64)


def as_in(x: Tensor, like: Tensor) -> Any:
    """Return the real part of x if `like` is real, otherwise x."""
    return x if spec_of(like).dtype.is_complex else real(x)


def solve_sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> Any:
    """Solve a x + x b = q for x, for matrices a (.., m, m), b (.., n, n) and q (.., m, n); leading axes broadcast.

    The solution is unique if no eigenvalue of a is the negative of an eigenvalue of b.

    Raises:
        ShapeError: the shapes do not match.

    >>> solve_sylvester(np.array([[1.0]]), np.array([[2.0]]), np.array([[6.0]]))
    array([[2.]])

    Source: Bartels and Stewart, Communications of the ACM 15 (1972).
    """
    lhs, rhs = of_static_order("solve_sylvester", a), of_static_order("solve_sylvester", b)
    right = as_inexact(as_operand(q))
    if tuple(right.shape[-2:]) != (lhs.shape[-1], rhs.shape[-1]):
        raise ShapeError(
            f"solve_sylvester: {spec_of(right)} does not fit {spec_of(lhs)} and {spec_of(rhs)}"
        )
    return _sylvester(*with_equal_batch(2, lhs, rhs, right))


def _sylvester(a: Tensor, b: Tensor, q: Tensor) -> Any:
    """Solve a x + x b = q. The derivatives of x solve the same equation with other right-hand sides."""
    return custom_linear_solve(
        lambda x: add(matmul(a, x), matmul(x, b)),
        q,
        lambda _, q: _by_schur_forms(a, b, q),
        lambda _, q: _by_schur_forms(matrix_transpose(a), matrix_transpose(b), q),
    )


def _by_schur_forms(a: Tensor, b: Tensor, q: Tensor) -> Any:
    r, u = schur(a, "complex")
    s, v = schur(b, "complex")
    f = matmul(matmul(adjoint(u), in_complex(q)), v)
    # Column j of y solves (r + s_jj I) y_j = f_j - sum_{k<j} y_k s_kj.
    eye = np.eye(a.shape[-1], dtype=spec_of(r).dtype.dtype)
    columns: list[Any] = []
    for j in range(b.shape[-1]):
        rest = f[..., j : j + 1]
        if columns:
            rest = subtract(rest, matmul(concat(columns, axis=-1), s[..., :j, j : j + 1]))
        columns.append(solve_triangular(add(r, multiply(s[..., j : j + 1, j : j + 1], eye)), rest))
    y = concat(columns, axis=-1) if columns else f
    return as_in(matmul(matmul(u, y), adjoint(v)), q)


def sqrtm(A: ArrayLike, disp: bool = True, blocksize: int | None = None) -> Any:  # noqa: N803  # because SciPy calls it so
    """Return the principal square root x of A: x x = A, and the eigenvalues of x have real parts >= 0.

    The result is complex; leading axes are batch axes.

    Args:
        disp: must be True.
        blocksize: no effect.

    Raises:
        ShapeError: A is not square. UnsupportedError: `disp` is False.

    >>> sqrtm(np.array([[4.0, 0.0], [0.0, 9.0]])).real
    array([[2., 0.],
           [0., 3.]])

    Source: Bjoerck and Hammarling, Linear Algebra and its Applications 52 (1983).
    """
    refuse_estimate("sqrtm", disp)
    return _sqrtm(in_complex(of_static_order("sqrtm", A)))


@custom_jvp
def _sqrtm(a: Tensor) -> Any:
    t, z = schur(a, "complex")
    n = a.shape[-1]
    roots = sqrt(_above_cut(diagonal(t, 0, -2, -1)))
    rows = np.arange(n)
    eye = convert(np.eye(n), spec_of(t).dtype)

    def column(j: Any, u: Any) -> Any:
        # Column j of the root u solves (u + u_jj I) u_j = t_j above the diagonal.
        root = expand_dims(take(roots, j, axis=-1), axis=-1)
        right = where(less(rows, j), take(t, j, axis=-1), 0)
        system = add(u, multiply(expand_dims(root, axis=-1), eye))
        above = squeeze(solve_triangular(system, expand_dims(right, axis=-1)), axis=-1)
        own = where(less(rows, j), above, where(equal(rows, j), root, 0))
        return where(equal(rows, j), expand_dims(own, axis=-1), u)

    u = fori_loop(0, n, column, diagonal_matrix(roots)) if n else t
    return matmul(matmul(z, u), adjoint(z))


def _above_cut(values: Any) -> Any:
    """Replace eigenvalues that are negative except for rounding by negative numbers.

    In the Schur form of a real matrix, negative eigenvalues may have small imaginary parts of either sign. Their square
    roots would then also have either sign.
    """
    if not values.shape[-1]:
        return values
    rounding = 64 * float(np.finfo(spec_of(values).dtype.real.dtype).eps)
    height = imag(values)
    bound = multiply(max_(abs_(values), axis=-1, keepdims=True), rounding)
    is_on_axis = logical_and(less(real(values), 0.0), less_equal(abs_(height), bound))
    return where(is_on_axis, convert(real(values), spec_of(values).dtype), values)


@_sqrtm.defjvp
def _sqrtm_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    x = _sqrtm(primals[0])
    return x, _sylvester(x, x, tangents[0])


def expm_frechet(
    A: ArrayLike, E: ArrayLike, method: str | None = None, compute_expm: bool = True, check_finite: bool = True  # noqa: N803  # because SciPy calls them so
) -> Any:  # fmt: skip
    """Return expm(A) and its derivative in the direction E; leading axes broadcast.

    expm(A) is the upper left block of expm([[A, E], [0, A]]), and the derivative is its upper right block.

    Args:
        method, check_finite: no effect.
        compute_expm: whether to return both. Otherwise only the derivative is returned.

    Raises:
        ShapeError: A is not square, E has a different order, or leading axes do not broadcast.

    >>> expm_frechet(np.zeros((1, 1)), np.array([[3.0]]))
    (array([[1.]]), array([[3.]]))

    Source: Mathias, SIAM Journal on Matrix Analysis and Applications 17 (1996).
    """
    x, direction = square("expm_frechet", A), square("expm_frechet", E)
    n = x.shape[-1]
    if direction.shape[-1] != n:
        raise ShapeError(f"expm_frechet: {spec_of(direction)} is not a direction of {spec_of(x)}")
    x, direction = with_equal_batch(2, x, direction)
    top = concat([x, direction], axis=-1)
    both = expm(concat([top, concat([multiply(x, 0), x], axis=-1)], axis=-2))
    slope = both[..., :n, n:]
    return (both[..., :n, :n], slope) if compute_expm else slope


def funm(A: ArrayLike, func: Callable[[Any], Any], disp: bool = True) -> Any:  # noqa: N803  # because SciPy calls it so
    """Return the function `func` of a matrix A, by Parlett's recurrence on the Schur form of A.

    The result loses digits if eigenvalues are close to each other, and is NaN if eigenvalues are equal. The derivative is
    that of v func(w) v^-1, with the eigenvalues w and the eigenvectors v of A. The real part of the result is returned
    if A is real. Leading axes are batch axes.

    Args:
        func: a scalar function, which is called on the array of eigenvalues and acts elementwise. A derivative needs a
            function that can be traced.
        disp: must be True.

    Raises:
        ShapeError: A is not square. UnsupportedError: `disp` is False.

    >>> np.round(funm(np.array([[1.0, 1.0], [0.0, 2.0]]), np.square).real, 12)
    array([[1., 3.],
           [0., 4.]])

    Source: Golub and Van Loan, "Matrix Computations", algorithm 9.1.1.
    """
    refuse_estimate("funm", disp)
    return _funm(of_static_order("funm", A), func)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _funm(x: Tensor, func: Callable[[Any], Any]) -> Any:
    t, z = schur(x, "complex")
    values = diagonal(t, 0, -2, -1)
    f = diagonal_matrix(convert(func(values), spec_of(t).dtype))
    n = x.shape[-1]
    gaps = subtract(expand_dims(values, axis=-2), expand_dims(values, axis=-1))
    for p in range(1, n):
        # f commutes with t. Therefore, for i, j on diagonal p, f_ij (t_jj - t_ii) equals -(f t - t f)_ij, in which f
        # has only its diagonals 0 to p - 1. These diagonals are computed already.
        commutator = subtract(matmul(f, t), matmul(t, f))
        is_here = np.eye(n, k=p, dtype=bool)
        f = where(is_here, divide(negative(commutator), where(is_here, gaps, 1)), f)
    return as_in(matmul(matmul(z, f), adjoint(z)), x)


@_funm.defjvp
def _funm_jvp(func: Callable[[Any], Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    def by_eigenvectors(x: Tensor) -> Any:
        values, vectors = eig(x)
        scaled = multiply(vectors, expand_dims(func(values), axis=-2))
        # y v = v f(w), transposed.
        y = matrix_transpose(solve(matrix_transpose(vectors), matrix_transpose(scaled)))
        return as_in(y, x)

    y = _funm(primals[0], func)
    tangent = jvp(by_eigenvectors, tuple(primals), tuple(tangents))[1]
    return y, multiply(tangent, where(isnan(y), np.nan, 1.0))
