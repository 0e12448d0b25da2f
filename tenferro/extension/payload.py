"""Conversion of payloads, which are the fields of an op, to and from plain data for files and module attributes.

Source: docs/specification/files.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

import numpy as np

from tenferro.dims import DimExpr, SymDim, parse_dim
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.ops import STD_OPS, StdTensorOp
from tenferro.program import Subprogram
from tenferro.types import DType

__all__ = ["CARDS", "loaded_value", "payload_classes", "payload_of", "saved_value"]


CARDS = {card.__name__: card for card in STD_OPS}
NO_CLASSES: Mapping[str, type[Any]] = MappingProxyType({})

Inside = Callable[[Any], Any]
"""Function that converts a sub-program to plain data, or back. The file format decides how constants are stored."""


def payload_of(op: Any, inside: Inside | None = None) -> dict[str, Any]:
    """Return the payload of an op: a dict of the values of its fields, in the form that `saved_value` returns.

    Raises:
        UnsupportedError: a value cannot be written as plain data, an extension op declares no payload, or the op
            cannot be created from its payload.
    """
    if isinstance(op, StdTensorOp):
        values = {field.name: getattr(op, field.name) for field in fields(op)}
        return {name: saved_value(value, op.name, inside) for name, value in values.items()}
    family_id, payload = op.family_id, op.payload_fields()
    if is_dataclass(op):
        _require_nothing_lost(family_id, op)
    classes = payload_classes(type(op))
    return {name: saved_value(value, family_id, inside, classes) for name, value in payload.items()}


def payload_classes(owner: Any) -> dict[str, type[Any]]:
    """Return the enums and dataclasses that a payload may contain, by name.

    These are the classes in the annotations of the op's class, at any depth, and the classes in the attribute
    `payload_classes` of the op's class or of a factory. A file names classes, and loading creates only the classes that
    this function returns.
    """
    classes: dict[str, type[Any]] = {}
    remaining: list[Any] = [owner, *getattr(owner, "payload_classes", ())]
    while remaining:
        hint = remaining.pop()
        remaining += get_args(hint)
        if not isinstance(hint, type) or hint in classes.values():
            continue
        if (issubclass(hint, Enum) or is_dataclass(hint)) and hint is not owner:
            classes.setdefault(hint.__qualname__, hint)
        if is_dataclass(hint):
            remaining += _hints(hint).values()
    return classes


def _hints(cls: type[Any]) -> dict[str, Any]:
    """Return the types in the annotations of a class.

    The result is empty if an annotation names a class that is local to a function.
    """
    try:
        return get_type_hints(cls)
    except NameError:
        return {}


def _require_nothing_lost(where: str, record: Any) -> None:
    """Check that a dataclass can be created from its payload.

    Raises:
        UnsupportedError: the constructor requires a field that the payload does not contain. The message names the
            field.
    """
    if lost := [field.name for field in fields(record) if _is_lost(field)]:
        raise UnsupportedError(
            f"save: {where}: {', '.join(lost)} of {type(record).__name__} is not compared and has no "
            "default, so the op could not be restored from a file; give it a default"
        )


def _is_lost(entry: Field[Any]) -> bool:
    """Return whether the constructor requires a field that the payload omits, because the field is not compared."""
    has_default = entry.default is not MISSING or entry.default_factory is not MISSING
    return entry.init and not entry.compare and not has_default


def saved_value(
    value: Any, op: str, inside: Inside | None = None, classes: Mapping[str, type[Any]] = NO_CLASSES
) -> Any:
    """Convert a value to JSON. A value whose type JSON does not have becomes an object with one key.

    Args:
        classes: the enums and dataclasses that loading can create, by name; see `payload_classes`.

    Raises:
        UnsupportedError: a value's type cannot be written as JSON.

    >>> saved_value((1, None, 0.5), "Example")
    [1, None, {'float': '0x1.0000000000000p-1'}]
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if isinstance(value, DType):
        return {"dtype": value.value}
    if kind is float:
        return {"float": value.hex()}
    if kind is complex:
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, np.generic):
        return {"scalar": [DType.of(value.dtype).value, value.tobytes().hex()]}
    if isinstance(value, DimExpr):
        return {"expression": str(value)}
    if isinstance(value, SymDim):
        return {"dim": str(value)}
    if kind is tuple:
        return [saved_value(item, op, inside, classes) for item in value]
    if isinstance(value, np.dtype):
        return {"numpy_dtype": DType.of(value).value}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is frozenset:
        items = [saved_value(item, op, inside, classes) for item in value]
        return {"set": sorted(items, key=json.dumps)}
    if isinstance(value, Subprogram) and inside is not None:
        return {"program": inside(value)}
    if CARDS.get(kind.__name__) is kind:
        entries = {field.name: getattr(value, field.name) for field in fields(value)}
        return {"op": [kind.__name__, _saved_entries(entries, op, inside, classes)]}
    if isinstance(value, Enum) or is_dataclass(value):
        return _saved_record(value, op, inside, classes)
    raise UnsupportedError(
        f"save: {op} has a payload of type {type(value).__name__}: {value!r:.60}"
    )


def _saved_entries(
    entries: Mapping[str, Any], op: str, inside: Inside | None, classes: Mapping[str, type[Any]]
) -> dict[str, Any]:
    return {name: saved_value(value, op, inside, classes) for name, value in entries.items()}


def _saved_record(
    value: Any, op: str, inside: Inside | None, classes: Mapping[str, type[Any]]
) -> Any:
    """Convert a member of an enum, or the fields of a dataclass, to JSON.

    Raises:
        UnsupportedError: the class is not in `classes`, so it could not be found when the file is read.
    """
    cls = type(value)
    if classes.get(cls.__qualname__) is not cls:
        raise UnsupportedError(
            f"save: {op} has a payload of type {cls.__name__}, which its annotations do not name, so it "
            f"could not be restored from a file; annotate the field, or list it: payload_classes = ({cls.__name__},)"
        )
    if isinstance(value, Enum):
        # A combination of flags is not a member of the enum, so it has a number but no name.
        content = value.name if value.name in cls.__members__ else value.value
        if not isinstance(content, str | int):
            raise UnsupportedError(f"save: {op} has a payload without a name: {value!r:.60}")
        return {"enum": [cls.__qualname__, content]}
    _require_nothing_lost(op, value)
    names = [field.name for field in fields(value) if field.compare and field.init]
    entries = {name: getattr(value, name) for name in names}
    return {"record": [cls.__qualname__, _saved_entries(entries, op, inside, classes)]}


def loaded_value(
    value: Any, inside: Inside | None = None, classes: Mapping[str, type[Any]] = NO_CLASSES
) -> Any:
    """Convert JSON to the value that `saved_value` converted. Sequences become tuples.

    Args:
        classes: the enums and dataclasses that may be created, by name; see `payload_classes`.

    Raises:
        InvalidConfigError: an object has an unknown key, or names a class that may not be created.

    >>> loaded_value([1, None, {"float": "0x1p-1"}])
    (1, None, 0.5)
    """
    if isinstance(value, list | tuple):
        return tuple(loaded_value(item, inside, classes) for item in value)
    if not isinstance(value, dict):
        return value
    ((kind, text),) = value.items()
    if kind == "program" and inside is not None:
        return inside(text)
    if kind == "dtype":
        return DType.of(text)
    if kind == "float":
        return float.fromhex(text)
    if kind == "complex":
        return complex(float.fromhex(text[0]), float.fromhex(text[1]))
    if kind == "scalar":
        return np.frombuffer(bytes.fromhex(text[1]), DType.of(text[0]).dtype)[0]
    if kind == "numpy_dtype":
        return DType.of(text).dtype
    if kind == "bytes":
        return bytes.fromhex(text)
    if kind == "set":
        return frozenset([loaded_value(item, inside, classes) for item in text])
    if kind in ("enum", "record", "op"):
        return _loaded_record(kind, text, inside, classes)
    if kind == "dim":
        return parse_dim(text)
    if kind == "expression":
        dim: Any = parse_dim(text)
        return dim.substitute(lambda leaf: DimExpr.input_axis(leaf.input, leaf.axis))
    raise InvalidConfigError(f"load: unknown value {kind!r}")


def _loaded_record(
    kind: str, text: Any, inside: Inside | None, classes: Mapping[str, type[Any]]
) -> Any:
    name, content = text
    cls: Any = (CARDS if kind == "op" else classes).get(name)
    if cls is None or (kind == "enum") is not issubclass(cls, Enum):
        raise InvalidConfigError(f"load: {name!r:.60} is no {kind} that the op's payload may hold")
    if kind == "enum":
        try:
            return cls[content] if isinstance(content, str) else cls(content)
        except (KeyError, ValueError):
            raise InvalidConfigError(f"load: {name} has no member {content!r:.60}") from None
    entries = {str(key): loaded_value(value, inside, classes) for key, value in content.items()}
    if unknown := entries.keys() - {field.name for field in fields(cls)}:
        raise InvalidConfigError(f"load: {name} has no {sorted(unknown)}")
    return cls(**entries)
