"""Data-dependent extents: truncation of an axis to a size that a tensor contains, and padding to the former extent.

The extent of the result is known only when the program runs natively. XLA has no data-dependent shapes, so lowering
raises an error.
"""

from __future__ import annotations

from typing import Any

from tenferro.api.axes import normalize_axis
from tenferro.dispatch import apply_one, as_operand, spec_of
from tenferro.errors import ShapeError
from tenferro.ops.dynamic import DynamicTruncate, PadToMatch
from tenferro.types import ArrayLike

__all__ = ["dynamic_truncate", "pad_to_match"]


def dynamic_truncate(x: ArrayLike, size: ArrayLike, /, *, axis: int = -1) -> Any:
    """Keep the first `size` elements along an axis, where `size` is a tensor of rank 0.

    A float `size` is rounded to an integer, half away from zero. If it is not finite, it counts as 0. A size above the
    extent counts as the extent. The function is linear in `x`, and has no derivative with respect to `size`.

    Args:
        x: a tensor of any dtype.
        size: an integer or floating-point number.

    Raises:
        ShapeError: `size` has axes, or `x` has none. AxisError: the axis is outside the rank of `x`.
        DTypeError: `size` is bool or complex.
        NonStaticShapeError: the program is lowered to StableHLO, which has no data-dependent shapes.

    >>> dynamic_truncate([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], 2)
    array([[1., 2.],
           [4., 5.]])
    """
    x = as_operand(x)
    position = normalize_axis("dynamic_truncate", axis, spec_of(x).rank)
    return apply_one(DynamicTruncate(position), x, as_operand(size))


def pad_to_match(x: ArrayLike, reference: ArrayLike, /, *, axis: int = -1) -> Any:
    """Pad `x` with zeros at the end of an axis to the extent of `reference`.

    The function is the transpose of `dynamic_truncate`.

    Args:
        x: a tensor of any dtype.
        reference: a tensor of any dtype with the rank of `x`. Only its extent along `axis` is read.

    Raises:
        ShapeError: the ranks differ, or `x` is longer than `reference`. AxisError: the axis is outside the rank of `x`.

    >>> pad_to_match([1.0, 2.0], [0, 0, 0])
    array([1., 2., 0.])
    """
    x, reference = as_operand(x), as_operand(reference)
    if spec_of(x).rank != spec_of(reference).rank:
        raise ShapeError(
            f"pad_to_match: x and reference must have the same rank, got {spec_of(x)} and {spec_of(reference)}"
        )
    position = normalize_axis("pad_to_match", axis, spec_of(x).rank)
    return apply_one(PadToMatch(position), x, reference)
