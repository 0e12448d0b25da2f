"""Balls around the outputs of a program."""

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
    """Compute balls around the outputs of all right implementations on these arguments, with remarks.

    Raises:
        BackendFailureError: a kernel failed, with op and line.
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
