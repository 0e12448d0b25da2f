"""Error bounds (radii) of ops with data-dependent extents: radii are truncated or padded like the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tenferro.ops import StdTensorOp
from tenferro.ops import dynamic as dy
from xla_peer.parity.balls.operands import Operands, Rule

__all__ = ["ROWS"]


def _extended(operands: Operands) -> Sequence[Any]:
    """Pad the radii with zeros."""
    return (operands.run(operands.op, operands.radii[0], operands.values[1]),)


def _cut(operands: Operands) -> Sequence[Any]:
    """Truncate the radii like the values; the result is unbounded if the balls do not decide the extent."""
    radius, size = operands.radii
    if size.any():
        return [np.full(result.shape, np.inf) for result in operands.results]
    return (operands.run(operands.op, radius, operands.values[1]),)


ROWS: Mapping[type[StdTensorOp], Rule] = {dy.DynamicTruncate: _cut, dy.PadToMatch: _extended}
