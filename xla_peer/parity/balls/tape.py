"""The record of a run on balls: for each ball that may move, its step and the balls that it depends on."""

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
"""Factor by which a carry widens before it is narrowed again."""
WIDEST = 2.0**40
"""Radius above which a carry is always narrowed, in roundings."""
MOST_NARROWINGS = 16


@dataclass(frozen=True, eq=False)
class Step:
    """One op, with its operands' and results' balls."""

    op: Any
    operands: tuple[Ball, ...]
    results: tuple[Ball, ...]


@dataclass(frozen=True, eq=False)
class Row:
    """One row of a ball, read by one iteration of a loop."""

    source: Ball
    index: int
    row: Ball


@dataclass(frozen=True, eq=False)
class Stack:
    """The rows of all iterations of a loop, side by side."""

    rows: tuple[Ball, ...]
    result: Ball


@dataclass(frozen=True, eq=False)
class Narrowed:
    """Step that replaces a ball by one with smaller radii."""

    source: Ball
    result: Ball


Entry: TypeAlias = Step | Row | Stack | Narrowed


@dataclass
class Tape:
    """Entries in the order of the run; values that cannot move have no entry.

    Attributes:
        narrow: reduces the radii of balls on the tape, by a reverse sweep.
        carried: balls in the carry of a loop, which is computed once for all uses.
        wide: radius above which a carry is narrowed, as a multiple of a rounding error of its element.
        narrowings: number of times that the carry was narrowed.
    """

    narrow: Callable[[Tape, Sequence[Ball]], list[Ball]] | None = None
    entries: list[Entry] = field(default_factory=list)
    carried: set[Ball] = field(default_factory=set)
    wide: float = GROWTH
    narrowings: int = 0

    def step(self, op: Any, operands: Sequence[Ball], results: Sequence[Ball]) -> None:
        """Record a step, unless none of its results can move."""
        if any(_moves(ball) for ball in results):
            self.entries.append(Step(op, tuple(operands), tuple(results)))

    def row(self, source: Ball, index: int) -> Ball:
        """Return one row of a ball, and record it."""
        row = Ball(source.value[index, ...], source.radius[index, ...])
        if _moves(row):
            self.entries.append(Row(source, index, row))
        return row

    def stack(self, rows: Sequence[Ball], result: Ball) -> Ball:
        """Record that a ball consists of these rows, and return it."""
        if _moves(result):
            self.entries.append(Stack(tuple(rows), result))
        return result

    def carry(self, balls: Sequence[Ball]) -> list[Ball]:
        """Return the carry for the next iteration, narrowed if its radii have grown much."""
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
    """Return the largest radius, in roundings of its element; 0 if nothing moves."""
    if not _moves(ball):
        return 0.0
    size = modulus(ball.value)
    each = np.where((size > 0) & np.isfinite(size), size, np.inf)
    return float(np.max(ball.radius / each, initial=0.0, where=np.isfinite(ball.radius))) / unit(
        DType.of(ball.value.dtype)
    )


def _moves(ball: Ball) -> bool:
    return ball.value.dtype.kind not in "biu" and bool(ball.radius.any())
