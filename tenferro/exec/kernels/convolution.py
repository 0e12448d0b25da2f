"""The kernel of Convolution: products of matrices over blocks of windows, and sums of shifted products.

Arrays are walked channels last where they lie so, and channels first otherwise. Windows are copied block by block,
so that they stay in cache, and in the order in which they lie; kernels of one element need no copy. Groups of one
channel are sums over the kernel's elements of products of shifted arrays; others are one product of batches of
matrices. Where the input is dilated, as in gradients of convolutions with strides, each phase of the result is a
convolution without dilation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tenferro.blas import NUMPYS
from tenferro.exec.kernels.kernel import Array
from tenferro.exec.kernels.structural import pad
from tenferro.ops.contraction import Convolution
from tenferro.types import DType

__all__ = ["convolution"]

FEW_PLACES = 4
"""Elements of a kernel for each place of its windows, from which on there are few of these."""
FEW_COLUMNS = 16
"""Columns of a product that is worth making together with others."""
BLOCK_BYTES = 1 << 19
"""Of windows that are copied at once."""


@dataclass(frozen=True)
class Window:
    """How a window moves, one entry per spatial axis."""

    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]


def convolution(op: Convolution, x: Array, kernel: Array) -> Array:
    """Windows of the dilated and padded input, times the kernel, in the accumulator's dtype."""
    dtype = x.dtype
    work = DType.of(dtype).accumulator.dtype
    x = x.transpose(op.input_batch, op.input_feature, *op.input_spatial).astype(work, copy=False)
    w = kernel.transpose(op.kernel_output_feature, op.kernel_input_feature, *op.kernel_spatial)
    w = np.flip(w, tuple(2 + i for i, flag in enumerate(op.window_reversal) if flag)).astype(work)
    window = Window(op.window_strides, op.padding, op.lhs_dilation, op.rhs_dilation)
    groups = op.feature_group_count, op.batch_group_count
    with NUMPYS:
        result = _by_phases(window, groups, x, w)
    count = len(op.window_strides)
    order = [0] * (count + 2)
    order[op.output_batch], order[op.output_feature] = 0, 1
    for i, axis in enumerate(op.output_spatial):
        order[axis] = 2 + i
    return result.transpose(order).astype(dtype, copy=False)


def _by_phases(window: Window, groups: tuple[int, int], x: Array, w: Array) -> Array:
    """y [n, o, p..] of x [n, c, s..] and w [o, c, k..]; p = d q + r of a dilated input by itself for each r.

    Element s of the input lies at d s in the dilated one, so that p meets those elements k of the kernel alone for
    which p + k - low is a multiple of d.
    """
    dilation, rank = window.lhs_dilation, len(window.strides)
    plain = set(window.strides) <= {1} and set(window.rhs_dilation) <= {1}
    if set(dilation) <= {1} or not plain:
        return _grouped(window, groups, x, w)
    sizes = w.shape[2:]
    outputs = [
        max(0, low + high + (n - 1) * d + 1 - size + 1) if n else max(0, low + high - size + 1)
        for n, size, d, (low, high) in zip(
            x.shape[2:], sizes, dilation, window.padding, strict=True
        )
    ]
    batch = x.shape[0] // groups[1]
    y = _channels_like(x, (batch, w.shape[0], *outputs))
    for phase in product(*[range(d) for d in dilation]):
        # Of the kernel the elements first, first + d, ..; the first of them meets element `begin` of x.
        firsts = [
            (low - r) % d for r, d, (low, _) in zip(phase, dilation, window.padding, strict=True)
        ]
        part = w[
            (
                slice(None),
                slice(None),
                *[slice(f, None, d) for f, d in zip(firsts, dilation, strict=True)],
            )
        ]
        counts = [len(range(r, n, d)) for r, n, d in zip(phase, outputs, dilation, strict=True)]
        target = y[
            (
                slice(None),
                slice(None),
                *[slice(r, None, d) for r, d in zip(phase, dilation, strict=True)],
            )
        ]
        begins = [
            (r + f - low) // d
            for r, f, d, (low, _) in zip(phase, firsts, dilation, window.padding, strict=True)
        ]
        edges = tuple([
            (-begin, count + size - 1 + begin - n)
            for begin, count, size, n in zip(begins, counts, part.shape[2:], x.shape[2:], strict=True)
        ])  # fmt: skip
        if not target.size:
            continue
        if not part.size:
            target[...] = 0
            continue
        ones = (1,) * rank
        target[...] = _grouped(Window(ones, edges, ones, ones), groups, x, part)
    return y


def _is_channels_last(x: Array) -> bool:
    """Whether the channel axis of [n, c, s..] has a smaller stride than the spatial axes."""
    return x.shape[1] > 1 and abs(x.strides[1]) <= min(map(abs, x.strides[2:]), default=0)


def _channels_like(x: Array, shape: tuple[int, ...]) -> Array:
    """New memory of [n, o, p..], channels last where those of x are."""
    if not _is_channels_last(x):
        return np.empty(shape, x.dtype)
    return np.moveaxis(np.empty((shape[0], *shape[2:], shape[1]), x.dtype), -1, 1)


def _padded(window: Window, x: Array) -> Array:
    """x with its edges and gaps, channels last where they were."""
    gaps = [d - 1 for d in window.lhs_dilation]
    if not any(gaps) and not any([edge for pair in window.padding for edge in pair]):
        return x
    low, high = ([pair[side] for pair in window.padding] for side in (0, 1))
    zero = np.zeros((), x.dtype)
    if _is_channels_last(x):
        last = np.moveaxis(x, 1, -1)
        filled = pad(last, zero, (0, *low, 0), (0, *high, 0), (0, *gaps, 0))
        return np.moveaxis(filled, -1, 1)
    return pad(x, zero, (0, 0, *low), (0, 0, *high), (0, 0, *gaps))


def _windows(window: Window, x: Array, sizes: Sequence[int]) -> Array:
    """A padded x [n, c, s..] as a view [n, c, p.., k..]: element s = p stride + k dilation."""
    counts: list[int] = []
    steps = zip(x.shape[2:], sizes, window.strides, window.rhs_dilation, strict=True)
    for extent, size, stride, dilation in steps:
        width = (size - 1) * dilation + 1 if size else 0
        counts.append(0 if extent == 0 or width > extent else (extent - width) // stride + 1)
    inner = x.strides[2:]
    strides = [a * b for a, b in zip(inner, window.strides, strict=True)]
    taps = [a * b for a, b in zip(inner, window.rhs_dilation, strict=True)]
    return np.lib.stride_tricks.as_strided(
        x, (*x.shape[:2], *counts, *sizes), (*x.strides[:2], *strides, *taps), writeable=False
    )


def _grouped(window: Window, groups: tuple[int, int], x: Array, w: Array) -> Array:
    """y [n, o, p..] of x [n, c, s..] and kernels [o, c, k..], in groups of features or of the batch."""
    features, batches = groups
    count = max(groups)
    windows = _windows(window, _padded(window, x), w.shape[2:])
    spatial = len(window.strides)
    if count == 1:
        return _dense(windows, w, spatial)
    if features > 1:
        n, c = windows.shape[:2]
        per_group = c // features
        several = w.shape[0] // features
        if per_group == 1:
            return _by_channels(windows, w, several, spatial)
    else:
        per_group, several = windows.shape[1], w.shape[0] // batches
        n = windows.shape[0] // batches
        if several == 1 and n == 1:
            return _products_of_windows(windows, w, spatial)
    split = windows.reshape(n, count, per_group, *windows.shape[2:]) if features > 1 else np.moveaxis(
        windows.reshape(count, n, *windows.shape[1:]), 0, 1
    )  # fmt: skip
    y = _channels_like(windows[..., *[0] * spatial] if spatial else windows, (n, w.shape[0], *split.shape[3 : 3 + spatial]))  # fmt: skip
    for g in range(count):
        y[:, g * several : (g + 1) * several] = _dense(
            split[:, g], w[g * several : (g + 1) * several], spatial
        )
    return y


def _blocks(count: int, bytes_each: int) -> Iterator[slice]:
    step = max(1, BLOCK_BYTES // max(1, bytes_each))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def _dense(windows: Array, w: Array, spatial: int) -> Array:
    """y [n, o, p..] of windows [n, c, p.., k..] and kernels [o, c, k..]: products of matrices."""
    n, c = windows.shape[:2]
    counts, sizes = windows.shape[2 : 2 + spatial], windows.shape[2 + spatial :]
    terms, outputs = c * prod(sizes), w.shape[0]
    is_last = _is_channels_last(windows[(..., *[0] * spatial)]) if prod(sizes) else False
    y_shape = (n, outputs, *counts)
    if not prod(y_shape) or not terms:
        return np.zeros(y_shape, windows.dtype)
    if FEW_PLACES * prod(counts) <= prod(sizes):
        return _by_places(windows, w, spatial)
    rows = counts[0] if spatial else 1
    inner = prod(counts[1:])
    if is_last:
        y = np.empty((n, *counts, outputs), windows.dtype)
        matrix = np.moveaxis(w, 1, -1).reshape(outputs, terms).T
        whole = np.moveaxis(
            np.moveaxis(windows, 1, -1), range(1, 1 + spatial), range(1, 1 + spatial)
        )
        for i, block in product(range(n), _blocks(rows, inner * terms * windows.itemsize)):
            cut = (i, block) if spatial else (i,)
            part = whole[cut]
            np.matmul(part.reshape(-1, terms), matrix, out=y[cut].reshape(-1, outputs))
        return np.moveaxis(y, -1, 1)
    y = np.empty(y_shape, windows.dtype)
    matrix = w.reshape(outputs, terms)
    order = (0, 1, *range(2 + spatial, 2 + 2 * spatial), *range(2, 2 + spatial))
    whole = windows.transpose(order)
    ahead = (slice(None),) * (1 + spatial)
    for i, block in product(range(n), _blocks(rows, inner * terms * windows.itemsize)):
        part = whole[(i, *ahead, block)] if spatial else whole[i]
        target = y[i][:, block] if spatial else y[i]
        columns = part.reshape(terms, -1)
        if target.shape[1:] == counts:
            np.matmul(matrix, columns, out=target.reshape(outputs, -1))
        else:
            target[...] = np.matmul(matrix, columns).reshape(target.shape)
    return y


def _by_places(windows: Array, w: Array, spatial: int) -> Array:
    """y [n, o, p..] of large windows at few places, as in gradients of kernels: a product of matrices for each."""
    n, outputs = windows.shape[0], w.shape[0]
    counts = windows.shape[2 : 2 + spatial]
    kernels = _terms_first(w)
    if n < FEW_COLUMNS:
        ahead = windows.transpose(1, *range(2 + spatial, windows.ndim), *range(2, 2 + spatial), 0)
        y = kernels.T @ ahead.reshape(kernels.shape[0], -1)
        return np.moveaxis(y.reshape(outputs, *counts, n), (-1, 0), (0, 1))
    y = np.empty((*counts, outputs, n), windows.dtype)
    for index in product(*map(range, counts)):
        x = _terms_first(windows[(slice(None), slice(None), *index)])
        np.matmul(kernels.T, x, out=y[index])
    return y.transpose(spatial + 1, spatial, *range(spatial))


def _terms_first(x: Array) -> Array:
    """[n, c, k..] as a matrix [c k.., n], copied in the order in which it lies."""
    n = x.shape[0]
    if abs(x.strides[0]) <= min(map(abs, x.strides[1:])):
        return np.moveaxis(x, 0, -1).reshape(-1, n)
    return x.reshape(n, -1).T


def _by_channels(windows: Array, w: Array, several: int, spatial: int) -> Array:
    """y [n, c m, p..] of windows [n, c, p.., k..] and kernels [c m, 1, k..], one channel each.

    A sum over the kernel's elements, by blocks of rows that stay in cache.
    """
    n, c = windows.shape[:2]
    counts, sizes = windows.shape[2 : 2 + spatial], windows.shape[2 + spatial :]
    still = (0,) * spatial
    first = windows[(..., *still)] if prod(sizes) else np.zeros((n, c, *counts), windows.dtype)
    is_last = _is_channels_last(first)
    kernels = w.reshape(c, several, *sizes)
    y = np.zeros((n, *counts, c, several), windows.dtype) if is_last else np.zeros((n, c, several, *counts), windows.dtype)  # fmt: skip
    rows = counts[0] if spatial else 1
    inner = prod(counts[1:]) * c * several * windows.itemsize
    for i, block in product(range(n), _blocks(rows, 4 * inner)):
        for tap in product(*map(range, sizes)):
            x = (
                windows[(i, slice(None), block, ..., *tap)]
                if spatial
                else windows[(i, slice(None), *tap)]
            )
            k = kernels[(slice(None), slice(None), *tap)]
            if is_last:
                target = y[i, block] if spatial else y[i]
                target += np.moveaxis(x, 0, -1)[..., None] * k
            else:
                target = y[i][:, :, block] if spatial else y[i]
                target += x[:, None] * k[(..., *[None] * spatial)]
    if is_last:
        return np.moveaxis(y.reshape(n, *counts, c * several), -1, 1)
    return y.reshape(n, c * several, *counts)


def _products_of_windows(windows: Array, w: Array, spatial: int) -> Array:
    """y [1, g, p..] of windows [g, c, p.., k..] and kernels [g, c, k..]: each group's sum for each place."""
    groups, counts = windows.shape[0], windows.shape[2 : 2 + spatial]
    y = np.empty((1, groups, *counts), windows.dtype)
    letters = "abcdefghijklm"[:spatial]
    for index in product(*map(range, counts)):
        x: Any = windows[(slice(None), slice(None), *index)]
        y[(0, slice(None), *index)] = np.einsum(f"zy{letters},zy{letters}->z", x, w)

    return y
