"""Derivatives of the source family: none, for what depends on no element of an input."""

from __future__ import annotations

from tenferro.ad.rule import inactive
from tenferro.ops import source as ops

__all__ = ["ROWS"]

ROWS = {
    ops.Constant: inactive("a constant"),
    ops.Iota: inactive("a constant"),
    ops.ShapeOf: inactive("an extent depends on no element"),
}
