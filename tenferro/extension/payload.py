"""Payloads as plain data: what an op's fields are in a file or in a module's attributes, and back.

Source: seed 000, section 11.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

import numpy as np

from tenferro.dims import DimExpr, SymDim, parse_dim
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.ops import StdTensorOp
from tenferro.program import Subprogram
from tenferro.types import DType

__all__ = ["loaded_value", "payload_of", "saved_value"]


Inside = Callable[[Any], Any]
"""A sub-program in plain form, or out of it: its constants are its file's business."""


def payload_of(op: Any, inside: Inside | None = None) -> dict[str, Any]:
    """The payload of an op by name, each value as `saved_value` gives it.

    Raises:
        UnsupportedError: a value that has no plain form; an extension op that does not say what its payload
            is, or that could not be made from it.
    """
    if isinstance(op, StdTensorOp):
        values = {field.name: getattr(op, field.name) for field in fields(op)}
        return {name: saved_value(value, op.name, inside) for name, value in values.items()}
    family_id, payload = op.family_id, op.payload_fields()
    if lost := [field.name for field in fields(op) if _is_lost(field)] if is_dataclass(op) else []:
        raise UnsupportedError(
            f"save: {family_id}: {', '.join(lost)} of {type(op).__name__} is not compared and has no "
            "default, so that a file could not bring the op back; give it a default"
        )
    return {name: saved_value(value, family_id, inside) for name, value in payload.items()}


def _is_lost(entry: Field[Any]) -> bool:
    """A field that the constructor wants and the payload does not have."""
    has_default = entry.default is not MISSING or entry.default_factory is not MISSING
    return entry.init and not entry.compare and not has_default


def saved_value(value: Any, op: str, inside: Inside | None = None) -> Any:
    """A value in JSON; what JSON has no word for is an object with one key.

    Raises:
        UnsupportedError: a type that has no plain form.

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
    if kind == "scalar":
        return np.frombuffer(bytes.fromhex(text[1]), DType.of(text[0]).dtype)[0]
    if kind == "dim":
        return parse_dim(text)
    if kind == "expression":
        dim: Any = parse_dim(text)
        return dim.substitute(lambda leaf: DimExpr.input_axis(leaf.input, leaf.axis))
    raise InvalidConfigError(f"load: unknown value {kind!r}")
