"""Payloads in one normal form, so that equal ops are equal and `True` never passes for 1."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from tenferro.dims import DimExpr, SymDim
from tenferro.errors import AxisError, ConcretizationError, InvalidConfigError, ShapeError

__all__ = ["as_bool", "as_dim", "as_dims", "as_edges", "as_int", "as_ints", "distinct_axes"]


def as_int(op: str, field: str, value: Any, minimum: int | None = None) -> int:
    """An exact int, at least `minimum`; bools and floats are refused.

    >>> as_int("Iota", "axis", True)
    Traceback (most recent call last):
        ...
    tenferro.errors.InvalidConfigError: Iota: axis is an integer, got True
    """
    if not isinstance(value, bool):
        try:
            number = operator.index(value)
        except (TypeError, ConcretizationError):
            number = None
        if number is not None:
            if minimum is not None and number < minimum:
                raise InvalidConfigError(f"{op}: {field} is at least {minimum}, got {number}")
            return int(number)
    raise InvalidConfigError(f"{op}: {field} is an integer, got {value!r}")


def as_ints(op: str, field: str, values: Any, minimum: int | None = None) -> tuple[int, ...]:
    """A tuple of exact ints."""
    return tuple(as_int(op, field, value, minimum) for value in _iterate(op, field, values))


def as_edges(op: str, field: str, values: Any) -> tuple[int | SymDim, ...]:
    """A tuple of distances, which may be negative: numbers or `SymDim`s."""
    return tuple(
        value if isinstance(value, SymDim) else as_int(op, field, value)
        for value in _iterate(op, field, values)
    )


def as_bool(op: str, field: str, value: Any) -> bool:
    """An exact bool; 0 and 1 are refused."""
    if isinstance(value, bool):
        return value
    if type(value).__name__ in ("bool_", "bool"):  # NumPy's scalar
        return bool(value)
    raise InvalidConfigError(f"{op}: {field} is True or False, got {value!r}")


def as_dim(op: str, field: str, value: Any) -> int | SymDim | DimExpr:
    """An extent: a number at least 0, a `SymDim`, or a `DimExpr`."""
    if isinstance(value, SymDim | DimExpr):
        return value
    return as_int(op, field, value, 0)


def as_dims(op: str, field: str, values: Any) -> tuple[int | SymDim | DimExpr, ...]:
    """A tuple of extents."""
    return tuple(as_dim(op, field, value) for value in _iterate(op, field, values))


def distinct_axes(op: str, field: str, axes: Iterable[int], rank: int | None = None) -> None:
    """Refuse an axis named twice, negative, or outside the rank.

    >>> distinct_axes("ReduceSum", "axes", (0, 2), 2)
    Traceback (most recent call last):
        ...
    tenferro.errors.AxisError: ReduceSum: axes (0, 2) must lie in [0, 2)
    """
    axes = tuple(axes)
    if len(set(axes)) != len(axes):
        raise AxisError(f"{op}: {field} {axes} name an axis twice")
    if rank is not None and not all(0 <= axis < rank for axis in axes):
        raise AxisError(f"{op}: {field} {axes} must lie in [0, {rank})")


def _iterate(op: str, field: str, values: Any) -> Iterable[Any]:
    try:
        return tuple(values)
    except TypeError:
        raise ShapeError(f"{op}: {field} is a sequence, got {values!r}") from None
