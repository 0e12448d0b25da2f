"""Readers of composites, and of custom calls that name an extension family.

tenferro's lowering writes an extension op as a composite, with the family id and the payload as attributes. Such a
composite is read as the extension op again. Other packages register readers for composites of other names with
`register_composite_reader`. For a composite without a reader its decomposition is read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lowering.module_tree import Operation
from lowering.read.reader import Reader
from tenferro.errors import (
    DuplicateFamilyError,
    InvalidConfigError,
    TenferroError,
    UnsupportedError,
)
from tenferro.extension import ExtensionOp, check_family_id, lookup_extension_factory
from tenferro.extension.payload import loaded_value, payload_classes
from tenferro.ops import StdTensorOp
from tenferro.ops.extension import Extension
from tenferro.types import TensorSpec

__all__ = ["composite", "rebound", "register_composite_reader"]

CompositeReader = Callable[
    [Mapping[str, Any], Sequence[TensorSpec], Sequence[TensorSpec]],
    "StdTensorOp | ExtensionOp | None",
]
_READERS: dict[str, CompositeReader] = {}
_LOCK = threading.Lock()


def register_composite_reader(name: str, reader: CompositeReader, *, replace: bool = False) -> None:
    """Register a function that converts composites of a name, or of a family id, to one op.

    Args:
        name: the composite's name in the text, such as "odml.rms_norm", or a family id.
        reader: a function of the composite's attributes, the types of its operands, and the types of its results. It
            returns a standard or extension op, or None; for None the decomposition is read.
        replace: whether the reader may replace a registered reader.

    Raises:
        DuplicateFamilyError: the name already has a reader, and `replace` is not set.
        InvalidConfigError: the reader is not a function.

    >>> from tenferro.ops.analytic import Tanh
    >>> register_composite_reader("example.squash", lambda attributes, given, made: Tanh())
    """
    if not callable(reader):
        raise InvalidConfigError(
            f"register_composite_reader: reader must be a function, got {reader!r:.60}"
        )
    with _LOCK:
        if name in _READERS and not replace:
            raise DuplicateFamilyError(f"composites named {name!r} already have a reader")
        _READERS[name] = reader


def composite(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read a composite as the op that its reader returns, or else read its decomposition."""
    a = operation.attributes
    if "." not in a["name"].strip("."):
        raise InvalidConfigError(
            f"a composite's name must have a dot between words, got {a['name']!r}"
        )
    attributes = a.get("composite_attributes") or {}
    results = rebound(r, operation, operands, a["name"], attributes)
    return r.call(a["decomposition"], operands) if results is None else results


def rebound(
    r: Reader,
    operation: Operation,
    operands: Sequence[int],
    name: str,
    attributes: Mapping[str, Any],
) -> Sequence[int] | None:
    """Apply the op that the name and attributes of a composite or custom call describe.

    Return None if the name and attributes describe no op, or if the op's result types differ from the declared types.
    """
    inputs = [r.spec(x) for x in operands]
    outputs = [spec for spec in operation.types if isinstance(spec, TensorSpec)]
    family_id = attributes.get("family_id")
    reader = _READERS.get(family_id if isinstance(family_id, str) else name, _READERS.get(name))
    op = (
        _of_family(family_id, attributes) if reader is None else reader(attributes, inputs, outputs)
    )
    if op is None:
        return None
    carrier = op if isinstance(op, StdTensorOp) else Extension(op)
    if not _fits(carrier, inputs, outputs):
        return None
    return r.apply(carrier, *operands)


def _of_family(family_id: Any, attributes: Mapping[str, Any]) -> ExtensionOp | None:
    """Build an op of a registered family from attributes that contain its payload; return None if that fails."""
    try:
        factory = lookup_extension_factory(check_family_id(family_id))
        if factory is None:
            return None
        classes = payload_classes(getattr(factory, "cls", factory))
        payload = {
            key: loaded_value(_plain(value), classes=classes)
            for key, value in attributes.items()
            if key != "family_id"
        }
        return factory.instantiate(payload)
    except (TenferroError, TypeError, ValueError, AttributeError):
        return None  # the decomposition is read instead


def _plain(value: Any) -> Any:
    """Convert an attribute to the JSON form that `saved_value` returned when the composite was written."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if value == {"none": True}:
        return None
    if isinstance(value, dict) and "shown" in value:
        raise UnsupportedError("a payload that only people can read")
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _fits(op: StdTensorOp, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> bool:
    try:
        return list(op.infer(*inputs)) == list(outputs)
    except (TenferroError, TypeError, ValueError):
        return False
