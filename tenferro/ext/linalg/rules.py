"""Derivative rules of the linear algebra families. They compute tangents, which are transposed to obtain cotangents.

Tangents consist of matrix products, triangles and solves, which are linear and have transposes. In the formulas, X_dot
is the tangent of X, ^H is the conjugate transpose, and o is the elementwise product.

Source: Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation", 2008; Roberts and Roberts, "QR and LQ decomposition matrix backpropagation
algorithms", 2020; Wan and Zhang, "Automatic differentiation for complex valued SVD", 2019.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tenferro.dims import UpperBound, at_least
from tenferro.ext.linalg import families as fam
from tenferro.extension import ExtensionAdRule, RuleBuilder
from tenferro.extension.algebra import (
    Value,
    abs_,
    add,
    apply_one,
    broadcast,
    compare,
    complex_,
    conj,
    convert,
    imag,
    iota,
    is_zero,
    lead_all,
    logical_or,
    matmul,
    real,
    reduce_sum,
    select,
    slice_along,
    take_along,
    transpose,
    zeros,
)
from tenferro.extension.ops import Concatenate, EmbedDiag, ExtractDiag, ReduceMax, Tril, Triu

__all__ = [
    "CholeskyRule",
    "DistinctRule",
    "EigRule",
    "EighRule",
    "LuRule",
    "LuSolveRule",
    "QrRule",
    "SolveRule",
    "SvdRule",
    "TriangularSolveRule",
]


def adjoint(x: Value) -> Value:
    """x^H, the conjugate transpose of each matrix."""
    return conj(swapped(x))


def swapped(x: Value) -> Value:
    """x^T, the transpose of each matrix."""
    rank = x.rank
    return transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def tril(x: Value, k: int = 0) -> Value:
    """Return the lower triangle of each matrix: elements on and below diagonal k; zeros elsewhere."""
    return apply_one(Tril(k), x)


def triu(x: Value, k: int = 0) -> Value:
    """Return the upper triangle of each matrix: elements on and above diagonal k; zeros elsewhere."""
    return apply_one(Triu(k), x)


def hermitian(x: Value) -> Value:
    """(x + x^H) / 2.

    Both terms are halved before they are added. The transpose of the function then starts with the sum, so that both
    ops can be fused.
    """
    half = x * 0.5
    return half + adjoint(half)


def diagonal(x: Value) -> Value:
    """Extract the diagonal of each matrix."""
    return apply_one(ExtractDiag(x.rank - 2, x.rank - 1), x)


def diagonal_matrix(x: Value) -> Value:
    """Build diagonal matrices from the last axis of x."""
    return apply_one(EmbedDiag(x.rank - 1, x.rank), x)


def columns(x: Value, s: Value) -> Value:
    """x diag(s): multiply column j of each matrix by s[j]."""
    rank = x.rank
    return x * broadcast(s, x, (*range(rank - 2), rank - 1))


def rows(s: Value, x: Value) -> Value:
    """diag(s) x: multiply row i of each matrix by s[i]."""
    return broadcast(s, x, range(x.rank - 1)) * x


def as_dtype(x: Value, like: Value) -> Value:
    """Convert x to the dtype of `like`."""
    return convert(x, like.dtype)


def identity_of(x: Value) -> Value:
    """Return identity matrices in the shape and dtype of x."""
    i, j = iota(x, x.rank - 2), iota(x, x.rank - 1)
    return convert(compare(i, "EQ", j), x.dtype)


def cut(x: Value, axis: int, start: Any, limit: Any) -> Value:
    """Return the elements `start` to `limit` - 1 along an axis; `axis` is negative and counts from the end."""
    return slice_along(x, x.rank + axis, start, limit)


def may_exceed(lhs: Any, rhs: Any) -> bool:
    """Return whether lhs may be larger than rhs.

    If not, there are no elements from rhs to lhs to compute.
    """
    return at_least(rhs, lhs.dim if isinstance(lhs, UpperBound) else lhs) is not True


def joined(x: Value, y: Value, axis: int) -> Value:
    """Concatenate x and y along an axis; `axis` is negative, and counts from the end."""
    return apply_one(Concatenate(x.rank + axis, 2), x, y)


def triangular(builder: RuleBuilder, a: Value, b: Value, **options: Any) -> Value:
    """Solve the triangular system a x = b."""
    return builder.apply(fam.TriangularSolve(**options), a, b)


def from_right(builder: RuleBuilder, b: Value, a: Value, **options: Any) -> Value:
    """b a^-1 for triangular a: the transpose of the solution of a^T x = b^T."""
    return swapped(triangular(builder, a, swapped(b), transpose="T", **options))


def reciprocal_differences(values: Value, like: Value, degenerate: str) -> Value:
    """F[i, j] = 1 / (values[j] - values[i]), and 0 on the diagonal.

    F is also 0 where two values are equal, unless `degenerate` is "nan". The diagonal is masked by its indices, not by
    a zero difference. A compiler that contracts a product and a difference into one rounding may compute a nonzero
    difference of equal numbers.
    """
    row, column = along_rows(values, like), along_columns(values, like)
    difference = row - column
    none = compare(identity_of(like_real(values, like)), "NE", 0)
    if degenerate != "nan":
        size = abs_(difference)
        epsilon = float(np.finfo(values.dtype.real.dtype).eps)
        largest = apply_one(ReduceMax((values.rank - 1,)), abs_(values)) * (fam.SAME * epsilon)
        near = compare(size, "LE", broadcast(largest, size, range(values.rank - 1)))
        none = logical_or(none, near)
    return select(none, 0, 1 / select(none, 1, difference))


def distinct(builder: RuleBuilder, op: Any, values: Value) -> Value:
    """Return `values`. If `op.degenerate` is "raise", the program checks that no two values are equal."""
    return builder.apply(fam.Distinct(), values) if op.degenerate == "raise" else values


def along_rows(values: Value, like: Value) -> Value:
    """Return a matrix whose element [i, j] is values[j]."""
    return broadcast(values, like_real(values, like), (*range(like.rank - 2), like.rank - 1))


def along_columns(values: Value, like: Value) -> Value:
    """Return a matrix whose element [i, j] is values[i]."""
    return broadcast(values, like_real(values, like), range(like.rank - 1))


def like_real(values: Value, like: Value) -> Value:
    """Create zeros with the shape of `like` and the dtype of `values`."""
    return zeros(like, values.dtype)


class MatrixRule(ExtensionAdRule):
    """Base class of the rules of these families. It batches an op along additional leading axes."""

    def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        return builder.apply(op, *lead_all(inputs, batched))


class FactorisationRule(MatrixRule):
    """Base class of the rules of factorisations. They compute the vectors even if the op does not return them.

    Attributes:
        position: without vectors, the op has only one output. This is its position among the outputs with vectors.
    """

    position: int

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        if op.vectors:
            return self.tangents(op, builder, primals, outputs, tangents)
        whole = replace(op, vectors=True)
        outputs = builder.apply(whole, *primals)
        return self.tangents(whole, builder, primals, outputs, tangents)[self.position]

    def tangents(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        """Compute the tangents of all factors."""
        raise NotImplementedError


class CholeskyRule(MatrixRule):
    """L_dot = L P(L^-1 A_dot L^-H), where P(X) is the lower triangle of X with half of its diagonal."""

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        (low,), (a_dot,) = outputs, tangents
        inner = triangular(builder, low, hermitian(a_dot))
        inner = adjoint(triangular(builder, low, adjoint(inner)))
        half = tril(inner) - diagonal_matrix(diagonal(inner)) * 0.5
        return matmul(low, half)


class QrRule(FactorisationRule):
    """Derivative of QR: Q_dot = W - Q U and R_dot = U R, with W = A_dot R^-1.

    U is the upper triangular matrix with a real diagonal for which Q^H W - U is skew-Hermitian. A wide matrix is split
    into its leading square part, which determines Q, and the rest. The additional columns of a full Q change only as
    far as orthogonality requires, and are not rotated among themselves.
    """

    position = 1

    def tangents(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        (a,), (q, r), (a_dot,) = primals, outputs, tangents
        m, n = a.shape[-2:]
        k = fam.smaller(m, n)
        wide = may_exceed(n, m)
        q1 = cut(q, -1, 0, k) if op.full and may_exceed(m, k) else q
        r1 = r
        if op.full and may_exceed(m, n):
            r1 = cut(r, -2, 0, k)
        left = cut(r1, -1, 0, k) if wide else r1
        a1_dot = cut(a_dot, -1, 0, k) if wide else a_dot
        w = from_right(builder, a1_dot, left, lower=False)
        g = matmul(adjoint(q1), w)
        upper = triu(g) + adjoint(tril(g, -1))
        if q.dtype.is_complex:
            turn = imag(diagonal(g))
            upper = upper - diagonal_matrix(complex_(zeros(turn), turn))
        q1_dot = w - matmul(q1, upper)
        r1_dot = matmul(upper, left)
        if wide:
            rest, rest_dot = cut(a, -1, k, n), cut(a_dot, -1, k, n)
            trailing_dot = matmul(adjoint(q1_dot), rest) + matmul(adjoint(q1), rest_dot)
            r1_dot = joined(r1_dot, trailing_dot, -1)
        if not (op.full and may_exceed(m, n)):
            return q1_dot, r1_dot
        q2 = cut(q, -1, k, m)
        q2_dot = -matmul(q1, matmul(adjoint(q1_dot), q2))
        # R has zeros below its square part, and they stay zero. The columns of Q that multiply these rows only stay
        # orthogonal to the other columns.
        zero = zeros(cut(r, -2, k, m))
        return joined(q1_dot, q2_dot, -1), joined(r1_dot, zero, -2)


class EighRule(FactorisationRule):
    """Derivative of eigh for A = V diag(w) V^H, with G = V^H A_dot V.

    w_dot = Re diag G and V_dot = V (F o G), where F[i, j] = 1 / (w_j - w_i).
    """

    position = 0

    def tangents(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        (w, v), (a_dot,) = outputs, tangents
        g = matmul(adjoint(v), matmul(hermitian(a_dot), v))
        f = as_dtype(reciprocal_differences(distinct(builder, op, w), v, op.degenerate), v)
        return real(diagonal(g)), matmul(v, f * g)


class EigRule(FactorisationRule):
    """Derivative of eig for A = V diag(w) V^-1, with G = V^-1 A_dot V and F[i, j] = 1 / (w_j - w_i).

    w_dot = diag G. V_dot is V (F o G) without its component along each column of V, so that columns keep their lengths.
    """

    position = 0

    def tangents(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        (w, v), (a_dot,) = outputs, tangents
        g = builder.apply(fam.Solve(), v, matmul(as_dtype(a_dot, v), v))
        v_dot = matmul(v, reciprocal_differences(w, v, "zero") * g)
        along = real(reduce_sum(conj(v) * v_dot, (v.rank - 2,)))
        return diagonal(g), v_dot - columns(v, as_dtype(along, v))


class SvdRule(FactorisationRule):
    """Derivative of the SVD A = U S V^H, with S = diag s and G = U^H A_dot V.

    s_dot = Re diag G, U_dot = U X and V_dot = V Y, plus terms orthogonal to the columns of U and V. X and Y are
    skew-Hermitian. Off the diagonal they solve X S - S Y = G - diag s_dot:
    X[i, j] = (G s_j + s_i G^H)[i, j] / (s_j^2 - s_i^2), Y[i, j] = (s_i G + G^H s_j)[i, j] / (s_j^2 - s_i^2).
    The phase of complex vectors is arbitrary. The imaginary part of diag G is added to X only, which fixes the phase.
    """

    position = 1

    def tangents(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        (a,), (u, s, vh), (a_dot,) = primals, outputs, tangents
        m, n = a.shape[-2:]
        k = fam.smaller(m, n)
        u1 = cut(u, -1, 0, k) if op.full and may_exceed(m, k) else u
        v1h = cut(vh, -2, 0, k) if op.full and may_exceed(n, k) else vh
        v1 = adjoint(v1h)
        g = matmul(adjoint(u1), matmul(a_dot, v1))
        gh = adjoint(g)
        s_dot = real(diagonal(g))
        scale = as_dtype(s, g)
        total = along_rows(s, g) + along_columns(s, g)
        f = reciprocal_differences(distinct(builder, op, s), g, op.degenerate) / select(
            is_zero(total), 1, total
        )
        f = as_dtype(f, g)
        x = f * (columns(g, scale) + rows(scale, gh))
        y = f * (rows(scale, g) + columns(gh, scale))
        inverse = as_dtype(select(is_zero(s), 0, 1 / select(is_zero(s), 1, s)), g)
        if g.dtype.is_complex:
            turn = imag(diagonal(g))
            x = x + diagonal_matrix(complex_(zeros(turn), turn) * inverse)
        u_dot, v_dot = matmul(u1, x), matmul(v1, y)
        if may_exceed(m, k):
            image = matmul(a_dot, v1)
            u_dot = u_dot + columns(image - matmul(u1, matmul(adjoint(u1), image)), inverse)
        if may_exceed(n, k):
            image = matmul(adjoint(a_dot), u1)
            v_dot = v_dot + columns(image - matmul(v1, matmul(v1h, image)), inverse)
        vh_dot = adjoint(v_dot)
        if op.full and may_exceed(m, k):
            u2 = cut(u, -1, k, m)
            u_dot = joined(u_dot, -matmul(u1, matmul(adjoint(u_dot), u2)), -1)
        if op.full and may_exceed(n, k):
            v2h = cut(vh, -2, k, n)
            vh_dot = joined(vh_dot, -matmul(matmul(v2h, v_dot), v1h), -2)
        return u_dot, s_dot, vh_dot


class LuRule(MatrixRule):
    """Derivative of LU. With G = L^-1 A_dot[perm] U^-1: L_dot = L tril(G, -1), U_dot = triu(G) U.

    For a rectangular matrix, the leading square block determines its part of L_dot and U_dot. The other rows or columns
    follow linearly.
    """

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        (a,), (packed, perm), (a_dot,) = primals, outputs, tangents
        m, n = a.shape[-2:]
        k = fam.smaller(m, n)
        index = broadcast(perm, zeros(a_dot, perm.dtype), tuple(range(a_dot.rank - 1)))
        a_dot = take_along(a_dot, index, a_dot.rank - 2)
        corner = cut(cut(packed, -2, 0, k), -1, 0, k)
        g = triangular(
            builder, corner, cut(cut(a_dot, -2, 0, k), -1, 0, k), lower=True, unit_diagonal=True
        )
        g = from_right(builder, g, corner, lower=False)
        unit = tril(corner, -1) + identity_of(corner)
        upper = triu(corner)
        low_dot, up_dot = matmul(unit, tril(g, -1)), matmul(triu(g), upper)
        corner_dot = low_dot + up_dot
        packed_dot = corner_dot
        if may_exceed(m, k):
            # L2 U = A2: L2_dot = (A2_dot - L2 U_dot) U^-1
            below, below_dot = cut(packed, -2, k, m), cut(a_dot, -2, k, m)
            below_dot = cut(below_dot, -1, 0, k) - matmul(cut(below, -1, 0, k), up_dot)
            packed_dot = joined(corner_dot, from_right(builder, below_dot, corner, lower=False), -2)
        if may_exceed(n, k):
            # L U2 = A2: U2_dot = L^-1 (A2_dot - L_dot U2)
            right, right_dot = cut(packed, -1, k, n), cut(a_dot, -1, k, n)
            right_dot = cut(right_dot, -2, 0, k) - matmul(low_dot, cut(right, -2, 0, k))
            right_dot = triangular(builder, corner, right_dot, lower=True, unit_diagonal=True)
            if may_exceed(
                m, k
            ):  # at run time, rows or columns beyond k are missing, so their intersection is empty
                right_dot = joined(right_dot, zeros(cut(cut(a_dot, -2, k, m), -1, k, n)), -2)
            packed_dot = joined(packed_dot, right_dot, -1)
        return packed_dot, None


FLIPPED = {"N": "C", "C": "N", "T": "N"}
"""Option `transpose` of the solve that the transpose rule emits, by that of the op.

For "T", A is conjugated as well.
"""
TURNED: dict[str, Callable[[Value], Value]] = {"N": lambda x: x, "T": swapped, "C": adjoint}


class SolverRule(MatrixRule):
    """Derivative rule of X = A^-1 B, where A stands for op(A): X_dot = A^-1 (B_dot - A_dot X).

    X is linear in B, and the transpose solves with A^H. Operands between A and B are factors of A. Their tangents are
    not needed, because the tangent of A determines them.
    """

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        (a, *factors, _), (x,), (a_dot, *_, b_dot) = primals, outputs, tangents
        change = None
        if a_dot is not None:
            change = -matmul(TURNED[op.transpose](self.read(op, a_dot)), x)
        return builder.apply(op, a, *factors, add(b_dot, change))

    def read(self, op: Any, a_dot: Value) -> Value:
        """Return the part of the tangent of A that affects the solution; by default the whole tangent."""
        return a_dot

    def transpose_rule(
        self, op: Any, builder: Any, inputs: Any, linear: Any, cotangents: Any
    ) -> Any:
        (*operands, _), (y_bar,) = inputs, cotangents
        if op.transpose == "T":
            operands = [conj(x) if x.dtype.is_inexact else x for x in operands]
        turned = replace(op, transpose=FLIPPED[op.transpose])
        return *[None] * len(operands), builder.apply(turned, *operands, y_bar)


class SolveRule(SolverRule):
    """Derivative rule of `Solve`; see `SolverRule`."""


class LuSolveRule(SolverRule):
    """Derivative rule of `LuSolve`; see `SolverRule`."""


class TriangularSolveRule(SolverRule):
    """Derivative rule of `TriangularSolve`; see `SolverRule`.

    Only the triangle that the op reads affects the solution.
    """

    def read(self, op: Any, a_dot: Value) -> Value:
        """Return the triangle of the tangent that the op reads, without the diagonal if `unit_diagonal`."""
        off = 1 if op.unit_diagonal else 0
        return tril(a_dot, -off) if op.lower else triu(a_dot, off)


class DistinctRule(MatrixRule):
    """Derivative rule of `Distinct`. The tangent is returned unchanged, because a derivative needs no second check."""

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return tangents[0]
