"""Lyapunov equations, systems with Toeplitz and circulant matrices, and banded Hermitian matrices.

Source: SciPy 1.16, reference, scipy.linalg.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.api.determinant import adjoint
from tenferro.api.elementwise import abs, conj, divide, less_equal, multiply, real, subtract, where
from tenferro.api.fft import fft, ifft
from tenferro.api.linalg.functions import (
    eigh_tridiagonal,
    of_static_order,
    selection,
    solve_sylvester,
)
from tenferro.api.linalg.matrices import by_triangle, cholesky, eigh, hermitian_of, inv, solve
from tenferro.api.linalg.structured import elements_at, from_bands, toeplitz, with_equal_batch
from tenferro.api.linear import matmul
from tenferro.api.manipulation import expand_dims, moveaxis, reshape
from tenferro.api.promotion import as_inexact
from tenferro.api.reductions import max
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import InvalidConfigError, ShapeError
from tenferro.types import ArrayLike

__all__ = [
    "cho_solve_banded", "cholesky_banded", "eig_banded", "eigvals_banded", "eigvalsh_tridiagonal", "matmul_toeplitz", "solve_circulant",
    "solve_continuous_lyapunov", "solve_discrete_lyapunov", "solve_lyapunov", "solve_toeplitz", "solveh_banded",
]  # fmt: skip

LARGEST_KRONECKER = 9
"""Maximum order of a discrete Lyapunov equation that is solved as one linear system by default."""


def solve_continuous_lyapunov(a: ArrayLike, q: ArrayLike) -> Any:
    """Solve a x + x a^H = q for x; leading axes broadcast.

    Raises:
        ShapeError: the shapes do not match.

    >>> solve_continuous_lyapunov(np.array([[2.0]]), np.array([[8.0]]))
    array([[2.]])

    Source: scipy.linalg.solve_continuous_lyapunov.
    """
    x = of_static_order("solve_continuous_lyapunov", a)
    return solve_sylvester(x, adjoint(x), q)


def solve_lyapunov(a: ArrayLike, q: ArrayLike) -> Any:
    """Solve a x + x a^H = q for x. This is SciPy's older name of `solve_continuous_lyapunov`.

    >>> solve_lyapunov(np.array([[2.0]]), np.array([[8.0]]))
    array([[2.]])
    """
    return solve_continuous_lyapunov(a, q)


def solve_discrete_lyapunov(a: ArrayLike, q: ArrayLike, method: str | None = None) -> Any:
    """Solve a x a^H - x + q = 0 for x; leading axes broadcast.

    Args:
        method: "direct" solves one linear system for all elements of x, "bilinear" transforms the equation to a
            continuous Lyapunov equation. None selects "direct" up to order 9, and "bilinear" above.

    Raises:
        ShapeError: the shapes do not match. InvalidConfigError: `method` is unknown.

    >>> solve_discrete_lyapunov(np.array([[0.5]]), np.array([[3.0]]))
    array([[4.]])

    Source: scipy.linalg.solve_discrete_lyapunov.
    """
    x, right = of_static_order("solve_discrete_lyapunov", a), as_inexact(as_operand(q))
    if tuple(x.shape[-2:]) != tuple(right.shape[-2:]):
        raise ShapeError(f"solve_discrete_lyapunov: {spec_of(right)} does not fit {spec_of(x)}")
    x, right = with_equal_batch(2, x, right)
    batch, n = x.shape[:-2], x.shape[-1]
    if method is None:
        method = "direct" if n <= LARGEST_KRONECKER else "bilinear"
    if method not in ("direct", "bilinear"):
        raise InvalidConfigError(
            f'solve_discrete_lyapunov: method must be "direct", "bilinear" or None, got {method!r}'
        )
    if method == "direct":
        products = multiply(expand_dims(x, axis=(-3, -1)), expand_dims(conj(x), axis=(-4, -2)))
        system = subtract(np.eye(n * n), reshape(products, (*batch, n * n, n * n)))
        return reshape(solve(system, reshape(right, (*batch, n * n, 1))), right.shape)
    one = np.eye(n)
    x_adjoint = adjoint(x)
    inverse = inv(x_adjoint + one)
    b = matmul(x_adjoint - one, inverse)
    c = 2 * matmul(matmul(inv(x + one), right), inverse)
    return solve_continuous_lyapunov(adjoint(b), -c)


def _toeplitz_of(c_or_cr: ArrayLike | tuple[ArrayLike, ArrayLike]) -> Any:
    return toeplitz(*c_or_cr) if isinstance(c_or_cr, tuple) else toeplitz(c_or_cr)


def solve_toeplitz(
    c_or_cr: ArrayLike | tuple[ArrayLike, ArrayLike], b: ArrayLike, check_finite: bool = True
) -> Any:
    """Solve t x = b for x, where t is a Toeplitz matrix.

    Args:
        c_or_cr: the first column of t, or a tuple of the first column and the first row, as in `toeplitz`.
        check_finite: no effect.

    Raises:
        ShapeError: the shapes do not match.

    >>> solve_toeplitz(np.array([2.0, 1.0]), np.array([4.0, 5.0]))
    array([1., 2.])
    """
    return solve(_toeplitz_of(c_or_cr), b)


def matmul_toeplitz(
    c_or_cr: ArrayLike | tuple[ArrayLike, ArrayLike], x: ArrayLike, check_finite: bool = False, workers: int | None = None
) -> Any:  # fmt: skip
    """Multiply a Toeplitz matrix by x.

    Args:
        c_or_cr: the first column of the matrix, or a tuple of the first column and the first row, as in `toeplitz`.
        check_finite, workers: no effect.

    Raises:
        ShapeError: the shapes do not match.

    >>> matmul_toeplitz(np.array([2.0, 1.0]), np.array([1.0, 2.0]))
    array([4., 5.])
    """
    return matmul(_toeplitz_of(c_or_cr), x)


def solve_circulant(
    c: ArrayLike, b: ArrayLike, singular: str = "raise", tol: ArrayLike | None = None, caxis: int = -1, baxis: int = 0,
    outaxis: int = 0,
) -> Any:  # fmt: skip
    """Solve m x = b for x by Fourier transforms, where m is the matrix `circulant(c)`.

    Args:
        c, b: vectors along the axes `caxis` and `baxis`; the other axes broadcast.
        singular: how to solve a singular system. "lstsq" returns its shortest least-squares solution. With "raise", the
            solution has infinite or NaN elements.
        tol: for "lstsq", the largest magnitude of an eigenvalue that counts as zero; by default n eps times the
            largest.
        outaxis: the axis of the result along which the solutions are stored.

    Raises:
        ShapeError: the extents of c and b differ. InvalidConfigError: `singular` is unknown.

    >>> solve_circulant(np.array([2.0, 1.0]), np.array([4.0, 5.0]))
    array([1., 2.])
    """
    if singular not in ("raise", "lstsq"):
        raise InvalidConfigError(
            f'solve_circulant: singular must be "raise" or "lstsq", got {singular!r}'
        )
    first, right = moveaxis(as_inexact(c), caxis, -1), moveaxis(as_inexact(b), baxis, -1)
    if first.shape[-1] != right.shape[-1]:
        raise ShapeError(f"solve_circulant: {spec_of(b)} has other rows than {spec_of(c)}")
    if first.shape[-1] == 0:
        return moveaxis(multiply(first, right), -1, outaxis)
    values, x = fft(first), fft(right)
    if singular == "lstsq":
        size = abs(values)
        if tol is None:
            unit = first.shape[-1] * float(np.finfo(spec_of(size).dtype.dtype).eps)
            tol = multiply(max(size, axis=-1, keepdims=True), unit)
        is_zero = less_equal(size, tol)
        x = where(is_zero, 0.0, divide(x, where(is_zero, 1.0, values)))
    else:
        x = divide(x, values)
    x = ifft(x)
    is_complex = spec_of(first).dtype.is_complex or spec_of(right).dtype.is_complex
    return moveaxis(x if is_complex else real(x), -1, outaxis)


def _from_bands(name: str, ab: ArrayLike, lower: bool) -> Any:
    """Return the Hermitian matrix whose diagonals are the rows of `ab`: on and below the main diagonal if `lower`.

    Raises:
        ShapeError: ab is not a matrix.
    """
    bands = as_inexact(as_operand(ab))
    if len(bands.shape) < 2:
        raise ShapeError(f"{name}: takes diagonals as rows of a matrix, got {spec_of(bands)}")
    return hermitian_of(_triangle(bands, lower), "L" if lower else "U")


def _triangle(bands: Any, lower: bool) -> Any:
    """Return the triangular matrix a whose diagonals are the rows of `bands`.

    If `lower`, bands[i - j, j] = a[i, j]. Otherwise bands[u + i - j, j] = a[i, j], where u + 1 is the number of rows.
    """
    return from_bands(bands, 0 if lower else bands.shape[-2] - 1)


def _to_bands(x: Any, count: int, lower: bool) -> Any:
    """Return `count` diagonals of a triangular matrix as rows. The function is the inverse of `_triangle`."""
    n = x.shape[-1]
    k, j = np.arange(count)[:, None], np.arange(n)
    i = j + k if lower else j - (count - 1 - k)
    index = np.where((i >= 0) & (i < n), i * n + j, -1)
    return elements_at(reshape(x, (*x.shape[:-2], n * n)), index)


def cholesky_banded(
    ab: ArrayLike, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True
) -> Any:
    """Return the Cholesky factor of a banded Hermitian positive definite matrix a.

    The diagonals of a, and those of the factor, are rows of a matrix. The matrix a is factorised as a full matrix.

    Args:
        ab: the diagonals of a on and above its main diagonal, the highest first: ab[u + i - j, j] = a[i, j].
        lower: whether `ab` and the factor contain the diagonals on and below the main diagonal: ab[i - j, j] = a[i, j].
        overwrite_ab, check_finite: no effect.

    Raises:
        ShapeError: ab is not a matrix.

    >>> cholesky_banded(np.array([[0.0, 2.0], [4.0, 5.0]]))
    array([[0., 1.],
           [2., 2.]])
    """
    matrix = _from_bands("cholesky_banded", ab, lower)
    return _to_bands(cholesky(matrix, upper=not lower), as_operand(ab).shape[-2], lower)


def cho_solve_banded(
    cb_and_lower: tuple[ArrayLike, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True
) -> Any:  # fmt: skip
    """Solve `a @ x = b` for x.

    Args:
        cb_and_lower: the factor that `cholesky_banded` returned for `a`, and its argument `lower`.
        overwrite_b, check_finite: no effect.

    Raises:
        ShapeError: the numbers of rows differ.

    >>> factor = cholesky_banded(np.array([[0.0, 2.0], [4.0, 5.0]]))
    >>> cho_solve_banded((factor, False), np.array([6.0, 7.0]))
    array([1., 1.])
    """
    bands, lower = cb_and_lower
    factor = _triangle(as_inexact(as_operand(bands)), lower)
    return by_triangle(factor, lower, b)


def solveh_banded(
    ab: ArrayLike, b: ArrayLike, overwrite_ab: bool = False, overwrite_b: bool = False, lower: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    """Solve a x = b for x, where a is a banded Hermitian positive definite matrix.

    The system is solved as a full matrix.

    Args:
        ab, lower: the diagonals of a as rows, as in `cholesky_banded`.
        overwrite_ab, overwrite_b, check_finite: no effect.

    Raises:
        ShapeError: the numbers of rows differ.

    >>> solveh_banded(np.array([[0.0, 2.0], [4.0, 5.0]]), np.array([6.0, 7.0]))
    array([1., 1.])
    """
    return solve(_from_bands("solveh_banded", ab, lower), b)


def eig_banded(
    a_band: ArrayLike, lower: bool = False, eigvals_only: bool = False, overwrite_a_band: bool = False, select: str = "a",
    select_range: Sequence[float] | None = None, max_ev: int = 0, check_finite: bool = True,
) -> Any:  # fmt: skip
    """Return the eigenvalues in ascending order, and the eigenvectors, of a banded Hermitian matrix.

    Args:
        a_band, lower: the diagonals of the matrix as rows, as in `cholesky_banded`.
        eigvals_only: whether to return only the eigenvalues.
        select, select_range: as in `eigh_tridiagonal`.
        overwrite_a_band, max_ev, check_finite: no effect.

    Raises:
        ShapeError: a_band is not a matrix. InvalidConfigError: `select` is unknown.
        DataDependentShapeError: `select` is "v", and the matrix is traced.

    >>> eig_banded(np.array([[0.0, 1.0], [2.0, 2.0]]), eigvals_only=True)
    array([1., 3.])
    """
    chosen = selection("eig_banded", select, select_range)
    result = eigh(_from_bands("eig_banded", a_band, lower), eigvals_only=eigvals_only, **chosen)
    return result if eigvals_only else tuple(result)


def eigvals_banded(
    a_band: ArrayLike, lower: bool = False, overwrite_a_band: bool = False, select: str = "a",
    select_range: Sequence[float] | None = None, check_finite: bool = True,
) -> Any:  # fmt: skip
    """Return the eigenvalues of a banded Hermitian matrix in ascending order; `eig_banded` describes the arguments.

    >>> eigvals_banded(np.array([[0.0, 1.0], [2.0, 2.0]]))
    array([1., 3.])
    """
    return eig_banded(a_band, lower, True, select=select, select_range=select_range)


def eigvalsh_tridiagonal(
    d: ArrayLike, e: ArrayLike, select: str = "a", select_range: Sequence[float] | None = None, check_finite: bool = True,
    tol: float = 0.0, lapack_driver: str = "auto",
) -> Any:  # fmt: skip
    """Return the eigenvalues of a symmetric tridiagonal matrix in ascending order, as `eigh_tridiagonal` does.

    >>> eigvalsh_tridiagonal([2.0, 2.0], [1.0])
    array([1., 3.])
    """
    return eigh_tridiagonal(d, e, True, select, select_range)
