"""Rules of constants, iota and extents. They have no derivatives, because these ops read no element of an input."""

from __future__ import annotations

from tenferro.ad.rule import AdRows, inactive
from tenferro.ops import source as ops

__all__ = ["ROWS"]


ROWS: AdRows = {
    ops.Constant: inactive("a constant"),
    ops.Iota: inactive("a constant"),
    ops.ShapeOf: inactive("an extent depends on no element"),
}
