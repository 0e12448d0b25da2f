"""Kernels that rearrange elements. Their results are views where strides can express them, otherwise copies."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tenferro.ops.structural import (
    BroadcastInDim,
    Concatenate,
    EmbedDiag,
    ExtractDiag,
    OptimizationBarrier,
    Pad,
    Reshape,
    Reverse,
    Slice,
    Transpose,
    Tril,
    Triu,
)

__all__ = ["ROWS"]

Tensor = torch.Tensor


def reversed_axes(x: Tensor) -> Tensor:
    """Return a view of x with its axes in reverse order."""
    return x.permute(tuple(range(x.ndim - 1, -1, -1)))


def reshape(op: Reshape, x: Tensor) -> Tensor:
    """Reshape in column-major order: reverse the axes before and after PyTorch's reshape, which is in row-major order."""
    shape = op.resolved("shape", (x.shape,))
    return reversed_axes(reversed_axes(x).reshape(shape[::-1]))


def broadcast_in_dim(op: BroadcastInDim, x: Tensor) -> Tensor:
    """Move the axes of x to the order of the output, insert axes of extent 1, and let PyTorch broadcast them."""
    shape = op.resolved("shape", (x.shape,))
    order = sorted(range(x.ndim), key=op.dims.__getitem__)
    aligned = [1] * len(shape)
    for axis in order:
        aligned[op.dims[axis]] = x.shape[axis]
    return x.permute(order).reshape(aligned).expand(shape)


def slice_(op: Slice, x: Tensor) -> Tensor:
    """Return a strided view of x."""
    starts, limits = op.resolved("starts", (x.shape,)), op.resolved("limits", (x.shape,))
    return x[tuple(map(slice, starts, limits, op.strides))]


def pad(op: Pad, x: Tensor, value: Tensor) -> Tensor:
    """Write x into a larger tensor filled with `value`; negative padding then removes elements at the edges."""
    low, high = op.resolved("low", (x.shape,)), op.resolved("high", (x.shape,))
    spread = [n + max(n - 1, 0) * gap for n, gap in zip(x.shape, op.interior, strict=True)]
    room = [max(a, 0) + n + max(b, 0) for a, n, b in zip(low, spread, high, strict=True)]
    padded = value.expand(room).clone()
    padded[window([max(a, 0) for a in low], spread, [gap + 1 for gap in op.interior])] = x
    return padded[
        tuple([slice(max(-a, 0), n - max(-b, 0)) for a, n, b in zip(low, room, high, strict=True)])
    ]


def window(starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> tuple[slice, ...]:
    """Return the slices that select `sizes` elements from `starts`, at the distances `steps`."""
    return tuple([slice(a, a + n, step) for a, n, step in zip(starts, sizes, steps, strict=True)])


def extract_diag(op: ExtractDiag, x: Tensor) -> Tensor:
    """Return the diagonal of two axes, at the position of `axis_a`; PyTorch puts it last."""
    diagonal = torch.diagonal(x, dim1=op.axis_a, dim2=op.axis_b)
    return torch.movedim(diagonal, -1, op.axis_a - (op.axis_b < op.axis_a))


def embed_diag(op: EmbedDiag, x: Tensor) -> Tensor:
    """Return zeros with x on the diagonal, written through a view of the diagonal."""
    shape = list(x.shape)
    shape.insert(op.axis_b, x.shape[op.input_axis])
    embedded = torch.zeros(shape, dtype=x.dtype)
    diagonal = torch.diagonal(embedded, dim1=op.axis_a, dim2=op.axis_b)
    diagonal.copy_(torch.movedim(x, op.input_axis, -1))
    return embedded


def within(k: int, x: Tensor) -> int:
    """Clamp the number of a diagonal to the diagonals of the matrices in x and the empty diagonals next to them."""
    reach = x.shape[-2] + x.shape[-1]
    return max(-reach, min(k, reach))


ROWS = {
    Transpose: lambda op, x: x.permute(op.perm),
    Reshape: reshape,
    BroadcastInDim: broadcast_in_dim,
    Slice: slice_,
    Pad: pad,
    Concatenate: lambda op, *tensors: torch.cat(tensors, op.axis),
    Reverse: lambda op, x: torch.flip(x, op.axes),
    ExtractDiag: extract_diag,
    EmbedDiag: embed_diag,
    Tril: lambda op, x: torch.tril(x, within(op.k, x)),
    Triu: lambda op, x: torch.triu(x, within(op.k, x)),
    OptimizationBarrier: lambda op, *tensors: tensors if op.count > 1 else tensors[0],
}
