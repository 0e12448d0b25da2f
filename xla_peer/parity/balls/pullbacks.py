"""Derivatives (pullbacks) of single ops on balls, for a batch of cotangents at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.dispatch import apply
from tenferro.exec.schedule import ExecProgram
from tenferro.ops import StdTensorOp
from tenferro.ops import contraction as co
from tenferro.program import native_executor
from xla_peer.parity.balls.execution import Remarks, run_on_balls
from xla_peer.parity.balls.operands import Ball, outward, wide
from xla_peer.parity.balls.tape import Tape

__all__ = ["Pullbacks"]


@dataclass
class Pullbacks:
    """Cache of the pullbacks of single ops, as programs in float64.

    A pullback maps cotangents of the result to cotangents of the operands. There is a program for each op, set of
    active operands, shapes and dtypes.
    """

    programs: dict[Any, ExecProgram] = field(default_factory=dict)

    def pull(
        self, op: StdTensorOp, balls: Sequence[Ball], active: tuple[int, ...], y_bar: Ball
    ) -> list[Ball]:
        """Compute balls that contain the cotangents of the active operands, for operands anywhere in their balls.

        Args:
            op, balls: the op and its operands.
            active: the indices of the operands whose cotangents are computed.
            y_bar: a batch of cotangents of the result, stacked along a new first axis.
        """
        balls = [_in_float64(ball) for ball in balls]
        arrays = [ball.value for ball in (*balls, y_bar)]
        key = (op, active, *[(x.shape, x.dtype) for x in arrays])
        if key not in self.programs:
            self.programs[key] = _program(op, active, arrays)
        return run_on_balls(self.programs[key], Remarks(), Tape(), [*balls, y_bar])


def _in_float64(ball: Ball) -> Ball:
    """Convert a ball to float64; if the sign of its elements is known, remove the numbers of the opposite sign."""
    if ball.value.dtype.kind in "biu":
        return ball
    value, radius = wide(ball.value), ball.radius
    if ball.sign:
        crosses = (radius > np.abs(value)) & np.isfinite(radius)
        middle = (np.abs(value) + radius) / 2.0
        value = np.where(crosses, ball.sign * middle, value)
        radius = np.where(crosses, outward(middle), radius)
    return Ball(value, radius, sign=ball.sign)


def _program(op: StdTensorOp, active: tuple[int, ...], arrays: Sequence[Any]) -> ExecProgram:
    """Trace the pullback of one op, batched over cotangents, and bind it to kernels without passes."""
    if isinstance(op, co.DotGeneral):
        op = replace(op, accumulate_dtype=None)
    in_axes = (*[None for _ in arrays[:-1]], 0)
    traced = tnf.compile(tnf.vmap(_pullback(op, active), in_axes=in_axes), *arrays)
    return replace(native_executor().binder, passes=(), plan=()).bind(traced)


def _pullback(op: StdTensorOp, active: tuple[int, ...]) -> Callable[..., Any]:
    def pulled(*operands_and_y_bar: Any) -> Any:
        *operands, y_bar = operands_and_y_bar

        def of_active(*xs: Any) -> Any:
            moved = list(operands)
            for number, x in zip(active, xs, strict=True):
                moved[number] = x
            return apply(op, *moved)[0]

        _, pull = tnf.vjp(of_active, *[operands[number] for number in active])
        return pull(y_bar)

    return pulled
