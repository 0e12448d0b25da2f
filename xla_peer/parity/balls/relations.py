"""Properties of values that radii alone do not express: whether values are copies of other values, and their signs.

In every implementation, a maximum is a copy of one of the elements. The derivative of a maximum compares the elements
with it. If only one element can be the largest, this comparison is decided for balls of any radius. A square is never
negative, so its square root is not NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tenferro.facts import Fact, ops_with
from tenferro.ops import analytic as an
from tenferro.ops import elementwise as el
from tenferro.ops import reduction as re
from xla_peer.parity.balls.operands import Copy, Operands, outward, sign_of

__all__ = ["copies", "sign_of_results"]

MOVES = ops_with(Fact.MOVES | Fact.CARRIES)
KEEPS_SIGN = ops_with(Fact.KEEPS_SIGN)
KEEPS_NONNEGATIVE = ops_with(Fact.KEEPS_NONNEGATIVE)
NONNEGATIVE = ops_with(Fact.NONNEGATIVE)


def copies(operands: Operands) -> Copy | None:
    """Return the ball from which the result's elements are copied, and each element's position in that ball.

    If the ball is unknown, return None.
    """
    if len(operands.balls) != 1 or len(operands.results) != 1:
        return None
    (ball,) = operands.balls
    if type(operands.op) in MOVES and ball.copy is not None:
        places = operands.run(operands.op, ball.copy.places)
        return Copy(ball.copy.source, places)
    if isinstance(operands.op, re.ReduceMax | re.ReduceMin) and ball.radius.any():
        return Copy(ball, _only_candidates(operands))
    return None


def _only_candidates(operands: Operands) -> Any:
    """Return the row-major position of the only element that can be the extremum; -1 if several elements can."""
    (x,), (radius,), axes = operands.values, operands.radii, operands.op.axes
    sign = -1.0 if isinstance(operands.op, re.ReduceMin) else 1.0
    x, reach = sign * x.astype(np.float64), outward(radius)
    if not math.prod([x.shape[axis] for axis in axes]):
        return np.full(operands.results[0].shape, -1)
    least = np.max(x - reach, axis=axes, keepdims=True)
    may_be = ~(x + reach < least)  # a NaN may be the extremum
    places = np.where(may_be, np.arange(x.size).reshape(x.shape), -1).max(axis=axes)
    return np.where(np.count_nonzero(may_be, axis=axes) == 1, places, -1)


def sign_of_results(operands: Operands) -> int:
    """Return the sign that every element has in every implementation; see `Ball`."""
    op, balls = operands.op, [ball for ball in operands.balls if ball.value.size]
    if not balls:
        return sign_of(operands.results[0])
    if not operands.dtype.is_inexact:
        return 1 if operands.dtype.kind in "bu" else 0
    if any(y.dtype.kind == "c" for y in (*operands.values, *operands.results)):
        return 0
    if isinstance(op, el.Divide | an.Rsqrt) and (np.abs(balls[-1].value) <= balls[-1].radius).any():
        return 0  # the divisor may be -0, and 1 / -0 is -inf
    if type(op) in NONNEGATIVE or (isinstance(op, el.Multiply) and balls[0] is balls[1]):
        return 1
    if isinstance(op, el.Convert):
        return balls[0].sign
    numbers = [ball.sign for ball in balls if ball.value.dtype.kind not in "biu"]
    if isinstance(op, el.Negate):
        return -numbers[0]
    if type(op) in KEEPS_SIGN:
        return numbers[0] if len(set(numbers)) == 1 else 0
    return int(type(op) in KEEPS_NONNEGATIVE and min(numbers) > 0)
