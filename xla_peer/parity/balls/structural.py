"""Error bounds (radii) of ops that only move elements: the op is applied to the array of radii."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenferro.ops import StdTensorOp
from tenferro.ops import structural as st
from xla_peer.parity.balls.operands import Operands, Rule

__all__ = ["ROWS"]


def _moved(operands: Operands) -> Sequence[Any]:
    """Apply the op to the radii of its operands."""
    return (operands.run(operands.op, *operands.radii),)


def _passed_on(operands: Operands) -> Sequence[Any]:
    return operands.radii


ROWS: Mapping[type[StdTensorOp], Rule] = {
    **dict.fromkeys(st.CARDS, _moved),
    st.OptimizationBarrier: _passed_on,
}
