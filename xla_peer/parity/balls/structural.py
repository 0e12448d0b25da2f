"""Radii of ops that move elements: the radii are moved in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenferro.ops import StdTensorOp
from tenferro.ops import structural as st
from xla_peer.parity.balls.operands import Operands, Rule

__all__ = ["ROWS"]


def _moved(operands: Operands) -> Sequence[Any]:
    """Run the op on the radii."""
    return (operands.run(operands.op, *operands.radii),)


def _passed_on(operands: Operands) -> Sequence[Any]:
    return operands.radii


ROWS: Mapping[type[StdTensorOp], Rule] = {
    **dict.fromkeys(st.CARDS, _moved),
    st.OptimizationBarrier: _passed_on,
}
