"""Kernels of the structural family: views if strides can express the result, otherwise copies."""

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
    """Return the transpose from column-major to row-major order."""
    return x.permute(tuple(range(x.ndim - 1, -1, -1)))


def reshape(op: Reshape, x: Tensor) -> Tensor:
    """Reshape in column-major order; PyTorch's reshape keeps the row-major one."""
    shape = op.resolved("shape", (x.shape,))
    return reversed_axes(reversed_axes(x).reshape(shape[::-1]))


def broadcast_in_dim(op: BroadcastInDim, x: Tensor) -> Tensor:
    """Put x's axes in output order, with extents of 1 between them, and broadcast by PyTorch."""
    shape = op.resolved("shape", (x.shape,))
    order = sorted(range(x.ndim), key=op.dims.__getitem__)
    aligned = [1] * len(shape)
    for axis in order:
        aligned[op.dims[axis]] = x.shape[axis]
    return x.permute(order).reshape(aligned).expand(shape)


def slice_(op: Slice, x: Tensor) -> Tensor:
    """Return a strided view."""
    starts, limits = op.resolved("starts", (x.shape,)), op.resolved("limits", (x.shape,))
    return x[tuple(map(slice, starts, limits, op.strides))]


def pad(op: Pad, x: Tensor, value: Tensor) -> Tensor:
    """Write x into a larger tensor filled with the padding value, then crop negative edges."""
    low, high = op.resolved("low", (x.shape,)), op.resolved("high", (x.shape,))
    spread = [n + max(n - 1, 0) * gap for n, gap in zip(x.shape, op.interior, strict=True)]
    room = [max(a, 0) + n + max(b, 0) for a, n, b in zip(low, spread, high, strict=True)]
    padded = value.expand(room).clone()
    padded[window([max(a, 0) for a in low], spread, [gap + 1 for gap in op.interior])] = x
    return padded[
        tuple([slice(max(-a, 0), n - max(-b, 0)) for a, n, b in zip(low, room, high, strict=True)])
    ]


def window(starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> tuple[slice, ...]:
    """Return slices of these sizes."""
    return tuple([slice(a, a + n, step) for a, n, step in zip(starts, sizes, steps, strict=True)])


def extract_diag(op: ExtractDiag, x: Tensor) -> Tensor:
    """Extract the diagonal, which PyTorch puts last, and move it back to axis_a."""
    diagonal = torch.diagonal(x, dim1=op.axis_a, dim2=op.axis_b)
    return torch.movedim(diagonal, -1, op.axis_a - (op.axis_b < op.axis_a))


def embed_diag(op: EmbedDiag, x: Tensor) -> Tensor:
    """Write through a view of the diagonal of zeros."""
    shape = list(x.shape)
    shape.insert(op.axis_b, x.shape[op.input_axis])
    embedded = torch.zeros(shape, dtype=x.dtype)
    diagonal = torch.diagonal(embedded, dim1=op.axis_a, dim2=op.axis_b)
    diagonal.copy_(torch.movedim(x, op.input_axis, -1))
    return embedded


def within(k: int, x: Tensor) -> int:
    """Clamp a diagonal's number to the tensor."""
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
