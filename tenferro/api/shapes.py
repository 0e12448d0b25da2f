"""Functions that return properties of a tensor's type, such as its shape and rank.

Source: NumPy 2.4, reference.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from tenferro.api.axes import normalize_axes
from tenferro.dims import product
from tenferro.dispatch import as_operand, spec_of
from tenferro.types import ArrayLike, Axis

__all__ = ["iscomplexobj", "isrealobj", "isscalar", "iterable", "ndim", "shape", "size"]


def shape(a: ArrayLike) -> tuple[Any, ...]:
    """Return the extents of `a`. They are numbers, and in a trace also symbolic extents.

    >>> shape([[1, 2]])
    (1, 2)
    """
    return as_operand(a).shape


def ndim(a: ArrayLike) -> int:
    """Return the number of axes of `a`.

    >>> ndim([[1, 2]])
    2
    """
    return len(as_operand(a).shape)


def size(a: ArrayLike, axis: Axis = None) -> Any:
    """Return the number of elements, or the product of the extents of the axes in `axis`.

    >>> size([[1, 2]]), size([[1, 2]], 0)
    (2, 1)
    """
    spec = spec_of(as_operand(a))
    if axis is None:
        return spec.size
    return product(spec.shape[i] for i in normalize_axes("size", axis, spec.rank))


def iscomplexobj(x: ArrayLike) -> bool:
    """Return whether the dtype is complex.

    >>> iscomplexobj([1j]), iscomplexobj(1.0)
    (True, False)
    """
    return spec_of(as_operand(x)).dtype.is_complex


def isrealobj(x: ArrayLike) -> bool:
    """Return whether the dtype is not complex.

    >>> isrealobj([1j]), isrealobj(1.0)
    (False, True)
    """
    return not iscomplexobj(x)


def isscalar(element: ArrayLike) -> bool:
    """Return whether `element` is a number, a string or a NumPy scalar.

    The result is False for arrays and tensors of any rank.

    >>> isscalar(1.0), isscalar([1.0])
    (True, False)
    """
    return isinstance(element, np.generic | numbers.Number | str | bytes)


def iterable(y: Any) -> bool:
    """Return whether y can be iterated over. Examples are a sequence and a tensor of a rank above 0.

    >>> iterable([1]), iterable(np.float64(1.0))
    (True, False)
    """
    if hasattr(y, "shape") and hasattr(y, "dtype"):
        return len(y.shape) > 0
    return np.iterable(y)
