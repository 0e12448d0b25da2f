"""Proven limits of the differences of outputs: the radii that `error_bound` computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.program import GraphProgram
from tenferro.types import DType
from xla_peer.parity.balls.enclosure import enclosed
from xla_peer.parity.balls.operands import Ball, outward, wide
from xla_peer.parity.comparison import NO_ALTERNATIVES, Allowance, Alternatives
from xla_peer.parity.ulps import modulus

__all__ = ["lost_bounds", "proven_limits"]

MOST_INTEGERS = 16
"""Maximum radius of a ball around an integer; the elements of larger balls are undecided."""


@np.errstate(all="ignore")
def proven_limits(
    program: GraphProgram, leaves: Sequence[Any], native: Sequence[Any]
) -> list[Allowance]:
    """Compute the allowed distance of each element from the native value such that all right results are within it."""
    balls, _ = enclosed(program, leaves)
    return [_allowance(ball, np.asarray(y)) for ball, y in zip(balls, native, strict=True)]


def lost_bounds(program: GraphProgram, leaves: Sequence[Any]) -> tuple[str, ...]:
    """Return a line of a report for each op without a bound; empty if all outputs have bounds."""
    balls, remarks = enclosed(program, leaves)
    if not any(np.isinf(ball.radius).any() for ball in balls):
        return ()
    return tuple([
        f"no bound is proven after {op}{f' at {line}' if line else ''}: elements {count}"
        for (op, line), count in remarks.unbounded.items()
    ])  # fmt: skip


def _allowance(ball: Ball, native: Any) -> Allowance:
    if DType.of(native.dtype).kind in "biu":
        return _among_integers(ball, native)
    x, y = wide(ball.value), wide(native)
    same = (x == y) | ((x != x) & (y != y))
    limit = outward(ball.radius + np.where(same, 0.0, modulus(x - y)))
    unbounded = ~np.isfinite(limit)
    limit = np.where(unbounded, np.finfo(np.float64).max, limit)
    return Allowance(limit, unbounded=unbounded if unbounded.any() else None)


def _among_integers(ball: Ball, native: Any) -> Allowance:
    """Return the allowed values of integers or bools: all other integers within each ball, or the other bool."""
    centre, radius = ball.value.astype(np.float64), ball.radius
    unbounded = radius > MOST_INTEGERS
    reach = np.where(unbounded, 0.0, radius)
    places: list[Any] = [NO_ALTERNATIVES.places]
    values: list[Any] = [np.zeros(0, native.dtype)]
    low, high = _range(native.dtype)
    for step in range(-MOST_INTEGERS, MOST_INTEGERS + 1):
        integers = centre + step
        (there,) = np.nonzero(
            (
                (abs(step) <= reach) & (integers >= low) & (integers <= high) & (integers != native)
            ).ravel()
        )
        places.append(there)
        values.append(integers.ravel()[there].astype(native.dtype))
    alternatives = Alternatives(np.concatenate(places), np.concatenate(values))
    if not len(alternatives.places):
        alternatives = NO_ALTERNATIVES
    return Allowance(
        np.zeros(native.shape), alternatives, unbounded=unbounded if unbounded.any() else None
    )


def _range(dtype: Any) -> tuple[float, float]:
    if dtype.kind == "b":
        return 0.0, 1.0
    info = np.iinfo(dtype)
    return float(info.min), float(info.max)
