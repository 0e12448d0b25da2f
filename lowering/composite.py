"""Extensions as `stablehlo.composite` operations.

A compiler that supports the extension's family may run its own code for the composite. Any other compiler calls the
decomposition.

The name of the composite is the family id with `-` replaced by `_`, because StableHLO does not allow `-`. The
composite's attributes are the family id and the op's payload. Its decomposition is a private function, which contains
the family's registered lowering, or else its expansion in standard ops.

Source: StableHLO spec #composite.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from lowering.emission import emit_instructions
from lowering.emit import EMITTERS
from lowering.extensions import lowering_of
from lowering.inference import result_types
from lowering.operations import Block, Function, Integer, Symbol
from lowering.types import tensor_type
from lowering.writer import Value, Writer
from tenferro.errors import TenferroError, UnsupportedError
from tenferro.extension.payload import payload_classes, saved_value
from tenferro.extension.saving import require_restored
from tenferro.ops.extension import Extension
from tenferro.program import expansion_of

__all__ = ["emit_composite"]


def emit_composite(op: Extension, w: Writer, *operands: Value) -> tuple[Value, ...]:
    """Emit a `stablehlo.composite` and, for each new combination of op and operand types, its private function."""
    mangled = op.family_id.replace("-", "_")
    shown = "_".join(re.sub(r"\W+", "_", tensor_type(x.spec)).strip("_") for x in operands)
    stem = f"{mangled.replace('.', '_')}_{shown}"
    key = (op, tuple(x.spec for x in operands))
    symbol = w.symbols.get(key)
    if symbol is None:
        count = sum(name.startswith(stem) for name in w.symbols.values())
        symbol = w.symbols[key] = f"{stem}_{count}"
        w.functions[symbol] = Function(symbol, _decomposition(op, w, operands))
    attributes = {
        "name": mangled,
        "composite_attributes": _attributes(op),
        "decomposition": Symbol(symbol),
        "version": Integer(int(op.family_id.rpartition(".v")[2]), "i32"),
    }
    types = result_types(op, operands)
    return w.operation("stablehlo.composite", operands, types, attributes)


def _decomposition(op: Extension, w: Writer, operands: tuple[Value, ...]) -> Block:
    inner = w.inner([x.spec for x in operands], EMITTERS)
    program = expansion_of(
        op,
        [x.spec for x in operands],
        keep=lambda operation: lowering_of(operation, w.platform, w.linalg) is not None,
    )
    return inner.body(emit_instructions(program.lowering_view(), inner))


def _attributes(op: Extension) -> dict[str, Any]:
    try:
        payload = op.op.payload_fields()
        require_restored(op.op)
    # The name is for display only: the importer reads the decomposition.
    except (TenferroError, TypeError, ValueError, AttributeError):
        payload = {"payload": {"shown": type(op.op).__name__}}
    classes = payload_classes(type(op.op))
    entries = {name: _attribute(value, classes) for name, value in payload.items()}
    return {"family_id": op.family_id, **entries}


def _attribute(value: Any, classes: Mapping[str, type[Any]]) -> Any:
    """Convert a payload value to an MLIR attribute.

    MLIR has no attribute for None, NaN or an enum member, so these values are encoded as dictionaries with one key.
    """
    kind = type(value)  # a subclass, such as an enum of numbers, must not be read as its base class
    if kind in (bool, int, str) or (kind is float and math.isfinite(value)):
        return value
    if kind in (tuple, list):
        return [_attribute(item, classes) for item in value]
    if kind is dict:
        return {key: _attribute(item, classes) for key, item in value.items()}
    if value is None:
        return {"none": True}
    try:
        return _attribute(saved_value(value, "composite", classes=classes), classes)
    except UnsupportedError:  # the text is for display only: the importer reads the decomposition
        return _attribute({"shown": repr(value)}, classes)
