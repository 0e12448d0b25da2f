"""Products of matrix views: at once, or in pieces that threads share while BLAS itself has one thread.

A piece of an operand that has to be copied is copied by the thread that multiplies it next, and is still in
its cache; so is a piece of a result that is wanted in columns turned. Pieces are the same for any number of threads
and any order of results, and so are the results.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from tenferro.exec.copying import Copy
from tenferro.exec.kernels.kernel import Array
from tenferro.exec.kernels.matrix_view import Axes, MatrixView
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.threads import ALONE, Workers
from tenferro.exec.runtime.turn import LINE

__all__ = [
    "ColumnMajor", "Groups", "InPieces", "Mirrored", "Whole", "are_vectors", "multiplied", "pieces_for", "scratch", "work_of", "workers_for",
]  # fmt: skip

PIECE = 128
"""Rows, columns or terms, at least, of a piece: each packs the other operand once more."""
LARGE = 1 << 24
"""Multiplications of a product that is worth sharing: by two, and by twice as many for each four times the work.

Threads wait for each other between calls, so that pieces have to grow as well."""
MOST_PIECES = min(16, os.cpu_count() or 1)
"""By the cores of the machine, because each piece packs again what all need: eight of 1024 rows take 1.15 of the time of two."""
WHOLE = LINE // 4
"""Rows or columns of which a piece is a multiple, so that those of a column-major result are whole lines of the cache."""
MANY, FEW = 256, 64
"""Matrices, and elements of each, of which a call of BLAS for each by a vector takes most of the time."""
MOVED = 32
"""Multiplications that take as long as an element does that is copied first."""
READ = 8
"""The same, to read an element of a matrix that meets a single vector."""
LARGEST_SHARE = 1 << 14
"""Elements of a result that may be the sum of one array per piece."""
SMALLEST_SCRATCH = 1 << 17
"""Bytes of copies that are worth memory which stays."""


@dataclass(frozen=True)
class Groups:
    """The axes of two operands, those of a group in the order in which they are one.

    Attributes:
        batch, terms: of both.
        rows, columns: of lhs, of rhs.
    """

    batch: tuple[Axes, Axes]
    rows: Axes
    columns: Axes
    terms: tuple[Axes, Axes]

    def left(self, lhs: Array) -> MatrixView:
        """The operand as (batch.., rows, terms)."""
        return MatrixView(lhs, self.batch[0], self.rows, self.terms[0])

    def right(self, rhs: Array) -> MatrixView:
        """The operand as (batch.., terms, columns)."""
        return MatrixView(rhs, self.batch[1], self.terms[1], self.columns)


def multiplied(a: Array, b: Array, out: Array | None, turned: bool) -> Array:
    """The product by BLAS; turned, with rows nearer to each other than columns.

    Of many small matrices by a vector each, a call of BLAS takes longer than the sums of their products.
    """
    if are_vectors(a.shape, b.shape) and a.strides[-1] == b.strides[-2] == a.itemsize:
        y = np.einsum("...ij,...j->...i", a, b[..., 0], out=None if out is None else out[..., 0])
        return y[..., None]
    if not turned:
        return np.matmul(a, b, out=out)
    out = None if out is None else out.swapaxes(-1, -2)
    return np.matmul(b.swapaxes(-1, -2), a.swapaxes(-1, -2), out=out).swapaxes(-1, -2)


def are_vectors(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether the products of these are those of many matrices of few elements, each by a vector."""
    return b[-1] == 1 and prod(a[:-2]) >= MANY and prod(a[-2:]) <= FEW


def pieces_for(multiplications: int, moved: int = 0) -> int:
    """How many pieces a product is worth, with the elements that are copied for it."""
    work = multiplications and multiplications + MOVED * moved
    times = (work // LARGE).bit_length()
    return min(MOST_PIECES, 1 << max(times // 2, 1)) if times else 1


def work_of(rows: int, columns: int, terms: int) -> int:
    """Multiplications of a product that take as long; those of a matrix and a vector wait for memory."""
    return rows * columns * terms * (READ if 1 in (rows, columns) else 1)


def workers_for(resources: Resources, multiplications: int, moved: int = 0) -> Workers:
    """The threads for so much work."""
    return resources.workers if pieces_for(multiplications, moved) > 1 else ALONE


def _result(shape: Sequence[int], dtype: Any, turned: bool, into: Any) -> Array:
    """An array for (.., rows, columns), in these bytes or in memory of its own."""
    if not turned:
        return np.ndarray(shape, dtype, into)
    return np.ndarray((*shape[:-2], *shape[:-3:-1]), dtype, into).swapaxes(-1, -2)


def scratch(resources: Resources, rooms: Sequence[int]) -> AbstractContextManager[Sequence[Any]]:
    """Memory for copies; new memory for small ones."""
    if sum(rooms) < SMALLEST_SCRATCH:
        return nullcontext([None] * len(rooms))
    return resources.memory.scratch(rooms)


class Whole:
    """A product by one call, on copies where there have to be some."""

    def __init__(
        self, left: MatrixView, right: MatrixView, turned: bool, resources: Resources
    ) -> None:
        self.left, self.right, self.turned, self.resources = left, right, turned, resources
        self.shape = (*left.shape[:-1], right.shape[-1])

    def __call__(self, lhs: Array, rhs: Array, into: Any) -> Array:
        """The product as (batch.., rows, columns)."""
        with scratch(self.resources, (self.left.room, self.right.room)) as memory:
            a = self.left.copied(lhs, memory[0], self.resources)
            b = self.right.copied(rhs, memory[1], self.resources)
            out = None if into is None else _result(self.shape, lhs.dtype, self.turned, into)
            return multiplied(a, b, out, self.turned)


class Mirrored:
    """X X^T: blocks on the diagonal, of which BLAS makes half and mirrors it, and those below, which are mirrored here.

    Blocks are the same for any number of threads, and the result is symmetric, bit for bit.
    """

    @classmethod
    def of(cls, left: MatrixView, resources: Resources) -> Mirrored | None:
        """None where threads would not help."""
        rows, terms = left.shape
        work = rows * rows * terms
        count = min(pieces_for(work), rows // PIECE)
        # Of the smallest, half is little more than what waking a thread takes.
        is_worth = count > 1 and (rows > 2 * PIECE or work > LARGE)
        return cls(left, resources, count) if is_worth else None

    def __init__(self, left: MatrixView, resources: Resources, count: int) -> None:
        self.left, self.resources = left, resources
        rows = left.shape[0]
        cuts = [*pairwise([rows * piece // count for piece in range(count + 1)])]
        # Those below come first, because they take twice as long.
        below = [(i, k) for n, i in enumerate(cuts) for k in cuts[:n]]
        self.blocks = [*below, *[(i, i) for i in cuts]]

    def __call__(self, lhs: Array, rhs: Array, into: Any) -> Array:
        """The product as (rows, rows)."""
        a = self.left.copied(lhs, None, self.resources)
        out = np.ndarray((len(a), len(a)), a.dtype, into)

        def block(number: int) -> None:
            rows, columns = (slice(*each) for each in self.blocks[number])
            np.matmul(a[rows], a[columns].T, out=out[rows, columns])
            if rows != columns:
                out[columns, rows] = out[rows, columns].T

        self.resources.workers.deal(block, len(self.blocks))
        return out


class InPieces:
    """A product cut along its first batch axis, or along the longest of rows, columns and terms.

    Attributes:
        axes: of lhs and of rhs along which they are cut; None for the one that each piece needs whole.
        of_a_thread: the resources of one that copies pieces.
    """

    @classmethod
    def of(cls, groups: Groups, lhs: Array, rhs: Array, whole: Whole) -> InPieces | None:
        """None where the product is better made at once, as `whole`."""
        *batches, m, n = whole.shape
        k, batch = whole.left.shape[-1], prod(batches)
        moved = (lhs.size if whole.left.room else 0) + (rhs.size if whole.right.room else 0)
        count = pieces_for(batch * work_of(m, n, k), moved)
        if count < 2:
            return None
        if batch > 1:
            return cls(groups, lhs, rhs, whole, groups.batch, "batch", count)
        if k > max(m, n) and m * n <= LARGEST_SHARE:
            kind, axes, extent = "terms", groups.terms, k
        elif n == 1 or (m > 1 and _cuts_rows(m, n, whole.turned)):
            kind, axes, extent = "rows", (groups.rows, ()), m
        else:
            kind, axes, extent = "columns", ((), groups.columns), n
        if extent < 2 * PIECE:
            return None
        return cls(groups, lhs, rhs, whole, axes, kind, min(count, extent // PIECE))

    def __init__(
        self,
        groups: Groups,
        lhs: Array,
        rhs: Array,
        whole: Whole,
        axes: tuple[Axes, Axes],
        kind: str,
        count: int,
    ) -> None:
        self.kind, self.shape = kind, whole.shape
        self.turned, self.resources = whole.turned, whole.resources
        self.of_a_thread = replace(whole.resources, workers=ALONE)
        first = [
            next((axis for axis in each if x.shape[axis] > 1), None)
            for each, x in zip(axes, (lhs, rhs), strict=True)
        ]
        self.axes = first
        (extent,) = {x.shape[a] for a, x in zip(first, (lhs, rhs), strict=True) if a is not None}
        count = min(count, extent)
        self.cuts = [*pairwise(_ends(extent, count))]
        # Views of the operands by the extent of a piece: a cut operand's pieces, or all of it.
        self.lefts = {j - i: groups.left(_part(lhs, first[0], i, j)) for i, j in self.cuts}
        self.rights = {j - i: groups.right(_part(rhs, first[1], i, j)) for i, j in self.cuts}
        size = {"rows": -2, "columns": -1}.get(kind)
        self.step = 1 if size is None else self.shape[size] // extent
        self.place = groups.batch[0].index(first[0]) if kind == "batch" else None
        # Of scratch: for the operand that is needed whole, and for a piece of each that is not.
        left, right = (
            max(view.room for view in views.values()) for views in (self.lefts, self.rights)
        )
        self.rooms = (
            left if first[0] is None else right if first[1] is None else 0,
            0 if first[0] is None else left,
            0 if first[1] is None else right,
        )

    def __call__(self, lhs: Array, rhs: Array, into: Any) -> Array:
        """The product as (batch.., rows, columns)."""
        out = _result(self.shape, lhs.dtype, self.turned, into)
        sums = self.kind == "terms"
        shares = (len(self.cuts), *self.shape) if sums else ()
        parts = _result(shares, lhs.dtype, self.turned, None) if sums else out

        def multiply(x: Array, y: Array, number: int, _: Any) -> None:
            multiplied(x, y, self._target(parts, number), self.turned)

        self.share(lhs, rhs, multiply)
        return np.add.reduce(parts, axis=0, dtype=parts.dtype, out=out) if sums else out

    def share(
        self,
        lhs: Array,
        rhs: Array,
        multiply: Callable[[Array, Array, int, Any], Any],
        room: int = 0,
    ) -> None:
        """Call multiply(x, y, number, memory) for each piece: its operands as matrices, and `room` bytes of its thread."""
        with scratch(self.resources, self.rooms[:1]) as (whole,):
            a, b = (
                None
                if axis is not None
                else next(iter(views.values())).copied(x, whole, self.resources)
                for axis, views, x in zip(
                    self.axes, (self.lefts, self.rights), (lhs, rhs), strict=True
                )
            )

            def work(first: int, last: int) -> None:
                with scratch(self.resources, (*self.rooms[1:], room)) as memory:
                    for number in range(first, last):
                        i, j = self.cuts[number]
                        x = self._piece(self.lefts, lhs, 0, i, j, memory[0]) if a is None else a
                        y = self._piece(self.rights, rhs, 1, i, j, memory[1]) if b is None else b
                        multiply(x, y, number, memory[2])

            self.resources.workers.share(work, len(self.cuts))

    def _piece(
        self, views: dict[int, MatrixView], x: Array, side: int, i: int, j: int, scratch: Any
    ) -> Array:
        part = _part(x, self.axes[side], i, j)
        return views[j - i].copied(part, scratch, self.of_a_thread)

    def _target(self, parts: Array, number: int) -> Array:
        """Where the product of a piece goes."""
        if self.kind == "terms":
            return parts[number]
        i, j = (self.step * end for end in self.cuts[number])
        if self.kind == "rows":
            return parts[..., i:j, :]
        if self.kind == "columns":
            return parts[..., i:j]
        assert self.place is not None
        return parts[(*[slice(None)] * self.place, slice(i, j))]


class ColumnMajor:
    """A product in pieces as a column-major array of any axes, which each piece is turned into while a cache holds it.

    Attributes:
        pieces: of the product.
        shape: of the result.
        copies: by the extent of a piece, how it is turned.
    """

    @classmethod
    def of(
        cls, product: Any, groups: Groups, dtype: Any, shape: Sequence[int], perm: Axes
    ) -> ColumnMajor | None:
        """None where columns lie together anyway, or pieces have lines of the cache in common: a copy of the whole is
        faster then.

        Args:
            shape: of batch, rows and columns, axis by axis.
            perm: of these axes, for the result.
        """
        if not isinstance(product, InPieces) or product.kind == "terms" or product.turned:
            return None
        whole = cls(product, groups, dtype, shape, perm)
        is_turned = all([copy.turn is not None for copy in whole.copies.values()])
        return whole if is_turned else None

    def __init__(
        self, pieces: InPieces, groups: Groups, dtype: Any, shape: Sequence[int], perm: Axes
    ) -> None:
        self.pieces = pieces
        self.shape = tuple([shape[axis] for axis in perm])
        self.as_made = tuple([perm.index(axis) for axis in range(len(perm))])
        first_row = len(groups.batch[0])
        first_column = first_row + len(groups.rows)
        if pieces.place is not None:
            axis = pieces.place
        elif pieces.kind == "rows":
            axis = first_row + groups.rows.index(pieces.axes[0])
        else:
            axis = first_column + groups.columns.index(pieces.axes[1])
        self.before = (slice(None),) * axis
        self.parts = {j - i: (*shape[:axis], j - i, *shape[axis + 1 :]) for i, j in pieces.cuts}
        self.room = max(map(prod, self.parts.values())) * dtype.itemsize
        # Around the caches, which hold the piece and will not hold the whole.
        target = self._target(np.empty(self.shape, dtype, order="F"))
        self.copies = {
            extent: Copy(self._place(target, 0, extent), np.empty(part, dtype), is_streamed=True)
            for extent, part in self.parts.items()
        }

    def __call__(self, lhs: Array, rhs: Array, into: Any = None) -> Array:
        """The product."""
        pieces, dtype = self.pieces, lhs.dtype
        out = np.ndarray(self.shape, dtype, into, order="F")
        target = self._target(out)

        def multiply(x: Array, y: Array, number: int, memory: Any) -> None:
            i, j = pieces.cuts[number]
            part = np.ndarray((*x.shape[:-1], y.shape[-1]), dtype, memory)
            multiplied(x, y, part, turned=False)
            part = part.reshape(self.parts[j - i])
            self.copies[j - i](self._place(target, i, j), part, pieces.of_a_thread)

        pieces.share(lhs, rhs, multiply, self.room)
        return out

    def _target(self, out: Array) -> Array:
        """The result with axes as they are made."""
        return out.transpose(self.as_made)

    def _place(self, target: Array, start: int, stop: int) -> Array:
        """Where a piece goes."""
        return target[(*self.before, slice(start, stop))]


def _ends(extent: int, count: int) -> list[int]:
    """Where pieces begin and end."""
    whole = WHOLE if extent >= 2 * WHOLE * count else 1
    return [*[extent * piece // count // whole * whole for piece in range(count)], extent]


def _cuts_rows(m: int, n: int, turned: bool) -> bool:
    """Whether a product is cut along its rows: pieces that lie together in memory are written fastest."""
    together, apart = (n, m) if turned else (m, n)
    return (together >= min(apart, MOST_PIECES * PIECE)) != turned


def _part(x: Array, axis: int | None, start: int, stop: int) -> Array:
    return x if axis is None else x[(*[slice(None)] * axis, slice(start, stop))]
