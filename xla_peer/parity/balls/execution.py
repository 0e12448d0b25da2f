"""Execution of a program on balls: kernels compute the centres, and the rules in `BALL_RULES` the radii."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tenferro.exec.interpreter import located, results_of
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.ops.control import ControlOp
from tenferro.types import DType, TensorSpec
from xla_peer.parity.balls import BALL_RULES
from xla_peer.parity.balls.control import LOOPS
from xla_peer.parity.balls.operands import Ball, Operands
from xla_peer.parity.balls.relations import copies, sign_of_results
from xla_peer.parity.balls.tape import Tape

__all__ = ["Remarks", "run_on_balls"]


@dataclass
class Remarks:
    """Numbers of elements, by op and source line, that lost their bound or are undecided in a run on balls.

    Attributes:
        unbounded: numbers of elements whose radius is infinite although the operands' radii are finite.
        undecided: numbers of elements of comparisons, indices and orders that the balls do not decide.
    """

    unbounded: dict[tuple[str, str], int] = field(default_factory=dict)
    undecided: dict[tuple[str, str], int] = field(default_factory=dict)

    def note(self, step: ExecInstruction, balls: Sequence[Ball], results: Sequence[Ball]) -> None:
        """Record the elements of a step's results that lost their bound or are undecided."""
        name = getattr(step.op, "name", type(step.op).__name__)
        key = name, str(step.source or "")
        if not any(np.isinf(ball.radius).any() for ball in balls):
            count = sum(int(np.count_nonzero(np.isinf(ball.radius))) for ball in results)
            _add(self.unbounded, key, count)
        if any(ball.value.dtype.kind not in "biu" for ball in balls):
            decisions = [ball for ball in results if ball.value.dtype.kind in "biu"]
            _add(self.undecided, key, sum(int(np.count_nonzero(b.radius)) for b in decisions))


def _add(counts: dict[tuple[str, str], int], key: tuple[str, str], count: int) -> None:
    if count:
        counts[key] = counts.get(key, 0) + count


def run_on_balls(
    program: ExecProgram, remarks: Remarks, tape: Tape, balls: Sequence[Ball]
) -> list[Ball]:
    """Run a schedule on the arguments `balls`, and return its outputs as balls.

    Raises:
        BackendFailureError: a kernel failed; the message has the op and its line.
    """
    slots: list[Ball] = [Ball.exact(np.zeros(()))] * program.n_slots
    for slot, ball in zip(program.input_slots, balls, strict=True):
        slots[slot] = ball
    for slot, value in program.constants.items():
        slots[slot] = Ball.exact(value)
    for step in program.instructions:
        operands = [slots[slot] for slot in step.input_slots]
        try:
            results = _step(step, remarks, tape, operands)
        except Exception as error:
            cause = located(step, error)
            if cause is error:
                raise
            raise cause from error
        remarks.note(step, operands, results)
        for slot, ball in zip(step.output_slots, results, strict=True):
            slots[slot] = ball
    return [slots[slot] for slot in program.output_slots]


def _step(step: ExecInstruction, remarks: Remarks, tape: Tape, balls: Sequence[Ball]) -> list[Ball]:
    op: Any = step.source_op
    if isinstance(op, ControlOp):
        parts = [partial(run_on_balls, part, remarks, tape) for part in step.bodies]
        return LOOPS[type(op)](op, parts, balls, tape)
    values = [ball.value for ball in balls]
    results = results_of(op, step.kernel(op, *values), len(step.output_slots))
    centres = tuple(map(np.asarray, results))
    specs = tuple([TensorSpec.of(x.shape, DType.of(x.dtype)) for x in values])
    operands = Operands(op, tuple(balls), specs, centres)
    radii = BALL_RULES[type(op)](operands)
    copy, sign = copies(operands), sign_of_results(operands)
    enclosures = [
        Ball(y, np.asarray(radius, np.float64), copy, sign)
        for y, radius in zip(centres, radii, strict=True)
    ]
    tape.step(op, balls, enclosures)
    return enclosures
