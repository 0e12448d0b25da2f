"""Normal forms of payloads, so that ops with the same meaning compare equal, and other values raise an error."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable
from dataclasses import fields
from enum import Enum
from typing import Any

import numpy as np

from tenferro.dims import DimExpr, SymDim, Unknown, UpperBound
from tenferro.errors import (
    AxisError,
    ConcretizationError,
    InvalidConfigError,
    NonStaticShapeError,
    ShapeError,
)

__all__ = [
    "NotWritableError",
    "as_bool",
    "as_choice",
    "as_dim",
    "as_dims",
    "as_edges",
    "as_int",
    "as_ints",
    "as_tuple",
    "distinct_axes",
    "normal_form",
    "written_form",
]

MOST_ENTRIES = 1 << 16
"""Maximum length of a sequence in a payload. Most sequences have one entry per axis, so longer ones are errors."""


def as_int(
    op: str, field: str, value: Any, minimum: int | None = None, maximum: int | None = None
) -> int:
    """Convert a value to an int and check that it is in [`minimum`, `maximum`]. Bools and floats are errors.

    >>> as_int("Iota", "axis", True)
    Traceback (most recent call last):
        ...
    tenferro.errors.InvalidConfigError: Iota: axis must be an integer, got True
    """
    if not isinstance(value, bool):
        try:
            number = operator.index(value)
        except (TypeError, ConcretizationError):
            number = None
        if number is not None:
            if minimum is not None and number < minimum:
                raise InvalidConfigError(f"{op}: {field} must be at least {minimum}, got {number}")
            if maximum is not None and number > maximum:
                raise InvalidConfigError(f"{op}: {field} must be at most {maximum}, got {number}")
            return int(number)
    raise InvalidConfigError(f"{op}: {field} must be an integer, got {value!r}")


def as_ints(op: str, field: str, values: Any, minimum: int | None = None) -> tuple[int, ...]:
    """Convert a sequence of integers to a tuple of ints; each entry is checked as by `as_int`."""
    return tuple(as_int(op, field, value, minimum) for value in as_tuple(op, field, values))


def as_edges(op: str, field: str, values: Any) -> tuple[int | SymDim, ...]:
    """Convert a sequence of padding widths or limits to a tuple.

    An entry is an int, which may be negative, or a `SymDim`.
    """
    return tuple(
        value if isinstance(value, SymDim) else as_int(op, field, value)
        for value in as_tuple(op, field, values)
    )


def as_bool(op: str, field: str, value: Any) -> bool:
    """Convert a Python or NumPy bool to a Python bool. Other values, such as 0 and 1, are errors."""
    if isinstance(value, bool):
        return value
    if type(value).__name__ in ("bool_", "bool"):  # NumPy's scalar
        return bool(value)
    raise InvalidConfigError(f"{op}: {field} must be True or False, got {value!r}")


def as_choice(op: str, field: str, value: Any, choices: tuple[Any, ...]) -> Any:
    """Check that a value is one of `choices`, and return it.

    >>> as_choice("Compare", "direction", "MORE", ("LT", "GT"))
    Traceback (most recent call last):
        ...
    tenferro.errors.InvalidConfigError: Compare: direction must be one of ('LT', 'GT'), got 'MORE'
    """
    if value not in choices:
        raise InvalidConfigError(f"{op}: {field} must be one of {choices}, got {value!r:.80}")
    return value


def as_dim(op: str, field: str, value: Any) -> int | SymDim | DimExpr:
    """Check that a value is an exact extent: a nonnegative number, a `SymDim`, or a `DimExpr`. Return the value.

    Raises:
        NonStaticShapeError: the extent depends on data.
        InvalidConfigError: the value is not an extent.
    """
    if isinstance(value, SymDim | DimExpr):
        return value
    if isinstance(value, UpperBound | Unknown):
        raise NonStaticShapeError(
            f"{op}: {field}: the data decide the extent {value}, and only exact ones may be a parameter; "
            "tnf.pad_to_match restores one"
        )
    return as_int(op, field, value, 0)


def as_dims(op: str, field: str, values: Any) -> tuple[int | SymDim | DimExpr, ...]:
    """Convert a sequence of extents to a tuple; see `as_dim`."""
    return tuple(as_dim(op, field, value) for value in as_tuple(op, field, values))


def distinct_axes(op: str, field: str, axes: Iterable[int], rank: int | None = None) -> None:
    """Check that no axis occurs twice. If `rank` is not None, also check that all axes are in [0, rank).

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


def as_tuple(op: str, field: str, values: Any) -> tuple[Any, ...]:
    """Convert a sequence to a tuple.

    Raises:
        ShapeError: `values` is not a sequence.
        InvalidConfigError: there are more than `MOST_ENTRIES` entries, as a damaged file may have. Such a sequence
            would take long to check, because multiplying extents takes time that grows with the square of their number.
    """
    try:
        entries = tuple(values)
    except TypeError:
        raise ShapeError(f"{op}: {field} must be a sequence, got {values!r}") from None
    if len(entries) > MOST_ENTRIES:
        raise InvalidConfigError(
            f"{op}: {field} has {len(entries)} entries, at most {MOST_ENTRIES}"
        )
    return entries


def normal_form(value: Any) -> Any:
    """Return an object for comparison: two payload values mean the same if and only if these objects are equal.

    Objects differ if types or signs of zeros differ, at any depth. A NaN equals itself. Dataclasses are compared by
    their fields.

    >>> normal_form((1, 0.0)) == normal_form((True, -0.0)), (1, 0.0) == (True, -0.0)
    (False, True)

    Raises:
        TypeError: the value has no hash, such as a list, a dict or an array.
    """
    kind = type(value)
    if isinstance(value, float):
        return (kind, float.__repr__(value))
    if isinstance(value, complex):
        return (kind, float.__repr__(value.real), float.__repr__(value.imag))
    if isinstance(value, np.generic):
        return (kind, value.dtype.str, value.tobytes())
    if isinstance(value, tuple):
        return (kind, *map(normal_form, value))
    if isinstance(value, frozenset):
        return (kind, frozenset(map(normal_form, value)))
    hash(value)  # raises TypeError for values that are not hashable
    if _is_record(value):
        return (kind, *[normal_form(getattr(value, name)) for name in _compared(value)])
    return (kind, value)


class NotWritableError(Exception):
    """Error for a payload value that cannot be written as a text which is the same in every process."""


def written_form(value: Any) -> str:
    """Write a payload value as a text that is equal in every process.

    Equal texts mean equal normal forms, and vice versa.

    >>> written_form((1, 0.0, frozenset({"b", "a"}))) == written_form((1, 0.0, frozenset({"a", "b"})))
    True

    Raises:
        NotWritableError: the value contains an object that is neither a plain value nor an importable type or function.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str, bytes):
        return repr(value)
    if isinstance(value, SymDim | DimExpr):
        return f"{kind.__name__}({value})"
    if isinstance(value, np.dtype):
        return f"dtype({value.str}, {value.name})"
    if isinstance(value, Enum):
        return f"{_importable(kind)}({value.name})"
    if isinstance(value, float | complex | np.generic):
        return f"{_importable(kind)}{normal_form(value)[1:]}"
    if isinstance(value, tuple):
        return f"{_importable(kind)}({', '.join(map(written_form, value))})"
    if isinstance(value, frozenset):
        return f"{_importable(kind)}({', '.join(sorted(map(written_form, value)))})"
    if _is_record(value):
        entries = [f"{name}={written_form(getattr(value, name))}" for name in _compared(value)]
        return f"{_importable(kind)}({', '.join(entries)})"
    if isinstance(digest := getattr(value, "fingerprint", None), str):
        return f"{_importable(kind)}({digest})"
    return _importable(value)


def _is_record(value: Any) -> bool:
    """Return whether a value is a dataclass that is compared by its fields. Ops are also compared in this way."""
    cls = type(value)
    parameters = getattr(cls, "__dataclass_params__", None)
    is_compared = parameters is not None and (parameters.eq or hasattr(cls, "payload_of"))
    return is_compared and not isinstance(value, Enum)


def _compared(record: Any) -> list[str]:
    return [field.name for field in fields(record) if field.compare]


def _importable(value: Any) -> str:
    """Return the dotted name by which every process can import a type or function.

    Raises:
        NotWritableError: the type or function cannot be imported by name.
    """
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(module, str) and isinstance(name, str):
        try:
            if operator.attrgetter(name)(sys.modules[module]) is value:
                return f"{module}.{name}"
        except (AttributeError, KeyError):
            pass  # because the object is local to a function
    raise NotWritableError(f"{value!r:.60}")
