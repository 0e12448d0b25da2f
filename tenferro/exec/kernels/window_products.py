"""Convolutions as matrix products of windows and kernels, in blocks that do not depend on the number of threads."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from tenferro import costs
from tenferro.exec.kernels.kernel import Array
from tenferro.exec.kernels.matrix_product import AxisGroups, Product, scratch, workers_for
from tenferro.exec.kernels.sums_of_products import DirectSum, direct_sum
from tenferro.exec.kernels.windows import Window, padded_bytes, padding_function, window_view
from tenferro.exec.layout import by_stride
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.threads import even_ranges
from tenferro.program import BoundedCache

__all__ = ["WindowProducts", "scatter_products"]

BLOCK_BYTES = 2 * costs.CACHE
"""Size in bytes of a block of windows, which is copied and then multiplied."""
MAX_PLANS = 16
"""Maximum number of plans per convolution; each layout of a group or phase needs one."""


class WindowProducts:
    """Writer of convolutions as products, with a cache of plans for the shapes and strides of arrays."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self._plans: BoundedCache[DirectSum | _WindowProduct] = BoundedCache(MAX_PLANS)

    def plan(self, window: Window, x: Array, w: Array, out: Array) -> DirectSum | _WindowProduct:
        """Return the convolution of non-empty arrays with these shapes and strides."""
        key = window, x.shape, x.strides, w.shape, w.strides, out.strides
        arguments = window, x, w, out, self.resources
        return self._plans.get(key, lambda: direct_sum(*arguments) or _WindowProduct(*arguments))

    def write(self, window: Window, x: Array, w: Array, out: Array) -> None:
        """Write the convolution of x [n, c, s..] with kernels [o, c, k..] to out [n, o, p..]."""
        if not out.size:
            return
        if not x.size or not w.size:
            out[...] = 0
            return
        self.plan(window, x, w, out).write(x, w, out)


class _WindowProduct:
    """Product of a matrix of windows and the kernels.

    The rows of the matrix are positions (n, p..) and its columns are terms (c, k..), both in memory order. Blocks of
    the matrix are copied and multiplied by the kernels.
    """

    def __init__(
        self, window: Window, x: Array, w: Array, out: Array, resources: Resources
    ) -> None:
        self.window, self.sizes, self.resources = window, w.shape[2:], resources
        self.pad, self.padded_bytes = padding_function(window, x), padded_bytes(window, x)
        windows, spatial = window_view(window, self.pad(x), self.sizes), out.ndim - 2
        order = by_stride(windows.strides)
        positions = tuple([axis for axis in order if axis == 0 or 2 <= axis < 2 + spatial])
        terms = tuple([axis for axis in order if axis not in positions])
        kernel_axes = tuple([axis if axis == 1 else axis - spatial for axis in terms])
        groups = AxisGroups(((), ()), positions, (0,), (terms, kernel_axes))
        self.perm = (*positions, 1)
        target = out.transpose(self.perm)
        is_column_major = by_stride(target.strides)[-1] < target.ndim - 1
        self.product = Product(groups, windows, w, resources, is_column_major, BLOCK_BYTES)

    def write(self, x: Array, w: Array, out: Array) -> None:
        with scratch(self.resources, (self.padded_bytes,)) as (memory,):
            windows = window_view(self.window, self.pad(x, memory), self.sizes)
            target = out.transpose(self.perm)
            is_contiguous = target.flags.c_contiguous
            y = self.product(windows, w, target if is_contiguous else None)
            if not is_contiguous:
                target[...] = y.reshape(target.shape)


def scatter_products(window: Window, x: Array, w: Array, out: Array, resources: Resources) -> None:
    """Write the convolution of x [n, c, s..] with kernels [o, c, k..] to out [n, o, p..], for windows of stride 1.

    Each element of x is multiplied by all kernel elements of its channel, and each product is added to the result at
    position p = s lhs_dilation + low - k rhs_dilation. The result is computed in blocks of rows that fit in the cache.
    """
    sizes, extents, (outputs, _, *_) = w.shape[2:], x.shape[2:], w.shape
    taps = [*product(*map(range, sizes))]
    kernels = w.transpose(*range(2, w.ndim), 0, 1).reshape(-1, w.shape[1])
    size = x.itemsize * len(kernels) * prod(extents) // window.lhs_dilation[0]
    blocks = even_ranges(out.shape[2], min(out.shape[2], 1 + size // BLOCK_BYTES))
    runs = [*product(range(len(x)), blocks)]

    def work(number: int) -> None:
        n, rows = runs[number]
        spans = [
            [_span(low - k * dilation, step, extent, block) for k in range(size)]
            for size, extent, step, dilation, (low, _), block in zip(
                sizes,
                extents,
                window.lhs_dilation,
                window.rhs_dilation,
                window.padding,
                [rows, *[(0, count) for count in out.shape[3:]]],
                strict=True,
            )
        ]
        first = min([elements.start for elements, _ in spans[0]])
        stop = max([elements.stop for elements, _ in spans[0]])
        part = x[n, :, first:stop]
        terms = (kernels @ part.reshape(len(part), -1)).reshape(len(taps), outputs, *part.shape[1:])
        total = np.zeros((outputs, rows[1] - rows[0], *out.shape[3:]), out.dtype)
        for tap, term in zip(taps, terms, strict=True):
            pairs = [spans[axis][k] for axis, k in enumerate(tap)]
            source = [
                slice(s.start - first * (not axis), s.stop - first * (not axis))
                for axis, (s, _) in enumerate(pairs)
            ]
            total[(slice(None), *[target for _, target in pairs])] += term[(slice(None), *source)]
        out[n, :, slice(*rows)] = total

    workers_for(resources, x.size * len(kernels)).for_each(work, len(runs))


def _span(shift: int, step: int, extent: int, positions: tuple[int, int]) -> tuple[slice, slice]:
    """Return the slice of indices s < extent for which s step + shift is in the range `positions`, and of positions.

    Positions are counted from the start of the range.
    """
    start, stop = positions
    first = max(0, -((shift - start) // step))
    last = max(first, min(extent, -((shift - stop) // step)))
    begin = first * step + shift - start
    return slice(first, last), slice(begin, begin + (last - first) * step, step)
