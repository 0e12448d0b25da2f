"""Windows of arrays [n, c, s..], where the axes are n for the batch, c for channels, and s for spatial axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from tenferro.exec.kernels.kernel import Array
from tenferro.exec.kernels.structural import padding_slices, write_padded

__all__ = [
    "Window",
    "empty_like_channels",
    "is_channels_last",
    "padded",
    "padded_bytes",
    "padding_function",
    "window_view",
]


@dataclass(frozen=True)
class Window:
    """Strides, padding and dilations of windows; each attribute has one entry per spatial axis."""

    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]

    def padded(self, extents: Sequence[int]) -> list[int]:
        """Return the extents of spatial axes after padding and lhs dilation."""
        axes = zip(extents, self.padding, self.lhs_dilation, strict=True)
        return [sum(pair) + (n and (n - 1) * dilation + 1) for n, pair, dilation in axes]

    def counts(self, extents: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the number of windows of these sizes along each spatial axis."""
        counts: list[int] = []
        axes = zip(self.padded(extents), sizes, self.rhs_dilation, self.strides, strict=True)
        for extent, size, dilation, stride in axes:
            width = size and (size - 1) * dilation + 1
            counts.append((extent - width) // stride + 1 if 0 < extent >= width else 0)
        return tuple(counts)


def is_channels_last(x: Array) -> bool:
    """Return whether axis c of x [n, c, s..] has several elements, and no spatial axis has a smaller stride."""
    return x.shape[1] > 1 and abs(x.strides[1]) <= min(map(abs, x.strides[2:]), default=0)


def empty_like_channels(x: Array, shape: Sequence[int], dtype: Any, into: Any = None) -> Array:
    """Return an uninitialised array [n, o, p..] in the buffer `into` if it is not None; channels-last if x is."""
    if not is_channels_last(x):
        return np.ndarray(shape, dtype, into)
    out = np.ndarray((shape[0], *shape[2:], shape[1]), dtype, into)
    return out.transpose(0, out.ndim - 1, *range(1, out.ndim - 1))


def padding_function(window: Window, x: Array) -> Callable[..., Array]:
    """Return `padded` as a function of an array and a buffer, for arrays with x's shape, strides and dtype."""
    low, high = ([0, 0, *[pair[side] for pair in window.padding]] for side in (0, 1))
    gaps = [0, 0, *[d - 1 for d in window.lhs_dilation]]
    if not max(*low, *high, *gaps):
        inside = padding_slices(x.shape, low, high, gaps)[2]
        return lambda x, into=None: x[inside]
    # Axes with stride 0 or extent 1, which have no place in the memory order, are the slowest axes of the result.
    steps = [abs(step) if n > 1 else 0 for n, step in zip(x.shape, x.strides, strict=True)]
    order = sorted(range(x.ndim), key=lambda axis: (steps[axis] > 0, -steps[axis]))
    inverse = sorted(range(x.ndim), key=order.__getitem__)
    edges = [[n[axis] for axis in order] for n in (low, high, gaps)]
    slices = padding_slices([x.shape[axis] for axis in order], *edges)
    zero = np.zeros((), x.dtype)
    return lambda x, into=None: write_padded(*slices, x.transpose(order), zero, into).transpose(
        inverse
    )


def padded(window: Window, x: Array, into: Any = None) -> Array:
    """Return x [n, c, s..] with padding and lhs dilation: a view if no element is inserted, else a copy.

    The copy has the memory order of x.

    Args:
        into: the buffer for the copy; None for new memory.
    """
    return padding_function(window, x)(x, into)


def padded_bytes(window: Window, x: Array) -> int:
    """Return the size in bytes of the copy that `padded` returns; 0 if it returns a view."""
    edges = [edge for pair in window.padding for edge in pair]
    if max(edges, default=0) <= 0 and max(window.lhs_dilation, default=1) == 1:
        return 0
    return prod([*x.shape[:2], *window.padded(x.shape[2:])]) * x.itemsize


def window_view(window: Window, x: Array, sizes: Sequence[int]) -> Array:
    """Return the windows of a padded x [n, c, s..] as a view [n, c, p.., k..].

    Element k of window p is element s = p stride + k dilation of x.
    """
    rank = len(sizes)
    unpadded = replace(window, padding=((0, 0),) * rank, lhs_dilation=(1,) * rank)
    counts, inner = unpadded.counts(x.shape[2:], sizes), x.strides[2:]
    strides = [a * b for a, b in zip(inner, window.strides, strict=True)]
    taps = [a * b for a, b in zip(inner, window.rhs_dilation, strict=True)]
    return np.lib.stride_tricks.as_strided(
        x, (*x.shape[:2], *counts, *sizes), (*x.strides[:2], *strides, *taps), writeable=False
    )
