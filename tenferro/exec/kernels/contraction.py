"""Kernels of the contraction family: matrix products, by BLAS where it has the dtype."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tenferro.blas import NUMPYS
from tenferro.exec.kernels.dot_general import DotGeneralKernel
from tenferro.exec.kernels.kernel import Array, KernelRows, OfOp
from tenferro.exec.kernels.structural import pad
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.types import DType

__all__ = ["ROWS"]


def convolution(op: Convolution, x: Array, kernel: Array) -> Array:
    """Windows of the dilated and padded input as a view, and one matrix product per group."""
    dtype = x.dtype
    work = DType.of(dtype).accumulator.dtype
    x = x.transpose(op.input_batch, op.input_feature, *op.input_spatial).astype(work, copy=False)
    w = kernel.transpose(op.kernel_output_feature, op.kernel_input_feature, *op.kernel_spatial)
    w = np.flip(w, tuple(2 + i for i, flag in enumerate(op.window_reversal) if flag)).astype(work)
    low = (0, 0, *(pair[0] for pair in op.padding))
    high = (0, 0, *(pair[1] for pair in op.padding))
    gaps = (0, 0, *(dilation - 1 for dilation in op.lhs_dilation))
    x = pad(x, np.zeros((), work), low, high, gaps)
    windows = _windows(x, w.shape[2:], op.window_strides, op.rhs_dilation)
    result = _grouped(op, windows, w)
    count = len(op.window_strides)
    order = [0] * (count + 2)
    order[op.output_batch], order[op.output_feature] = 0, 1
    for i, axis in enumerate(op.output_spatial):
        order[axis] = 2 + i
    return result.transpose(order).astype(dtype, copy=False)


def _windows(
    x: Array, sizes: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> Array:
    """X [n, c, s..] as a view [n, c, p.., k..]: element s = p stride + k dilation."""
    counts: list[int] = []
    for extent, size, stride, step in zip(x.shape[2:], sizes, strides, dilation, strict=True):
        window = (size - 1) * step + 1 if size else 0
        counts.append(0 if extent == 0 or window > extent else (extent - window) // stride + 1)
    inner = x.strides[2:]
    return np.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:2], *counts, *sizes),
        (
            *x.strides[:2],
            *(a * b for a, b in zip(inner, strides, strict=True)),
            *(a * b for a, b in zip(inner, dilation, strict=True)),
        ),
        writeable=False,
    )


def _grouped(op: Convolution, windows: Array, w: Array) -> Array:
    """Y [n, o, p..] from windows [n, c, p.., k..] and kernels [o, c, k..], group by group."""
    spatial = len(op.window_strides)
    features, batches = op.feature_group_count, op.batch_group_count
    groups = max(features, batches)
    outputs = np.split(w, groups, axis=0)
    inputs = np.split(windows, groups, axis=1 if features > 1 else 0) if groups > 1 else [windows]
    parts: list[Array] = []
    for part, kernels in zip(inputs, outputs, strict=True):
        n, c = part.shape[:2]
        counts, sizes = part.shape[2 : 2 + spatial], part.shape[2 + spatial :]
        k = c * prod(sizes)
        axes = (0, *range(2, 2 + spatial), 1, *range(2 + spatial, 2 + 2 * spatial))
        rows = part.transpose(axes).reshape(n * prod(counts), k)
        columns = kernels.reshape(kernels.shape[0], k).T
        with NUMPYS:
            product = np.matmul(rows, columns).reshape(n, *counts, kernels.shape[0])
        parts.append(np.moveaxis(product, -1, 1))
    return np.concatenate(parts, axis=1)


ROWS: KernelRows = {DotGeneral: DotGeneralKernel(), Convolution: OfOp(convolution)}
