"""Execution of loops and conditionals on balls, which are values with error bounds.

If the error bound of a predicate allows several branches, all of them run. The balls of their results are enlarged
until they contain all results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenferro.ops import Column
from tenferro.ops import control as cf
from tenferro.types import TensorSpec
from xla_peer.parity.balls.operands import Ball, outward, wide
from xla_peer.parity.balls.tape import Tape
from xla_peer.parity.ulps import modulus

__all__ = ["LOOPS", "MOST_OPEN_TURNS", "Loop", "united"]

MOST_OPEN_TURNS = 16
"""Maximum number of iterations of a while loop with an undecided condition; with more, results have no bound."""

Part = Callable[[Sequence[Ball]], list[Ball]]
Loop = Callable[[Any, Sequence[Part], Sequence[Ball], Tape], list[Ball]]
"""Function that runs a loop or conditional on balls, given the op, its bodies, its operands and the tape."""


def united(ball: Ball, addition: Ball) -> Ball:
    """Enlarge the radii of `ball`, around the same centres, until it also contains `addition`.

    The result is unbounded if the shapes differ.
    """
    if ball.value.shape != addition.value.shape:
        return _unbounded(ball)
    x, y = wide(ball.value), wide(addition.value)
    same = (x == y) | ((x != x) & (y != y))
    away = np.where(same, 0.0, modulus(x - y))
    reach = np.where(np.isnan(away), np.inf, outward(away + addition.radius))
    return Ball(ball.value, np.maximum(ball.radius, reach))


def _unbounded(ball: Ball) -> Ball:
    return Ball(ball.value, np.full(ball.value.shape, np.inf))


def _conditional(
    op: cf.Cond, parts: Sequence[Part], operands: Sequence[Ball], tape: Tape
) -> list[Ball]:
    """Run the selected branch of a conditional; if the index is undecided, unite the results of possible branches."""
    index, *rest = operands
    last = len(parts) - 1
    centre, radius = int(index.value), float(index.radius)
    chosen = centre if 0 <= centre <= last else last
    results = parts[chosen](rest)
    for number, part in enumerate(parts):
        is_near = abs(number - centre) <= radius or (number == last and _may_exceed(index, last))
        if radius and number != chosen and is_near:
            results = _united(results, part(rest))
    return results


def _either(
    op: cf.Alternatives, parts: Sequence[Part], operands: Sequence[Ball], tape: Tape
) -> list[Ball]:
    """Unite the results of both sub-programs of an `Alternatives` op, because each executor runs only one of them."""
    sequential, parallel = parts
    return _united(sequential(operands), parallel(operands))


def _may_exceed(index: Ball, last: int) -> bool:
    """Return whether the index of a conditional may be out of range; then the last branch runs."""
    low, high = float(index.value) - float(index.radius), float(index.value) + float(index.radius)
    return low < 0 or high > last


def _while(op: cf.While, parts: Sequence[Part], operands: Sequence[Ball], tape: Tape) -> list[Ball]:
    """Run a while loop, and unite the carries of all iterations after which it may end."""
    goes_on, body = parts
    consts, carry = list(operands[: op.num_consts]), list(operands[op.num_consts :])
    early: list[Ball] | None = None
    last: list[Ball] | None = None
    turns_after = 0
    while True:
        (test,) = goes_on([*consts, *carry])
        stops, is_open = not bool(test.value), bool(test.radius)
        if last is None and not stops and is_open:
            early = carry if early is None else _united(carry, early)
        elif last is None and stops:
            last = carry if early is None else _united(carry, early)
        elif last is not None and (stops or is_open):
            last = _united(last, carry)
        if last is not None and not is_open and stops:
            return last
        if last is not None:
            turns_after += 1
            if turns_after > MOST_OPEN_TURNS:
                return [_unbounded(ball) for ball in last]
        carry = tape.carry(body([*consts, *carry]))


def _united(balls: Sequence[Ball], others: Sequence[Ball]) -> list[Ball]:
    return [united(ball, addition) for ball, addition in zip(balls, others, strict=True)]


def _scan(op: cf.Scan, parts: Sequence[Part], operands: Sequence[Ball], tape: Tape) -> list[Ball]:
    """Run a scan on balls, and return the last carry and the stacked results of the iterations."""
    (body,) = parts
    n, first, m = op.num_consts, op.first_xs, op.num_carry
    consts, carry, xs = list(operands[:n]), list(operands[n:first]), operands[first:]
    rows: dict[int, list[Ball]] = {}
    for t in range(op.length)[:: -1 if op.reverse else 1]:
        slices = [tape.row(x, t) for x in xs]
        results = body([*consts, *carry, *slices])
        carry, rows[t] = tape.carry(results[:m]), results[m:]
    stacked = [
        _stacked([rows[t][number] for t in range(op.length)], spec, tape)
        for number, spec in enumerate(op.body.output_specs[m:])
    ]
    return [*carry, *stacked]


def _stacked(balls: Sequence[Ball], spec: TensorSpec, tape: Tape) -> Ball:
    if not balls:
        return Ball.exact(np.empty((0, *spec.shape), spec.dtype.dtype))
    whole = Ball(np.stack([y.value for y in balls]), np.stack([y.radius for y in balls]))
    return tape.stack(balls, whole)


LOOPS: Column[Loop] = Column(
    "ball of loops",
    "xla_peer/parity/balls/control.py",
    cf.CARDS,
    {cf.Cond: _conditional, cf.While: _while, cf.Scan: _scan, cf.Alternatives: _either},
)
