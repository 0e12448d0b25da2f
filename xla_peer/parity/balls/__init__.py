"""Ball arithmetic: for each op, a rule computes error bounds (radii) of the results from the radii of the operands."""

from __future__ import annotations

from tenferro.ops import STD_OPS, Column
from tenferro.ops import control as cf
from tenferro.ops.extension import Extension
from xla_peer.parity.balls import (
    analytic,
    contraction,
    dynamic,
    elementwise,
    indexing,
    reduction,
    source,
    structural,
)
from xla_peer.parity.balls.extension import extension_radii
from xla_peer.parity.balls.operands import Ball, Operands, Rule

__all__ = ["BALL_RULES", "Ball", "Operands", "Rule"]


BALL_RULES: Column[Rule] = Column(
    "ball",
    "xla_peer/parity/balls",
    [card for card in (*STD_OPS, Extension) if card not in cf.CARDS],
    source.ROWS,
    elementwise.ROWS,
    analytic.ROWS,
    structural.ROWS,
    reduction.ROWS,
    contraction.ROWS,
    indexing.ROWS,
    dynamic.ROWS,
    {Extension: extension_radii},
)
"""Rules by op class. The rules of loops and conditionals, which run sub-programs, are in `control.LOOPS`."""
