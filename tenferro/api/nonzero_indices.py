"""`nonzero_indices`: `numpy.nonzero` of arrays and eager tensors, which `where` and the set functions use."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.dispatch import as_constant_of, as_operand, elements, spec_of
from tenferro.errors import ShapeError
from tenferro.types import ArrayLike

__all__ = ["nonzero_indices"]


def nonzero_indices(a: ArrayLike) -> tuple[Any, ...]:
    """Return the indices of `a`'s nonzero elements, one int64 vector for each axis, in row-major order.

    Raises:
        ShapeError: `a` has rank 0.
        DataDependentShapeError: `a` is a traced tensor.

    >>> nonzero_indices(np.array([[0, 3], [5, 0]]))
    (array([0, 1]), array([1, 0]))
    """
    x = as_operand(a)
    if not x.shape:
        raise ShapeError(f"nonzero: {spec_of(x)} has no axes")
    indices = np.nonzero(elements(x, "nonzero", "give size=, or use where(x != 0, y, z)"))
    return tuple([as_constant_of(x, each) for each in indices])
