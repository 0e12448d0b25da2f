"""The emitter column: what each op is in StableHLO."""

from lowering.emit import elementwise, source, structural
from lowering.emit.emitter import Emitter
from tenferro.ops import STD_OPS, Column

__all__ = ["EMITTERS", "Emitter"]

EMITTERS: Column[Emitter] = Column(
    "emitter",
    STD_OPS,
    source.ROWS,
    elementwise.ROWS,
    structural.ROWS,
)
