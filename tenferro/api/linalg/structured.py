"""Matrices that few numbers determine, and systems with banded matrices.

Source: SciPy 1.16, reference, scipy.linalg, "Special Matrices"; `jax.scipy.linalg`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.api.elementwise import conj
from tenferro.api.indexing import take
from tenferro.api.linalg.matrices import solve
from tenferro.api.manipulation import concat, expand_dims, flip, reshape, squeeze
from tenferro.api.promotion import as_inexact, convert, result_type
from tenferro.dims import is_static
from tenferro.door import as_operand, spec_of
from tenferro.errors import InvalidConfigError, NonStaticShapeError, ShapeError
from tenferro.ext.lapack.families import Gtsv
from tenferro.extension import apply
from tenferro.types import ArrayLike, DType, DTypeLike

__all__ = [
    "block_diag", "circulant", "companion", "dft", "hadamard", "hankel", "helmert", "hilbert", "pascal", "solve_banded", "toeplitz",
]  # fmt: skip


def _vector(name: str, x: ArrayLike) -> Any:
    vector = as_operand(x)
    if len(vector.shape) != 1:
        raise ShapeError(f"{name}: takes a vector, got {spec_of(vector)}")
    if not is_static(vector.shape[0]):
        raise NonStaticShapeError(f"{name}: needs a known extent, got {spec_of(vector)}")
    return vector


def block_diag(*arrs: ArrayLike) -> Any:
    """Return the matrix with the given matrices along its diagonal, and zeros elsewhere.

    A vector is a row, and a number a matrix of one element.

    Raises:
        ShapeError: an array of more than two axes.

    >>> block_diag([[1.0, 2.0]], [[3.0]])
    array([[1., 2., 0.],
           [0., 0., 3.]])
    """
    blocks = [as_operand(x) for x in arrs] or [np.zeros((1, 0))]
    for x in blocks:
        if len(x.shape) > 2:
            raise ShapeError(f"block_diag: takes matrices, got {spec_of(x)}")
    blocks = [reshape(x, (*[1] * (2 - len(x.shape)), *x.shape)) for x in blocks]
    dtype = result_type(*blocks)
    columns = [x.shape[1] for x in blocks]
    rows = []
    for i, x in enumerate(blocks):
        before, after = sum(columns[:i]), sum(columns[i + 1 :])
        sides = [np.zeros((x.shape[0], count), dtype.dtype) for count in (before, after)]
        rows.append(concat([sides[0], convert(x, dtype), sides[1]], axis=1))
    return concat(rows, axis=0)


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Any:
    """Return the matrix with constant diagonals, first column c and first row r; conj(c) by default.

    The first element of r is not read.

    Raises:
        ShapeError: c or r is no vector.

    >>> toeplitz([1, 2, 3], [1, 4, 5])
    array([[1, 4, 5],
           [2, 1, 4],
           [3, 2, 1]])
    """
    column = _vector("toeplitz", c)
    row = _vector("toeplitz", conj(column) if r is None else r)
    dtype = result_type(column, row)
    values = concat([flip(convert(row, dtype)[1:]), convert(column, dtype)])
    m, n = column.shape[0], row.shape[0]
    return take(values, n - 1 + np.arange(m)[:, None] - np.arange(n), axis=0)


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Any:
    """Return the matrix with constant antidiagonals, first column c and last row r; zeros by default.

    The first element of r is not read.

    Raises:
        ShapeError: c or r is no vector.

    >>> hankel([1, 2, 3])
    array([[1, 2, 3],
           [2, 3, 0],
           [3, 0, 0]])
    """
    column = _vector("hankel", c)
    row = (
        np.zeros(column.shape[0], spec_of(column).dtype.dtype)
        if r is None
        else _vector("hankel", r)
    )
    dtype = result_type(column, row)
    values = concat([convert(column, dtype), convert(row, dtype)[1:]])
    return take(values, np.arange(column.shape[0])[:, None] + np.arange(row.shape[0]), axis=0)


def circulant(c: ArrayLike) -> Any:
    """Return the matrix whose columns are c, rotated by their index.

    Raises:
        ShapeError: c is no vector.

    >>> circulant([1, 2, 3])
    array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]])
    """
    column = _vector("circulant", c)
    n = column.shape[0]
    return take(column, (np.arange(n)[:, None] - np.arange(n)) % max(n, 1), axis=0)


def companion(a: ArrayLike) -> Any:
    """Return the companion matrix of a polynomial, the highest power first: its eigenvalues are the roots.

    Raises:
        ShapeError: fewer than two coefficients.

    >>> companion([1.0, -3.0, 2.0])
    array([[ 3., -2.],
           [ 1.,  0.]])
    """
    coefficients = as_inexact(_vector("companion", a))
    n = coefficients.shape[0] - 1
    if n < 1:
        raise ShapeError(f"companion: takes two coefficients or more, got {spec_of(coefficients)}")
    first = expand_dims(-coefficients[1:] / coefficients[0], axis=0)
    return concat([first, np.eye(n - 1, n, dtype=spec_of(first).dtype.dtype)], axis=0)


def _order(name: str, n: float, least: int = 0) -> int:
    if not isinstance(n, int | np.integer) or n < least:
        raise InvalidConfigError(f"{name}: the order is an integer of at least {least}, got {n!r}")
    return int(n)


def hilbert(n: int) -> Any:
    """Return the Hilbert matrix of order n: 1 / (i + j + 1).

    Raises:
        InvalidConfigError: n is no order.

    >>> hilbert(2)
    array([[1.        , 0.5       ],
           [0.5       , 0.33333333]])
    """
    i = np.arange(_order("hilbert", n))
    return 1.0 / (i[:, None] + i + 1)


def pascal(n: int, kind: str = "symmetric") -> Any:
    """Return the Pascal matrix of order n, of binomial coefficients: "symmetric", "lower" or "upper".

    Raises:
        InvalidConfigError: n is no order, or another kind.

    >>> pascal(3)
    array([[1, 1, 1],
           [1, 2, 3],
           [1, 3, 6]], dtype=uint64)
    """
    order = _order("pascal", n)
    # Coefficients beyond these do not fit 64 bits.
    lower = np.zeros((order, order), np.uint64 if order < 35 else np.float64)
    for i in range(order):
        lower[i, 0] = 1
        lower[i, 1 : i + 1] = lower[i - 1, :i] + lower[i - 1, 1 : i + 1]
    if kind not in ("symmetric", "lower", "upper"):
        raise InvalidConfigError(f'pascal: kind is "symmetric", "lower" or "upper", got {kind!r}')
    return {"lower": lower, "upper": lower.T.copy()}.get(kind, lower @ lower.T)


def hadamard(n: int, dtype: DTypeLike = int) -> Any:
    """Return the Hadamard matrix of order n, a power of 2, by Sylvester's construction.

    Raises:
        InvalidConfigError: n is no power of 2.

    >>> hadamard(2)
    array([[ 1,  1],
           [ 1, -1]])
    """
    order = _order("hadamard", n, 1)
    if order & (order - 1):
        raise InvalidConfigError(f"hadamard: the order is a power of 2, got {order}")
    matrix = np.ones((1, 1), DType.of(dtype).dtype)
    while len(matrix) < order:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def helmert(n: int, full: bool = False) -> Any:
    """Return the Helmert matrix of order n: orthonormal contrasts as rows, after a constant row if `full`.

    Raises:
        InvalidConfigError: n is no order.

    >>> np.round(helmert(2), 6)
    array([[ 0.707107, -0.707107]])
    """
    order = _order("helmert", n)
    matrix = np.tril(np.ones((order, order)), -1) - np.diag(np.arange(order))
    if order:
        matrix[0] = 1.0
    i = np.arange(order)
    scale = i * (i + 1.0)
    scale[:1] = order
    matrix /= np.sqrt(scale)[:, None]
    return matrix if full else matrix[1:]


def dft(n: int, scale: str | None = None) -> Any:
    """Return the matrix of the discrete Fourier transform of order n: exp(-2 pi i j k / n).

    Args:
        scale: "sqrtn" divides by sqrt(n), "n" by n.

    Raises:
        InvalidConfigError: n is no order, or another scale.

    >>> np.round(dft(2).real) + 0.0
    array([[ 1.,  1.],
           [ 1., -1.]])
    """
    order = _order("dft", n)
    if scale not in (None, "sqrtn", "n"):
        raise InvalidConfigError(f'dft: scale is None, "sqrtn" or "n", got {scale!r}')
    i = np.arange(order)
    matrix = np.exp(-2j * np.pi * (i[:, None] * i % max(order, 1)) / max(order, 1))
    return matrix / {None: 1.0, "sqrtn": np.sqrt(order), "n": order}[scale]


def solve_banded(
    l_and_u: tuple[int, int], ab: ArrayLike, b: ArrayLike, overwrite_ab: bool = False, overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    """Return x with a x = b, for a matrix of l diagonals below its main one, and u above.

    Tridiagonal systems take time and memory proportional to their size; others are solved as full matrices.

    Args:
        l_and_u: l and u.
        ab: the diagonals as rows, the highest first: ab[u + i - j, j] = a[i, j].
        b: a vector, or a matrix of right-hand sides.
        overwrite_ab, overwrite_b, check_finite: no effect.

    Raises:
        ShapeError: another number of diagonals, or rows that do not match. InvalidConfigError: negative numbers.

    >>> solve_banded((1, 0), np.array([[2.0, 4.0], [2.0, 0.0]]), np.array([2.0, 6.0]))
    array([1., 1.])

    Source: scipy.linalg.solve_banded.
    """
    below, above = l_and_u
    bands, rhs = as_inexact(as_operand(ab)), as_inexact(as_operand(b))
    if below < 0 or above < 0:
        raise InvalidConfigError(f"solve_banded: l and u are at least 0, got {below} and {above}")
    if len(bands.shape) != 2 or bands.shape[0] != below + above + 1 or len(rhs.shape) not in (1, 2):
        raise ShapeError(
            f"solve_banded: {below} and {above} diagonals beside the main one do not fit "
            f"{spec_of(bands)} and {spec_of(rhs)}"
        )
    if rhs.shape[0] != bands.shape[1]:
        raise ShapeError(f"solve_banded: {spec_of(rhs)} has other rows than {spec_of(bands)}")
    dtype = result_type(bands, rhs)
    bands, rhs = convert(bands, dtype), convert(rhs, dtype)
    n = bands.shape[1]
    if below == above == 1 and n > 1:
        zero = np.zeros(1, dtype.dtype)
        lower, upper = concat([zero, bands[2, :-1]]), concat([bands[0, 1:], zero])
        columns = rhs if len(rhs.shape) == 2 else rhs[:, None]
        x = apply(Gtsv(), lower, bands[1], upper, columns)[0]
        return x if len(rhs.shape) == 2 else squeeze(x, axis=1)
    i, j = np.arange(n)[:, None], np.arange(n)
    place = above + i - j
    is_inside = (place >= 0) & (place <= below + above)
    full = take(reshape(bands, (-1,)), np.where(is_inside, place * n + j, 0), axis=0)
    return solve(full * is_inside.astype(dtype.real.dtype), rhs)
