"""The kernel of Convolution: products of matrices over blocks of windows, and sums of shifted products.

Windows are copied block by block, so that they stay in cache, and in the order in which they lie; kernels of one
element need no copy. Groups of one channel are sums over the kernel's elements of products of shifted arrays. Few
outputs of many channels are products of the whole input with the kernels, of which those that meet are added.
Where the input is dilated, as in gradients of convolutions with strides, each phase of the result is a
convolution without dilation.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, Literal

import numpy as np

from tenferro.blas import NUMPYS
from tenferro.exec.kernels.kernel import Array, Kernel
from tenferro.exec.kernels.matrix_product import workers_for
from tenferro.exec.kernels.sums_of_products import DirectSums, Machine
from tenferro.exec.kernels.window_products import products, scattered
from tenferro.exec.kernels.windows import (
    Window,
    channels_like,
    is_channels_last,
    padded,
    windows_of,
)
from tenferro.exec.runtime.resources import CALLER, Resources
from tenferro.ops.contraction import Convolution
from tenferro.types import DType, TensorSpec

__all__ = ["ConvolutionKernel"]

FEW_OUTPUTS = 4
"""Channels for each output from which on the input is multiplied before windows are summed."""
ROWS_BYTES = 1 << 17
"""Of the result, which are summed over the elements of kernels of one channel at once."""


class ConvolutionKernel(Kernel):
    """Windows of the dilated and padded input, times the kernel, in the accumulator's dtype."""

    __slots__ = ()

    def __call__(self, op: Convolution, *arrays: Array) -> Array:
        x, kernel = arrays
        return Convolved(op, CALLER)(x, kernel)

    def bind(
        self, op: Convolution, inputs: tuple[TensorSpec, ...], resources: Resources = CALLER
    ) -> Convolved:
        """The function of the op, on these threads and in this memory."""
        return Convolved(op, resources)


class Convolved:
    """A convolution of arrays of any extents.

    Args:
        order: of the result, as far as it costs less than a copy; "K" for that which costs least.
        machine: compiled code, where it has a way.
    """

    takes_places = True

    def __init__(
        self,
        op: Convolution,
        resources: Resources,
        order: Literal["F", "C", "K"] = "K",
        machine: Machine | None = None,
    ) -> None:
        self.op, self.resources, self.machine = op, resources, machine
        self.direct = None if machine is None else DirectSums(resources, machine)
        self.order: Literal["F", "C", "K"] = order
        self.window = Window(op.window_strides, op.padding, op.lhs_dilation, op.rhs_dilation)
        self.turned = tuple([2 + i for i, flag in enumerate(op.window_reversal) if flag])
        self.input_axes = op.input_batch, op.input_feature, *op.input_spatial
        self.kernel_axes = op.kernel_output_feature, op.kernel_input_feature, *op.kernel_spatial
        self.axes = op.output_batch, op.output_feature, *op.output_spatial
        self.places = tuple(sorted(range(len(self.axes)), key=self.axes.__getitem__))

    def in_order(self, order: Literal["F", "C"], numbers: Sequence[int] = (0,)) -> Convolved:
        """The same with its result in an order."""
        return Convolved(self.op, self.resources, order, self.machine)

    def by(self, machine: Machine) -> Convolved:
        """The same by compiled code."""
        return Convolved(self.op, self.resources, self.order, machine)

    def __call__(self, x: Array, kernel: Array, into: Sequence[Any] = (None,)) -> Array:
        """The convolution.

        Args:
            into: the bytes that it is written to; None for memory of its own.
        """
        op, dtype = self.op, x.dtype
        work = DType.of(dtype).accumulator.dtype
        x = x.transpose(self.input_axes).astype(work, copy=False)
        w = kernel.transpose(self.kernel_axes).astype(work, copy=False)
        if self.turned:
            w = np.flip(w, self.turned)
        counts = self.window.counts(x.shape[2:], w.shape[2:])
        shape = x.shape[0] // op.batch_group_count, w.shape[0], *counts
        is_rounded = work != dtype
        out = self._result(shape, work, x, w, None if is_rounded else into[0])
        with NUMPYS:
            _convolve(self, x, w, out)
        if is_rounded:
            low = self._result(shape, dtype, x, w, into[0])
            low[...] = out
            out = low
        return out.transpose(self.places)

    def _result(self, shape: Sequence[int], dtype: Any, x: Array, w: Array, into: Any) -> Array:
        """An array [n, o, p..] in these bytes or in memory of its own."""
        is_split = max(self.op.feature_group_count, self.op.batch_group_count) > 1
        order = self.order
        if is_split or (order == "K" and prod(shape[2:]) >= prod(w.shape[2:])):
            return channels_like(x, shape, dtype, into)
        lies = [shape[axis] for axis in self.places]
        y = np.ndarray(lies, dtype, into, order="F" if order == "F" else "C")
        return y.transpose(self.axes)


def _convolve(how: Convolved, x: Array, w: Array, out: Array) -> None:
    """Write out [n, o, p..] of x [n, c, s..] and kernels [o, c, k..]."""
    window, resources = how.window, how.resources
    groups = how.op.feature_group_count, how.op.batch_group_count
    sizes, plain = w.shape[2:], set(window.strides) <= {1}
    if not out.size or not x.size or not w.size:
        out[...] = 0
        return
    has_holes = not set(window.lhs_dilation) <= {1}
    is_few = w.shape[1] >= FEW_OUTPUTS * w.shape[0] and 1 < prod(sizes) <= prod(out.shape[2:])
    is_few &= plain and max(groups) == 1
    has_phases = has_holes and plain and set(window.rhs_dilation) <= {1}
    if is_few and not has_holes and how.direct is not None and how.direct.write(window, x, w, out):
        return
    leaves_zeros_out = (is_few or has_phases) and _times_zero_is_zero(w)
    if leaves_zeros_out and is_few:
        scattered(window, x, w, out, resources)
    elif leaves_zeros_out:
        _by_phases(how, x, w, out)
    else:
        _grouped(how, window, x, w, out)


def _times_zero_is_zero(w: Array) -> bool:
    """Whether products of the kernels with zeros, of padding and of holes, may be left out: none is infinite or NaN."""
    return w.dtype.kind not in "fc" or bool(np.isfinite(w.sum()))


def _by_phases(how: Convolved, x: Array, w: Array, out: Array) -> None:
    """A dilated input, where p = d q + r of the result for each r is a convolution by itself.

    Element s of the input lies at d s in the dilated one, so that p meets those elements k of the kernel alone for
    which p + k - low is a multiple of d.
    """
    window = how.window
    axes = [
        [(r, (low - r) % d, d, low) for r in range(min(d, count))]
        for d, count, (low, _) in zip(
            window.lhs_dilation, out.shape[2:], window.padding, strict=True
        )
    ]
    ones, every = (1,) * len(axes), (slice(None), slice(None))
    for phase in product(*axes):
        # Of the kernel the elements first, first + d, ..
        target = out[(*every, *[slice(r, None, d) for r, _, d, _ in phase])]
        part = w[(*every, *[slice(first, None, d) for _, first, d, _ in phase])]
        if not part.size:
            target[...] = 0
            continue
        # The first of them meets element `begin` of x.
        begins = [(r + first - low) // d for r, first, d, low in phase]
        edges = tuple([
            (-begin, begin + count + size - 1 - n)
            for begin, count, size, n in zip(
                begins, target.shape[2:], part.shape[2:], x.shape[2:], strict=True
            )
        ])  # fmt: skip
        _grouped(how, Window(ones, edges, ones, ones), x, part, target)


def _grouped(how: Convolved, window: Window, x: Array, w: Array, out: Array) -> None:
    """Write out of x [n, c, s..] and kernels [o, c, k..], in groups of features or of the batch."""
    features, batches = how.op.feature_group_count, how.op.batch_group_count
    count = max(features, batches)
    several = w.shape[0] // count
    if count == 1:
        products(window, x, w, out, how.resources, how.direct)
    elif features > 1 and w.shape[1] == 1:
        _by_channels(
            how.resources, windows_of(window, padded(window, x), w.shape[2:]), w, several, out
        )
    elif batches > 1 and several == 1 and x.shape[0] == batches:
        _products_of_windows(windows_of(window, padded(window, x), w.shape[2:]), w, out)
    else:
        axis, extent = (1, w.shape[1]) if features > 1 else (0, x.shape[0] // batches)
        for g in range(count):
            part = slice(g * several, (g + 1) * several)
            members = x[(*[slice(None)] * axis, slice(g * extent, (g + 1) * extent))]
            products(window, members, w[part], out[:, part], how.resources, how.direct)


def _by_channels(resources: Resources, windows: Array, w: Array, several: int, out: Array) -> None:
    """Write out [n, c m, p..] of windows [n, c, p.., k..] and kernels [c m, 1, k..], one channel each.

    A sum over the kernel's elements, by blocks of rows that stay in cache.
    """
    spatial = out.ndim - 2
    n, c = windows.shape[:2]
    counts, sizes = windows.shape[2 : 2 + spatial], windows.shape[2 + spatial :]
    kernels = w.reshape(c, several, *sizes)
    is_last = is_channels_last(out)
    y = np.moveaxis(out, 1, -1) if is_last else out
    y = y.reshape(n, *counts, c, several) if is_last else y.reshape(n, c, several, *counts)
    rows = counts[0] if spatial else 1
    step = max(1, ROWS_BYTES // (prod(counts[1:]) * c * several * out.itemsize))
    blocks = [(i, j) for i in range(n) for j in range(0, rows, step)]

    def work(first: int, last: int) -> None:
        for i, start in blocks[first:last]:
            block = (slice(start, start + step),) * min(spatial, 1)
            target = y[(i, *block)] if is_last else y[(i, slice(None), slice(None), *block)]
            target[...] = 0
            for tap in product(*map(range, sizes)):
                x = windows[(i, slice(None), *block, ..., *tap)]
                k = kernels[(slice(None), slice(None), *tap)]
                if is_last:
                    target += np.moveaxis(x, 0, -1)[..., None] * k
                else:
                    target += x[:, None] * k[(..., *[None] * spatial)]

    workers_for(resources, windows.size * several).share(work, len(blocks))


def _products_of_windows(windows: Array, w: Array, out: Array) -> None:
    """Write out [1, g, p..] of windows [g, c, p.., k..] and kernels [g, c, k..]: each group's sum for each place."""
    letters = "abcdefghijklm"[: out.ndim - 2]
    for index in product(*map(range, out.shape[2:])):
        x: Any = windows[(slice(None), slice(None), *index)]
        out[(0, slice(None), *index)] = np.einsum(f"zy{letters},zy{letters}->z", x, w)
