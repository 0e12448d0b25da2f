"""Kernel of Convolution: matrix products over blocks of windows, or sums of shifted products.

In general, blocks of windows are copied into cache, and multiplied by the kernels. There are faster algorithms for
special cases:

- 1x1 kernels: the input is multiplied without a copy.
- Depthwise: products of shifted arrays are added.
- Many channels and few outputs: the input is multiplied by the kernels, and the products are added to the result.
- Dilated input, as in gradients of strided convolutions: each phase of the result is an undilated convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tenferro import costs
from tenferro.blas import NUMPYS
from tenferro.exec.kernels.kernel import Array, Kernel
from tenferro.exec.kernels.matrix_product import workers_for
from tenferro.exec.kernels.sums_of_products import DirectSum, channels_last
from tenferro.exec.kernels.window_products import WindowProducts, scatter_products
from tenferro.exec.kernels.windows import (
    Window,
    empty_like_channels,
    is_channels_last,
    padded,
    window_view,
)
from tenferro.exec.runtime.resources import SERIAL_RESOURCES, Resources
from tenferro.ops.contraction import Convolution
from tenferro.types import DType

__all__ = ["CONVOLUTION", "ConvolutionFunction"]

MIN_CHANNELS_PER_OUTPUT = 4
"""Minimum ratio of channels to outputs for which the input is multiplied and products are then added."""
BLOCK_BYTES = costs.CACHE // 4
"""Size in bytes of a block of the result of a depthwise convolution."""


class ConvolutionFunction:
    """Convolution of arrays of any extents."""

    accepts_buffers = True

    def __init__(self, op: Convolution, resources: Resources) -> None:
        self.op, self.resources = op, resources
        self.products = WindowProducts(resources)
        self.window = Window(op.window_strides, op.padding, op.lhs_dilation, op.rhs_dilation)
        self.reversed_axes = tuple([2 + i for i, flag in enumerate(op.window_reversal) if flag])
        self.input_axes = op.input_batch, op.input_feature, *op.input_spatial
        self.kernel_axes = op.kernel_output_feature, op.kernel_input_feature, *op.kernel_spatial
        axes = op.output_batch, op.output_feature, *op.output_spatial
        self.output_perm = tuple(sorted(range(len(axes)), key=axes.__getitem__))

    def __call__(self, x: Array, kernel: Array, into: Sequence[Any] = (None,)) -> Array:
        """Return the convolution.

        Args:
            into: the buffer for the result; None for new memory.
        """
        op, dtype = self.op, x.dtype
        work = DType.of(dtype).accumulator.dtype
        x = x.transpose(self.input_axes).astype(work, copy=False)
        w = kernel.transpose(self.kernel_axes).astype(work, copy=False)
        if self.reversed_axes:
            w = np.flip(w, self.reversed_axes)
        counts = self.window.counts(x.shape[2:], w.shape[2:])
        shape = x.shape[0] // op.batch_group_count, w.shape[0], *counts
        is_rounded = work != dtype
        out = empty_like_channels(x, shape, work, None if is_rounded else into[0])
        with NUMPYS:
            _write(self, x, w, out)
        if is_rounded:
            rounded = empty_like_channels(x, shape, dtype, into[0])
            rounded[...] = out
            out = rounded
        return out.transpose(self.output_perm)


CONVOLUTION = Kernel(
    lambda op, *arrays: ConvolutionFunction(op, SERIAL_RESOURCES)(*arrays),
    lambda op, _, resources: ConvolutionFunction(op, resources),
)
"""Kernel of a convolution of the dilated and padded input, computed in the accumulator's dtype."""


def _write(convolution: ConvolutionFunction, x: Array, w: Array, out: Array) -> None:
    """Convolve x [n, c, s..] with kernels w [o, c, k..], and write the result to `out` [n, o, p..].

    The axes are n for the batch, c for channels, o for outputs, and s, k and p for spatial positions of the input, the
    kernels and the result.
    """
    window = convolution.window
    if not out.size or not x.size or not w.size:
        out[...] = 0
        return
    is_strided = max(window.strides, default=1) > 1
    is_dilated = max(window.lhs_dilation, default=1) > 1
    op = convolution.op
    is_grouped = max(op.feature_group_count, op.batch_group_count) > 1
    has_few_outputs = w.shape[1] >= MIN_CHANNELS_PER_OUTPUT * w.shape[0]
    scatters = has_few_outputs and 1 < prod(w.shape[2:]) <= prod(out.shape[2:])
    scatters &= not is_strided and not is_grouped
    has_phases = is_dilated and not is_strided and max(window.rhs_dilation) <= 1
    if scatters and not is_dilated:
        plan = convolution.products.plan(window, x, w, out)
        if isinstance(plan, DirectSum):
            plan.write(x, w, out)
            return
    skips_zeros = (scatters or has_phases) and _may_skip_zeros(w)
    if skips_zeros and scatters:
        scatter_products(window, x, w, out, convolution.resources)
    elif skips_zeros:
        _write_phases(convolution, x, w, out)
    else:
        _write_groups(convolution, window, x, w, out)


def _may_skip_zeros(w: Array) -> bool:
    """Return whether products with zeros of padding and dilation may be omitted: if no kernel element is inf or NaN."""
    return w.dtype.kind not in "fc" or bool(np.isfinite(w.sum()))


def _write_phases(convolution: ConvolutionFunction, x: Array, w: Array, out: Array) -> None:
    """Convolve an input with dilation d: for each r < d, the positions p = d q + r are an undilated convolution.

    Only the kernel elements k for which p + k - low is a multiple of d contribute to position p of the result, where
    `low` is the padding before the input.
    """
    window = convolution.window
    axes = [
        [(r, (low - r) % d, d, low) for r in range(min(d, count))]
        for d, count, (low, _) in zip(
            window.lhs_dilation, out.shape[2:], window.padding, strict=True
        )
    ]
    if convolution.resources.sums is not None and x.ndim == 4 and not is_channels_last(x):
        x = channels_last(x)  # converted here once, instead of once per phase
    ones, every = (1,) * len(axes), (slice(None), slice(None))
    for phase in product(*axes):
        # `part` contains the kernel elements `first`, `first + d`, `first + 2 * d`, and so on.
        target = out[(*every, *[slice(r, None, d) for r, _, d, _ in phase])]
        part = w[(*every, *[slice(first, None, d) for _, first, d, _ in phase])]
        if not part.size:
            target[...] = 0
            continue
        # For position r of the result, the first element of `part` is multiplied by element `begin` of x.
        begins = [(r + first - low) // d for r, first, d, low in phase]
        edges = tuple([
            (-begin, begin + count + size - 1 - n)
            for begin, count, size, n in zip(
                begins, target.shape[2:], part.shape[2:], x.shape[2:], strict=True
            )
        ])  # fmt: skip
        _write_groups(convolution, Window(ones, edges, ones, ones), x, part, target)


def _write_groups(
    convolution: ConvolutionFunction, window: Window, x: Array, w: Array, out: Array
) -> None:
    """Convolve x [n, c, s..] with kernels w [o, c, k..] in groups of features or of the batch; write to `out`."""
    features, batches = convolution.op.feature_group_count, convolution.op.batch_group_count
    resources, products = convolution.resources, convolution.products
    count = max(features, batches)
    multiplier = w.shape[0] // count
    if count == 1:
        products.write(window, x, w, out)
    elif features > 1 and w.shape[1] == 1:
        windows = window_view(window, padded(window, x), w.shape[2:])
        _write_depthwise(resources, windows, w, multiplier, out)
    elif batches > 1 and multiplier == 1 and x.shape[0] == batches:
        _write_group_products(window_view(window, padded(window, x), w.shape[2:]), w, out)
    else:
        axis, extent = (1, w.shape[1]) if features > 1 else (0, x.shape[0] // batches)
        for g in range(count):
            part = slice(g * multiplier, (g + 1) * multiplier)
            members = x[(*[slice(None)] * axis, slice(g * extent, (g + 1) * extent))]
            products.write(window, members, w[part], out[:, part])


def _write_depthwise(
    resources: Resources, windows: Array, w: Array, multiplier: int, out: Array
) -> None:
    """Write `out` [n, c m, p..] from windows [n, c, p.., k..] and kernels [c m, 1, k..], with one channel per group.

    There are m = `multiplier` kernels per channel. Sums over k are taken for blocks of rows of `out` that fit in cache.
    """
    spatial = out.ndim - 2
    n, c = windows.shape[:2]
    counts, sizes = windows.shape[2 : 2 + spatial], windows.shape[2 + spatial :]
    kernels = w.reshape(c, multiplier, *sizes, *[1] * spatial)
    y = out.reshape(n, c, multiplier, *counts, copy=False)
    rows = counts[0] if spatial else 1
    step = max(1, BLOCK_BYTES // (prod(counts[1:]) * c * multiplier * out.itemsize))
    blocks = [(i, j) for i in range(n) for j in range(0, rows, step)]

    def work(first: int, last: int) -> None:
        for i, start in blocks[first:last]:
            block = (slice(start, start + step),) * min(spatial, 1)
            target = y[(i, slice(None), slice(None), *block)]
            target[...] = 0
            for tap in product(*map(range, sizes)):
                x = windows[(i, slice(None), None, *block, ..., *tap)]
                target += x * kernels[(slice(None), slice(None), *tap)]

    workers_for(resources, windows.size * multiplier).parallel_for(work, len(blocks))


def _write_group_products(windows: Array, w: Array, out: Array) -> None:
    """Write `out` [1, g, p..] from windows [g, c, p.., k..] and kernels [g, c, k..], by an einsum per position p.

    Each of the g elements of the batch is a group. Element i is convolved with kernel i.
    """
    letters = "abcdefghijklm"[: out.ndim - 2]
    for index in product(*map(range, out.shape[2:])):
        x: Any = windows[(slice(None), slice(None), *index)]
        out[(0, slice(None), *index)] = np.einsum(f"zy{letters},zy{letters}->z", x, w)
