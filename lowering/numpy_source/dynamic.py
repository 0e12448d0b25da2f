"""Python code of ops whose results have data-dependent extents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowering.numpy_source.expression import Code, Expression, Rows, call
from tenferro.ops.dynamic import DynamicTruncate, PadToMatch

if TYPE_CHECKING:
    from lowering.numpy_source.writer import Writer

__all__ = ["ROWS"]


def dynamic_truncate(op: DynamicTruncate, w: Writer, x: Expression, size: Expression) -> Code:
    """Write a call of the function `truncated`, which the generated file includes."""
    return call(w.function("truncated"), x, size, op.axis)


def pad_to_match(op: PadToMatch, w: Writer, x: Expression, reference: Expression) -> Code:
    """Write a call of `padded_to` in `functions.py`, which pads x to the extent of `reference`."""
    return call(w.function("padded_to"), x, f"{w.named(reference)}.shape[{op.axis}]", op.axis)


ROWS: Rows = {DynamicTruncate: dynamic_truncate, PadToMatch: pad_to_match}
