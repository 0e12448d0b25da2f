"""Reversed and rotated matrices, and matrices from diagonals.

Source: NumPy 2.4, reference, "Rearranging elements" and "Building matrices".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.api.axes import normalize_axis
from tenferro.api.manipulation import diagonal, flip, ravel, swapaxes
from tenferro.api.promotion import convert
from tenferro.dispatch import apply_one, as_operand, spec_of
from tenferro.errors import AxisError, ShapeError
from tenferro.ops.structural import EmbedDiag, Pad
from tenferro.types import ArrayLike

__all__ = ["diag", "diagflat", "fliplr", "flipud", "rot90"]


def fliplr(m: ArrayLike) -> Any:
    """Reverse the second axis of m.

    >>> fliplr([[1, 2], [3, 4]])
    array([[2, 1],
           [4, 3]])
    """
    return flip(m, axis=1)


def flipud(m: ArrayLike) -> Any:
    """Reverse the first axis of m.

    >>> flipud([1, 2])
    array([2, 1])
    """
    return flip(m, axis=0)


def rot90(m: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Any:
    """Rotate m by 90 degrees, k times, in the plane of two axes.

    Args:
        axes: the two axes of the plane. The rotation is from the first axis towards the second.

    Raises:
        AxisError: the two axes are equal.

    >>> rot90([[1, 2], [3, 4]])
    array([[2, 4],
           [1, 3]])
    """
    x = as_operand(m)
    first, second = (normalize_axis("rot90", axis, len(x.shape)) for axis in axes)
    if first == second:
        raise AxisError(f"rot90: the axes {tuple(axes)} must differ")
    turns = k % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, axis=(first, second))
    if turns == 1:
        return swapaxes(flip(x, axis=second), first, second)
    return flip(swapaxes(x, first, second), axis=second)


def diag(v: ArrayLike, k: int = 0) -> Any:
    """Build the matrix with the vector v on diagonal k and zeros elsewhere; for a matrix v, return its diagonal k.

    Raises:
        ShapeError: v has neither one axis nor two.

    >>> diag([1, 2], 1), diag([[1, 2], [3, 4]])
    (array([[0, 1, 0],
           [0, 0, 2],
           [0, 0, 0]]), array([1, 4]))
    """
    x = as_operand(v)
    if len(x.shape) == 2:
        return diagonal(x, k)
    if len(x.shape) != 1:
        raise ShapeError(f"diag: takes a vector or a matrix, got {spec_of(x)}")
    square = apply_one(EmbedDiag(0, 1), x)
    if k == 0:
        return square
    right, down = max(k, 0), max(-k, 0)
    zero = convert(np.zeros(()), spec_of(x).dtype)
    return apply_one(Pad((down, right), (right, down), (0, 0)), square, zero)


def diagflat(v: ArrayLike, k: int = 0) -> Any:
    """Build the matrix with the elements of v, in row-major order, on diagonal k and zeros elsewhere.

    >>> diagflat([[1], [2]])
    array([[1, 0],
           [0, 2]])
    """
    return diag(ravel(v), k)
