"""Functions of polynomials, which are vectors of coefficients that begin with the highest power.

Source: NumPy 2.4, reference, section "Polynomials, `poly1d` functions"; `jax.numpy` for traced arguments.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.api.calculus import convolve
from tenferro.api.creation import ones_like
from tenferro.api.elementwise import add, divide, multiply, real, sqrt, subtract
from tenferro.api.manipulation import concat, reshape, stack
from tenferro.api.promotion import as_inexact, convert, result_type
from tenferro.api.reductions import cumprod
from tenferro.api.reductions import sum as sum_over
from tenferro.api.stacking import atleast_1d
from tenferro.dims import is_static
from tenferro.dispatch import as_operand, elements, spec_of
from tenferro.errors import InvalidConfigError, NonStaticShapeError, ShapeError
from tenferro.types import ArrayLike, DType, Tensor

__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "roots", "vander",
]  # fmt: skip


def _coefficients(name: str, a: ArrayLike) -> Any:
    """Return `a` as a vector whose length is known.

    Raises:
        ShapeError: `a` has more than one axis.
        NonStaticShapeError: the number of coefficients is unknown.
    """
    x = atleast_1d(a)
    if len(x.shape) > 1:
        raise ShapeError(f"{name}: coefficients must be a vector, got {spec_of(x)}")
    if not is_static(x.shape[0]):
        raise NonStaticShapeError(f"{name}: the number of coefficients of {spec_of(x)} is unknown")
    return x


def _padded(x: Tensor, count: int) -> Any:
    """Insert zeros before the coefficients x, so that there are `count` coefficients."""
    missing = count - x.shape[0]
    return concat([np.zeros(missing, spec_of(x).dtype.dtype), x]) if missing > 0 else x


def _in_common_dtype(x1: Tensor, x2: Tensor) -> tuple[Any, Any]:
    dtype = result_type(x1, x2)
    return convert(x1, dtype), convert(x2, dtype)


def _aligned(name: str, a1: ArrayLike, a2: ArrayLike) -> tuple[Any, Any]:
    x1, x2 = _in_common_dtype(_coefficients(name, a1), _coefficients(name, a2))
    count = max(x1.shape[0], x2.shape[0])
    return _padded(x1, count), _padded(x2, count)


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Any:
    """Return the coefficients of a1(x) + a2(x).

    Raises:
        ShapeError: the coefficients are not a vector.

    >>> polyadd([1, 2], [9, 5, 4])
    array([9, 6, 6])
    """
    return add(*_aligned("polyadd", a1, a2))


def polysub(a1: ArrayLike, a2: ArrayLike) -> Any:
    """Return the coefficients of a1(x) - a2(x).

    Raises:
        ShapeError: the coefficients are not a vector.

    >>> polysub([2, 10, -2], [3, 10, -4])
    array([-1,  0,  2])
    """
    return subtract(*_aligned("polysub", a1, a2))


def polymul(a1: ArrayLike, a2: ArrayLike) -> Any:
    """Return the coefficients of a1(x) a2(x): the convolution of a1 with a2.

    Leading zeros are not removed, so that the number of coefficients depends only on the shapes, as in `jax.numpy`.

    Raises:
        ShapeError: the coefficients are not a vector, or there are none.

    >>> polymul([1, 2, 3], [9, 5, 1])
    array([ 9, 23, 38, 17,  3])
    """
    return convolve(_coefficients("polymul", a1), _coefficients("polymul", a2))


def polydiv(u: ArrayLike, v: ArrayLike) -> tuple[Any, Any]:
    """Return the quotient and the remainder of the polynomials u and v, as float or complex numbers.

    The remainder has one coefficient less than v. Leading zeros are not removed, as in `jax.numpy`.

    Raises:
        ShapeError: the coefficients are not a vector, or v has no coefficients.

    >>> polydiv([3.0, 5.0, 2.0], [2.0, 1.0])
    (array([1.5 , 1.75]), array([0.25]))
    """
    x, y = (as_inexact(_coefficients("polydiv", a)) for a in (u, v))
    x, y = _in_common_dtype(x, y)
    m, n = x.shape[0] - 1, y.shape[0] - 1
    if n < 0:
        raise ShapeError(f"polydiv: no coefficients in {spec_of(y)}")
    if m < n:
        return np.zeros(1, spec_of(x).dtype.dtype), x
    quotient = []
    for _ in range(m - n + 1):
        digit = divide(x[0], y[0])
        quotient.append(digit)
        x = concat([subtract(x[1 : n + 1], multiply(digit, y[1:])), x[n + 1 :]])
    return stack(quotient), x if n else np.zeros(1, spec_of(x).dtype.dtype)


def polyder(p: ArrayLike, m: int = 1) -> Any:
    """Return the coefficients of the m-th derivative of p.

    Raises:
        InvalidConfigError: m is negative.

    >>> polyder([1, 1, 1, 1])
    array([3, 2, 1])
    """
    if m < 0:
        raise InvalidConfigError(f"polyder: the order of a derivative must be at least 0, got {m}")
    x = _coefficients("polyder", p)
    for _ in range(m):
        degree = x.shape[0] - 1
        powers = np.arange(degree, 0, -1)
        x = multiply(x[:-1], powers.astype(result_type(x, powers).dtype))
    return x


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Any:
    """Return the coefficients of the m-th antiderivative of p.

    Args:
        k: the constants of integration, in the order of the integrations; one number for all; or None for zeros.

    Raises:
        InvalidConfigError: m is negative. ShapeError: there are fewer than m constants.

    >>> polyint([6.0, 4.0, 1.0])
    array([2., 2., 1., 0.])
    """
    if m < 0:
        raise InvalidConfigError(
            f"polyint: the order of an antiderivative must be at least 0, got {m}"
        )
    x = as_inexact(_coefficients("polyint", p))
    constants = atleast_1d(np.zeros(m, spec_of(x).dtype.real.dtype) if k is None else k)
    if constants.shape[0] == 1 and m > 1:
        constants = concat([constants] * m)
    if constants.shape[0] < m:
        raise ShapeError(f"polyint: {m} integrals need {m} constants, got {constants.shape[0]}")
    for i in range(m):
        powers = np.arange(x.shape[0], 0, -1).astype(spec_of(x).dtype.real.dtype)
        x = concat(_in_common_dtype(divide(x, powers), constants[i : i + 1]))
    return x


def poly(seq_of_zeros: ArrayLike) -> Any:
    """Return the coefficients of the polynomial with the given roots and a leading 1.

    For a square matrix this is the characteristic polynomial, whose roots are the eigenvalues.

    Raises:
        ShapeError: the argument is neither a vector nor a square matrix.

    >>> poly([1.0, 2.0])
    array([ 1., -3.,  2.])
    >>> poly([[1.0, 0.0], [5.0, 2.0]])
    array([ 1., -3.,  2.])
    """
    matrix = as_operand(seq_of_zeros)
    if len(matrix.shape) == 2 and matrix.shape[0] == matrix.shape[1]:
        from tenferro.api import linalg  # because few programs compute characteristic polynomials

        coefficients = poly(linalg.eigvals(as_inexact(matrix)))
        return coefficients if spec_of(matrix).dtype.is_complex else real(coefficients)
    roots = _coefficients("poly", seq_of_zeros)
    roots = convert(roots, DType.F64) if not spec_of(roots).dtype.is_inexact else roots
    one = np.ones(1, spec_of(roots).dtype.dtype)
    coefficients: Any = one
    for i in range(roots.shape[0]):
        root = roots[i]
        zero = np.zeros(1, one.dtype)
        coefficients = subtract(
            concat([coefficients, zero]), multiply(root, concat([zero, coefficients]))
        )
    return coefficients


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Any:
    """Return the roots of the polynomial with coefficients p, as complex numbers: eigenvalues of its companion matrix.

    Args:
        strip_zeros: whether leading and trailing zeros are removed first, as in NumPy. This is not possible for traced
            coefficients.

    Raises:
        ShapeError: the coefficients are not a vector.
        DataDependentShapeError: p is traced, and `strip_zeros` is set.

    >>> roots([1.0, -3.0, 2.0])
    array([2.+0.j, 1.+0.j])

    Source: jax.numpy.roots.
    """
    from tenferro.api import linalg  # because few programs look for roots

    x = as_inexact(_coefficients("roots", p))
    zeros = 0
    if strip_zeros:
        known = np.asarray(elements(x, "roots", "give strip_zeros=False"))
        places = np.flatnonzero(known)
        if not places.size:
            return np.zeros(0, complex)
        zeros = len(known) - 1 - int(places[-1])
        x = x[int(places[0]) : int(places[-1]) + 1]
    if x.shape[0] < 2:
        return np.zeros(zeros, complex)
    nonzero_roots = linalg.eigvals(linalg.companion(x))
    return (
        concat([nonzero_roots, np.zeros(zeros, spec_of(nonzero_roots).dtype.dtype)])
        if zeros
        else nonzero_roots
    )


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803  # because NumPy calls it so
    """Return the Vandermonde matrix of a vector x. Its columns are the powers x^(N-1), .., x, 1.

    Args:
        N: the number of columns, by default the number of elements of x.
        increasing: whether the columns are 1, x, .., x^(N-1) instead.

    Raises:
        ShapeError: x is not a vector. InvalidConfigError: N is negative.

    >>> vander([1, 2, 3], 3)
    array([[1, 1, 1],
           [4, 2, 1],
           [9, 3, 1]])
    """
    vector = as_operand(x)
    if len(vector.shape) != 1:
        raise ShapeError(f"vander: x must be a vector, got {spec_of(vector)}")
    columns = vector.shape[0] if N is None else N
    if not is_static(columns):
        raise NonStaticShapeError("vander: the number of columns is unknown; give N")
    if columns < 0:
        raise InvalidConfigError(f"vander: N must be at least 0, got {columns}")
    dtype = result_type(vector, DType.I64) if not spec_of(vector).dtype.is_inexact else spec_of(vector).dtype  # fmt: skip
    vector = convert(vector, dtype)
    column = reshape(vector, (vector.shape[0], 1))
    if columns == 0:
        return multiply(column, np.zeros((1, 0), dtype.dtype))
    powers = cumprod(concat([ones_like(column), *[column] * (columns - 1)], axis=1), 1)
    return powers if increasing else powers[:, ::-1]


def polyfit(
    x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, full: bool = False, w: ArrayLike | None = None, cov: bool | str = False
) -> Any:  # fmt: skip
    """Return the coefficients of the polynomial of degree `deg` that fits y at x by least squares.

    Args:
        rcond: singular values below rcond times the largest count as 0. The default is len(x) times the dtype's eps.
        full: whether to also return residuals, rank, singular values and rcond.
        w: a weight for each residual.
        cov: whether to also return the covariance matrix of the coefficients. It is scaled by the residuals unless
            `cov` is "unscaled".

    Raises:
        InvalidConfigError: the degree is negative, or there are too few points for a scaled covariance.
        ShapeError: x is not a vector or is empty, y has a different length or a rank above 2, or w has a different
            length.

    >>> np.round(polyfit([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], 1), 12)
    array([2., 1.])
    """
    from tenferro.api import linalg  # because few programs fit polynomials

    vector, values = as_inexact(as_operand(x)), as_inexact(as_operand(y))
    if deg < 0:
        raise InvalidConfigError(f"polyfit: the degree must be at least 0, got {deg}")
    if len(vector.shape) != 1 or vector.shape[0] == 0:
        raise ShapeError(f"polyfit: x must be a vector with elements, got {spec_of(vector)}")
    if len(values.shape) not in (1, 2) or values.shape[0] != vector.shape[0]:
        raise ShapeError(f"polyfit: y {spec_of(values)} does not fit x {spec_of(vector)}")
    vector, values = _in_common_dtype(vector, values)
    order = deg + 1
    lhs, rhs = vander(vector, order), values
    if w is not None:
        weights = convert(as_operand(w), spec_of(vector).dtype)
        if tuple(weights.shape) != tuple(vector.shape):
            raise ShapeError(f"polyfit: weights {spec_of(weights)} for x {spec_of(vector)}")
        lhs = multiply(lhs, weights[:, None])
        rhs = multiply(rhs, weights if len(rhs.shape) == 1 else weights[:, None])
    dtype = spec_of(vector).dtype
    cutoff = vector.shape[0] * float(np.finfo(dtype.dtype).eps) if rcond is None else rcond
    scale = sqrt(sum_over(multiply(lhs, lhs), axis=0))
    solution, residuals, rank, singular = linalg.lstsq(divide(lhs, scale), rhs, rcond=cutoff)
    solution = divide(solution, scale if len(rhs.shape) == 1 else scale[:, None])
    if full:
        return solution, residuals, rank, singular, cutoff
    if not cov:
        return solution
    base = linalg.inv(lhs.T @ lhs / (scale[:, None] * scale)) / (scale[:, None] * scale)
    if cov == "unscaled":
        return solution, base
    spare = vector.shape[0] - order
    if is_static(spare) and spare <= 0:
        raise InvalidConfigError(
            f"polyfit: a scaled covariance needs more than {order} points, got {vector.shape[0]}"
        )
    factor = divide(residuals, float(spare))
    if len(values.shape) == 1:
        return solution, multiply(base, factor)
    return solution, multiply(base[:, :, None], factor)
