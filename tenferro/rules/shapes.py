"""Shape rules that several ops share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.dims import Extent, GuardLog
from tenferro.errors import DTypeError, ShapeError
from tenferro.types import TensorSpec

__all__ = ["same_extent", "same_shape", "same_type", "without_axes"]


def same_type(op: str, inputs: Sequence[TensorSpec], guards: GuardLog) -> TensorSpec:
    """Return the type of all operands, which must be equal, because ops neither broadcast nor promote.

    >>> same_type("Add", [TensorSpec.parse("f64[3]"), TensorSpec.parse("f64[2,3]")], GuardLog())
    Traceback (most recent call last):
        ...
    tenferro.errors.ShapeError: Add: x0 and x1 must have the same shape, got f64[3] and f64[2,3]; \
add BroadcastInDim(shape=(2, 3), dims=(1,)) to x0
    """
    first = inputs[0]
    for index, spec in enumerate(inputs[1:], 1):
        if spec is first or spec == first:
            continue
        if spec.dtype is not first.dtype:
            raise DTypeError(
                f"{op}: x0 and x{index} must have the same dtype, got {first} and {spec}; "
                f"add Convert to one of them"
            )
        first = TensorSpec.of(
            same_shape(op, ("x0", first), (f"x{index}", spec), guards), first.dtype
        )
    return first


def same_shape(
    op: str, lhs: tuple[str, TensorSpec], rhs: tuple[str, TensorSpec], guards: GuardLog
) -> tuple[Any, ...]:
    """Return the shape of two operands, which must be equal.

    Symbolic extents that may differ are compared by guards.
    """
    (lhs_role, x), (rhs_role, y) = lhs, rhs
    if x.shape == y.shape:
        return x.shape
    met = [
        guards.meet(a, b, f"{op}: axis {axis} of {lhs_role} and {rhs_role}")
        for axis, (a, b) in enumerate(zip(x.shape, y.shape, strict=False))
    ]
    if x.rank != y.rank or None in met:
        raise ShapeError(
            f"{op}: {lhs_role} and {rhs_role} must have the same shape, got {x} and {y}"
            + _broadcast_hint(lhs, rhs)
        )
    return tuple(met)


def same_extent(op: str, what: str, lhs: Extent, rhs: Extent, guards: GuardLog) -> Any:
    """Return the extent of two axes, which must be equal. `what` names the axes in the error message."""
    met = guards.meet(lhs, rhs, f"{op}: {what}")
    if met is None:
        raise ShapeError(f"{op}: {what} must agree, got {lhs} and {rhs}")
    return met


def without_axes(shape: Sequence[Any], axes: Sequence[int]) -> tuple[Any, ...]:
    """Return the shape without the extents of `axes`."""
    dropped = set(axes)
    return tuple(extent for axis, extent in enumerate(shape) if axis not in dropped)


def _broadcast_hint(lhs: tuple[str, TensorSpec], rhs: tuple[str, TensorSpec]) -> str:
    """Return a hint to add a BroadcastInDim, if the last extents of the larger shape are the smaller shape; else ""."""
    small, large = (lhs, rhs) if lhs[1].rank < rhs[1].rank else (rhs, lhs)
    offset = large[1].rank - small[1].rank
    if not offset or large[1].shape[offset:] != small[1].shape:
        return ""
    dims = tuple(range(offset, large[1].rank))
    return f"; add BroadcastInDim(shape={large[1].shape}, dims={dims}) to {small[0]}"
