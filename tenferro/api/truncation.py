"""Data-dependent extents: truncate an axis to a size that a tensor holds, and pad it back with zeros.

The extent of the result is known when the program runs natively. XLA has no such shapes, so lowering is an error.
"""

from __future__ import annotations

from typing import Any

from tenferro.api.axes import normalize_axis
from tenferro.door import apply_one, as_operand, spec_of
from tenferro.errors import ShapeError
from tenferro.ops.dynamic import DynamicTruncate, PadToMatch
from tenferro.types import ArrayLike

__all__ = ["dynamic_truncate", "pad_to_match"]


def dynamic_truncate(x: ArrayLike, size: ArrayLike, /, *, axis: int = -1) -> Any:
    """Keep the first `size` elements along an axis, with `size` a tensor of rank 0.

    A size that is not an integer is rounded, half away from zero; it is 0 where it is not finite, and at
    most the extent. Linear in `x`; `size` has no derivative.

    Args:
        x: every dtype.
        size: an integer or floating-point number.

    Raises:
        ShapeError: `size` has axes, `x` has none. AxisError: an axis that `x` does not have.
        DTypeError: `size` is bool or complex.
        NonStaticShapeError: on lowering to StableHLO, which has no such shapes.

    >>> dynamic_truncate([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], 2)
    array([[1., 2.],
           [4., 5.]])
    """
    x = as_operand(x)
    position = normalize_axis("dynamic_truncate", axis, spec_of(x).rank)
    return apply_one(DynamicTruncate(position), x, as_operand(size))


def pad_to_match(x: ArrayLike, reference: ArrayLike, /, *, axis: int = -1) -> Any:
    """Pad `x` with zeros at the end of an axis to the extent of `reference`.

    It is the transpose of `dynamic_truncate`.

    Args:
        x: every dtype.
        reference: a tensor of the rank of `x` and any dtype; only its extent along `axis` is read.

    Raises:
        ShapeError: the ranks differ, or `x` is longer than `reference`. AxisError: an axis that `x`
            does not have.

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
