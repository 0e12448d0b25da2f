"""The emitter row of the carrier: the family's registered lowering; expansions come before."""

from __future__ import annotations

from typing import Any

from lowering.emit.emitter import EmitterRows
from lowering.extensions import lowering_of
from lowering.writer import Value, Writer
from tenferro.errors import ExtensionLoweringError
from tenferro.ops.extension import Extension

__all__ = ["ROWS"]


def registered(op: Extension, w: Writer, *operands: Value) -> Any:
    """What the family's lowering writes for this platform."""
    rule = lowering_of(op, w.platform, w.linalg)
    assert rule is not None, "programs are expanded before they are lowered"
    result = rule(op.op, w, *operands)
    values = (result,) if isinstance(result, Value) else tuple(result)
    specs = tuple(value.spec for value in values)
    if specs != w.result_types:
        raise ExtensionLoweringError(
            f"extension: {op.family_id}: its lowering for {w.platform} gives "
            f"({', '.join(map(str, specs))}), infer_output_meta declares "
            f"({', '.join(map(str, w.result_types))})"
        )
    return result


ROWS: EmitterRows = {Extension: registered}
