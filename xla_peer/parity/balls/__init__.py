"""Ball arithmetic: the column of rules, one for each op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

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
from xla_peer.parity.balls.operands import Ball, Operands, Rule

__all__ = ["BALL_RULES", "Ball", "Operands", "Rule"]


def _without_bound(operands: Operands) -> Sequence[Any]:
    """An op of another package declares no bound, unless all of it is integers."""
    specs = [*operands.specs]
    rounds = any(spec.dtype.is_inexact for spec in specs) or not operands.are_exact
    return [
        np.full(y.shape, np.inf if rounds or y.dtype.kind not in "biu" else 0.0)
        for y in operands.results
    ]


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
    {Extension: _without_bound},
)
"""The radii of each op's results; `control.LOOPS` has those of the ops that run programs."""
