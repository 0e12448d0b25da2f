"""Error bounds (radii) of constants and iotas: 0, except for subnormal numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenferro.ops import StdTensorOp
from tenferro.ops import source as so
from xla_peer.parity.balls.operands import Ball, Operands, Rule

__all__ = ["ROWS"]


def _exact(operands: Operands) -> Sequence[Any]:
    """Return radii of 0, except for subnormal numbers, which an implementation may flush to zero."""
    return [Ball.exact(result).radius for result in operands.results]


ROWS: Mapping[type[StdTensorOp], Rule] = dict.fromkeys(so.CARDS, _exact)
