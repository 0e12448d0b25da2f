"""QR factorisations of matrices with appended rows or columns, computed from the factors of the matrices.

Source: Barlow and Smoktunowicz, "Reorthogonalized block classical Gram-Schmidt", 2013; Golub and Van Loan, Matrix
Computations, 4th ed., section 6.5.
"""

from __future__ import annotations

from typing import Any

from tenferro.api.control import cond
from tenferro.api.creation import zeros
from tenferro.api.determinant import adjoint
from tenferro.api.elementwise import abs, add, less, subtract
from tenferro.api.linear import matmul
from tenferro.api.manipulation import concatenate
from tenferro.api.reductions import all, sum
from tenferro.dispatch import spec_of
from tenferro.ext.linalg import families as fam
from tenferro.extension import apply
from tenferro.types import Tensor

__all__ = ["with_columns", "with_rows"]

NEARLY_ORTHOGONAL = 0.25
"""Bound on the squared norm of Q^H X, for X with orthonormal columns, below which one projection of X suffices.

The singular values of X - Q Q^H X are then at least sqrt(3/4), so this projection is orthogonal to Q up to rounding.
"""


def with_rows(q: Tensor, r: Tensor, b: Tensor) -> tuple[Any, Any]:
    """Return the factors [Q P1; P2] and S of [A; B], where A = Q R, and [R; B] = P S is a second QR factorisation.

    P1 contains as many of the first rows of P as R has rows, and P2 contains the other rows of P.
    """
    k = r.shape[-2]
    turned, r = apply(fam.Qr(), concatenate([r, b], axis=-2))
    return concatenate([matmul(q, turned[..., :k, :]), turned[..., k:, :]], axis=-2), r


def with_columns(q: Tensor, r: Tensor, b: Tensor) -> tuple[Any, Any]:
    """Return the factors of [A, B]. Q is extended by a basis of the component of B that is orthogonal to Q.

    The component is orthogonalised to Q twice. If B is almost in the span of Q, the component is mostly rounding error.
    Householder reflections of [Q, B] are then used instead.
    """
    *batch, m, k = q.shape
    count = min(b.shape[-1], m - k)
    if count == 0:
        return q, concatenate([r, matmul(adjoint(q), b)], axis=-1)
    left, rest = b[..., :count], b[..., count:]
    along = matmul(adjoint(q), left)
    x, s = apply(fam.Qr(), subtract(left, matmul(q, along)))
    again = matmul(adjoint(q), x)
    is_apart = all(less(sum(abs(again) ** 2, axis=(-2, -1)), NEARLY_ORTHOGONAL))

    def projected() -> Any:
        fresh, t = apply(fam.Qr(), subtract(x, matmul(q, again)))
        return fresh, add(along, matmul(again, s)), matmul(t, s)

    def reflected() -> Any:
        whole, t = apply(fam.Qr(), concatenate([q, left], axis=-1))
        return whole[..., k:], along, t[..., k:, k:]

    fresh, above, below = cond(is_apart, projected, reflected)
    basis = concatenate([q, fresh], axis=-1)
    below_r = zeros((*batch, count, r.shape[-1]), dtype=spec_of(q).dtype)
    r = concatenate(
        [concatenate([r, below_r], axis=-2), concatenate([above, below], axis=-2)], axis=-1
    )
    if rest.shape[-1] == 0:
        return basis, r
    return basis, concatenate([r, matmul(adjoint(basis), rest)], axis=-1)
