"""Types of arguments and results of the public functions, for editors and type checkers.

`Tensor` is the common interface of traced tensors, eager tensors and NumPy arrays. An `ArrayLike` is anything that can
be converted to one of these.

Source: NumPy 2.4, `numpy.typing`; Array API standard 2024.12, "Array object"; JAX, `jax.typing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, SupportsIndex, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from tenferro.types.dtype import DType

if TYPE_CHECKING:
    from tenferro.dims import SymDim

__all__ = [
    "ArrayLike",
    "Axis",
    "DTypeLike",
    "DataclassTree",
    "Extent",
    "Index",
    "PyTree",
    "Scalar",
    "Shape",
    "Tensor",
    "UfuncOptions",
]


class Tensor(Protocol):
    """Array of elements of one dtype: a traced or eager tensor, or a NumPy array.

    Use the class in annotations: `def loss(w: tnf.Tensor) -> tnf.Tensor`.
    """

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents of the axes: numbers, and in a trace also symbols or bounds."""
        ...

    @property
    def dtype(self) -> Any:
        """The element type: a NumPy dtype for arrays, else a `tenferro.DType`.

        A NumPy dtype and a `tenferro.DType` compare equal if they denote the same element type.
        """
        ...

    @property
    def ndim(self) -> int:
        """The number of axes."""
        ...

    @property
    def size(self) -> Any:
        """The number of elements."""
        ...

    @property
    def T(self) -> Any:  # noqa: N802  # because NumPy and the Array API spell it so
        """The transposed tensor, with axes in reverse order."""
        ...

    @property
    def mT(self) -> Any:  # noqa: N802  # because the Array API spells it so
        """The tensor with the last two axes exchanged."""
        ...

    def __getitem__(self, index: Any, /) -> Any: ...
    def __add__(self, rhs: Any, /) -> Any: ...
    def __radd__(self, lhs: Any, /) -> Any: ...
    def __sub__(self, rhs: Any, /) -> Any: ...
    def __rsub__(self, lhs: Any, /) -> Any: ...
    def __mul__(self, rhs: Any, /) -> Any: ...
    def __rmul__(self, lhs: Any, /) -> Any: ...
    def __truediv__(self, rhs: Any, /) -> Any: ...
    def __rtruediv__(self, lhs: Any, /) -> Any: ...
    def __floordiv__(self, rhs: Any, /) -> Any: ...
    def __mod__(self, rhs: Any, /) -> Any: ...
    def __divmod__(self, rhs: Any, /) -> Any: ...
    def __rdivmod__(self, lhs: Any, /) -> Any: ...
    def __pow__(self, rhs: Any, /) -> Any: ...
    def __rpow__(self, lhs: Any, /) -> Any: ...
    def __matmul__(self, rhs: Any, /) -> Any: ...
    def __rmatmul__(self, lhs: Any, /) -> Any: ...
    def __neg__(self) -> Any: ...
    def __pos__(self) -> Any: ...
    def __abs__(self) -> Any: ...
    def __lt__(self, rhs: Any, /) -> Any: ...
    def __le__(self, rhs: Any, /) -> Any: ...
    def __gt__(self, rhs: Any, /) -> Any: ...
    def __ge__(self, rhs: Any, /) -> Any: ...


class DataclassTree(Protocol):
    """Any dataclass. Its objects are trees whose children are the values of their fields."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Scalar: TypeAlias = bool | int | float | complex | np.generic
"""A Python or NumPy number."""

ArrayLike: TypeAlias = "Tensor | Scalar | Sequence[ArrayLike]"
"""A tensor, a number, or a nested sequence of tensors and numbers."""

PyTree: TypeAlias = "ArrayLike | Sequence[PyTree] | Mapping[Any, PyTree] | DataclassTree | None"
"""Nested tuples, lists, dicts and registered dataclasses, with tensors and numbers as leaves."""

Extent: TypeAlias = "SupportsIndex | SymDim | str"
Shape: TypeAlias = "Extent | Sequence[Extent] | np.ndarray[Any, Any]"
"""One extent, or a sequence of extents: integers, or symbols of a trace."""

Axis: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
"""One axis, a sequence of axes, or None for all axes; negative numbers count from the end."""

Index: TypeAlias = "SupportsIndex | slice | EllipsisType | ArrayLike | tuple[Index, ...] | None"
"""An index: a number, a slice, `...`, None, a mask, an array of integers, or a tuple of such indices."""

DTypeLike: TypeAlias = npt.DTypeLike | DType
"""An element type: a `DType`, or any form that NumPy accepts as a dtype."""


class UfuncOptions(TypedDict, total=False):
    """Options of NumPy's elementwise functions that tenferro accepts only with their default values."""

    where: bool
    casting: str
    order: str | None
    dtype: DTypeLike | None
    subok: bool
    signature: None
    axes: None
    axis: None
    keepdims: bool
