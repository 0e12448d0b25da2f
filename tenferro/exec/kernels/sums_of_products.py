"""Convolutions of images by compiled sums of products, which read windows in place and do not hold the GIL.

An image is copied if it is padded or if its channels are not contiguous.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tenferro.exec.kernels.kernel import Array
from tenferro.exec.kernels.matrix_product import address, scratch, workers_for
from tenferro.exec.kernels.windows import Window, padded_bytes, padding_function, window_view
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.sum_of_products import ONE_IMAGE, CompiledSum, SumOfProducts
from tenferro.exec.runtime.threads import even_ranges
from tenferro.types import DType

__all__ = ["DirectSum", "channels_last", "direct_sum"]

TASKS = 6
"""Maximum number of calls of the compiled function per convolution."""
MAX_KERNEL_BYTES = 1 << 24
"""Maximum size of the kernels in bytes; compiled code reads all kernels once for every few rows of the result."""
MIN_PRODUCT_WORK = 1 << 24
"""Minimum number of multiplications of a compiled 1x1 convolution; for fewer, BLAS does not copy either."""
MAX_STRIDED_WORK = 1 << 24
"""Maximum number of multiplications of a compiled gradient of kernels; for more, BLAS packs the windows."""
OUTPUTS_LAST = 2, 3, 1, 0
"""Permutation of kernels [o, c, k..] that makes the outputs contiguous for vector instructions."""
MIN_PLACES = 128
"""Minimum number of windows for which images without contiguous channels are copied and summed by compiled code."""


def direct_sum(
    window: Window, x: Array, w: Array, out: Array, resources: Resources
) -> DirectSum | None:
    """Return the compiled convolution of arrays with these shapes and strides.

    It is None if it is not supported, if BLAS is expected to be faster, or if no code is compiled.
    """
    plan, sums = _planned(window, x, w, out), resources.sums
    function = None if plan is None or sums is None else sums(plan.sums, plan.multiplications)
    return None if plan is None or function is None else DirectSum(plan, function, resources)


@dataclass(frozen=True)
class DirectSum:
    """Compiled convolution, with its plan."""

    plan: _ImagePlan
    compiled: CompiledSum
    resources: Resources

    def write(self, x: Array, w: Array, out: Array) -> None:
        """Write the convolution of x [n, c, s..] with kernels w [o, c, k..] to out [n, o, p..]."""
        self.plan.run(self.compiled, self.resources, x, w, out)


def channels_last(x: Array, into: Any = None) -> Array:
    """Return a copy of images [n, c, h, w] in which axis c is contiguous, in the buffer `into` if it is not None."""
    n, c, h, w = x.shape
    copy = np.ndarray((n, h, w, c), x.dtype, into).transpose(0, 3, 1, 2)
    copy[...] = x
    return copy


def _planned(window: Window, x: Array, w: Array, out: Array) -> _ImagePlan | None:
    """Return the plan of a convolution, or None if it is not supported or BLAS is expected to be faster."""
    if x.dtype not in (np.float32, np.float64) or out.ndim != 4 or w.nbytes > MAX_KERNEL_BYTES:
        return None
    if any([step % x.itemsize for step in (*x.strides, *w.strides, *out.strides)]):
        return None
    steps = sorted(range(out.ndim), key=lambda axis: -abs(out.strides[axis]))
    # If the result is contiguous in some order of its axes, BLAS writes a 1x1 convolution without a copy.
    is_product = prod(w.shape[2:]) == 1 and out.transpose(steps).flags.c_contiguous
    if is_product and out.size * w[0].size < MIN_PRODUCT_WORK:
        return None
    # A convolution that computes the gradient of kernels has windows with more elements than the result has positions.
    has_few_places = prod(out.shape[2:]) < prod(w.shape[2:])
    if has_few_places and out.size * w[0].size <= MAX_STRIDED_WORK:
        return _ImagePlan(window, x, w, out, is_copied=False)
    is_contiguous = x.strides[1] == x.itemsize if x.shape[1] > 1 else not has_few_places
    plan = _ImagePlan(window, x, w, out, is_copied=False) if is_contiguous else None
    if plan is not None and (x.shape[1] == 1 or plan.channel_stride == 1):
        return plan
    is_small = out.size < MIN_PLACES * len(w)
    if is_product or has_few_places or is_small:
        return None
    return _ImagePlan(window, x, w, out, is_copied=True)


class _ImagePlan:
    """Plan of a convolution as a sum over channels and kernel elements.

    Axis r of `SumOfProducts` is the result's spatial axis with the larger stride, and axis m its other spatial axis.

    Args:
        is_copied: whether x is first copied to make its channels contiguous.
    """

    def __init__(self, window: Window, x: Array, w: Array, out: Array, is_copied: bool) -> None:
        self.is_copied, self.copy_bytes = is_copied, x.nbytes if is_copied else 0
        x = channels_last(x) if is_copied else x
        self.pad = padding_function(window, x)
        windows = window_view(window, self.pad(x), w.shape[2:])
        size, outputs, channels = w.itemsize, len(w), windows.shape[1]
        height, width = w.shape[2:]
        slow, fast = sorted((2, 3), key=lambda axis: -abs(out.strides[axis]))
        y_strides = [stride // size for stride in out.strides]
        self.is_direct = w.transpose(*OUTPUTS_LAST).flags.c_contiguous
        self.scratch_sizes = padded_bytes(window, x), 0 if self.is_direct else w.nbytes
        strides = [stride // size for stride in windows.strides]
        self.channel_stride = strides[1]
        inner = ((width * channels, strides[1], outputs),)
        if strides[5] != channels * strides[1]:
            inner = ((width, strides[5], channels * outputs), (channels, strides[1], outputs))
        self.sums = SumOfProducts(
            DType.of(w.dtype),
            (strides[slow], y_strides[slow]),
            (out.shape[slow], strides[0], 0, y_strides[0]) if len(out) > 1 else ONE_IMAGE,
            (out.shape[fast], strides[fast], y_strides[fast]),
            (outputs, 1, y_strides[1]),
            ((height, strides[4], width * channels * outputs), *inner),
        )
        self.multiplications = out.size * w[0].size
        self.rows = len(out) * out.shape[slow]

    def run(
        self, compiled: CompiledSum, resources: Resources, x: Array, w: Array, out: Array
    ) -> None:
        """Write the convolution of x and w to `out` by the function compiled from `self.sums`."""
        function, tasks = compiled
        workers = workers_for(resources, self.multiplications)
        # There are few ranges of tasks, because a thread waits for the GIL before each range.
        tasks *= self.rows
        parts = even_ranges(tasks, min(tasks, TASKS) if workers.count > 1 else 1)
        with scratch(resources, (*self.scratch_sizes, self.copy_bytes)) as memory:
            x = channels_last(x, memory[2]) if self.is_copied else x
            image = self.pad(x, memory[0])
            kernels = w.transpose(*OUTPUTS_LAST)
            if not self.is_direct:
                copy = np.ndarray(kernels.shape, w.dtype, memory[1])
                copy[...] = kernels
                kernels = copy
            pointers = address(image), address(kernels), address(out)
            workers.for_each(lambda number: function(*pointers, *parts[number]), len(parts))
