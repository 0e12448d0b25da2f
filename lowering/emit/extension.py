"""The emitter of extension ops, which calls the registered lowering of the extension's family.

Extensions without a registered lowering do not reach this emitter: `lower_to_stablehlo` first expands them to standard
ops.
"""

from __future__ import annotations

from typing import Any

from lowering.emit.emitter import EmitterRows
from lowering.extensions import lowering_of
from lowering.families import callbacks
from lowering.inference import result_types
from lowering.writer import Value, Writer
from tenferro.errors import ExtensionLoweringError, TenferroError
from tenferro.interruption import is_interruption
from tenferro.ops.extension import Extension

__all__ = ["ROWS"]


def registered(op: Extension, w: Writer, *operands: Value) -> Any:
    """Call the lowering that the op's family has registered for the writer's platform, and check the result types.

    Raises:
        ExtensionLoweringError: the lowering fails, or returns anything but values of the declared types.
    """
    rule = lowering_of(op, w.platform, w.linalg)
    if rule is None and w.callbacks is not None and op.family_id == callbacks.FAMILY:
        rule = callbacks.callback
    assert rule is not None, "programs are expanded before they are lowered"
    where = f"extension: {op.family_id}: its lowering for {w.platform}"
    try:
        result = rule(op.op, w, *operands)
    except TenferroError:
        raise
    except Exception as error:
        # A lowering that computes with a symbolic extent raises TypeError. The caller converts this TypeError to a
        # `NonStaticShapeError`.
        is_of_symbols = isinstance(error, TypeError) and not all(x.spec.is_static for x in operands)
        if is_of_symbols or is_interruption(error):
            raise
        raise ExtensionLoweringError(f"{where} failed: {type(error).__name__}: {error}") from error
    values = tuple(result) if isinstance(result, tuple | list) else (result,)
    for value in values:
        if not isinstance(value, Value):
            raise ExtensionLoweringError(
                f"{where} must give values of its writer, got {value!r:.60}"
            )
    specs = tuple(value.spec for value in values)
    declared = result_types(op, operands)
    if specs != declared:
        raise ExtensionLoweringError(
            f"{where} gives ({', '.join(map(str, specs))}), infer_output_meta declares "
            f"({', '.join(map(str, declared))})"
        )
    return values


ROWS: EmitterRows = {Extension: registered}
