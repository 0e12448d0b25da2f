"""Payloads as plain data: what an op's fields are in a file or in a module's attributes, and back.

Source: seed 000, section 11.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from tenferro.dims import DimExpr, SymDim, parse_dim
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.program import Subprogram
from tenferro.types import DType

__all__ = ["loaded_value", "payload_of", "saved_value"]


Inside = Callable[[Any], Any]
"""A sub-program in plain form, or out of it: its constants are its file's business."""


def payload_of(op: Any, inside: Inside | None = None) -> dict[str, Any]:
    """The fields of an op by name, each as `saved_value` gives it; of what is no dataclass none.

    Raises:
        UnsupportedError: a field of a type that has no plain form.
    """
    if not is_dataclass(op):
        return {}
    name = getattr(op, "family_id", type(op).__name__)
    return {field.name: saved_value(getattr(op, field.name), name, inside) for field in fields(op)}


def saved_value(value: Any, op: str, inside: Inside | None = None) -> Any:
    """A value in JSON; what JSON has no word for is an object with one key.

    Raises:
        UnsupportedError: a type that has no plain form.

    >>> saved_value((1, None, 0.5), "Example")
    [1, None, {'float': '0x1.0000000000000p-1'}]
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, DType):
        return {"dtype": value.value}
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, complex):
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, DimExpr):
        return {"expression": str(value)}
    if isinstance(value, SymDim):
        return {"dim": str(value)}
    if isinstance(value, tuple | list):
        return [saved_value(item, op, inside) for item in value]
    if isinstance(value, Subprogram) and inside is not None:
        return {"program": inside(value)}
    raise UnsupportedError(
        f"save: {op} has a payload of type {type(value).__name__}: {value!r:.60}"
    )


def loaded_value(value: Any, inside: Inside | None = None) -> Any:
    """What `saved_value` was given; sequences are tuples.

    Raises:
        InvalidConfigError: an object of another kind.

    >>> loaded_value([1, None, {"float": "0x1p-1"}])
    (1, None, 0.5)
    """
    if isinstance(value, list | tuple):
        return tuple(loaded_value(item, inside) for item in value)
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
    if kind == "dim":
        return parse_dim(text)
    if kind == "expression":
        dim: Any = parse_dim(text)
        return dim.substitute(lambda leaf: DimExpr.input_axis(leaf.input, leaf.axis))
    raise InvalidConfigError(f"load: unknown value {kind!r}")
