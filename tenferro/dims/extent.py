"""Kinds of extents: exact, bounded from above, or unknown.

In a shape, an exact extent is written as the number or `SymDim` itself. `UpperBound` and `UNKNOWN` stand for
data-dependent extents. Arithmetic returns an upper bound if it can, and otherwise `UNKNOWN`, so that every shape rule
has a result. No function converts one kind of extent to another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tenferro.dims.polynomial import Polynomial, dim_max, dim_min
from tenferro.dims.symdim import Dim, SymDim

__all__ = [
    "UNKNOWN",
    "Exact",
    "Extent",
    "ShapeExtent",
    "Unknown",
    "UpperBound",
    "extent_of",
    "is_exact",
]


@dataclass(frozen=True, slots=True)
class Exact:
    """Extent that equals `dim`."""

    dim: Dim

    def __str__(self) -> str:
        return str(self.dim)


@dataclass(frozen=True, slots=True)
class UpperBound:
    """Data-dependent extent of at most `dim`.

    >>> UpperBound(5) + 2, UpperBound(5) * UpperBound(2), UpperBound(5) - UpperBound(2)
    (<=7, <=10, <=5)
    """

    dim: Dim

    def __add__(self, rhs: Any) -> Extent:
        return UNKNOWN if rhs is UNKNOWN else UpperBound(self.dim + _bound(rhs))

    __radd__ = __add__

    def __sub__(self, rhs: Any) -> Extent:
        if rhs is UNKNOWN:
            return UNKNOWN
        return UpperBound(self.dim if isinstance(rhs, UpperBound) else self.dim - rhs)

    def __rsub__(self, lhs: Any) -> Extent:
        return UpperBound(lhs)

    def __mul__(self, rhs: Any) -> Extent:
        return UNKNOWN if rhs is UNKNOWN else UpperBound(self.dim * _bound(rhs))

    __rmul__ = __mul__

    def __floordiv__(self, rhs: Any) -> Extent:
        return UpperBound(self.dim // rhs) if isinstance(rhs, int | SymDim) else UNKNOWN

    def __rfloordiv__(self, lhs: Any) -> Extent:
        return UNKNOWN

    def extremum(self, kind: str, other: Any) -> Extent:
        """Return the smaller ("min") or the larger ("max") of this extent and `other`.

        >>> UpperBound(5).extremum("min", 3), UpperBound(5).extremum("max", UNKNOWN)
        (<=3, ?)
        """
        if other is UNKNOWN:
            return self if kind == "min" else UNKNOWN
        bound = dim_min if kind == "min" else dim_max
        return UpperBound(bound(self.dim, _bound(other)))

    def __str__(self) -> str:
        return f"<={self.dim}"

    def __repr__(self) -> str:
        return f"<={self.dim}"


class Unknown:
    """Extent about which nothing is known. `UNKNOWN` is its only instance, and arithmetic with it returns `UNKNOWN`."""

    __slots__ = ()

    def _absorb(self, operand: Any) -> Unknown:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _absorb
    __floordiv__ = __rfloordiv__ = _absorb

    def extremum(self, kind: str, other: Any) -> Extent:
        """Return the smaller ("min") or the larger ("max") of this extent and `other`."""
        if kind == "max" or other is UNKNOWN:
            return UNKNOWN
        return UpperBound(_bound(other))

    def __repr__(self) -> str:
        return "?"

    __str__ = __repr__


UNKNOWN: Final = Unknown()

ShapeExtent = Exact | UpperBound | Unknown
Extent = int | SymDim | UpperBound | Unknown
"""An entry of a tensor's shape."""


def extent_of(entry: Extent) -> ShapeExtent:
    """Return an entry of a shape as an object of one of the three classes of extents.

    >>> extent_of(3), extent_of(UpperBound(3))
    (Exact(dim=3), <=3)
    """
    return entry if isinstance(entry, UpperBound | Unknown) else Exact(entry)


def is_exact(entry: object) -> bool:
    """Return whether an entry of a shape is exact. Only exact extents may occur in the payload of an op."""
    return isinstance(entry, int | Polynomial)


def _bound(entry: Any) -> Any:
    return entry.dim if isinstance(entry, UpperBound) else entry
