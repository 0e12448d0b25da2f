"""Extensions as `stablehlo.composite`: a reader with the family uses it whole, others its decomposition.

The composite's name is the family id with `_` for `-`, which its grammar refuses; the id itself and the
payload are attributes. The decomposition is a private function: the family's expansion, or its
registered lowering.

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
from lowering.literal import quoted
from lowering.types import tensor_type
from lowering.writer import Value, Writer, signature
from tenferro.errors import UnsupportedError
from tenferro.extension.payload import payload_classes, saved_value
from tenferro.ops.extension import Extension
from tenferro.program import expansion_of

__all__ = ["emit_composite"]


def emit_composite(op: Extension, w: Writer, *operands: Value) -> Any:
    """One statement, and a private function for each op and types."""
    mangled = op.family_id.replace("-", "_")
    shown = "_".join(re.sub(r"\W+", "_", tensor_type(x.spec)).strip("_") for x in operands)
    stem = f"{mangled.replace('.', '_')}_{shown}"
    key = (op, tuple(x.spec for x in operands))
    symbol = w.symbols.get(key)
    if symbol is None:
        count = sum(name.startswith(stem) for name in w.symbols.values())
        symbol = w.symbols[key] = f"{stem}_{count}"
        w.functions[symbol] = _decomposition(op, w, operands, symbol)
    version = op.family_id.rpartition(".v")[2]
    types = result_types(op, operands)
    results: tuple[Any, ...] = w.statement(
        f'stablehlo.composite "{mangled}" ',
        operands,
        f" {{composite_attributes = {{{_attributes(op)}}}, decomposition = @{symbol}, "
        f"version = {version} : i32}} : {signature(operands, types)}",
        types,
    )
    return results if op.output_count > 1 else next(iter(results))


def _decomposition(op: Extension, w: Writer, operands: tuple[Value, ...], symbol: str) -> str:
    inner = w.inner([x.spec for x in operands], EMITTERS)
    program = expansion_of(
        op,
        [x.spec for x in operands],
        keep=lambda operation: lowering_of(operation, w.platform, w.linalg) is not None,
    )
    results = emit_instructions(program.lowering_view(), inner)
    return inner.private_function(results, symbol)


def _attributes(op: Extension) -> str:
    try:
        payload = op.op.payload_fields()
    except UnsupportedError:  # written for people alone, because there is no reader for it
        payload = {"payload": {"shown": type(op.op).__name__}}
    classes = payload_classes(type(op.op))
    entries = [f"{name} = {_attribute(value, classes)}" for name, value in payload.items()]
    return ", ".join([f'family_id = "{op.family_id}"', *entries])


def _attribute(value: Any, classes: Mapping[str, type[Any]]) -> str:
    """A payload value: as itself where MLIR has a word for it, else as an object with one key."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float) and math.isfinite(value):
        return f"{float.__repr__(value)} : f64"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(_attribute(item, classes) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_attribute(item, classes)}' for key, item in value.items())}}}"
    if value is None:
        return "{none = true}"
    try:
        return _attribute(saved_value(value, "composite", classes=classes), classes)
    except UnsupportedError:  # written for people alone, because there is no reader for it
        return _attribute({"shown": repr(value)}, classes)
