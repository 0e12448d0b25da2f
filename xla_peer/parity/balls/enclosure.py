"""Computation of balls, which are values with error bounds, around the outputs of a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tenferro.exec.runtime.numpy_state import numpy_state
from tenferro.program import GraphProgram, native_executor
from xla_peer.parity.balls.adjoint import tightened
from xla_peer.parity.balls.execution import Remarks, run_on_balls
from xla_peer.parity.balls.operands import Ball
from xla_peer.parity.balls.tape import Tape

__all__ = ["enclosed"]


def enclosed(program: GraphProgram, leaves: Sequence[Any]) -> tuple[list[Ball], Remarks]:
    """Compute, for each output of a program, a ball that contains the results of all right implementations.

    Return the balls, and remarks about ops at which bounds are lost or decisions are open.

    Raises:
        BackendFailureError: a kernel failed; the message has the op and its line.
    """
    static = program.specialize(program.bind([leaf.shape for leaf in leaves]))
    schedule = replace(native_executor().binder, passes=(), plan=()).bind(static)
    remarks, tape = Remarks(), Tape(tightened)
    with numpy_state(), np.errstate(all="ignore"):
        balls = run_on_balls(
            schedule, remarks, tape, [Ball.exact(np.asarray(leaf)) for leaf in leaves]
        )
        balls = tightened(tape, balls)
    return balls, remarks
