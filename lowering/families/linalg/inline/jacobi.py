"""Eigenvalues and singular values by Jacobi rotations.

A round applies n / 2 rotations at once, to disjoint pairs of rows or columns. It pairs row k with row k + n / 2, for
every k < n / 2, and columns in the same way. After each round the rows and columns are permuted as in a round-robin
tournament. So a sweep of n - 1 rounds rotates every pair once.

Source: Golub and Van Loan, Matrix Computations, 4th ed., sections 8.5 and 8.6.3; Brent and Luk (1985),
doi:10.1137/0906007, for the order.
"""

from __future__ import annotations

from typing import Any

from lowering.families.linalg.inline.householder import as_dtype_of, householder, identity, largest
from lowering.families.linalg.inline.values import block, loop, loop_while, values_of, written
from lowering.families.linalg.matrix import hermitian
from lowering.writer import Writer
from tenferro.extension.algebra import (
    Value,
    abs_,
    apply,
    apply_one,
    broadcast,
    compare,
    conj,
    full,
    iota_along,
    is_zero,
    logical_and,
    real,
    reduce_sum,
    scalar,
    select,
    slice_along,
    take_along,
    transpose,
    zeros,
)
from tenferro.extension.ops import Concatenate, ExtractDiag, ReduceMax, ReduceOr, Sort, Sqrt
from tenferro.types import DType

__all__ = ["eigh", "svd"]

SWEEPS = 30
"""Maximum number of sweeps, more than any matrix needs: convergence is quadratic after the first few sweeps."""
EPSILON = {DType.F32: 2.0**-23, DType.F64: 2.0**-52}


def eigh(op: Any, w: Writer, a: Any) -> Any:
    """Compute eigenvalues in ascending order and, if `op.vectors`, the eigenvectors, as columns of a matrix."""
    (x,) = values_of(w, hermitian(w, a))
    values, vectors = hermitian_eigen(x)
    return written((values, vectors) if op.vectors else (values,))


def svd(op: Any, w: Writer, a: Any) -> Any:
    """Compute U, the singular values s in descending order, and V^H; only s unless `op.vectors`.

    U and V^H are square if `op.full`.
    """
    (x,) = values_of(w, a)
    is_tall = x.shape[-2] >= x.shape[-1]
    u, s, v = tall_svd(x if is_tall else flipped(x), op.full)
    if not op.vectors:
        return written((s,))
    return written((u, s, flipped(v)) if is_tall else (v, s, flipped(u)))


# ---- rotations ---------------------------------------------------------------------------------------


def rotation(p: Value, q: Value, off: Value) -> tuple[Value, Value, Value]:
    """Return the cosine c, the sine s and the phase of the rotation that makes [[p, off], [conj(off), q]] diagonal.

    The eigenvectors of this matrix are (c, -s conj(phase)) and (s, c conj(phase)).
    """
    size = abs_(off)
    none = is_zero(size)
    safe = select(none, 1, size)
    phase = select(none, 1, off / as_dtype_of(off, safe))
    ratio = (q - p) / (2 * safe)
    steep = abs_(ratio) + apply_one(Sqrt(), 1 + ratio * ratio)
    t = select(compare(ratio, "GE", 0), 1 / steep, -1 / steep)
    t = select(none, 0, t)
    c = 1 / apply_one(Sqrt(), 1 + t * t)
    return as_dtype_of(off, c), as_dtype_of(off, t * c), phase


def halves(x: Value, axis: int) -> tuple[Value, Value]:
    """Split x into two halves along an axis of even extent."""
    middle = x.shape[axis] // 2
    return slice_along(x, axis, 0, middle), slice_along(x, axis, middle, 2 * middle)


def rotated(x: Value, axis: int, c: Value, s: Value, phase: Value) -> Value:
    """Rotate slice k of x along an axis with slice k + n / 2, for all k, and permute the slices for the next round.

    Args:
        c, s, phase: the cosine, sine and phase of each rotation; see `rotation`.
    """
    first, second = halves(x, axis)
    places = (*range(x.rank - 2), axis)
    c, s, phase = (broadcast(part, first, places) for part in (c, s, phase))
    return dealt(c * first - s * phase * second, s * first + c * phase * second, axis)


def dealt(first: Value, second: Value, axis: int) -> Value:
    """Concatenate two halves, with their slices permuted for the next round of the round-robin tournament.

    The first slice of `first` stays, and all other slices move by one position in a cycle.
    """
    n = first.shape[axis]
    if n == 1:
        return apply_one(Concatenate(axis, 2), first, second)

    def part(x: Value, start: int, limit: int) -> Value:
        return slice_along(x, axis, start, limit)

    chairs = [
        part(first, 0, 1),
        part(second, 0, 1),
        *([part(first, 1, n - 1)] if n > 2 else []),
        part(second, 1, n),
        part(first, n - 1, n),
    ]
    return apply_one(Concatenate(axis, len(chairs)), *chairs)


# ---- Hermitian eigenproblem ------------------------------------------------------------------------------


def hermitian_eigen(a: Value) -> tuple[Value, Value]:
    """Compute eigenvalues and eigenvectors: rotate rows and columns until off-diagonal elements are negligible."""
    n = a.shape[-1]
    rank = a.rank
    if 0 in a.shape:
        return reduce_sum(real(a), (rank - 1,)), a
    unit, scale = scaled(a)
    a, even = padded(unit)
    v = identity(a, even)
    tolerance = EPSILON[real(a).dtype] ** 2

    def rotate(i: Value, a: Value, v: Value) -> tuple[Value, Value]:
        top, bottom = halves(a, rank - 2)
        (upper, corner), (_, lower) = halves(top, rank - 1), halves(bottom, rank - 1)
        p, off, q = (
            apply_one(ExtractDiag(rank - 2, rank - 1), part) for part in (upper, corner, lower)
        )
        c, s, phase = rotation(real(p), real(q), off)
        a = rotated(a, rank - 2, c, s, phase)
        a = rotated(a, rank - 1, c, s, conj(phase))
        return a, rotated(v, rank - 1, c, s, conj(phase))

    def again(sweep: Value, a: Value, v: Value) -> Value:
        rows, columns = (iota_along(a, a.shape, axis) for axis in (rank - 2, rank - 1))
        squared = abs_(a) * abs_(a)
        total = reduce_sum(squared, (rank - 2, rank - 1))
        outside = select(compare(rows, "EQ", columns), 0, squared)
        rest = reduce_sum(outside, (rank - 2, rank - 1))
        return unfinished(sweep, compare(rest, "GT", total * tolerance))

    _, a, v = loop_while(
        "sweep",
        again,
        lambda sweep, a, v: (sweep + 1, *loop("rotate", max(even - 1, 1), rotate, a, v)),
        scalar(a, 0, DType.I64),
        a,
        v,
    )
    values = real(apply_one(ExtractDiag(rank - 2, rank - 1), a))
    if even > n:
        values = select(is_padding(v), largest_number(values), values)
    values, order = sorted_with_order(values)
    v = columns_in(v, order)
    values = slice_along(values, rank - 2, 0, n)
    return values * broadcast(scale, values, range(rank - 2)), block(v, (0, n), (0, n))


# ---- singular values -----------------------------------------------------------------------------------


def tall_svd(a: Value, everything: bool) -> tuple[Value, Value, Value]:
    """Compute U, s and V of matrices with at least as many rows as columns.

    Columns are rotated until they are orthogonal; their 2-norms are then the singular values. U is computed from these
    columns by QR, which completes an orthonormal basis if singular values are zero.
    """
    m, n = a.shape[-2:]
    rank = a.rank
    lead = range(rank - 2)
    if 0 in a.shape:
        u, _ = householder(a, everything)
        return u, reduce_sum(real(a), (rank - 2,)), identity(a, n)
    g, scale = scaled(a)
    g, even = padded_columns(g)
    v = identity(g, even)
    tolerance = EPSILON[real(g).dtype] * max(m, 10)
    start = full(scale, 1)

    def rotate(i: Value, g: Value, v: Value, worst: Value) -> tuple[Value, Value, Value]:
        left, right = halves(g, rank - 1)
        p, q = (reduce_sum(abs_(x) * abs_(x), (rank - 2,)) for x in (left, right))
        off = reduce_sum(conj(left) * right, (rank - 2,))
        product = apply_one(Sqrt(), p) * apply_one(Sqrt(), q)
        cosine = abs_(off) / select(is_zero(product), 1, product)
        worst = apply_one(ReduceMax((rank - 2,)), with_one_more(cosine, worst))
        c, s, phase = rotation(p, q, off)
        g = rotated(g, rank - 1, c, s, conj(phase))
        return g, rotated(v, rank - 1, c, s, conj(phase)), worst

    _, g, v, _ = loop_while(
        "sweep",
        lambda sweep, g, v, worst: unfinished(sweep, compare(worst, "GT", tolerance)),
        lambda sweep, g, v, worst: (
            sweep + 1,
            *loop("rotate", max(even - 1, 1), rotate, g, v, zeros(worst)),
        ),
        scalar(g, 0, DType.I64),
        g,
        v,
        start,
    )
    s = apply_one(Sqrt(), reduce_sum(abs_(g) * abs_(g), (rank - 2,)))
    key = -s
    if even > n:
        key = select(is_padding(v), largest_number(key), key)
    key, order = sorted_with_order(key)
    g, v = (columns_in(x, order) for x in (g, v))
    s = slice_along(-key, rank - 2, 0, n)
    u, r = householder(block(g, (0, m), (0, n)), everything)
    signs = real(apply_one(ExtractDiag(rank - 2, rank - 1), block(r, (0, n), (0, n))))
    signs = as_dtype_of(u, select(compare(signs, "LT", 0), full(signs, -1), full(signs, 1)))
    first = block(u, (0, m), (0, n)) * broadcast(signs, block(u, (0, m), (0, n)), (*lead, rank - 1))
    if u.shape[-1] > n:
        first = apply_one(Concatenate(rank - 1, 2), first, block(u, (0, m), (n, u.shape[-1])))
    return first, s * broadcast(scale, s, lead), block(v, (0, n), (0, n))


# ---- shapes and scales -----------------------------------------------------------------------------------


def flipped(x: Value) -> Value:
    """Return the conjugate transpose of each matrix."""
    return conj(transpose(x, (*range(x.rank - 2), x.rank - 1, x.rank - 2)))


def scaled(x: Value) -> tuple[Value, Value]:
    """Divide x by its largest magnitude, so that squares neither overflow nor underflow.

    Return the quotient and the magnitude; the magnitude is 1 for a matrix of zeros.
    """
    most = largest(x, 2)
    scale = select(is_zero(most), 1, most)
    return x / as_dtype_of(x, broadcast(scale, real(x), range(x.rank - 2))), scale


def padded(a: Value) -> tuple[Value, int]:
    """Pad a square matrix to even order with a row and a column of zeros, if necessary; return it and its order."""
    n = a.shape[-1]
    if n % 2 == 0:
        return a, n
    wide, even = padded_columns(a)
    last = zeros(block(wide, (0, 1), (0, even)))
    return apply_one(Concatenate(a.rank - 2, 2), wide, last), even


def padded_columns(a: Value) -> tuple[Value, int]:
    """Pad a matrix to an even number of columns by zeros, if necessary; return it and its number of columns."""
    m, n = a.shape[-2:]
    if n % 2 == 0:
        return a, n
    return apply_one(Concatenate(a.rank - 1, 2), a, zeros(block(a, (0, m), (0, 1)))), n + 1


def is_padding(v: Value) -> Value:
    """Return a mask over the columns of V, true for the eigenvector that belongs to the row and column of padding.

    This eigenvector is the last unit vector: the padding is zero, so no rotation mixes it with other columns.
    """
    n = v.shape[-1]
    last = block(v, (n - 1, n), (0, n))
    return compare(reduce_sum(abs_(last), (v.rank - 2,)), "GT", 0.5)


def largest_number(like: Value) -> Value:
    """Return infinity in the shape and dtype of `like`; it sorts after every finite number."""
    return full(like, float("inf"))


def sorted_with_order(x: Value) -> tuple[Value, Value]:
    """Sort along the last axis in ascending order, and return the original index of each element."""
    axis = x.rank - 1
    values, order = apply(Sort(axis, True, 2), x, iota_along(x, x.shape, axis))
    return values, order


def columns_in(x: Value, order: Value) -> Value:
    """Gather the columns of each matrix of x in the order `order`."""
    indices = broadcast(order, iota_along(x, x.shape, 0), (*range(x.rank - 2), x.rank - 1))
    return take_along(x, indices, x.rank - 1)


def with_one_more(x: Value, last: Value) -> Value:
    """Append the value `last` to x at the end of the last axis."""
    column = broadcast(last, slice_along(x, x.rank - 1, 0, 1), range(x.rank - 1))
    return apply_one(Concatenate(x.rank - 1, 2), x, column)


def unfinished(sweep: Value, doubts: Value) -> Value:
    """Return whether any matrix of the batch has not converged and fewer than `SWEEPS` sweeps are done.

    Args:
        sweep: number of sweeps that are done.
        doubts: a bool per matrix, true if the matrix has not converged.
    """
    some = apply_one(ReduceOr(tuple(range(doubts.rank))), doubts) if doubts.rank else doubts
    return logical_and(some, compare(sweep, "LT", SWEEPS))
