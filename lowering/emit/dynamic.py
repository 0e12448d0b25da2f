"""Emitters of the dynamic family."""

from __future__ import annotations

from typing import NoReturn

from lowering.emit.emitter import EmitterRows
from lowering.emit.structural import emit_pad
from lowering.inference import result_type
from lowering.writer import Value, Writer
from tenferro.dims import is_static
from tenferro.errors import NonStaticShapeError
from tenferro.ops.dynamic import DynamicTruncate, PadToMatch

__all__ = ["ROWS"]


def dynamic_truncate(op: DynamicTruncate, w: Writer, x: Value, size: Value) -> NoReturn:
    """Raise `NonStaticShapeError`: StableHLO cannot express a result whose extent is computed from data."""
    raise NonStaticShapeError(
        f"DynamicTruncate: axis {op.axis} of output 0 is cut to a size that is data; run it natively, "
        "or keep the full extent and mask what is beyond the size with Select"
    )


def pad_to_match(op: PadToMatch, w: Writer, x: Value, reference: Value) -> Value:
    """Pad x with zeros at the end of an axis, to the extent of `reference`; emit nothing if the extents agree."""
    result = result_type(op, x, reference)
    missing = result.shape[op.axis] - x.shape[op.axis]
    if is_static(missing) and not missing:
        return x
    none = (0,) * x.rank
    high = tuple(missing if axis == op.axis else 0 for axis in range(x.rank))
    return emit_pad(w, x, w.scalar(0, x.dtype), result, none, high, none)


ROWS: EmitterRows = {DynamicTruncate: dynamic_truncate, PadToMatch: pad_to_match}
