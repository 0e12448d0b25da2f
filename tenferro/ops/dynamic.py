"""Ops with data-dependent extents. The executor runs them itself, without kernels."""

from __future__ import annotations

from typing import Any, ClassVar

from tenferro.dims import GuardLog, UpperBound, at_least, is_exact
from tenferro.errors import ShapeError
from tenferro.ops.op import StdTensorOp, card, normalize
from tenferro.rules.dtypes import ANY, REAL, require_dtype
from tenferro.rules.payload import as_int, distinct_axes
from tenferro.types import DType, TensorSpec

__all__ = ["CARDS", "DynamicTruncate", "PadToMatch"]


@card
class DynamicTruncate(StdTensorOp):
    """Keep the first `size` elements along an axis, where `size` is an operand.

    `size` is rounded to an integer, with halves rounded away from zero. It is 0 if it is not finite. Then it is clamped
    to

    Shapes:  x S, size [] -> S with at most the extent on `axis`
    Dtypes:  x every dtype; size every integer and float dtype
    AD:      linear in x; its transpose is PadToMatch
    Lowers:  never: the extent of the result is not known before the run
    Errors:  ShapeError unless size is a scalar; AxisError outside the rank
    Source:  docs/specification/primitives.md

    >>> DynamicTruncate(0).infer(TensorSpec.parse("f64[5,2]"), TensorSpec.parse("i64[]"))
    (f64[<=5,2],)
    """

    axis: int

    accepts: ClassVar[frozenset[DType]] = ANY
    input_count: ClassVar[Any] = 2

    def __post_init__(self) -> None:
        normalize(self, axis=as_int("DynamicTruncate", "axis", self.axis, 0))

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        x, size = inputs
        distinct_axes("DynamicTruncate", "axis", (self.axis,), x.rank)
        require_dtype("DynamicTruncate", "size", size.dtype, REAL)
        if size.rank:
            raise ShapeError(f"DynamicTruncate: size must have rank 0, got {size}")
        shape: list[Any] = list(x.shape)
        if is_exact(shape[self.axis]):
            shape[self.axis] = UpperBound(shape[self.axis])
        return (TensorSpec.of(tuple(shape), x.dtype),)


@card
class PadToMatch(StdTensorOp):
    """Pad x with zeros at the end of an axis, up to the extent of `reference` along the axis; x is never shortened.

    Shapes:  x S, reference of S's rank -> S with reference's extent on `axis`
    Dtypes:  x every dtype; reference every dtype
    AD:      linear in x; its transpose returns the first elements
    Lowers:  stablehlo.pad where both extents are exact
    Errors:  ShapeError where x is longer than the reference; AxisError outside the rank
    Source:  docs/specification/primitives.md

    >>> PadToMatch(0).infer(TensorSpec.parse("f64[<=5]"), TensorSpec.parse("i32[5]"))
    (f64[5],)
    """

    axis: int

    accepts: ClassVar[frozenset[DType]] = ANY
    input_count: ClassVar[Any] = 2

    def __post_init__(self) -> None:
        normalize(self, axis=as_int("PadToMatch", "axis", self.axis, 0))

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        x, reference = inputs
        distinct_axes("PadToMatch", "axis", (self.axis,), x.rank)
        if reference.rank != x.rank:
            raise ShapeError(
                f"PadToMatch: x and reference must have the same rank, got {x} and {reference}"
            )
        wanted, extent = reference.shape[self.axis], x.shape[self.axis]
        if is_exact(wanted) and is_exact(extent):
            decided = at_least(wanted, extent)
            if decided is False:
                raise ShapeError(
                    f"PadToMatch: axis {self.axis} of {x} is longer than that of {reference}"
                )
            if decided is None:
                guards.require(wanted, ">=", extent, f"PadToMatch: axis {self.axis}")
        shape: list[Any] = list(x.shape)
        shape[self.axis] = wanted
        return (TensorSpec.of(tuple(shape), x.dtype),)


CARDS = (DynamicTruncate, PadToMatch)
