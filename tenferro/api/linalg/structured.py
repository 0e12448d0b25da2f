"""Matrices of a special structure, such as Toeplitz and Hilbert matrices, and systems with banded matrices.

Source: SciPy 1.16, reference, scipy.linalg, "Special Matrices"; `jax.scipy.linalg`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tenferro.api.elementwise import abs as abs_
from tenferro.api.elementwise import conj, where
from tenferro.api.indexing import take
from tenferro.api.linalg.matrices import solve
from tenferro.api.manipulation import concat, embed_diag, expand_dims, flip, reshape, squeeze
from tenferro.api.padding import pad
from tenferro.api.promotion import as_inexact, broadcast_shapes, broadcast_to, convert, result_type
from tenferro.dims import is_static
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import InvalidConfigError, NonStaticShapeError, ShapeError
from tenferro.ext.lapack.families import Gtsv
from tenferro.extension import apply
from tenferro.types import ArrayLike, DType, DTypeLike

__all__ = [
    "block_diag", "circulant", "companion", "convolution_matrix", "dft", "diagsvd", "fiedler", "hadamard", "hankel", "helmert", "hilbert",
    "invhilbert", "invpascal", "khatri_rao", "leslie", "pascal", "solve_banded", "toeplitz",
]  # fmt: skip


def _vectors(name: str, x: ArrayLike) -> Any:
    """Return x as a tensor of vectors in its last axis, of static extent.

    Raises:
        ShapeError: x is a number. NonStaticShapeError: the extent of the last axis is symbolic.
    """
    vectors = as_operand(x)
    if not vectors.shape:
        raise ShapeError(f"{name}: takes a vector, got {spec_of(vectors)}")
    if not is_static(vectors.shape[-1]):
        raise NonStaticShapeError(f"{name}: needs a known extent, got {spec_of(vectors)}")
    return vectors


def _vector(name: str, x: ArrayLike) -> Any:
    vector = _vectors(name, x)
    if len(vector.shape) != 1:
        raise ShapeError(f"{name}: takes a vector, got {spec_of(vector)}")
    return vector


def with_equal_batch(core_rank: int, *xs: Any) -> list[Any]:
    """Broadcast the axes of tensors except their last `core_rank`, and convert the tensors to one dtype."""
    dtype = result_type(*xs)
    shapes = [(x.shape[: len(x.shape) - core_rank], x.shape[len(x.shape) - core_rank :]) for x in xs]  # fmt: skip
    batch = broadcast_shapes(*[axes for axes, _ in shapes])
    return [
        broadcast_to(convert(x, dtype), (*batch, *core))
        for x, (_, core) in zip(xs, shapes, strict=True)
    ]


def diagonal_matrix(x: Any) -> Any:
    """Return the diagonal matrices with the vectors of the last axis of x on their diagonals."""
    return embed_diag(x, -2, -1)


def _padded(x: Any, rows: tuple[int, int], columns: tuple[int, int]) -> Any:
    """Add zeros before and after the rows and the columns of matrices."""
    return pad(x, [(0, 0)] * (len(x.shape) - 2) + [rows, columns])


def block_diag(*arrs: ArrayLike) -> Any:
    """Return the matrix with the matrices `arrs` along its diagonal, and zeros elsewhere.

    A vector is a row, and a number a matrix of one element. Leading axes are batch axes, and broadcast.

    Raises:
        ShapeError: batch axes do not broadcast.

    >>> block_diag([[1.0, 2.0]], [[3.0]])
    array([[1., 2., 0.],
           [0., 0., 3.]])
    """
    blocks = [as_operand(x) for x in arrs] or [np.zeros((1, 0))]
    blocks = [reshape(x, (*[1] * (2 - len(x.shape)), *x.shape)) for x in blocks]
    blocks = with_equal_batch(2, *blocks)
    columns = [x.shape[-1] for x in blocks]
    rows = [
        _padded(x, (0, 0), (sum(columns[:i]), sum(columns[i + 1 :]))) for i, x in enumerate(blocks)
    ]
    return concat(rows, axis=-2)


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Any:
    """Return the matrix with constant diagonals whose first column is c and whose first row is r, by default conj(c).

    The first element of the matrix is that of c; the first element of r is not read. Vectors are in the last axis, and
    leading axes broadcast.

    Raises:
        ShapeError: c or r is a number, or leading axes do not broadcast.

    >>> toeplitz([1, 2, 3], [1, 4, 5])
    array([[1, 4, 5],
           [2, 1, 4],
           [3, 2, 1]])
    """
    column = _vectors("toeplitz", c)
    row = _vectors("toeplitz", conj(column) if r is None else r)
    m, n = column.shape[-1], row.shape[-1]
    column, row = with_equal_batch(1, column, row)
    values = concat([flip(row[..., 1:], axis=-1), column], axis=-1)
    return take(values, n - 1 + np.arange(m)[:, None] - np.arange(n), axis=-1)


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Any:
    """Return the matrix with constant antidiagonals whose first column is c and whose last row is r, by default zeros.

    The first element of the last row is the last element of c. The first element of r is not read.

    Raises:
        ShapeError: c or r is not a vector.

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
    """Return the matrix whose column j is c, rotated downwards by j elements.

    Vectors are in the last axis; leading axes are batch axes.

    Raises:
        ShapeError: c is a number.

    >>> circulant([1, 2, 3])
    array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]])
    """
    column = _vectors("circulant", c)
    n = column.shape[-1]
    return take(column, (np.arange(n)[:, None] - np.arange(n)) % max(n, 1), axis=-1)


def companion(a: ArrayLike) -> Any:
    """Return the companion matrix of a polynomial, whose eigenvalues are the polynomial's roots.

    Args:
        a: the coefficients in the last axis, for the highest power first; leading axes are batch axes.

    Raises:
        ShapeError: there are fewer than two coefficients.

    >>> companion([1.0, -3.0, 2.0])
    array([[ 3., -2.],
           [ 1.,  0.]])
    """
    coefficients = as_inexact(_vectors("companion", a))
    n = coefficients.shape[-1] - 1
    if n < 1:
        raise ShapeError(f"companion: takes two coefficients or more, got {spec_of(coefficients)}")
    first = expand_dims(-coefficients[..., 1:] / coefficients[..., :1], axis=-2)
    below = np.eye(n - 1, n, dtype=spec_of(first).dtype.dtype)
    return concat([first, broadcast_to(below, (*first.shape[:-2], n - 1, n))], axis=-2)


def fiedler(a: ArrayLike) -> Any:
    """Return the symmetric matrix |a_i - a_j|; vectors are in the last axis, and leading axes are batch axes.

    Raises:
        ShapeError: a is a number.

    >>> fiedler([1, 4, 9])
    array([[0, 3, 8],
           [3, 0, 5],
           [8, 5, 0]])
    """
    x = _vectors("fiedler", a)
    return abs_(expand_dims(x, axis=-1) - expand_dims(x, axis=-2))


def leslie(f: ArrayLike, s: ArrayLike) -> Any:
    """Return the matrix whose first row is f, with s on the diagonal below the main diagonal and zeros elsewhere.

    Vectors are in the last axis; leading axes broadcast.

    Raises:
        ShapeError: the length of s is not one less than that of f.

    >>> leslie([0.1, 2.0], [0.5])
    array([[0.1, 2. ],
           [0.5, 0. ]])
    """
    first, below = _vectors("leslie", f), _vectors("leslie", s)
    if below.shape[-1] != first.shape[-1] - 1:
        raise ShapeError(f"leslie: {spec_of(below)} has not one element less than {spec_of(first)}")
    first, below = with_equal_batch(1, first, below)
    rest = _padded(diagonal_matrix(below), (0, 0), (0, 1))
    return concat([expand_dims(first, axis=-2), rest], axis=-2)


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Any:
    """Return the matrix m with m v = convolve(a, v, mode) for vectors v of n elements.

    Vectors a are in the last axis; leading axes are batch axes.

    Raises:
        ShapeError: a is a number, or has no elements. InvalidConfigError: n is below 1, or `mode` is unknown.

    >>> convolution_matrix([1, 2], 2)
    array([[1, 0],
           [2, 1],
           [0, 2]])
    """
    x, order = _vectors("convolution_matrix", a), _order("convolution_matrix", n, 1)
    m = x.shape[-1]
    if not m:
        raise ShapeError(f"convolution_matrix: needs an element, got {spec_of(x)}")
    if mode not in ("full", "same", "valid"):
        raise InvalidConfigError(
            f'convolution_matrix: mode must be "full", "same" or "valid", got {mode!r}'
        )
    full = elements_at(x, np.arange(m + order - 1)[:, None] - np.arange(order))
    longer, shorter = max(m, order), min(m, order)
    if mode == "valid":
        return full[..., shorter - 1 : longer, :]
    start = (shorter - 1) // 2
    return full[..., start : start + longer, :] if mode == "same" else full


def elements_at(x: Any, index: Any) -> Any:
    """Return the elements of the last axis of x at an array of indices; 0 where an index is outside the axis."""
    is_inside = (index >= 0) & (index < x.shape[-1])
    zero = np.zeros((), spec_of(x).dtype.dtype)
    return where(is_inside, take(x, np.where(is_inside, index, 0), axis=-1), zero)


def diagsvd(s: ArrayLike, M: int, N: int) -> Any:  # noqa: N803  # because SciPy calls them so
    """Return the M x N matrix with singular values s on its diagonal.

    Vectors s are in the last axis; leading axes are batch axes.

    Raises:
        ShapeError: the length of s is not min(M, N).

    >>> diagsvd([2.0], 1, 2)
    array([[2., 0.]])
    """
    values = _vectors("diagsvd", s)
    count = values.shape[-1]
    if count not in (M, N) or count > min(M, N):
        raise ShapeError(f"diagsvd: {spec_of(values)} has not min({M}, {N}) elements")
    return _padded(diagonal_matrix(values), (0, M - count), (0, N - count))


def khatri_rao(a: ArrayLike, b: ArrayLike) -> Any:
    """Return the matrix whose columns are Kronecker products of the columns of a and b; leading axes broadcast.

    Raises:
        ShapeError: the matrices differ in their number of columns.

    >>> khatri_rao([[1, 10]], [[1, 2], [3, 4]])
    array([[ 1, 20],
           [ 3, 40]])
    """
    x, y = as_operand(a), as_operand(b)
    if len(x.shape) < 2 or len(y.shape) < 2 or x.shape[-1] != y.shape[-1]:
        raise ShapeError(
            f"khatri_rao: takes matrices of as many columns, got {spec_of(x)} and {spec_of(y)}"
        )
    products = expand_dims(x, axis=-2) * expand_dims(y, axis=-3)
    return reshape(products, (*products.shape[:-3], x.shape[-2] * y.shape[-2], x.shape[-1]))


def invhilbert(n: int, exact: bool = False) -> Any:
    """Return the inverse of the Hilbert matrix of order n, whose elements are integers.

    Args:
        exact: whether the dtype is int64, which suffices up to n = 14. Otherwise it is float64.

    Raises:
        InvalidConfigError: n is negative or not an integer, or `exact` is True and n is greater than 14.

    >>> invhilbert(2)
    array([[ 4., -6.],
           [-6., 12.]])

    Source: Choi, American Mathematical Monthly 90 (1983).
    """
    order = _order("invhilbert", n)
    if exact and order > 14:
        raise InvalidConfigError(f"invhilbert: order {order} does not fit int64; use exact=False")
    comb = math.comb
    rows = [
        [
            (-1) ** (i + j)
            * (i + j + 1)
            * comb(order + i, order - j - 1)
            * comb(order + j, order - i - 1)
            * comb(i + j, i) ** 2
            for j in range(order)
        ]
        for i in range(order)
    ]
    return np.array(rows, np.int64 if exact else np.float64).reshape(order, order)


def invpascal(n: int, kind: str = "symmetric", exact: bool = True) -> Any:
    """Return the inverse of `pascal(n, kind)`.

    Args:
        exact: whether the dtype is int64. Otherwise it is float64.

    Raises:
        InvalidConfigError: n is not an integer from 0, `kind` is unknown, or an element does not fit in int64.

    >>> invpascal(2)
    array([[ 2, -1],
           [-1,  1]])
    """
    order = _order("invpascal", n)
    if kind not in ("symmetric", "lower", "upper"):
        raise InvalidConfigError(
            f'invpascal: kind must be "symmetric", "lower" or "upper", got {kind!r}'
        )
    lower = np.array(
        [[(-1) ** (i - j) * math.comb(i, j) for j in range(order)] for i in range(order)], object
    ).reshape(order, order)
    matrix = {"lower": lower, "upper": lower.T}.get(kind, lower.T @ lower)
    if exact and order and max(abs(v) for v in matrix.flat) > np.iinfo(np.int64).max:
        raise InvalidConfigError(f"invpascal: order {order} does not fit int64; use exact=False")
    return matrix.astype(np.int64 if exact else np.float64)


def _order(name: str, n: float, least: int = 0) -> int:
    if not isinstance(n, int | np.integer) or n < least:
        raise InvalidConfigError(
            f"{name}: the order must be an integer of at least {least}, got {n!r}"
        )
    return int(n)


def hilbert(n: int) -> Any:
    """Return the Hilbert matrix of order n: h[i, j] = 1 / (i + j + 1).

    Raises:
        InvalidConfigError: n is not an integer from 0.

    >>> hilbert(2)
    array([[1.        , 0.5       ],
           [0.5       , 0.33333333]])
    """
    i = np.arange(_order("hilbert", n))
    return 1.0 / (i[:, None] + i + 1)


def pascal(n: int, kind: str = "symmetric", exact: bool = True) -> Any:
    """Return the Pascal matrix of order n, whose elements are binomial coefficients.

    Args:
        kind: "lower" for the triangular matrix L with L[i, j] = binomial(i, j), "upper" for L^T, "symmetric" for L L^T.
        exact: whether the dtype is uint64, which is used up to n = 34. Otherwise it is float64.

    Raises:
        InvalidConfigError: n is not an integer from 0, or `kind` is unknown.

    >>> pascal(3)
    array([[1, 1, 1],
           [1, 2, 3],
           [1, 3, 6]], dtype=uint64)
    """
    order = _order("pascal", n)
    # From order 35 on, coefficients do not fit in 64 bits.
    lower = np.zeros((order, order), np.uint64 if exact and order < 35 else np.float64)
    for i in range(order):
        lower[i, 0] = 1
        lower[i, 1 : i + 1] = lower[i - 1, :i] + lower[i - 1, 1 : i + 1]
    if kind not in ("symmetric", "lower", "upper"):
        raise InvalidConfigError(
            f'pascal: kind must be "symmetric", "lower" or "upper", got {kind!r}'
        )
    return {"lower": lower, "upper": lower.T.copy()}.get(kind, lower @ lower.T)


def hadamard(n: int, dtype: DTypeLike = int) -> Any:
    """Return the Hadamard matrix of order n, a power of 2, by Sylvester's construction.

    Raises:
        InvalidConfigError: n is not a power of 2.

    >>> hadamard(2)
    array([[ 1,  1],
           [ 1, -1]])
    """
    order = _order("hadamard", n, 1)
    if order & (order - 1):
        raise InvalidConfigError(f"hadamard: the order must be a power of 2, got {order}")
    matrix = np.ones((1, 1), DType.of(dtype).dtype)
    while len(matrix) < order:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def helmert(n: int, full: bool = False) -> Any:
    """Return the Helmert matrix of order n, with n - 1 orthonormal rows of sum 0.

    If `full`, a constant row precedes them.

    Raises:
        InvalidConfigError: n is not an integer from 0.

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
    """Return the matrix of the discrete Fourier transform of order n: m[j, k] = exp(-2 pi i j k / n).

    Args:
        scale: "sqrtn" divides the matrix by sqrt(n), "n" by n; None does not scale it.

    Raises:
        InvalidConfigError: n is not an integer from 0, or `scale` is unknown.

    >>> np.round(dft(2).real) + 0.0
    array([[ 1.,  1.],
           [ 1., -1.]])
    """
    order = _order("dft", n)
    if scale not in (None, "sqrtn", "n"):
        raise InvalidConfigError(f'dft: scale must be None, "sqrtn" or "n", got {scale!r}')
    i = np.arange(order)
    matrix = np.exp(-2j * np.pi * (i[:, None] * i % max(order, 1)) / max(order, 1))
    return matrix / {None: 1.0, "sqrtn": np.sqrt(order), "n": order}[scale]


def solve_banded(
    l_and_u: tuple[int, int], ab: ArrayLike, b: ArrayLike, overwrite_ab: bool = False, overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    """Solve a x = b for x, where the matrix a has l diagonals below its main diagonal and u diagonals above it.

    Tridiagonal systems take time and memory in proportion to their size. Other systems are solved as full matrices.

    Args:
        l_and_u: the pair of l and u.
        ab: the diagonals of a as rows, the highest first: ab[u + i - j, j] = a[i, j].
        b: a vector, or, if it has more than one axis, matrices of right-hand sides. Leading axes of ab and b broadcast.
        overwrite_ab, overwrite_b, check_finite: no effect.

    Raises:
        ShapeError: ab does not have l + u + 1 rows, or b does not match it. InvalidConfigError: l or u is negative.

    >>> solve_banded((1, 0), np.array([[2.0, 4.0], [2.0, 0.0]]), np.array([2.0, 6.0]))
    array([1., 1.])

    Source: scipy.linalg.solve_banded.
    """
    below, above = l_and_u
    bands, rhs = as_inexact(as_operand(ab)), as_inexact(as_operand(b))
    if below < 0 or above < 0:
        raise InvalidConfigError(
            f"solve_banded: l and u must be at least 0, got {below} and {above}"
        )
    if len(bands.shape) < 2 or bands.shape[-2] != below + above + 1 or not rhs.shape:
        raise ShapeError(
            f"solve_banded: {below} and {above} diagonals beside the main one do not fit "
            f"{spec_of(bands)} and {spec_of(rhs)}"
        )
    n, is_vector = bands.shape[-1], len(rhs.shape) == 1
    if rhs.shape[-1 if is_vector else -2] != n:
        raise ShapeError(f"solve_banded: {spec_of(rhs)} has other rows than {spec_of(bands)}")
    if below == above == 1 and n > 1:
        bands, columns = with_equal_batch(2, bands, expand_dims(rhs, axis=-1) if is_vector else rhs)
        zero = np.zeros((*bands.shape[:-2], 1), spec_of(bands).dtype.dtype)
        lower = concat([zero, bands[..., 2, :-1]], axis=-1)
        upper = concat([bands[..., 0, 1:], zero], axis=-1)
        x = apply(Gtsv(), lower, bands[..., 1, :], upper, columns)[0]
        return squeeze(x, axis=-1) if is_vector else x
    return solve(from_bands(bands, above), rhs)


def from_bands(bands: Any, above: int) -> Any:
    """Return the square matrices whose diagonals are the rows of `bands`: bands[above + i - j, j] = a[i, j]."""
    count, n = bands.shape[-2:]
    i, j = np.arange(n)[:, None], np.arange(n)
    row = above + i - j
    index = np.where((row >= 0) & (row < count), row * n + j, -1)
    return elements_at(reshape(bands, (*bands.shape[:-2], count * n)), index)
