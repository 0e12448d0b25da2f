"""The kernel of DotGeneral: a matrix product of views, with one operand copied where strides demand it.

Each operand is a matrix of (batch, rows, columns), where every group of axes is to be walked with one step.
Which groups are so depends on the strides that arrive; BLAS reads a matrix along either axis. So a plan is
made for the strides when they are first seen: an order of the axes in each group that spares copies, the
larger operand first; then what the product is, by its extents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np

from tenferro.blas import NUMPYS
from tenferro.dims import is_static
from tenferro.exec.copying import fastest_axis
from tenferro.exec.kernels.kernel import Array, Kernel
from tenferro.exec.kernels.matrix_product import (
    SMALLEST_SCRATCH,
    ColumnMajor,
    Groups,
    InPieces,
    Mirrored,
    Whole,
    multiplied,
    pieces_for,
    work_of,
)
from tenferro.exec.kernels.matrix_view import Axes, MatrixView, order_of, step_of
from tenferro.exec.runtime.resources import CALLER, Resources
from tenferro.ops.contraction import DotGeneral
from tenferro.types import DType, TensorSpec

__all__ = ["DotGeneralKernel"]

TINY = 4
"""Extent up to which many products of matrices with the batch fastest are sums of products of vectors."""
SMALLEST_IN_FLOATS = 1 << 12
"""Multiplications of integers that are worth converting."""
LARGE_RESULT = 1 << 14
"""Elements of a result that is worth a place in planned memory."""
LARGEST_UNSHARED = 1 << 18, 9216
"""Multiplications up to which OpenBLAS wakes no threads: of matrices, and of a matrix and a vector."""
PLANS = 8
"""Kept for one instruction: programs are run on arrays of one layout, nearly always."""
Product = Callable[..., Array]


class DotGeneralKernel(Kernel):
    """Contracts arrays as the payload says, in the accumulator's dtype."""

    __slots__ = ()

    def __call__(self, op: DotGeneral, *arrays: Array) -> Array:
        lhs, rhs = arrays
        specs = (
            TensorSpec.of(lhs.shape, DType.of(lhs.dtype)),
            TensorSpec.of(rhs.shape, DType.of(rhs.dtype)),
        )
        return self.bind(op, specs)(lhs, rhs)

    def bind(
        self,
        op: DotGeneral,
        inputs: tuple[TensorSpec, ...],
        resources: Resources = CALLER,
    ) -> Callable[..., Any]:
        """A plain matrix product is `np.matmul`, of transposed views where need be."""
        lhs, rhs = inputs
        if not all(map(is_static, (*lhs.shape, *rhs.shape))):
            return partial(self, op)  # because only the arrays tell the extents that data decide
        out = lhs.dtype if op.accumulate_dtype is None else op.accumulate_dtype
        contraction = Contraction(op, lhs.shape, rhs.shape, resources)
        if lhs.dtype.is_integer and out.is_integer:
            float_dtype = exact_float(lhs.dtype, contraction.sizes)
            if float_dtype is not None:
                return partial(_in_floats, contraction, float_dtype, out.dtype)
        work = out.accumulator.dtype
        if work == lhs.dtype.dtype == out.dtype:
            plain = contraction.plain()
            if plain is not None and contraction.wakes_threads:
                return partial(_alone, plain)
            return plain or contraction
        return partial(_converted, contraction, work, out.dtype)


def exact_float(dtype: DType, sizes: Sequence[int]) -> Any:
    """The float that holds every sum of products of such integers; None where none does or it is slower.

    BLAS has no integers, and NumPy's own loops are tens of times slower.
    """
    if dtype.itemsize > 2 or prod(sizes) < SMALLEST_IN_FLOATS:
        return None
    bits = 16 * dtype.itemsize + sizes[2].bit_length()
    return np.float32 if bits <= 24 else np.float64 if bits <= 53 else None


def _alone(product: Product, lhs: Array, rhs: Array) -> Array:
    """By one thread of BLAS."""
    with NUMPYS:
        return product(lhs, rhs)


def _converted(contraction: Contraction, work: Any, out: Any, lhs: Array, rhs: Array) -> Array:
    product = contraction(lhs.astype(work, copy=False), rhs.astype(work, copy=False))
    return product.astype(out, copy=False)


def _in_floats(contraction: Contraction, work: Any, out: Any, lhs: Array, rhs: Array) -> Array:
    """Integers, wrapped at the end."""
    return contraction(lhs.astype(work), rhs.astype(work)).astype(np.int64).astype(out)


class Matrices(NamedTuple):
    """Operands as matrices (batch.., rows, terms) and (batch.., terms, columns), and what their product is.

    Attributes:
        groups: the axes that are one.
        turned: whether the product's rows are nearer to each other than its columns.
        shape: of the result as it is made, axis by axis.
        perm: the places of the result's axes among those.
    """

    groups: Groups
    left: MatrixView
    right: MatrixView
    turned: bool
    shape: Axes
    perm: Axes

    @property
    def are_small(self) -> bool:
        """Whether calls cost as much as the work."""
        room = self.left.room + self.right.room
        return prod(self.shape) < LARGE_RESULT and room < SMALLEST_SCRATCH


class Contraction:
    """The products of arrays of given shapes, planned for each pattern of strides.

    Attributes:
        batch, rows, columns, terms: pairs or groups of axes: of both operands, of lhs, of rhs, of both.
        sizes: how many rows, columns and terms.
        order: of the result, as far as it costs less than a copy.
        wakes_threads: whether BLAS would share the product among threads of its own.
    """

    takes_places = True

    def __init__(
        self,
        op: DotGeneral,
        lhs: Sequence[int],
        rhs: Sequence[int],
        resources: Resources,
        order: Literal["F", "C", "K"] = "K",
    ) -> None:
        self.op, self.order = op, order
        self.lhs_shape, self.rhs_shape = tuple(lhs), tuple(rhs)
        self.batch = op.lhs_batch, op.rhs_batch
        self.terms = op.lhs_contracting, op.rhs_contracting
        self.rows, self.columns = op.lhs_free(len(lhs)), op.rhs_free(len(rhs))
        self.resources = resources
        self.sizes = tuple(
            prod(shape[axis] for axis in axes)
            for shape, axes in ((lhs, self.rows), (rhs, self.columns), (lhs, self.terms[0]))
        )
        self.batch_shape = tuple(lhs[axis] for axis in op.lhs_batch)
        self.wakes_threads = prod(self.sizes) > LARGEST_UNSHARED[1 in self.sizes[:2]]
        self._plans: dict[tuple[Axes, Axes, bool], Product] = {}

    def in_order(self, order: Literal["F", "C"], numbers: Sequence[int] = (0,)) -> Contraction:
        """The same with its result in an order, as far as it costs less than a copy."""
        return Contraction(self.op, self.lhs_shape, self.rhs_shape, self.resources, order)

    def __call__(self, lhs: Array, rhs: Array, into: Sequence[Any] = (None,)) -> Array:
        """The product.

        Args:
            into: the bytes that it is written to; None for memory of its own.
        """
        key = lhs.strides, rhs.strides, lhs is rhs
        product = self._plans.get(key)
        if product is None:
            if len(self._plans) >= PLANS:
                self._plans.clear()
            product = self._plans[key] = self._plan(lhs, rhs)
        if self.wakes_threads:
            with NUMPYS:  # because the executor's threads share it, or one is enough
                return product(lhs, rhs, into[0])
        return product(lhs, rhs, into[0])

    def plain(self) -> Product | None:
        """The product of matrices or vectors that is too small to share, or to have a place for its result."""
        if self.batch[0] or len(self.terms[0]) != 1:
            return None
        ranks = len(self.lhs_shape), len(self.rhs_shape)
        if max(ranks) > 2:
            return None
        large = (
            self.sizes[0] * self.sizes[1] >= LARGE_RESULT or pieces_for(work_of(*self.sizes)) > 1
        )
        if self.sizes[2] == 1 or large:
            return None
        if ranks != (2, 2):
            return WITH_VECTORS[ranks[0] == 2 and self.terms[0] == (0,), self.terms[1] == (1,)]
        return PRODUCTS[self.terms[0] == (0,), self.terms[1] == (1,)]

    def _matrices(self, lhs: Array, rhs: Array) -> Matrices:
        terms = self._order_of_terms(lhs, rhs)
        rows = order_of(lhs, self.rows)
        columns = order_of(rhs, self.columns)
        both_terms = tuple([tuple([axes[i] for i in terms]) for axes in self.terms])
        groups = Groups(self.batch, rows, columns, (both_terms[0], both_terms[1]))
        left, right = groups.left(lhs), groups.right(rhs)
        shape = (
            *self.batch_shape,
            *[self.lhs_shape[axis] for axis in rows],
            *[self.rhs_shape[axis] for axis in columns],
        )
        position = {axis: i for i, axis in enumerate((*rows, *[-1 - axis for axis in columns]))}
        count = len(self.batch_shape)
        perm = (
            *range(count),
            *[count + position[axis] for axis in self.rows],
            *[count + position[-1 - axis] for axis in self.columns],
        )
        turned = left.is_column_major and right.is_column_major
        return Matrices(groups, left, right, turned, shape, perm)

    def _plan(self, lhs: Array, rhs: Array) -> Product:
        if self.sizes[2] == 1:
            return self._outer()
        if self._is_batch_fastest(lhs, rhs):
            return self._vectors()
        matrices = self._matrices(lhs, rhs)
        groups, left, right, turned, shape, perm = matrices
        transposition = None if perm == tuple(range(len(perm))) else perm
        whole = Whole(left, right, turned, self.resources)
        product: Product | None
        if lhs is rhs and self._is_symmetric():
            product = Mirrored.of(left, self.resources)
            if product is None and left.room:
                # BLAS mirrors what it sees to be one array, which two copies are not.
                product = Mirrored(left, self.resources, 1)
        else:
            product = InPieces.of(groups, lhs, rhs, whole)
        if self.order == "F":
            column_major = ColumnMajor.of(product, groups, lhs.dtype, shape, perm)
            if column_major is not None:
                return column_major
        if product is None and matrices.are_small:
            return _small(left.reader(), right.reader(), turned, shape, transposition)
        return partial(_split, product or whole, shape, transposition)

    def _is_symmetric(self) -> bool:
        """Whether it is X X^T where both operands are X."""
        return not self.batch[0] and self.terms[0] == self.terms[1]

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
            for index in places[1:]:
                total += a[every + index] * b[every + index]
            return total

        return product

    def _order_of_terms(self, lhs: Array, rhs: Array) -> Axes:
        """The order of contracting axes that lets the most elements stay where they are."""
        declared = tuple(range(len(self.terms[0])))
        if len(declared) < 2:
            return declared
        orders: list[Axes] = [declared]
        for x, axes in zip((lhs, rhs), self.terms, strict=True):
            orders.append(tuple(sorted(declared, key=lambda i: -abs(x.strides[axes[i]]))))

        def kept(order: Axes) -> int:
            return sum(
                x.size
                for x, axes in zip((lhs, rhs), self.terms, strict=True)
                if step_of(x, [axes[i] for i in order]) is not None
            )

        return max(orders, key=kept)


def _split(
    product: Product, shape: Axes, perm: Axes | None, lhs: Array, rhs: Array, into: Any = None
) -> Array:
    """A product with its rows and columns as the axes that they are made of."""
    y = product(lhs, rhs, into).reshape(shape)
    return y if perm is None else y.transpose(perm)


def _small(
    left: Callable[[Array], Array],
    right: Callable[[Array], Array],
    turned: bool,
    shape: Axes,
    perm: Axes | None,
) -> Product:
    """A product of matrices so small that the calls cost as much as the work."""

    def multiply(lhs: Array, rhs: Array, into: Any = None) -> Array:
        return multiplied(left(lhs), right(rhs), None, turned).reshape(shape)

    if perm is None:
        return multiply
    return lambda lhs, rhs, into=None: multiply(lhs, rhs).transpose(perm)


WITH_VECTORS: dict[tuple[bool, bool], Product] = {
    (False, False): np.dot,
    (True, False): lambda a, b: np.dot(a.T, b),
    (False, True): lambda a, b: np.dot(a, b.T),
}
"""Products with at most one matrix, by whether it is on the left or on the right and transposed."""
PRODUCTS: dict[tuple[bool, bool], Product] = {
    (False, False): np.matmul,
    (True, False): lambda a, b: np.matmul(a.T, b),
    (False, True): lambda a, b: np.matmul(a, b.T),
    (True, True): lambda a, b: np.matmul(a.T, b.T),
}
"""Products of matrices, by whether the left one and the right one are transposed; BLAS reads either way."""
