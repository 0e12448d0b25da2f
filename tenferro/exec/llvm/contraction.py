"""LLVM lowerings of the contraction ops: small products are written as loops, and larger products as BLAS calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import blas
from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm.code import Element, Index
from tenferro.exec.llvm.folding import Fold, Indices
from tenferro.exec.llvm.reduction import LONG_ROW
from tenferro.exec.llvm.rows import Row, Rows
from tenferro.exec.llvm.structural import pad
from tenferro.exec.llvm.sums_of_products import MAX_MATRIX_BYTES, tile_of, write_sums
from tenferro.exec.llvm.tensor import (
    Body,
    Memory,
    Specs,
    Tensor,
    Tensors,
    in_float32,
    inverse_permute,
    transposed,
    transposed_spec,
)
from tenferro.exec.runtime.sum_of_products import SumOfProducts
from tenferro.ops import contraction as co
from tenferro.ops.structural import Pad
from tenferro.types import TensorSpec

__all__ = ["ROWS"]

MAX_LOOP_MULTIPLICATIONS = 1 << 12
"""Maximum number of multiplications of a matrix product that is written as loops; BLAS is faster for more."""
MAX_NARROW_MULTIPLICATIONS = 1 << 14
"""Maximum number of multiplications of a narrow product that is written as loops."""
MAX_NARROW_EXTENT = 4
"""Maximum number of rows or columns of a narrow product."""
UNROLLED_TERMS = 8
"""Number of terms that are added between a load and a store of the partial sum."""
MAX_CONVOLUTION_MULTIPLICATIONS = 3 << 17
"""Maximum number of multiplications of a compiled convolution; the interpreter's kernel is faster for more."""


def dot_general(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
    """Write a DotGeneral as BLAS calls if it is large, else as sums of rows if rows are long, else as dot products."""
    (lhs, rhs), (y,), code = operands, types, body.code
    if y.dtype is not lhs.spec.dtype:
        raise NotCompiledError(f"DotGeneral: {lhs.spec} with {rhs.spec} to {y} is not compiled")
    terms = [lhs.spec.shape[axis] for axis in op.lhs_contracting]
    free = [
        prod([x.spec.shape[axis] for axis in axes])
        for x, axes in ((lhs, op.lhs_free(lhs.spec.rank)), (rhs, op.rhs_free(rhs.spec.rank)))
    ]
    size = y.size * prod(terms)
    is_narrow = min(free) <= MAX_NARROW_EXTENT
    most = MAX_NARROW_MULTIPLICATIONS if is_narrow else MAX_LOOP_MULTIPLICATIONS
    # BLAS is not called for one term, because it multiplies by 1 + 0i, and an infinity times 1 + 0i is NaN.
    is_for_blas = prod(terms) > 1 and (size > most or y.dtype.is_complex)
    if size and y.dtype in blas.LETTERS and is_for_blas:
        return [body.stored(_products(body, op, lhs, rhs, y))]
    batch, rows = len(op.lhs_batch), op.lhs_free(lhs.spec.rank)
    columns = op.rhs_free(rhs.spec.rank)

    def factors(index: Indices, numbers: Indices) -> tuple[Element, Element]:
        outer, free_index = index[:batch], index[batch:]
        left = (*outer, *free_index[: len(rows)], *numbers)
        right = (*outer, *free_index[len(rows) :], *numbers)
        return (
            body.at(lhs, inverse_permute((*op.lhs_batch, *rows, *op.lhs_contracting), left)),
            body.at(rhs, inverse_permute((*op.rhs_batch, *columns, *op.rhs_contracting), right)),
        )

    def product(index: Indices, numbers: Indices) -> Element:
        return el.multiply(code, op, y.dtype, factors(index, numbers))

    if columns and y.shape[-1] >= LONG_ROW and prod(terms) > 1:
        return [body.stored(_sum_rows(body, op, y, terms, product))]

    if prod(terms) == 1:
        return [Tensor(y, lambda index: product(index, (0,) * len(terms)), lhs.reads | rhs.reads)]

    def element(index: Indices) -> Element:
        return Fold(code, op, y.dtype, el.add, 0).reduce(terms, lambda k: product(index, k))

    return [body.materialised(Tensor(y, element, lhs.reads | rhs.reads))]


def _products(body: Body, op: Any, lhs: Tensor, rhs: Tensor, y: TensorSpec) -> Memory:
    """Write products of matrices, with tiles in registers if tiles are faster than BLAS."""
    code, batch = body.code, prod([lhs.spec.shape[axis] for axis in op.lhs_batch])
    terms = prod([lhs.spec.shape[axis] for axis in op.lhs_contracting])
    rows, columns = (x.spec.size // (batch * terms) for x in (lhs, rhs))
    a, is_transposed = left = blas.matrices(body, lhs, op.lhs_batch, op.lhs_contracting)
    b, is_row_major = right = blas.matrices(body, rhs, op.rhs_batch, op.rhs_contracting)
    sums = SumOfProducts(
        y.dtype,
        (0, 0),
        (1, rows * terms, terms * columns, rows * columns),
        (rows, 1 if is_transposed else terms, columns),
        (columns, 1 if is_row_major else terms, 1),
        ((terms, rows if is_transposed else 1, columns if is_row_major else 1),),
    )
    is_tiled = not y.dtype.is_complex and min(rows, columns) > 1
    is_tiled &= is_row_major or not is_transposed
    if is_tiled and sums.matrix_bytes <= MAX_MATRIX_BYTES[code.lanes < 8]:
        with suppress(NotCompiledError):
            height, *_ = tile_of(sums, code)
            result = body.result(y)
            pointers = a.pointer, b.pointer, result.pointer
            write_sums(code, sums, pointers, 0, batch * -(-rows // height))
            return result
    return blas.products(body, left, right, batch, (rows, columns, terms), y)


def _sum_rows(
    body: Body,
    op: Any,
    y: TensorSpec,
    extents: Sequence[int],
    term: Callable[[Indices, Indices], Element],
) -> Memory:
    """Write each row of y as a sum of rows, a few terms per pass over the row, along which LLVM vectorises.

    Args:
        extents: the extents of the summed axes.
        term: the function from the index of an element and the index of a term to the term.
    """
    code, memory = body.code, body.result(y)
    count, (*outer, width) = prod(extents), y.shape

    def sum_row(index: Indices) -> None:
        def add_terms(start: Index, terms: int, is_first: bool) -> None:
            def element(j: Index) -> None:
                position = (*index, j)
                offset = code.ravel_index(position, y.shape)
                total = None if is_first else code.load(memory.pointer, offset, y.dtype)
                for k in range(terms):
                    x = term(position, code.unravel_index(code.add(start, k), extents))
                    total = x if total is None else el.add(code, op, y.dtype, [total, x])
                code.store(total, memory.pointer, offset, y.dtype)

            code.loop(width, element)

        first = (count - 1) % UNROLLED_TERMS + 1
        add_terms(0, first, is_first=True)
        code.loop(
            (count - first) // UNROLLED_TERMS,
            lambda block: add_terms(
                code.add(code.scaled(block, UNROLLED_TERMS), first), UNROLLED_TERMS, is_first=False
            ),
        )

    code.loops(outer, sum_row)
    return memory


def convolution(body: Body, op: co.Convolution, operands: Tensors, types: Specs) -> Tensors:
    """Write a convolution: each position is a sum of rows of the kernel over the window of the padded input."""
    (x, kernel), (y,), code = operands, types, body.code
    image, taps = _padded(body, op, x), _taps(body, op, kernel)
    *sizes, features, outputs = taps.spec.shape
    axes = op.output_batch, *op.output_spatial, op.output_feature
    input_axes = op.input_batch, *op.input_spatial, op.input_feature
    group_outputs = outputs // op.feature_group_count

    def product(index: Indices, numbers: Indices) -> Element:
        (n, *position, o), (*tap, i) = index, numbers
        group, _ = code.divmod(o, group_outputs) if op.feature_group_count > 1 else (0, 0)
        steps = zip(position, op.window_strides, tap, op.rhs_dilation, strict=True)
        window = [code.add(code.scaled(p, s), code.scaled(k, d)) for p, s, k, d in steps]
        feature = code.add(code.scaled(group, features), i)
        left = body.at(image, inverse_permute(input_axes, (n, *window, feature)))
        return el.multiply(code, op, y.dtype, (left, body.at(taps, (*tap, i, o))))

    rows = _sum_rows(body, op, transposed_spec(y, axes), (*sizes, features), product)
    return [body.materialised(transposed(body, body.stored(rows), np.argsort(axes).tolist()))]


def _padded(body: Body, op: co.Convolution, x: Tensor) -> Tensor:
    """Return the input with padding and dilation."""
    low, high, interior = ([0] * x.spec.rank for _ in range(3))
    pairs = zip(op.input_spatial, op.padding, op.lhs_dilation, strict=True)
    for axis, (before, after), dilation in pairs:
        low[axis], high[axis], interior[axis] = before, after, dilation - 1
    if not any([*low, *high, *interior]):
        return body.materialised(x)
    body.target = None  # because the padded input is not the result
    padding, zero = Pad(tuple(low), tuple(high), tuple(interior)), TensorSpec.of((), x.spec.dtype)
    (spec,) = padding.infer(x.spec, zero)
    (image,) = pad(body, padding, (x, body.filled(zero, 0)), (spec,))
    return image


def _taps(body: Body, op: co.Convolution, kernel: Tensor) -> Tensor:
    """Return the kernel as [k.., i, o], with window reversal undone."""
    axes = *op.kernel_spatial, op.kernel_input_feature, op.kernel_output_feature
    spec, code = transposed_spec(kernel.spec, axes), body.code

    def element(index: Indices) -> Element:
        position = [
            code.add(code.scaled(k, -1), n - 1) if is_reversed else k
            for k, n, is_reversed in zip(index, spec.shape, op.window_reversal, strict=False)
        ]
        return body.at(kernel, inverse_permute(axes, (*position, *index[-2:])))

    return body.materialised(Tensor(spec, element, kernel.reads))


def convolution_refusal(op: co.Convolution, operands: Specs) -> str:
    """Return why a convolution is not compiled, or an empty string."""
    x, kernel = operands
    if x.dtype.is_complex or op.batch_group_count > 1:
        return "convolutions of complex numbers and of groups of a batch are not compiled"
    (y,) = op.infer(x, kernel)
    if not (y.is_static and x.size and kernel.size):
        return "convolutions without elements, and of unknown extents, are not compiled"
    work = y.size * (kernel.size // kernel.shape[op.kernel_output_feature])
    if work <= MAX_CONVOLUTION_MULTIPLICATIONS:
        return ""
    return f"convolutions of more than {MAX_CONVOLUTION_MULTIPLICATIONS} multiplications are not compiled"


ROWS: Rows = {
    co.DotGeneral: Row(in_float32(dot_general), moves=True, materialises=True),
    co.Convolution: Row(
        in_float32(convolution), moves=True, materialises=True, refusal=convolution_refusal
    ),
}
