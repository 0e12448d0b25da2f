"""Small convolutions: rows of outputs, each the sum over the window of rows of the kernel."""

from __future__ import annotations

from collections.abc import Sequence

from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm.added_rows import rows_added
from tenferro.exec.llvm.code import Element, Index, literal
from tenferro.exec.llvm.columns import either
from tenferro.exec.llvm.folding import Indices
from tenferro.exec.llvm.tensor import Body, Memory, Tensor, by_axes
from tenferro.ops.contraction import Convolution
from tenferro.types import DType, TensorSpec

__all__ = ["convolution", "convolution_refusal"]

LARGEST = 3 << 17
"""Multiplications up to which a call of the kernel from a loop costs more."""


def convolution(
    body: Body, op: Convolution, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """Of an image with its edges around it, features last, and a kernel with outputs last."""
    (x, kernel), (y,), code = operands, types, body.code
    image = _with_edges(body, op, x)
    taps = _kernel(body, op, kernel)
    *sizes, features, outputs = taps.spec.shape
    axes = op.output_batch, *op.output_spatial, op.output_feature
    spec = TensorSpec.of(tuple([y.shape[axis] for axis in axes]), y.dtype)
    of_group = outputs // op.feature_group_count

    def product(index: Indices, numbers: Indices) -> Element:
        n, *place, o = index
        *tap, i = numbers
        group, _ = code.divided(o, of_group) if op.feature_group_count > 1 else (0, 0)
        steps = zip(place, op.window_strides, tap, op.rhs_dilation, strict=True)
        at = [code.add(code.scaled(p, s), code.scaled(k, d)) for p, s, k, d in steps]
        feature = code.add(code.scaled(group, features), i)
        left = code.load(image.pointer, code.linear((n, *at, feature), image.spec.shape), y.dtype)
        right = code.load(taps.pointer, code.linear((*tap, i, o), taps.spec.shape), y.dtype)
        return el.multiply(code, op, y.dtype, (left, right))

    rows = body.stored(rows_added(body, op, spec, (*sizes, features), product))
    if axes == tuple(range(y.rank)):
        return [rows]
    moved = Tensor(
        y, lambda index: body.at(rows, tuple([index[axis] for axis in axes])), rows.reads
    )
    return [body.settled(moved)]


def convolution_refusal(op: Convolution, operands: Sequence[TensorSpec]) -> str:
    """Large ones, and what is rare in loops."""
    x, kernel = operands
    if x.dtype.is_complex or op.batch_group_count > 1:
        return "convolutions of complex numbers and of groups of a batch are not compiled"
    (y,) = op.infer(x, kernel)
    if not (y.is_static and x.size and kernel.size):
        return "convolutions without elements, and of unknown extents, are not compiled"
    work = y.size * (kernel.size // kernel.shape[op.kernel_output_feature])
    return (
        f"convolutions of more than {LARGEST} multiplications are not compiled"
        if work > LARGEST
        else ""
    )


# ---- parts -----------------------------------------------------------------------------------------


def _with_edges(body: Body, op: Convolution, x: Tensor) -> Memory:
    """The image [n, s.., c] with what its windows read around it, and zeros between its elements."""
    code, dtype = body.code, x.spec.dtype
    axes = op.input_batch, *op.input_spatial, op.input_feature
    n, *extents, c = [x.spec.shape[axis] for axis in axes]
    dilated = [(s - 1) * d + 1 for s, d in zip(extents, op.lhs_dilation, strict=True)]
    whole = [s + low + high for s, (low, high) in zip(dilated, op.padding, strict=True)]
    if (
        whole == extents
        and not any([low for low, _ in op.padding])
        and axes == tuple(range(len(axes)))
    ):
        return body.dense(x)

    def element(index: tuple[Index, ...]) -> Element:
        number, *places, feature = index
        conditions, inner = list[str](), list[Index]()
        for place, extent, s, d, (low, _) in zip(
            places, whole, dilated, op.lhs_dilation, op.padding, strict=True
        ):
            place = code.add(place, -low)
            quotient, rest = code.divided(place, d)
            if (low, d) != (0, 1) or s < extent:
                conditions.append(code.value(f"icmp ult i64 {place}, {s}"))
            if d > 1:
                conditions.append(code.value(f"icmp eq i64 {rest}, 0"))
            inner.append(quotient)
        return _where(body, dtype, conditions, x, by_axes(axes, (number, *inner, feature)))

    spec = TensorSpec.of((n, *whole, c), dtype)
    return body.copy(Tensor(spec, element, x.reads))


def _where(
    body: Body, dtype: DType, conditions: Sequence[str], x: Tensor, index: tuple[Index, ...]
) -> Element:
    """An element where all conditions hold, and else zero, for which the first one is read."""
    code = body.code
    if not conditions:
        return body.at(x, index)
    is_inside = conditions[0]
    for condition in conditions[1:]:
        is_inside = code.value(f"and i1 {is_inside}, {condition}")
    safe = tuple([code.value(f"select i1 {is_inside}, i64 {i}, i64 0") for i in index])
    return either(code, dtype, is_inside, body.at(x, safe), literal(0, dtype))


def _kernel(body: Body, op: Convolution, kernel: Tensor) -> Memory:
    """The kernel [k.., i, o], not reversed."""
    axes = *op.kernel_spatial, op.kernel_input_feature, op.kernel_output_feature
    if axes == tuple(range(len(axes))) and not any(op.window_reversal):
        return body.dense(kernel)
    spec = TensorSpec.of(tuple([kernel.spec.shape[axis] for axis in axes]), kernel.spec.dtype)

    def element(index: tuple[Index, ...]) -> Element:
        *taps, i, o = index
        places = [
            body.code.add(body.code.scaled(k, -1), n - 1) if is_reversed else k
            for k, n, is_reversed in zip(taps, spec.shape, op.window_reversal, strict=False)
        ]
        return body.at(kernel, by_axes(axes, (*places, i, o)))

    return body.copy(Tensor(spec, element, kernel.reads))
