"""Kernels of reductions, cumulative ops and sorts. float16 and bfloat16 accumulate in float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch

from tenferro.ops.reduction import (
    ArgMax,
    ArgMin,
    CumMax,
    CumMin,
    CumProd,
    CumSum,
    ReduceAnd,
    ReduceMax,
    ReduceMin,
    ReduceOr,
    ReduceProd,
    ReduceSum,
    Sort,
    TopK,
)
from tenferro_torch.elementwise import in_float32, maximum, minimum

__all__ = ["ROWS"]

Tensor = torch.Tensor
Binary = Callable[[Tensor, Tensor], Tensor]


def reduce_sum(op: ReduceSum, x: Tensor) -> Tensor:
    """Sum over all axes of the op in one call; the result has the dtype of x."""
    if not op.axes:
        return x
    return in_float32(lambda y: torch.sum(y, op.axes, dtype=y.dtype))(x)


def reduce_prod(op: ReduceProd, x: Tensor) -> Tensor:
    """Multiply over one axis after another, from the last to the first, so that the remaining axes keep their numbers."""

    def product(y: Tensor) -> Tensor:
        return reduce(lambda z, axis: torch.prod(z, axis, dtype=z.dtype), falling(op.axes), y)

    return in_float32(product)(x)


def falling(axes: tuple[int, ...]) -> list[int]:
    """Return the axes in descending order."""
    return sorted(axes, reverse=True)


def extreme(dtype: torch.dtype, largest: bool) -> Any:
    """Return the largest or smallest value of a dtype; for floats, an infinity."""
    if dtype is torch.bool:
        return largest
    if dtype.is_floating_point:
        return torch.inf if largest else -torch.inf
    info = torch.iinfo(dtype)
    return info.max if largest else info.min


def all_bits(dtype: torch.dtype) -> Any:
    """Return the integer or bool in which every bit is set."""
    return -1 if dtype.is_signed and dtype is not torch.bool else extreme(dtype, largest=True)


def folded(combine: Binary, start: Callable[[torch.dtype], Any]) -> Callable[..., Tensor]:
    """Return a reduction that combines the two halves of an axis until one element is left.

    `start` is the empty result.
    """

    def kernel(op: Any, x: Tensor) -> Tensor:
        for axis in falling(op.axes):
            if not x.shape[axis]:
                shape = [n for i, n in enumerate(x.shape) if i != axis]
                x = torch.full(shape, start(x.dtype), dtype=x.dtype)
                continue
            while x.shape[axis] > 1:
                half = x.shape[axis] // 2
                left, right, rest = x.split([half, half, x.shape[axis] - 2 * half], axis)
                x = torch.cat([combine(left, right), rest], axis)
            x = x.select(axis, 0)
        return x

    return kernel


def cumulative(function: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """Return a kernel that accumulates along an axis.

    For the reverse direction, it reverses x before and the result after.
    """

    def kernel(op: Any, x: Tensor) -> Tensor:
        def accumulated(y: Tensor) -> Tensor:
            if op.reverse:
                return torch.flip(function(torch.flip(y, (op.axis,)), op.axis), (op.axis,))
            return function(y, op.axis)

        return in_float32(accumulated)(x)

    return kernel


def comparable(x: Tensor) -> Tensor:
    """Convert bools to integers, because PyTorch does not sort bools."""
    return x.to(torch.uint8) if x.dtype is torch.bool else x


def sort(op: Sort, *operands: Tensor) -> Any:
    """Sort the first operand stably, and reorder all operands in the same way."""
    order = torch.sort(comparable(operands[0]), dim=op.axis, stable=True).indices
    taken = tuple([torch.take_along_dim(x, order, op.axis) for x in operands])
    return taken if op.count > 1 else taken[0]


def top_k(op: TopK, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the k largest elements and their indices; equal elements have increasing indices."""
    order = torch.sort(comparable(x), dim=-1, descending=True, stable=True).indices[..., : op.k]
    return torch.take_along_dim(x, order, -1), order


ROWS = {
    ReduceSum: reduce_sum,
    ReduceProd: reduce_prod,
    ReduceMax: folded(maximum, lambda dtype: extreme(dtype, largest=False)),
    ReduceMin: folded(minimum, lambda dtype: extreme(dtype, largest=True)),
    ReduceAnd: folded(torch.bitwise_and, all_bits),
    ReduceOr: folded(torch.bitwise_or, lambda dtype: 0),
    ArgMax: lambda op, x: torch.argmax(comparable(x), op.axis),
    ArgMin: lambda op, x: torch.argmin(comparable(x), op.axis),
    CumSum: cumulative(lambda x, axis: torch.cumsum(x, axis, dtype=x.dtype)),
    CumProd: cumulative(lambda x, axis: torch.cumprod(x, axis, dtype=x.dtype)),
    CumMax: cumulative(lambda x, axis: torch.cummax(x, axis).values),
    CumMin: cumulative(lambda x, axis: torch.cummin(x, axis).values),
    Sort: sort,
    TopK: top_k,
}
