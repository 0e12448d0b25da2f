"""Tape of a run on balls: for each ball with a radius, the step that computed it, and the operands of this step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tenferro.types import DType
from xla_peer.parity.balls.operands import Ball
from xla_peer.parity.pending import unit
from xla_peer.parity.ulps import modulus

__all__ = ["Entry", "Narrowed", "Row", "Stack", "Step", "Tape"]

GROWTH = 2.0**12
"""Factor by which the radii of a loop's carry grow before they are reduced again by a reverse sweep."""
WIDEST = 2.0**40
"""Radius above which the radii of a carry are always reduced; the unit is one rounding of the element."""
MOST_NARROWINGS = 16


@dataclass(frozen=True, eq=False)
class Step:
    """Application of an op to balls, with the balls of its results."""

    op: Any
    operands: tuple[Ball, ...]
    results: tuple[Ball, ...]


@dataclass(frozen=True, eq=False)
class Row:
    """Slice of a ball along its first axis, which one iteration of a loop reads.

    Attributes:
        source: the whole ball.
        index: the index of the slice.
        row: the slice as a ball.
    """

    source: Ball
    index: int
    row: Ball


@dataclass(frozen=True, eq=False)
class Stack:
    """Stacking of the outputs of all iterations of a loop along a new first axis."""

    rows: tuple[Ball, ...]
    result: Ball


@dataclass(frozen=True, eq=False)
class Narrowed:
    """Replacement of a ball by a ball with the same centres and smaller radii."""

    source: Ball
    result: Ball


Entry: TypeAlias = Step | Row | Stack | Narrowed


@dataclass
class Tape:
    """Record of a run on balls, in the order of the run. Steps whose results have no radius are not recorded.

    Attributes:
        narrow: a function that reduces the radii of balls on the tape by a reverse sweep.
        entries: the recorded steps.
        carried: balls in the carry of a loop. A compiler computes a carry once for all its uses.
        wide: radius above which the radii of a carry are reduced; the unit is one rounding of the element.
        narrowings: the number of times that radii of carries were reduced.
    """

    narrow: Callable[[Tape, Sequence[Ball]], list[Ball]] | None = None
    entries: list[Entry] = field(default_factory=list)
    carried: set[Ball] = field(default_factory=set)
    wide: float = GROWTH
    narrowings: int = 0

    def step(self, op: Any, operands: Sequence[Ball], results: Sequence[Ball]) -> None:
        """Record a step, unless all results have radii of 0."""
        if any(_moves(ball) for ball in results):
            self.entries.append(Step(op, tuple(operands), tuple(results)))

    def row(self, source: Ball, index: int) -> Ball:
        """Return the slice of a ball at an index along its first axis, and record it."""
        row = Ball(source.value[index, ...], source.radius[index, ...])
        if _moves(row):
            self.entries.append(Row(source, index, row))
        return row

    def stack(self, rows: Sequence[Ball], result: Ball) -> Ball:
        """Record that `result` is the stack of `rows`, and return it."""
        if _moves(result):
            self.entries.append(Stack(tuple(rows), result))
        return result

    def carry(self, balls: Sequence[Ball]) -> list[Ball]:
        """Return the carry for the next iteration, with reduced radii if they have grown much."""
        narrow = self.narrow if self.narrowings < MOST_NARROWINGS else None
        if narrow is not None and max(map(_roundings, balls), default=0.0) > self.wide:
            narrower = narrow(self, balls)
            self.narrowings += 1
            self.wide = min(GROWTH * max(1.0, *map(_roundings, narrower)), WIDEST)
            self.entries += [
                Narrowed(ball, result)
                for ball, result in zip(balls, narrower, strict=True)
                if result is not ball
            ]
            balls = narrower
        self.carried.update(ball for ball in balls if _moves(ball))
        return list(balls)


def _roundings(ball: Ball) -> float:
    """Return the largest radius of a ball, in units of one rounding of the element; 0 if all radii are 0."""
    if not _moves(ball):
        return 0.0
    size = modulus(ball.value)
    each = np.where((size > 0) & np.isfinite(size), size, np.inf)
    return float(np.max(ball.radius / each, initial=0.0, where=np.isfinite(ball.radius))) / unit(
        DType.of(ball.value.dtype)
    )


def _moves(ball: Ball) -> bool:
    return ball.value.dtype.kind not in "biu" and bool(ball.radius.any())
