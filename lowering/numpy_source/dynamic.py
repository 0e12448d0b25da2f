"""The dynamic family: NumPy's arrays may have data-dependent extents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowering.numpy_source.expression import Code, Expression, Rows, call
from tenferro.ops.dynamic import DynamicTruncate, PadToMatch

if TYPE_CHECKING:
    from lowering.numpy_source.writer import Writer

__all__ = ["ROWS"]


def dynamic_truncate(op: DynamicTruncate, w: Writer, x: Expression, size: Expression) -> Code:
    """Write a call of a plain function."""
    return call(w.function("truncated"), x, size, op.axis)


def pad_to_match(op: PadToMatch, w: Writer, x: Expression, reference: Expression) -> Code:
    """Write a call of a function of `functions.py` that takes the reference's extent."""
    return call(w.function("padded_to"), x, f"{w.named(reference)}.shape[{op.axis}]", op.axis)


ROWS: Rows = {DynamicTruncate: dynamic_truncate, PadToMatch: pad_to_match}
