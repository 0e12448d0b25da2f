"""Windows of arrays [batch, channel, space..]: their geometry, the padding, and a view of all windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tenferro.exec.kernels.kernel import Array
from tenferro.exec.kernels.structural import pad

__all__ = [
    "PaddedLayout",
    "Window",
    "empty_like_channels",
    "is_channels_last",
    "padded",
    "window_view",
]


@dataclass(frozen=True)
class Window:
    """Geometry of a window, one entry per spatial axis."""

    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]

    def counts(self, extents: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the number of windows of these sizes along axes of these extents."""
        counts: list[int] = []
        for i, (n, size) in enumerate(zip(extents, sizes, strict=True)):
            padded_extent = sum(self.padding[i]) + (n and (n - 1) * self.lhs_dilation[i] + 1)
            width = size and (size - 1) * self.rhs_dilation[i] + 1
            fits = 0 < padded_extent >= width
            counts.append((padded_extent - width) // self.strides[i] + 1 if fits else 0)
        return tuple(counts)

    def cut(
        self, extents: Sequence[int], positions: Sequence[slice], sizes: Sequence[int]
    ) -> Window:
        """Return the window of these sizes for a range of positions, for axes of these extents."""
        padding: list[tuple[int, int]] = []
        for i, (n, p, size) in enumerate(zip(extents, positions, sizes, strict=True)):
            stride, dilation, low = self.strides[i], self.rhs_dilation[i], self.padding[i][0]
            first = p.start * stride - low
            last = (p.stop - 1) * stride + (size - 1) * dilation - low
            padding.append((-first, last - (n - 1) * self.lhs_dilation[i]))
        return replace(self, padding=tuple(padding))


def is_channels_last(x: Array) -> bool:
    """Return whether the channel axis of x [n, c, s..] has a smaller stride than the spatial axes."""
    return x.shape[1] > 1 and abs(x.strides[1]) <= min(map(abs, x.strides[2:]), default=0)


def empty_like_channels(x: Array, shape: Sequence[int], dtype: Any, into: Any = None) -> Array:
    """Return an uninitialised array [n, o, p..] in this buffer or in new memory; it is channels-last if x is."""
    if not is_channels_last(x):
        return np.ndarray(shape, dtype, into)
    out = np.ndarray((shape[0], *shape[2:], shape[1]), dtype, into)
    return out.transpose(0, out.ndim - 1, *range(1, out.ndim - 1))


class PaddedLayout:
    """Function that pads and dilates arrays [n, c, s..] of one layout."""

    def __init__(self, window: Window, shape: Sequence[int], strides: Sequence[int]) -> None:
        low, high = ([0, 0, *[pair[side] for pair in window.padding]] for side in (0, 1))
        gaps = [0, 0, *[d - 1 for d in window.lhs_dilation]]
        axes = range(len(shape))
        # Strides along broadcast axes and axes of extent 1 are arbitrary, so these axes become the slowest.
        steps = [abs(step) if n > 1 else 0 for n, step in zip(shape, strides, strict=True)]
        self.order = sorted(axes, key=lambda axis: (steps[axis] > 0, -steps[axis]))
        self.inverse = sorted(axes, key=self.order.__getitem__)
        self.edges = [tuple([n[axis] for axis in self.order]) for n in (low, high, gaps)]
        self.has_gaps = any(gaps)
        self.is_wider = max(*low, *high) > 0
        inner = [slice(max(0, -a), max(0, n + min(0, b))) for a, n, b in zip(low, shape, high, strict=True)]  # fmt: skip
        self.inner = tuple(inner) if min(*low, *high) < 0 else ()
        self.shape = [a + n + b for a, n, b in zip(low, shape, high, strict=True)]
        inside = [
            slice(max(0, a), max(0, a) + len(range(n)[part]))
            for a, n, part in zip(low, shape, inner, strict=True)
        ]
        self.inside = tuple(inside)
        self.zeros: list[tuple[slice, ...]] = []
        for axis, part in enumerate(inside[2:], 2):
            if part.start:
                self.zeros.append((*inside[:axis], slice(part.start)))
            if part.stop < self.shape[axis]:
                self.zeros.append((*inside[:axis], slice(part.stop, None)))

    def pad(self, x: Array, into: Any = None) -> Array:
        """Return x with its padding and dilation, in the layout of x; a view if it is only cropped.

        Args:
            into: the buffer for the result; None for new memory.
        """
        if self.has_gaps:
            filled = pad(x.transpose(self.order), np.zeros((), x.dtype), *self.edges)
            return filled.transpose(self.inverse)
        if self.inner:
            x = x[self.inner]
        if not self.is_wider:
            return x
        filled = np.ndarray([self.shape[axis] for axis in self.order], x.dtype, into)
        filled = filled.transpose(self.inverse)
        for edge in self.zeros:
            filled[edge] = 0
        filled[self.inside] = x
        return filled


def padded(window: Window, x: Array, into: Any = None) -> Array:
    """Return one array with its padding and dilation."""
    return PaddedLayout(window, x.shape, x.strides).pad(x, into)


def window_view(window: Window, x: Array, sizes: Sequence[int]) -> Array:
    """Return a padded x [n, c, s..] as a view [n, c, p.., k..], where s = p stride + k dilation."""
    rank = len(sizes)
    unpadded = replace(window, padding=((0, 0),) * rank, lhs_dilation=(1,) * rank)
    counts, inner = unpadded.counts(x.shape[2:], sizes), x.strides[2:]
    strides = [a * b for a, b in zip(inner, window.strides, strict=True)]
    taps = [a * b for a, b in zip(inner, window.rhs_dilation, strict=True)]
    return np.lib.stride_tricks.as_strided(
        x, (*x.shape[:2], *counts, *sizes), (*x.strides[:2], *strides, *taps), writeable=False
    )
