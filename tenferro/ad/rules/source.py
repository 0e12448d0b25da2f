"""Rules of constants, iota and extents. They have no derivatives, because these ops read no element of an input."""

from __future__ import annotations

from dataclasses import replace

from tenferro.ad.algebra import apply_one, lead
from tenferro.ad.rule import AdRows, Values, inactive
from tenferro.ops import source as ops

__all__ = ["ROWS"]


def extent_batch(op: ops.ShapeOf, inputs: Values, batched: tuple[bool, ...]) -> Values:
    """Measure the extent of one slice, which is the same for all slices, and broadcast it along the leading axis."""
    (x,) = inputs
    return (lead(apply_one(ops.ShapeOf(op.axis + 1), x), x.shape[0]),)


ROWS: AdRows = {
    ops.Constant: inactive("a constant"),
    ops.Iota: inactive("a constant"),
    ops.ShapeOf: replace(inactive("an extent depends on no element"), batch=extent_batch),
}
