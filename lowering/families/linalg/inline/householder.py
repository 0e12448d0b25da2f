"""QR factorisation by Householder reflections, column by column.

Source: Golub and Van Loan, Matrix Computations, 4th ed., section 5.2. The signs are those of LAPACK's xLARFG.
"""

from __future__ import annotations

from typing import Any

from lowering.families.linalg.inline.values import block, column, loop, values_of, written
from lowering.writer import Writer
from tenferro.extension.algebra import (
    Value,
    abs_,
    apply_one,
    broadcast,
    compare,
    complex_,
    conj,
    convert,
    iota_along,
    logical_and,
    real,
    reduce_sum,
    select,
    zeros,
)
from tenferro.extension.ops import Imag, ReduceMax, Sqrt, Triu

__all__ = ["as_dtype_of", "householder", "identity", "largest", "qr"]


def qr(op: Any, w: Writer, a: Any) -> Any:
    """Compute Q and R with A = Q R; Q is square if `op.full`."""
    (x,) = values_of(w, a)
    return written(householder(x, op.full)[not op.vectors :])


def householder(a: Value, full: bool) -> tuple[Value, Value]:
    """Compute Q, the product of the reflections, and R, which is A after all reflections.

    Reflection i sets column i to zero below row i. It makes the element on the diagonal real.
    """
    m, n = a.shape[-2:]
    k = min(m, n)
    width = m if full else k
    q = identity(a, m)

    def step(i: Value, a: Value, q: Value) -> tuple[Value, Value]:
        tau, v = reflector(column(a, i), i)
        return reflected(a, conj(tau), v), from_right(q, tau, v)

    if k and 0 not in a.shape[:-2]:
        a, q = loop("householder", k, step, a, q)
    return block(q, (0, m), (0, width)), apply_one(Triu(0), block(a, (0, width), (0, n)))


def reflector(x: Value, i: Value) -> tuple[Value, Value]:
    """Compute tau and v of the reflection 1 - conj(tau) v v^H that sets the elements of x below element i to zero.

    The reflection makes element i real, and v_i = 1.
    """
    rows = iota_along(x, x.shape, x.rank - 1)
    at = compare(rows, "EQ", broadcast(i, rows, ()))
    below = compare(rows, "GT", broadcast(i, rows, ()))
    axes = (x.rank - 1,)
    alpha = reduce_sum(select(at, x, 0), axes)
    tail = select(below, x, 0)
    size = length(tail, alpha)
    upward = compare(real(alpha), "GE", 0)
    beta = select(upward, -size, size)
    alone = compare(largest(tail, 1), "EQ", 0)
    if x.dtype.is_complex:
        alone = logical_and(alone, compare(apply_one(Imag(), alpha), "EQ", 0))
    safe = as_dtype_of(alpha, select(alone, 1, beta))
    tau = select(alone, 0, (safe - alpha) / safe)
    divisor = select(alone, 1, alpha - safe)
    v = tail / broadcast(divisor, tail, range(tail.rank - 1))
    return tau, select(at, 1, v)


def length(tail: Value, alpha: Value) -> Value:
    """Compute the 2-norm of the vector that consists of `tail` and the element `alpha`, without overflow."""
    most = emit_max(largest(tail, 1), abs_(alpha))
    scale = select(compare(most, "EQ", 0), 1, most)
    parts = abs_(tail) / broadcast(scale, real(tail), range(tail.rank - 1))
    last = abs_(alpha) / scale
    return scale * apply_one(Sqrt(), reduce_sum(parts * parts, (tail.rank - 1,)) + last * last)


def reflected(a: Value, tau: Value, v: Value) -> Value:
    """Apply a reflection from the left: A - tau v (v^H A)."""
    lead = tuple(range(a.rank - 2))
    rows, columns = (*lead, a.rank - 2), (*lead, a.rank - 1)
    wide = broadcast(v, a, rows)
    product = reduce_sum(conj(wide) * a, (a.rank - 2,))
    return a - broadcast(tau, a, lead) * wide * broadcast(product, a, columns)


def from_right(q: Value, tau: Value, v: Value) -> Value:
    """Apply a reflection from the right: Q - tau (Q v) v^H."""
    lead = tuple(range(q.rank - 2))
    rows, columns = (*lead, q.rank - 2), (*lead, q.rank - 1)
    wide = broadcast(v, q, columns)
    product = reduce_sum(q * wide, (q.rank - 1,))
    return q - broadcast(tau, q, lead) * broadcast(product, q, rows) * conj(wide)


# ---- shared with other algorithms ------------------------------------------------------------------------


def identity(like: Value, n: int) -> Value:
    """Emit a stack of n x n identity matrices, with the batch shape and dtype of `like`."""
    shape = (*like.shape[:-2], n, n)
    rows = iota_along(like, shape, len(shape) - 2)
    columns = iota_along(like, shape, len(shape) - 1)
    return convert(compare(rows, "EQ", columns), like.dtype)


def largest(x: Value, axes: int) -> Value:
    """Compute the largest magnitude of x over its last `axes` axes; 0 if these axes have no elements."""
    places = tuple(range(x.rank - axes, x.rank))
    if 0 in x.shape[x.rank - axes :]:
        return reduce_sum(abs_(x), places)
    return apply_one(ReduceMax(places), abs_(x))


def emit_max(x: Value, y: Value) -> Value:
    """Select the larger of x and y for each element; y if one of them is NaN."""
    return select(compare(x, "GE", y), x, y)


def as_dtype_of(like: Value, x: Value) -> Value:
    """Convert a real x to complex if `like` is complex; else return x."""
    return complex_(x, zeros(x)) if like.dtype.is_complex else x
