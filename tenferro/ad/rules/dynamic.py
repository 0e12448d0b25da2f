"""Derivatives of the ops with data-dependent extents. Truncation and padding are transposes of each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenferro.ad.algebra import Value, apply, apply_one, lead, lead_all, truncated, zeros
from tenferro.ad.rule import AdRows, Values, linear
from tenferro.errors import UnsupportedError
from tenferro.ops import dynamic as ops

__all__ = ["ROWS"]


def truncate_transpose(op: ops.DynamicTruncate, x: Value, size: Value, y_bar: Value) -> Value:
    """Pad the cotangent with zeros at its end, up to the extent of x."""
    return apply_one(ops.PadToMatch(op.axis), y_bar, zeros(x))


def pad_transpose(op: ops.PadToMatch, x: Value, reference: Value, y_bar: Value) -> Value:
    """Return the first elements of the cotangent, up to the extent of x."""
    return truncated(y_bar, op.axis, x, op.axis)


def truncate_batch(op: Any, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Apply the op along `op.axis` + 1, which is the same axis behind the leading axis.

    Raises:
        UnsupportedError: the sizes differ between slices, so the results for the slices would have different extents.
    """
    if batched[1]:
        raise UnsupportedError(
            f"{op.name}: has no batch rule for sizes that differ, because slices have one extent; mask with where"
        )
    return apply(replace(op, axis=op.axis + 1), *inputs)


def pad_batch(op: Any, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Add the leading axis to both operands, because their ranks must agree."""
    x, reference = inputs
    if batched[0] and not batched[1]:
        reference = lead(reference, 1)
    x, reference = (x, reference) if batched[0] else lead_all(inputs, batched)
    return apply(replace(op, axis=op.axis + 1), x, reference)


ROWS: AdRows = {
    ops.DynamicTruncate: linear(truncate_transpose, truncate_batch),
    # The op reads only the extent of `reference`, so it is linear in x even if `reference` depends on a tangent.
    ops.PadToMatch: replace(linear(pad_transpose, pad_batch), is_linear=None),
}
