"""LLVM lowerings of the contraction ops: a small product is written as loops, and a larger one as BLAS calls."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm import blas
from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm.code import Element
from tenferro.exec.llvm.folding import Fold, Indices
from tenferro.exec.llvm.reduction import LONG_ROW
from tenferro.exec.llvm.row_sums import sum_rows
from tenferro.exec.llvm.rows import Row, Rows
from tenferro.exec.llvm.structural import pad
from tenferro.exec.llvm.tensor import (
    Body,
    Specs,
    Tensor,
    Tensors,
    in_float32,
    inverse_permute,
    transposed,
    transposed_spec,
)
from tenferro.ops import contraction as co
from tenferro.ops.structural import Pad
from tenferro.types import TensorSpec

__all__ = ["ROWS"]

MAX_LOOP_MULTIPLICATIONS = 1 << 12
"""Maximum number of multiplications for which a product of matrices is written as loops; BLAS is faster for more."""
MAX_NARROW_MULTIPLICATIONS = 1 << 14
"""Maximum number of multiplications for which a narrow product is written as loops; it reads the larger matrix once."""
MAX_NARROW_EXTENT = 4
"""Maximum number of rows or of columns of the result of a narrow product."""
MAX_CONVOLUTION_MULTIPLICATIONS = 3 << 17
"""Maximum number of multiplications of a compiled convolution; the interpreter's kernel is faster for more."""


def dot_general(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
    """Write a DotGeneral: by BLAS if it is large, else as sums of rows if rows are long, else as dot products."""
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
    # Products of one term are written here, because BLAS multiplies by 1 + 0i, and an infinity times that is NaN.
    is_for_blas = prod(terms) > 1 and (size > most or y.dtype.is_complex)
    if size and y.dtype in blas.LETTERS and is_for_blas:
        return [body.stored(blas.dot_general(body, op, lhs, rhs, y))]
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
        return [body.stored(sum_rows(body, op, y, terms, product))]

    if prod(terms) == 1:
        return [Tensor(y, lambda index: product(index, (0,) * len(terms)), lhs.reads | rhs.reads)]

    def element(index: Indices) -> Element:
        return Fold(code, op, y.dtype, el.add, 0).reduce(terms, lambda k: product(index, k))

    return [body.materialised(Tensor(y, element, lhs.reads | rhs.reads))]


def convolution(body: Body, op: co.Convolution, operands: Tensors, types: Specs) -> Tensors:
    """Write a convolution; at each position it is a sum of rows of the kernel, times elements of the window."""
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

    rows = sum_rows(body, op, transposed_spec(y, axes), (*sizes, features), product)
    return [body.materialised(transposed(body, body.stored(rows), np.argsort(axes).tolist()))]


def _padded(body: Body, op: co.Convolution, x: Tensor) -> Tensor:
    """Return the input with its padding and lhs dilation, in memory."""
    low, high, interior = ([0] * x.spec.rank for _ in range(3))
    pairs = zip(op.input_spatial, op.padding, op.lhs_dilation, strict=True)
    for axis, (before, after), dilation in pairs:
        low[axis], high[axis], interior[axis] = before, after, dilation - 1
    if not any([*low, *high, *interior]):
        return body.materialised(x)
    body.target = None  # the padded input must not be written to the memory of the result
    padding, zero = Pad(tuple(low), tuple(high), tuple(interior)), TensorSpec.of((), x.spec.dtype)
    (spec,) = padding.infer(x.spec, zero)
    (image,) = pad(body, padding, (x, body.filled(zero, 0)), (spec,))
    return image


def _taps(body: Body, op: co.Convolution, kernel: Tensor) -> Tensor:
    """Return the kernel as [k.., i, o] in memory; the axes that the op reverses are reversed."""
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
    """Return why a convolution is not compiled, or an empty string; large and rare ones are interpreted."""
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
