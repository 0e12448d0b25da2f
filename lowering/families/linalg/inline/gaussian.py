"""LU factorisation with partial pivoting. The matrix is split into panels, which are blocks of adjacent columns.

A loop eliminates the columns of a panel one by one. The matrix to the right of the panel is then updated by a product.

Source: Golub and Van Loan, Matrix Computations, 4th ed., sections 3.4 and 3.6. Pivots are chosen as in LAPACK's xGETRF.
"""

from __future__ import annotations

from typing import Any

from lowering.families.linalg.inline.values import block, column, dot, loop, row, values_of, written
from lowering.families.linalg.matrix import permuted, triangular
from lowering.writer import Writer
from tenferro.extension.algebra import (
    Value,
    abs_,
    apply_one,
    broadcast,
    compare,
    full,
    iota_along,
    is_zero,
    real,
    reduce_sum,
    select,
    slice_along,
    take_along,
)
from tenferro.extension.ops import Concatenate, Imag, ReduceMax, ReduceMin

__all__ = ["lu", "pivots_to_permutation"]

PANEL = 32
"""Number of columns that are eliminated one by one before the remaining matrix is updated."""


def lu(op: Any, w: Writer, a: Any) -> Any:
    """Compute the factorisation A[perm] = L U; return L and U packed in one matrix, and `perm`."""
    (x,) = values_of(w, a)
    return written(factorised(w, x))


def factorised(w: Writer, a: Value) -> tuple[Value, Value]:
    """Compute an LU factorisation by the right-looking algorithm; return the packed factors and the row permutation.

    For each panel, the algorithm eliminates its columns, and computes the rows of U to the right of it. A matrix
    product then updates the remaining rows and columns.
    """
    m, n = a.shape[-2:]
    perm = iota_along(a, (*a.shape[:-2], m), a.rank - 2)
    if 0 in a.shape:
        return a, perm
    for first in range(0, min(m, n), PANEL):
        last = min(first + PANEL, min(m, n))
        panel, order = eliminated(block(a, (first, m), (first, last)))
        above = block(a, (0, first), (0, n))
        left = ordered(w, block(a, (first, m), (0, first)), order)
        right = ordered(w, block(a, (first, m), (last, n)), order)
        width, rest = last - first, n - last
        if rest:
            corner = block(panel, (0, width), (0, width))
            (top,) = values_of(
                w,
                triangular(
                    w,
                    corner.handle,
                    block(right, (0, width), (0, rest)).handle,
                    lower=True,
                    unit_diagonal=True,
                ),
            )
            low = block(right, (width, m - first), (0, rest))
            low = low - dot(block(panel, (width, m - first), (0, width)), top)
            right = joined((top, low), a.rank - 2)
        lower = joined((left, panel, right), a.rank - 1)
        a = joined((above, lower), a.rank - 2)
        perm = reordered(perm, order, first)
    return a, perm


def eliminated(panel: Value) -> tuple[Value, Value]:
    """Eliminate the columns of a panel; return its packed factors, and the permutation of its rows."""
    rank, (m, width) = panel.rank, panel.shape[-2:]
    lead = tuple(range(rank - 2))
    perm = iota_along(panel, (*panel.shape[:-2], m), rank - 2)

    def step(j: Value, a: Value, perm: Value) -> tuple[Value, Value]:
        rows = iota_along(a, perm.shape, rank - 2)
        here = broadcast(j, rows, ())
        x = column(a, j)
        pivot = broadcast(winner(x, rows, here), rows, lead)
        at, chosen = compare(rows, "EQ", here), compare(rows, "EQ", pivot)

        def swapped(x: Value, top: Value, bottom: Value) -> Value:
            places = (*lead, rank - 2)
            first, second = (broadcast(mask, x, places) for mask in (at, chosen))
            columns = (*lead, *range(rank - 1, x.rank))
            low, high = (broadcast(part, x, columns) for part in (bottom, top))
            return select(first, low, select(second, high, x))

        picked = reduce_sum(select(broadcast(chosen, a, (*lead, rank - 2)), a, 0), (rank - 2,))
        old = reduce_sum(select(at, perm, 0), (rank - 2,))
        new = reduce_sum(select(chosen, perm, 0), (rank - 2,))
        a, perm = swapped(a, row(a, j), picked), swapped(perm, old, new)
        x = column(a, j)
        value = broadcast(reduce_sum(select(at, x, 0), (rank - 2,)), x, lead)
        none = is_zero(value)
        below = compare(rows, "GT", here)
        factor = select(below, select(none, x, x / select(none, 1, value)), 0)
        columns = iota_along(a, a.shape, rank - 1)
        later = compare(columns, "GT", broadcast(j, columns, ()))
        wide = broadcast(factor, a, (*lead, rank - 2))
        top = broadcast(picked, a, (*lead, rank - 1))
        a = a - select(later, wide * top, 0)
        same = compare(columns, "EQ", broadcast(j, columns, ()))
        down = broadcast(below, a, (*lead, rank - 2))
        return select(same, select(down, wide, a), a), perm

    panel, perm = loop("eliminate", min(m, width), step, panel, perm)
    return panel, perm


def winner(x: Value, rows: Value, here: Value) -> Value:
    """Find the pivot: the first row, from row `here` on, in which x has the largest |re| + |im|.

    If x contains NaN, the pivot is row `here`.
    """
    size = abs_(real(x)) + abs_(apply_one(Imag(), x)) if x.dtype.is_complex else abs_(x)
    size = select(compare(rows, "GE", here), size, -1)
    axes, lead = (x.rank - 1,), range(x.rank - 1)
    best = broadcast(apply_one(ReduceMax(axes), size), size, lead)
    candidates = select(compare(size, "EQ", best), rows, full(rows, x.shape[-1]))
    first = apply_one(ReduceMin(axes), candidates)
    own = apply_one(ReduceMin(axes), here)
    return select(compare(first, "LT", x.shape[-1]), first, own)


def ordered(w: Writer, x: Value, order: Value) -> Value:
    """Gather the rows of each matrix in the order `order`; return a matrix without columns unchanged."""
    return values_of(w, permuted(w, order.handle, x.handle))[0] if x.shape[-1] else x


def reordered(perm: Value, order: Value, first: int) -> Value:
    """Permute the entries of `perm` from index `first` on by `order`; earlier entries do not move."""
    if not first:
        return order
    axis = perm.rank - 1
    rest = slice_along(perm, axis, first, perm.shape[-1])
    return joined((slice_along(perm, axis, 0, first), take_along(rest, order, axis)), axis)


def joined(parts: tuple[Value, ...], axis: int) -> Value:
    """Concatenate `parts` along an axis, without the empty parts."""
    nonempty = [part for part in parts if part.shape[axis]]
    return (
        nonempty[0]
        if len(nonempty) == 1
        else apply_one(Concatenate(axis, len(nonempty)), *nonempty)
    )


def pivots_to_permutation(w: Writer, swaps: Any, m: int) -> Any:
    """Compute the permutation that results from swapping entries i and swaps[i] of 0, .., m - 1, for i = 0, 1, ..

    The dtype of `swaps` is int64.
    """
    (pivots,) = values_of(w, swaps)
    perm = iota_along(pivots, (*pivots.shape[:-1], m), pivots.rank - 1)
    rank = perm.rank
    lead = tuple(range(rank - 1))

    def step(i: Value, perm: Value, swaps: Value) -> tuple[Value, Value]:
        places, counts = (
            iota_along(perm, perm.shape, rank - 1),
            iota_along(swaps, swaps.shape, rank - 1),
        )
        mine = compare(counts, "EQ", broadcast(i, counts, ()))
        partner = reduce_sum(select(mine, swaps, 0), (rank - 1,))
        at = compare(places, "EQ", broadcast(i, places, ()))
        chosen = compare(places, "EQ", broadcast(partner, places, lead))
        top, low = (reduce_sum(select(mask, perm, 0), (rank - 1,)) for mask in (at, chosen))
        moved = select(chosen, broadcast(top, perm, lead), perm)
        return select(at, broadcast(low, perm, lead), moved), swaps

    if not pivots.shape[-1] or 0 in pivots.shape:
        return perm.handle
    perm, _ = loop("pivots", pivots.shape[-1], step, perm, pivots)
    return perm.handle
