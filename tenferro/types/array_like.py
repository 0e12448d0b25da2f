"""What the public functions take and return, as types: for editors and type checkers.

`Tensor` is what traced tensors, eager tensors and NumPy's arrays have in common; `ArrayLike` is what becomes one.

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
    """Elements of one dtype in a box: traced and eager tensors and NumPy's arrays.

    It is there for annotations: `def loss(w: tnf.Tensor) -> tnf.Tensor`.
    """

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents: numbers; in a trace also symbols, or bounds."""
        ...

    @property
    def dtype(self) -> Any:
        """Element type: NumPy's of arrays, a `tenferro.DType` of others, which compare equal."""
        ...

    @property
    def ndim(self) -> int:
        """Number of axes."""
        ...

    @property
    def size(self) -> Any:
        """Number of elements."""
        ...

    @property
    def T(self) -> Any:  # noqa: N802  # because NumPy and the Array API spell it so
        """The axes in reverse order."""
        ...

    @property
    def mT(self) -> Any:  # noqa: N802  # because the Array API spells it so
        """The last two axes exchanged."""
        ...

    def __getitem__(self, index: Any, /) -> Any: ...
    def __add__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __rsub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __rtruediv__(self, other: Any, /) -> Any: ...
    def __floordiv__(self, other: Any, /) -> Any: ...
    def __mod__(self, other: Any, /) -> Any: ...
    def __pow__(self, other: Any, /) -> Any: ...
    def __rpow__(self, other: Any, /) -> Any: ...
    def __matmul__(self, other: Any, /) -> Any: ...
    def __rmatmul__(self, other: Any, /) -> Any: ...
    def __neg__(self) -> Any: ...
    def __pos__(self) -> Any: ...
    def __abs__(self) -> Any: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...


class DataclassTree(Protocol):
    """A dataclass: a tree where it is registered."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Scalar: TypeAlias = bool | int | float | complex | np.generic
"""A number of Python or NumPy."""

ArrayLike: TypeAlias = "Tensor | Scalar | Sequence[ArrayLike]"
"""What becomes a tensor: one of them, a number, or nested sequences of these."""

PyTree: TypeAlias = "ArrayLike | Sequence[PyTree] | Mapping[Any, PyTree] | DataclassTree | None"
"""Nested tuples, lists, dicts and registered dataclasses, with tensors and numbers as leaves."""

Extent: TypeAlias = "SupportsIndex | SymDim | str"
Shape: TypeAlias = "Extent | Sequence[Extent] | np.ndarray[Any, Any]"
"""One extent, or the extents: integers, or symbols of a trace."""

Axis: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
"""One axis, several, or None for all; negative ones count from the end."""

Index: TypeAlias = "SupportsIndex | slice | EllipsisType | ArrayLike | tuple[Index, ...] | None"
"""What stands between brackets: numbers, slices, `...`, None, masks and arrays of integers, or several."""

DTypeLike: TypeAlias = npt.DTypeLike | DType
"""What names an element type: a `DType`, or whatever NumPy takes for one."""


class UfuncOptions(TypedDict, total=False):
    """What NumPy's elementwise functions take beside their operands; taken where it says what is so anyway."""

    where: bool
    casting: str
    order: str | None
    dtype: DTypeLike | None
    subok: bool
    signature: None
    axes: None
    axis: None
    keepdims: bool
