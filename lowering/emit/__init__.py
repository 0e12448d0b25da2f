"""Emitters: for each op, the function that writes the op as StableHLO."""

from lowering.emit import (
    analytic,
    contraction,
    control,
    dynamic,
    elementwise,
    extension,
    indexing,
    reduction,
    source,
    structural,
)
from lowering.emit.emitter import Emitter
from tenferro.ops import ALL_OPS, Column

__all__ = ["EMITTERS", "Emitter"]

EMITTERS: Column[Emitter] = Column(
    "emitter",
    "lowering/emit",
    ALL_OPS,
    source.ROWS,
    elementwise.ROWS,
    analytic.ROWS,
    structural.ROWS,
    reduction.ROWS,
    contraction.ROWS,
    indexing.ROWS,
    dynamic.ROWS,
    control.ROWS,
    extension.ROWS,
)
