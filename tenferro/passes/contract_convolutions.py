"""Rewrite convolutions as matrix products if each window has one element, or if there is only one window.

Along each spatial axis, one of two conditions must hold. Either the kernel has one element and stride 1, as in layers
with 1 x 1 kernels. Or the kernel has the extent of the image, as in gradients of such layers. A convolution is not
rewritten if its result would need a copy that transposes it.

Law: results are equal up to rounding.

Source: StableHLO spec #convolution, #dot_general.
"""

from __future__ import annotations

from tenferro.graph import SourceLine
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.ops.structural import Reshape
from tenferro.program import GraphProgram
from tenferro.program.rewrite import Producers, Values, rewrite
from tenferro.types import DType, TensorSpec

__all__ = ["contract_convolutions"]


def contract_convolutions(program: GraphProgram) -> GraphProgram:
    """Return the program with a `DotGeneral` in place of each convolution that satisfies the conditions above."""
    return rewrite(program, {Convolution: _contracted})


def _contracted(
    producers: Producers, op: Convolution, inputs: Values, source: SourceLine | None
) -> Values | None:
    x, w = (producers.types[value] for value in inputs)
    whole = _whole_axes(op, x, w)
    if whole is None:
        return None
    summed = [op.input_feature, *[op.input_spatial[i] for i in whole]]
    summed_of_w = [op.kernel_input_feature, *[op.kernel_spatial[i] for i in whole]]
    # Sort the free axes by their positions in the result of the convolution.
    axis_of = {op.input_batch: op.output_batch}
    axis_of |= dict(zip(op.input_spatial, op.output_spatial, strict=True))
    of_x = [axis_of[axis] for axis in range(x.rank) if axis not in summed]
    matrix_axes = [
        axis for axis in range(w.rank) if axis in summed_of_w or axis == op.kernel_output_feature
    ]
    (y,) = op.infer(x, w)
    orders = [*of_x, op.output_feature], [op.output_feature, *of_x]
    in_order = [_is_in_order([axis for axis in order if y.shape[axis] != 1]) for order in orders]
    if not any(in_order):
        return None
    (kernel,) = producers.apply(Reshape(tuple([w.shape[axis] for axis in matrix_axes])), (inputs[1],), source)  # fmt: skip
    sides = (tuple(summed), inputs[0]), (tuple(map(matrix_axes.index, summed_of_w)), kernel)
    lhs, rhs = sides if in_order[0] else sides[::-1]
    dot = DotGeneral(lhs[0], rhs[0], precision=op.precision)
    product = producers.apply(dot, (lhs[1], rhs[1]), source)
    if producers.types[product[0]].shape == y.shape:
        return product
    return producers.apply(Reshape(y.shape), product, source)


def _whole_axes(op: Convolution, x: TensorSpec, w: TensorSpec) -> list[int] | None:
    """Return the spatial axes along which the kernel has the extent of the image.

    Return None if the convolution cannot be rewritten. This is so if the kernel has several elements or a stride along
    another axis, or if BLAS does not support the dtype.
    """
    if not (x.is_static and w.is_static and x.dtype in (DType.F32, DType.F64)):
        return None
    if max(op.feature_group_count, op.batch_group_count) > 1:
        return None
    if any(map(any, op.padding)) or set(op.lhs_dilation) - {1}:
        return None
    whole: list[int] = []
    for i, (axis, axis_of_w) in enumerate(zip(op.input_spatial, op.kernel_spatial, strict=True)):
        extent, size = x.shape[axis], w.shape[axis_of_w]
        if size == 1 and op.window_strides[i] == 1:
            continue
        if size != extent or op.rhs_dilation[i] != 1 or op.window_reversal[i]:
            return None
        whole.append(i)
    return whole


def _is_in_order(axes: list[int]) -> bool:
    return axes == sorted(axes)
