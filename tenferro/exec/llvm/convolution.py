"""Small convolutions: each output position is a sum of rows of the kernel over the window."""

from __future__ import annotations

from collections.abc import Sequence

from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm.code import Element, Index, literal
from tenferro.exec.llvm.folding import Indices
from tenferro.exec.llvm.ir import Value
from tenferro.exec.llvm.row_sums import sum_rows
from tenferro.exec.llvm.tensor import Body, Memory, Specs, Tensor, Tensors, inverse_permute
from tenferro.ops.contraction import Convolution
from tenferro.types import DType, TensorSpec

__all__ = ["convolution", "convolution_refusal"]

MAX_MULTIPLICATIONS = 3 << 17
"""Break-even against a call of the interpreter's kernel from compiled code."""


def convolution(body: Body, op: Convolution, operands: Tensors, types: Specs) -> Tensors:
    """Write a convolution of the padded input, features last, with the kernel, output features last."""
    (x, kernel), (y,), code = operands, types, body.code
    image = _padded(body, op, x)
    taps = _ordered_kernel(body, op, kernel)
    *sizes, features, outputs = taps.spec.shape
    axes = op.output_batch, *op.output_spatial, op.output_feature
    spec = TensorSpec.of(tuple([y.shape[axis] for axis in axes]), y.dtype)
    group_outputs = outputs // op.feature_group_count

    def product(index: Indices, numbers: Indices) -> Element:
        n, *position, o = index
        *tap, i = numbers
        group, _ = code.divmod(o, group_outputs) if op.feature_group_count > 1 else (0, 0)
        steps = zip(position, op.window_strides, tap, op.rhs_dilation, strict=True)
        window = [code.add(code.scaled(p, s), code.scaled(k, d)) for p, s, k, d in steps]
        feature = code.add(code.scaled(group, features), i)
        left = code.load(
            image.pointer, code.ravel_index((n, *window, feature), image.spec.shape), y.dtype
        )
        right = code.load(taps.pointer, code.ravel_index((*tap, i, o), taps.spec.shape), y.dtype)
        return el.multiply(code, op, y.dtype, (left, right))

    rows = body.stored(sum_rows(body, op, spec, (*sizes, features), product))
    if axes == tuple(range(y.rank)):
        return [rows]
    transposed = Tensor(
        y, lambda index: body.at(rows, tuple([index[axis] for axis in axes])), rows.reads
    )
    return [body.materialised(transposed)]


def convolution_refusal(op: Convolution, operands: Specs) -> str:
    """Return why a convolution is not compiled: it is large, or rare in loops."""
    x, kernel = operands
    if x.dtype.is_complex or op.batch_group_count > 1:
        return "convolutions of complex numbers and of groups of a batch are not compiled"
    (y,) = op.infer(x, kernel)
    if not (y.is_static and x.size and kernel.size):
        return "convolutions without elements, and of unknown extents, are not compiled"
    work = y.size * (kernel.size // kernel.shape[op.kernel_output_feature])
    return (
        f"convolutions of more than {MAX_MULTIPLICATIONS} multiplications are not compiled"
        if work > MAX_MULTIPLICATIONS
        else ""
    )


def _padded(body: Body, op: Convolution, x: Tensor) -> Memory:
    """Return the input as [n, s.., c], padded and dilated with zeros."""
    code, dtype = body.code, x.spec.dtype
    axes = op.input_batch, *op.input_spatial, op.input_feature
    n, *extents, c = [x.spec.shape[axis] for axis in axes]
    dilated = [(s - 1) * d + 1 for s, d in zip(extents, op.lhs_dilation, strict=True)]
    padded = [s + low + high for s, (low, high) in zip(dilated, op.padding, strict=True)]
    if (
        padded == extents
        and not any([low for low, _ in op.padding])
        and axes == tuple(range(len(axes)))
    ):
        return body.dense(x)

    def element(index: tuple[Index, ...]) -> Element:
        number, *position, feature = index
        conditions, inner = list[Value](), list[Index]()
        for p, extent, s, d, (low, _) in zip(
            position, padded, dilated, op.lhs_dilation, op.padding, strict=True
        ):
            p = code.add(p, -low)
            quotient, rest = code.divmod(p, d)
            if (low, d) != (0, 1) or s < extent:
                conditions.append(code.icmp("ult", p, s))
            if d > 1:
                conditions.append(code.icmp("eq", rest, 0))
            inner.append(quotient)
        return _select_inside(
            body, dtype, conditions, x, inverse_permute(axes, (number, *inner, feature))
        )

    spec = TensorSpec.of((n, *padded, c), dtype)
    return body.copy(Tensor(spec, element, x.reads))


def _select_inside(
    body: Body, dtype: DType, conditions: Sequence[Value], x: Tensor, index: tuple[Index, ...]
) -> Element:
    """Write an element where all conditions hold, else zero; the load is then of the first element."""
    code = body.code
    if not conditions:
        return body.at(x, index)
    is_inside = conditions[0]
    for condition in conditions[1:]:
        is_inside = code.value("and", is_inside, condition)
    safe = tuple([code.select(is_inside, i, 0) for i in index])
    return el.select(code, dtype, is_inside, body.at(x, safe), literal(0, dtype))


def _ordered_kernel(body: Body, op: Convolution, kernel: Tensor) -> Memory:
    """Return the kernel as [k.., i, o], with window reversal undone."""
    axes = *op.kernel_spatial, op.kernel_input_feature, op.kernel_output_feature
    if axes == tuple(range(len(axes))) and not any(op.window_reversal):
        return body.dense(kernel)
    spec = TensorSpec.of(tuple([kernel.spec.shape[axis] for axis in axes]), kernel.spec.dtype)

    def element(index: tuple[Index, ...]) -> Element:
        *taps, i, o = index
        position = [
            body.code.add(body.code.scaled(k, -1), n - 1) if is_reversed else k
            for k, n, is_reversed in zip(taps, spec.shape, op.window_reversal, strict=False)
        ]
        return body.at(kernel, inverse_permute(axes, (*position, i, o)))

    return body.copy(Tensor(spec, element, kernel.reads))
