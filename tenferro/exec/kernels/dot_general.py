"""Kernel of DotGeneral: a product of matrices, which are views of the operands if strides allow it, else copies.

An operand is viewed as matrices [batch.., rows, columns] if its row axes can be merged into one axis, and its column
axes, too. BLAS accepts a matrix that is contiguous along either axis. For each pattern of strides there is a plan: an
order of the free axes that avoids copies, and an algorithm that suits the extents.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from tenferro import costs
from tenferro.blas import NUMPYS
from tenferro.dims import is_static
from tenferro.exec.kernels.kernel import Array, Function, Kernel, Specs
from tenferro.exec.kernels.matrix_product import AxisGroups, Product, block_count, estimated_work
from tenferro.exec.kernels.matrix_view import Axes, mergeable_order
from tenferro.exec.runtime.resources import Resources
from tenferro.ops.contraction import DotGeneral
from tenferro.types import DType, TensorSpec

__all__ = ["DOT_GENERAL"]

MIN_FLOAT_MULTIPLICATIONS = 1 << 12
"""Minimum number of integer multiplications for which conversion to floats is faster."""
MIN_COMPILED_MULTIPLICATIONS = 1 << 20
"""Minimum number of multiplications of a compiled product; smaller ones take less time than a call of compiled code."""
MIN_BUFFERED_ELEMENTS = costs.FRESH // 8
"""Minimum number of elements of a result that is written to a planned buffer."""
MAX_PLANS = 8
"""Maximum number of plans per instruction."""


def dot_general(op: DotGeneral, *arrays: Array) -> Array:
    """Return the contraction, in the accumulator's dtype."""
    specs = tuple([TensorSpec.of(x.shape, DType.of(x.dtype)) for x in arrays])
    return DOT_GENERAL.bind(op, specs)(*arrays)


def plan_product(op: DotGeneral, inputs: Specs, resources: Resources) -> Function | None:
    """Return `np.dot` for a plain matrix product, possibly with transposed operands; else a `Contraction`."""
    lhs, rhs = inputs
    if not all(map(is_static, (*lhs.shape, *rhs.shape))):
        return None  # because extents depend on data
    out = lhs.dtype if op.accumulate_dtype is None else op.accumulate_dtype
    contraction = Contraction(op, lhs.shape, rhs.shape, resources)
    if lhs.dtype.is_integer and out.is_integer:
        float_dtype = exact_float(lhs.dtype, contraction.sizes)
        if float_dtype is not None:
            return partial(_multiply_in_floats, contraction, float_dtype, out.dtype)
    work = out.accumulator.dtype
    if work == lhs.dtype.dtype == out.dtype:
        is_compiled = resources.sums is not None and out.accumulator in (DType.F32, DType.F64)
        is_compiled &= prod(contraction.sizes) >= MIN_COMPILED_MULTIPLICATIONS
        plain = None if is_compiled else contraction.plain()
        if plain is not None and contraction.wakes_threads:
            return partial(_multiply_serially, plain)
        return plain or contraction
    return partial(_multiply_converted, contraction, work, out.dtype)


DOT_GENERAL = Kernel(dot_general, plan_product)


def exact_float(dtype: DType, sizes: Sequence[int]) -> Any:
    """Return a float dtype in which sums of products of integers are exact; None if there is none or it is slower.

    BLAS multiplies floats only, and NumPy's loops for integers are tens of times slower.

    Args:
        dtype: the dtype of the integers.
        sizes: the numbers of rows, columns and terms.
    """
    if dtype.itemsize > 2 or prod(sizes) < MIN_FLOAT_MULTIPLICATIONS:
        return None
    bits = 16 * dtype.itemsize + sizes[2].bit_length()
    return np.float32 if bits <= 24 else np.float64 if bits <= 53 else None


def _multiply_serially(product: Function, lhs: Array, rhs: Array) -> Array:
    with NUMPYS:
        return product(lhs, rhs)


def _multiply_converted(
    contraction: Contraction, work: Any, out: Any, lhs: Array, rhs: Array
) -> Array:
    product = contraction(lhs.astype(work, copy=False), rhs.astype(work, copy=False))
    return product.astype(out, copy=False)


def _multiply_in_floats(
    contraction: Contraction, work: Any, out: Any, lhs: Array, rhs: Array
) -> Array:
    """Return the product of integers, computed in floats; the conversion to integers wraps on overflow."""
    return contraction(lhs.astype(work), rhs.astype(work)).astype(np.int64).astype(out)


class Contraction:
    """Function that computes the product of arrays of certain shapes, with a plan for each pattern of strides.

    Attributes:
        batch, terms: the batch axes and the contracted axes of `lhs` and `rhs`.
        rows, columns: the free axes of `lhs` and the free axes of `rhs`.
        sizes: the numbers of rows, columns and terms.
        wakes_threads: whether BLAS would use its own threads for the product.
    """

    accepts_buffers = True

    def __init__(
        self, op: DotGeneral, lhs: Sequence[int], rhs: Sequence[int], resources: Resources
    ) -> None:
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
        self.wakes_threads = prod(self.sizes) > costs.SERIAL_BLAS[1 in self.sizes[:2]]
        self._plans: dict[tuple[Axes, Axes, bool], Function] = {}

    def __call__(self, lhs: Array, rhs: Array, into: Sequence[Any] = (None,)) -> Array:
        """Return the product.

        Args:
            into: the buffer for the result; None for new memory.
        """
        key = lhs.strides, rhs.strides, lhs is rhs
        product = self._plans.get(key)
        if product is None:
            if len(self._plans) >= MAX_PLANS:
                self._plans.clear()
            product = self._plans[key] = self._plan(lhs, rhs)
        if self.wakes_threads:
            with (
                NUMPYS
            ):  # because the executor's threads share the product, or one thread is enough
                return product(lhs, rhs, into[0])
        return product(lhs, rhs, into[0])

    def plain(self) -> Function | None:
        """Return NumPy's function for a matrix product that is too small for threads or planned buffers, else None."""
        if self.batch[0] or len(self.terms[0]) != 1:
            return None
        ranks = len(self.lhs_shape), len(self.rhs_shape)
        if max(ranks) > 2:
            return None
        rows, columns, terms = self.sizes
        if rows * columns >= MIN_BUFFERED_ELEMENTS:
            return None
        if block_count(estimated_work(rows, columns, terms)) > 1:
            return None
        return PRODUCTS[ranks[0] == 2 and self.terms[0] == (0,), self.terms[1] == (1,)]

    def _plan(self, lhs: Array, rhs: Array) -> Function:
        rows, columns = mergeable_order(lhs, self.rows), mergeable_order(rhs, self.columns)
        shape = (
            *self.batch_shape,
            *[self.lhs_shape[axis] for axis in rows],
            *[self.rhs_shape[axis] for axis in columns],
        )
        count = len(self.batch_shape)
        perm = (
            *range(count),
            *[count + rows.index(axis) for axis in self.rows],
            *[count + len(rows) + columns.index(axis) for axis in self.columns],
        )
        groups = AxisGroups(self.batch, rows, columns, self.terms)
        product = Product(groups, lhs, rhs, self.resources)
        transposition = None if perm == tuple(range(len(perm))) else perm
        return partial(_multiply_and_reshape, product, shape, transposition)


def _multiply_and_reshape(
    product: Function, shape: Axes, perm: Axes | None, lhs: Array, rhs: Array, into: Any = None
) -> Array:
    y = product(lhs, rhs, into).reshape(shape)
    return y if perm is None else y.transpose(perm)


PRODUCTS: dict[tuple[bool, bool], Function] = {
    (False, False): np.dot,
    (True, False): lambda a, b: np.dot(a.T, b),
    (False, True): lambda a, b: np.dot(a, b.T),
    (True, True): lambda a, b: np.dot(a.T, b.T),
}
"""Products of matrices and vectors, by whether `lhs` and `rhs` are transposed; BLAS needs no copy to transpose."""
