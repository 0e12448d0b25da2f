"""Derivatives of LAPACK's packed results, computed from the derivatives of the factorisations.

Reductions to tridiagonal, Hessenberg or Schur form have no derivative rule, but the eigenvalues of `Gees` have one.

Source: Ballard et al., "Reconstructing Householder vectors from tall-skinny QR", 2014, for Q - 1 = V U;
Puglisi, "Modification of the Householder method based on the compact WY representation", 1992.
"""

from __future__ import annotations

from typing import Any

from tenferro.ext.lapack import families as fam
from tenferro.ext.linalg import families as linalg
from tenferro.ext.linalg.rules import (
    EigRule,
    LuRule,
    MatrixRule,
    QrRule,
    adjoint,
    columns,
    cut,
    diagonal,
    diagonal_matrix,
    from_right,
    identity_of,
    joined,
    rows,
    triangular,
    tril,
    triu,
)
from tenferro.extension import RuleBuilder
from tenferro.extension.algebra import (
    Value,
    add,
    broadcast,
    conj,
    is_zero,
    matmul,
    select,
    take_along,
    zeros,
)

__all__ = ["GeevRule", "Geqp3Rule", "GeqrfRule", "GetrfRule", "GtsvRule", "HouseholderProductRule"]


class GetrfRule(MatrixRule):
    """Derivative rule of getrf. It applies the rule of `Lu`, for the permutation that the pivots describe."""

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        packed, pivots, _ = outputs
        perm = builder.apply(fam.PivotsToPermutation(packed.shape[-2]), pivots - 1)
        packed_dot, _ = LuRule().linearize(linalg.Lu(), builder, primals, (packed, perm), tangents)
        return packed_dot, None, None


def packed_tangents(
    builder: RuleBuilder, a: Value, packed: Value, factors: Value, a_dot: Value
) -> tuple[Value, Value]:
    """Compute the tangents of a packed QR factorisation: of R with Householder vectors V below it, and of tau.

    The rule of `Qr` computes Q_dot and R_dot. Q minus the first columns of the identity equals V U. Here V is unit
    lower triangular, and U is upper triangular with -tau on the diagonal. V_dot and U_dot follow from the derivative of
    an LU factorisation without pivoting. A reflector with tau = 0 is the identity, and its tangent is zero.
    """
    k = factors.shape[-1]
    left = cut(packed, -1, 0, k)
    q = builder.apply(fam.HouseholderProduct(), left, factors)
    r = triu(cut(packed, -2, 0, k))
    q_dot, r_dot = QrRule().linearize(linalg.Qr(), builder, (a,), (q, r), (a_dot,))
    m = packed.shape[-2]
    corner, top = cut(left, -2, 0, k), cut(q, -2, 0, k)
    upper = triangular(builder, corner, top - identity_of(top), lower=True, unit_diagonal=True)
    none = is_zero(factors)
    safe = triu(upper) + diagonal_matrix(select(none, 1, factors * 0))
    g = from_right(builder, cut(q_dot, -2, 0, k), safe, lower=False)
    g = triangular(builder, corner, g, lower=True, unit_diagonal=True)
    nonzero = select(none, 0, factors * 0 + 1)
    unit = tril(corner, -1) + identity_of(corner)
    v_dot = columns(matmul(unit, tril(g, -1)), nonzero)
    upper_dot = matmul(triu(g), triu(upper))
    if m > k:
        rest = cut(q_dot, -2, k, m) - matmul(cut(left, -2, k, m), upper_dot)
        below = columns(from_right(builder, rest, safe, lower=False), nonzero)
        v_dot = joined(v_dot, below, -2)
        edge = zeros(cut(packed, -2, k, m))
        r_dot = joined(r_dot, edge, -2)
    n = packed.shape[-1]
    if n > k:
        v_dot = joined(v_dot, zeros(cut(packed, -1, k, n)), -1)
    return triu(r_dot) + tril(v_dot, -1), -diagonal(upper_dot)


class GeqrfRule(MatrixRule):
    """Derivative rule of geqrf; see `packed_tangents`."""

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return packed_tangents(builder, *primals, *outputs, *tangents)


class Geqp3Rule(MatrixRule):
    """Derivative rule of geqp3. It applies the rule of `Geqrf` to A with permuted columns."""

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        (a,), (packed, order, factors), (a_dot,) = primals, outputs, tangents
        axis = a.rank - 1
        places = broadcast(order - 1, zeros(a, order.dtype), (*range(a.rank - 2), axis))
        ordered, ordered_dot = (take_along(x, places, axis) for x in (a, a_dot))
        packed_dot, factors_dot = packed_tangents(builder, ordered, packed, factors, ordered_dot)
        return packed_dot, None, factors_dot


class HouseholderProductRule(MatrixRule):
    """Derivative rule of Q = 1 - V T V_n^H with T = (1 + D S)^-1 D.

    V contains the Householder vectors as columns, V_n is its first n rows, D = diag tau, and S is the part of V^H V
    above the diagonal. T_dot = (1 + D S)^-1 (D_dot (1 - S T) - D S_dot T).
    """

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        (packed, factors), (packed_dot, factors_dot) = primals, tangents
        k, n = factors.shape[-1], packed.shape[-1]
        left = cut(packed, -1, 0, k)
        v = tril(left, -1) + identity_of(left)
        s = triu(matmul(adjoint(v), v), 1)
        scaled = rows(factors, s)

        def divided(x: Value) -> Value:
            return triangular(builder, scaled, x, lower=False, unit_diagonal=True)

        t = divided(diagonal_matrix(factors))
        first = cut(v, -2, 0, n)
        inner = None
        if factors_dot is not None:
            inner = rows(factors_dot, identity_of(s) - matmul(s, t))
        q_dot = None
        if packed_dot is not None:
            v_dot = tril(cut(packed_dot, -1, 0, k), -1)
            s_dot = triu(matmul(adjoint(v_dot), v) + matmul(adjoint(v), v_dot), 1)
            inner = add(inner, -rows(factors, matmul(s_dot, t)))
            along = matmul(matmul(v_dot, t), adjoint(first))
            across = matmul(matmul(v, t), adjoint(cut(v_dot, -2, 0, n)))
            q_dot = -(along + across)
        assert inner is not None
        return add(q_dot, -matmul(matmul(v, divided(inner)), adjoint(first)))


class GeevRule(MatrixRule):
    """Derivative rule of geev. It applies the rule of `Eig` twice.

    The left eigenvectors of A are the eigenvectors of A^H, whose eigenvalues are conj(w).
    """

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        (w, left, right), (a_dot,) = outputs, tangents
        rule, eig = EigRule(), linalg.Eig()
        # The first call computes the tangents of w and of the right eigenvectors from A_dot. The second call computes
        # the tangents of the left eigenvectors from A_dot^H.
        w_dot, right_dot = rule.tangents(eig, builder, primals, (w, right), (a_dot,))
        turned = (conj(w), left), (adjoint(a_dot),)
        _, left_dot = rule.tangents(eig, builder, primals, *turned)
        return w_dot, left_dot, right_dot


class GtsvRule(MatrixRule):
    """Derivative rule of gtsv: X_dot = T^-1 (B_dot - T_dot X).

    X is linear in B, and the transpose solves with T^H.
    """

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        (*diagonals, _), (x, _), (*moved, b_dot) = primals, outputs, tangents
        neighbours = (shifted(x, 1), x, shifted(x, -1))
        change = b_dot
        for part, near in zip(moved, neighbours, strict=True):
            if part is not None:
                change = add(change, -rows(part, near))
        assert change is not None
        return builder.apply(op, *diagonals, change)[0], None

    def transpose_rule(
        self, op: Any, builder: Any, inputs: Any, linear: Any, cotangents: Any
    ) -> Any:
        below, middle, above, _ = inputs
        turned = (conj(part) for part in (shifted(above, 1, -1), middle, shifted(below, -1, -1)))
        return None, None, None, builder.apply(op, *turned, cotangents[0])[0]


def shifted(x: Value, by: int, axis: int = -2) -> Value:
    """Shift entries along an axis: y[i] = x[i - by], with zeros where i - by is out of bounds."""
    n = x.shape[axis]
    edge = zeros(cut(x, axis, 0, 1))
    if by > 0:
        return joined(edge, cut(x, axis, 0, n - 1), axis)
    return joined(cut(x, axis, 1, n), edge, axis)
