"""Conversion of axes from NumPy's notation, where negative numbers count from the end and None means every axis."""

from __future__ import annotations

import operator
from typing import Any

from tenferro.errors import AxisError
from tenferro.types import Axis

__all__ = ["normalize_axes", "normalize_axis"]


def normalize_axis(name: str, axis: Any, rank: int) -> int:
    """Convert one axis to a number from 0 to rank - 1.

    >>> normalize_axis("sum", -1, 3)
    2

    Raises:
        AxisError: `axis` is not an integer, or is not between -rank and rank - 1.
    """
    try:
        if isinstance(axis, bool):
            raise TypeError
        number = operator.index(axis)
    except TypeError:
        raise AxisError(f"{name}: an axis must be an integer, got {axis!r}") from None
    if not -rank <= number < rank:
        raise AxisError(f"{name}: axis {number} is outside a tensor of rank {rank}")
    return number % rank


def normalize_axes(name: str, axis: Axis, rank: int) -> tuple[int, ...]:
    """Convert axes to ascending numbers from 0 to rank - 1; None means every axis.

    Raises:
        AxisError: an axis is not between -rank and rank - 1, or is named twice.
    """
    if axis is None:
        return tuple(range(rank))
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    numbers = [normalize_axis(name, entry, rank) for entry in axes]
    if len(set(numbers)) != len(numbers):
        raise AxisError(f"{name}: axis {tuple(axes)} names an axis twice")
    return tuple(sorted(numbers))
