"""The kernel of DotGeneral: a matrix product of views, with one operand copied where strides demand it.

Each operand is a matrix of (batch, rows, columns), where every group of axes is to be walked with one step.
Which groups are so depends on the strides that arrive; BLAS reads a matrix along either axis. So a plan is
made for the strides when they are first seen: an order of the axes in each group that spares copies, the
larger operand first; then what the product is, by its extents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import prod
from operator import methodcaller
from typing import Any

import numpy as np

from tenferro.exec.copying import dense, fastest_axis
from tenferro.exec.kernels.kernel import Array
from tenferro.exec.workers import Workers, shared
from tenferro.ops.contraction import DotGeneral
from tenferro.types import DType, TensorSpec

__all__ = ["DotGeneralKernel"]

PIECE = 256
"""Rows, at least, of the pieces that threads share: each packs the other operand once more."""
MOST_PIECES = 8
"""Of one product. They are the same for any number of threads."""
LARGE = 1 << 23
"""Multiplications of a product that is worth sharing."""
TINY = 4
"""Extent up to which many products of matrices with the batch fastest are sums of products of vectors."""
SMALLEST_IN_FLOATS = 1 << 12
"""Multiplications of integers that are worth converting."""
SMALLEST_SCRATCH = 1 << 17
"""Bytes of copies that are worth memory which stays."""
LARGE_RESULT = 1 << 14
"""Elements of a result that is worth a place in planned memory."""
PLANS = 8
"""Kept for one instruction: programs are run on arrays of one layout, nearly always."""
Axes = tuple[int, ...]
Product = Callable[..., Array]


class DotGeneralKernel:
    """Contracts arrays as the payload says, in the accumulator's dtype."""

    def __call__(self, op: DotGeneral, lhs: Array, rhs: Array) -> Array:
        specs = (
            TensorSpec.of(lhs.shape, DType.of(lhs.dtype)),
            TensorSpec.of(rhs.shape, DType.of(rhs.dtype)),
        )
        return self.bind(op, specs)(lhs, rhs)

    def bind(
        self,
        op: DotGeneral,
        inputs: tuple[TensorSpec, ...],
        workers: Workers | None = None,
        columns: bool = False,
    ) -> Callable[..., Any]:
        """A plain matrix product is `np.matmul`, of transposed views where need be."""
        lhs, rhs = inputs
        out = lhs.dtype if op.accumulate_dtype is None else op.accumulate_dtype
        contraction = Contraction(op, lhs.shape, rhs.shape, workers, columns)
        if lhs.dtype.is_integer and out.is_integer:
            float_dtype = exact_float(lhs.dtype, contraction.sizes)
            if float_dtype is not None:
                return partial(_in_floats, contraction, float_dtype, out.dtype)
        work = out.accumulator.dtype
        if work == lhs.dtype.dtype == out.dtype:
            return contraction.plain() or contraction
        return partial(_converted, contraction, work, out.dtype)


def exact_float(dtype: DType, sizes: Sequence[int]) -> Any:
    """The float that holds every sum of products of such integers; None where none does or it is slower.

    BLAS has no integers, and NumPy's own loops are tens of times slower.
    """
    if dtype.itemsize > 2 or prod(sizes) < SMALLEST_IN_FLOATS:
        return None
    bits = 16 * dtype.itemsize + sizes[2].bit_length()
    return np.float32 if bits <= 24 else np.float64 if bits <= 53 else None


def _converted(contraction: Contraction, work: Any, out: Any, lhs: Array, rhs: Array) -> Array:
    product = contraction(lhs.astype(work, copy=False), rhs.astype(work, copy=False))
    return product.astype(out, copy=False)


def _in_floats(contraction: Contraction, work: Any, out: Any, lhs: Array, rhs: Array) -> Array:
    """Integers, wrapped at the end."""
    return contraction(lhs.astype(work), rhs.astype(work)).astype(np.int64).astype(out)


class Contraction:
    """The products of arrays of given shapes, planned for each pattern of strides.

    Attributes:
        batch, rows, columns, terms: pairs or groups of axes: of both operands, of lhs, of rhs, of both.
        sizes: how many rows, columns and terms.
    """

    def __init__(
        self,
        op: DotGeneral,
        lhs: Sequence[int],
        rhs: Sequence[int],
        workers: Workers | None,
        columns: bool,
    ) -> None:
        self.lhs_shape, self.rhs_shape = tuple(lhs), tuple(rhs)
        self.batch = op.lhs_batch, op.rhs_batch
        self.terms = op.lhs_contracting, op.rhs_contracting
        self.rows, self.columns = op.lhs_free(len(lhs)), op.rhs_free(len(rhs))
        self.workers, self.wants_columns = workers, columns
        self.sizes = tuple(
            prod(shape[axis] for axis in axes)
            for shape, axes in ((lhs, self.rows), (rhs, self.columns), (lhs, self.terms[0]))
        )
        self.batch_shape = tuple(lhs[axis] for axis in op.lhs_batch)
        self._plans: dict[tuple[Axes, Axes], Product] = {}

    def __call__(self, lhs: Array, rhs: Array, into: Any = None) -> Array:
        """The product.

        Args:
            into: bytes that it is written to.
        """
        strides = lhs.strides, rhs.strides
        product = self._plans.get(strides)
        if product is None:
            if len(self._plans) >= PLANS:
                self._plans.clear()
            product = self._plans[strides] = self._plan(lhs, rhs)
        return product(lhs, rhs, into)

    def plain(self) -> Product | None:
        """The product of two matrices that is too small to share, or to have a place for its result."""
        matrices = len(self.lhs_shape) == len(self.rhs_shape) == 2
        if not matrices or self.batch[0] or len(self.terms[0]) != 1:
            return None
        large = self.sizes[0] * self.sizes[1] >= LARGE_RESULT or prod(self.sizes) >= LARGE
        if self.sizes[2] == 1 or large:
            return None
        return PRODUCTS[self.terms[0] == (0,), self.terms[1] == (1,), self.wants_columns]

    def _plan(self, lhs: Array, rhs: Array) -> Product:
        if self.sizes[2] == 1:
            return self._outer()
        if self._is_batch_fastest(lhs, rhs):
            return self._vectors()
        terms = self._order_of_terms(lhs, rhs)
        rows = _order(lhs, self.rows)
        columns = _order(rhs, self.columns)
        left = _Matrix(lhs, self.batch[0], rows, tuple(self.terms[0][i] for i in terms))
        right = _Matrix(rhs, self.batch[1], tuple(self.terms[1][i] for i in terms), columns)
        shape = (
            *self.batch_shape,
            *[self.lhs_shape[axis] for axis in rows],
            *[self.rhs_shape[axis] for axis in columns],
        )
        place = {axis: i for i, axis in enumerate((*rows, *[-1 - axis for axis in columns]))}
        count = len(self.batch_shape)
        perm = (
            *range(count),
            *[count + place[axis] for axis in self.rows],
            *[count + place[-1 - axis] for axis in self.columns],
        )
        given = None if perm == tuple(range(len(perm))) else perm
        both = left.is_column_major and right.is_column_major
        product = self._matmul(both or (self.wants_columns and not self.batch_shape))
        size = prod(shape)
        if size < LARGE_RESULT and left.room + right.room < SMALLEST_SCRATCH:
            return _small(left.reader(), right.reader(), product, shape, given)
        return partial(self._multiply, left, right, product, shape, given)

    def _multiply(
        self,
        left: _Matrix,
        right: _Matrix,
        product: Product,
        shape: Axes,
        perm: Axes | None,
        lhs: Array,
        rhs: Array,
        into: Any,
    ) -> Array:
        """Copy what has to be copied, multiply, and split the axes again."""
        pieces: Any = (None, None)
        if self.workers is not None and left.room + right.room >= SMALLEST_SCRATCH:
            pieces = self.workers.scratch((left.room, right.room))
        out = None
        if into is not None:
            out = np.ndarray((*self.batch_shape, *self.sizes[:2]), lhs.dtype, into)
        a = left.copied(lhs, pieces[0], self.workers)
        b = right.copied(rhs, pieces[1], self.workers)
        found = product(a, b, out).reshape(shape)
        return found if perm is None else found.transpose(perm)

    def _matmul(self, turned: bool) -> Product:
        """By BLAS: the transposed product where both operands lie so, shared where it is large."""
        m, n, k = self.sizes
        if not self.batch_shape and m * n * k >= LARGE and max(m, n) >= 2 * PIECE:
            return partial(_turned_shared if turned else _shared, self.workers)
        return _turned if turned else _plain

    def _is_batch_fastest(self, lhs: Array, rhs: Array) -> bool:
        """Tiny matrices, one after the other element by element."""
        if not self.batch_shape or max(self.sizes) > TINY or prod(self.batch_shape) < 64:
            return False
        return all(
            len(x.strides) > 0 and fastest_axis(x) in axes
            for x, axes in zip((lhs, rhs), self.batch, strict=True)
        )

    def _aligned(self, lhs: Array, rhs: Array) -> tuple[Array, Array]:
        """Views [batch.., rows.., 1.., terms..] and [batch.., 1.., columns.., terms..]."""
        count = len(self.batch_shape)
        a = lhs.transpose(*self.batch[0], *self.rows, *self.terms[0])
        b = rhs.transpose(*self.batch[1], *self.columns, *self.terms[1])
        free = count + len(self.rows)
        a = a.reshape((*a.shape[:free], *[1] * len(self.columns), *a.shape[free:]))
        b = b.reshape((*b.shape[:count], *[1] * len(self.rows), *b.shape[count:]))
        return a, b

    def _outer(self) -> Product:
        """One term: every product of an element with an element, in one pass."""
        rank = len(self.batch_shape) + len(self.rows) + len(self.columns)
        first = (*[slice(None)] * rank, *[0] * len(self.terms[0]))

        def product(lhs: Array, rhs: Array, into: Any) -> Array:
            a, b = self._aligned(lhs, rhs)
            a, b = a[first], b[first]
            out = None
            if into is not None:
                out = np.ndarray(np.broadcast_shapes(a.shape, b.shape), a.dtype, into)
            return np.multiply(a, b, out=out)

        return product

    def _vectors(self) -> Product:
        """A sum over terms of products of vectors that run along the batch."""
        rank = len(self.batch_shape) + len(self.rows) + len(self.columns)
        every = (slice(None),) * rank
        places = list(np.ndindex(*[self.lhs_shape[axis] for axis in self.terms[0]]))

        def product(lhs: Array, rhs: Array, into: Any) -> Array:
            a, b = self._aligned(lhs, rhs)
            if not places:
                return np.zeros(np.broadcast_shapes(a.shape[:rank], b.shape[:rank]), a.dtype)
            total = np.multiply(a[every + places[0]], b[every + places[0]])
            for place in places[1:]:
                total += a[every + place] * b[every + place]
            return total

        return product

    def _order_of_terms(self, lhs: Array, rhs: Array) -> Axes:
        """The order of contracting axes that lets the most elements stay where they are."""
        given = tuple(range(len(self.terms[0])))
        if len(given) < 2:
            return given
        orders: list[Axes] = [given]
        for x, axes in zip((lhs, rhs), self.terms, strict=True):
            orders.append(tuple(sorted(given, key=lambda i: -abs(x.strides[axes[i]]))))

        def kept(order: Axes) -> int:
            return sum(
                x.size
                for x, axes in zip((lhs, rhs), self.terms, strict=True)
                if _step(x, [axes[i] for i in order]) is not None
            )

        return max(orders, key=kept)


def _order(x: Array, axes: Axes) -> Axes:
    """The order in which they are one axis, if there is any; else as given."""
    if _step(x, axes) is None:
        descending = tuple(sorted(axes, key=lambda axis: -abs(x.strides[axis])))
        if _step(x, descending) is not None:
            return descending
    return axes


def _step(x: Array, axes: Sequence[int]) -> int | None:
    """The stride of these axes as one; None where they are not."""
    kept = [axis for axis in axes if x.shape[axis] != 1]
    for outer, inner in pairwise(kept):
        if x.strides[outer] != x.strides[inner] * x.shape[inner]:
            return None
    return x.strides[kept[-1]] if kept else x.itemsize


class _Matrix:
    """An operand as an array [batch.., rows, columns]: a view of it, or of a copy in the same order.

    Attributes:
        room: bytes of the copy.
        is_column_major: rows are nearer to each other than columns.
    """

    def __init__(self, x: Array, batch: Axes, rows: Axes, columns: Axes) -> None:
        self.shape = (
            *[x.shape[axis] for axis in batch],
            prod(x.shape[axis] for axis in rows),
            prod(x.shape[axis] for axis in columns),
        )
        down, across = _step(x, rows), _step(x, columns)
        m, n = self.shape[-2:]
        self.room, self.rank_of_rows, self.given = 0, len(rows), x.shape
        self.perm = (*batch, *rows, *columns)
        if (
            down is not None
            and across is not None
            and _is_readable((down, across), (m, n), x.itemsize)
        ):
            self.is_column_major = down < across
            return
        self.is_column_major = fastest_axis(x) in rows
        self.room = x.nbytes

    def reader(self) -> Callable[[Array], Array]:
        """What gives the matrix; a copy is small."""
        shape, perm = self.shape, self.perm
        in_order = perm == tuple(range(len(perm)))
        if not self.room or not self.is_column_major:
            if in_order and self.given == shape:
                return lambda x: x
            return (
                methodcaller("reshape", shape)
                if in_order
                else lambda x: x.transpose(perm).reshape(shape)
            )
        return lambda x: self.copied(x, None)

    def copied(self, x: Array, piece: Any, workers: Workers | None = None) -> Array:
        """The matrix, a copy in these bytes."""
        x = x.transpose(self.perm)
        if not self.room:
            return x.reshape(self.shape)
        if not self.is_column_major:
            return dense(x, "C", workers, into=piece).reshape(self.shape)
        count = len(self.shape) - 2
        rows = self.rank_of_rows
        turned = (*range(count), *range(count + rows, x.ndim), *range(count, count + rows))
        found = dense(x.transpose(turned), "C", workers, into=piece)
        return found.reshape((*self.shape[:-2], *self.shape[:-3:-1])).swapaxes(-1, -2)


def _is_readable(steps: tuple[int, int], shape: tuple[int, int], itemsize: int) -> bool:
    """Whether BLAS reads a matrix with these steps: neighbours along one axis, no overlap along the other."""
    for near, far in ((0, 1), (1, 0)):
        nearest = steps[near] == itemsize or shape[near] == 1
        if nearest and (shape[far] == 1 or steps[far] >= itemsize * shape[near]):
            return True
    return False


def _small(
    left: Callable[[Array], Array],
    right: Callable[[Array], Array],
    product: Product,
    shape: Axes,
    perm: Axes | None,
) -> Product:
    """A product whose calls cost as much as its work."""

    def multiply(lhs: Array, rhs: Array, into: Any = None) -> Array:
        return product(left(lhs), right(rhs), None).reshape(shape)

    if perm is None:
        return multiply
    return lambda lhs, rhs, into=None: multiply(lhs, rhs).transpose(perm)


def _plain(a: Array, b: Array, out: Array | None) -> Array:
    return np.matmul(a, b, out=out)


def _turned(a: Array, b: Array, out: Array | None) -> Array:
    """The product with rows nearer to each other than columns."""
    a, b = b.swapaxes(-1, -2), a.swapaxes(-1, -2)
    if out is not None:
        out = out.reshape((*out.shape[:-2], a.shape[-2], b.shape[-1]))
    return np.matmul(a, b, out=out).swapaxes(-1, -2)


def _shared(workers: Workers | None, a: Array, b: Array, out: Array | None = None) -> Array:
    """A large product, in pieces that threads share where BLAS itself has one."""
    shape = a.shape[0], b.shape[1]
    out = np.empty(shape, a.dtype) if out is None else out.reshape(shape)
    by_rows = a.shape[0] >= b.shape[1]
    extent = max(out.shape)
    piece = -(-extent // min(MOST_PIECES, extent // PIECE))

    def work(start: int, stop: int) -> None:
        for i in range(start, stop, piece):
            j = min(i + piece, stop)
            if by_rows:
                np.matmul(a[i:j], b, out=out[i:j])
            else:
                np.matmul(a, b[:, i:j], out=out[:, i:j])

    # A BLAS with threads of its own has shared the work already.
    shared(None if workers is None or workers.blas_is_threaded() else workers, work, extent, piece)
    return out


def _turned_shared(workers: Workers | None, a: Array, b: Array, out: Array | None) -> Array:
    return _shared(workers, b.T, a.T, out).T


PRODUCTS: dict[tuple[bool, bool, bool], Product] = {
    (False, False, False): np.matmul,
    (True, False, False): lambda a, b: np.matmul(a.T, b),
    (False, True, False): lambda a, b: np.matmul(a, b.T),
    (True, True, False): lambda a, b: np.matmul(a.T, b.T),
    (False, False, True): lambda a, b: np.matmul(b.T, a.T).T,
    (True, False, True): lambda a, b: np.matmul(b.T, a).T,
    (False, True, True): lambda a, b: np.matmul(b, a.T).T,
    (True, True, True): lambda a, b: np.matmul(b, a).T,
}
"""Products of matrices, by whether the left one, the right one and the result are transposed; BLAS reads and
writes either way."""
