"""Determinants whose derivatives are also right at singular matrices.

The usual formula for the gradient, det(A) A^-T, fails at singular matrices, although the determinant is a polynomial.
Therefore the gradient is computed as the transpose of the adjugate. First and second derivatives need no division: they
are computed from products of all singular values except one or two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.api.creation import ones_like, tril, triu
from tenferro.api.custom import custom_jvp
from tenferro.api.elementwise import add, conj, greater, multiply, not_equal, sign, subtract, where
from tenferro.api.linear import matmul
from tenferro.api.manipulation import diagonal, expand_dims, extract_diag, flip, matrix_transpose
from tenferro.api.promotion import broadcast_to, convert
from tenferro.api.reductions import cumulative_prod, prod, sum
from tenferro.dispatch import spec_of
from tenferro.ext.linalg import families as fam
from tenferro.extension import apply
from tenferro.types import ArrayLike, DType, Tensor

__all__ = ["adjoint", "adjugate", "determinant", "sign_of_pivots"]


@custom_jvp
def determinant(x: ArrayLike) -> Any:
    """Compute the determinant, by LU with partial pivoting."""
    packed, perm = apply(fam.Lu(), x)
    pivots = extract_diag(packed, -2, -1)
    return multiply(sign_of_pivots(perm, pivots), prod(pivots, axis=-1))


@determinant.defjvp
def _determinant_jvp(primals: Any, tangents: Any) -> Any:
    """Return the determinant and its tangent by Jacobi's formula, tr(adj(A) A_dot)."""
    (x,), (x_dot,) = primals, tangents
    products = multiply(matrix_transpose(adjugate(x)), x_dot)
    return determinant(x), sum(products, axis=(-2, -1))


def sign_of_pivots(perm: Tensor, like: Tensor | None) -> Any:
    """Return the sign of a permutation: 1 if its number of inversions is even, otherwise -1.

    The result has the dtype of `like`.
    """
    earlier, later = expand_dims(perm, axis=-1), expand_dims(perm, axis=-2)
    above = triu(convert(greater(earlier, later), DType.I64), k=1)
    odd = not_equal(sum(above, axis=(-2, -1)) % 2, 0)
    return convert(where(odd, -1, 1), spec_of(like).dtype)


@custom_jvp
def adjugate(x: ArrayLike) -> Any:
    """Compute the adjugate of A, which is the transpose of the matrix of cofactors, as det(U V^H) V adj(S) U^H.

    A = U S V^H is the singular value decomposition. adj(S) is diagonal: its i-th element is the product of all singular
    values except the i-th.
    """
    phase, u, s, vh = _factors(x)
    left, right = _products_before(s), _products_after(s)
    others = convert(multiply(left, right), spec_of(x).dtype)
    scaled = multiply(adjoint(vh), expand_dims(others, axis=-2))
    return multiply(phase, matmul(scaled, adjoint(u)))


@adjugate.defjvp
def _adjugate_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return the adjugate and its tangent: det(U V^H) V (diag(E diag(B)) - E o B) U^H.

    Here B = U^H A_dot V, and o is the elementwise product. E[i, j] is the product of all singular values except the
    i-th and the j-th; E[i, i] is 0. The expression in parentheses is the part of adj(S + B) that is linear in B.
    """
    (x,), (x_dot,) = primals, tangents
    phase, u, s, vh = _factors(x)
    v = adjoint(vh)
    b = matmul(adjoint(u), matmul(x_dot, v))
    e = convert(_products_without_two(s), spec_of(x).dtype)
    along = sum(
        multiply(e, expand_dims(diagonal(b, axis1=-2, axis2=-1), axis=-2)), axis=-1, keepdims=True
    )
    inner = subtract(multiply(along, _identity(b)), multiply(e, b))
    return adjugate(x), multiply(phase, matmul(matmul(v, inner), adjoint(u)))


def _factors(x: ArrayLike) -> tuple[Any, Any, Any, Any]:
    u, s, vh = apply(fam.Svd(), x)
    packed, perm = apply(fam.Lu(), matmul(u, vh))
    pivots = extract_diag(packed, -2, -1)
    phase = multiply(sign_of_pivots(perm, pivots), prod(sign(pivots), axis=-1))
    return expand_dims(phase, axis=(-2, -1)), u, s, vh


def _products_before(s: Tensor) -> Any:
    """Return, for each element, the product of all elements before it along the last axis."""
    return cumulative_prod(s, axis=-1, include_initial=True)[..., :-1]


def _products_after(s: Tensor) -> Any:
    return flip(_products_before(flip(s, axis=-1)), axis=-1)


def _products_without_two(s: Tensor) -> Any:
    """Return a symmetric matrix whose element (i, j) is the product of all elements of s except s[i] and s[j].

    For i < j, three products are multiplied: of the elements before i, between i and j, and after j. The diagonal is
    zero.
    """
    wide = broadcast_to(expand_dims(s, axis=-2), (*s.shape, s.shape[-1]))
    between = _products_before(add(triu(wide, k=1), tril(ones_like(wide))))
    before = expand_dims(_products_before(s), axis=-1)
    after = expand_dims(_products_after(s), axis=-2)
    upper = triu(multiply(before, multiply(between, after)), k=1)
    return add(upper, matrix_transpose(upper))


def _identity(like: Tensor) -> Any:
    return tril(triu(ones_like(like)))


def adjoint(x: ArrayLike) -> Any:
    """Return the conjugate transpose."""
    return conj(matrix_transpose(x)) if spec_of(x).dtype.is_complex else matrix_transpose(x)
